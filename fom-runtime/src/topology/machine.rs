use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{bind, flat, sysfs};

/// One logical processor and where it belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Cpu {
    /// The number that the operating system gives it.
    pub id: usize,
    /// Its core; the hardware threads of one core have the same number. Unique in the whole machine.
    pub core: usize,
    /// Its package (socket).
    pub package: usize,
    /// The group of processors that share its last-level cache. Unique in the whole machine.
    pub cache: usize,
    /// Its NUMA node.
    pub node: usize,
}

impl Cpu {
    /// A processor that is its own core, on package 0, cache 0 and node 0.
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

/// Where the description of a machine was taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Source {
    /// The hwloc library.
    Hwloc,
    /// The kernel's files under `/sys`.
    Sysfs,
    /// Nothing but the number of processors is known.
    Flat,
    /// Made up.
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

/// The processors that this process may use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    cpus: Vec<Cpu>,
    source: Source,
    quota: Option<usize>,
    bindable: bool,
}

impl Machine {
    /// The machine that this process runs on, less the processors that it may not use (cpuset, `taskset`).
    ///
    /// Asks hwloc with the feature `hwloc`, then `/sys`, and knows nothing but the number of processors where
    /// both fail; [`source`](Self::source) tells which it was.
    #[must_use]
    pub fn detect() -> Self {
        let allowed = bind::allowed_cpus()
            .ok()
            .filter(|allowed| !allowed.is_empty())
            .unwrap_or_else(flat::counted);
        let mut machine = Self::discover()
            .map(|machine| {
                // A machine described to hwloc by a file or a text has processors that are not here.
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

    /// The machine that a tree of files like the kernel's `/sys` describes.
    ///
    /// # Errors
    ///
    /// When the tree does not say which processors are online. Anything else that is missing or makes no sense
    /// only leaves out a grouping.
    pub fn from_sysfs(root: impl AsRef<Path>) -> std::io::Result<Self> {
        sysfs::machine(root.as_ref())
    }

    /// A machine of these processors, for a planning of one's own; nothing is bound to it.
    #[must_use]
    pub fn from_cpus(cpus: impl IntoIterator<Item = Cpu>) -> Self {
        Self::assemble(cpus.into_iter().collect(), Source::Synthetic, false)
    }

    /// A made-up symmetric machine, with a NUMA node for each package; nothing is bound to it.
    ///
    /// Processors are numbered as Linux does: first one thread of every core, then the second ones.
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

    /// The same machine, as a process sees it that may use only these processors.
    #[must_use]
    pub fn restricted_to(&self, allowed: &[usize]) -> Self {
        let allowed: BTreeSet<_> = allowed.iter().collect();
        let mut machine = self.clone();
        machine.cpus.retain(|cpu| allowed.contains(&cpu.id));
        machine
    }

    /// The processors, in the order of their numbers.
    #[must_use]
    pub fn cpus(&self) -> &[Cpu] {
        &self.cpus
    }

    /// Where this was read.
    #[must_use]
    pub const fn source(&self) -> Source {
        self.source
    }

    /// For how many processors' worth of time the process is paid, where that is less than the processors it may
    /// use (cgroup `cpu.max`).
    #[must_use]
    pub const fn quota(&self) -> Option<usize> {
        self.quota
    }

    /// Whether these are processors of this machine, that threads can be bound to; not so for a made-up one.
    #[must_use]
    pub const fn is_bindable(&self) -> bool {
        self.bindable
    }

    /// How many cores there are.
    #[must_use]
    pub fn cores(&self) -> usize {
        self.distinct(|cpu| cpu.core)
    }

    /// How many packages there are.
    #[must_use]
    pub fn packages(&self) -> usize {
        self.distinct(|cpu| cpu.package)
    }

    /// How many last-level caches there are.
    #[must_use]
    pub fn caches(&self) -> usize {
        self.distinct(|cpu| cpu.cache)
    }

    /// How many NUMA nodes there are.
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
