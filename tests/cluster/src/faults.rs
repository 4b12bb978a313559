//! The faults: each one begins, lasts, and is over before the next one.

use std::{
    fs::File,
    io::Write as _,
    path::Path,
    thread::sleep,
    time::{Duration, Instant},
};

use crate::{
    nodes::{Clocks, Nodes},
    random::Random,
    servers::Servers,
    space::{Net, run},
};

/// More than the eight seconds for which a node waits for the answer to a commit.
const LATE: Duration = Duration::from_secs(14);

/// How long a primary runs without its standbys.
const SPLIT: Duration = Duration::from_secs(5);

/// The length of an outage.
const OUTAGE: Duration = Duration::from_secs(300);

/// At most so many nodes are killed in a time: after the third death of its owners, a slot puts the operation that ran last into
/// quarantine, and no node can tell a fault from an operation that ends its process.
const KILLS: usize = 2;
const SUSPECTED: Duration = Duration::from_secs(600);

/// A fault. Nodes and servers are numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    KillNode(usize),
    Leave(usize),
    /// PR-09: the node leaves, and joins again with the next release.
    Upgrade(usize),
    Pause(usize, u64),
    /// The machine of the node is suspended: then its calendar is an hour slow, and it reaches no server for a while.
    Suspend(usize, u64),
    KillStandby(usize),
    KillPrimary,
    KillServers,
    Promote,
    /// The primary loses its standbys and is started again. So it shows commits that no standby has. Then a standby takes over.
    Split,
    /// From all others.
    CutNode(usize),
    CutPrimary,
    /// No packet of the node reaches a server. The other nodes are reached.
    NodeFromServers(usize),
    NodeFromNodes(usize),
    /// The node gets the requests of others, and its replies are lost with their connections.
    LostReplies(usize),
    /// The primary executes a commit of the node late: the node has given it up before.
    LateCommit(usize),
    /// The same, and the node is killed after it has given the commit up: another node finds what it has left.
    LateKill(usize),
    /// One node from one other.
    Pair(usize, usize),
    /// All servers are gone for five minutes. Made only if the run asks for it by name.
    Outage,
}

/// What the faults are made to.
pub(crate) struct Targets<'a> {
    pub(crate) net: &'a Net,
    pub(crate) servers: &'a mut dyn Servers,
    pub(crate) nodes: &'a Nodes,
    pub(crate) log: &'a Path,
    /// The begin of the names of the faults to draw.
    pub(crate) only: &'a str,
    /// When nodes were killed.
    pub(crate) kills: Vec<Instant>,
}

impl Fault {
    /// Draws a fault.
    ///
    /// # Errors
    ///
    /// Fails if no fault with the wanted name can be made now.
    pub(crate) fn draw(random: &mut Random, targets: &Targets<'_>) -> Result<Self, String> {
        if targets.only == "Outage" {
            return Ok(Self::Outage);
        }
        let standbys = targets.servers.standbys()?;
        let mut drawn = (0..1000).map(|_| Self::any(random, &standbys));
        let recent = targets
            .kills
            .iter()
            .filter(|kill| kill.elapsed() < SUSPECTED);
        let may_kill = recent.count() < KILLS;
        let wanted = drawn.find(|fault| {
            let may = match fault {
                Self::KillNode(_) | Self::LateKill(_) => may_kill,
                Self::Upgrade(node) => !targets.nodes.all()[*node].is_next(),
                _ => true,
            };
            may && format!("{fault:?}").starts_with(targets.only)
        });
        wanted.ok_or_else(|| format!("no fault {} can be made now", targets.only))
    }

    fn any(random: &mut Random, standbys: &[usize]) -> Self {
        let node = random.below(3) as usize;
        match random.below(18) {
            0 => Self::KillNode(node),
            1 => Self::Leave(node),
            2 => Self::Pause(node, random.one_of(&[2, 8, 20])),
            3 => Self::KillStandby(random.one_of(standbys)),
            4 => Self::KillPrimary,
            5 => Self::KillServers,
            6 => Self::Promote,
            7 => Self::CutNode(node),
            8 => Self::CutPrimary,
            9 => Self::NodeFromServers(node),
            10 => Self::NodeFromNodes(node),
            11 => Self::LateCommit(node),
            12 => Self::LostReplies(node),
            13 => Self::LateKill(node),
            14 => Self::Upgrade(node),
            15 => Self::Suspend(node, random.one_of(&[8, 20])),
            16 => Self::Split,
            _ => Self::Pair(node, (node + 1 + random.below(2) as usize) % 3),
        }
    }

    /// Makes the fault, and ends it.
    pub(crate) fn make(self, random: &mut Random, to: &mut Targets<'_>) -> Result<(), String> {
        let lasts = Duration::from_millis(1000 + random.below(11_000));
        let short = Duration::from_millis(200 + random.below(2000));
        let nodes = to.nodes.all();
        match self {
            Self::KillNode(node) => {
                to.kills.push(Instant::now());
                nodes[node].kill();
                sleep(short);
                to.nodes.start(node, clocks(random))?;
                to.nodes.wait_until_joined(node)
            }
            Self::Leave(node) | Self::Upgrade(node) => {
                nodes[node].leave()?;
                if matches!(self, Self::Upgrade(_)) {
                    nodes[node].upgrade();
                }
                sleep(short);
                to.nodes.start(node, clocks(random))?;
                to.nodes.wait_until_joined(node)
            }
            Self::Pause(node, seconds) => pause(to, node, seconds),
            Self::Suspend(node, seconds) => {
                nodes[node].shift_wall(-3600)?;
                // The process has looked at its calendar.
                sleep(Duration::from_secs(2));
                mute_servers(to, node, true)?;
                pause(to, node, seconds)?;
                sleep(lasts);
                mute_servers(to, node, false)
            }
            Self::KillStandby(server) => {
                to.servers.kill(server);
                sleep(short);
                to.servers.restart(server)
            }
            Self::KillPrimary => {
                let primary = to.servers.primary()?;
                to.servers.kill(primary);
                sleep(short);
                to.servers.restart(primary)
            }
            Self::KillServers => kill_servers(to, short),
            Self::Outage => {
                let before = memory()?;
                kill_servers(to, OUTAGE)?;
                let (begun, length) = (Instant::now(), log_length(to)?);
                let after = memory()?;
                // Servers that choose a leader take no commit before that.
                to.servers.primary()?;
                let chosen = begun.elapsed().as_secs_f64();
                while log_length(to)? == length {
                    sleep(Duration::from_millis(10));
                }
                println!(
                    "       phase functions begin again {:.1} s after the servers, which have a leader after {chosen:.1} s; \
                     memory of a node {before} KiB before, {after} KiB after",
                    begun.elapsed().as_secs_f64()
                );
                Ok(())
            }
            Self::Split => split(to, short),
            Self::Promote => to.servers.promote().unwrap_or_else(|| {
                println!("       not made: these servers choose their leader themselves");
                Ok(())
            }),
            Self::CutNode(node) => {
                to.net.cut(&nodes[node].space, true)?;
                sleep(lasts);
                to.net.cut(&nodes[node].space, false)
            }
            Self::CutPrimary => {
                let primary = to.servers.primary()?;
                let primary = to.servers.space(primary).clone();
                to.net.cut(&primary, true)?;
                sleep(lasts);
                to.net.cut(&primary, false)
            }
            Self::NodeFromServers(node) => {
                mute_servers(to, node, true)?;
                sleep(lasts);
                mute_servers(to, node, false)
            }
            Self::NodeFromNodes(node) => {
                let others = |is_mute| {
                    let others = (0..3).filter(|other| *other != node);
                    let mut others = others.map(|other| &nodes[other].space);
                    others.try_for_each(|other| nodes[node].space.mute(other, is_mute))
                };
                others(true)?;
                sleep(lasts);
                others(false)
            }
            Self::LostReplies(node) => {
                let others = (0..3).filter(|other| *other != node);
                let others: Vec<_> = others.map(|other| &nodes[other].space).collect();
                let node = &nodes[node].space;
                others.iter().try_for_each(|other| node.mute(other, true))?;
                sleep(short);
                for other in others {
                    node.disconnect(other)?;
                    node.mute(other, false)?;
                }
                Ok(())
            }
            Self::LateCommit(node) | Self::LateKill(node) => {
                let process = to.servers.committer_of(&nodes[node].space)?;
                let Some(process) = process.map(|process| process.to_string()) else {
                    println!("       not made: the node has no connection for commits now");
                    return Ok(());
                };
                // It may have ended.
                let _ = run("kill", &["-STOP", &process]);
                sleep(LATE);
                if matches!(self, Self::LateKill(_)) {
                    to.kills.push(Instant::now());
                    nodes[node].kill();
                }
                let _ = run("kill", &["-CONT", &process]);
                match self {
                    Self::LateKill(_) => {
                        to.nodes.start(node, clocks(random))?;
                        to.nodes.wait_until_joined(node)
                    }
                    _ => Ok(()),
                }
            }
            Self::Pair(one, other) => {
                let (one, other) = (&nodes[one].space, &nodes[other].space);
                one.mute(other, true)?;
                sleep(lasts);
                one.mute(other, false)
            }
        }
    }
}

/// Stops the process of a node for so many seconds.
fn pause(to: &Targets<'_>, node: usize, seconds: u64) -> Result<(), String> {
    let node = &to.nodes.all()[node];
    node.signal("STOP");
    sleep(Duration::from_secs(seconds));
    // What the node had begun may come late, and no program can prevent that.
    let noted = File::options().append(true).open(to.log);
    let noted = noted.and_then(|mut log| writeln!(log, "# {}", node.name));
    node.signal("CONT");
    noted.map_err(|error| error.to_string())
}

/// Drops each packet of a node to the servers, or sends them again.
fn mute_servers(to: &Targets<'_>, node: usize, is_mute: bool) -> Result<(), String> {
    let node = &to.nodes.all()[node].space;
    (0..3).try_for_each(|server| node.mute(to.servers.space(server), is_mute))
}

/// Kills all servers, and starts them again after this time.
fn kill_servers(to: &mut Targets<'_>, after: Duration) -> Result<(), String> {
    let mut all = to.servers.standbys()?;
    all.push(to.servers.primary()?);
    all.iter().for_each(|server| to.servers.kill(*server));
    sleep(after);
    let mut all = all.iter().rev();
    all.try_for_each(|server| to.servers.restart(*server))
}

/// Lets the primary run without its standbys, and a standby take over.
fn split(to: &mut Targets<'_>, after: Duration) -> Result<(), String> {
    let primary = to.servers.primary()?;
    let space = to.servers.space(primary).clone();
    let standbys = to.servers.standbys()?;
    let standbys: Vec<_> = standbys
        .iter()
        .map(|standby| to.servers.space(*standby).clone())
        .collect();
    let cut = |is_cut| {
        standbys.iter().try_for_each(|standby| {
            space.mute(standby, is_cut)?;
            standby.mute(&space, is_cut)
        })
    };
    cut(true)?;
    sleep(after);
    to.servers.kill(primary);
    to.servers.restart(primary)?;
    // Nodes ask it meanwhile what came of their commits.
    sleep(SPLIT);
    to.servers.kill(primary);
    cut(false)?;
    // Servers that choose their leader themselves have done so.
    let promoted = to.servers.promote();
    promoted.unwrap_or_else(|| to.servers.restart(primary))
}

fn log_length(to: &Targets<'_>) -> Result<u64, String> {
    let log = to.log.metadata();
    Ok(log.map_err(|error| error.to_string())?.len())
}

/// Returns the memory of the largest node, in KiB.
fn memory() -> Result<u64, String> {
    let all = run("ps", &["-eo", "rss=,args="])?;
    let nodes = all.lines().filter_map(|line| {
        let (memory, command) = line.trim().split_once(' ')?;
        let program = command.split(' ').next()?;
        let is_node = program.ends_with("/cluster") || program.ends_with("/cluster-next");
        memory.parse().ok().filter(|_| is_node)
    });
    nodes.max().ok_or_else(|| "no node runs".to_owned())
}

/// Draws the clocks of a process.
pub(crate) fn clocks(random: &mut Random) -> Clocks {
    Clocks {
        boot: random.below(1_000_000),
        wall: random.one_of(&[0, 3600, -3600]),
    }
}
