//! `Persistent`: a phase's name and data into a record, and out of it.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;

use super::{braces, data, operation_generics, phase_type};
use crate::model::{Machine, Phase};

pub(super) fn expand(machine: &Machine) -> TokenStream {
    if machine.transient {
        return TokenStream::new();
    }
    let krate = &machine.krate;
    let Some(operation) = &machine.operation else {
        return TokenStream::new();
    };
    let (generics, _, bounds) = operation_generics(machine).split_for_impl();
    let head = quote_spanned!(machine.operation_span()=> impl);
    let phase_type = phase_type(machine);
    let local = |name| Ident::new(name, Span::mixed_site());
    let (phase, fields) = (local("phase"), local("fields"));
    let all = || machine.phases.iter();
    let puts = all()
        .filter(|phase| !phase.fields.is_empty())
        .map(|phase| put(phase, &fields));
    let rest = all()
        .any(|phase| phase.fields.is_empty())
        .then(|| quote!(_ => {}));
    let takes = all().map(|phase| take(phase, &fields));
    let items = quote! {
            fn save(#phase: &#phase_type, #fields: &mut fom_::Fields) {
                match #phase { #(#puts)* #rest }
            }
            fn load(
                #phase: &str,
                #fields: &mut fom_::Fields,
            ) -> Result_<#phase_type, #krate::RestoreError> {
                let loaded = match #phase {
                    #(#takes,)*
                    _ => return Result_::Err(#fields.unknown_phase(#phase)),
                };
                Result_::Ok(loaded)
            }

    };
    let items = braces(machine.operation_span(), items);
    quote! {
        #[automatically_derived]
        #head #generics #krate::Persistent for #operation #bounds #items
    }
}

/// After a mistake: it can be saved, as far as anybody sees.
pub(super) fn skeleton(machine: &Machine) -> TokenStream {
    if machine.transient {
        return TokenStream::new();
    }
    let krate = &machine.krate;
    let Some(operation) = &machine.operation else {
        return TokenStream::new();
    };
    let (generics, _, bounds) = operation_generics(machine).split_for_impl();
    let phase_type = phase_type(machine);
    quote! {
        #[automatically_derived]
        impl #generics #krate::Persistent for #operation #bounds {
            fn save(_: &#phase_type, _: &mut #krate::__private::Fields) { loop {} }
            fn load(
                _: &str,
                _: &mut #krate::__private::Fields,
            ) -> ::core::result::Result<#phase_type, #krate::RestoreError> {
                loop {}
            }
        }
    }
}

fn put(phase: &Phase, fields: &Ident) -> TokenStream {
    let (cfg, name, data) = (&phase.cfg, &phase.ident, data(phase));
    let puts = phase.fields.iter().map(|field| {
        let ident = field.ident.as_ref();
        let key = ident.map(|ident| syn::ext::IdentExt::unraw(ident).to_string());
        // The type's place, for the error when it cannot be saved.
        let mut value = quote!(#ident);
        if let Some(ident) = ident {
            let mut ident = ident.clone();
            ident.set_span(ident.span().located_at(field.ty.span()));
            value = quote!(#ident);
        }
        quote!(#fields.put(#key, #value))
    });
    match phase.fields.len() {
        1 => quote!(#(#cfg)* P_::#name #data => #(#puts)*,),
        _ => quote!(#(#cfg)* P_::#name #data => { #(#puts;)* }),
    }
}

fn take(phase: &Phase, fields: &Ident) -> TokenStream {
    let (cfg, ident, name) = (&phase.cfg, &phase.ident, &phase.name);
    let takes: Vec<(&Option<Ident>, TokenStream)> = phase
        .fields
        .iter()
        .map(|field| {
            let key = field
                .ident
                .as_ref()
                .map(|ident| syn::ext::IdentExt::unraw(ident).to_string());
            let take = quote_spanned!(Span::call_site().located_at(field.ty.span())=> take);
            (&field.ident, quote!(#fields.#take(#key)))
        })
        .collect();
    match takes.as_slice() {
        [] => quote!(#(#cfg)* #name => P_::#ident),
        [(field, take)] => quote!(#(#cfg)* #name => #take.map(|#field| P_::#ident { #field })?),
        _ => {
            let takes = takes.iter().map(|(field, take)| quote!(#field: #take?));
            quote!(#(#cfg)* #name => P_::#ident { #(#takes),* })
        }
    }
}
