//! The benchmarks of engines ask how long the operations of a node that is killed stand still.
//!
//! Three nodes, each a process, have so many operations that wait for an event. One node after the other is killed with `kill -9`. The
//! question: after what time does each slot have an owner again, and after what time are all operations in flight again? Two parts of
//! that are not of the program: the lease of five seconds, and the number of processors that read the logs. After each kill, the node
//! starts again, and the next kill waits until each node has its share. An operator asks a living node ten times a second.

use std::{
    env, io,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use fom_cluster::{Cluster, Operator, Report, Tcp, engine::Engine};
use fom_durable::prelude::*;
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

const LOOK: Duration = Duration::from_millis(100);
/// How many submissions of a node are under way at once.
const AT_ONCE: u64 = 512;

/// Waits for an event, with about 100 bytes of state.
#[derive(Serialize, Deserialize)]
struct Account {
    number: u64,
    text: String,
}

#[derive(Serialize, Deserialize)]
enum News {
    Close,
}

#[fom(operation(Account), event(News))]
enum Keeping {
    #[phase(start, sync, on(Close), to(Closed))]
    Open,
    #[phase(end)]
    Closed,
}

impl KeepingTransitions for Account {
    fn open(&mut self, _: &mut Cx<'_, News>, _: News) -> Result<KeepingAfterOpen, BoxError> {
        Ok(KeepingAfterOpen::Closed)
    }
}

/// One of the three processes.
struct Node {
    name: String,
    address: String,
    process: Child,
}

impl Node {
    fn start(server: &str, number: usize, accounts: u64) -> io::Result<Self> {
        let (name, address) = (
            format!("node-{number}"),
            format!("127.0.0.1:{}", 17_470 + number),
        );
        let mut command = Command::new(env::current_exe()?);
        command.args(["node", server, &name, &address, &accounts.to_string()]);
        Ok(Self {
            process: command.stdin(Stdio::piped()).spawn()?,
            name,
            address,
        })
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The program of a node. It submits its third of the accounts.
async fn node(
    engine: impl Engine,
    name: &str,
    address: &str,
    accounts: u64,
) -> Result<(), BoxError> {
    let cluster = Cluster::builder(engine, name)
        .network(Tcp::bind(address)?)
        .operation::<Account>()
        // For each of the 64 slots.
        .runtime(move |builder| builder.capacity(usize::MAX >> 1))
        .join()
        .await?;
    let third: u64 = name.rsplit('-').next().ok_or("a number")?.parse()?;
    let submitting = (0..AT_ONCE).map(|first| {
        let cluster = cluster.clone();
        tokio::spawn(async move {
            let numbers = (first * 3 + third..accounts).step_by(3 * AT_ONCE as usize);
            for number in numbers {
                // An operation id: what is there is not submitted again.
                loop {
                    let account = Account {
                        number,
                        text: "x".repeat(80),
                    };
                    let submission = cluster.submit(account).key(number).once(number);
                    match submission.start().await {
                        Ok(started) => break drop(started),
                        Err(_) => sleep(LOOK).await,
                    }
                }
            }
        })
    });
    for submitted in submitting.collect::<Vec<_>>() {
        submitted.await?;
    }
    std::future::pending().await
}

fn foms(report: &Report) -> usize {
    let loads = report.nodes.iter().filter_map(|node| node.load.as_ref());
    loads.map(|load| load.foms).sum()
}

fn is_owned(report: &Report) -> bool {
    report.slots.iter().all(|slot| slot.owner.is_some())
}

fn is_shared(report: &Report) -> bool {
    report.nodes.len() == 3 && report.slots.iter().all(|slot| slot.owner == slot.target)
}

/// Asks a node until the report is as wanted. Returns it, and the time of the answer.
async fn until(at: &str, wanted: impl Fn(&Report) -> bool) -> (Report, Instant) {
    let operator = Operator::connect(at, "");
    let mut told = Instant::now();
    loop {
        // It may not have joined yet.
        if let Ok(report) = operator.report().await {
            if wanted(&report) {
                return (report, Instant::now());
            }
            if told.elapsed() > Duration::from_secs(10) {
                told = Instant::now();
                eprintln!("{} operations are in flight ..", foms(&report));
            }
        }
        sleep(LOOK).await;
    }
}

/// Runs the benchmark with the arguments of the command line. `engine` returns the engine on a server.
pub(crate) async fn run<E: Engine>(
    engine: impl Fn(&str) -> Result<E, BoxError>,
) -> Result<(), BoxError> {
    let args: Vec<String> = env::args().skip(1).filter(|arg| arg != "--bench").collect();
    if let [first, server, name, address, accounts] = &args[..]
        && first == "node"
    {
        return node(engine(server)?, name, address, accounts.parse()?).await;
    }
    let server = args.first().ok_or("which server?")?;
    let accounts: u64 = args.get(1).map_or(Ok(100_000), |arg| arg.parse())?;
    let kills: usize = args.get(2).map_or(Ok(5), |arg| arg.parse())?;
    let begun = Instant::now();
    let mut nodes = Vec::new();
    for number in 0..3 {
        nodes.push(Node::start(server, number, accounts)?);
    }
    let all = accounts as usize;
    until(&nodes[0].address, |report| {
        is_shared(report) && foms(report) == all
    })
    .await;
    println!(
        "{all} operations wait on three nodes after {:.0} s",
        begun.elapsed().as_secs_f64()
    );
    println!("killed   its operations   all slots have an owner   all operations are in flight");
    let mut took = Vec::new();
    for kill in 0..kills {
        let (dies, asked) = (kill % 3, (kill + 1) % 3);
        let at = nodes[asked].address.clone();
        let (before, _) = until(&at, |report| is_shared(report) && foms(report) == all).await;
        let name = nodes[dies].name.clone();
        let its = before.nodes.iter().find(|node| node.node.name == name);
        let its = its
            .and_then(|node| node.load.as_ref())
            .map_or(0, |load| load.foms);
        let killed = Instant::now();
        nodes[dies].process.kill()?;
        // While its heartbeat counts, the slots have an owner.
        let is_gone = |report: &Report| report.nodes.len() == 2;
        let (_, owned) = until(&at, |report| is_gone(report) && is_owned(report)).await;
        let (_, there) = until(&at, |report| is_gone(report) && foms(report) == all).await;
        let (owned, there) = (owned - killed, there - killed);
        println!(
            "{name}   {its:>14}   {:>21.1} s   {:>26.1} s",
            owned.as_secs_f64(),
            there.as_secs_f64()
        );
        took.push(there);
        nodes[dies] = Node::start(server, dies, accounts)?;
    }
    took.sort();
    let (middle, last) = (took[took.len() / 2], took[took.len() - 1]);
    println!(
        "of {kills} kills: the median {:.1} s, the longest {:.1} s",
        middle.as_secs_f64(),
        last.as_secs_f64()
    );
    Ok(())
}
