//! The guard where it can be fooled for real: programs of this build in a network namespace, with an Internet around them that
//! holds every address, public and private, and a DNS server that says what it likes.

mod described;
mod machine;
mod odd_answers;
mod raw;
mod rebinding;
mod setup;
mod vectors;
