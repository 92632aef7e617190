//! The house's rules, as far as a program can check them. Each failure names the rule.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

const SERVICES: [&str; 6] = [
    "turn-orchestrator",
    "tool-registry",
    "mcp-gateway",
    "fetch-proxy",
    "sandbox-broker",
    "edge",
];

/// The longest file, in lines without tests.
const FILE_LINES: usize = 500;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--offline",
            "--all-features",
        ])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What each package of the workspace names in `[dependencies]` and `[build-dependencies]`.
fn direct_dependencies(metadata: &Value) -> BTreeMap<String, BTreeSet<String>> {
    let members: BTreeSet<&str> = metadata["workspace_members"]
        .as_array()
        .unwrap()
        .iter()
        .map(|id| id.as_str().unwrap())
        .collect();
    metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|package| members.contains(package["id"].as_str().unwrap()))
        .map(|package| {
            let names = package["dependencies"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|dependency| dependency["kind"].as_str() != Some("dev"))
                .map(|dependency| dependency["name"].as_str().unwrap().to_owned())
                .collect();
            (package["name"].as_str().unwrap().to_owned(), names)
        })
        .collect()
}

/// Everything that a package links, itself included.
fn linked(metadata: &Value, package: &str) -> BTreeSet<String> {
    let name_of: BTreeMap<&str, &str> = metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|package| {
            (
                package["id"].as_str().unwrap(),
                package["name"].as_str().unwrap(),
            )
        })
        .collect();
    let nodes: BTreeMap<&str, &Value> = metadata["resolve"]["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| (node["id"].as_str().unwrap(), node))
        .collect();
    let start = *name_of
        .iter()
        .find(|(_, name)| **name == package)
        .unwrap()
        .0;
    let mut seen = BTreeSet::from([start]);
    let mut open = vec![start];
    while let Some(id) = open.pop() {
        for dependency in nodes[id]["deps"].as_array().unwrap() {
            let normal = dependency["dep_kinds"]
                .as_array()
                .unwrap()
                .iter()
                .any(|kind| kind["kind"].is_null());
            let id = dependency["pkg"].as_str().unwrap();
            if normal && seen.insert(id) {
                open.push(id);
            }
        }
    }
    seen.into_iter().map(|id| name_of[id].to_owned()).collect()
}

fn rust_files() -> Vec<PathBuf> {
    fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, files);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    let mut files = Vec::new();
    walk(&root().join("crates"), &mut files);
    walk(&root().join("migrations"), &mut files);
    files
}

#[test]
fn each_heavy_library_has_one_home() {
    let homes: [(&str, &[&str]); 16] = [
        ("bollard", &["sandbox-broker"]),
        ("rmcp", &["mcp-gateway"]),
        ("hickory-resolver", &["outbound"]),
        ("ipnet", &["outbound"]),
        (
            "sea-orm",
            &["store", "migrations", "tool-registry", "turn-orchestrator"],
        ),
        ("reqwest", &["llm", "agentsville"]),
        ("jsonschema", &["turn-orchestrator"]),
        ("redis", &[]),
        ("deadpool-redis", &["coordination"]),
        // What parses hostile pages runs in the reader's own process, under its limits.
        ("chardetng", &["reader"]),
        ("dom_smoothie", &["reader"]),
        ("encoding_rs", &["reader"]),
        ("html5ever", &["reader"]),
        ("lopdf", &["reader"]),
        ("pdf-extract", &["reader"]),
        ("brotli-decompressor", &["fetch-proxy"]),
    ];
    for (package, dependencies) in direct_dependencies(&metadata()) {
        for (library, homes) in homes {
            assert!(
                !dependencies.contains(library) || homes.contains(&package.as_str()),
                "{package} depends on {library}, whose only homes are {homes:?}"
            );
        }
    }
}

#[test]
fn services_meet_through_their_contracts_alone() {
    let dependencies = direct_dependencies(&metadata());
    for service in SERVICES {
        for (package, names) in &dependencies {
            assert!(
                !names.contains(service) || package == "agentsville",
                "{package} depends on the service {service}; only agentsville may"
            );
        }
    }
}

#[test]
fn the_kernel_knows_no_machinery() {
    let linked = linked(&metadata(), "kernel");
    for machinery in [
        "tokio", "tonic", "axum", "hyper", "sea-orm", "sqlx", "reqwest", "tracing",
    ] {
        assert!(!linked.contains(machinery), "kernel links {machinery}");
    }
}

#[test]
fn fetch_proxy_links_no_database_no_provider_and_no_vault() {
    let linked = linked(&metadata(), "fetch-proxy");
    for stranger in [
        "store",
        "migrations",
        "sea-orm",
        "sqlx-core",
        "libsqlite3-sys",
        "llm",
        "reqwest",
        "vault",
        "aes-gcm",
        "coordination",
        "redis",
    ] {
        assert!(!linked.contains(stranger), "fetch-proxy links {stranger}");
    }
}

#[test]
fn mechanisms_know_nothing_of_the_services() {
    let metadata = metadata();
    for mechanism in [
        "llm",
        "outbound",
        "reader",
        "vault",
        "coordination",
        "store",
        "runtime",
    ] {
        let linked = linked(&metadata, mechanism);
        for service in SERVICES.into_iter().chain(["agentsville"]) {
            assert!(!linked.contains(service), "{mechanism} links {service}");
        }
    }
}

#[test]
fn the_guard_and_the_reader_stand_alone() {
    let metadata = metadata();
    for (mechanism, strangers) in [
        (
            "outbound",
            &[
                "proto", "tonic", "runtime", "store", "vault", "llm", "reqwest", "reader",
            ][..],
        ),
        // What reads pages has no way to fetch one.
        (
            "reader",
            &[
                "proto",
                "tonic",
                "runtime",
                "store",
                "vault",
                "llm",
                "reqwest",
                "outbound",
                "hyper",
                "rustls",
                "hickory-resolver",
            ],
        ),
    ] {
        let linked = linked(&metadata, mechanism);
        for stranger in strangers {
            assert!(!linked.contains(*stranger), "{mechanism} links {stranger}");
        }
    }
}

#[test]
fn no_service_links_another() {
    let metadata = metadata();
    for package in direct_dependencies(&metadata)
        .into_keys()
        .filter(|package| SERVICES.contains(&package.as_str()))
    {
        let linked = linked(&metadata, &package);
        for other in SERVICES.into_iter().filter(|other| *other != package) {
            assert!(!linked.contains(other), "{package} links {other}");
        }
    }
}

#[test]
fn ring_is_the_only_cryptography_provider() {
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    for provider in ["aws-lc-rs", "aws-lc-sys", "openssl-sys", "native-tls"] {
        assert!(
            !lock.contains(&format!("name = \"{provider}\"")),
            "{provider} is in Cargo.lock"
        );
    }
}

#[test]
fn every_crate_follows_the_lints() {
    for entry in fs::read_dir(root().join("crates"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .chain([root().join("migrations")])
    {
        // Generated code follows nobody's lints.
        if entry.ends_with("proto") {
            continue;
        }
        let manifest = fs::read_to_string(entry.join("Cargo.toml")).unwrap();
        assert!(
            manifest.contains("[lints]\nworkspace = true"),
            "{} does not inherit the lints",
            entry.display()
        );
    }
}

#[test]
fn no_file_is_longer_than_a_reader_can_hold() {
    for path in rust_files() {
        let in_tests =
            path.components().any(|part| part.as_os_str() == "tests") || path.ends_with("tests.rs");
        if in_tests {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let code = text
            .split("\n#[cfg(test)]\nmod tests {")
            .next()
            .unwrap_or_default();
        let lines = code.lines().count();
        assert!(
            lines <= FILE_LINES,
            "{} has {lines} lines without tests; {FILE_LINES} are the most",
            path.display()
        );
    }
}

#[test]
fn modules_have_no_mod_rs_and_exceptions_have_reasons() {
    for path in rust_files() {
        // Tests of a crate that share helpers cannot do without.
        assert!(
            !path.ends_with("mod.rs"),
            "{}: write the module beside its folder",
            path.display()
        );
        let text = fs::read_to_string(&path).unwrap();
        let allow = ["#[al", "low("].concat();
        assert!(
            !text.contains(&allow),
            "{}: use #[expect(…, reason = …)]",
            path.display()
        );
    }
}

#[test]
fn every_contract_of_the_design_is_written() {
    let descriptors = String::from_utf8_lossy(proto::FILE_DESCRIPTOR_SET).into_owned();
    for rpc in [
        "CreateNpc",
        "AddGrant",
        "CreateSkill",
        "CreateMcpServer",
        "CreatePlayer",
        "ListAuditRows",
        "ResolveNpc",
        "AuthenticatePlayer",
        "ResolveMcpServer",
        "SaveTestResult",
        "SavePins",
        "AcceptPins",
        "GetSkill",
        "StartTurn",
        "WatchTurn",
        "AbortTurn",
        "DescribeTools",
        "GetConversation",
        "DeleteMessage",
        "SearchMemories",
        "TestServer",
        "ListTools",
        "CallTool",
        "Fetch",
        "Ensure",
        "Exec",
        "ReadFile",
        "WriteFile",
        "ListFiles",
        "InstallPackage",
        "Browse",
        "Status",
        "Reset",
    ] {
        assert!(
            descriptors.contains(&format!("{rpc}Request")),
            "no contract has {rpc}"
        );
    }
}
