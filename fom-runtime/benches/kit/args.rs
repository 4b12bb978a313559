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
        let mut read = || -> Result<(), String> {
            while let Ok(arg) = next("") {
                match arg.as_str() {
                    "--one" => args.one = Some((next("--one")?, next("--one")?)),
                    "--quick" => args.quick = true,
                    "--json" => args.json = true,
                    "--rounds" => {
                        let n = next("--rounds")?;
                        let rounds = n.parse().ok().filter(|n| *n > 0);
                        args.rounds =
                            Some(rounds.ok_or_else(|| format!("--rounds {n}: no count"))?);
                    }
                    "--case" => args.cases.push(next("--case")?),
                    "--peer" => args.peers.push(next("--peer")?),
                    "--out" => args.out = Some(next("--out")?.into()),
                    other => return Err(format!("{other}: what is this?")),
                }
            }
            Ok(())
        };
        if let Err(wrong) = read() {
            eprintln!("{wrong}\n{USAGE}");
            exit(2);
        }
        args
    }
}
