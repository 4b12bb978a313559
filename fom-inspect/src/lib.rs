//! Inspect and operate a running program of foms in a browser: what runs, what waits, on what, and since when.
//!
//! ```
//! use fom_inspect::Inspector;
//! use fom_runtime::prelude::*;
//!
//! # fn main() -> Result<(), BoxError> {
//! let runtime = Runtime::new()?;
//! let inspector = Inspector::new(&runtime).bind("127.0.0.1:0").start()?;
//! println!("look at {}", inspector.url());
//! # Ok(())
//! # }
//! ```
//!
//! The inspector has its own thread, runs in no locality, and waits for none. So it answers while every locality spins. It
//! counts transitions from its start on, and walks the foms only when a client asks for foms.
//!
//! | to | see |
//! | --- | --- |
//! | start an inspector | [`Inspector::new`], [`Inspector::bind`], [`Inspector::start`] |
//! | let other machines read | [`Inspector::token`], [`Inspector::allow_host`] |
//! | let clients act | [`Inspector::actions`], [`Inspector::operation`], [`Inspector::persistent`], [`Inspector::event`] |
//! | show warnings | [`Inspector::warnings`], [`Source`] |
//! | serve metrics for Prometheus | [`Inspector::metrics`] |
//! | show the journal and its quarantine | the feature `durable` of this package |
//! | show the data of foms | [`Inspector::data`], with the feature `durable` |
//! | show the parent and the children of a fom | [`ParentsExt::parents`] |
//! | stop it | drop the [`InspectorHandle`] |
//!
//! Clients use the page at `/`, or the HTTP API, which `API.md` of this package describes.

#![forbid(unsafe_code)]

// The modules, from the lowest. Each imports only from itself and from modules above it in this list. `tests/layout.rs`
// checks this.
//
// - `error`, `address`, `token`, `problem`, `query`: small types without knowledge of foms
// - `catalog`, `layout`, `samples`: the machines of the program, and what was counted
// - `source`, `types`, `suspended`, `journal`, `parents`: what the program gives the inspector
// - `state`: what the requests share
// - `resources`, `live`, `actions`: what is answered
// - `server`: HTTP
// - `inspector`: the settings and the start

mod actions;
mod address;
mod catalog;
mod error;
mod inspector;
mod journal;
mod layout;
mod live;
mod parents;
mod problem;
mod query;
mod resources;
mod samples;
mod server;
mod source;
mod state;
mod suspended;
mod token;
mod types;

pub use address::Address;
pub use error::StartError;
pub use inspector::{Inspector, InspectorHandle};
pub use parents::ParentsExt;
pub use source::Source;

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
