//! The rules a whole machine keeps. Each looks only at parts in which nothing was reported yet.

mod graph;
mod keys;
mod layer;
mod names;
mod versions;

use crate::diag::Diagnostics;
use crate::model::Machine;

pub(crate) fn check(machine: &mut Machine, diag: &mut Diagnostics) {
    names::check(machine, diag);
    keys::check(machine, diag);
    layer::check(machine, diag);
    versions::check(machine, diag);
    graph::check(machine, diag);
}
