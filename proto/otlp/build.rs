//! Compiles the `.proto` files of OpenTelemetry without `protoc`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=opentelemetry");
    let services = ["trace", "metrics", "logs"]
        .map(|signal| format!("opentelemetry/proto/collector/{signal}/v1/{signal}_service.proto"));
    let set = protox::compile(services, ["."])?;
    tonic_prost_build::configure()
        .include_file("otlp.rs")
        // The gateway makes its calls without them, in one way for all signals.
        .build_client(false)
        // They are written for another generator of documentation.
        .disable_comments(["."])
        .compile_fds(set)?;
    Ok(())
}
