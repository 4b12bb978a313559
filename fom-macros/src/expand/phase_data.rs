//! `RouteInRing`: the data of a phase, as its functions get them.
//!
//! One value is passed as it is. Several values are passed as a struct, so that a function names them. If two fields of
//! one type change places in the enum, they cannot change places in a function.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Field, Generics, Ident, Lifetime};

use super::{allowed_in_types, braces, exits, visibility};
use crate::model::{Machine, Phase};

/// How a function gets the data.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// The function of the phase owns the data, with `take`.
    Owned,
    /// A function that runs the phase can change the data.
    Mut,
    /// A function that is asked about the phase looks at the data.
    Shared,
}

impl Access {
    /// Returns how the functions that run the phase get its data.
    pub(super) fn of(phase: &Phase) -> Self {
        if phase.args.take.is_some() {
            Self::Owned
        } else {
            Self::Mut
        }
    }

    fn name(self, phase: &Phase) -> &Ident {
        match self {
            Self::Owned | Self::Mut => &phase.data,
            Self::Shared => &phase.data_ref,
        }
    }

    fn lifetime(self) -> Option<Lifetime> {
        // A type in a field may have any lifetime of its own.
        (self != Self::Owned).then(|| Lifetime::new("'data", Span::mixed_site()))
    }

    /// Returns the type in which a function gets the value of this field.
    fn of_field(self, field: &Field, lifetime: Option<&Lifetime>) -> TokenStream {
        let ty = &field.ty;
        match self {
            Self::Owned => quote_spanned!(ty.span()=> #ty),
            Self::Mut => quote_spanned!(ty.span()=> &#lifetime mut #ty),
            Self::Shared => quote_spanned!(ty.span()=> &#lifetime #ty),
        }
    }
}

/// Returns the structs of all phases that pass their data by name.
pub(super) fn expand(machine: &Machine) -> TokenStream {
    let phases = machine.phases.iter().filter(|phase| phase.is_by_name());
    phases.flat_map(|phase| of_phase(machine, phase)).collect()
}

fn of_phase(machine: &Machine, phase: &Phase) -> Vec<TokenStream> {
    let runs = phase.is_run_by_functions();
    let is_asked = [
        &phase.locks_function,
        &phase.gate_function,
        &phase.within_function,
        &phase.retry_function,
        &phase.invariant_function,
    ];
    let is_asked = is_asked.into_iter().any(Option::is_some);
    let own = runs.then(|| structure(machine, phase, Access::of(phase)));
    let shared = is_asked.then(|| structure(machine, phase, Access::Shared));
    own.into_iter().chain(shared).collect()
}

fn structure(machine: &Machine, phase: &Phase, access: Access) -> TokenStream {
    let span = phase.ident.span();
    let vis = visibility(machine, span);
    let (cfg, name) = (&phase.cfg, access.name(phase));
    let doc = format!(" The data of phase `{}`, by name.", phase.name);
    let lifetime = access.lifetime();
    let generics = generics(machine, phase, lifetime.as_ref());
    let bounds = &generics.where_clause;
    let fields = phase.fields.iter().map(|field| {
        let (ident, ty) = (&field.ident, access.of_field(field, lifetime.as_ref()));
        quote!(#vis #ident: #ty)
    });
    let head = quote_spanned!(span=> #vis struct);
    let fields = braces(span, quote!(#(#fields),*));
    let allowed = allowed_in_types();
    quote! {
        #(#cfg)*
        #[doc = #doc]
        #allowed
        #[allow(missing_debug_implementations)]
        #head #name #generics #bounds #fields
    }
}

/// Returns the parameters of the enum that the data need, behind the lifetime of the references.
fn generics(machine: &Machine, phase: &Phase, lifetime: Option<&Lifetime>) -> Generics {
    let types = phase.fields.iter().map(|field| &field.ty);
    let mut generics = exits::generics_of(&machine.item.generics, &quote!(#(#types)*));
    if let Some(lifetime) = lifetime {
        generics.params.insert(0, syn::parse_quote!(#lifetime));
    }
    generics
}

/// Returns the parameters of a function that gets the data. They have no names if the function has a body.
pub(super) fn parameters(
    machine: &Machine,
    phase: &Phase,
    access: Access,
    is_named: bool,
) -> TokenStream {
    let parameter = |name: Option<&Ident>, ty: TokenStream| match name.filter(|_| is_named) {
        Some(name) => quote!(#name: #ty,),
        None => quote!(_: #ty,),
    };
    if !phase.is_by_name() {
        let fields = phase.fields.iter();
        let fields =
            fields.map(|field| parameter(field.ident.as_ref(), access.of_field(field, None)));
        return fields.collect();
    }
    let (name, span) = (access.name(phase), phase.ident.span());
    let elided = access
        .lifetime()
        .map(|_| Lifetime::new("'_", Span::call_site()));
    let generics = generics(machine, phase, elided.as_ref());
    let (_, params, _) = generics.split_for_impl();
    let data = Ident::new("data", span);
    parameter(Some(&data), quote_spanned!(span=> #name #params))
}

/// Returns the arguments for these parameters, from a pattern that has bound the fields by name.
pub(super) fn arguments(phase: &Phase, access: Access) -> TokenStream {
    let names = phase.fields.iter().map(|field| &field.ident);
    if phase.is_by_name() {
        let name = access.name(phase);
        quote!(, #name { #(#names),* })
    } else {
        quote!(#(, #names)*)
    }
}
