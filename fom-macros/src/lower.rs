//! Turns the parsed declaration into the model: resolves names and fills in defaults.

use proc_macro2::Span;
use quote::format_ident;
use syn::ext::IdentExt;
use syn::{Generics, Ident, ItemEnum};

use crate::diag::{Diagnostics, did_you_mean, nearest};
use crate::model::{Machine, Mode, Names, Phase, Shared, Target};
use crate::paths;
use crate::syntax::Setting;
use crate::syntax::args::Args;
use crate::syntax::item::PhaseItem;
use crate::syntax::phase::PhaseArgs;

pub(crate) fn lower(
    args: Args,
    item: ItemEnum,
    phases: Vec<PhaseItem>,
    diag: &mut Diagnostics,
) -> Machine {
    let base = item.ident.unraw();
    let known: Vec<String> = phases
        .iter()
        .map(|phase| phase.ident.unraw().to_string())
        .collect();
    let names = Names {
        kind: format_ident!("{base}Kind", span = at(&item.ident)),
        end: format_ident!("{base}End", span = at(&item.ident)),
        transitions: format_ident!("{base}Transitions", span = at(&item.ident)),
    };
    let mut phases: Vec<Phase> = phases
        .into_iter()
        .map(|phase| lower_phase(&base, phase, &known, diag))
        .collect();
    share(&mut phases);
    let krate = &args.krate;
    let (around_key, around) = args.around.unzip();
    let around = around.flatten();
    let event = args.event.or_else(|| {
        let around = around.as_ref()?;
        Some(syn::parse_quote!(<#around as #krate::Operation>::Event))
    });
    Machine {
        around,
        around_key,
        generics: joined(&item.generics, args.generics),
        krate: args.krate,
        patterns: args.patterns,
        operation: args.operation,
        operation_name: args.operation_name,
        operation_was: args.operation_was,
        was: args.was,
        error: args.error,
        event,
        event_key: args.event_key,
        transient: args.transient,
        transient_key: args.transient_key,
        version: args.version,
        migrate_key: args.migrate_key,
        migrate_has_mistake: args.migrate_has_mistake,
        migrations: args.migrations,
        retired_key: args.retired_key,
        retired: args.retired,
        durability: args.durability,
        failed: args.failed,
        unknown: args.unknown,
        secret: args.secret,
        phases,
        names,
        named_like_operation: false,
        for_editor: false,
        item,
    }
}

fn lower_phase(base: &Ident, item: PhaseItem, known: &[String], diag: &mut Diagnostics) -> Phase {
    let PhaseItem {
        ident,
        cfg,
        docs,
        fields,
        defaults,
        tuple,
        args,
    } = item;
    let targets = |list: &Option<(Ident, Vec<Ident>)>, diag: &mut Diagnostics| {
        let names = list.as_ref().map_or(&[][..], |(_, names)| names);
        names
            .iter()
            .map(|token| target(token, known, diag))
            .collect::<Vec<_>>()
    };
    let mut own = Diagnostics::default();
    let mut exits = targets(&args.to, &mut own);
    for exit in &mut exits {
        let mut named = args.edges.iter();
        let name = named.find(|(phase, _)| phase.unraw() == exit.token.unraw());
        exit.edge = name.map(|(_, name)| name.value());
    }
    // One exit with an unknown target: it may have data or not.
    let is_lost = |target: &Target| target.phase.is_none() && target.near.is_none();
    let is_lost = matches!(exits.as_slice(), [exit] if is_lost(exit));
    let lost = if is_lost { own.first() } else { None };
    diag.append(own);
    let failed = targets(&args.failed, diag);
    let keep = targets(&args.keep, diag);
    let mode = match (&args.blocking, &args.sync) {
        (Some(_), _) => Mode::Blocking,
        (None, Some(_)) => Mode::Sync,
        (None, None) => Mode::Async,
    };
    let function = own_function(&ident, &args, diag);
    let name = ident.unraw().to_string();
    let more = |group: Option<&Ident>, is_written: bool, suffix: &str| {
        is_written
            .then(|| paths::function(group.unwrap_or(&ident), suffix))
            .flatten()
    };
    Phase {
        after: format_ident!("{base}After{name}", span = ident.span()),
        after_failed: after_failed(base, &ident, args.groups.failed.as_ref()),
        data: format_ident!("{base}In{name}", span = ident.span()),
        failed_shared: Shared::of(args.groups.failed.as_ref()),
        locks_shared: Shared::of(args.groups.locks.as_ref()),
        failed_mode: mode,
        data_ref: format_ident!("{base}In{name}Ref", span = ident.span()),
        within_function: more(None, is_asked(&args.within), "_within"),
        retry_function: more(None, is_asked(&args.retry), "_retry"),
        failed_function: more(
            args.groups.failed.as_ref(),
            args.failed.is_some(),
            "_failed",
        ),
        exhausted_function: more(None, args.exhausted.is_some(), "_exhausted"),
        late_function: more(None, args.late.is_some(), "_late"),
        locks_function: more(args.groups.locks.as_ref(), args.locks.is_some(), "_locks"),
        gate_function: more(None, args.gate.is_some(), "_gate"),
        invariant_function: more(None, args.invariant.is_some(), "_invariant"),
        function,
        mode,
        exits_mistake: args.exits_mistake.clone().or(lost),
        tuple,
        exits,
        failed,
        keep,
        name,
        ident,
        cfg,
        docs,
        fields,
        defaults,
        args,
    }
}

/// Returns the name of the phase's own function.
fn own_function(ident: &Ident, args: &PhaseArgs, diag: &mut Diagnostics) -> Option<Ident> {
    // The phases in its place have functions of their own. This phase has one if the layer continues after their ends.
    let continues = args.inner.is_none() || args.to.is_some();
    let function = paths::function(ident, "").filter(|_| continues);
    if function.is_none() && args.end.is_none() && continues {
        let name = paths::snake(&ident.unraw().to_string());
        diag.error(
            ident,
            format!("no function can be called `{name}`; give the phase another name"),
        );
    }
    function
}

fn is_asked<T>(key: &Option<(Ident, Option<Setting<T>>)>) -> bool {
    matches!(key, Some((_, Some(Setting::Asked))))
}

/// Returns the name of the exits after a failure in the phase, or in its group.
fn after_failed(base: &Ident, phase: &Ident, group: Option<&Ident>) -> Ident {
    let name = group.unwrap_or(phase).unraw();
    format_ident!("{base}After{name}Failed", span = phase.span())
}

/// Lets the first phase of each group have the functions of the group. The function for a failure is async if a phase of
/// the group is.
fn share(phases: &mut [Phase]) {
    let mut failed: Vec<(Ident, Mode)> = Vec::new();
    let mut locks: Vec<Ident> = Vec::new();
    for phase in &mut *phases {
        if let Some(group) = &phase.args.groups.failed {
            match failed.iter_mut().find(|(name, _)| name == group) {
                Some((_, mode)) => {
                    phase.failed_shared = Shared::Later;
                    if phase.mode == Mode::Async {
                        *mode = Mode::Async;
                    }
                }
                None if phase.mode == Mode::Async => failed.push((group.clone(), Mode::Async)),
                None => failed.push((group.clone(), Mode::Sync)),
            }
        }
        if let Some(group) = &phase.args.groups.locks {
            if locks.contains(group) {
                phase.locks_shared = Shared::Later;
            }
            locks.push(group.clone());
        }
    }
    for phase in phases {
        let group = phase.args.groups.failed.as_ref();
        let mode = group.and_then(|group| failed.iter().find(|(name, _)| name == group));
        if let Some((_, mode)) = mode {
            phase.failed_mode = *mode;
        }
    }
}

fn target(token: &Ident, known: &[String], diag: &mut Diagnostics) -> Target {
    let name = token.unraw().to_string();
    let phase = known.iter().position(|phase| *phase == name);
    let mut near = None;
    if phase.is_none() {
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        diag.error(
            token,
            format!(
                "there is no phase `{name}`; {}",
                did_you_mean(&name, &known)
            ),
        );
        near = nearest(&name, known.iter().copied())
            .and_then(|name| known.iter().position(|phase| *phase == name));
    }
    Target {
        token: token.clone(),
        phase,
        near,
        edge: None,
    }
}

/// Returns the enum's parameters, then the parameters that only the operation has.
fn joined(of_enum: &Generics, more: Generics) -> Generics {
    let mut all = of_enum.clone();
    for param in more.params {
        if matches!(param, syn::GenericParam::Lifetime(_)) {
            all.params.insert(0, param);
        } else {
            all.params.push(param);
        }
    }
    all
}

/// Returns the place of a user's name, for a name that is ours.
fn at(name: &Ident) -> Span {
    Span::call_site().located_at(name.span())
}
