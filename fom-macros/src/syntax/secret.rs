//! `secret(field, "name")`: the fields that no tool shows.

use proc_macro2::TokenTree;
use syn::{Ident, LitStr};

use super::{Value, split_at_commas};
use crate::diag::Diagnostics;

/// A field that no tool shows.
pub(crate) struct Secret {
    /// The name in the saved form.
    pub(crate) name: String,
    /// The field, which a phase or the operation has. `None` for a name in quotes.
    pub(crate) field: Option<Ident>,
}

/// Returns the fields.
pub(super) fn secret(key: &Ident, value: &Value, diag: &mut Diagnostics) -> Vec<Secret> {
    let Value::List(tokens) = value else {
        return Vec::new();
    };
    if tokens.is_empty() {
        diag.error(
            key,
            format!("`{key}` names nothing; write `{key}(field)`, or remove it"),
        );
    }
    let mut found: Vec<Secret> = Vec::new();
    for part in split_at_commas(tokens.clone()) {
        let tokens: proc_macro2::TokenStream = part.iter().cloned().collect();
        let one = match part.as_slice() {
            [TokenTree::Ident(field)] => Some(Secret {
                name: syn::ext::IdentExt::unraw(field).to_string(),
                field: Some(field.clone()),
            }),
            [TokenTree::Literal(_)] => syn::parse2::<LitStr>(tokens.clone()).ok().map(|text| {
                let (name, field) = (text.value(), None);
                Secret { name, field }
            }),
            _ => None,
        };
        match one {
            None => diag.error(
                tokens,
                format!("`{key}` takes the names of fields; write `{key}(field)`, or `{key}(\"name\")` for a name in the saved form"),
            ),
            Some(one) if found.iter().any(|other| other.name == one.name) => diag.error(
                tokens,
                format!("`{}` appears twice in `{key}`; keep one", one.name),
            ),
            Some(one) => found.push(one),
        }
    }
    found
}
