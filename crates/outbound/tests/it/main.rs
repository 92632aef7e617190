//! The guard against the corpus, and the connector against scripted DNS and web servers on loopback.
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a helper of a test fails the test"
)]

mod connector;
mod connector_answers;
mod connector_bodies;
mod connector_lane;
mod connector_races;
mod connector_tls;
mod connector_trials;
mod corpus;
mod docs;
mod own;
mod resolver;
mod support;
mod trials;
