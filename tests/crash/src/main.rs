//! `crash [--kills N] [--minutes N] [--seed N] [--directory DIR] [--broken HOW]`: kills a program that runs foms so many times, starts it
//! again each time, and says what it found. Ends with an error when a promise was broken; journal and history stay then.

use std::{process::ExitCode, time::Duration};

use fom_crash::{Broken, Options, child, run};

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let done = match args.split_first() {
        Some((first, rest)) if first == "child" => child(rest).map(|()| true),
        _ => parent(&args),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("crash: {error}");
            ExitCode::from(2)
        }
    }
}

fn parent(args: &[String]) -> Result<bool, String> {
    let mut options = Options {
        child: std::env::current_exe().map_err(|error| error.to_string())?,
        directory: std::env::temp_dir().join(format!("fom-crash-{}", std::process::id())),
        kills: 300,
        at_least: Duration::ZERO,
        seed: u64::from(std::process::id()),
        broken: Broken::Not,
        progress: true,
    };
    let number = |word: &str| {
        word.parse::<u64>()
            .map_err(|error| format!("{word}: {error}"))
    };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let value = args.next().ok_or(format!("{arg} needs a value"))?;
        match arg.as_str() {
            "--kills" => options.kills = number(value)?,
            "--minutes" => options.at_least = Duration::from_secs(60 * number(value)?),
            "--seed" => options.seed = number(value)?,
            "--directory" => options.directory = value.into(),
            "--broken" => options.broken = value.parse()?,
            _ => return Err(format!("{arg} is unknown; see the top of this file")),
        }
    }
    println!("seed {}, in {}", options.seed, options.directory.display());
    let report = run(&options).map_err(|error| error.to_string())?;
    println!("\n{report}");
    for violation in &report.violations {
        println!("\n{violation}");
    }
    if !report.violations.is_empty() {
        println!(
            "\njournal and history are in {}",
            options.directory.display()
        );
    }
    Ok(report.violations.is_empty())
}
