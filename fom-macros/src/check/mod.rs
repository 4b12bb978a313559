//! The rules for a whole machine. Each rule looks only at parts without a reported mistake.

mod graph;
mod keys;
mod layer;
mod names;
mod owned;
mod versions;

use crate::diag::Diagnostics;
use crate::model::Machine;

pub(crate) fn check(machine: &mut Machine, diag: &mut Diagnostics) {
    names::check(machine, diag);
    keys::check(machine, diag);
    layer::check(machine, diag);
    versions::check(machine, diag);
    owned::check(machine, diag);
    graph::check(machine, diag);
}
