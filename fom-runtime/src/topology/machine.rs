use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{bind, flat, sysfs};

/// One logical processor and its place in the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Cpu {
    /// Its number in the operating system.
    pub id: usize,
    /// Its core. The hardware threads of one core have the same number, which is unique in the whole machine.
    pub core: usize,
    /// Its package (socket).
    pub package: usize,
    /// The group of processors that share its last-level cache. Unique in the whole machine.
    pub cache: usize,
    /// Its NUMA node.
    pub node: usize,
}

impl Cpu {
    /// Creates a processor that is its own core, on package 0, cache 0 and node 0.
    #[must_use]
    pub const fn new(id: usize) -> Self {
        Self {
            id,
            core: id,
            package: 0,
            cache: 0,
            node: 0,
        }
    }
}

/// The source of the description of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Source {
    /// The hwloc library.
    Hwloc,
    /// The kernel's files under `/sys`.
    Sysfs,
    /// Only the number of processors is known.
    Flat,
    /// Made up by the program.
    Synthetic,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hwloc => "hwloc",
            Self::Sysfs => "sysfs",
            Self::Flat => "flat",
            Self::Synthetic => "synthetic",
        })
    }
}

/// The processors that this process may use, and their groups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    cpus: Vec<Cpu>,
    source: Source,
    quota: Option<usize>,
    bindable: bool,
}

impl Machine {
    /// Detects the machine that this process runs on, without the processors that it may not use (cpuset,
    /// `taskset`).
    ///
    /// Asks hwloc if the feature `hwloc` is on, and then `/sys`. If both fail, only the number of processors is
    /// known. [`source`](Self::source) returns which source was used.
    #[must_use]
    pub fn detect() -> Self {
        let allowed = bind::allowed_cpus()
            .ok()
            .filter(|allowed| !allowed.is_empty())
            .unwrap_or_else(flat::counted);
        let mut machine = Self::discover()
            .map(|machine| {
                // A machine that a file or a text describes to hwloc has processors that this one has not.
                if machine.bindable {
                    machine.restricted_to(&allowed)
                } else {
                    machine
                }
            })
            .filter(|machine| !machine.cpus.is_empty())
            .unwrap_or_else(|| flat::machine(&allowed));
        if machine.bindable {
            machine.quota = flat::quota().filter(|&quota| quota < machine.cpus.len());
        }
        machine
    }

    fn discover() -> Option<Self> {
        #[cfg(feature = "hwloc")]
        if let Some(machine) = super::hwloc::machine() {
            return Some(machine);
        }
        sysfs::machine(Path::new("/sys")).ok()
    }

    /// Reads a machine from a tree of files like the kernel's `/sys`.
    ///
    /// # Errors
    ///
    /// Fails if the tree does not say which processors are online. Anything else that is missing or makes no
    /// sense only leaves out a grouping.
    pub fn from_sysfs(root: impl AsRef<Path>) -> std::io::Result<Self> {
        sysfs::machine(root.as_ref())
    }

    /// Creates a machine of these processors, to plan for it. No thread can be bound to it.
    #[must_use]
    pub fn from_cpus(cpus: impl IntoIterator<Item = Cpu>) -> Self {
        Self::assemble(cpus.into_iter().collect(), Source::Synthetic, false)
    }

    /// Creates a made-up symmetric machine with one NUMA node per package. No thread can be bound to it.
    ///
    /// Processors are numbered as in Linux: the first thread of every core, then the second threads.
    #[must_use]
    pub fn synthetic(
        packages: usize,
        caches_per_package: usize,
        cores_per_cache: usize,
        threads_per_core: usize,
    ) -> Self {
        let cores = packages * caches_per_package * cores_per_cache;
        Self::from_cpus((0..cores * threads_per_core).map(|id| {
            let core = id % cores;
            let cache = core / cores_per_cache;
            let package = cache / caches_per_package;
            Cpu {
                id,
                core,
                package,
                cache,
                node: package,
            }
        }))
    }

    pub(super) fn assemble(mut cpus: Vec<Cpu>, source: Source, bindable: bool) -> Self {
        cpus.sort_by_key(|cpu| cpu.id);
        cpus.dedup_by_key(|cpu| cpu.id);
        Self {
            cpus,
            source,
            quota: None,
            bindable,
        }
    }

    /// Returns this machine as seen by a process that may use only these processors.
    #[must_use]
    pub fn restricted_to(&self, allowed: &[usize]) -> Self {
        let allowed: BTreeSet<_> = allowed.iter().collect();
        let mut machine = self.clone();
        machine.cpus.retain(|cpu| allowed.contains(&cpu.id));
        machine
    }

    /// Returns the processors, in the order of their numbers.
    #[must_use]
    pub fn cpus(&self) -> &[Cpu] {
        &self.cpus
    }

    /// Returns the source of this description.
    #[must_use]
    pub const fn source(&self) -> Source {
        self.source
    }

    /// Returns how many processors' worth of time the process may use, if that is less than its number of
    /// processors (cgroup `cpu.max`).
    #[must_use]
    pub const fn quota(&self) -> Option<usize> {
        self.quota
    }

    /// Returns whether threads can be bound to these processors. `false` for a made-up machine.
    #[must_use]
    pub const fn is_bindable(&self) -> bool {
        self.bindable
    }

    /// Returns the number of cores.
    #[must_use]
    pub fn cores(&self) -> usize {
        self.distinct(|cpu| cpu.core)
    }

    /// Returns the number of packages.
    #[must_use]
    pub fn packages(&self) -> usize {
        self.distinct(|cpu| cpu.package)
    }

    /// Returns the number of last-level caches.
    #[must_use]
    pub fn caches(&self) -> usize {
        self.distinct(|cpu| cpu.cache)
    }

    /// Returns the number of NUMA nodes.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.distinct(|cpu| cpu.node)
    }

    fn distinct(&self, key: impl Fn(&Cpu) -> usize) -> usize {
        self.cpus.iter().map(key).collect::<BTreeSet<_>>().len()
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "packages: {}, nodes: {}, last-level caches: {}, cores: {}, cpus: {}",
            self.packages(),
            self.nodes(),
            self.caches(),
            self.cores(),
            self.cpus.len()
        )?;
        if let Some(quota) = self.quota {
            write!(f, ", quota: {quota}")?;
        }
        write!(f, " (from {})", self.source)
    }
}
