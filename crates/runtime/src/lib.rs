//! What every process needs: settings, telemetry, lifecycle, the gRPC host, transport between services, caller tokens.
//!
//! A service's `main.rs` is [`process::run`] and its own `build`. The same [`GrpcService`] is put on a [`host::Host`] or embedded
//! with [`Transport::in_process`]; deadline, caller, tracing, panic and size layers are in it, so that they hold on both paths.
//!
//! **Architecture invariant:** nothing here knows what a service does, and the environment is read in [`process`] alone.
//! The only process-wide state is the tracing subscriber.

pub mod admin;
pub mod attributes;
pub mod config;
pub mod event;
pub mod exposure;
pub mod host;
pub mod lifecycle;
pub mod listeners;
pub mod process;
pub mod readiness;
pub mod server;
pub mod status;
pub mod telemetry;
pub mod tls;
pub mod token;
pub mod transport;

pub use config::{Settings, SettingsError, Sources};
pub use event::{EventKind, Outcome, Value, WideEvent};
pub use host::Host;
pub use lifecycle::{Lifecycle, Signals, Stopped};
pub use readiness::{Readiness, ReadinessGuard};
pub use server::{GrpcServer, GrpcService, ServerLayers, caller, remaining};
pub use token::{Issuer, SigningKey, Trust};
pub use transport::{CallerChannel, Peer, Transport};

/// Any error, where a service's own type does not matter any more.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
