//! `RouteKind`: the phases without their data.

use proc_macro2::TokenStream;
use quote::quote;

use super::{allowed, visibility};
use crate::model::Machine;

pub(super) fn expand(machine: &Machine) -> TokenStream {
    let vis = visibility(machine);
    let kind = &machine.names.kind;
    let doc = format!(
        " The phases of [`{}`], without their data.",
        machine.item.ident
    );
    let allowed = allowed();
    let variants = machine.phases.iter().map(|phase| {
        let (cfg, ident) = (&phase.cfg, &phase.ident);
        quote!(#(#cfg)* #ident)
    });
    quote! {
        #[doc = #doc]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #allowed
        #vis enum #kind { #(#variants),* }
    }
}
