//! The command line of a question.

use std::{path::PathBuf, process::exit};

/// The options of a run.
#[derive(Debug, Default)]
pub(crate) struct Args {
    /// The case and peer to measure in this process, which prints the figures and exits.
    pub(crate) one: Option<(String, String)>,
    /// Small sizes and one round, to see whether it runs at all.
    pub(crate) quick: bool,
    /// The number of rounds, instead of each case's own.
    pub(crate) rounds: Option<u32>,
    /// The cases and peers to measure; empty means all.
    pub(crate) cases: Vec<String>,
    pub(crate) peers: Vec<String>,
    /// The file to which the lines are appended.
    pub(crate) out: Option<PathBuf>,
    /// Whether to print the answers as JSON lines on stdout, instead of a table.
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
