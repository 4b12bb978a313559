//! What a program needs to declare and run foms that survive the process: the names of
//! [`fom_runtime::prelude`], and the six extension traits of this package.

pub use fom_runtime::prelude::*;

pub use crate::{
    DurableBuilderExt as _, DurableCxExt as _, DurableExt as _, DurableFomExt as _,
    DurableInspectExt as _, DurableSubmissionExt as _,
};
