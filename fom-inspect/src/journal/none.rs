//! An inspector that was built without its feature `durable`.

use std::path::Path;

use fom_runtime::{FomId, Runtime};
use serde_json::Value;

use crate::{problem::Problem, samples::Rates};

fn missing() -> Problem {
    Problem::unavailable(
        "fom-inspect was built without its feature `durable`; add it in Cargo.toml",
    )
}

pub(crate) fn written(_: &Runtime) -> Option<(u64, u64)> {
    None
}

pub(crate) fn quarantined(_: &Runtime) -> Option<usize> {
    None
}

pub(crate) fn list(_: &Runtime, _: usize, _: [Rates; 2]) -> Result<Value, Problem> {
    Err(missing())
}

pub(crate) fn bytes(_: &Runtime, _: FomId) -> Result<Vec<u8>, Problem> {
    Err(missing())
}

pub(crate) fn data(_: &Path, _: FomId) -> Result<Value, Problem> {
    Err(missing())
}

pub(crate) fn retry(_: &Runtime, _: FomId) -> Result<String, Problem> {
    Err(missing())
}

pub(crate) fn discard(_: &Runtime, _: FomId) -> Result<String, Problem> {
    Err(missing())
}
