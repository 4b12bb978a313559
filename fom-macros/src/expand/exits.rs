//! `RouteAfterRing`: the exits of a phase. No other exit can be written.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::{Attribute, GenericParam, Generics, Ident};

use super::{allowed_in_exits, allowed_in_types, braces, visibility};
use crate::model::{ExitSet, Machine, Phase, Shared};

pub(super) fn expand(machine: &Machine) -> TokenStream {
    of_all_sets(machine, &allowed_in_exits())
}

/// After a mistake, phase functions can be missing, and no exit is reported as never taken.
pub(super) fn skeleton(machine: &Machine) -> TokenStream {
    of_all_sets(machine, &allowed_in_types())
}

fn of_all_sets(machine: &Machine, allowed: &TokenStream) -> TokenStream {
    let sets = sets(machine).map(|exit_set| after(machine, exit_set, allowed));
    sets.collect()
}

/// Returns the exits that have an enum.
pub(super) fn sets(machine: &Machine) -> impl Iterator<Item = ExitSet<'_>> {
    let own = machine.working().filter(|phase| !phase.is_handed_over());
    let own = own.map(Phase::exit_set);
    let failed = machine.phases.iter().map(Phase::failed_exit_set);
    let failed = failed.filter(|exit_set| {
        let phase = exit_set.phase;
        phase.failed_function.is_some() && phase.failed_shared != Shared::Later
    });
    own.chain(failed)
        .filter(|exit_set| !exit_set.is_unit(machine))
}

fn after(machine: &Machine, exit_set: ExitSet<'_>, allowed: &TokenStream) -> TokenStream {
    let phase = exit_set.phase;
    let span = phase.ident.span();
    let vis = visibility(machine, span);
    let (cfg, name) = (&phase.cfg, exit_set.after);
    let when = if *name == phase.after_failed {
        " after a failure"
    } else {
        ""
    };
    let doc = format!(" The exits of phase `{}`{when}.", phase.name);
    let generics = generics(machine, exit_set);
    let bounds = &generics.where_clause;
    let variants = variants(machine, exit_set);
    let named_stay = exit_set.exits.iter().any(|exit| exit.token == "Stay");
    // A phase function need not stay, and no token of the user's says that it can.
    let stay = (exit_set.stays && !named_stay).then(|| {
        quote!(
            #[allow(dead_code)]
            Stay,
        )
    });
    let head = quote_spanned!(span=> #vis enum);
    let variants = braces(span, quote!(#(#variants,)* #stay));
    let users = allowed_by_user(machine, phase);
    quote! {
        #(#cfg)*
        #[doc = #doc]
        #allowed
        #(#users)*
        #head #name #generics #bounds #variants
    }
}

/// Returns each `#[allow(..)]` of the enum and of the phase: the exits are a part of both for the user.
fn allowed_by_user<'a>(machine: &'a Machine, phase: &Phase) -> impl Iterator<Item = &'a Attribute> {
    let mut variants = machine.item.variants.iter();
    let variant = variants.find(|variant| variant.ident == phase.ident);
    let of_phase = variant.map_or(&[][..], |variant| &variant.attrs);
    let all = machine.item.attrs.iter().chain(of_phase);
    all.filter(|attr| attr.path().is_ident("allow"))
}

/// Returns one variant for each exit. A mistyped name gives only this name and the phase that it probably means, or all
/// phases if that phase is unknown. Each name appears once, so rustc reports no second mistake.
fn variants(machine: &Machine, exit_set: ExitSet<'_>) -> Vec<TokenStream> {
    let meant = exit_set.exits.iter();
    let meant = meant.filter_map(|exit| Some((exit.phase.or(exit.near)?, exit.token.span())));
    let any = 0..machine.phases.len();
    let any = any.filter(|_| exit_set.phase.exits_mistake.is_some());
    let any = any.map(|target| (target, machine.phases[target].ident.span()));
    let mut targets: Vec<(usize, Span)> = Vec::new();
    for (target, span) in meant.chain(any) {
        let name = &machine.phases[target].name;
        let is_there = |(other, _): &(usize, Span)| machine.phases[*other].name == *name;
        if !targets.iter().any(is_there) {
            targets.push((target, span));
        }
    }
    let mistyped = exit_set.exits.iter().filter(|exit| exit.phase.is_none());
    mistyped
        .map(|exit| exit.token.to_token_stream())
        .chain(
            targets
                .into_iter()
                .map(|(target, span)| variant(&machine.phases[target], span)),
        )
        .collect()
}

/// Returns the variant for an exit, at its place in `to(..)`: rustc reports there that no function takes the exit.
fn variant(target: &Phase, span: Span) -> TokenStream {
    let (cfg, mut ident) = (&target.cfg, target.ident.clone());
    ident.set_span(span);
    let types = target.fields.iter().map(|field| &field.ty);
    let names = target.fields.iter().map(|field| &field.ident);
    let data = match (target.takes_data(), target.tuple) {
        (false, _) => None,
        (true, true) => Some(quote!((#(#types),*))),
        (true, false) => Some(quote!({ #(#names: #types),* })),
    };
    quote!(#(#cfg)* #ident #data)
}

/// Returns the enum's parameters that occur in the data of these exits.
pub(super) fn generics(machine: &Machine, exit_set: ExitSet<'_>) -> Generics {
    let all = &machine.item.generics;
    let exits = exit_set
        .exits
        .iter()
        .filter_map(|exit| exit.phase.or(exit.near));
    let exits = exits.map(|target| &machine.phases[target]);
    let any = machine
        .phases
        .iter()
        .filter(|_| exit_set.phase.exits_mistake.is_some());
    let targets = exits.chain(any).filter(|target| target.takes_data());
    let fields = targets.flat_map(|target| &target.fields);
    generics_of(
        all,
        &fields.map(|field| field.ty.to_token_stream()).collect(),
    )
}

/// Returns the parameters that occur in these types, with the bounds that need no other parameter.
pub(super) fn generics_of(all: &Generics, data: &TokenStream) -> Generics {
    let used: Vec<&Ident> = names(all).filter(|name| mentions(data, name)).collect();
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
            GenericParam::Lifetime(param) if used.contains(&&param.lifetime.ident) => {
                GenericParam::Lifetime(param.clone())
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
    generics.params.iter().map(|param| match param {
        GenericParam::Type(param) => &param.ident,
        GenericParam::Const(param) => &param.ident,
        GenericParam::Lifetime(param) => &param.lifetime.ident,
    })
}

fn mentions(tokens: &TokenStream, name: &Ident) -> bool {
    tokens.clone().into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident.unraw() == name.unraw(),
        TokenTree::Group(group) => mentions(&group.stream(), name),
        _ => false,
    })
}
