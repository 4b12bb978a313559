//! `#[active]`: a proxy with the methods of an `impl` block.

mod expand;
mod guard;
mod method;
mod owned;

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::{Ident, ImplItem, ItemImpl, Path, PathArguments, Type};

use crate::diag::Diagnostics;
use crate::paths::CratePath;
use crate::syntax::{Form, Keys, entries, text};
use method::Method;
use owned::check_generics;

/// An `impl` block of active objects.
struct Object {
    krate: CratePath,
    /// Whether calls can be sent to other processes.
    remote: bool,
    /// The `impl` as written, without our own attributes.
    item: ItemImpl,
    /// `Account`.
    name: Ident,
    proxy: Ident,
    methods: Vec<Method>,
}

pub(crate) fn run(args: TokenStream, item: TokenStream) -> TokenStream {
    let copy = item.clone();
    std::panic::catch_unwind(|| attribute(args, item)).unwrap_or_else(|_| {
        let error = syn::Error::new(
            Span::call_site(),
            "`#[active]` panicked, which is a bug in `#[active]`; please report it with this `impl`",
        );
        let error = error.to_compile_error();
        quote!(#copy #error)
    })
}

/// Parses, checks and expands. After a mistake, returns the `impl`, a proxy that has a name but does nothing, and every
/// mistake.
pub(crate) fn attribute(args: TokenStream, item: TokenStream) -> TokenStream {
    let mut diag = Diagnostics::default();
    let (krate, remote) = keys(args, &mut diag);
    let Some(object) = parse(krate, remote, item.clone(), &mut diag) else {
        let errors = diag.into_tokens();
        return quote!(#item #errors);
    };
    if diag.is_empty() {
        return expand::expand(&object);
    }
    let skeleton = expand::skeleton(&object);
    let errors = diag.into_tokens();
    quote!(#errors #skeleton)
}

/// Reads the arguments of `#[active(..)]` above the `impl`.
fn keys(args: TokenStream, diag: &mut Diagnostics) -> (CratePath, bool) {
    let keys = Keys {
        what: "`#[active(..)]` on an `impl` block",
        known: &[
            ("crate", Form::Text("crate = \"::path\"")),
            ("remote", Form::Flag),
        ],
        words: &[],
    };
    let (mut krate, mut remote) = (CratePath::of_patterns(), false);
    for entry in entries(args, &keys, diag) {
        if entry.key == "remote" {
            remote = true;
            continue;
        }
        let path = text(&entry.key, &entry.value, diag);
        if let Some(path) = path.and_then(|path| CratePath::parse(&path, diag)) {
            krate = path;
        }
    }
    (krate, remote)
}

fn parse(
    krate: CratePath,
    remote: bool,
    item: TokenStream,
    diag: &mut Diagnostics,
) -> Option<Object> {
    let mut item = match syn::parse2::<ItemImpl>(item.clone()) {
        Ok(item) => item,
        Err(error) => {
            match syn::parse2::<syn::Item>(item) {
                Ok(other) => diag.error(
                    first_token(&other),
                    "`#[active]` belongs on an `impl` block; put it on the block with the methods to call",
                ),
                Err(_) => diag.syntax(error),
            }
            return None;
        }
    };
    if let Some((path, _)) = &item.trait_ {
        diag.error(
            path,
            "the proxy has the methods of the type itself; put `#[active]` on an `impl` block without a trait",
        );
        return None;
    }
    let Some(name) = name_of(&item.self_ty) else {
        diag.error(
            &item.self_ty,
            "the type of an active object needs a name; write `impl Name { .. }`",
        );
        return None;
    };
    check_generics(&item.generics, diag);
    let mut methods = Vec::new();
    for member in &mut item.items {
        if let ImplItem::Fn(function) = member {
            methods.extend(method::parse(function, &mut *diag));
        }
    }
    if methods.is_empty() && diag.is_empty() {
        diag.error(
            &item.self_ty,
            format!("the proxy of `{name}` has no method; make a method with `&mut self` or `&self` `pub`"),
        );
    }
    if remote {
        for method in &methods {
            method.check_remote(diag);
        }
    }
    let proxy = format_ident!("{name}Proxy", span = name.span());
    Some(Object {
        krate,
        remote,
        item,
        name,
        proxy,
        methods,
    })
}

/// Returns the last name of a path, without its parameters.
fn name_of(ty: &Type) -> Option<Ident> {
    let Type::Path(path) = ty else { return None };
    let Path { segments, .. } = &path.path;
    let last = segments.last()?;
    let plain = !matches!(last.arguments, PathArguments::Parenthesized(_));
    (plain && path.qself.is_none()).then(|| last.ident.clone())
}

/// Returns the keyword of an item.
fn first_token(item: &syn::Item) -> TokenStream {
    match item {
        syn::Item::Fn(item) => item.sig.fn_token.to_token_stream(),
        syn::Item::Struct(item) => item.struct_token.to_token_stream(),
        syn::Item::Enum(item) => item.enum_token.to_token_stream(),
        syn::Item::Trait(item) => item.trait_token.to_token_stream(),
        syn::Item::Mod(item) => item.mod_token.to_token_stream(),
        other => other
            .to_token_stream()
            .into_iter()
            .next()
            .map(TokenStream::from)
            .unwrap_or_default(),
    }
}
