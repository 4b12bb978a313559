//! `crash`: kills a program that runs foms many times, restarts it each time, and reports what it found. See `crash
//! --help`.

use std::{
    io::{self, IsTerminal},
    process::ExitCode,
    time::Duration,
};

use fom_crash::{Broken, Means, Options, child, run};

const HELP: &str = "\
Kills a program that runs foms, again and again, at random and at named points, starts it again on the same journal, and checks
what was heard of it against what comes back. After each kill it removes files from copies of the journal, and the journal must report that. Ends with 1 when a promise was broken; journal and history stay then.

    crash [options]

    --kills N         how many kills [300]
    --by MEANS        kill: the process is killed, and the system goes on [default]
                      power-cut: the bytes that are not synced reach the disk in part, or not at all
                      failing-disk: the same as kill, with a disk that fails in each life
                      full-disk: the same as kill, with a disk that is full for a while in each life
    --minutes N       go on for so long, if that takes longer than the kills
    --seed N          what follows from it: points, times, faults of the disk, localities [the process's number].
                      What runs beside what does not, so the same seed may find another thing.
    --directory DIR   where journal and history are [one of its own, removed when all went well]
    --broken HOW      break the journal on purpose, to see that it is found: ";

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let done = match args.split_first() {
        Some((first, [])) if first == "child" => child().map(|()| true),
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
        means: Means::Kill,
        // A line now and then, on a terminal.
        progress: io::stdout().is_terminal(),
    };
    let number = |word: &str| {
        word.parse::<u64>()
            .map_err(|error| format!("{word}: {error}"))
    };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if matches!(arg.as_str(), "--help" | "-h") {
            println!("{HELP}{}", Broken::names().collect::<Vec<_>>().join(", "));
            return Ok(true);
        }
        let known = [
            "--kills",
            "--by",
            "--minutes",
            "--seed",
            "--directory",
            "--broken",
        ];
        if !known.contains(&arg.as_str()) {
            return Err(format!("{arg} is unknown; see --help"));
        }
        let value = args
            .next()
            .ok_or(format!("{arg} needs a value; see --help"))?;
        match arg.as_str() {
            "--kills" => options.kills = number(value)?,
            "--by" => options.means = value.parse()?,
            "--minutes" => options.at_least = Duration::from_secs(60 * number(value)?),
            "--seed" => options.seed = number(value)?,
            "--directory" => options.directory = value.into(),
            _ => options.broken = value.parse()?,
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
            "\nseed {}; journal and history are in {}",
            options.seed,
            options.directory.display()
        );
    }
    Ok(report.violations.is_empty())
}
