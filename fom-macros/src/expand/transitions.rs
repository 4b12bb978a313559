//! `RouteTransitions`: one function for each phase that is not an end.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{Attribute, Ident, Meta};

use super::layer::Layer;
use super::phase_data::{self, Access};
use super::{
    after_type, allowed_in_trait, braces, context, error_type, event_type, phase_type, visibility,
};
use crate::model::{Machine, Mode, Phase, Shared};
use crate::paths::{RESUME, respan};

pub(super) fn expand(machine: &Machine) -> TokenStream {
    let span = machine.item.ident.span();
    let vis = visibility(machine, span);
    let head = quote_spanned!(span=> #vis trait);
    let name = &machine.names.transitions;
    let (generics, _, bounds) = machine.item.generics.split_for_impl();
    let doc = format!(
        " The functions of the phases of [`{}`].",
        machine.item.ident
    );
    let functions = machine.working().map(|phase| functions(machine, phase));
    let entries = machine.entries().filter_map(|phase| {
        let name = phase.function.as_ref()?;
        let docs = written(&phase.docs);
        let docs = quote!(#(#docs)*);
        Some(function(machine, phase, name, docs, Kind::Entry))
    });
    let invariants = machine.phases.iter().filter_map(|phase| {
        let name = phase.invariant_function.as_ref()?;
        let docs = format!(
            " Returns whether a fom may enter `{}` like this. Debug builds check it.",
            phase.name
        );
        Some(invariant(machine, phase, name, &docs))
    });
    let resume = resume(machine);
    let allowed = allowed_in_trait();
    let functions = braces(
        span,
        quote!(#(#functions)* #(#entries)* #(#invariants)* #resume),
    );
    let missing = missing(machine);
    quote! {
        #[doc = #doc]
        #[diagnostic::on_unimplemented(message = #missing)]
        #allowed
        #head #name #generics #bounds #functions
    }
}

/// Returns the message for an operation without the trait. `{T}` is what rustc puts there for a parameter.
fn missing(machine: &Machine) -> String {
    let name = &machine.names.transitions;
    let params = machine.item.generics.type_params();
    let params: Vec<String> = params.map(|param| format!("{{{}}}", param.ident)).collect();
    let params = match params.as_slice() {
        [] => String::new(),
        params => format!("<{}>", params.join(", ")),
    };
    format!("write `impl {name}{params} for {{Self}}`")
}

fn functions(machine: &Machine, phase: &Phase) -> TokenStream {
    let docs: Vec<&Attribute> = written(&phase.docs).collect();
    let default = format!(" Runs in phase `{}`.", phase.name);
    let docs = if docs.is_empty() {
        quote!(#[doc = #default])
    } else {
        quote!(#(#docs)*)
    };
    let late = format!(
        " Runs when the time limit of `{}` is over, and decides the next phase.",
        phase.name
    );
    let own = phase
        .function
        .as_ref()
        .map(|name| function(machine, phase, name, docs, Kind::Own));
    let late = phase.late_function.as_ref().map(|name| {
        function(
            machine,
            phase,
            name,
            quote!(#[doc = #late]),
            Kind::Additional,
        )
    });
    let exhausted = format!(
        " Runs after the last failed attempt at `{}`, and decides the next phase.",
        phase.name
    );
    let exhausted = phase.exhausted_function.as_ref().map(|name| {
        function(
            machine,
            phase,
            name,
            quote!(#[doc = #exhausted]),
            Kind::Additional,
        )
    });
    let failed = failed_docs(phase);
    let failed = phase
        .failed_function
        .as_ref()
        .filter(|_| phase.failed_shared != Shared::Later)
        .map(|name| function(machine, phase, name, quote!(#[doc = #failed]), Kind::Failed));
    let (krate, patterns) = (&machine.krate, &machine.patterns);
    let locks = phase.locks_function.as_ref();
    let locks = locks.filter(|_| phase.locks_shared != Shared::Later);
    let locks = locks.map(|name| {
        let group = phase.args.groups.locks.as_ref();
        let needing = group.map_or_else(|| phase.name.clone(), ToString::to_string);
        let docs = format!(" Returns the locks that `{needing}` needs.");
        asked_function(
            machine,
            phase,
            name,
            &docs,
            quote!(#patterns::lock::LockSet),
        )
    });
    let gate = phase.gate_function.as_ref().map(|name| {
        let docs = format!(" Returns the gate that opens before `{}` runs.", phase.name);
        let output = quote!(impl #krate::extension::Gate);
        asked_function(machine, phase, name, &docs, output)
    });
    let within = phase.within_function.as_ref().map(|name| {
        let docs = format!(" Returns how long a fom may stay in `{}`.", phase.name);
        asked_function(machine, phase, name, &docs, quote!(::core::time::Duration))
    });
    let retry = phase.retry_function.as_ref().map(|name| {
        let docs = format!(" Returns how often `{}` is tried again.", phase.name);
        asked_function(machine, phase, name, &docs, quote!(#krate::machine::Retry))
    });
    quote!(#own #late #exhausted #failed #locks #gate #within #retry)
}

/// Returns a function that is asked about the phase: for its gate, its locks or its times.
fn asked_function(
    machine: &Machine,
    phase: &Phase,
    name: &Ident,
    docs: &str,
    output: TokenStream,
) -> TokenStream {
    let (cfg, cx) = (&phase.cfg, context(machine));
    let span = phase.ident.span();
    let output = respan(output, span);
    let unknown = phase.exits_mistake.is_some();
    let is_of_phase =
        Some(name) != phase.locks_function.as_ref() || phase.locks_shared == Shared::Not;
    let data =
        is_of_phase.then(|| phase_data::parameters(machine, phase, Access::Shared, !unknown));
    let cx = quote_spanned!(span=> &#cx);
    let cx = argument((!unknown).then(|| Ident::new("cx", span)).as_ref(), &cx);
    // After another mistake, the user need not write this function.
    // An `impl Gate` needs a type, and `()` is one.
    let end = if unknown && phase.gate_function.is_some() {
        quote!({})
    } else if unknown {
        quote!({ loop {} })
    } else {
        quote_spanned!(span=> ;)
    };
    quote_spanned! {span=>
        #[doc = #docs]
        #(#cfg)*
        fn #name(&self, #cx #data) -> #output #end
    }
}

/// Returns the function that checks a phase before it is entered.
fn invariant(machine: &Machine, phase: &Phase, name: &Ident, docs: &str) -> TokenStream {
    let (cfg, span) = (&phase.cfg, phase.ident.span());
    let unknown = phase.exits_mistake.is_some();
    let data = phase_data::parameters(machine, phase, Access::Shared, !unknown);
    // After another mistake, the user need not write this function.
    let end = if unknown {
        quote!({ true })
    } else {
        quote_spanned!(span=> ;)
    };
    quote_spanned! {span=>
        #[doc = #docs]
        #(#cfg)*
        fn #name(&self, #data) -> bool #end
    }
}

/// Returns the function that a user may write, but need not write.
fn resume(machine: &Machine) -> Option<TokenStream> {
    let taken = |phase: &Phase| phase.function.as_ref().is_some_and(|name| name == RESUME);
    // A phase with this name was already reported.
    if machine.transient || machine.working().any(taken) {
        return None;
    }
    let (context, phase, error) = (context(machine), phase_type(machine), error_type(machine));
    Some(quote! {
        /// Runs once after the operation is restored, before its phase. Reopen here what cannot be saved.
        fn resume(&mut self, cx: &mut #context, phase: &mut #phase) -> ::core::result::Result<(), #error> {
            ::core::result::Result::Ok(())
        }
    })
}

/// Returns doc comments, without `#[doc(hidden)]` and the like.
pub(super) fn written(docs: &[Attribute]) -> impl Iterator<Item = &Attribute> {
    docs.iter()
        .filter(|attr| matches!(attr.meta, Meta::NameValue(_)))
}

/// Returns the docs of the function that runs after a failure.
fn failed_docs(phase: &Phase) -> String {
    match &phase.args.groups.failed {
        None => format!(
            " Runs when `{}` has failed, and decides the next phase.",
            phase.name
        ),
        Some(group) => format!(
            " Runs when a phase of the group `{group}` has failed, and decides the next phase."
        ),
    }
}

/// The kind of a phase's function.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Own,
    /// The function for a missed deadline, or after the last attempt.
    Additional,
    Failed,
    /// The function of an end.
    Entry,
}

fn function(
    machine: &Machine,
    phase: &Phase,
    name: &Ident,
    docs: TokenStream,
    kind: Kind,
) -> TokenStream {
    let krate = &machine.krate;
    let cfg = &phase.cfg;
    let error = error_type(machine);
    let cx = match (phase.mode, kind) {
        (Mode::Blocking, Kind::Own | Kind::Entry) => quote!(#krate::BlockingCx<'_>),
        _ => context(machine),
    };
    let exit_set = match kind {
        Kind::Failed => phase.failed_exit_set(),
        Kind::Own | Kind::Additional | Kind::Entry => phase.exit_set(),
    };
    let exit = if kind == Kind::Entry || exit_set.is_unit(machine) {
        quote!(())
    } else {
        after_type(machine, exit_set)
    };
    let span = phase.ident.span();
    let output = quote_spanned!(span=> ::core::result::Result<#exit, #error>);
    let unknown = phase.exits_mistake.is_some();
    let is_of_phase = kind != Kind::Failed || phase.failed_shared == Shared::Not;
    let data =
        is_of_phase.then(|| phase_data::parameters(machine, phase, Access::of(phase), !unknown));
    let cx = quote_spanned!(span=> &mut #cx);
    let cx = argument((!unknown).then(|| Ident::new("cx", span)).as_ref(), &cx);
    let last = last_argument(machine, phase, kind);
    let last =
        last.map(|(name, ty)| argument((!unknown).then(|| Ident::new(name, span)).as_ref(), &ty));
    let mode = match kind {
        Kind::Failed => phase.failed_mode,
        Kind::Own | Kind::Additional | Kind::Entry => phase.mode,
    };
    let (output, end) = match (&phase.exits_mistake, mode) {
        (None, Mode::Async) => {
            // The other name has a message for a function that is not `async`.
            let future = match machine.for_editor {
                true => quote_spanned!(span=> ::core::future::Future),
                false => respan(quote!(#krate::machine::PhaseFuture), span),
            };
            (
                quote_spanned!(span=> impl #future<Output = #output> + ::core::marker::Send),
                quote_spanned!(span=> ;),
            )
        }
        (None, Mode::Sync | Mode::Blocking) => (output, quote_spanned!(span=> ;)),
        // The right type is unknown, so any type fits, and the function need not exist.
        (Some(mistake), _) => (quote!([(); #mistake]), quote!({ loop {} })),
    };
    quote_spanned! {span=>
        #docs
        #(#cfg)*
        fn #name(&mut self, #cx #data #last) -> #output #end
    }
}

/// Returns the argument that only some functions have: the event, or the cause of the failure.
fn last_argument(
    machine: &Machine,
    phase: &Phase,
    kind: Kind,
) -> Option<(&'static str, TokenStream)> {
    match kind {
        Kind::Own if phase.waits() => Some(("event", event_type(machine))),
        Kind::Failed => {
            let (krate, error) = (&machine.krate, error_type(machine));
            // A failure inside a layer has an error of the layer or of the inner operation.
            let error = match Layer::of(machine) {
                Some(layer) if phase.is_inner() => layer.error_type(&error),
                _ => error,
            };
            Some(("cause", quote!(#krate::Cause<#error>)))
        }
        Kind::Own | Kind::Additional | Kind::Entry => None,
    }
}

/// Returns one argument after `self`, without a name if the function has a body.
fn argument(name: Option<&Ident>, ty: &TokenStream) -> TokenStream {
    name.map_or_else(|| quote!(_: #ty,), |name| quote!(#name: #ty,))
}
