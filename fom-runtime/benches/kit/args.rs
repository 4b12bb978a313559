//! The command line of a question.

use std::{path::PathBuf, process::exit};

/// How a question is run.
#[derive(Debug, Default)]
pub(crate) struct Args {
    /// Measure this case of this peer in this process, print the figures, and exit.
    pub(crate) one: Option<(String, String)>,
    /// Small sizes, one round: does it run at all?
    pub(crate) quick: bool,
    /// Rounds, instead of each case's own.
    pub(crate) rounds: Option<u32>,
    /// Only these cases and peers; empty is all.
    pub(crate) cases: Vec<String>,
    pub(crate) peers: Vec<String>,
    /// Where the lines go, appended.
    pub(crate) out: Option<PathBuf>,
    /// The answers as JSON lines on stdout, instead of a table.
    pub(crate) json: bool,
}

const USAGE: &str = "\
[--quick] [--rounds N] [--case NAME].. [--peer NAME].. [--out FILE] [--json]
  --quick       small sizes, one round
  --rounds N    so many rounds of every case
  --case NAME   only this case (may be repeated)
  --peer NAME   only this peer (may be repeated)
  --out FILE    append a JSON line for each measurement
  --json        print the answers as JSON lines";

impl Args {
    pub(crate) fn read() -> Self {
        let mut args = Self::default();
        let mut given = std::env::args().skip(1);
        let mut next = |of: &str| {
            given
                .next()
                .ok_or_else(|| format!("{of}: a value is missing"))
        };
        let read = loop {
            let Ok(arg) = next("") else { break Ok(()) };
            let taken = match arg.as_str() {
                "--one" => {
                    next("--one").and_then(|case| Ok(args.one = Some((case, next("--one")?))))
                }
                "--quick" => Ok(args.quick = true),
                "--json" => Ok(args.json = true),
                "--rounds" => next("--rounds").and_then(|n| match n.parse() {
                    Ok(0) | Err(_) => Err(format!("--rounds {n}: no count")),
                    Ok(n) => Ok(args.rounds = Some(n)),
                }),
                "--case" => next("--case").map(|name| args.cases.push(name)),
                "--peer" => next("--peer").map(|name| args.peers.push(name)),
                "--out" => next("--out").map(|path| args.out = Some(path.into())),
                other => Err(format!("{other}: what is this?")),
            };
            if taken.is_err() {
                break taken;
            }
        };
        if let Err(wrong) = read {
            eprintln!("{wrong}\n{USAGE}");
            exit(2);
        }
        args
    }
}
