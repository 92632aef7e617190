# Recipes for people; the scripts behind them work without `just`.

# What has to hold before a change lands.
ci:
    .ci/run

# Every test, or those that nextest's arguments select.
test *args:
    scripts/test {{ args }}

# Every check that runs no test.
lint:
    scripts/lint

# Formats the code.
fmt:
    cargo fmt --all

# Checks one crate quickly.
check crate:
    cargo check -p {{ crate }} --all-targets

# A Village on this machine.
run *args:
    cargo run --release -- {{ args }}

# One rehearsed turn.
demo *args:
    cargo run --release -- demo {{ args }}

# A benchmark, by name: turn, fetch, mcp. `--quick` runs one round.
bench name *args:
    cargo build --release --package agentsville --package fetch-proxy --package mcp-gateway --package testkit --package tool-registry --bins
    [ {{ name }} != fetch ] || scripts/setup-fetch-peer
    [ {{ name }} != mcp ] || scripts/setup-mcp-peers
    cargo bench --package e2e --bench {{ name }} -- {{ args }}

# All IPv4 addresses, each in three spellings, and 100,000,000 IPv6 addresses: the guard against an oracle of another make.
guard-exhaustive *args:
    cargo run --release --package outbound --example guard -- exhaustive {{ args }}

# Property tests for long: `just fuzz guard [SECONDS [SEED]]`, 600 seconds unless told otherwise.
fuzz what *args:
    cargo run --release --package outbound --example {{ what }} -- fuzz {{ args }}

# Writes changed snapshots.
snapshot *args:
    INSTA_UPDATE=always cargo nextest run {{ args }}
