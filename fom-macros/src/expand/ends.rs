//! `RouteEnd`: the ends with their data, as the handle returns them.

use proc_macro2::{TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::{Attribute, Meta};

use super::layer::Layer;
use super::transitions::written;
use super::{allowed_in_types, braces, data, exits, phase_type, visibility};
use crate::model::{Machine, Phase};
use crate::syntax::split_at_commas;

/// The derives that the ends have if the enum has them. Each of them needs no helper attribute but `serde`.
const CARRIED: [&str; 10] = [
    "Clone",
    "Copy",
    "Debug",
    "Deserialize",
    "Eq",
    "Hash",
    "Ord",
    "PartialEq",
    "PartialOrd",
    "Serialize",
];

pub(super) fn expand(machine: &Machine) -> TokenStream {
    let span = machine.item.ident.span();
    let vis = visibility(machine, span);
    let head = quote_spanned!(span=> #vis enum);
    let name = &machine.names.end;
    let doc = format!(" The ends of [`{}`], with their data.", machine.item.ident);
    let allowed = allowed_in_types();
    let carried = Carried::of(machine);
    let attrs = carried.attrs(&machine.item.attrs);
    let generics = generics(machine);
    let bounds = &generics.where_clause;
    let variants = ends(machine).map(|phase| variant(machine, phase, &carried));
    let variants = braces(span, quote!(#(#variants),*));
    quote! {
        #[doc = #doc]
        #attrs
        #allowed
        #head #name #generics #bounds #variants
    }
}

/// `RouteEnd<T>`, with the parameters that its data need.
pub(super) fn end_type(machine: &Machine) -> TokenStream {
    let name = &machine.names.end;
    let generics = generics(machine);
    let (_, params, _) = generics.split_for_impl();
    quote!(#name #params)
}

/// Returns the function that makes an end of a phase.
pub(super) fn function(machine: &Machine) -> TokenStream {
    let phase_type = phase_type(machine);
    let arms = ends(machine).map(|phase| {
        let (cfg, name, data) = (&phase.cfg, &phase.ident, data(phase));
        let layer = Layer::of(machine).filter(|_| phase.is_inner());
        let end = layer.map_or_else(|| data.clone(), |layer| layer.end());
        quote!(#(#cfg)* P_::#name #data => ::core::option::Option::Some(E_::#name #end),)
    });
    let all = ends(machine).count() == machine.phases.len();
    let other = (!all).then(|| quote!(_ => ::core::option::Option::None,));
    quote! {
        fn end(phase: #phase_type) -> ::core::option::Option<Self::End> {
            match phase { #(#arms)* #other }
        }
    }
}

/// Returns the phases in which the operation can end.
fn ends(machine: &Machine) -> impl Iterator<Item = &Phase> {
    let phases = machine.phases.iter();
    phases.filter(|phase| phase.is_end() || phase.is_handed_over())
}

fn variant(machine: &Machine, phase: &Phase, carried: &Carried) -> TokenStream {
    let (cfg, ident) = (&phase.cfg, &phase.ident);
    let docs = written(&phase.docs);
    let mut variants = machine.item.variants.iter();
    let attrs = variants.find(|variant| variant.ident == *ident);
    let attrs = attrs.map(|variant| carried.attrs(&variant.attrs));
    let fields = phase.fields.iter().map(|field| {
        let (docs, attrs) = (of_field(&field.attrs), carried.attrs(&field.attrs));
        let (name, ty) = (&field.ident, field_type(machine, phase, field));
        let name = name.as_ref().filter(|_| !phase.tuple);
        let name = name.map(|name| quote!(#name:));
        quote!(#(#docs)* #attrs #name #ty)
    });
    let data = match (phase.fields.is_empty(), phase.tuple) {
        (true, _) => None,
        (false, true) => Some(quote!((#(#fields),*))),
        (false, false) => Some(quote!({ #(#fields),* })),
    };
    quote!(#(#cfg)* #(#docs)* #attrs #ident #data)
}

/// Returns the type of a field. The inner operation of a layer ends in one of its own ends.
fn field_type(machine: &Machine, phase: &Phase, field: &syn::Field) -> TokenStream {
    let layer = Layer::of(machine).filter(|_| phase.is_inner());
    layer.map_or_else(
        || field.ty.to_token_stream(),
        |layer| layer.end_type(&field.ty),
    )
}

pub(super) fn generics(machine: &Machine) -> syn::Generics {
    let fields =
        ends(machine).flat_map(|phase| phase.fields.iter().map(move |field| (phase, field)));
    let data = fields.map(|(phase, field)| field_type(machine, phase, field));
    exits::generics_of(&machine.item.generics, &data.collect())
}

fn of_field(attrs: &[Attribute]) -> impl Iterator<Item = &Attribute> {
    let is_kept = |attr: &&Attribute| attr.path().is_ident("doc") || attr.path().is_ident("cfg");
    attrs.iter().filter(is_kept)
}

/// What the ends take over from the attributes of the enum.
struct Carried {
    /// Whether the enum derives something of serde, so that `#[serde(..)]` has a meaning.
    serde: bool,
}

impl Carried {
    fn of(machine: &Machine) -> Self {
        let derives = Self { serde: false }.attrs(&machine.item.attrs);
        let derives = derives.to_string();
        Self {
            serde: derives.contains("Serialize") || derives.contains("Deserialize"),
        }
    }

    /// Returns the derives that the ends have too, and the attributes of serde.
    fn attrs(&self, attrs: &[Attribute]) -> TokenStream {
        let metas = attrs.iter();
        let metas = metas.filter_map(|attr| self.meta(attr.meta.to_token_stream()));
        metas.map(|meta| quote!(#[#meta])).collect()
    }

    fn meta(&self, meta: TokenStream) -> Option<TokenStream> {
        let meta: Meta = syn::parse2(meta).ok()?;
        let path = meta.path();
        if path.is_ident("serde") {
            return self.serde.then(|| meta.to_token_stream());
        }
        let Meta::List(list) = &meta else {
            return None;
        };
        let mut parts = split_at_commas(list.tokens.clone()).into_iter();
        let mut kept: Vec<TokenStream> = Vec::new();
        if path.is_ident("derive") {
            kept.extend(parts.filter(|part| is_carried(part)).map(joined));
            (!kept.is_empty()).then(|| quote!(derive(#(#kept),*)))
        } else if path.is_ident("cfg_attr") {
            let condition = joined(parts.next()?);
            kept.extend(parts.filter_map(|part| self.meta(joined(part))));
            (!kept.is_empty()).then(|| quote!(cfg_attr(#condition, #(#kept),*)))
        } else {
            None
        }
    }
}

/// Returns whether the last name of the path is a derive that is carried.
fn is_carried(path: &[TokenTree]) -> bool {
    let last = path.last();
    last.is_some_and(|last| CARRIED.contains(&last.to_string().as_str()))
}

fn joined(part: Vec<TokenTree>) -> TokenStream {
    part.into_iter().collect()
}
