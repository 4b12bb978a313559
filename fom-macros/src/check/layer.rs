//! A layer: phases around the phases of an operation that knows nothing of the layer.

use quote::{ToTokens, quote};
use syn::Ident;

use crate::diag::Diagnostics;
use crate::model::{Machine, Phase};

pub(super) fn check(machine: &Machine, diag: &mut Diagnostics) {
    let mut holders = machine.phases.iter().filter_map(|phase| {
        let (key, _) = phase.args.inner.as_ref()?;
        Some((phase, key))
    });
    let first = holders.next();
    let Some(around) = &machine.around_key else {
        if let Some((_, key)) = first {
            diag.error(
                key,
                "nothing says which operation is inside; write `around(Type)` in `#[fom(..)]`",
            );
        }
        return;
    };
    let Some((holder, _)) = first else {
        // A mistyped key may have been `inner`.
        if !machine.phases.iter().any(|phase| phase.args.bad) {
            diag.error(
                around,
                "no phase says where the phases of the operation inside stand; write `inner(field)` in the `#[phase(..)]` of one",
            );
        }
        return;
    };
    for (_, key) in holders {
        diag.error(
            key,
            format!(
                "the phases of the operation inside stand at `{}` already; keep one `inner`",
                holder.name
            ),
        );
    }
    self::holder(machine, holder, diag);
    if machine.phases.len() == 1 {
        diag.error(
            &holder.ident,
            "the layer has no phase of its own; add those that stand before or after the ones inside",
        );
    }
    if let Some((name, _)) = &machine.operation_name {
        diag.error(
            name,
            format!(
                "the name of a layer has the name of the operation inside in it; take `{name}` out"
            ),
        );
    }
    if let Some(event) = &machine.event_key {
        diag.error(
            event,
            "a layer takes the events of the operation inside; take `event(..)` out",
        );
    }
    for phase in &machine.phases {
        own(phase, diag);
    }
}

/// Checks the phase that stands for others. It must have a field for their phase, and no time or attempts of its own.
fn holder(machine: &Machine, holder: &Phase, diag: &mut Diagnostics) {
    let args = &holder.args;
    if holder.fields.len() != 1 && !holder.tuple {
        let inner = machine.around.as_ref().map(ToTokens::to_token_stream);
        let inner = inner.unwrap_or_else(|| quote!(Type)).to_string();
        let inner = inner.replace(' ', "");
        let fields = &holder.fields;
        let wrong = match fields.len() {
            0 => holder.ident.to_token_stream(),
            _ => quote!(#(#fields),*),
        };
        diag.error(
            wrong,
            format!(
                "an `inner` phase has one field, the phase of the operation inside; write `{} {{ phase: <{inner} as Operation>::Phase }}`",
                holder.name
            ),
        );
    }
    let pairs: [(Option<&Ident>, &str); 9] = [
        (
            args.locks.as_ref(),
            "holds the locks of those inside; take `locks` out",
        ),
        (
            args.gate.as_ref(),
            "has the gates of those inside; take `gate` out",
        ),
        (
            args.within.as_ref().map(|(key, _)| key),
            "has the deadlines of those inside; write `within` on a phase before it, with `keep(..)`",
        ),
        (
            args.late.as_ref(),
            "is late where those inside are; take `late` out",
        ),
        (
            args.retry.as_ref().map(|(key, _)| key),
            "is tried again as those inside are; take `retry` out",
        ),
        (
            args.exhausted.as_ref(),
            "is tried again as those inside are; take `exhausted` out",
        ),
        (
            args.keep.as_ref().map(|(key, _)| key),
            "has the deadlines of those inside; take `keep(..)` out",
        ),
        (
            args.on.as_ref().map(|(key, _)| key),
            "takes the events of those inside; take `on(..)` out",
        ),
        (
            args.was.first().map(|(key, _)| key),
            "is part of the names of those inside; give it its old name back, or lead what is saved on with `migrate(..)`",
        ),
    ];
    for (key, message) in pairs {
        if let Some(key) = key {
            diag.error(key, format!("an `inner` phase {message}"));
        }
    }
    if holder.is_handed_over() {
        for key in [&args.sync, &args.blocking].into_iter().flatten() {
            diag.error(
                key,
                format!("an `inner` phase without `to(..)` has no function; take `{key}` out"),
            );
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
            "the phases inside take the events, and a layer's own take none; wait in another way, or take `on(..)` out",
        );
    }
    for cfg in &phase.cfg {
        diag.error(
            cfg.path(),
            "`#[cfg]` cannot stand on a phase of a layer; put it on the whole layer",
        );
    }
}
