//! Runs every question, each in a process of its own, and ends with one table. `cargo bench` at the root of the repository
//! builds and runs this.

use std::{
    fs,
    io::{self, BufRead, BufReader},
    path::PathBuf,
    process::{Command, ExitCode, Stdio, exit},
    time::{Duration, Instant},
};

use kit::{Answer, table};

/// The questions in the order of the table, and about how many seconds each takes.
const QUESTIONS: &[(&str, u64)] = &[
    ("spawn", 90),
    ("chained", 80),
    ("parked", 45),
    ("growth", 85),
    ("deadlines", 190),
    ("blocking", 60),
    ("brackets", 20),
    ("wake", 60),
    ("idle", 20),
    ("step", 30),
    ("durable", 85),
    ("recovery", 45),
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

/// Whether all questions were answered.
fn run(args: &Args) -> io::Result<bool> {
    fs::create_dir_all(&args.out)?;
    let results = args.out.join("results.jsonl");
    // Only this run's.
    fs::write(&results, "")?;
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
    let answered: Vec<_> = answers
        .iter()
        .map(serde_json::to_string)
        .collect::<Result<_, _>>()?;
    fs::write(args.out.join("answers.jsonl"), answered.join("\n") + "\n")?;
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
