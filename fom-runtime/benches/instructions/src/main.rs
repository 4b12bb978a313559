//! `cargo run --release [-- --check | --bless | -- NAME..]`: prints the counts, compares them with the recorded ones,
//! records them, or prints only the named ones.

use std::{io, path::Path, process::ExitCode};

use fom_instructions::{Counter, MEASURES, compare, write};

fn main() -> ExitCode {
    fom_instructions::run_if_counted();
    match count() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn count() -> io::Result<ExitCode> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (flags, names): (Vec<&str>, Vec<&str>) = args
        .iter()
        .map(String::as_str)
        .partition(|arg| arg.starts_with("--"));
    let (check, bless) = match &*flags {
        [] => (false, false),
        ["--check"] => (true, false),
        ["--bless"] if names.is_empty() => (false, true),
        _ => {
            eprintln!("usage: instructions [--check | --bless] [NAME..]");
            return Ok(ExitCode::from(2));
        }
    };
    let mut counter = Counter::default();
    let mut counts = Vec::new();
    for measure in MEASURES {
        if names.is_empty() || names.contains(&measure.name) {
            counts.push((measure, counter.count(measure)?));
        }
    }
    let text = write(&counts);
    print!("{text}");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../instructions.txt");
    if bless {
        std::fs::write(&file, &text)?;
    }
    if check {
        let differ = compare(&file, &counts)?;
        if !differ.is_empty() {
            println!("\nnot what benches/instructions.txt says:");
            for line in &differ {
                println!("  {line}");
            }
            println!(
                "\nif that is meant: `cargo run --release -- --bless` in benches/instructions"
            );
            return Ok(ExitCode::FAILURE);
        }
        println!("\nas recorded");
    }
    Ok(ExitCode::SUCCESS)
}
