//! The settings' section `mcp`.

use std::time::Duration;

use serde::Deserialize;

use crate::Error;

/// Section `mcp` of the settings. `deploy/config.default.toml` says what each is for.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the file of defaults documents every setting")]
pub struct Config {
    pub idle_seconds: u64,
    pub probe_after_seconds: u64,
    pub connect_seconds: u64,
    pub first_start_seconds: u64,
    pub list_seconds: u64,
    pub list_fresh_seconds: u64,
    pub call_seconds: u64,
    pub call_total_seconds: u64,
    pub max_clients: usize,
    pub max_clients_per_server: usize,
    pub calls_per_client: usize,
    pub tools_per_server: usize,
    pub max_listed_tools: usize,
    pub max_pages: usize,
    pub list_bytes: usize,
    pub definition_bytes: usize,
    pub schema_depth: usize,
    pub answer_bytes: usize,
    pub result_bytes: usize,
    pub media_bytes: usize,
    pub result_media_bytes: usize,
}

impl Default for Config {
    fn default() -> Self {
        const KIB: usize = 1_024;
        const MIB: usize = 1_024 * KIB;
        Self {
            idle_seconds: 300,
            probe_after_seconds: 60,
            connect_seconds: 10,
            first_start_seconds: 120,
            list_seconds: 10,
            list_fresh_seconds: 60,
            call_seconds: 60,
            call_total_seconds: 300,
            max_clients: 256,
            max_clients_per_server: 16,
            calls_per_client: 64,
            tools_per_server: 64,
            max_listed_tools: 4_096,
            max_pages: 64,
            list_bytes: 16 * MIB,
            definition_bytes: 64 * KIB,
            schema_depth: 32,
            answer_bytes: 16 * MIB,
            result_bytes: MIB,
            media_bytes: 4 * MIB,
            result_media_bytes: 6 * MIB,
        }
    }
}

impl Config {
    /// Refuses what is out of range, naming the setting.
    ///
    /// # Errors
    /// [`Error::Setting`].
    pub fn check(&self) -> Result<(), Error> {
        const MIB: u64 = 1_024 * 1_024;
        let count = |value: usize| value as u64;
        let ranges = [
            ("idle_seconds", self.idle_seconds, 86_400),
            ("probe_after_seconds", self.probe_after_seconds, 86_400),
            ("connect_seconds", self.connect_seconds, 300),
            ("first_start_seconds", self.first_start_seconds, 1_800),
            ("list_seconds", self.list_seconds, 300),
            ("list_fresh_seconds", self.list_fresh_seconds, 86_400),
            ("call_seconds", self.call_seconds, 3_600),
            ("call_total_seconds", self.call_total_seconds, 3_600),
            ("max_clients", count(self.max_clients), 10_000),
            (
                "max_clients_per_server",
                count(self.max_clients_per_server),
                10_000,
            ),
            ("calls_per_client", count(self.calls_per_client), 1_024),
            ("tools_per_server", count(self.tools_per_server), 128),
            ("max_listed_tools", count(self.max_listed_tools), 65_536),
            ("max_pages", count(self.max_pages), 1_024),
            ("list_bytes", count(self.list_bytes), 64 * MIB),
            ("definition_bytes", count(self.definition_bytes), MIB),
            ("schema_depth", count(self.schema_depth), 64),
            ("answer_bytes", count(self.answer_bytes), 256 * MIB),
            ("result_bytes", count(self.result_bytes), 4 * MIB),
            ("media_bytes", count(self.media_bytes), 4 * MIB),
            (
                "result_media_bytes",
                count(self.result_media_bytes),
                6 * MIB,
            ),
        ];
        for (key, value, most) in ranges {
            if value == 0 || value > most {
                return Err(Error::Setting(format!(
                    "mcp.{key} is {value}; set it to 1 to {most}"
                )));
            }
        }
        Ok(())
    }

    /// The longest wait for a connection and its handshake.
    pub fn connect(&self) -> Duration {
        Duration::from_secs(self.connect_seconds)
    }
}
