//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use fom_inspect::Address;
use lexopt::prelude::*;

use crate::call::Timers;
use crate::router::Settings;

/// The text of `--help`.
pub const HELP: &str = "\
A SIP session router over UDP. Its calls and registrations are foms.

Usage:
  session-router [OPTIONS]         run the router, two endpoints and a caller in one process over
                                   loopback UDP, and print what was measured
  session-router serve [OPTIONS]   route calls until Ctrl-C or SIGTERM, then drain and print the table
  session-router drive ROUTER [OPTIONS]
                                   run only the endpoints and the caller, against a router that runs elsewhere

Options of all:
  --localities N          partitions of the machine to run in [default: what the machine suggests]
  --t1 MS                 timer T1 of RFC 3261; all others are made of it [default: 500 to serve, else 100]
  --records FILE          append call detail records to FILE, one line of JSON a call
                          [default: none, alone: a file in the temporary directory]
  -h, --help              print this
  -V, --version           print the version

Options of the run by itself, and of drive:
  --calls N               how many calls [default: 20000]
  --in-flight N           how many at a time [default: 32]
  --rate N                begin so many a second, of drive only [default: as fast as others end]

Options of serve:
  --listen ADDRESS        where to listen [default: 127.0.0.1:5060]
  --endpoint USER=ADDRESS an endpoint that does not register; may be repeated, and the addresses of
                          one user are taken in turn
  --fork                  ring all addresses of a user at once instead (registered ones always do)
  --capacity N            the most calls at a time, ended ones that may still see retransmissions
                          included; further ones get 503 with Retry-After [default: 131072]
  --source-rate N         new calls, REGISTERs and packets of no call a second from one source, which is an
                          IPv4 address or an IPv6 /64; further ones get 503, a tenth of N a second, or are
                          dropped. Packets of all kinds: ten times N [default: 2500]
  --source-share PERCENT  the most calls of one source, of those that it has and the places that are free;
                          the same for users that it registers, of 200000. 1 to 99 [default: 50]
  --sources N             sources that are told apart at a time; others share one rate [default: 16384]
  --receive-buffer KIB    what the kernel keeps until it is received, up to what its net.core.rmem_max
                          allows [default: 4096]
  --timer-c SECONDS       how long a call may ring, more than 180 [default: 181]
  --min-expires SECONDS   the shortest time to register for [default: 60]
  --drain SECONDS         how long calls may go on after Ctrl-C [default: 10]
  --journal DIR           keep calls and registrations in DIR, made where there is none: started on it again,
                          also after kill -9, the router goes on with them
  --inspect ADDRESS       serve the page of the inspector, and /metrics for Prometheus, at ADDRESS:PORT or at the path
                          of a unix socket. A token of 16 characters or more in FOM_INSPECT_TOKEN allows actions
                          [default: no page]

Examples:
  session-router
  session-router serve --endpoint service=127.0.0.1:5070 --endpoint service=127.0.0.1:5071
  session-router serve --endpoint service=127.0.0.1:5070 --journal /var/lib/session-router
  session-router serve --endpoint service=127.0.0.1:5070 --inspect 127.0.0.1:7070
  session-router drive 127.0.0.1:5060 --calls 1000
";

/// The command to run.
#[derive(Debug)]
pub enum Command {
    /// Prints this text and ends.
    Print(String),
    /// Runs the router.
    Serve {
        /// The settings of the router.
        settings: Box<Settings>,
        /// The time that calls have to end.
        drain: Duration,
        /// The address of the inspector, if there is one.
        inspect: Option<Address>,
    },
    /// Runs the router, two endpoints and a caller.
    SelfRun {
        /// The settings of the router.
        settings: Box<Settings>,
        /// The number of calls.
        calls: usize,
        /// The most calls at a time.
        in_flight: usize,
    },
    /// Runs the endpoints and the caller against a router.
    Drive {
        /// The address of the router.
        router: SocketAddr,
        /// Timer T1.
        t1: Duration,
        /// The number of calls.
        calls: usize,
        /// The most calls at a time.
        in_flight: usize,
        /// The calls to begin in a second. `None` begins calls as fast as others end.
        rate: Option<u32>,
    },
}

/// Reads the command line, without the name of the program.
///
/// # Errors
///
/// Says what is wrong with the arguments.
pub fn read<I>(arguments: I) -> Result<Command, lexopt::Error>
where
    I: IntoIterator,
    I::Item: Into<std::ffi::OsString>,
{
    let mut parser = lexopt::Parser::from_args(arguments);
    let mut settings = Settings::default();
    let (mut calls, mut in_flight, mut drain) = (20_000, 32, Duration::from_secs(10));
    let (mut serve, mut drive, mut rate) = (false, None, None);
    let (mut t1, mut timer_c, mut inspect) = (None, None, None);
    let mut first = true;
    while let Some(argument) = parser.next()? {
        match argument {
            Value(command) if first && command == "serve" => serve = true,
            Value(command) if first && command == "drive" => {
                let router = parser.value()?.string()?;
                let wrong = || format!("drive wants the router's ADDRESS:PORT, and not {router:?}");
                drive = Some(router.parse().map_err(|_| wrong())?);
            }
            Value(command) if first => {
                return Err(
                    format!("there is no command {command:?}: there are serve and drive").into(),
                );
            }
            Short('h') | Long("help") => return Ok(Command::Print(HELP.to_owned())),
            Short('V') | Long("version") => {
                return Ok(Command::Print(format!(
                    "session-router {}\n",
                    env!("CARGO_PKG_VERSION")
                )));
            }
            Long("localities") => {
                settings.localities = Some(at_least_one(parser.value()?.parse()?, "--localities")?)
            }
            Long("t1") => {
                t1 = Some(Duration::from_millis(at_least_one(
                    parser.value()?.parse()?,
                    "--t1",
                )?))
            }
            Long("records") => settings.records = Some(PathBuf::from(parser.value()?)),
            Long("calls") if !serve => calls = at_least_one(parser.value()?.parse()?, "--calls")?,
            Long("in-flight") if !serve => {
                in_flight = at_least_one(parser.value()?.parse()?, "--in-flight")?
            }
            Long("rate") if drive.is_some() => {
                rate = Some(at_least_one(parser.value()?.parse::<u32>()?, "--rate")?);
            }
            Long("listen") if serve => settings.listen = listen(&parser.value()?.string()?)?,
            Long("endpoint") if serve => settings
                .endpoints
                .push(endpoint(&parser.value()?.string()?)?),
            Long("fork") if serve => settings.fork = true,
            Long("capacity") if serve => {
                settings.capacity = at_least_one(parser.value()?.parse()?, "--capacity")?
            }
            Long("source-rate") if serve => {
                settings.limits.rate = at_least_one(parser.value()?.parse()?, "--source-rate")?;
            }
            Long("source-share") if serve => {
                settings.limits.share = below_all(parser.value()?.parse()?)?;
            }
            Long("sources") if serve => {
                settings.limits.sources = at_least_one(parser.value()?.parse()?, "--sources")?;
            }
            Long("receive-buffer") if serve => {
                let kib = at_least_one(parser.value()?.parse()?, "--receive-buffer")?;
                settings.buffer = usize::saturating_mul(kib, 1024);
            }
            Long("timer-c") if serve => {
                timer_c = Some(longer_than_three_minutes(parser.value()?.parse()?)?)
            }
            Long("min-expires") if serve => {
                settings.shortest = Duration::from_secs(parser.value()?.parse()?)
            }
            Long("journal") if serve => settings.journal = Some(PathBuf::from(parser.value()?)),
            Long("inspect") if serve => {
                inspect = Some(Address::from(parser.value()?.string()?));
            }
            Long("drain") if serve => drain = Duration::from_secs(parser.value()?.parse()?),
            other => return Err(other.unexpected()),
        }
        first = false;
    }
    if let Some(router) = drive {
        let t1 = t1.unwrap_or(Duration::from_millis(100));
        return Ok(Command::Drive {
            router,
            t1,
            calls,
            in_flight,
            rate,
        });
    }
    settings.timers =
        Timers::scaled(t1.unwrap_or(Duration::from_millis(if serve { 500 } else { 100 })));
    if let Some(timer_c) = timer_c {
        settings.timers.c = timer_c;
    }
    let settings = Box::new(settings);
    Ok(if serve {
        Command::Serve {
            settings,
            drain,
            inspect,
        }
    } else {
        Command::SelfRun {
            settings,
            calls,
            in_flight,
        }
    })
}

fn at_least_one<N: PartialEq + Default>(number: N, option: &str) -> Result<N, String> {
    if number == N::default() {
        Err(format!("{option} must be at least 1"))
    } else {
        Ok(number)
    }
}

/// One source must not have all places.
fn below_all(percent: u32) -> Result<u32, String> {
    if (1..100).contains(&percent) {
        Ok(percent)
    } else {
        Err("--source-share must be 1 to 99: one source must not have all".to_owned())
    }
}

/// RFC 3261, 16.6 step 11: timer C must be larger than three minutes.
fn longer_than_three_minutes(seconds: u64) -> Result<Duration, String> {
    if seconds > 180 {
        Ok(Duration::from_secs(seconds))
    } else {
        Err("--timer-c must be more than 180 (RFC 3261, 16.6)".to_owned())
    }
}

fn listen(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text.parse().map_err(|_| {
        format!("--listen wants ADDRESS:PORT, for example 127.0.0.1:5060, and not {text:?}")
    })?;
    if address.ip().is_unspecified() {
        // The router writes the address into every Via, so that answers come back.
        return Err(format!(
            "--listen must name one address of this machine, and {text} is all of them"
        ));
    }
    Ok(address)
}

fn endpoint(text: &str) -> Result<(String, SocketAddr), String> {
    let wrong = || {
        format!(
            "--endpoint wants USER=ADDRESS, for example service=127.0.0.1:5070, and not {text:?}"
        )
    };
    let (user, place) = text.split_once('=').ok_or_else(wrong)?;
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.!~*'()&+$".contains(c);
    if user.is_empty() || !user.chars().all(fits) {
        return Err(wrong());
    }
    Ok((user.to_owned(), place.parse().map_err(|_| wrong())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(line: &str) -> String {
        read(line.split(' ')).expect_err(line).to_string()
    }

    #[test]
    fn serve_is_read() {
        let line = "serve --listen 127.0.0.1:9 --endpoint a=127.0.0.1:1 --endpoint a=127.0.0.1:2 --localities 2";
        let Ok(Command::Serve { settings, .. }) = read(line.split(' ')) else {
            panic!("not read")
        };
        assert_eq!(settings.listen.port(), 9);
        assert_eq!(settings.endpoints.len(), 2);
        assert_eq!(settings.localities, Some(2));
        assert_eq!(settings.timers.t1, Duration::from_millis(500));
    }

    #[test]
    fn the_address_of_the_inspector_is_read() {
        let read = read("serve --inspect 127.0.0.1:7".split(' '));
        let Ok(Command::Serve { inspect, .. }) = read else {
            panic!("not read")
        };
        assert_eq!(inspect, Some("127.0.0.1:7".into()));
        assert!(error("--inspect 127.0.0.1:7").contains("--inspect"));
    }

    #[test]
    fn the_limits_of_a_source_are_read() {
        let line = "serve --source-rate 7 --source-share 20 --sources 9 --receive-buffer 64";
        let Ok(Command::Serve { settings, .. }) = read(line.split(' ')) else {
            panic!("not read")
        };
        let limits = settings.limits;
        assert_eq!((limits.rate, limits.share, limits.sources), (7, 20, 9));
        assert_eq!(settings.buffer, 65_536);
    }

    #[test]
    fn drive_is_read() {
        let read = read("drive 127.0.0.1:9 --calls 7".split(' '));
        assert!(matches!(read, Ok(Command::Drive { router, calls: 7, .. }) if router.port() == 9));
        assert!(error("drive nowhere").contains("ADDRESS:PORT"));
        assert!(error("--rate 5").contains("--rate"));
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert!(error("server").contains("serve and drive"));
        assert!(error("serve --endpoint here").contains("USER=ADDRESS"));
        assert!(error("serve --listen here").contains("127.0.0.1:5060"));
        assert!(error("serve --listen 0.0.0.0:5060").contains("one address"));
        assert!(error("serve --timer-c 180").contains("more than 180"));
        assert!(error("serve --source-share 100").contains("1 to 99"));
        assert!(error("serve --source-rate 0").contains("at least 1"));
        assert!(error("--localities 0").contains("at least 1"));
        assert!(error("--what").contains("--what"));
        assert!(error("serve --calls 1").contains("--calls"));
        assert!(error("--listen 127.0.0.1:1").contains("--listen"));
    }

    #[test]
    fn help_names_every_option() {
        for option in [
            "--localities",
            "--t1",
            "--records",
            "--help",
            "--version",
            "--calls",
            "--in-flight",
            "--listen",
            "--endpoint",
            "--fork",
            "--rate",
            "--capacity",
            "--source-rate",
            "--source-share",
            "--sources",
            "--receive-buffer",
            "--timer-c",
            "--min-expires",
            "--drain",
            "--journal",
            "--inspect",
        ] {
            assert!(HELP.contains(option), "{option}");
        }
    }
}
