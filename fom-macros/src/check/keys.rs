//! Which keys go together.

use syn::Ident;

use crate::diag::Diagnostics;
use crate::model::{Machine, Phase};
use crate::syntax::args::Durability;
use crate::syntax::within::Within;

pub(super) fn check(machine: &mut Machine, diag: &mut Diagnostics) {
    let kept: Vec<usize> = machine
        .phases
        .iter()
        .flat_map(|phase| &phase.keep)
        .filter_map(|target| target.phase)
        .collect();
    let mut unsure = Vec::new();
    for (number, phase) in machine.phases.iter().enumerate() {
        let timed = phase.args.within.is_some() || kept.contains(&number);
        let mut own = Diagnostics::default();
        if phase.is_end() {
            end(phase, &mut own);
        } else {
            let has_event = machine.event_key.is_some() || machine.around_key.is_some();
            working(phase, timed, has_event, &mut own);
        }
        for target in &phase.keep {
            if let Some(kept) = target.phase.map(|kept| &machine.phases[kept])
                && kept.is_end()
            {
                own.error(
                    &target.token,
                    format!(
                        "`{}` is an end and has no deadline; take it out of `keep`",
                        kept.name
                    ),
                );
            }
        }
        if phase.args.end.is_none() && phase.args.to.is_none() && !phase.is_inner() {
            unsure.push((number, own.first()));
        }
        diag.append(own);
    }
    events(machine, diag);
    durability(machine, diag);
    for (number, mistake) in unsure {
        let unsure = &mut machine.phases[number].unsure;
        *unsure = unsure.take().or(mistake);
    }
}

fn end(phase: &Phase, diag: &mut Diagnostics) {
    let args = &phase.args;
    let pairs: [(Option<&Ident>, &str); 14] = [
        (
            args.start.as_ref(),
            "is no start; move `start` to the phase that runs first",
        ),
        (
            args.to.as_ref().map(|(key, _)| key),
            "goes nowhere; take `to(..)` or `end` out",
        ),
        (
            args.inner.as_ref().map(|(key, _)| key),
            "has no others in its place; take `inner(..)` or `end` out",
        ),
        (
            args.within.as_ref().map(|(key, _)| key),
            "takes no time; take `within` out",
        ),
        (args.late.as_ref(), "cannot be late; take `late` out"),
        (
            args.failed.as_ref().map(|(key, _)| key),
            "runs nothing that could fail; take `failed(..)` out",
        ),
        (
            args.exhausted.as_ref(),
            "has no attempts that could be used up; take `exhausted` out",
        ),
        (
            args.retry.as_ref().map(|(key, _)| key),
            "runs nothing that could be tried again; take `retry` out",
        ),
        (
            args.on.as_ref().map(|(key, _)| key),
            "takes no events; take `on(..)` out",
        ),
        (
            args.keep.as_ref().map(|(key, _)| key),
            "has no deadline to keep; take `keep(..)` out",
        ),
        (args.sync.as_ref(), "has no function; take `sync` out"),
        (
            args.blocking.as_ref(),
            "has no function; take `blocking` out",
        ),
        (
            args.locks.as_ref(),
            "holds no locks; take `locks` out, as they are given back when the operation ends",
        ),
        (args.gate.as_ref(), "has no gate; take `gate` out"),
    ];
    for (key, message) in pairs {
        if let Some(key) = key {
            diag.error(key, format!("an end {message}"));
        }
    }
}

fn working(phase: &Phase, timed: bool, has_event: bool, diag: &mut Diagnostics) {
    let args = &phase.args;
    if args.to.is_none() && !args.bad && !phase.is_inner() {
        diag.error(
            &phase.ident,
            format!(
                "phase `{}` goes nowhere; write `to(..)`, or `end` if it is one",
                phase.name
            ),
        );
    }
    if let Some(failure) = &args.failure {
        diag.error(failure, "only an end is a failure; write `end, failure`");
    }
    if let (Some(_), Some(gate)) = (&args.locks, &args.gate) {
        diag.error(
            gate,
            "a phase has one gate, and `locks` is one; take one of them out, or put another phase between",
        );
    }
    if let (Some(sync), Some(blocking)) = (&args.sync, &args.blocking) {
        let _ = sync;
        diag.error(
            blocking,
            "a phase is `sync` or `blocking`; `blocking` if it may wait for a disk or a lock",
        );
    }
    if let (Some(_), Some((on, _))) = (&args.blocking, &args.on) {
        diag.error(
            on,
            "a blocking phase takes no events; wait for them in a phase of its own, before it",
        );
    }
    if let Some(late) = &args.late
        && !timed
    {
        diag.error(
            late,
            "nothing sets a deadline to be late for; write `within = \"..\"` beside it",
        );
    }
    if let Some(exhausted) = &args.exhausted
        && args.retry.is_none()
    {
        diag.error(
            exhausted,
            "there are no attempts to be used up; write `retry = \"3, 50ms..2s\"` beside it",
        );
    }
    if let Some((keep, _)) = &args.keep
        && args.within.is_none()
    {
        diag.error(
            keep,
            "there is no deadline to keep; write `within = \"..\"` beside it",
        );
    }
    if let (Some((keep, _)), Some((_, Some(Within::Adaptive { .. })))) = (&args.keep, &args.within)
    {
        diag.error(
            keep,
            "an adaptive time is measured in this phase alone, and cannot go on in others; write a duration, or take `keep(..)` out",
        );
    }
    if let Some((on, _)) = &args.on
        && !has_event
    {
        diag.error(
            on,
            "the machine has no events; write `event(Type)` in `#[fom(..)]`",
        );
    }
    if args.start.is_some() && phase.takes_data() {
        let fields = &phase.fields;
        diag.error(
            quote::quote!(#(#fields),*),
            "the start has no data, as nothing comes before it; put it into the operation",
        );
    }
}

fn durability(machine: &Machine, diag: &mut Diagnostics) {
    if let Some((text, Some(Durability::Sync | Durability::Lazy))) = &machine.durability
        && machine.transient_key.is_some()
    {
        diag.error(
            text,
            "a transient operation is never saved; take `durability` out, or `transient`",
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
            "no phase takes an event; write `on(..)` in one, or take `event(..)` out",
        );
    }
}
