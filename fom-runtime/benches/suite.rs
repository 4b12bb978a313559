//! Runs every question, each in a process of its own, and ends with one table. `cargo bench` at the root of the
//! repository builds and runs this.

use std::{
    fs,
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio, exit},
    time::{Duration, Instant},
};

use kit::{Answer, Record, table};
use serde::{Serialize, de::DeserializeOwned};

/// The questions in the order of the table, each with its approximate duration in seconds.
const QUESTIONS: &[(&str, u64)] = &[
    ("spawn", 90),
    ("chained", 80),
    ("parked", 90),
    ("growth", 85),
    ("deadlines", 280),
    ("blocking", 60),
    ("brackets", 20),
    ("wake", 60),
    ("idle", 20),
    ("watching", 80),
    ("step", 30),
    ("durable", 85),
    ("recovery", 45),
    ("keyed", 75),
];

const USAGE: &str = "\
cargo bench [-- [--quick] [--out DIR] [QUESTION]..]
  QUESTION   only these (all without); one of:";

struct Args {
    quick: bool,
    out: PathBuf,
    questions: Vec<&'static (&'static str, u64)>,
}

fn args() -> Args {
    let mut args = Args {
        quick: false,
        out: PathBuf::from("target/bench"),
        questions: Vec::new(),
    };
    let mut given = std::env::args().skip(1);
    while let Some(arg) = given.next() {
        match &*arg {
            "--quick" => args.quick = true,
            "--out" => args.out = given.next().unwrap_or_default().into(),
            name => match QUESTIONS.iter().find(|(known, _)| *known == name) {
                Some(question) => args.questions.push(question),
                None => {
                    let known: Vec<_> = QUESTIONS.iter().map(|(name, _)| *name).collect();
                    eprintln!("{name}: what is this?\n{USAGE} {}", known.join(", "));
                    exit(2);
                }
            },
        }
    }
    if args.questions.is_empty() {
        args.questions = QUESTIONS.iter().collect();
    }
    args
}

/// Reads one value from each line; returns none if there is no such file.
fn lines<T: DeserializeOwned>(file: &Path) -> io::Result<Vec<T>> {
    let text = match fs::read_to_string(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        read => read?,
    };
    let lines = text.lines().filter(|line| !line.is_empty());
    Ok(lines.map(serde_json::from_str).collect::<Result<_, _>>()?)
}

fn write_lines<T: Serialize>(file: &Path, values: &[T]) -> io::Result<()> {
    let mut text = String::new();
    for value in values {
        text += &serde_json::to_string(value)?;
        text.push('\n');
    }
    fs::write(file, text)
}

fn clock(time: Duration) -> String {
    format!("{}:{:02}", time.as_secs() / 60, time.as_secs() % 60)
}

fn main() -> ExitCode {
    let args = args();
    match run(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns whether all questions were answered.
fn run(args: &Args) -> io::Result<bool> {
    fs::create_dir_all(&args.out)?;
    let results = args.out.join("results.jsonl");
    let answers_file = args.out.join("answers.jsonl");
    // The answers of other questions stay, so that one question can be asked again alone.
    let asked = |name: &str| args.questions.iter().any(|(asked, _)| *asked == name);
    let mut kept: Vec<Record> = lines(&results)?;
    kept.retain(|record| !asked(&record.question));
    write_lines(&results, &kept)?;
    let mut earlier: Vec<Answer> = lines(&answers_file)?;
    earlier.retain(|answer| !asked(&answer.program));
    let programs = std::env::current_exe()?;
    let begun = Instant::now();
    let expected = |questions: &[&(&str, u64)]| {
        let seconds: u64 = questions.iter().map(|(_, seconds)| seconds).sum();
        Duration::from_secs(if args.quick { seconds / 10 } else { seconds })
    };
    let total = args.questions.len();
    let mut answers: Vec<Answer> = Vec::new();
    let mut failed = Vec::new();
    for (n, (name, _)) in args.questions.iter().enumerate() {
        eprintln!(
            "{name}: {} of {total}, {} since the start, about {} left",
            n + 1,
            clock(begun.elapsed()),
            clock(expected(&args.questions[n..])),
        );
        let mut command = Command::new(programs.with_file_name(name));
        command
            .args(["--json", "--out"])
            .arg(&results)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        if args.quick {
            command.arg("--quick");
        }
        let mut child = command.spawn()?;
        if let Some(said) = child.stdout.take() {
            for line in BufReader::new(said).lines() {
                answers.push(serde_json::from_str(&line?)?);
            }
        }
        if !child.wait()?.success() {
            failed.push(*name);
        }
    }
    let mut all: Vec<&Answer> = earlier.iter().chain(&answers).collect();
    all.sort_by_key(|answer| {
        let known = QUESTIONS.iter();
        known
            .map(|(name, _)| *name)
            .position(|name| name == answer.program)
    });
    write_lines(&answers_file, &all)?;
    eprintln!(
        "done in {}; every measurement is in {}",
        clock(begun.elapsed()),
        results.display()
    );
    if args.quick {
        eprintln!("of small sizes, good for nothing but to see that it runs");
    }
    for name in &failed {
        eprintln!("{name}: FAILED");
    }
    println!("{}", table(&answers));
    Ok(failed.is_empty())
}
