//! `RouteTransitions`: one function for each phase that is no end.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::{Attribute, Ident, Meta};

use super::{after_type, allowed, context, error_type, event_type, visibility};
use crate::model::{Machine, Mode, Phase};

pub(super) fn expand(machine: &Machine) -> TokenStream {
    let vis = visibility(machine);
    let name = &machine.names.transitions;
    let (generics, _, bounds) = machine.item.generics.split_for_impl();
    let doc = format!(" What is done in each phase of [`{}`].", machine.item.ident);
    let functions = machine.working().map(|phase| functions(machine, phase));
    let allowed = allowed();
    quote! {
        #[doc = #doc]
        #allowed
        #vis trait #name #generics: ::core::marker::Sized + ::core::marker::Send + 'static #bounds {
            #(#functions)*
        }
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
    let data = phase.fields.iter().map(|field| {
        let (name, ty) = (&field.ident, &field.ty);
        quote!(, #name: &mut #ty)
    });
    let event = (phase.waits() && !late).then(|| {
        let event = event_type(machine);
        quote!(, event: #event)
    });
    let exit = if phase.returns_unit(machine) {
        quote!(())
    } else {
        after_type(machine, phase)
    };
    let output = quote!(::core::result::Result<#exit, #error>);
    let is_async = phase.mode == Mode::Async;
    let (output, end) = match (is_async, phase.broken) {
        (true, false) => (
            quote!(impl ::core::future::Future<Output = #output> + ::core::marker::Send),
            quote!(;),
        ),
        (false, false) => (output, quote!(;)),
        // Anything fits, and nothing has to be there: what it should be is not known.
        (true, true) => (quote!(impl ::core::future::Future), quote!({ async {} })),
        (false, true) => (quote!(impl ::core::marker::Sized), quote!({})),
    };
    let span = phase.ident.span();
    let signature = quote_spanned!(span=> fn #name);
    let signature = signature.into_token_stream();
    quote! {
        #docs
        #(#cfg)*
        #signature (&mut self, cx: &mut #cx #(#data)* #event) -> #output #end
    }
}
