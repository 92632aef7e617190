//! What every process needs: config, telemetry, lifecycle, gRPC host, transport, caller tokens.
