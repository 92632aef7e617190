//! The fetch-proxy alone.

use std::process::ExitCode;

use kernel::ServiceName;
use runtime::process;

fn main() -> ExitCode {
    if let Some(code) = reader::child_main() {
        return code;
    }
    process::run(ServiceName::FetchProxy, async |context| {
        let connector = fetch_proxy::connector(&context.settings, &context.lifecycle)?;
        let deps = fetch_proxy::Deps {
            connector,
            clock: context.clock,
        };
        let config = context.settings.section("fetch")?;
        Ok(fetch_proxy::build(config, deps, &context.lifecycle))
    })
}
