//! Paths through the machine: a start, an end, and every phase on a path between them.

use crate::diag::Diagnostics;
use crate::model::{Machine, Phase};

pub(super) fn check(machine: &Machine, diag: &mut Diagnostics) {
    if machine.phases.is_empty() {
        return;
    }
    let start = start(machine, diag);
    // A phase with a reported mistake may lead anywhere.
    let is_unknown = |phase: &Phase| {
        phase.exits_mistake.is_some()
            || phase.args.has_mistake
            || phase
                .exits
                .iter()
                .chain(&phase.failed)
                .any(|exit| exit.phase.is_none())
    };
    if let Some(start) = start
        && !machine.phases.iter().any(is_unknown)
    {
        unreachable(machine, start, diag);
    }
    ends(machine, &is_unknown, diag);
}

fn start(machine: &Machine, diag: &mut Diagnostics) -> Option<usize> {
    let mut starts = machine
        .phases
        .iter()
        .enumerate()
        .filter_map(|(number, phase)| phase.args.start.as_ref().map(|key| (number, key)));
    let Some((first, _)) = starts.next() else {
        // A mistyped key may have been `start`.
        if !machine.phases.iter().any(|phase| phase.args.has_mistake) {
            diag.error(
                &machine.item.ident,
                "no phase is the start; write `start` in the `#[phase(..)]` of one phase",
            );
        }
        return None;
    };
    for (_, key) in starts {
        let name = &machine.phases[first].name;
        diag.error(
            key,
            format!("`{name}` is already the start; keep one `start`"),
        );
    }
    (!machine.phases[first].is_end()).then_some(first)
}

fn unreachable(machine: &Machine, start: usize, diag: &mut Diagnostics) {
    let mut reached = reach(machine, start);
    for (number, phase) in machine.phases.iter().enumerate() {
        if reached[number] || phase.args.start.is_some() {
            continue;
        }
        diag.error(
            &phase.ident,
            format!("phase `{0}` cannot be reached; name it in the `to(..)` of another phase, or remove it", phase.name),
        );
        // Phases that only this phase leads to are not reported as well.
        for (number, more) in reach(machine, number).into_iter().enumerate() {
            reached[number] |= more;
        }
    }
}

fn ends(machine: &Machine, is_unknown: &dyn Fn(&Phase) -> bool, diag: &mut Diagnostics) {
    // If the layer does not continue, the ends of the inner operation end it.
    let ends = |phase: &Phase| phase.is_end() || phase.is_handed_over();
    if !machine.phases.iter().any(ends) {
        if !machine.phases.iter().any(is_unknown) {
            diag.error(
                &machine.item.ident,
                "no phase is an end; write `#[phase(end)]` on one phase",
            );
        }
        return;
    }
    let reach: Vec<Vec<bool>> = (0..machine.phases.len())
        .map(|number| reach(machine, number))
        .collect();
    let good = |number: usize| {
        machine
            .phases
            .iter()
            .enumerate()
            .any(|(end, phase)| reach[number][end] && (ends(phase) || is_unknown(phase)))
    };
    for (number, phase) in machine.phases.iter().enumerate() {
        if good(number) {
            continue;
        }
        // The cause is the last phase on a path without an end. Of a ring, it is the first phase.
        let others = || (0..machine.phases.len()).filter(|other| reach[number][*other]);
        let is_last = others().all(|other| reach[other][number]);
        let is_first = others().all(|other| other >= number);
        if is_last && is_first {
            let key = phase.args.to.as_ref().map_or(&phase.ident, |(key, _)| key);
            diag.error(
                key,
                format!(
                    "phase `{}` cannot reach an end; name a phase that leads to an end here",
                    phase.name
                ),
            );
        }
    }
}

/// Returns which phases can be reached from this phase, itself included.
fn reach(machine: &Machine, from: usize) -> Vec<bool> {
    let mut reached = vec![false; machine.phases.len()];
    let mut todo = vec![from];
    while let Some(number) = todo.pop() {
        if !std::mem::replace(&mut reached[number], true) {
            let phase = &machine.phases[number];
            let exits = phase.exits.iter().chain(&phase.failed);
            todo.extend(exits.filter_map(|exit| exit.phase));
        }
    }
    reached
}
