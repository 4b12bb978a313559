//! When it pays to move work to idle localities, or idle processors to work.
//!
//! Nothing here moves anything. These are the decisions of a balanced [`Runtime`](crate::Runtime), as plain functions
//! of plain numbers. So they can be tested and simulated on machines of any size; the example `balancing` simulates 64
//! localities.
//!
//! [`Balance`] says what is moved and what is not.
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

/// What a runtime moves between localities to spread its load.
///
/// Balancing is off by default. With round-robin homes and similar operations, all localities have the same load. Work
/// that never moves finds its data in its own cache. Balancing pays if long-running work arises in few localities, for
/// example in foms that submit many others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Balance {
    /// Nothing.
    #[default]
    Off,
    /// Foms: a locality that has nothing to do gets half of the ready foms of a locality that has many.
    ///
    /// A fom is moved only between two of its runs. These foms never move:
    ///
    /// - a fom that was placed explicitly ([`Here`](crate::submission::Placement::Here),
    ///   [`Locality`](crate::submission::Placement::Locality) or [`Key`](crate::submission::Placement::Key)), or that
    ///   has a key;
    /// - a fom that has used the data of its locality ([`Cx::local`](crate::Cx::local));
    /// - a fom in a phase `within = "adaptive"`, because each locality measures the phase by itself.
    ///
    /// Wakes, events, cancels and deadlines follow the fom. What the fom created before the move stays where it was
    /// made: its sockets are served there, and its [`Sleep`](crate::time::Sleep)s end there. They still wake the fom at
    /// its new home.
    Foms,
    /// Processors: if the threads of a locality wait for a processor, they may also run on the processors of an idle
    /// locality. The loan ends when the idle locality has work again. Loans need bound threads
    /// ([`Builder::pin`](crate::Builder::pin)) and scheduling statistics from the system: on Linux,
    /// `/proc/thread-self/schedstat`.
    ///
    /// One handler at a time runs the foms of a locality, so a second processor alone does not make them run faster. It
    /// helps if blocking sections compute, or if localities share processors.
    Processors,
    /// Both.
    Both,
}

impl Balance {
    /// Returns whether foms are moved.
    #[must_use]
    pub const fn moves_foms(self) -> bool {
        matches!(self, Self::Foms | Self::Both)
    }

    /// Returns whether processors are moved.
    #[must_use]
    pub const fn moves_processors(self) -> bool {
        matches!(self, Self::Processors | Self::Both)
    }
}

/// The distance from one locality to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Distance {
    /// They have the same processors, so moving work gains nothing.
    None,
    /// They share their last-level cache.
    Cache,
    /// They are on one NUMA node.
    Node,
    /// They are on different nodes.
    Far,
}

impl Distance {
    /// Returns the distance between two localities of one plan.
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

    /// Returns the time for a cache line, as a multiple of the time between two processors that share their last-level
    /// cache. Only that time was measured. Each step outwards doubles the factor, as is common on machines with several
    /// such caches.
    #[must_use]
    pub const fn factor(self) -> u32 {
        match self {
            Self::None | Self::Cache => 1,
            Self::Node => 2,
            Self::Far => 4,
        }
    }
}

/// What is known of a locality when a move is decided.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Load {
    /// Number of foms in its run queue.
    pub ready: usize,
    /// Number of those foms that may be moved.
    pub movable: usize,
    /// The smoothed time of a run of a fom here.
    pub service: Duration,
    /// The share of its time with work in which its handler had a processor. 1 if the handler never waited for one.
    pub share: f64,
    /// How long it has had nothing to do; `None` while it has work.
    pub idle: Option<Duration>,
    /// Number of other localities that lend it their processors.
    pub borrowed: usize,
}
