//! A layer: phases around the phases of an operation that knows nothing of the layer.

use quote::{ToTokens, quote};
use syn::Ident;

use crate::diag::Diagnostics;
use crate::model::{Machine, Phase};
use crate::syntax::phase::PhaseArgs;

pub(super) fn check(machine: &Machine, diag: &mut Diagnostics) {
    let mut inner_phases = machine.phases.iter().filter_map(|phase| {
        let (key, _) = phase.args.inner.as_ref()?;
        Some((phase, key))
    });
    let first = inner_phases.next();
    let Some(around) = &machine.around_key else {
        if let Some((_, key)) = first {
            diag.error(
                key,
                "the inner operation is not named; write `around(Type)` in `#[fom(..)]`",
            );
        }
        return;
    };
    let Some((inner_phase, _)) = first else {
        // A mistyped key may have been `inner`.
        if !machine.phases.iter().any(|phase| phase.args.has_mistake) {
            diag.error(
                around,
                "no phase is the place of the inner operation; write `inner(field)` in the `#[phase(..)]` of one phase",
            );
        }
        return;
    };
    for (_, key) in inner_phases {
        diag.error(
            key,
            format!(
                "`{}` is already the place of the inner operation; keep one `inner`",
                inner_phase.name
            ),
        );
    }
    self::inner_phase(machine, inner_phase, diag);
    if machine.phases.len() == 1 {
        diag.error(
            &inner_phase.ident,
            "the layer has no phase of its own; add a phase before or after the `inner` phase",
        );
    }
    if let Some((name, _)) = &machine.operation_name {
        diag.error(
            name,
            format!(
                "the name of a layer includes the name of the inner operation; remove `{name}`"
            ),
        );
    }
    if let Some(event) = &machine.event_key {
        diag.error(
            event,
            "a layer takes the events of the inner operation; remove `event(..)`",
        );
    }
    for phase in &machine.phases {
        own(phase, diag);
    }
}

/// Checks the phase that stands for others. It must have a field for their phase, and no time or attempts of its own.
fn inner_phase(machine: &Machine, inner_phase: &Phase, diag: &mut Diagnostics) {
    let args = &inner_phase.args;
    if inner_phase.fields.len() != 1 && !inner_phase.tuple {
        let inner = machine.around.as_ref().map(ToTokens::to_token_stream);
        let inner = inner.unwrap_or_else(|| quote!(Type)).to_string();
        let inner = inner.replace(' ', "");
        let fields = &inner_phase.fields;
        let wrong = match fields.len() {
            0 => inner_phase.ident.to_token_stream(),
            _ => quote!(#(#fields),*),
        };
        diag.error(
            wrong,
            format!(
                "an `inner` phase has one field, the phase of the inner operation; write `{} {{ phase: <{inner} as Operation>::Phase }}`",
                inner_phase.name
            ),
        );
    }
    taken_from_inside(args, diag);
    if inner_phase.is_handed_over() {
        for key in [&args.sync, &args.blocking].into_iter().flatten() {
            diag.error(
                key,
                format!("an `inner` phase without `to(..)` has no function; remove `{key}`"),
            );
        }
    }
}

/// Reports the keys that only the phases inside have.
fn taken_from_inside(args: &PhaseArgs, diag: &mut Diagnostics) {
    let pairs: [(Option<&Ident>, &str); 10] = [
        (
            args.locks.as_ref(),
            "holds the locks of the phases inside; remove `locks`",
        ),
        (
            args.hung.as_ref().map(|(key, _)| key),
            "hangs as the phases inside do; remove `hung`",
        ),
        (
            args.gate.as_ref(),
            "has the gates of the phases inside; remove `gate`",
        ),
        (
            args.within.as_ref().map(|(key, _)| key),
            "has the deadlines of the phases inside; write `within` on a phase before it, with `keep(..)`",
        ),
        (
            args.late.as_ref(),
            "is late only when a phase inside is late; remove `late`",
        ),
        (
            args.retry.as_ref().map(|(key, _)| key),
            "is retried only as the phases inside are; remove `retry`",
        ),
        (
            args.exhausted.as_ref(),
            "is retried only as the phases inside are; remove `exhausted`",
        ),
        (
            args.keep.as_ref().map(|(key, _)| key),
            "has the deadlines of the phases inside; remove `keep(..)`",
        ),
        (
            args.on.as_ref().map(|(key, _)| key),
            "takes the events of the phases inside; remove `on(..)`",
        ),
        (
            args.was.first().map(|(key, _)| key),
            "is part of the names of the phases inside; give it its old name, or move the saved data with `migrate(..)`",
        ),
    ];
    for (key, message) in pairs {
        if let Some(key) = key {
            diag.error(key, format!("an `inner` phase {message}"));
        }
    }
}

fn own(phase: &Phase, diag: &mut Diagnostics) {
    if let Some((on, _)) = &phase.args.on
        && !phase.is_inner()
        && !phase.is_end()
    {
        diag.error(
            on,
            "only the phases inside take events, not the layer's own phases; wait in another way, or remove `on(..)`",
        );
    }
    for cfg in &phase.cfg {
        diag.error(
            cfg.path(),
            "`#[cfg]` is not allowed on a phase of a layer; put it on the whole layer",
        );
    }
}
