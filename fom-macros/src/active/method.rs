//! One method of the proxy, as written and checked.

use proc_macro2::TokenStream;
use quote::format_ident;
use syn::spanned::Spanned;
use syn::{
    Attribute, Expr, FnArg, GenericParam, Ident, ImplItemFn, Meta, Pat, ReceiverKind, ReturnType,
    Safety, Signature, Type, Visibility,
};

use super::owned::{self, Place};
use crate::diag::{Diagnostics, did_you_mean};
use crate::syntax::{Form, Keys, entries, text};

/// A public method.
pub(super) struct Method {
    /// Docs, `cfg` and `deprecated`, which the proxy's method gets too.
    pub(super) attrs: Vec<Attribute>,
    pub(super) vis: Visibility,
    pub(super) sig: Signature,
    pub(super) arguments: Vec<Argument>,
    pub(super) when: Option<Expr>,
    /// The variant of `Priority`.
    pub(super) priority: Ident,
}

pub(super) struct Argument {
    pub(super) name: Ident,
    pub(super) ty: Type,
}

const PRIORITIES: [(&str, &str); 3] = [("high", "High"), ("normal", "Normal"), ("low", "Low")];

/// Removes our attributes from the function. Returns `None` if the proxy does not have it.
pub(super) fn parse(function: &mut ImplItemFn, diag: &mut Diagnostics) -> Option<Method> {
    let (own, others): (Vec<_>, Vec<_>) = std::mem::take(&mut function.attrs)
        .into_iter()
        .partition(|attr| attr.path().is_ident("when") || attr.path().is_ident("active"));
    function.attrs = others;
    let is_called = function.sig.receiver().is_some() && !is_private(&function.vis);
    if !is_called {
        for attr in &own {
            let why = if is_private(&function.vis) {
                "is not `pub`"
            } else {
                "has no `self`"
            };
            diag.error(
                attr.path(),
                format!(
                    "`{}` {why}, so the proxy does not have it; remove this attribute",
                    function.sig.ident
                ),
            );
        }
        return None;
    }
    let (mut when, mut priority) = (None, None);
    for attr in &own {
        if attr.path().is_ident("when") {
            guard(attr, &mut when, diag);
        } else {
            keys(attr, &mut priority, diag);
        }
    }
    check_words(&function.sig, diag);
    check_receiver(&function.sig, diag);
    for param in &function.sig.generics.params {
        if let GenericParam::Lifetime(param) = param {
            diag.error(
                &param.lifetime,
                "a request outlives its call, so it cannot borrow; remove the lifetime",
            );
        }
    }
    if let ReturnType::Type(_, ty) = &function.sig.output {
        owned::check(ty, Place::Answer, diag);
    }
    let carried = |attr: &&Attribute| {
        ["doc", "cfg", "deprecated"]
            .iter()
            .any(|name| attr.path().is_ident(name))
    };
    Some(Method {
        attrs: function.attrs.iter().filter(carried).cloned().collect(),
        vis: function.vis.clone(),
        arguments: arguments(&function.sig, diag),
        sig: function.sig.clone(),
        when,
        priority: priority.unwrap_or_else(|| format_ident!("Normal")),
    })
}

fn is_private(vis: &Visibility) -> bool {
    matches!(vis, Visibility::Inherited)
}

fn guard(attr: &Attribute, when: &mut Option<Expr>, diag: &mut Diagnostics) {
    if when.is_some() {
        diag.error(
            attr.path(),
            "`when` is written twice; write one, with `&&` between the two",
        );
        return;
    }
    let tokens = match &attr.meta {
        Meta::List(list) if !list.tokens.is_empty() => list.tokens.clone(),
        _ => {
            diag.error(
                attr.path(),
                "`when` has no condition; write `#[when(condition)]`, with `self` and the arguments",
            );
            return;
        }
    };
    match syn::parse2(tokens.clone()) {
        Ok(condition) => *when = Some(condition),
        Err(_) => diag.error(
            tokens,
            "`when` takes one condition; write `#[when(self.left >= wanted)]`",
        ),
    }
}

fn keys(attr: &Attribute, priority: &mut Option<Ident>, diag: &mut Diagnostics) {
    let tokens = match &attr.meta {
        Meta::List(list) if !list.tokens.is_empty() => list.tokens.clone(),
        _ => {
            diag.error(
                attr.path(),
                "`active` has no key here; write `#[active(priority = \"high\")]`, or remove it",
            );
            return;
        }
    };
    let keys = Keys {
        what: "a method",
        known: &[("priority", Form::Text("priority = \"high\""))],
        words: &[],
    };
    for entry in entries(tokens, &keys, diag) {
        let Some(word) = text(&entry.key, &entry.value, diag) else {
            continue;
        };
        let value = word.value();
        match PRIORITIES.iter().find(|(name, _)| *name == value) {
            Some(_) if priority.is_some() => {
                diag.error(&entry.key, "`priority` is written twice; keep one")
            }
            Some((_, variant)) => *priority = Some(Ident::new(variant, word.span())),
            None => {
                let names: Vec<&str> = PRIORITIES.iter().map(|(name, _)| *name).collect();
                let remedy = did_you_mean(&value, &names);
                diag.error(&word, format!("`{value}` is not a priority; {remedy}"));
            }
        }
    }
}

/// Reports words before `fn` that cannot be in a request.
fn check_words(sig: &Signature, diag: &mut Diagnostics) {
    if let Some(word) = &sig.constness {
        diag.error(
            word,
            "a call of an active object never runs at compile time; remove `const`, or make the function private",
        );
    }
    if let Safety::Unsafe(word) = &sig.safety {
        diag.error(
            word,
            "a request runs later, when the caller's promise may no longer hold; make the function safe, or private",
        );
    }
    if let Some(abi) = &sig.abi {
        diag.error(
            abi,
            "a call of an active object is a Rust call; remove `extern`, or make the function private",
        );
    }
    if let Some(variadic) = &sig.variadic {
        diag.error(
            variadic,
            "a request has a fixed number of arguments; remove `...`, or make the function private",
        );
    }
}

fn check_receiver(sig: &Signature, diag: &mut Diagnostics) {
    let Some(receiver) = sig.receiver() else {
        return;
    };
    match &receiver.kind {
        ReceiverKind::Reference(_, None, _) => {}
        ReceiverKind::Reference(_, Some(lifetime), _) => diag.error(
            lifetime,
            "a method borrows the object for one call only; write `&self` or `&mut self`",
        ),
        ReceiverKind::Typed(_, ty) => diag.error(
            ty,
            "an active object stays where it is; write `&self` or `&mut self`, or make the function private",
        ),
        _ => diag.error(
            receiver.self_token,
            "an active object stays where it is; write `&mut self`, or make the function private",
        ),
    }
}

fn arguments(sig: &Signature, diag: &mut Diagnostics) -> Vec<Argument> {
    let typed = sig.inputs.iter().filter_map(|input| match input {
        FnArg::Typed(typed) => Some(typed),
        FnArg::Receiver(_) => None,
    });
    let mut found = Vec::new();
    for (place, argument) in typed.enumerate() {
        owned::check(&argument.ty, Place::Argument, diag);
        let name = match &*argument.pat {
            Pat::Ident(pat) if pat.subpat.is_none() => pat.ident.clone(),
            // The request names an argument that the method destructures.
            other => Ident::new(&format!("argument_{}", place + 1), other.span()),
        };
        found.push(Argument {
            name,
            ty: (*argument.ty).clone(),
        });
    }
    found
}

impl Method {
    /// Reports what keeps calls from being sent to another process.
    pub(super) fn check_remote(&self, diag: &mut Diagnostics) {
        for param in &self.sig.generics.params {
            if let GenericParam::Type(_) | GenericParam::Const(_) = param {
                diag.error(
                    param,
                    "another process must know the types of a call; write a type in place of the parameter, or make the function private",
                );
            }
        }
    }

    /// Returns whether the method returns an `impl` type. This is a mistake, and such a type cannot be repeated.
    pub(super) fn has_nameless_answer(&self) -> bool {
        let answer = self.answer().to_string();
        answer.split_whitespace().any(|word| word == "impl")
    }

    /// Returns the type that the method returns.
    pub(super) fn answer(&self) -> TokenStream {
        match &self.sig.output {
            ReturnType::Default => quote::quote!(()),
            ReturnType::Type(_, ty) => quote::quote!(#ty),
        }
    }
}
