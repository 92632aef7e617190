//! The generated contracts of the services.
