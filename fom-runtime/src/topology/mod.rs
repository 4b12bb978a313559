//! The processors of the machine, their groups, and how they are divided among localities.
//!
//! [`Machine::detect`] reads the machine, [`plan`] divides it into localities, and [`bind_current_thread`] binds
//! a thread to a locality's processors. A machine is plain data, so a program can also make one up
//! ([`Machine::synthetic`]) and plan for it.
//!
//! On a machine with several NUMA nodes, the memory of a locality's foms is bound to the node of its processors. This
//! also holds for foms that other threads submit. The locality's own threads, which are bound, make all its other memory.
//! The kernel places a page on the node of the thread that touches the page first.
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
mod memory;
mod plan;
mod sysfs;

pub(crate) use bind::{Thread, bind_thread};
pub use bind::{allowed_cpus, bind_current_thread};
pub use machine::{Cpu, Machine, Source};
pub(crate) use memory::{BOUND_ALIGN, bind_memory, unbind_memory};
pub use plan::{LocalityPlan, PlanOptions, plan};
