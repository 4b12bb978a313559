//! `Persistent`: a phase's name and data into a record, and out of it.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;

use super::{data, operation_generics, phase_type};
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
    let phase_type = phase_type(machine);
    let local = |name| Ident::new(name, Span::mixed_site());
    let (phase, fields) = (local("phase"), local("fields"));
    let all = || machine.phases.iter();
    let puts = all()
        .filter(|phase| !phase.fields.is_empty())
        .map(|phase| put(machine, phase, &fields));
    let rest = all()
        .any(|phase| phase.fields.is_empty())
        .then(|| quote!(_ => {}));
    let takes = all().map(|phase| take(machine, phase, &fields));
    quote! {
        #[automatically_derived]
        impl #generics #krate::Persistent for #operation #bounds {
            fn save(#phase: &#phase_type, #fields: &mut #krate::__private::Fields) {
                match #phase { #(#puts)* #rest }
            }
            fn load(
                #phase: &str,
                #fields: &mut #krate::__private::Fields,
            ) -> ::core::result::Result<#phase_type, #krate::RestoreError> {
                ::core::result::Result::Ok(match #phase {
                    #(#takes,)*
                    _ => return ::core::result::Result::Err(#fields.unknown_phase(#phase)),
                })
            }
        }
    }
}

fn put(machine: &Machine, phase: &Phase, fields: &Ident) -> TokenStream {
    let (cfg, enum_name, name, data) = (&phase.cfg, &machine.item.ident, &phase.ident, data(phase));
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
        1 => quote!(#(#cfg)* #enum_name::#name #data => #(#puts)*,),
        _ => quote!(#(#cfg)* #enum_name::#name #data => { #(#puts;)* }),
    }
}

fn take(machine: &Machine, phase: &Phase, fields: &Ident) -> TokenStream {
    let (cfg, enum_name, ident, name) =
        (&phase.cfg, &machine.item.ident, &phase.ident, &phase.name);
    let takes = phase.fields.iter().map(|field| {
        let ident = field.ident.as_ref();
        let key = ident.map(|ident| syn::ext::IdentExt::unraw(ident).to_string());
        let take = quote_spanned!(Span::call_site().located_at(field.ty.span())=> take);
        quote!(#ident: #fields.#take(#key)?)
    });
    let data = (!phase.fields.is_empty()).then(|| quote!({ #(#takes),* }));
    quote!(#(#cfg)* #name => #enum_name::#ident #data)
}

/// After a mistake: it can be saved, as far as anybody sees.
pub(super) fn skeleton(machine: &Machine) -> TokenStream {
    let _ = machine;
    TokenStream::new()
}
