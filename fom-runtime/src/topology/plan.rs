use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Cpu, Machine};

/// How a machine is divided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlanOptions {
    /// The number of localities. Default: one per core, or fewer if the processor quota of the process pays for fewer.
    pub localities: Option<usize>,
}

impl PlanOptions {
    /// Sets the number of localities (0 counts as 1).
    #[must_use]
    pub const fn localities(mut self, localities: usize) -> Self {
        self.localities = Some(localities);
        self
    }
}

/// The processors of one locality.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LocalityPlan {
    /// Its number: 0, 1, 2 and so on. Neighbours have near numbers.
    pub index: usize,
    /// Its processors, in the order of their numbers. A core is included with all its allowed threads.
    pub cpus: Vec<usize>,
    /// The NUMA node of its processors, or `None` if they are on several.
    pub node: Option<usize>,
    /// The last-level cache that its processors share, or `None` if they have several.
    pub cache: Option<usize>,
    /// The package of its processors, or `None` if they are on several.
    pub package: Option<usize>,
    /// Whether other localities have the same processors, because there are more localities than cores.
    pub shared: bool,
}

/// Divides a machine into localities.
///
/// Default: one locality per physical core; the threads of a core stay together. If a quota pays for fewer
/// processors than there are cores, the default is the number that it pays for.
///
/// A number set with [`PlanOptions::localities()`] is met:
///
/// - Each core goes to exactly one locality, in equal numbers as far as the machine allows.
/// - No locality spans two last-level caches, unless there are fewer localities than caches. No locality spans
///   two NUMA nodes, unless there are fewer localities than nodes.
/// - If there are more localities than cores, localities share cores round-robin, and the plan says so.
#[must_use]
pub fn plan(machine: &Machine, options: &PlanOptions) -> Vec<LocalityPlan> {
    let nodes = tree(machine);
    let caches: usize = nodes.iter().map(Vec::len).sum();
    let cores: Vec<&Core> = nodes.iter().flatten().flatten().collect();
    if cores.is_empty() {
        return Vec::new();
    }
    let wanted = match options.localities {
        Some(wanted) => wanted.max(1),
        None => machine
            .quota()
            .map_or(cores.len(), |quota| quota.clamp(1, cores.len())),
    };

    let parts: Vec<Vec<&Core>> = if wanted > cores.len() {
        (0..wanted)
            .filter_map(|index| cores.get(index % cores.len()))
            .map(|core| vec![*core])
            .collect()
    } else if wanted >= caches {
        let groups: Vec<&Group> = nodes.iter().flatten().collect();
        let limits: Vec<_> = groups
            .iter()
            .map(|group| Share::new(group.len(), group.len()))
            .collect();
        let shares = shares(&limits, wanted);
        groups
            .iter()
            .zip(shares)
            .flat_map(|(group, share)| cut(group.iter().map(std::slice::from_ref), share))
            .collect()
    } else if wanted >= nodes.len() {
        let limits: Vec<_> = nodes
            .iter()
            .map(|node| Share::new(node.iter().map(Vec::len).sum(), node.len()))
            .collect();
        let shares = shares(&limits, wanted);
        nodes
            .iter()
            .zip(shares)
            .flat_map(|(node, share)| cut(node.iter().map(Vec::as_slice), share))
            .collect()
    } else {
        let whole: Vec<Group> = nodes
            .iter()
            .map(|node| node.iter().flatten().cloned().collect())
            .collect();
        let shares = cut(whole.iter().map(Vec::as_slice), wanted);
        return describe(shares, cores.len());
    };
    describe(parts, cores.len())
}

#[derive(Clone)]
struct Core {
    cpus: Vec<Cpu>,
}

/// The cores that share a last-level cache and a node.
type Group = Vec<Core>;

/// Returns the groups of each node, in an order that keeps near cores together.
fn tree(machine: &Machine) -> Vec<Vec<Group>> {
    let mut cores: BTreeMap<usize, Core> = BTreeMap::new();
    for cpu in machine.cpus() {
        cores
            .entry(cpu.core)
            .or_insert_with(|| Core { cpus: Vec::new() })
            .cpus
            .push(*cpu);
    }
    // A cache that spans two nodes makes a group in each of them.
    let mut groups: BTreeMap<(usize, usize), Group> = BTreeMap::new();
    let mut package_of_node: BTreeMap<usize, usize> = BTreeMap::new();
    for core in cores.into_values() {
        let Some(first) = core.cpus.first().copied() else {
            continue;
        };
        let package = package_of_node.entry(first.node).or_insert(first.package);
        *package = first.package.min(*package);
        groups
            .entry((first.node, first.cache))
            .or_default()
            .push(core);
    }
    let mut nodes: BTreeMap<(usize, usize), Vec<Group>> = BTreeMap::new();
    for ((node, _), group) in groups {
        let package = package_of_node.get(&node).copied().unwrap_or(0);
        nodes.entry((package, node)).or_default().push(group);
    }
    nodes.into_values().collect()
}

struct Share {
    weight: usize,
    most: usize,
}

impl Share {
    fn new(weight: usize, most: usize) -> Self {
        Self { weight, most }
    }
}

/// Deals `wanted` localities to the groups: first one each, then always to the group with the most cores per
/// locality. `wanted` is at least the number of groups, and no more than they can take.
fn shares(groups: &[Share], wanted: usize) -> Vec<usize> {
    let mut shares = vec![1; groups.len()];
    for _ in groups.len()..wanted {
        let mut best: Option<(usize, &Share, usize)> = None;
        for (at, (group, &share)) in groups.iter().zip(&shares).enumerate() {
            let fuller = best.is_none_or(|(_, other, of)| group.weight * of > other.weight * share);
            if share < group.most && fuller {
                best = Some((at, group, share));
            }
        }
        if let Some(share) = best.and_then(|(at, ..)| shares.get_mut(at)) {
            *share += 1;
        }
    }
    shares
}

/// Cuts a row of pieces into `parts` runs with about the same number of cores. There are at least as many pieces
/// as parts.
fn cut<'a>(pieces: impl Iterator<Item = &'a [Core]>, parts: usize) -> Vec<Vec<&'a Core>> {
    let pieces: Vec<&[Core]> = pieces.collect();
    let mut cores: usize = pieces.iter().map(|piece| piece.len()).sum();
    let mut pieces_left = pieces.len();
    let mut pieces = pieces.into_iter().peekable();
    let mut runs = Vec::with_capacity(parts);
    for parts_left in (1..=parts).rev() {
        let mut run: Vec<&Core> = Vec::new();
        while let Some(next) = pieces.peek() {
            // Takes one more piece if that brings the run nearer to its share and leaves a piece for each other
            // run.
            let fits = parts_left == 1 || (run.len() * 2 + next.len()) * parts_left <= cores * 2;
            if !run.is_empty() && (pieces_left < parts_left || !fits) {
                break;
            }
            run.extend(next.iter());
            pieces_left -= 1;
            pieces.next();
        }
        cores -= run.len();
        runs.push(run);
    }
    runs
}

fn describe(parts: Vec<Vec<&Core>>, cores: usize) -> Vec<LocalityPlan> {
    // Cores are dealt round-robin, so the first cores may have one locality more than the last.
    let count = parts.len();
    parts
        .into_iter()
        .enumerate()
        .map(|(index, part)| {
            let cpus: Vec<&Cpu> = part.iter().flat_map(|core| &core.cpus).collect();
            let mut numbers: Vec<_> = cpus.iter().map(|cpu| cpu.id).collect();
            numbers.sort_unstable();
            LocalityPlan {
                index,
                cpus: numbers,
                node: common(&cpus, |cpu| cpu.node),
                cache: common(&cpus, |cpu| cpu.cache),
                package: common(&cpus, |cpu| cpu.package),
                shared: count > cores && (index + cores < count || index >= cores),
            }
        })
        .collect()
}

fn common(cpus: &[&Cpu], key: impl Fn(&Cpu) -> usize) -> Option<usize> {
    let first = key(cpus.first()?);
    cpus.iter().all(|cpu| key(cpu) == first).then_some(first)
}
