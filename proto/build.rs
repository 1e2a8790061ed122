//! Compiles the `.proto` files without `protoc`, and writes the descriptor set for gRPC reflection.

use std::path::PathBuf;

#[expect(clippy::disallowed_methods, reason = "cargo passes OUT_DIR in the environment")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=tollgate");
    let set = protox::compile(
        [
            "accounts",
            "people",
            "keys",
            "plans",
            "models",
            "upstreams",
            "usage",
            "audit",
            "ledger",
            "maintenance",
            "nodes",
            "traffic",
            "diagnostics",
            "catalogue",
        ]
        .map(|noun| format!("tollgate/admin/v1/{noun}.proto")),
        ["."],
    )?;
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    std::fs::write(out.join("descriptor.bin"), prost::Message::encode_to_vec(&set))?;
    tonic_prost_build::configure().compile_fds(set)?;
    Ok(())
}
