//! What an editor reads in the place of the generated code. In rust-analyzer, each name of a phase is the variant.
//!
//! For the compiler, the exits of a phase are an enum of their own, and so are the phases without data. An editor would
//! take their variants for other names than the variants of the user's enum, and would rename some of them only. Here
//! these enums are other names of the user's enum, and `to(..)` becomes imports of its variants.
//!
//! The code does nothing, as after a mistake: editors read it for its names.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};
use syn::{GenericParam, Generics, Ident, PathArguments, Type};

use super::{allowed_in_types, ends, exits, kinds, visibility};
use crate::model::{ExitSet, Machine, Phase, Target};
use crate::paths::respan;

/// Moves the functions away from the variants: an editor that renames a function then leaves the variant alone.
pub(super) fn prepare(machine: &mut Machine) {
    machine.for_editor = true;
    for phase in &mut machine.phases {
        let functions = [
            &mut phase.function,
            &mut phase.late_function,
            &mut phase.exhausted_function,
            &mut phase.locks_function,
            &mut phase.gate_function,
            &mut phase.within_function,
            &mut phase.retry_function,
            &mut phase.failed_function,
        ];
        for name in functions.into_iter().flatten() {
            name.set_span(Span::call_site().located_at(name.span()));
        }
    }
}

/// Returns the types beside the enum, as other names of the enum.
pub(super) fn types(machine: &Machine) -> TokenStream {
    // Without the `inner` phase, in the place of which others run, the kinds are another set.
    let kind = if machine.inner_phase().is_some() {
        kinds::expand(machine)
    } else {
        let (name, doc) = (&machine.names.kind, " The phases, without their data.");
        let vis = visibility(machine, machine.item.ident.span());
        alias(machine, &vis, name, &Generics::default(), doc)
    };
    let exits = exits::sets(machine).map(|exit_set| {
        let phase = exit_set.phase;
        let (cfg, generics) = (&phase.cfg, exits::generics(machine, exit_set));
        let vis = visibility(machine, phase.ident.span());
        let doc = format!(" The exits of phase `{}`.", phase.name);
        let alias = alias(machine, &vis, exit_set.after, &generics, &doc);
        quote!(#(#cfg)* #alias)
    });
    // As for the kinds.
    let end = if machine.inner_phase().is_some() {
        ends::expand(machine)
    } else {
        let (name, doc) = (&machine.names.end, " The ends, with their data.");
        let vis = visibility(machine, machine.item.ident.span());
        alias(machine, &vis, name, &ends::generics(machine), doc)
    };
    let stay = stay(machine);
    quote!(#kind #end #(#exits)* #stay)
}

/// Returns another name of the enum. Parameters that the name does not have are filled with anything.
fn alias(
    machine: &Machine,
    vis: &TokenStream,
    name: &Ident,
    own: &Generics,
    doc: &str,
) -> TokenStream {
    let phases = phases(machine);
    let arguments = machine.item.generics.params.iter().map(|param| {
        let name = match param {
            GenericParam::Lifetime(param) => param.lifetime.to_token_stream(),
            GenericParam::Type(param) => param.ident.to_token_stream(),
            GenericParam::Const(param) => param.ident.to_token_stream(),
        };
        match param {
            _ if own.params.iter().any(|own| is_same(own, param)) => name,
            GenericParam::Lifetime(_) => quote!('static),
            GenericParam::Type(_) => quote!(()),
            GenericParam::Const(_) => quote!({ ::core::panic!() }),
        }
    });
    let arguments: Vec<TokenStream> = arguments.collect();
    let arguments = (!arguments.is_empty()).then(|| quote!(<#(#arguments),*>));
    let (params, allowed) = (&own.params, allowed_in_types());
    let params = (!params.is_empty()).then(|| quote!(<#params>));
    quote! {
        #[doc = #doc]
        #allowed
        #vis type #name #params = #phases #arguments;
    }
}

fn is_same(one: &GenericParam, other: &GenericParam) -> bool {
    match (one, other) {
        (GenericParam::Lifetime(one), GenericParam::Lifetime(other)) => {
            one.lifetime == other.lifetime
        }
        (GenericParam::Type(one), GenericParam::Type(other)) => one.ident == other.ident,
        (GenericParam::Const(one), GenericParam::Const(other)) => one.ident == other.ident,
        _ => false,
    }
}

/// Returns the exit `Stay`, which is no phase.
fn stay(machine: &Machine) -> Option<TokenStream> {
    let is_phase = machine.phases.iter().any(|phase| phase.name == "Stay");
    if is_phase || !exits::sets(machine).any(|exit_set| exit_set.stays) {
        return None;
    }
    let (phases, vis) = (phases(machine), visibility(machine, Span::call_site()));
    let (generics, params, bounds) = machine.item.generics.split_for_impl();
    Some(quote! {
        #[allow(nonstandard_style)]
        impl #generics #phases #params #bounds {
            /// The phase goes on, and waits for its next event.
            #vis const Stay: Self = ::core::panic!();
        }
    })
}

/// Returns an import for each name in `to(..)`, `failed(..)`, `keep(..)` and `on(..)`. An editor finds the variant from
/// there, finds the name from the variant, and completes a name that is half written.
pub(super) fn mentions(machine: &Machine) -> TokenStream {
    let mentions = machine.phases.iter().flat_map(|phase| {
        let targets = phase.exits.iter().chain(&phase.failed).chain(&phase.keep);
        let targets = targets.map(|target| to_phase(machine, phase, target));
        let events = phase.on().iter();
        let events = events.filter_map(|event| to_event(machine, phase, event));
        let itself = itself(machine, phase);
        targets.chain(events).chain([itself]).collect::<Vec<_>>()
    });
    quote! {
        #[allow(unused)]
        const _: () = { #(#mentions)* };
    }
}

/// Returns an import of the phase in the place of the variant. A rename in rust-analyzer starts only at a path, because
/// rust-analyzer does not see that the name of the variant went through the macro unchanged.
fn itself(machine: &Machine, phase: &Phase) -> TokenStream {
    let (phases, ident, cfg) = (phases(machine), &phase.ident, &phase.cfg);
    quote!(#(#cfg)* use #phases::#ident;)
}

fn to_phase(machine: &Machine, phase: &Phase, target: &Target) -> TokenStream {
    let (phases, token, cfg) = (phases(machine), &target.token, &phase.cfg);
    let known = target.phase.map(|number| &machine.phases[number]);
    let cfg_of_target = known.map_or(&[][..], |target| &target.cfg);
    let exits = exits::sets(machine)
        .filter(|exit_set| known.is_some_and(|target| std::ptr::eq(target, exit_set.phase)));
    let exits = exits.map(|ExitSet { after, .. }| {
        // A rename from here also renames the exits of that phase.
        let mut after = after.clone();
        after.set_span(token.span());
        quote!(#(#cfg)* #(#cfg_of_target)* use #after as _;)
    });
    quote!(#(#cfg)* #(#cfg_of_target)* use #phases::#token; #(#exits)*)
}

fn to_event(machine: &Machine, phase: &Phase, event: &Ident) -> Option<TokenStream> {
    let Some(Type::Path(ty)) = &machine.event else {
        return None;
    };
    if ty.qself.is_some() {
        return None;
    }
    let mut path = ty.path.clone();
    for segment in &mut path.segments {
        segment.arguments = PathArguments::None;
    }
    let path = respan(path.to_token_stream(), Span::call_site());
    let cfg = &phase.cfg;
    Some(quote!(#(#cfg)* use #path::#event;))
}

/// Returns the name of the enum, not at its declaration: an editor would count it as one more place.
fn phases(machine: &Machine) -> Ident {
    let mut name = machine.item.ident.clone();
    name.set_span(Span::call_site().located_at(name.span()));
    name
}
