//! it
fn main() {}
