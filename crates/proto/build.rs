//! Compiles `proto/` with protox: no `protoc` is needed, and nothing generated is checked in.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use prost::Message as _;

/// Messages with secrets in them: `src/redacted.rs` writes their `Debug`.
const SECRET: [&str; 6] = [
    "agentsville.registry.v1.AuthenticatePlayerRequest",
    "agentsville.registry.v1.CreateMcpServerRequest",
    "agentsville.registry.v1.CreatePlayerResponse",
    "agentsville.registry.v1.NamedSecret",
    "agentsville.registry.v1.UpdateMcpServerRequest",
    "agentsville.registry.v1.UpdatePlayerResponse",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto");
    println!("cargo:rerun-if-changed={}", root.display());
    let mut files = Vec::new();
    collect(&root, &mut files)?;
    files.sort();
    let descriptors = protox::compile(&files, [&root])?;
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    fs::write(out.join("descriptor.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure()
        .bytes(".")
        .skip_debug(SECRET)
        .compile_fds(descriptors)?;
    Ok(())
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path
            .extension()
            .is_some_and(|extension| extension == "proto")
        {
            files.push(path);
        }
    }
    Ok(())
}
