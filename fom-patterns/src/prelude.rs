//! The names that a program needs to declare and run foms and patterns.

pub use fom_runtime::prelude::*;

pub use crate::{
    active, active::Active, chore::ChoreExt, closure::ClosureExt, limit::LimitsExt,
    messages::MessagesExt, service::ServicesExt, team::TeamExt,
};
