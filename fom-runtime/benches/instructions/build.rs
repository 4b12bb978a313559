//! Records the compiler of this build, because counts depend on it.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("-V").output();
    let version = version.map(|out| String::from_utf8_lossy(&out.stdout).trim().to_owned());
    println!(
        "cargo::rustc-env=FOM_RUSTC={}",
        version.unwrap_or_else(|_| "rustc, unknown".into())
    );
}
