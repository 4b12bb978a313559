//! Runs the same orders on fom and on its embedded peers, and compares them: `orders-peers [--rounds N] [--orders N] [PEER]..`.
//! Each measurement is a process of its own. README.md says what is measured.

mod apalis;
mod dbos;
mod drive;
mod duroxide;
mod fom;
mod world;

use std::{
    collections::HashMap,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Command, ExitCode, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use drive::{HALF, Task, drive};
use fom_runtime::prelude::BoxError;
use lexopt::prelude::*;

/// The name of each peer, and the file with its orders.
const PEERS: &[(&str, &str)] = &[
    ("fom", include_str!("fom.rs")),
    ("duroxide", include_str!("duroxide.rs")),
    ("duroxide-tuned", include_str!("duroxide.rs")),
    ("dbos", include_str!("dbos.rs")),
    ("apalis", include_str!("apalis.rs")),
    ("apalis-tuned", include_str!("apalis.rs")),
];

/// A measurement that takes longer is given up.
const LIMIT: Duration = Duration::from_secs(240);

/// The measurements of each round: their name, how many orders in flight, whether the process is killed.
const MEASUREMENTS: &[(&str, usize, bool)] = &[
    ("64 in flight", 64, false),
    ("1 in flight", 1, false),
    ("killed", 64, true),
];

struct Settings {
    rounds: usize,
    orders: usize,
    peers: Vec<String>,
    /// The peer to run here, with its task.
    run: Option<(String, Task)>,
}

impl Settings {
    fn parse() -> Result<Self, BoxError> {
        let (mut rounds, mut orders, mut in_flight) = (3, 500, 64);
        let (mut peers, mut run, mut directory) = (Vec::new(), None, PathBuf::new());
        let mut arguments = lexopt::Parser::from_env();
        while let Some(argument) = arguments.next()? {
            match argument {
                Long("rounds") => rounds = arguments.value()?.parse()?,
                Long("orders") => orders = arguments.value()?.parse()?,
                Long("in-flight") => in_flight = arguments.value()?.parse()?,
                Long("directory") => directory = arguments.value()?.into(),
                Long("run") => run = Some(arguments.value()?.string()?),
                Value(peer) => peers.push(peer.string()?),
                other => return Err(other.unexpected().into()),
            }
        }
        if peers.is_empty() {
            peers.extend(PEERS.iter().map(|(name, _)| (*name).to_owned()));
        }
        let task = Task {
            directory,
            orders,
            in_flight,
        };
        Ok(Self {
            rounds,
            orders,
            peers,
            run: run.map(|peer| (peer, task)),
        })
    }
}

#[tokio::main]
async fn run(peer: &str, task: Task) -> Result<(), BoxError> {
    match peer {
        "fom" => drive::<fom::Fom>(task).await,
        "duroxide" => drive::<duroxide::Duroxide<false>>(task).await,
        "duroxide-tuned" => drive::<duroxide::Duroxide<true>>(task).await,
        "dbos" => drive::<dbos::Dbos>(task).await,
        "apalis" => drive::<apalis::Apalis<false>>(task).await,
        "apalis-tuned" => drive::<apalis::Apalis<true>>(task).await,
        other => Err(format!("{other} is not a peer").into()),
    }
}

fn main() -> ExitCode {
    let ended = match Settings::parse() {
        Ok(Settings {
            run: Some((peer, task)),
            ..
        }) => run(&peer, task),
        Ok(settings) => compare(&settings),
        Err(error) => Err(error),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// The figures of each peer in each measurement: one of each round.
type Figures = HashMap<(String, &'static str), Vec<f64>>;

/// Measures all, and prints a table.
fn compare(settings: &Settings) -> Result<(), BoxError> {
    let mut figures = Figures::new();
    for round in 0..settings.rounds {
        for (name, in_flight, is_killed) in MEASUREMENTS {
            for turn in 0..settings.peers.len() {
                let peer = &settings.peers[(round + turn) % settings.peers.len()];
                let orders = if *in_flight == 1 { 50 } else { settings.orders };
                let figure = match measure(peer, orders, *in_flight, *is_killed) {
                    Ok(figure) => figure,
                    Err(error) => {
                        eprintln!("{name}, {peer}: {error}");
                        continue;
                    }
                };
                eprintln!("{name}, {peer}: {figure:.4}");
                let all = figures.entry((peer.clone(), name)).or_default();
                all.push(figure);
            }
        }
    }
    println!("| | lines | orders per second | one order alone | back after a kill |");
    println!("| --- | --- | --- | --- | --- |");
    for (peer, source) in PEERS {
        if !settings.peers.iter().any(|name| name == peer) {
            continue;
        }
        let of = |name, times: f64, unit| {
            let all = figures.get(&((*peer).to_owned(), name));
            all.map_or("-".to_owned(), |all| spread(all, times, unit))
        };
        println!(
            "| {peer} | {} | {} | {} | {} |",
            lines(source),
            of("64 in flight", 1.0, ""),
            of("1 in flight", 1e3, " ms"),
            of("killed", 1.0, " s"),
        );
    }
    Ok(())
}

/// Counts the lines without blank lines and comments.
fn lines(source: &str) -> usize {
    let lines = source.lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with("//"))
        .count()
}

/// Shows the median, and the least and the most.
fn spread(all: &[f64], times: f64, unit: &str) -> String {
    let mut all: Vec<_> = all.iter().map(|figure| figure * times).collect();
    all.sort_by(f64::total_cmp);
    let show = |figure: f64| match figure {
        figure if figure < 10.0 => format!("{figure:.2}"),
        figure => format!("{figure:.0}"),
    };
    let (least, most) = (show(all[0]), show(all[all.len() - 1]));
    format!("{}{unit} ({least} to {most})", show(all[all.len() / 2]))
}

/// Measures one peer: orders per second with many in flight, the seconds of one order alone, or the seconds that a killed
/// process needs to end what was open.
fn measure(peer: &str, orders: usize, in_flight: usize, is_killed: bool) -> Result<f64, BoxError> {
    let directory = Folder::new(peer)?;
    let start = || Process::start(peer, &directory.0, orders, in_flight);
    let mut process = start()?;
    if is_killed {
        while process.line()? != HALF {}
        drop(process);
        process = start()?;
    }
    let last = loop {
        let line = process.line()?;
        if line != HALF {
            break line;
        }
    };
    let figures = last
        .split(' ')
        .map(str::parse)
        .collect::<Result<Vec<f64>, _>>()?;
    let [seconds, back, _repeated] = figures[..] else {
        return Err(last.into());
    };
    Ok(match (is_killed, in_flight) {
        (true, _) => back,
        (false, 1) => seconds / orders as f64,
        (false, _) => orders as f64 / seconds,
    })
}

/// A folder beside this program, which is gone at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(peer: &str) -> Result<Self, BoxError> {
        static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        let next = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        // The name is also that of a database.
        let name = format!("{}_{}_{next}", peer.replace('-', "_"), std::process::id());
        let own = std::env::current_exe()?;
        let folder = own.parent().ok_or("a program is in a folder")?.join(name);
        std::fs::create_dir_all(&folder)?;
        Ok(Self(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A process with one peer. Its drop is `kill -9`.
struct Process {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Process {
    fn start(
        peer: &str,
        directory: &std::path::Path,
        orders: usize,
        in_flight: usize,
    ) -> Result<Self, BoxError> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["--run", peer, "--orders", &orders.to_string()])
            // One of the peers logs to the standard output.
            .env("RUST_LOG", "off")
            .args(["--in-flight", &in_flight.to_string(), "--directory"])
            .arg(directory)
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = child.stdout.take().ok_or("the output is piped")?;
        let (send, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                // The process may be given up.
                let _ = send.send(line);
            }
        });
        Ok(Self { child, lines })
    }

    fn line(&mut self) -> Result<String, BoxError> {
        let line = self.lines.recv_timeout(LIMIT);
        line.map_err(|_| "it ended, or took too long".into())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
