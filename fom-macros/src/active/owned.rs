//! Types in a request. A request outlives the call, so it borrows nothing.

use syn::visit::{self, Visit};
use syn::{GenericParam, Generics, Lifetime, Type, TypeFnPtr, TypeImplTrait, TypeReference};

use crate::diag::Diagnostics;

/// The place of a type.
#[derive(Clone, Copy)]
pub(super) enum Place {
    Argument,
    Answer,
}

/// Reports borrows in a type.
pub(super) fn check(ty: &Type, place: Place, diag: &mut Diagnostics) {
    Owned { place, diag }.visit_type(ty);
}

struct Owned<'a> {
    place: Place,
    diag: &'a mut Diagnostics,
}

impl<'ast> Visit<'ast> for Owned<'_> {
    fn visit_type_reference(&mut self, ty: &'ast TypeReference) {
        let is_static = |lifetime: &Lifetime| lifetime.ident == "static";
        if !ty.lifetime.as_ref().is_some_and(is_static) {
            let remedy = owned(&ty.elem);
            self.diag.error(
                ty.and_token,
                match self.place {
                    Place::Argument => {
                        format!("a request outlives its call, so it cannot borrow; {remedy}")
                    }
                    Place::Answer => {
                        format!(
                            "the answer leaves the object, so it cannot borrow from it; {remedy}"
                        )
                    }
                },
            );
            return;
        }
        visit::visit_type(self, &ty.elem);
    }

    fn visit_lifetime(&mut self, lifetime: &'ast Lifetime) {
        if lifetime.ident != "static" {
            let what = match self.place {
                Place::Argument => "a request outlives its call",
                Place::Answer => "the answer leaves the object",
            };
            self.diag.error(
                lifetime,
                format!(
                    "{what}, so it cannot borrow; write `'static`, or a type that owns its data"
                ),
            );
        }
    }

    fn visit_type_impl_trait(&mut self, ty: &'ast TypeImplTrait) {
        self.diag.error(
            ty.impl_token,
            match self.place {
                Place::Argument => {
                    "an argument of a request needs a type with a name; write a parameter: `fn method<T: Trait>(&mut self, argument: T)`"
                }
                Place::Answer => "the answer needs a type with a name; name it, or box it: `Box<dyn Trait + Send>`",
            },
        );
    }

    // The arguments of a function are lent to it, not kept.
    fn visit_type_fn_ptr(&mut self, _: &'ast TypeFnPtr) {}
    fn visit_parenthesized_generic_arguments(
        &mut self,
        _: &'ast syn::ParenthesizedGenericArguments,
    ) {
    }
}

/// Returns what to write instead of a reference to this type.
fn owned(ty: &Type) -> String {
    let text = quote::ToTokens::to_token_stream(ty).to_string();
    match text.as_str() {
        "str" => "write `String`".to_owned(),
        "Path" => "write `PathBuf`".to_owned(),
        _ => match ty {
            Type::Slice(slice) => {
                let item = quote::ToTokens::to_token_stream(&slice.elem).to_string();
                format!("write `Vec<{item}>`")
            }
            Type::TraitObject(_) | Type::ImplTrait(_) => {
                "write a type that owns its data".to_owned()
            }
            _ => format!("write `{}`", text.replace(' ', "")),
        },
    }
}

/// Reports lifetimes among parameters.
pub(super) fn check_generics(generics: &Generics, diag: &mut Diagnostics) {
    for param in &generics.params {
        if let GenericParam::Lifetime(param) = param {
            diag.error(
                &param.lifetime,
                "an active object outlives the code that makes it, so it cannot borrow; remove the lifetime",
            );
        }
    }
}
