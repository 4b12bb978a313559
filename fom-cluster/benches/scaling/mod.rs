//! The benchmarks of engines ask what a second and a third node bring.
//!
//! Each node is a process that gets a part of one processor (a quota of its control group), so that one machine has room for three nodes and
//! the servers. Its callers submit operations of six phases, each with a key of its own, so that two of three submissions to three nodes
//! go to another node. The report names what limits each run: the quota, the processors of the machine, or the wait for commits.
//!
//! It needs root and control groups with a processor quota, and says so otherwise.

#[path = "../load/mod.rs"]
#[allow(dead_code, reason = "the other benchmarks use the rest")]
mod load;

use std::{
    collections::HashMap,
    env, fs,
    io::{self, BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use fom_cluster::{Cluster, Operator, Tcp, engine::Engine};
use fom_durable::prelude::*;
use tokio::time::sleep;

use load::{Work, work};

const ROUNDS: usize = 3;
const WARM: Duration = Duration::from_secs(2);
const COUNTED: Duration = Duration::from_secs(8);
/// The callers of each node.
const CALLERS: u64 = 256;
const MANY: usize = 3;
/// The period of a quota, in microseconds.
const PERIOD: u64 = 20_000;
/// The ticks of a second in `/proc`.
const TICKS: f64 = 100.0;

/// A control group with a quota, which ends with this value.
struct Quota(PathBuf);

impl Quota {
    /// Makes a group that gets this part of one processor.
    fn new(name: &str, part: f64) -> io::Result<Self> {
        let quota = (part * PERIOD as f64) as u64;
        let first = Path::new("/sys/fs/cgroup/cpu");
        let group = match first.is_dir() {
            true => first.join(name),
            false => Path::new("/sys/fs/cgroup").join(name),
        };
        fs::create_dir(&group)?;
        let made = Self(group);
        match first.is_dir() {
            true => {
                fs::write(made.0.join("cpu.cfs_period_us"), PERIOD.to_string())?;
                fs::write(made.0.join("cpu.cfs_quota_us"), quota.to_string())?;
            }
            false => fs::write(made.0.join("cpu.max"), format!("{quota} {PERIOD}"))?,
        }
        Ok(made)
    }

    /// The part of the periods in which the quota has stopped the process.
    fn stopped(&self) -> f64 {
        let stat = fs::read_to_string(self.0.join("cpu.stat")).unwrap_or_default();
        let number = |name: &str| {
            let line = stat.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().parse::<f64>().ok()
        };
        let stopped = number("nr_throttled ").zip(number("nr_periods "));
        stopped.map_or(0.0, |(stopped, all)| stopped / all)
    }

    /// Moves this process into a group.
    fn enter(group: &str) -> io::Result<()> {
        fs::write(Path::new(group).join("cgroup.procs"), "0")
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// The processor time that a line of `/proc/PID/stat` tells, in seconds.
fn time_of(stat: &str) -> f64 {
    // The name of the program comes before, and can have spaces.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks = fields.split_whitespace().skip(11).take(2);
    ticks
        .filter_map(|field| field.parse::<f64>().ok())
        .sum::<f64>()
        / TICKS
}

/// The processor time of this process, in seconds.
fn own_time() -> io::Result<f64> {
    Ok(time_of(&fs::read_to_string("/proc/self/stat")?))
}

/// The processor time of all processes, in seconds. The time that `/proc/stat` tells is guessed from samples, and misses short work.
fn times() -> io::Result<HashMap<PathBuf, f64>> {
    let mut all = HashMap::new();
    for entry in fs::read_dir("/proc")? {
        let path = entry?.path();
        // It may have ended, or be no process.
        if let Ok(stat) = fs::read_to_string(path.join("stat"))
            && path.join("exe").symlink_metadata().is_ok()
        {
            all.insert(path, time_of(&stat));
        }
    }
    Ok(all)
}

/// The program of a node. It counts its transitions when it is told to.
async fn node(engine: impl Engine, name: &str, address: &str) -> Result<(), BoxError> {
    let steps = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&steps);
    let cluster = Cluster::builder(engine, name)
        .network(Tcp::bind(address)?)
        .operation::<Work>()
        .runtime(move |builder| builder.resource(Arc::clone(&counted)))
        .join()
        .await?;
    let told = tokio::task::spawn_blocking(|| io::stdin().read_line(&mut String::new()));
    told.await??;
    for caller in 0..CALLERS {
        let (cluster, name) = (cluster.clone(), name.to_owned());
        tokio::spawn(async move {
            for number in 0_u64.. {
                let key = format!("{name} {caller} {number}");
                let submission = cluster.submit(work()).key(key);
                if let Ok(started) = submission.start().await {
                    let _ = started.await;
                }
            }
        });
    }
    sleep(WARM).await;
    let (begun, before, time) = (Instant::now(), steps.load(Ordering::Relaxed), own_time()?);
    sleep(COUNTED).await;
    let count = steps.load(Ordering::Relaxed) - before;
    let rate = count as f64 / begun.elapsed().as_secs_f64();
    let busy = (own_time()? - time) / begun.elapsed().as_secs_f64();
    println!("{rate} {busy}");
    std::future::pending().await
}

/// One of the processes.
struct Node {
    process: Child,
    answers: BufReader<ChildStdout>,
    quota: Quota,
}

impl Node {
    fn start(server: &str, cluster: &str, number: usize, part: f64) -> io::Result<Self> {
        let quota = Quota::new(&format!("{cluster}-{number}"), part)?;
        let mut command = Command::new(env::current_exe()?);
        let (name, address) = (format!("node-{number}"), address(number));
        command.args(["node", server, cluster, &name, &address]);
        command.arg(&quota.0);
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let answers = process.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(Self {
            process,
            answers: BufReader::new(answers),
            quota,
        })
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn address(number: usize) -> String {
    format!("127.0.0.1:{}", 17_480 + number)
}

/// What one run has reached.
#[derive(Clone, Copy)]
struct Reached {
    /// Transitions per second.
    rate: f64,
    /// The processors that the nodes used, together.
    nodes: f64,
    /// The processors that all others used.
    others: f64,
    /// The processors that were idle.
    idle: f64,
    /// The part of the periods in which the quota has stopped a node.
    stopped: f64,
}

impl Reached {
    fn limit(&self) -> &'static str {
        if self.stopped > 0.5 {
            "the quota of the nodes"
        } else if self.idle < 0.1 {
            "the processors of the machine"
        } else {
            "the wait for commits"
        }
    }
}

async fn reach(server: &str, cluster: &str, count: usize, part: f64) -> Result<Reached, BoxError> {
    let mut nodes = Vec::new();
    for number in 0..count {
        nodes.push(Node::start(server, cluster, number, part)?);
    }
    let operator = Operator::connect(address(0), "");
    loop {
        // It may not have joined yet.
        if let Ok(report) = operator.report().await
            && report.nodes.len() == count
            && report
                .slots
                .iter()
                .all(|slot| slot.owner.is_some() && slot.owner == slot.target)
        {
            break;
        }
        sleep(Duration::from_millis(100)).await;
    }
    for node in &mut nodes {
        let to = node.process.stdin.as_mut();
        to.ok_or("a node has no input")?.write_all(b"go\n")?;
    }
    sleep(WARM).await;
    let (begun, before) = (Instant::now(), times()?);
    sleep(COUNTED).await;
    let (took, after) = (begun.elapsed().as_secs_f64(), times()?);
    let (mut rate, mut busy) = (0.0, 0.0);
    for node in &mut nodes {
        let mut line = String::new();
        node.answers.read_line(&mut line)?;
        let mut fields = line.split_whitespace().map(str::parse::<f64>);
        rate += fields.next().ok_or("a node has no answer")??;
        busy += fields.next().ok_or("a node has no answer")??;
    }
    let spent = after
        .iter()
        .map(|(process, time)| time - before.get(process).unwrap_or(&0.0));
    let all = spent.sum::<f64>() / took;
    let stopped: f64 = nodes.iter().map(|node| node.quota.stopped()).sum();
    Ok(Reached {
        rate,
        nodes: busy,
        others: all - busy,
        idle: std::thread::available_parallelism()?.get() as f64 - all,
        stopped: stopped / count as f64,
    })
}

/// Returns the run with the median rate.
fn median(mut of: Vec<Reached>) -> Reached {
    of.sort_by(|one, other| one.rate.total_cmp(&other.rate));
    of[of.len() / 2]
}

/// Prints what the measured times say of more nodes. Servers and nodes have processors of their own then.
fn print_model(one: Reached, many: Reached) {
    let (own, shared) = (one.nodes / one.rate, many.nodes / many.rate);
    // The share of submissions that go to another node.
    let away = |nodes: usize| (nodes - 1) as f64 / nodes as f64;
    let hop = ((shared - own) / away(MANY)).max(0.0);
    let servers = many.others / many.rate;
    println!(
        "a transition takes {:.1} us of a node, {:.1} us more for each submission to another node, and {:.1} us of the servers",
        own * 1e6,
        hop * 1e6,
        servers * 1e6
    );
    for nodes in [10, 30] {
        let each = own + hop * away(nodes);
        let all = nodes as f64 / each;
        println!(
            "model of {nodes} nodes, each with one processor: {:.0} transitions/s; the servers need {:.1} processors for them",
            all,
            all * servers
        );
    }
}

/// Runs the benchmark with the arguments of the command line. `engine` returns the engine of a cluster with this name on a server.
pub(crate) async fn run<E: Engine>(
    engine: impl Fn(&str, &str) -> Result<E, BoxError>,
) -> Result<(), BoxError> {
    let args: Vec<String> = env::args().skip(1).filter(|arg| arg != "--bench").collect();
    if let [first, server, cluster, name, address, group] = &args[..]
        && first == "node"
    {
        Quota::enter(group)?;
        return node(engine(server, cluster)?, name, address).await;
    }
    let server = args.first().ok_or("which server?")?;
    let part: f64 = args.get(1).map_or(Ok(0.15), |arg| arg.parse())?;
    let prefix = format!("scaling-{}", std::process::id());
    if let Err(error) = Quota::new(&prefix, part) {
        println!("SKIPPED: a processor quota cannot be set here: {error}");
        return Ok(());
    }
    println!("nodes   transitions/s   processors of nodes, of others, idle   stopped   limit");
    let (mut ones, mut many) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        for (count, all) in [(1, &mut ones), (MANY, &mut many)] {
            let cluster = format!("{prefix}-{round}-{count}");
            let reached = reach(server, &cluster, count, part).await?;
            println!(
                "{count:>5}   {:>13.0}   {:>19.2}, {:>9.2}, {:>4.2}   {:>7.2}   {}",
                reached.rate,
                reached.nodes,
                reached.others,
                reached.idle,
                reached.stopped,
                reached.limit()
            );
            all.push(reached);
        }
    }
    let (one, many) = (median(ones), median(many));
    println!(
        "median: {MANY} nodes reach {:.2} times the rate of one",
        many.rate / one.rate
    );
    print_model(one, many);
    Ok(())
}
