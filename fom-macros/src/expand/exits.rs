//! `RouteAfterRing`: where a phase may go, so that it can go nowhere else.

use proc_macro2::{TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::{GenericParam, Generics, Ident};

use super::{allowed, visibility};
use crate::model::{Machine, Phase, Target};

pub(super) fn expand(machine: &Machine) -> TokenStream {
    machine
        .working()
        .filter(|phase| !phase.returns_unit(machine))
        .map(|phase| after(machine, phase))
        .collect()
}

fn after(machine: &Machine, phase: &Phase) -> TokenStream {
    let vis = visibility(machine);
    let (cfg, name) = (&phase.cfg, &phase.after);
    let doc = format!(" Where phase `{}` may go.", phase.name);
    let allowed = allowed();
    let generics = generics(machine, phase);
    let bounds = &generics.where_clause;
    let variants = phase.exits.iter().flat_map(|exit| variants(machine, exit));
    let stay = phase.waits().then(|| quote!(Stay,));
    quote! {
        #(#cfg)*
        #[doc = #doc]
        #allowed
        #vis enum #name #generics #bounds { #(#variants,)* #stay }
    }
}

/// One variant; for a mistyped name that and the one that was probably meant.
fn variants(machine: &Machine, exit: &Target) -> Vec<TokenStream> {
    let mut variants = Vec::new();
    if exit.phase.is_none() {
        variants.push(exit.token.to_token_stream());
    }
    if let Some(target) = exit.phase.or(exit.near) {
        let target = &machine.phases[target];
        let (cfg, ident) = (&target.cfg, &target.ident);
        let fields = target.fields.iter().map(|field| {
            let (name, ty) = (&field.ident, &field.ty);
            quote!(#name: #ty)
        });
        let data = (!target.fields.is_empty()).then(|| quote!({ #(#fields),* }));
        variants.push(quote!(#(#cfg)* #ident #data));
    }
    variants
}

/// The enum's parameters that the data of this phase's exits mention.
pub(super) fn generics(machine: &Machine, phase: &Phase) -> Generics {
    let all = &machine.item.generics;
    let data: TokenStream = phase
        .exits
        .iter()
        .filter_map(|exit| exit.phase.or(exit.near))
        .flat_map(|target| &machine.phases[target].fields)
        .map(|field| field.ty.to_token_stream())
        .collect();
    let used: Vec<&Ident> = names(all).filter(|name| mentions(&data, name)).collect();
    let foreign = |tokens: TokenStream| {
        names(all).any(|name| !used.contains(&name) && mentions(&tokens, name))
    };
    let mut own = Generics {
        params: Default::default(),
        ..all.clone()
    };
    for param in &all.params {
        let kept = match param {
            GenericParam::Type(param) if used.contains(&&param.ident) => {
                let mut param = param.clone();
                param.bounds = param
                    .bounds
                    .into_iter()
                    .filter(|bound| !foreign(bound.to_token_stream()))
                    .collect();
                GenericParam::Type(param)
            }
            GenericParam::Const(param) if used.contains(&&param.ident) => {
                GenericParam::Const(param.clone())
            }
            _ => continue,
        };
        own.params.push(kept);
    }
    if let Some(bounds) = &mut own.where_clause {
        bounds.predicates = bounds
            .predicates
            .iter()
            .filter(|bound| !foreign(bound.to_token_stream()))
            .cloned()
            .collect();
        if bounds.predicates.is_empty() || own.params.is_empty() {
            own.where_clause = None;
        }
    }
    own
}

fn names(generics: &Generics) -> impl Iterator<Item = &Ident> {
    generics.params.iter().filter_map(|param| match param {
        GenericParam::Type(param) => Some(&param.ident),
        GenericParam::Const(param) => Some(&param.ident),
        _ => None,
    })
}

fn mentions(tokens: &TokenStream, name: &Ident) -> bool {
    tokens.clone().into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == *name,
        TokenTree::Group(group) => mentions(&group.stream(), name),
        _ => false,
    })
}
