//! The path of the library, and names made from the user's names.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::{Ident, LitStr, Type};

use crate::diag::Diagnostics;

/// The path of the library that has the names of generated code.
#[derive(Clone)]
pub(crate) struct CratePath(TokenStream);

impl CratePath {
    /// The path in `#[fom]`, unless `crate = ".."` names another.
    pub(crate) fn of_runtime() -> Self {
        Self(quote!(::fom_runtime))
    }

    /// The path in `#[active]`, and of the locks in `#[fom]`, unless `crate = ".."` names another.
    pub(crate) fn of_patterns() -> Self {
        Self(quote!(::fom_patterns))
    }

    pub(crate) fn parse(text: &LitStr, diag: &mut Diagnostics) -> Option<Self> {
        let value = text.value();
        let path = match text.parse::<syn::Path>() {
            Ok(path) => path,
            Err(_) => {
                diag.error(
                    text,
                    "this is not the path of a crate; write `crate = \"::name\"`",
                );
                return None;
            }
        };
        let absolute = path.leading_colon.is_some()
            || path
                .segments
                .first()
                .is_some_and(|first| first.ident == "crate");
        if !absolute {
            diag.error(
                text,
                format!("`{value}` depends on what is in scope; write `crate = \"::{value}\"` or `\"crate::{value}\"`"),
            );
            return None;
        }
        Some(CratePath(respan(path.to_token_stream(), Span::call_site())))
    }
}

impl ToTokens for CratePath {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        self.0.to_tokens(tokens);
    }
}

/// The function that runs once after an operation is restored.
pub(crate) const RESUME: &str = "resume";

/// Returns the same tokens at another place.
pub(crate) fn respan(tokens: TokenStream, span: Span) -> TokenStream {
    tokens
        .into_iter()
        .map(|token| match token {
            proc_macro2::TokenTree::Group(group) => {
                let mut new =
                    proc_macro2::Group::new(group.delimiter(), respan(group.stream(), span));
                new.set_span(span);
                new.into()
            }
            mut other => {
                other.set_span(span);
                other
            }
        })
        .collect()
}

/// A keyword since edition 2024 that syn accepts as a name. `r#gen` is a name in every edition.
const KEYWORD_OF_2024: &str = "gen";

/// Returns the name in a form that is valid in each position: raw if it is a keyword of some edition. Returns `None`
/// for a keyword that cannot be a raw name, such as `self`.
pub(crate) fn name(text: &str, span: Span) -> Option<Ident> {
    if text != KEYWORD_OF_2024 && syn::parse_str::<Ident>(text).is_ok() {
        return Some(Ident::new(text, span));
    }
    let is_name = syn::parse_str::<Ident>(&format!("r#{text}")).is_ok();
    is_name.then(|| Ident::new_raw(text, span))
}

/// Turns `Ring` into `ring`, `HttpGet2` into `http_get2`, `Match` into `r#match`. Returns `None` if no function can
/// have the name.
pub(crate) fn function(phase: &Ident, suffix: &str) -> Option<Ident> {
    let text = snake(&phase.unraw().to_string()) + suffix;
    name(&text, phase.span())
}

pub(crate) fn snake(name: &str) -> String {
    let chars: Vec<char> = name.chars().collect();
    let mut out = String::new();
    for (i, c) in chars.iter().enumerate() {
        if c.is_uppercase() && i > 0 {
            let before = chars[i - 1];
            let next_is_lower = chars.get(i + 1).is_some_and(|next| next.is_lowercase());
            if before != '_' && (!before.is_uppercase() || next_is_lower) {
                out.push('_');
            }
        }
        out.extend(c.to_lowercase());
    }
    out
}

/// Returns a type's name for records: its tokens without blanks.
pub(crate) fn type_name(ty: &Type) -> String {
    ty.to_token_stream().to_string().replace(' ', "")
}

/// Returns the same for a type in quotes.
pub(crate) fn normalized_name(text: &str) -> String {
    syn::parse_str::<Type>(text).map_or_else(|_| text.to_owned(), |ty| type_name(&ty))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn function_names() {
        for (phase, function) in [
            ("Ring", "ring"),
            ("HttpGet2", "http_get2"),
            ("HTTPGet", "http_get"),
            ("A1B", "a1_b"),
            ("Foo_Bar", "foo_bar"),
        ] {
            assert_eq!(snake(phase), function);
        }
        let of = |name: &str| {
            function(&Ident::new(name, Span::call_site()), "").map(|name| name.to_string())
        };
        assert_eq!(of("Match").as_deref(), Some("r#match"));
        assert_eq!(of("Gen").as_deref(), Some("r#gen"));
        assert_eq!(of("Union").as_deref(), Some("union"));
        assert_eq!(of("Crate"), None);
    }
}
