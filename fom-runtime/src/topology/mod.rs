//! The processors of the machine, their groups, and how they are divided among localities.
//!
//! [`Machine::detect`] reads the machine, [`plan`] divides it into localities, and [`bind_current_thread`] binds
//! a thread to a locality's processors. A machine is plain data, so a program can also make one up
//! ([`Machine::synthetic`]) and plan for it.
//!
//! Nothing binds memory: the kernel places a page on the node of the thread that touches the page first. So a
//! locality's memory lands on its own node if the locality's own thread, once bound, allocates and fills it.
//!
//! ```
//! use fom_runtime::topology::{Machine, PlanOptions, plan};
//!
//! // Two packages, two last-level caches in each, four cores on each, two threads in each.
//! let machine = Machine::synthetic(2, 2, 4, 2);
//! assert_eq!(plan(&machine, &PlanOptions::default()).len(), 16);
//!
//! // One locality for each of the four caches.
//! let four = plan(&machine, &PlanOptions::default().localities(4));
//! assert!(four.iter().all(|locality| locality.cpus.len() == 8 && locality.cache.is_some()));
//! ```

mod bind;
mod flat;
#[cfg(feature = "hwloc")]
mod hwloc;
mod machine;
mod plan;
mod sysfs;

pub(crate) use bind::{Thread, bind_thread};
pub use bind::{allowed_cpus, bind_current_thread};
pub use machine::{Cpu, Machine, Source};
pub use plan::{LocalityPlan, PlanOptions, plan};
