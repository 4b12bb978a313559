//! `step`: calls the function of a phase, and turns its exit into the next phase.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};

use super::layer::Layer;
use super::operation::{enter, transitions};
use super::phase_data::{self, Access};
use super::{braces, data, error_type, operation_generics, phase_type};
use crate::model::{ExitSet, Machine, Mode, Phase, Shared};

/// Returns the function `step` of an operation.
pub(super) fn expand(machine: &Machine) -> TokenStream {
    let Some(operation) = &machine.operation else {
        return TokenStream::new();
    };
    let (generics, _, bounds) = operation_generics(machine).split_for_impl();
    let head = quote_spanned!(machine.operation_span()=> impl);
    let (trait_name, is_async) = if machine.is_sync() {
        (quote!(SyncOperation), None)
    } else {
        (quote!(AsyncOperation), Some(quote!(async)))
    };
    let local = Locals::new();
    let at = &local.at;
    // By name, not through `Self`: if the operation is not a type, this causes no second mistake.
    let phase_type = phase_type(machine);
    let event = machine.event.as_ref().map(|event| quote!(, #event));
    let arms = machine.working().map(|phase| arms(machine, phase, &local));
    let inside = Layer::of(machine).map(|layer| layer.arm(at));
    let entry = has_entries(machine).then(|| quote!(#at.entry,));
    let next = quote! {
        match (#at.phase, #entry &mut fom_::context(#at.fom)) {
            #inside
            #(#arms)*
            _ => fom_::stay(),
        }
    };
    let next = match entries(machine, &local) {
        None => next,
        Some(run) => {
            let exit = &local.exit;
            quote!(let mut #exit = #next; #run #exit)
        }
    };
    let body = match invariants(machine, &local) {
        None => next,
        Some(check) => {
            let exit = &local.exit;
            quote!(let #exit = { #next }; #check #exit)
        }
    };
    let items = quote! {
            #is_async fn step(&mut self, #at: fom_::At<'_, '_, #phase_type #event>) -> fom_::Stepped<Self> {
                #body
            }
    };
    let items = braces(machine.operation_span(), items);
    quote! {
        #[automatically_derived]
        #head #generics fom_::#trait_name for #operation #bounds #items
    }
}

/// Returns the code that runs the function of the end which the fom is about to enter. An error is one of the function
/// that has chosen the end.
fn entries(machine: &Machine, local: &Locals) -> Option<TokenStream> {
    let Locals { at, cx, exit, .. } = local;
    let arms = machine.entries().filter_map(|phase| {
        let function = phase.function.as_ref()?;
        let (cfg, ident, data) = (&phase.cfg, &phase.ident, data(phase));
        let call = call(machine, phase, function, local, Call::Enter);
        let call = match machine.inner_phase() {
            None => call,
            Some(_) => quote!(fom_::own(#call)),
        };
        Some(quote! {
            #(#cfg)*
            ::core::result::Result::Ok(::core::option::Option::Some(P_::#ident #data)) => #call?,
        })
    });
    let arms: Vec<_> = arms.collect();
    (!arms.is_empty()).then(|| {
        quote! {
            let #cx = &mut fom_::context(#at.fom);
            match &mut #exit {
                #(#arms)*
                _ => {}
            }
        }
    })
}

/// Returns the code that checks the phase which the fom is about to enter, in debug builds.
fn invariants(machine: &Machine, local: &Locals) -> Option<TokenStream> {
    let exit = &local.exit;
    let (span, transitions) = (machine.operation_span(), transitions(machine));
    let arms = machine.phases.iter().filter_map(|phase| {
        let mut function = phase.invariant_function.clone()?;
        function.set_span(span);
        let (cfg, ident, name, data) = (&phase.cfg, &phase.ident, &phase.name, data(phase));
        let values = phase_data::arguments(phase, Access::Shared);
        let arguments = quote_spanned!(span=> (self #values));
        Some(quote!(#(#cfg)* P_::#ident #data => fom_::holds(#transitions::#function #arguments, #name),))
    });
    let arms: Vec<_> = arms.collect();
    (!arms.is_empty()).then(|| {
        quote! {
            if ::core::cfg!(debug_assertions) {
                if let ::core::result::Result::Ok(::core::option::Option::Some(#exit)) = &#exit {
                    match #exit {
                        #(#arms)*
                        _ => {}
                    }
                }
            }
        }
    })
}

/// Returns whether it matters why a phase runs.
fn has_entries(machine: &Machine) -> bool {
    machine.inner_phase().is_some()
        || machine.working().any(|phase| {
            phase.late_function.is_some()
                || phase.exhausted_function.is_some()
                || phase.failed_function.is_some()
                || phase.waits()
        })
}

/// The names inside `step`. They never meet a name of the user's.
struct Locals {
    at: Ident,
    cx: Ident,
    event: Ident,
    /// What the function returned.
    exit: Ident,
    /// The phase, if the function takes its data.
    phase: Ident,
}

impl Locals {
    fn new() -> Self {
        let name = |name| Ident::new(name, Span::mixed_site());
        Locals {
            at: name("at"),
            cx: name("cx"),
            event: name("event"),
            exit: name("exit"),
            phase: name("phase"),
        }
    }
}

fn arms(machine: &Machine, phase: &Phase, local: &Locals) -> TokenStream {
    let (cfg, name, data) = (&phase.cfg, &phase.ident, data(phase));
    let Locals { cx, event, .. } = local;
    let arm = |function: &Option<Ident>, how: Call| {
        let function = function.as_ref()?;
        let entry = match how {
            Call::Enter => quote!(_),
            Call::Event => quote!(fom_::Entry::Event(#event)),
            Call::Late => quote!(fom_::Entry::Late),
            Call::Exhausted => quote!(fom_::Entry::Exhausted),
            Call::Failed => quote!(fom_::Entry::Failed),
        };
        let exit_set = match how {
            Call::Failed => phase.failed_exit_set(),
            _ => phase.exit_set(),
        };
        let body = next(
            machine,
            exit_set,
            call(machine, phase, function, local, how),
        );
        let (pattern, body) = if phase.args.take.is_some() {
            taken(phase, &body, local)
        } else {
            (quote!(P_::#name #data), body)
        };
        Some(if has_entries(machine) {
            quote!(#(#cfg)* (#pattern, #entry, #cx) => #body,)
        } else {
            quote!(#(#cfg)* (#pattern, #cx) => #body,)
        })
    };
    let late = arm(&phase.late_function, Call::Late);
    let exhausted = arm(&phase.exhausted_function, Call::Exhausted);
    let failed = arm(&phase.failed_function, Call::Failed);
    let own = arm(
        &phase.function,
        if phase.waits() {
            Call::Event
        } else {
            Call::Enter
        },
    );
    quote!(#late #exhausted #failed #own)
}

/// Returns the pattern and the body of the arm for a function that takes the data.
fn taken(phase: &Phase, body: &TokenStream, local: &Locals) -> (TokenStream, TokenStream) {
    let (name, data, whole) = (&phase.ident, data(phase), &local.phase);
    let pattern = quote!(#whole @ P_::#name { .. });
    let body = quote! {
        match fom_::take_data::<Self>(#whole) {
            P_::#name #data => #body,
            _ => fom_::stay(),
        }
    };
    (pattern, body)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    Enter,
    Event,
    Late,
    Exhausted,
    Failed,
}

/// Returns the call of a phase's function, up to its `Result`.
fn call(
    machine: &Machine,
    phase: &Phase,
    function: &Ident,
    local: &Locals,
    how: Call,
) -> TokenStream {
    let (span, transitions) = (machine.operation_span(), transitions(machine));
    let mut function = function.clone();
    function.set_span(span);
    let Locals { cx, event, .. } = local;
    let blocks = phase.mode == Mode::Blocking && how == Call::Enter;
    let is_of_phase = how != Call::Failed || phase.failed_shared == Shared::Not;
    let data = is_of_phase.then(|| phase_data::arguments(phase, Access::of(phase)));
    let last = match how {
        Call::Event => Some(quote!(, #event)),
        Call::Failed => {
            let cause = cause(machine, phase, local);
            Some(quote!(, #cause))
        }
        Call::Enter | Call::Late | Call::Exhausted => None,
    };
    let arguments = quote_spanned!(span=> (self, #cx #data #last));
    let call = quote!(#transitions::#function #arguments);
    let mode = match how {
        Call::Failed => phase.failed_mode,
        _ => phase.mode,
    };
    match mode {
        Mode::Async => quote!(#call.await),
        Mode::Blocking if blocks => quote!(#cx.blocking(|#cx| #call)),
        Mode::Sync | Mode::Blocking => call,
    }
}

/// Returns why the phase has failed.
fn cause(machine: &Machine, phase: &Phase, local: &Locals) -> TokenStream {
    let at = &local.at;
    match Layer::of(machine) {
        Some(layer) if !phase.is_inner() => {
            let (own, inner) = (error_type(machine), layer.inner_error());
            quote!(fom_::own_failure::<#own, #inner, _>(#at.fom))
        }
        _ => quote!(fom_::failure(#at.fom)),
    }
}

/// Turns the `Result` of a phase's function into the next phase. The names in `to(..)` are used as they were written,
/// so that an editor finds them. There are few closures and few `?`, because rustc takes longest over these.
fn next(machine: &Machine, exit_set: ExitSet<'_>, call: TokenStream) -> TokenStream {
    let after = exit_set.after;
    let targets = exit_set
        .exits
        .iter()
        .filter_map(|exit| Some((&exit.token, &machine.phases[exit.phase?])));
    if exit_set.is_unit(machine) {
        let phases = targets.map(|(token, target)| enter(machine, target, token));
        let call = match machine.inner_phase() {
            None => call,
            Some(_) => quote!(fom_::own(#call)),
        };
        return quote!(to_(#call, #(#phases)*));
    }
    let arms = targets.map(|(token, target)| {
        let (cfg, ident) = (&target.cfg, &target.ident);
        if target.is_inner() {
            let inside = enter(machine, target, token);
            return quote!(#after::#ident => go_(#inside),);
        }
        let data = data(target);
        quote!(#(#cfg)* #after::#ident #data => go_(P_::#token #data),)
    });
    let stay = exit_set
        .stays
        .then(|| quote!(#after::Stay => fom_::stay(),));
    quote!(match #call? { #(#arms)* #stay })
}
