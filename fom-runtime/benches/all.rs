//! `cargo bench`: builds the benchmarks and runs them. They are a package of their own, so that no other build knows
//! the peers. The arguments after `--` go to `suite.rs`.

use std::{
    env,
    path::Path,
    process::{Command, ExitCode},
};

fn main() -> ExitCode {
    let mut args: Vec<_> = env::args_os().skip(1).collect();
    let before = args.len();
    args.retain(|arg| arg != "--bench");
    if args.len() == before {
        // `cargo test --benches`: there is nothing to test here.
        return ExitCode::SUCCESS;
    }
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("fom-runtime/benches/Cargo.toml");
    // Beside the `tmp` that cargo makes for its benches.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("bench");
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    eprintln!("building the benchmarks and the peers: some minutes the first time");
    let built = Command::new(cargo)
        .args([
            "build",
            "--release",
            "--locked",
            "--bins",
            "--manifest-path",
        ])
        .arg(&manifest)
        .arg("--target-dir")
        .arg(&target)
        // The benchmarks run on this machine.
        .env_remove("CARGO_BUILD_TARGET")
        .status();
    let run = |status: std::io::Result<std::process::ExitStatus>, what: &str| match status {
        Ok(status) if status.success() => true,
        Ok(status) => {
            eprintln!("{what}: {status}");
            false
        }
        Err(error) => {
            eprintln!("{what}: {error}");
            false
        }
    };
    if !run(built, "building the benchmarks") {
        return ExitCode::FAILURE;
    }
    let ran = Command::new(target.join("release/suite"))
        .arg("--out")
        .arg(&target)
        .args(args)
        .status();
    if run(ran, "the benchmarks") {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
