//! `version = 3, migrate(v1(path), v2(path)), retired("Name")`, and `was = "Name"` of a phase.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::{Ident, LitInt, LitStr, Path};

use super::{Value, split_at_commas};
use crate::diag::Diagnostics;

/// `v1(path)`: how what version 1 saved becomes what version 2 would have.
pub(crate) struct Migration {
    /// `v1`, as it was written.
    pub(crate) token: Ident,
    pub(crate) from: u32,
    pub(crate) path: Path,
}

/// The number of `version = 3`.
pub(crate) fn version(key: &Ident, value: &Value, diag: &mut Diagnostics) -> Option<LitInt> {
    let Value::Equals(tokens) = value else {
        return None;
    };
    let number = syn::parse2::<LitInt>(tokens.clone()).ok();
    let number = number.filter(|number| number.suffix().is_empty());
    let Some(number) = number else {
        diag.error(
            tokens,
            format!("`{key}` takes a whole number; write `{key} = 2`"),
        );
        return None;
    };
    match number.base10_parse::<u32>() {
        Ok(0) => diag.error(
            &number,
            format!("versions are counted from 1; write `{key} = 1`, or leave it out"),
        ),
        Ok(_) => return Some(number),
        Err(_) => diag.error(
            &number,
            format!("`{number}` is too much for a version; count on from the last one"),
        ),
    }
    None
}

/// The parts of `migrate(v1(path), v2(path))`.
pub(crate) fn migrations(key: &Ident, value: &Value, diag: &mut Diagnostics) -> Vec<Migration> {
    let Value::List(tokens) = value else {
        return Vec::new();
    };
    if tokens.is_empty() {
        diag.error(
            key,
            format!("`{key}` names nothing; write `{key}(v1(path))` or leave it out"),
        );
    }
    split_at_commas(tokens.clone())
        .into_iter()
        .filter_map(|part| migration(key, part, diag))
        .collect()
}

fn migration(key: &Ident, part: Vec<TokenTree>, diag: &mut Diagnostics) -> Option<Migration> {
    let [TokenTree::Ident(token), TokenTree::Group(group)] = part.as_slice() else {
        let tokens: TokenStream = part.into_iter().collect();
        diag.error(
            tokens,
            format!("`{key}` takes a function for each version; write `{key}(v1(path))`"),
        );
        return None;
    };
    let text = token.to_string();
    let digits = text.strip_prefix('v').filter(|rest| !rest.starts_with('+'));
    let Some(from) = digits.and_then(|digits| digits.parse::<u32>().ok()) else {
        diag.error(
            token,
            format!("`{token}` is no version; write `v1(path)` for what version 1 saved"),
        );
        return None;
    };
    if from == 0 {
        diag.error(token, "versions are counted from 1; take `v0` out");
        return None;
    }
    let path = (group.delimiter() == Delimiter::Parenthesis)
        .then(|| syn::parse2::<Path>(group.stream()).ok())
        .flatten();
    let Some(path) = path else {
        diag.error(
            group,
            format!("`{token}` takes the path of one function; write `{token}(path)`"),
        );
        return None;
    };
    let token = token.clone();
    Some(Migration { token, from, path })
}

/// The names of `retired("Name", "Other")`, each once.
pub(crate) fn retired(key: &Ident, value: &Value, diag: &mut Diagnostics) -> Vec<LitStr> {
    let Value::List(tokens) = value else {
        return Vec::new();
    };
    if tokens.is_empty() {
        diag.error(
            key,
            format!("`{key}` names nothing; write `{key}(\"Name\")` or leave it out"),
        );
    }
    let mut found: Vec<LitStr> = Vec::new();
    for part in split_at_commas(tokens.clone()) {
        let tokens: TokenStream = part.into_iter().collect();
        let Ok(name) = syn::parse2::<LitStr>(tokens.clone()) else {
            diag.error(
                tokens,
                format!("`{key}` takes names in quotes, as there is no such phase any more; write `{key}(\"Name\")`"),
            );
            continue;
        };
        if found.iter().any(|earlier| earlier.value() == name.value()) {
            diag.error(
                &name,
                format!("`{}` stands twice in `{key}`; keep one", name.value()),
            );
        } else if is_name(key, &name, diag) {
            found.push(name);
        }
    }
    found
}

/// Whether a phase can have had this name.
pub(crate) fn is_name(key: &Ident, name: &LitStr, diag: &mut Diagnostics) -> bool {
    let text = name.value();
    let fine = syn::parse_str::<Ident>(&text).is_ok()
        || syn::parse_str::<Ident>(&format!("r#{text}")).is_ok();
    if !fine {
        diag.error(
            name,
            format!("`{text}` cannot be the name of a phase; write in `{key}` what the variant was called"),
        );
    }
    fine
}
