//! Seals and unseals credentials.
