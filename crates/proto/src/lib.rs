//! The generated contracts of the services.
//!
//! **Architecture invariant:** generated code only, and `Debug` of the messages that carry secrets, which shows none. Meaning, validation and conversions live in each service's `grpc.rs`.
// Generated code does not follow the house's lints, so this crate does not inherit them.
#![forbid(unsafe_code)]
#![expect(
    clippy::large_enum_variant,
    reason = "prost lays out a oneof as it is written"
)]

mod redacted;

/// Every contract as one encoded `FileDescriptorSet`, for gRPC reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptor.bin"));

/// NPCs, Grants, MCP Servers, Skills, Players, the audit log.
pub mod registry {
    /// Version 1.
    pub mod v1 {
        tonic::include_proto!("agentsville.registry.v1");
    }
}

/// Turns, Conversations, Memories.
pub mod turn {
    /// Version 1.
    pub mod v1 {
        tonic::include_proto!("agentsville.turn.v1");
    }
}

/// The MCP gateway.
pub mod mcp {
    /// Version 1.
    pub mod v1 {
        tonic::include_proto!("agentsville.mcp.v1");
    }
}

/// Guarded outbound fetch.
pub mod fetch {
    /// Version 1.
    pub mod v1 {
        tonic::include_proto!("agentsville.fetch.v1");
    }
}

/// Containers of NPCs.
pub mod sandbox {
    /// Version 1.
    pub mod v1 {
        tonic::include_proto!("agentsville.sandbox.v1");
    }
}
