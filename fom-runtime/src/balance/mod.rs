//! When it pays to move work to idle localities, or idle processors to work.
//!
//! Nothing here moves anything: these are the questions that a balanced [`Runtime`](crate::Runtime) asks, as plain functions
//! of plain figures, so that they can be tested and simulated on machines of any size. The example `balancing` does that
//! with 64 localities.
//!
//! What is moved, and what is not, stands at [`Balance`].
//!
//! ```
//! use std::time::Duration;
//! use fom_runtime::balance::{Distance, Load, foms};
//!
//! let mut load = Load::default();
//! load.service = Duration::from_micros(10);
//! (load.ready, load.movable) = (100, 100);
//! assert!(foms::pays(&load, Distance::Cache));
//! // Half of a short queue is done before an idle locality has woken up.
//! (load.ready, load.movable) = (4, 4);
//! assert!(!foms::pays(&load, Distance::Cache));
//! // And what is done in less time than it takes to fetch it is best done where it is.
//! load.service = Duration::from_nanos(200);
//! (load.ready, load.movable) = (10_000, 10_000);
//! assert!(!foms::pays(&load, Distance::Cache));
//! ```

pub mod foms;
pub mod processors;

use std::time::Duration;

use crate::topology::LocalityPlan;

/// What a runtime moves from locality to locality to spread its load.
///
/// Balancing is off by default: with round-robin homes and work of a kind all localities have the same load, and what
/// never moves finds its data in its own cache. It pays where work arises in few localities and takes its time, such as
/// foms that submit many others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Balance {
    /// Nothing.
    #[default]
    Off,
    /// Foms: a locality that has nothing to do is given half of the ready foms of one that has many.
    ///
    /// A fom is moved between two of its runs, and never one
    ///
    /// - that was placed explicitly ([`Here`](crate::Placement::Here), [`Locality`](crate::Placement::Locality) or
    ///   [`Key`](crate::Placement::Key)), or has a key;
    /// - that has reached for the data of its locality ([`Cx::local`](crate::Cx::local));
    /// - in a phase `within = "adaptive"`, which is measured by locality.
    ///
    /// Wakes, events, cancels and deadlines follow it. What it has made before stays behind and still reaches it: a socket
    /// is served, and a [`Sleep`](crate::Sleep) ends, where it was made, which wakes it at home.
    Foms,
    /// Processors: a locality whose threads wait for a processor may run on those of one that is idle, too, until that has
    /// work again. Only where threads are bound ([`Builder::pin`](crate::Builder::pin)) and the system says how they fare:
    /// on Linux, by `/proc/thread-self/schedstat`.
    ///
    /// One handler at a time runs a locality's foms, so a second processor does not make them run faster by itself. It
    /// helps where blocking sections compute, or localities share processors.
    Processors,
    /// Both.
    Both,
}

impl Balance {
    /// Whether foms are moved.
    #[must_use]
    pub const fn moves_foms(self) -> bool {
        matches!(self, Self::Foms | Self::Both)
    }

    /// Whether processors are moved.
    #[must_use]
    pub const fn moves_processors(self) -> bool {
        matches!(self, Self::Processors | Self::Both)
    }
}

/// How far it is from one locality to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Distance {
    /// They have the same processors: nothing is gained by moving work.
    None,
    /// They share their last-level cache.
    Cache,
    /// They are on one NUMA node.
    Node,
    /// They are on different nodes.
    Far,
}

impl Distance {
    /// The distance between two localities of one plan.
    #[must_use]
    pub fn between(one: &LocalityPlan, other: &LocalityPlan) -> Self {
        let same = |one: Option<usize>, other| one.is_some() && one == other;
        if one.cpus == other.cpus {
            Self::None
        } else if same(one.cache, other.cache) && same(one.node, other.node) {
            Self::Cache
        } else if same(one.node, other.node) {
            Self::Node
        } else {
            Self::Far
        }
    }

    /// How much longer a cache line takes than between two processors that share their last-level cache. Only that one
    /// was measured; that each step outwards doubles it is what is commonly seen on machines with several of them.
    #[must_use]
    pub const fn factor(self) -> u32 {
        match self {
            Self::None | Self::Cache => 1,
            Self::Node => 2,
            Self::Far => 4,
        }
    }
}

/// What is known of a locality when it is decided whether something is moved.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Load {
    /// Foms in its run queue.
    pub ready: usize,
    /// Of these such that may be moved.
    pub movable: usize,
    /// How long a run of a fom takes here, smoothed.
    pub service: Duration,
    /// Which part of the time that it had work its handler had a processor: 1 when it never waited for one.
    pub share: f64,
    /// For how long it has had nothing to do; none while it has.
    pub idle: Option<Duration>,
    /// On how many processors that are not its own it may run.
    pub borrowed: usize,
}
