//! `RouteKind`: the phases without their data.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};

use super::{allowed_in_types, braces, visibility};
use crate::model::Machine;

pub(super) fn expand(machine: &Machine) -> TokenStream {
    let span = machine.item.ident.span();
    let vis = visibility(machine, span);
    let head = quote_spanned!(span=> #vis enum);
    let kind = &machine.names.kind;
    let doc = format!(
        " The phases of [`{}`], without their data.",
        machine.item.ident
    );
    let allowed = allowed_in_types();
    let own = machine.phases.iter().filter(|phase| !phase.is_inner());
    let variants = own.map(|phase| {
        let (cfg, ident) = (&phase.cfg, &phase.ident);
        quote!(#(#cfg)* #ident)
    });
    let variants = braces(span, quote!(#(#variants),*));
    quote! {
        #[doc = #doc]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #allowed
        #head #kind #variants
    }
}
