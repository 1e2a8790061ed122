//! Compiles the `.proto` files of OpenTelemetry without `protoc`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=opentelemetry");
    let services = ["trace", "metrics", "logs"]
        .map(|signal| format!("opentelemetry/proto/collector/{signal}/v1/{signal}_service.proto"));
    let mut set = protox::compile(services, ["."])?;
    for file in &mut set.file {
        // Without comments, which are written for another generator of documentation.
        file.source_code_info = None;
    }
    tonic_prost_build::configure()
        .include_file("otlp.rs")
        // The gateway makes its calls without them, in one way for all signals.
        .build_client(false)
        .compile_fds(set)?;
    Ok(())
}
