//! The types of a machine that are less visible than its operation may be.
//!
//! rustc takes no private type as an associated type of a public trait (E0446), unless a `where` clause names it. So a
//! private enum reaches `Operation` through two traits: one of them knows the enum, the other takes it over.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::punctuated::Punctuated;
use syn::{GenericParam, Token, Visibility};

use super::operation::kind_type;
use super::{ends, operation_generics, phase_type};
use crate::model::Machine;

/// Returns whether the operation can be more visible than the enum.
pub(super) fn is_private(machine: &Machine) -> bool {
    !matches!(machine.item.vis, Visibility::Public(_))
}

/// Returns the operation as the trait that has the types.
pub(super) fn types(machine: &Machine) -> TokenStream {
    let (krate, name) = (&machine.krate, machine.item.ident.span());
    quote_spanned!(name=> <Self as #krate::__private::Types<M_>>)
}

/// Returns the impls of the two traits, if the enum is not public. `M_` stands for the machine: if an operation has two
/// machines by mistake, rustc reports nothing about these impls.
pub(super) fn expand(machine: &Machine) -> Option<TokenStream> {
    // An enum that borrows is a mistake, and has no operation.
    let borrows = machine.item.generics.lifetimes().next().is_some();
    let is_needed = is_private(machine) && !borrows;
    let operation = machine.operation.as_ref().filter(|_| is_needed)?;
    let krate = &machine.krate;
    let own = operation_generics(machine);
    let (generics, _, bounds) = own.split_for_impl();
    let (phase, kind, end) = (
        phase_type(machine),
        kind_type(machine),
        ends::end_type(machine),
    );
    let mut all = own.clone();
    let any: Punctuated<GenericParam, Token![,]> = syn::parse_quote!(Phase_, End_, Kind_);
    all.params.extend(any);
    let traits = quote!(#krate::__private);
    all.make_where_clause().predicates.push(syn::parse_quote!(
        Self: #traits::OwnTypes<#phase, Phase = Phase_, End = End_, Kind = Kind_>
    ));
    let (all, _, all_bounds) = all.split_for_impl();
    let head = quote_spanned!(machine.operation_span()=> impl);
    Some(quote! {
        #[allow(unreachable_pub, unnameable_types, missing_docs, missing_debug_implementations)]
        pub enum M_ {}
        #[automatically_derived]
        #head #generics #traits::OwnTypes<#phase> for #operation #bounds {
            type Phase = #phase;
            type End = #end;
            type Kind = #kind;
        }
        #[automatically_derived]
        #head #all #traits::Types<M_> for #operation #all_bounds {
            type Phase = Phase_;
            type End = End_;
            type Kind = Kind_;
        }
    })
}
