//! What a program needs to declare and run foms and patterns.

pub use crate::service::ServicesExt;
pub use fom_runtime::prelude::*;
