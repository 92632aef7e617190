//! The address guard, and connections that go only where it allows.
