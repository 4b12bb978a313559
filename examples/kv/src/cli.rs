//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use lexopt::prelude::*;

use crate::live::LEAST_MEMORY;
use crate::{Save, Settings};

/// The text of `--help`.
pub const HELP: &str = "\
A server that speaks the Redis protocol. Its commands are foms.

Usage:
  kv [OPTIONS]

Options:
  --listen ADDRESS    where to listen [default: 127.0.0.1:6379]
  --localities N      partitions of the machine to run in [default: what the machine suggests]
  --dir DIR           keep the data in DIR, which is made where there is none [default: in memory only]
  --save WHEN         with --dir: `always`, before each reply, or `everysec` [default: everysec]
  --clients N         the most clients at a time [default: 10000]
  --unread BYTES      what a client may leave unread before it is sent away [default: 33554432]
  --clients-memory BYTES
                      what all clients together may take, data aside, before the
                      largest is sent away [default: 268435456]
  --idle SECONDS      how long a client may say nothing; 0 is for ever [default: 0]
  --max-bulk BYTES    the longest word of a request [default: 67108864]
  --drain SECONDS     how long clients have for their last replies after Ctrl-C [default: 5]
  -h, --help          print this
  -V, --version       print the version

Examples:
  kv
  kv --dir /var/lib/kv --save always
  redis-cli -p 6379 fom list
";

/// The command to run.
#[derive(Debug)]
pub enum Order {
    /// Prints this text and ends.
    Print(String),
    /// Runs the server.
    Serve {
        /// The settings of the server.
        settings: Box<Settings>,
        /// The time that clients have for their last replies.
        drain: Duration,
    },
}

/// Reads the arguments.
///
/// # Errors
///
/// Says what is wrong with the arguments.
pub fn read(
    arguments: impl IntoIterator<Item = std::ffi::OsString>,
) -> Result<Order, lexopt::Error> {
    let mut parser = lexopt::Parser::from_args(arguments);
    let mut settings = Settings::default();
    let (mut drain, mut save) = (Duration::from_secs(5), None);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("listen") => settings.listen = parser.value()?.parse()?,
            Long("localities") => {
                settings.localities = Some(parser.value()?.parse_with(at_least_one)?);
            }
            Long("dir") => settings.directory = Some(PathBuf::from(parser.value()?)),
            Long("save") => save = Some(parser.value()?.parse_with(when)?),
            Long("clients") => settings.clients = parser.value()?.parse()?,
            Long("unread") => settings.unread = parser.value()?.parse()?,
            Long("clients-memory") => {
                settings.clients_memory = parser.value()?.parse_with(at_least_a_mebibyte)?;
            }
            Long("idle") => {
                let seconds: u64 = parser.value()?.parse()?;
                settings.idle = (seconds > 0).then(|| Duration::from_secs(seconds));
            }
            Long("max-bulk") => settings.limits.bulk = parser.value()?.parse()?,
            Long("drain") => drain = Duration::from_secs(parser.value()?.parse()?),
            Short('h') | Long("help") => return Ok(Order::Print(HELP.to_owned())),
            Short('V') | Long("version") => {
                return Ok(Order::Print(format!("kv {}\n", env!("CARGO_PKG_VERSION"))));
            }
            other => return Err(other.unexpected()),
        }
    }
    match save {
        Some(_) if settings.directory.is_none() => return Err("--save needs --dir".into()),
        Some(save) => settings.save = save,
        None => {}
    }
    Ok(Order::Serve {
        settings: Box::new(settings),
        drain,
    })
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err("a number of at least 1 is needed".to_owned()),
    }
}

fn at_least_a_mebibyte(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if number as u64 >= LEAST_MEMORY => Ok(number),
        _ => Err(format!("a number of at least {LEAST_MEMORY} is needed")),
    }
}

fn when(text: &str) -> Result<Save, String> {
    match text {
        "always" => Ok(Save::Always),
        "everysec" => Ok(Save::EverySecond),
        _ => Err("`always` or `everysec` is needed".to_owned()),
    }
}
