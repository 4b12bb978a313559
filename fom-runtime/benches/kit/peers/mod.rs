//! Starts each peer in the way its own documentation recommends, with a worker pinned to each core.

mod bell;
mod executors;
mod fom;
mod generate;
mod window;
mod yields;

pub use bell::{Bell, Heard};
pub use executors::{glommio, monoio, smol, smol_io, smol_local, tokio_ct, tokio_local, tokio_mt};
pub use fom::{Flight, fom, submit_here};
pub use generate::{Load, Small, generate, generate_foms, generate_shared};
pub use window::{LocalWindow, SharedWindow};
pub use yields::{DeferredYield, self_wake};
