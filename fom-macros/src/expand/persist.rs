//! `Persistent`: writes a phase's name and data into a record, and reads them.

use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;

use super::layer::Layer;
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
    let puts = puts(machine, &phase, &fields);
    let takes = all()
        .filter(|phase| !phase.is_inner())
        .map(|phase| take(phase, &fields));
    let other = match Layer::of(machine) {
        None => quote!(_ => #fields.unknown_phase(#phase)?),
        Some(layer) => layer.load(&phase, &fields),
    };
    let save = all().any(|phase| !phase.fields.is_empty()).then(|| {
        quote! {
            fn save(#phase: &#phase_type, #fields: &mut fom_::Values<'_>) {
                #puts
            }
        }
    });
    let migrations = migrations(machine);
    let migrate = Layer::of(machine).map(|layer| layer.migrate());
    let items = quote! {
            #migrations
            #migrate
            #save
            fn load(#phase: &str, #fields: &mut fom_::Fields<'_>) -> fom_::Loaded<Self> {
                let loaded = match #phase {
                    #(#takes,)*
                    #other,
                };
                ::core::result::Result::Ok(loaded)
            }
    };
    let items = braces(machine.operation_span(), items);
    quote! {
        #[automatically_derived]
        #head #generics #krate::Persistent for #operation #bounds #items
    }
}

/// Registers the operation, without a mention by the user. A generic operation is many types, which only its user
/// knows.
pub(super) fn register(machine: &Machine) -> TokenStream {
    let krate = &machine.krate;
    match &machine.operation {
        _ if !operation_generics(machine).params.is_empty() => TokenStream::new(),
        Some(operation) if machine.transient => {
            quote!(fom_::submit!(fom_::Machine(<#operation as #krate::Operation>::GRAPH));)
        }
        Some(operation) => {
            let taking = machine
                .event
                .as_ref()
                .map(|event| quote!(.taking(fom_::event_reader!(#event))));
            quote!(fom_::submit!(fom_::Registered::of::<#operation>() #taking);)
        }
        None => TokenStream::new(),
    }
}

/// After a mistake: the operation appears to be savable.
pub(super) fn skeleton(machine: &Machine) -> TokenStream {
    if machine.transient {
        return TokenStream::new();
    }
    let krate = &machine.krate;
    let Some(operation) = &machine.operation else {
        return TokenStream::new();
    };
    let (generics, _, bounds) = operation_generics(machine).split_for_impl();
    quote! {
        #[automatically_derived]
        impl #generics #krate::Persistent for #operation #bounds {
            fn load(
                _: &str,
                _: &mut #krate::__private::Fields<'_>,
            ) -> #krate::__private::Loaded<Self> {
                loop {}
            }
        }
    }
}

/// Returns the migrations: from which version, and with which function.
fn migrations(machine: &Machine) -> Option<TokenStream> {
    let each = machine.migrations.iter().map(|migration| {
        let (path, from) = (&migration.path, Literal::u32_unsuffixed(migration.from));
        quote!((#from, #path))
    });
    (!machine.migrations.is_empty())
        .then(|| quote!(const MIGRATIONS: &'static [fom_::Migration] = &[#(#each),*];))
}

/// Returns the code that writes the data of the phase, if it has any.
fn puts(machine: &Machine, phase: &Ident, fields: &Ident) -> TokenStream {
    let (full, empty): (Vec<&Phase>, Vec<&Phase>) = machine
        .phases
        .iter()
        .partition(|phase| !phase.fields.is_empty());
    match full.as_slice() {
        [one] if !empty.is_empty() && one.cfg.is_empty() && !one.is_inner() => {
            let (name, data) = (&one.ident, data(one));
            let puts = put(one, fields);
            quote!(if let P_::#name #data = #phase { #(#puts;)* })
        }
        all => {
            let arms = all.iter().map(|phase| {
                let (cfg, name, data) = (&phase.cfg, &phase.ident, data(phase));
                let puts = match Layer::of(machine) {
                    Some(layer) if phase.is_inner() => vec![layer.save(fields)],
                    _ => put(phase, fields),
                };
                match puts.as_slice() {
                    [put] => quote!(#(#cfg)* P_::#name #data => #put,),
                    puts => quote!(#(#cfg)* P_::#name #data => { #(#puts;)* }),
                }
            });
            let rest = (!empty.is_empty()).then(|| quote!(_ => {}));
            quote!(match #phase { #(#arms)* #rest })
        }
    }
}

/// Returns the place of the field's type. rustc reports a type that cannot be saved there. Both uses of the type have
/// the same place and the same bound, so rustc reports it once.
fn place(field: &syn::Field) -> Span {
    Span::call_site().located_at(field.ty.span())
}

fn put(phase: &Phase, fields: &Ident) -> Vec<TokenStream> {
    let puts = phase.fields.iter().map(|field| {
        let ident = field.ident.as_ref();
        let key = ident.map(|ident| syn::ext::IdentExt::unraw(ident).to_string());
        let at = place(field);
        quote_spanned!(at=> at_(&mut #fields.put(#ident), #key))
    });
    puts.collect()
}

fn take(phase: &Phase, fields: &Ident) -> TokenStream {
    let (cfg, ident, name) = (&phase.cfg, &phase.ident, &phase.name);
    let takes: Vec<(&Option<Ident>, TokenStream)> = phase
        .fields
        .iter()
        .zip(&phase.defaults)
        .map(|(field, default)| {
            let key = field
                .ident
                .as_ref()
                .map(|ident| syn::ext::IdentExt::unraw(ident).to_string());
            let at = place(field);
            let take = match default {
                None => quote_spanned!(at=> at_(#fields, #key)),
                Some(_) => quote_spanned!(at=> #fields.take_or_default(#key)),
            };
            (&field.ident, take)
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
