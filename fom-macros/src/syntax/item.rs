//! The enum under `#[fom]`.

use proc_macro2::{Group, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::{Attribute, Fields, Ident, ItemEnum, Meta};

use super::phase::{PhaseArgs, of_field};
use crate::diag::Diagnostics;
use crate::paths::respan;

/// A variant with the arguments of its `#[phase(..)]`.
pub(crate) struct PhaseItem {
    pub(crate) ident: Ident,
    pub(crate) cfg: Vec<Attribute>,
    pub(crate) docs: Vec<Attribute>,
    pub(crate) fields: Vec<syn::Field>,
    /// `default`, at each field that has it.
    pub(crate) defaults: Vec<Option<Ident>>,
    /// Whether the data have no names, which was already reported.
    pub(crate) tuple: bool,
    pub(crate) args: PhaseArgs,
}

/// Reads the item. Returns `None` if it is not an enum.
pub(crate) fn parse(item: TokenStream, diag: &mut Diagnostics) -> Option<ItemEnum> {
    match syn::parse2::<syn::Item>(item) {
        Ok(syn::Item::Enum(item)) => Some(item),
        Ok(other) => {
            let keyword = keyword(&other);
            diag.error_at(
                keyword,
                "`#[fom]` belongs on an enum; write the phases as an enum, with one variant for each phase",
            );
            None
        }
        Err(error) => {
            diag.syntax(error);
            None
        }
    }
}

/// Returns the item's keyword: the first token after attributes and visibility.
fn keyword(item: &syn::Item) -> Span {
    match item {
        syn::Item::Struct(item) => item.struct_token.span,
        syn::Item::Union(item) => item.union_token.span,
        syn::Item::Fn(item) => item.sig.fn_token.span,
        syn::Item::Impl(item) => item.impl_token.span,
        syn::Item::Mod(item) => item.mod_token.span,
        syn::Item::Trait(item) => item.trait_token.span,
        other => other
            .to_token_stream()
            .into_iter()
            .next()
            .map_or_else(Span::call_site, |token| token.span()),
    }
}

/// Reads the variants and removes our attributes from them.
pub(crate) fn phases(item: &mut ItemEnum, diag: &mut Diagnostics) -> Vec<PhaseItem> {
    let twice = std::mem::take(&mut item.variants);
    for variant in twice {
        match item.variants.iter().find(|other| is_other(other, &variant)) {
            None => item.variants.push(variant),
            // The duplicate variant is left out, so rustc reports no second error for it.
            Some(_) => diag.error(
                &variant.ident,
                format!(
                    "two phases are called `{}`; give one of the two another name",
                    variant.ident
                ),
            ),
        }
    }
    let ident = &item.ident;
    let (_, params, _) = item.generics.split_for_impl();
    let phases = quote!(#ident #params);
    let variants = item.variants.iter_mut();
    variants
        .map(|variant| phase(variant, &phases, diag))
        .collect()
}

/// Returns whether the two variants have the same name and can exist at the same time.
fn is_other(first: &syn::Variant, second: &syn::Variant) -> bool {
    let cfg = |variant: &syn::Variant| variant.attrs.iter().any(|attr| attr.path().is_ident("cfg"));
    first.ident.unraw() == second.ident.unraw() && !cfg(first) && !cfg(second)
}

fn phase(variant: &mut syn::Variant, phases: &TokenStream, diag: &mut Diagnostics) -> PhaseItem {
    let mut own = Diagnostics::default();
    let (ours, others): (Vec<_>, Vec<_>) = variant
        .attrs
        .drain(..)
        .partition(|attr| attr.path().is_ident("phase"));
    variant.attrs = others;
    let mut args = keys(&ours, &variant.ident, &mut own);
    let defaults = variant
        .fields
        .iter_mut()
        .map(|field| default(field, &mut own))
        .collect();
    let fields = data(variant, phases, &mut own);
    if let Some((_, value)) = &variant.discriminant {
        own.error(value, "a phase takes no number; remove `= ..`");
    }
    variant.discriminant = None;
    args.has_mistake |= !own.is_empty();
    if args.to.is_none() && args.end.is_none() && args.inner.is_none() {
        args.exits_mistake = args.exits_mistake.or(own.first());
    }
    diag.append(own);
    let take = |name: &str| {
        variant
            .attrs
            .iter()
            .filter(|attr| attr.path().is_ident(name))
            .cloned()
            .collect::<Vec<_>>()
    };
    PhaseItem {
        ident: variant.ident.clone(),
        cfg: take("cfg"),
        docs: take("doc"),
        fields,
        defaults,
        tuple: matches!(variant.fields, Fields::Unnamed(_)),
        args,
    }
}

/// Reads the `#[phase(..)]` attributes of a variant.
fn keys(attrs: &[Attribute], name: &Ident, diag: &mut Diagnostics) -> PhaseArgs {
    let mut args = PhaseArgs::default();
    match attrs {
        [] => diag.error(
            name,
            format!(
                "phase `{name}` has no keys; write `#[phase(to(..))]` or `#[phase(end)]` above it"
            ),
        ),
        [attr, more @ ..] => {
            match &attr.meta {
                Meta::List(list) => args = PhaseArgs::parse(list.tokens.clone(), diag),
                _ => diag.error(
                    attr.path(),
                    "`phase` has no key; write `#[phase(to(..))]` or `#[phase(end)]`",
                ),
            }
            for attr in more {
                diag.error(
                    attr.path(),
                    format!("a second `#[phase]` on `{name}`; put all keys into one"),
                );
            }
        }
    }
    args
}

/// Reads the data of a phase. Data without names get names, so that no further mistakes follow.
fn data(variant: &syn::Variant, phases: &TokenStream, diag: &mut Diagnostics) -> Vec<syn::Field> {
    let name = &variant.ident;
    let mut fields: Vec<syn::Field> = match &variant.fields {
        Fields::Unit => Vec::new(),
        Fields::Named(fields) => fields.named.iter().cloned().collect(),
        Fields::Unnamed(fields) => {
            diag.error(
                fields,
                format!("the data of a phase need names, which its records contain; write `{name} {{ name: Type }}`"),
            );
            let named = |(number, field): (usize, &syn::Field)| syn::Field {
                ident: Some(quote::format_ident!("_{number}")),
                ..field.clone()
            };
            fields.unnamed.iter().enumerate().map(named).collect()
        }
    };
    for field in &mut fields {
        field.ty = without_self(&field.ty, phases);
        for attr in field
            .attrs
            .iter()
            .filter(|attr| attr.path().is_ident("cfg"))
        {
            diag.error(
                attr.path(),
                "`#[cfg]` is not allowed on the data of a phase; put it on the phase",
            );
        }
    }
    fields
}

/// Removes our attributes from a field. Returns its `default`.
fn default(field: &mut syn::Field, diag: &mut Diagnostics) -> Option<Ident> {
    let (ours, others): (Vec<_>, Vec<_>) = field
        .attrs
        .drain(..)
        .partition(|attr| attr.path().is_ident("phase"));
    field.attrs = others;
    let mut found = None;
    for attr in &ours {
        match &attr.meta {
            Meta::List(list) if !list.tokens.is_empty() => {
                let default = of_field(list.tokens.clone(), diag);
                match (&found, default) {
                    (Some(_), Some(again)) => {
                        diag.error(again, "`default` is written twice; keep one");
                    }
                    (_, default) => found = default.or(found),
                }
            }
            _ => diag.error(
                attr.path(),
                "`phase` has no key here; write `#[phase(default)]`, or remove it",
            ),
        }
    }
    found
}

/// Returns the type with `Self` written out, because `Self` beside the enum is another type.
fn without_self(ty: &syn::Type, phases: &TokenStream) -> syn::Type {
    syn::parse2(replaced(ty.to_token_stream(), phases)).unwrap_or_else(|_| ty.clone())
}

fn replaced(tokens: TokenStream, phases: &TokenStream) -> TokenStream {
    tokens
        .into_iter()
        .flat_map(|token| match token {
            TokenTree::Ident(ident) if ident == "Self" => respan(phases.clone(), ident.span()),
            TokenTree::Group(group) => {
                let mut new = Group::new(group.delimiter(), replaced(group.stream(), phases));
                new.set_span(group.span());
                TokenTree::from(new).into()
            }
            other => other.into(),
        })
        .collect()
}
