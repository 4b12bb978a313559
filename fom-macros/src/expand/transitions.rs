//! `RouteTransitions`: one function for each phase that is no end.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{Attribute, Ident, Meta};

use super::{after_type, allowed, braces, context, error_type, event_type, visibility};
use crate::model::{Machine, Mode, Phase};

pub(super) fn expand(machine: &Machine) -> TokenStream {
    let span = machine.item.ident.span();
    let vis = visibility(machine, span);
    let head = quote_spanned!(span=> #vis trait);
    let name = &machine.names.transitions;
    let (generics, _, bounds) = machine.item.generics.split_for_impl();
    let doc = format!(" What is done in each phase of [`{}`].", machine.item.ident);
    let functions = machine.working().map(|phase| functions(machine, phase));
    let allowed = allowed();
    let functions = braces(span, quote!(#(#functions)*));
    quote! {
        #[doc = #doc]
        #allowed
        #head #name #generics #bounds #functions
    }
}

fn functions(machine: &Machine, phase: &Phase) -> TokenStream {
    let docs: Vec<&Attribute> = written(&phase.docs).collect();
    let default = format!(" Runs in phase `{}`.", phase.name);
    let docs = if docs.is_empty() {
        quote!(#[doc = #default])
    } else {
        quote!(#(#docs)*)
    };
    let late = format!(" Runs when `{}` was not left in time.", phase.name);
    let own = phase
        .function
        .as_ref()
        .map(|name| function(machine, phase, name, docs, false));
    let late = phase
        .late_function
        .as_ref()
        .map(|name| function(machine, phase, name, quote!(#[doc = #late]), true));
    quote!(#own #late)
}

/// Doc comments, not `#[doc(hidden)]` and the like.
pub(super) fn written(docs: &[Attribute]) -> impl Iterator<Item = &Attribute> {
    docs.iter()
        .filter(|attr| matches!(attr.meta, Meta::NameValue(_)))
}

fn function(
    machine: &Machine,
    phase: &Phase,
    name: &Ident,
    docs: TokenStream,
    late: bool,
) -> TokenStream {
    let krate = &machine.krate;
    let cfg = &phase.cfg;
    let error = error_type(machine);
    let cx = match (phase.mode, late) {
        (Mode::Blocking, false) => quote!(#krate::BlockingCx<'_>),
        _ => context(machine),
    };
    let names: Vec<_> = phase.fields.iter().map(|field| &field.ident).collect();
    let types: Vec<_> = phase.fields.iter().map(|field| &field.ty).collect();
    let exit = if phase.returns_unit(machine) {
        quote!(())
    } else {
        after_type(machine, phase)
    };
    let span = phase.ident.span();
    let output = quote_spanned!(span=> ::core::result::Result<#exit, #error>);
    let send = quote_spanned!(span=> ::core::marker::Send);
    let head = quote_spanned!(span=> fn #name);
    let (data, output, end) = match (&phase.unsure, phase.mode) {
        (None, Mode::Async) => (
            quote!(#(, #names: &mut #types)*),
            quote!(impl ::core::future::Future<Output = #output> + #send),
            quote_spanned!(span=> ;),
        ),
        (None, Mode::Sync | Mode::Blocking) => (
            quote!(#(, #names: &mut #types)*),
            output,
            quote_spanned!(span=> ;),
        ),
        // Anything fits, and nothing has to be there: what it should be is not known.
        (Some(mistake), _) => (
            quote!(#(, _: &mut #types)*),
            quote!([(); #mistake]),
            quote!({ loop {} }),
        ),
    };
    let cx_name = if phase.unsure.is_some() {
        quote!(_)
    } else {
        quote!(cx)
    };
    let event = (phase.waits() && !late).then(|| {
        let name = if phase.unsure.is_some() {
            quote!(_)
        } else {
            quote!(event)
        };
        let event = event_type(machine);
        quote!(, #name: #event)
    });
    quote! {
        #docs
        #(#cfg)*
        #head (&mut self, #cx_name: &mut #cx #data #event) -> #output #end
    }
}
