//! Patterns that are made of foms. They use only the public API of [`fom_runtime`], and helpers of `fom-protocol`.
//!
//! Each pattern is one module. The modules do not know each other, so a program may use any of them.
//!
//! A program that declares foms needs the package `fom-runtime`, too. `use fom_patterns::prelude::*` also imports the
//! prelude of the runtime. It also has [`macro@active`], `Active` and the extension traits. Import all other types from
//! their modules.
//!
//! | to | see |
//! | --- | --- |
//! | queue in front of the localities, limit rates, shed load | [`admission`] |
//! | hold a lock over phases, declare it on a phase | [`lock`] |
//! | make an object that is called from anywhere, without a lock | [`macro@active`], [`active`](mod@active) |
//! | work periodically in each locality | [`chore`] |
//! | run a closure as a fom | [`closure`] |
//! | start other foms and wait for their ends | [`team`] |
//! | wait for many messages to localities, or cancel them | [`messages`] |
//! | push streams of requests, in order for each key | [`streams`] |
//! | limit how many foms run a phase at once | [`limit`] |
//! | register, call and watch services by name | [`service`] |

pub mod active;
pub mod admission;
pub mod chore;
pub mod closure;
pub mod limit;
pub mod lock;
pub mod messages;
pub mod prelude;
pub mod service;
pub mod streams;
pub mod team;

pub use fom_macros::active;

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
