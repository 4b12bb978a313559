//! Which keys go together.

use syn::Ident;

use crate::diag::Diagnostics;
use crate::model::{Machine, Phase};
use crate::syntax::Setting;
use crate::syntax::args::Durability;
use crate::syntax::phase::{Cancelled, PhaseArgs};
use crate::syntax::within::Within;

pub(super) fn check(machine: &mut Machine, diag: &mut Diagnostics) {
    let kept: Vec<usize> = machine
        .phases
        .iter()
        .flat_map(|phase| &phase.keep)
        .filter_map(|target| target.phase)
        .collect();
    let mut exits_mistake = Vec::new();
    for (number, phase) in machine.phases.iter().enumerate() {
        let timed = phase.args.within.is_some() || kept.contains(&number);
        let mut own = Diagnostics::default();
        if phase.is_end() {
            end(phase, &mut own);
        } else {
            let has_event = machine.event_key.is_some() || machine.around_key.is_some();
            working(phase, timed, has_event, &mut own);
        }
        taken(machine, number, &mut own);
        of_group(machine, number, &mut own);
        for target in &phase.keep {
            if let Some(kept) = target.phase.map(|kept| &machine.phases[kept])
                && kept.is_end()
            {
                own.error(
                    &target.token,
                    format!(
                        "`{}` is an end and has no deadline; remove it from `keep`",
                        kept.name
                    ),
                );
            }
        }
        if phase.args.end.is_none() && phase.args.to.is_none() && !phase.is_inner() {
            exits_mistake.push((number, own.first()));
        }
        diag.append(own);
    }
    events(machine, diag);
    durability(machine, diag);
    for (number, mistake) in exits_mistake {
        let exits_mistake = &mut machine.phases[number].exits_mistake;
        *exits_mistake = exits_mistake.take().or(mistake);
    }
}

fn end(phase: &Phase, diag: &mut Diagnostics) {
    let args = &phase.args;
    let pairs: [(Option<&Ident>, &str); 18] = [
        (
            args.start.as_ref(),
            "cannot be the start; move `start` to the phase that runs first",
        ),
        (
            args.to.as_ref().map(|(key, _)| key),
            "has no next phase; remove `to(..)` or `end`",
        ),
        (
            args.inner.as_ref().map(|(key, _)| key),
            "cannot be the place of the inner operation; remove `inner(..)` or `end`",
        ),
        (
            args.within.as_ref().map(|(key, _)| key),
            "has no time limit; remove `within`",
        ),
        (
            args.hung.as_ref().map(|(key, _)| key),
            "cannot hang; remove `hung`",
        ),
        (args.late.as_ref(), "cannot be late; remove `late`"),
        (
            args.failed.as_ref().map(|(key, _)| key),
            "runs nothing that can fail; remove `failed(..)`",
        ),
        (
            args.cancelled.as_ref().map(|(key, _)| key),
            "cannot be cancelled; remove `cancelled`",
        ),
        (
            args.exhausted.as_ref(),
            "has no attempts; remove `exhausted`",
        ),
        (
            args.retry.as_ref().map(|(key, _)| key),
            "runs nothing that can be retried; remove `retry`",
        ),
        (
            args.on.as_ref().map(|(key, _)| key),
            "takes no events; remove `on(..)`",
        ),
        (
            args.keep.as_ref().map(|(key, _)| key),
            "has no deadline to keep; remove `keep(..)`",
        ),
        (args.take.as_ref(), "has no function; remove `take`"),
        (
            args.sync.as_ref().filter(|_| args.entry.is_none()),
            "has no function without `entry`; remove `sync`",
        ),
        (
            args.blocking.as_ref().filter(|_| args.entry.is_none()),
            "has no function without `entry`; remove `blocking`",
        ),
        (
            args.locks.as_ref(),
            "holds no locks, because the end of the operation releases them; remove `locks`",
        ),
        (args.gate.as_ref(), "has no gate; remove `gate`"),
        (
            args.limit.as_ref().map(|(key, _)| key),
            "runs nothing that can be limited; remove `limit`",
        ),
    ];
    for (key, message) in pairs {
        if let Some(key) = key {
            diag.error(key, format!("an end {message}"));
        }
    }
}

fn working(phase: &Phase, timed: bool, has_event: bool, diag: &mut Diagnostics) {
    let args = &phase.args;
    if args.to.is_none() && !args.has_mistake && !phase.is_inner() {
        diag.error(
            &phase.ident,
            format!(
                "phase `{}` has no next phase; write `to(..)`, or `end` if it is an end",
                phase.name
            ),
        );
    }
    if let Some(entry) = &args.entry {
        diag.error(
            entry,
            "only an end has an `entry`; the function of the phase itself runs when a fom enters the phase",
        );
    }
    if let Some(failure) = &args.failure {
        diag.error(failure, "only an end is a failure; write `end, failure`");
    }
    if let (Some(_), Some(gate)) = (&args.locks, &args.gate) {
        diag.error(
            gate,
            "a phase has one gate, and `locks` is one; remove one of them, or put another phase between",
        );
    }
    if let (Some(_), Some((limit, _))) = (args.locks.as_ref().or(args.gate.as_ref()), &args.limit) {
        diag.error(
            limit,
            "a phase has one gate, and `limit` is one; remove one of them, or put another phase between",
        );
    }
    kind(args, diag);
    times(args, timed, diag);
    if let Some((on, _)) = &args.on
        && !has_event
    {
        diag.error(
            on,
            "the machine has no events; write `event(Type)` in `#[fom(..)]`",
        );
    }
    if let Some(invariant) = &args.invariant {
        let place = match (phase.is_inner(), &args.start) {
            (true, _) => Some("the place of the inner operation"),
            (false, Some(_)) => Some("the start, which a submission enters"),
            (false, None) => None,
        };
        if let Some(place) = place {
            diag.error(
                invariant,
                format!("an invariant is checked at a transition of this machine, and not at {place}; remove `invariant`"),
            );
        }
    }
    if args.start.is_some() && phase.takes_data() {
        let fields = &phase.fields;
        diag.error(
            quote::quote!(#(#fields),*),
            "the start has no data, because no phase comes before it; put the data into the operation",
        );
    }
}

/// Checks a phase with a time limit of its own in a group with a deadline: the deadline begins where the fom enters the
/// group.
fn of_group(machine: &Machine, number: usize, diag: &mut Diagnostics) {
    let phase = &machine.phases[number];
    let (Some(group), Some((within, _))) = (&phase.args.groups.within, &phase.args.within) else {
        return;
    };
    let keeps = |other: &&Phase| {
        let mut kept = other.keep.iter();
        kept.any(|target| target.phase == Some(number))
    };
    let is_outside = |other: &&Phase| {
        let mut exits = other.exits.iter().chain(&other.failed);
        exits.any(|exit| exit.phase == Some(number))
            && !keeps(other)
            && other.args.groups.within.as_ref() != Some(group)
    };
    if phase.args.start.is_some() || machine.phases.iter().any(|other| is_outside(&other)) {
        diag.error(
            within,
            format!("the deadline of the group `{group}` begins in this phase, which has a time limit of its own; put a phase before it, or remove `within`"),
        );
    }
}

/// Checks `take`: the data are gone when the function has begun, so no later function of the phase can get them.
fn taken(machine: &Machine, number: usize, diag: &mut Diagnostics) {
    let phase = &machine.phases[number];
    let args = &phase.args;
    let Some(take) = args.take.as_ref().filter(|_| !phase.is_end()) else {
        return;
    };
    if phase.fields.is_empty() || phase.is_inner() {
        diag.error(
            take,
            format!("`{}` has no data to take; remove `take`", phase.name),
        );
        return;
    }
    let again = phase.exits.iter().find(|exit| exit.phase == Some(number));
    let keys = [
        (
            args.retry.as_ref().map(|(key, _)| key),
            "the next attempt has none",
            "`retry`",
        ),
        (args.late.as_ref(), "the `late` function has none", "`late`"),
        (
            args.failed.as_ref().map(|(key, _)| key),
            "the `failed(..)` function has none",
            "`failed(..)`",
        ),
        (
            again.map(|exit| &exit.token),
            "the next visit has none",
            "this exit",
        ),
        (
            args.on.as_ref().map(|(on, _)| on).filter(|_| phase.waits()),
            "the function has none at the next event",
            "`on(..)`",
        ),
    ];
    for (key, later, other) in keys {
        if let Some(key) = key {
            let name = &phase.name;
            let message = format!(
                "`take` gives the data of `{name}` to its function, so {later}; remove `take` or {other}"
            );
            diag.error(key, message);
        }
    }
}

/// Checks `sync` and `blocking`.
fn kind(args: &PhaseArgs, diag: &mut Diagnostics) {
    if let (Some(_), Some(blocking)) = (&args.sync, &args.blocking) {
        diag.error(
            blocking,
            "a phase cannot be both `sync` and `blocking`; keep `blocking` if it may wait for a disk or a lock",
        );
    }
    if let (Some(_), Some((on, _))) = (&args.blocking, &args.on) {
        diag.error(
            on,
            "a blocking phase takes no events; wait for them in a separate phase before it",
        );
    }
}

/// Checks the keys that need a deadline or attempts. `timed`: a deadline passes in this phase.
fn times(args: &PhaseArgs, timed: bool, diag: &mut Diagnostics) {
    if let Some(late) = &args.late
        && !timed
    {
        diag.error(
            late,
            "`late` needs a deadline; write `within = \"..\"` beside it",
        );
    }
    if let Some(exhausted) = &args.exhausted
        && args.retry.is_none()
    {
        diag.error(
            exhausted,
            "`exhausted` needs attempts; write `retry = \"3, 50ms..2s\"` beside it",
        );
    }
    if let Some((cancelled, Cancelled::Back)) = &args.cancelled
        && args.failed.is_none()
        && !args.has_mistake
    {
        diag.error(
            cancelled,
            "`cancelled` needs a way out; write `failed(Phase)` beside it, or `cancelled = \"later\"`",
        );
    }
    if let Some((keep, _)) = &args.keep
        && args.within.is_none()
    {
        diag.error(
            keep,
            "`keep` needs a deadline; write `within = \"..\"` beside it",
        );
    }
    if let (Some((keep, _)), Some((_, Some(Setting::Written(Within::Adaptive { .. }))))) =
        (&args.keep, &args.within)
    {
        diag.error(
            keep,
            "an adaptive time limit is for this phase alone, and cannot continue in others; write a duration, or remove `keep(..)`",
        );
    }
}

fn durability(machine: &Machine, diag: &mut Diagnostics) {
    if let Some((text, Some(Durability::Sync | Durability::Lazy))) = &machine.durability
        && machine.transient_key.is_some()
    {
        diag.error(
            text,
            "a transient operation is never saved; remove `durability` or `transient`",
        );
    }
    if let Some(text) = &machine.unknown
        && machine.transient_key.is_some()
    {
        diag.error(
            text,
            "a transient operation is never saved; remove `unknown` or `transient`",
        );
    }
    if let Some((key, _)) = &machine.secret
        && machine.transient_key.is_some()
    {
        diag.error(
            key,
            "a transient operation is never saved, so no tool shows its fields; remove `secret` or `transient`",
        );
    }
    if let Some(text) = &machine.failed
        && machine.transient_key.is_some()
    {
        diag.error(
            text,
            "a transient operation is never kept; remove `failed` or `transient`",
        );
    }
}

fn events(machine: &Machine, diag: &mut Diagnostics) {
    if let (Some(event), Some(_)) = (&machine.event, &machine.event_key)
        && diag.is_empty()
        && machine.phases.iter().all(|phase| phase.args.on.is_none())
    {
        diag.error(
            event,
            "no phase takes an event; write `on(..)` in a phase, or remove `event(..)`",
        );
    }
}
