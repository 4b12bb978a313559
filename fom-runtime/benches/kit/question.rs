//! Asking a question: rounds of processes, one for each peer of each case.

use std::{
    fs::OpenOptions,
    io::{self, IsTerminal, Read, Write},
    process::{Command, ExitCode, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use crate::{
    Answer, Figures, Record, Rounds, Row,
    args::Args,
    details,
    machine::{cpu_time_of_children, cpu_time_of_machine, keep_others_away, leave},
    table,
};

/// A question, with its cases.
#[derive(Debug)]
pub struct Question {
    /// The name of its program.
    pub name: &'static str,
    pub cases: &'static [Case],
    /// Its rows in the table.
    pub rows: &'static [Row],
    /// Measures one peer in one case. It is called in a process of its own, which ends after it. A panic counts as
    /// "cannot".
    pub run: fn(&One) -> Figures,
}

/// One setting in which the peers are measured.
#[derive(Debug)]
pub struct Case {
    pub name: &'static str,
    /// How often each peer is measured. Memory needs one round; times need five.
    pub rounds: u32,
    /// `family` or `family:variant`. The best variant counts.
    pub peers: &'static [&'static str],
}

/// The measurement of one process.
#[derive(Debug)]
pub struct One {
    pub case: String,
    pub peer: String,
    pub quick: bool,
}

impl One {
    /// Returns a size: `quick` if the run must only show that it works.
    pub fn size(&self, real: usize, quick: usize) -> usize {
        if self.quick { quick } else { real }
    }

    /// Returns a time: a tenth of `real` if the run must only show that it works.
    pub fn time(&self, real: Duration) -> Duration {
        if self.quick { real / 10 } else { real }
    }

    /// Panics for a case or peer that `run` does not know.
    pub fn unknown(&self) -> ! {
        panic!("{} cannot do {}", self.peer, self.case)
    }
}

/// A process that takes longer counts as hanging.
const PATIENCE: Duration = Duration::from_secs(60);

/// Asks the question. This is the whole `main` of a question.
pub fn ask(question: &Question) -> ExitCode {
    let args = Args::read();
    if let Some((case, peer)) = args.one {
        keep_others_away();
        let one = One {
            case,
            peer,
            quick: args.quick,
        };
        let figures = (question.run)(&one);
        let line = serde_json::to_string(&figures).expect("numbers by name");
        // If this fails, the asking process reads no figures.
        let _ = writeln!(io::stdout(), "{line}");
        leave();
    }
    match run(question, &args) {
        Ok(answers) => {
            if args.json {
                for answer in &answers {
                    println!("{}", serde_json::to_string(answer).expect("plain data"));
                }
            } else {
                print!("{}", table(&answers));
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{}: {error}", question.name);
            ExitCode::FAILURE
        }
    }
}

fn run(question: &Question, args: &Args) -> io::Result<Vec<Answer>> {
    let mut out = match &args.out {
        Some(path) => Some(OpenOptions::new().create(true).append(true).open(path)?),
        None => None,
    };
    let wanted = |wanted: &[String], name: &str| {
        wanted.is_empty() || wanted.iter().any(|wanted| wanted == name)
    };
    let live = io::stderr().is_terminal();
    let clear = if live { "\r\x1b[K" } else { "" };
    let mut rounds = Rounds::default();
    let most = match (args.quick, args.rounds) {
        (_, Some(n)) => n,
        (true, None) => 1,
        (false, None) => question
            .cases
            .iter()
            .map(|case| case.rounds)
            .max()
            .unwrap_or(1),
    };
    for round in 0..most {
        for case in question
            .cases
            .iter()
            .filter(|case| wanted(&args.cases, case.name))
        {
            if args.rounds.is_none() && round >= case.rounds {
                continue;
            }
            let peers: Vec<_> = case
                .peers
                .iter()
                .filter(|peer| wanted(&args.peers, peer))
                .collect();
            for n in 0..peers.len() {
                let peer = peers[(n + round as usize) % peers.len()];
                if live {
                    eprint!(
                        "\r\x1b[K  round {} of {most}: {}, {peer}",
                        round + 1,
                        case.name
                    );
                }
                let record = one(question, case.name, peer, round, args.quick)?;
                if let Some(error) = &record.error {
                    eprintln!("{clear}  {}, {peer}: {error}", case.name);
                }
                if let Some(out) = &mut out {
                    writeln!(out, "{}", serde_json::to_string(&record)?)?;
                }
                rounds.push(record);
            }
        }
    }
    eprint!("{clear}{}", details(question.cases, &rounds));
    Ok(question
        .rows
        .iter()
        .map(|row| row.answer(question.name, &rounds))
        .collect())
}

/// Measures in a process of its own.
fn one(question: &Question, case: &str, peer: &str, round: u32, quick: bool) -> io::Result<Record> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--one", case, peer]);
    if quick {
        command.arg("--quick");
    }
    let busy = || io::Result::Ok((cpu_time_of_machine()?, cpu_time_of_children()));
    let begun = Instant::now();
    let before = busy()?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let (tell, told) = mpsc::channel();
    // Threads read the pipes, so that `PATIENCE` holds.
    let said = read_all(child.stdout.take(), tell.clone());
    let complained = read_all(child.stderr.take(), tell);
    for _ in 0..2 {
        if told
            .recv_timeout(PATIENCE.saturating_sub(begun.elapsed()))
            .is_err()
        {
            child.kill()?;
        }
    }
    let status = child.wait()?;
    let (machine, own) = busy()?;
    let foreign = (machine.saturating_sub(before.0)).saturating_sub(own.saturating_sub(before.1));
    let said = said.join().unwrap_or_default();
    let complained = complained.join().unwrap_or_default();
    let figures = said
        .lines()
        .last()
        .and_then(|line| serde_json::from_str::<Figures>(line).ok());
    let error = match (&figures, status.success()) {
        (Some(_), true) => None,
        _ => Some(format!(
            "{status}: {}",
            complained.lines().take(4).collect::<Vec<_>>().join(" | ")
        )),
    };
    let seconds = begun.elapsed().as_secs_f64();
    Ok(Record {
        question: question.name.to_owned(),
        case: case.to_owned(),
        peer: peer.to_owned(),
        round,
        quick,
        foreign_cpu: foreign.as_secs_f64() / seconds,
        seconds,
        figures: figures.unwrap_or_default(),
        error,
    })
}

fn read_all(
    from: Option<impl Read + Send + 'static>,
    tell: mpsc::Sender<()>,
) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut all = Vec::new();
        if let Some(mut from) = from {
            // The output before an error is shown all the same.
            let _ = from.read_to_end(&mut all);
        }
        let _ = tell.send(());
        String::from_utf8_lossy(&all).into_owned()
    })
}
