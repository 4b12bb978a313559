//! The machine as described by the kernel's files under `/sys/devices/system`.
//!
//! Containers and odd machines leave files out or fill them with nonsense. What cannot be understood counts as
//! missing. Only the list of processors must make sense.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use super::{Cpu, Machine, Source};

/// Larger numbers of processors, nodes or packages make no sense.
const MOST: usize = 1 << 16;

pub(super) fn machine(root: &Path) -> io::Result<Machine> {
    let system = root.join("devices/system");
    let online = fs::read_to_string(system.join("cpu/online"))?;
    let online = list(&online)
        .filter(|online| !online.is_empty())
        .ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                "the list of online processors makes no sense",
            )
        })?;
    let nodes = nodes(&system);
    let mut caches = Numbers::default();
    let cpus = online
        .into_iter()
        .map(|id| {
            let cpu = system.join(format!("cpu/cpu{id}"));
            let package = number(&cpu.join("topology/physical_package_id")).unwrap_or(0);
            let node = nodes.get(&id).copied().unwrap_or(0);
            Cpu {
                id,
                core: siblings(&cpu.join("topology"), id).unwrap_or(id),
                package,
                // If no cache is known, the processors of one node and one package count as near.
                cache: caches.number(
                    last_level_cache(&cpu.join("cache"), id)
                        .unwrap_or_else(|| (package, node).into()),
                ),
                node,
            }
        })
        .collect();
    Ok(Machine::assemble(cpus, Source::Sysfs, true))
}

/// Returns the lowest number among the threads of a core, which names the core.
fn siblings(topology: &Path, id: usize) -> Option<usize> {
    // The first name exists since Linux 5.3; the second is the older one.
    ["core_cpus_list", "thread_siblings_list"]
        .iter()
        .find_map(|file| list(&fs::read_to_string(topology.join(file)).ok()?))
        .filter(|siblings| siblings.contains(&id))?
        .into_iter()
        .min()
}

#[derive(PartialEq)]
enum CacheKey {
    Shared { level: usize, first: usize },
    Near { package: usize, node: usize },
}

impl From<(usize, usize)> for CacheKey {
    fn from((package, node): (usize, usize)) -> Self {
        Self::Near { package, node }
    }
}

/// Numbers keys densely, in the order of the first lookup.
#[derive(Default)]
struct Numbers {
    keys: Vec<CacheKey>,
}

impl Numbers {
    fn number(&mut self, key: CacheKey) -> usize {
        self.keys
            .iter()
            .position(|known| *known == key)
            .unwrap_or_else(|| {
                self.keys.push(key);
                self.keys.len() - 1
            })
    }
}

fn last_level_cache(caches: &Path, id: usize) -> Option<CacheKey> {
    fs::read_dir(caches)
        .ok()?
        .filter_map(|entry| {
            let cache = entry.ok()?.path();
            let kind = fs::read_to_string(cache.join("type")).ok()?;
            if kind.trim() == "Instruction" {
                return None;
            }
            let level = number(&cache.join("level"))?;
            let shared = list(&fs::read_to_string(cache.join("shared_cpu_list")).ok()?)?;
            let first = shared.contains(&id).then(|| shared.into_iter().min())??;
            Some((level, first))
        })
        .max_by_key(|&(level, _)| level)
        .map(|(level, first)| CacheKey::Shared { level, first })
}

/// Returns the node of each processor.
fn nodes(system: &Path) -> BTreeMap<usize, usize> {
    let mut nodes = BTreeMap::new();
    for entry in fs::read_dir(system.join("node"))
        .into_iter()
        .flatten()
        .flatten()
    {
        let name = entry.file_name();
        let node = name
            .to_str()
            .and_then(|name| name.strip_prefix("node")?.parse().ok());
        let Some(node) = node.filter(|&node: &usize| node < MOST) else {
            continue;
        };
        let cpus = fs::read_to_string(entry.path().join("cpulist"))
            .ok()
            .and_then(|text| list(&text));
        for cpu in cpus.into_iter().flatten() {
            // Directory entries have no order. If two nodes claim a processor, the lower one gets it.
            let place = nodes.entry(cpu).or_insert(node);
            *place = node.min(*place);
        }
    }
    nodes
}

fn number(file: &Path) -> Option<usize> {
    let number = fs::read_to_string(file).ok()?.trim().parse().ok()?;
    (number < MOST).then_some(number)
}

/// Parses the kernel's lists, such as `0-3,8,10-11`.
fn list(text: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last >= MOST {
            return None;
        }
        cpus.extend(first..=last);
        if cpus.len() > MOST {
            return None;
        }
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::list;

    #[test]
    fn lists_of_the_kernel() {
        assert_eq!(list("0-3,8,10-11\n"), Some(vec![0, 1, 2, 3, 8, 10, 11]));
        assert_eq!(list("\n"), Some(vec![]));
        for nonsense in [
            "x",
            "3-1",
            "-",
            "1-",
            "-1",
            "0-99999999999999999999",
            "0-4294967295",
            "1;2",
            "1--2",
        ] {
            assert_eq!(list(nonsense), None, "{nonsense}");
        }
        assert_eq!(list(&"0-65535,".repeat(1000)), None);
    }
}
