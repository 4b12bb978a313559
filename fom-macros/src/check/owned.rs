//! Data of saved phases: what borrows cannot be read back.

use quote::ToTokens;
use syn::{GenericArgument, PathArguments, Type, TypeReference};

use crate::diag::Diagnostics;
use crate::model::Machine;

/// Types that are saved with the values inside them.
const CONTAINERS: &[&str] = &[
    "Option", "Vec", "Box", "Result", "VecDeque", "HashMap", "BTreeMap", "HashSet", "BTreeSet",
];

pub(super) fn check(machine: &Machine, diag: &mut Diagnostics) {
    if machine.transient {
        return;
    }
    for field in machine.phases.iter().flat_map(|phase| &phase.fields) {
        if let Some((borrowed, owned)) = borrowed(&field.ty) {
            diag.error(
                borrowed,
                format!("a saved phase cannot borrow its data, because another process reads them back; own it: `{owned}`"),
            );
        }
    }
}

/// Returns the first `&'static` in the type that has a known owned form, and that form. rustc reports all others.
fn borrowed(ty: &Type) -> Option<(&TypeReference, String)> {
    match ty {
        Type::Reference(reference) => Some((reference, owned(reference)?)),
        Type::Tuple(tuple) => tuple.elems.iter().find_map(borrowed),
        Type::Array(array) => borrowed(&array.elem),
        Type::Paren(inner) => borrowed(&inner.elem),
        Type::Group(inner) => borrowed(&inner.elem),
        Type::Path(path) => {
            let last = path.path.segments.last()?;
            let PathArguments::AngleBracketed(arguments) = &last.arguments else {
                return None;
            };
            let is_container = CONTAINERS.iter().any(|name| last.ident == name);
            arguments
                .args
                .iter()
                .filter(|_| is_container)
                .find_map(|argument| match argument {
                    GenericArgument::Type(ty) => borrowed(ty),
                    _ => None,
                })
        }
        _ => None,
    }
}

/// Returns the owned form of a `&'static` type.
fn owned(reference: &TypeReference) -> Option<String> {
    let is_static = |lifetime: &syn::Lifetime| lifetime.ident == "static";
    if !reference.lifetime.as_ref().is_some_and(is_static) {
        return None;
    }
    match &*reference.elem {
        Type::Slice(slice) => Some(format!("Vec<{}>", slice.elem.to_token_stream())),
        Type::Path(path) if path.path.is_ident("str") => Some("String".to_owned()),
        Type::Path(path) if path.path.segments.last()?.ident == "Path" => {
            Some("PathBuf".to_owned())
        }
        _ => None,
    }
}
