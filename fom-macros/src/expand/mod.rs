//! The items beside the enum, in order. Each part is one function of the model.

mod docs;
mod editor;
mod ends;
mod exits;
mod kinds;
mod layer;
mod operation;
mod persist;
mod phase_data;
mod private;
mod step;
mod times;
mod transitions;

use proc_macro2::{Delimiter, Group, Span, TokenStream};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::{Generics, Type};

use crate::model::{ExitSet, Machine, Phase};
use crate::paths::{self, respan};

pub(crate) fn expand(machine: &Machine) -> TokenStream {
    let exposed = [
        docs::documented(machine),
        kinds::expand(machine),
        ends::expand(machine),
        transitions::expand(machine),
        exits::expand(machine),
        phase_data::expand(machine),
    ];
    let scoped = [
        operation::phases(machine),
        private::expand(machine).unwrap_or_default(),
        operation::expand(machine),
        step::expand(machine),
        persist::expand(machine),
        persist::register(machine),
        operation::secret_fields(machine).unwrap_or_default(),
    ];
    let scoped = in_scope(machine, scoped.into_iter().collect());
    exposed.into_iter().chain([scoped]).collect()
}

/// Puts impls into a scope of their own, where short names keep them readable. These names end in an underscore, so
/// they never meet a name of the user's.
fn in_scope(machine: &Machine, impls: TokenStream) -> TokenStream {
    let krate = &machine.krate;
    let (phases, names) = (&machine.item.ident, &machine.names);
    let (kinds, ends, transitions) = (&names.kind, &names.end, &names.transitions);
    // Unused imports are a lint, so only used names are imported. Where `cfg` can remove a phase, the used names are
    // unknown.
    let allowed = machine.has_cfg().then(|| quote!(#[allow(unused_imports)]));
    let any = |unit| {
        let own = machine.working().filter(|phase| !phase.is_handed_over());
        let own = own.map(Phase::exit_set);
        let failed = machine.phases.iter().map(Phase::failed_exit_set);
        own.chain(failed.filter(|exit_set| !exit_set.exits.is_empty()))
            .any(|exit_set| exit_set.is_unit(machine) == unit)
    };
    let to = any(true).then(|| quote!(, to as to_));
    let go = any(false).then(|| quote!(, go as go_));
    let fields = machine.phases.iter().flat_map(|phase| {
        let defaults = phase.defaults.iter();
        defaults.filter(|_| !machine.transient && !phase.is_inner())
    });
    let at = (fields.count() > 0).then(|| quote!(, at as at_));
    let layered = machine
        .inner_phase()
        .map(|_| quote!(use #krate::machine::Layered as L_;));
    quote! {
        const _: () = {
            use #krate::machine::{Graph as G_, PhaseInfo as I_};
            #layered
            #allowed
            use #krate::__private::{self as fom_ #at #to #go};
            use {#phases as P_, #kinds as K_, #ends as E_, #transitions as T_};
            #impls
        };
    }
}

/// Returns the same names without behaviour, so that one mistake does not cause many.
pub(crate) fn skeleton(machine: &Machine) -> TokenStream {
    let exposed = [
        enum_of_skeleton(machine),
        kinds::expand(machine),
        ends::expand(machine),
        transitions::expand(machine),
        exits::skeleton(machine),
        phase_data::expand(machine),
    ];
    let private = private::expand(machine);
    let unfinished = unfinished(machine, private.is_some());
    let scoped = quote!(const _: () = { #private #unfinished };);
    exposed.into_iter().chain([scoped]).collect()
}

/// Returns the names without behaviour for an editor, with or without a mistake.
pub(crate) fn for_editor(mut machine: Machine) -> TokenStream {
    editor::prepare(&mut machine);
    let machine = &machine;
    let item = if machine.named_like_operation {
        enum_of_skeleton(machine)
    } else {
        docs::documented(machine)
    };
    let exposed = [
        editor::mentions(machine),
        item,
        editor::types(machine),
        phase_data::expand(machine),
        transitions::expand(machine),
    ];
    let unfinished = unfinished(machine, false);
    exposed.into_iter().chain([unfinished]).collect()
}

/// Returns an operation that never runs.
fn unfinished(machine: &Machine, is_private: bool) -> TokenStream {
    let borrows = machine.item.generics.lifetimes().next().is_some();
    if borrows {
        return TokenStream::new();
    }
    let parts = [
        operation::skeleton(machine, is_private),
        persist::skeleton(machine),
    ];
    parts.into_iter().collect()
}

/// Returns the enum. An enum with the name of its operation hides behind a glob import. So the operation keeps the name,
/// and rustc reports nothing more.
fn enum_of_skeleton(machine: &Machine) -> TokenStream {
    if !machine.named_like_operation {
        return machine.item.to_token_stream();
    }
    let mut item = machine.item.clone();
    item.vis = syn::parse_quote!(pub);
    let name = paths::snake(&item.ident.unraw().to_string());
    let name = quote::format_ident!("phases_of_{name}");
    quote! {
        #[allow(unused, private_interfaces)]
        mod #name {
            use super::*;
            #item
        }
        #[allow(unused)]
        use #name::*;
    }
}

/// Returns `{ .. }` at a place, so that an error about the item shows there as a whole.
fn braces(span: Span, tokens: TokenStream) -> Group {
    let mut group = Group::new(Delimiter::Brace, tokens);
    group.set_span(span);
    group
}

/// Allows lints in generated types: their parts are documented at the user's own.
fn allowed_in_types() -> TokenStream {
    quote!(#[allow(dead_code, missing_docs, nonstandard_style, clippy::all, clippy::restriction)])
}

/// Allows lints in the exits: the same ones, but rustc reports an exit that no function takes.
fn allowed_in_exits() -> TokenStream {
    quote!(#[allow(missing_docs, nonstandard_style, clippy::all, clippy::restriction)])
}

/// Allows lints in the generated trait. The trait has the user's docs, so `missing_docs` is not among them.
fn allowed_in_trait() -> TokenStream {
    quote!(#[allow(unused, clippy::all, clippy::pedantic, clippy::restriction)])
}

/// `Route`, with the parameters of the enum.
fn phase_type(machine: &Machine) -> TokenStream {
    let ident = &machine.item.ident;
    let (_, params, _) = machine.item.generics.split_for_impl();
    quote!(#ident #params)
}

/// Returns the enum's visibility. The span is not the user's `pub`, so that lints about it are reported once.
fn visibility(machine: &Machine, span: Span) -> TokenStream {
    respan(
        machine.item.vis.to_token_stream(),
        Span::call_site().located_at(span),
    )
}

fn error_type(machine: &Machine) -> TokenStream {
    let krate = &machine.krate;
    machine
        .error
        .as_ref()
        .map_or_else(|| quote!(#krate::error::BoxError), Type::to_token_stream)
}

fn event_type(machine: &Machine) -> TokenStream {
    let krate = &machine.krate;
    machine
        .event
        .as_ref()
        .map_or_else(|| quote!(#krate::machine::NoEvent), Type::to_token_stream)
}

/// `Cx<'_>`, with the event type where there is one.
fn context(machine: &Machine) -> TokenStream {
    let krate = &machine.krate;
    match &machine.event {
        Some(event) => quote!(#krate::Cx<'_, #event>),
        None => quote!(#krate::Cx<'_>),
    }
}

/// `RouteAfterRing<T>`, with the parameters that its data need.
fn after_type(machine: &Machine, exit_set: ExitSet<'_>) -> TokenStream {
    let ident = exit_set.after;
    let generics = exits::generics(machine, exit_set);
    let (_, params, _) = generics.split_for_impl();
    quote!(#ident #params)
}

/// Returns the generics of the impls on the operation.
fn operation_generics(machine: &Machine) -> &Generics {
    &machine.generics
}

/// Returns the `{ .. }` of a pattern that matches the phase with any data.
fn any_data(phase: &Phase) -> TokenStream {
    if phase.fields.is_empty() {
        TokenStream::new()
    } else {
        quote!({ .. })
    }
}

/// `{ endpoint, uri }`, as a pattern and as an expression.
fn data(phase: &Phase) -> TokenStream {
    if phase.fields.is_empty() {
        return TokenStream::new();
    }
    let names = phase.fields.iter().map(|field| &field.ident);
    quote!({ #(#names),* })
}
