//! The enum under `#[fom]`.

use proc_macro2::{Group, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::{Attribute, Fields, Ident, ItemEnum, Meta};

use super::phase::{PhaseArgs, of_field};
use super::split_at_commas;
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
    let twins = without_twins(item, diag);
    let ident = &item.ident;
    let (_, params, _) = item.generics.split_for_impl();
    let phases = quote!(#ident #params);
    let variants = item.variants.iter_mut();
    variants
        .map(|variant| {
            let mut phase = phase(variant, &phases, diag);
            // The keys of the other variant are unknown, so the phase may lead anywhere.
            if let Some((_, mistake)) = twins.iter().find(|(name, _)| *name == phase.ident) {
                phase.args.has_mistake = true;
                phase.args.exits_mistake.get_or_insert(mistake.clone());
            }
            phase
        })
        .collect()
}

/// Leaves out each variant that has the name of an earlier one, so rustc reports no second error for it. Returns the
/// names that two variants had, with the mistake.
fn without_twins(item: &mut ItemEnum, diag: &mut Diagnostics) -> Vec<(Ident, TokenStream)> {
    let is_cfg = |attr: &Attribute| attr.path().is_ident("cfg");
    let mut twins = Vec::new();
    for variant in std::mem::take(&mut item.variants) {
        let same = |other: &&mut syn::Variant| other.ident.unraw() == variant.ident.unraw();
        let Some(first) = item.variants.iter_mut().find(same) else {
            item.variants.push(variant);
            continue;
        };
        let name = &variant.ident;
        let mut own = Diagnostics::default();
        if first.attrs.iter().chain(&variant.attrs).any(is_cfg) {
            own.error(
                name,
                format!("phase `{name}` is declared once for each `#[cfg]`; declare it once without `#[cfg]`, and put `#[cfg]` into its function"),
            );
            // The phase exists, whichever of the two is there.
            first.attrs.retain(|attr| !is_cfg(attr));
            twins.extend(own.first().map(|mistake| (first.ident.clone(), mistake)));
        } else {
            own.error(
                name,
                format!("two phases are called `{name}`; give one of the two another name"),
            );
        }
        diag.append(own);
    }
    twins
}

/// Takes our attributes out of the list. Reports a `#[cfg_attr(.., phase(..))]`, and returns its `phase(..)` if there
/// is no other.
fn taken(attrs: &mut Vec<Attribute>, example: &str, diag: &mut Diagnostics) -> Vec<Attribute> {
    let mut ours = Vec::new();
    let mut hidden = Vec::new();
    for attr in std::mem::take(attrs) {
        if attr.path().is_ident("phase") {
            ours.push(attr);
        } else if let Some(phase) = hidden_phase(&attr) {
            if hidden.is_empty() {
                diag.error(
                    attr.path(),
                    format!("`#[fom]` reads `phase(..)` before rustc knows the condition; write `#[phase({example})]` without `cfg_attr`"),
                );
            }
            hidden.push(phase);
        } else {
            attrs.push(attr);
        }
    }
    if ours.is_empty() {
        ours.extend(hidden.into_iter().next());
    }
    ours
}

/// Returns the `#[phase(..)]` in a `#[cfg_attr(.., phase(..))]`.
fn hidden_phase(attr: &Attribute) -> Option<Attribute> {
    let Meta::List(list) = &attr.meta else {
        return None;
    };
    if !list.path.is_ident("cfg_attr") {
        return None;
    }
    let parts = split_at_commas(list.tokens.clone());
    parts.into_iter().skip(1).find_map(|part| {
        let is_phase = matches!(part.first(), Some(TokenTree::Ident(word)) if word == "phase");
        let part: TokenStream = part.into_iter().collect();
        is_phase.then(|| syn::parse_quote!(#[#part]))
    })
}

fn phase(variant: &mut syn::Variant, phases: &TokenStream, diag: &mut Diagnostics) -> PhaseItem {
    let mut own = Diagnostics::default();
    let ours = taken(&mut variant.attrs, "..", &mut own);
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
                Meta::List(list) => args = PhaseArgs::parse(list.tokens.clone(), name, diag),
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
    let ours = taken(&mut field.attrs, "default", diag);
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
