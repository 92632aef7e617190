//! The fetch-proxy alone.

use std::process::ExitCode;

use fetch_proxy::egress;
use kernel::ServiceName;
use runtime::{
    process::{self, KeysSettings},
    tls::TlsSettings,
};

fn main() -> ExitCode {
    if let Some(code) = reader::child_main() {
        return code;
    }
    process::run(ServiceName::FetchProxy, async |context| {
        let connector = fetch_proxy::connector(&context.settings, &context.lifecycle)?;
        let deps = fetch_proxy::Deps {
            connector,
            reader: fetch_proxy::reader()?,
            clock: context.clock,
        };
        let egress = egress::Deps {
            connector: deps.connector.clone(),
            trust: context.trust,
            keys: context.settings.section::<KeysSettings>("keys")?.origin(),
            tls: context.settings.section::<TlsSettings>("tls")?.server()?,
        };
        let config = context.settings.section("egress")?;
        egress::listen(config, egress, &context.lifecycle).await?;
        let config = context.settings.section("fetch")?;
        Ok(fetch_proxy::build(config, deps, &context.lifecycle))
    })
}
