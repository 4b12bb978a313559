//! `version = 3, migrate(v1(path), v2(path)), retired("Name")`, and `was = "Name"` of the enum, the operation or a
//! phase.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::{Expr, Ident, LitInt, LitStr, Path, Type};

use super::{Entry, Form, Keys, Value, entries, split_at_commas, text, ty};
use crate::diag::Diagnostics;

/// `v1(path)`: turns the data of version 1 into the data of version 2.
pub(crate) struct Migration {
    /// `v1`, as written.
    pub(crate) token: Ident,
    pub(crate) from: u32,
    pub(crate) path: Path,
}

/// Returns the number of `version = 3`.
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
            format!("versions are counted from 1; write `{key} = 1`, or remove it"),
        ),
        Ok(_) => return Some(number),
        Err(_) => diag.error(
            &number,
            format!("`{number}` is too large for a version; write the number after the last one"),
        ),
    }
    None
}

/// Returns the parts of `migrate(v1(path), v2(path))`.
pub(crate) fn migrations(key: &Ident, value: &Value, diag: &mut Diagnostics) -> Vec<Migration> {
    let Value::List(tokens) = value else {
        return Vec::new();
    };
    if tokens.is_empty() {
        diag.error(
            key,
            format!("`{key}` names nothing; write `{key}(v1(path))`, or remove it"),
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
            format!("`{token}` is not a version; write `v1(path)` for the data of version 1"),
        );
        return None;
    };
    if from == 0 {
        diag.error(token, "versions are counted from 1; remove `v0`");
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

/// Returns the names of `retired("Name", "Other")`, each once.
pub(crate) fn retired(key: &Ident, value: &Value, diag: &mut Diagnostics) -> Vec<LitStr> {
    let Value::List(tokens) = value else {
        return Vec::new();
    };
    if tokens.is_empty() {
        diag.error(
            key,
            format!("`{key}` names nothing; write `{key}(\"Name\")`, or remove it"),
        );
    }
    let mut found: Vec<LitStr> = Vec::new();
    for part in split_at_commas(tokens.clone()) {
        let tokens: TokenStream = part.into_iter().collect();
        let Ok(name) = syn::parse2::<LitStr>(tokens.clone()) else {
            diag.error(
                tokens,
                format!("`{key}` takes names in quotes, because these phases no longer exist; write `{key}(\"Name\")`"),
            );
            continue;
        };
        if found.iter().any(|earlier| earlier.value() == name.value()) {
            diag.error(
                &name,
                format!("`{}` appears twice in `{key}`; keep one", name.value()),
            );
        } else if is_name(key, &name, diag) {
            found.push(name);
        }
    }
    found
}

/// Returns whether a phase can have had this name.
pub(crate) fn is_name(key: &Ident, name: &LitStr, diag: &mut Diagnostics) -> bool {
    is_ident(key, name, ("a phase", "the variant"), diag)
}

/// Returns whether an enum can have had this name.
pub(crate) fn is_enum(key: &Ident, name: &LitStr, diag: &mut Diagnostics) -> bool {
    is_ident(key, name, ("an enum", "the enum"), diag)
}

fn is_ident(
    key: &Ident,
    name: &LitStr,
    (what, which): (&str, &str),
    diag: &mut Diagnostics,
) -> bool {
    let text = name.value();
    let fine = syn::parse_str::<Ident>(&text).is_ok()
        || syn::parse_str::<Ident>(&format!("r#{text}")).is_ok();
    if !fine {
        diag.error(
            name,
            format!(
                "`{text}` cannot be the name of {what}; write in `{key}` the earlier name of {which}"
            ),
        );
    }
    fine
}

const OPERATION_KEYS: &[(&str, Form)] = &[
    ("was", Form::Text("was = \"Type\"")),
    ("name", Form::Text("name = T::NAME")),
];

/// The parts of `operation(Type, name = T::NAME, was = "Old")`.
#[derive(Default)]
pub(crate) struct Operation {
    pub(crate) operation: Option<Type>,
    pub(crate) name: Option<(Ident, Option<Expr>)>,
    pub(crate) was: Vec<(Ident, Option<LitStr>)>,
}

pub(crate) fn operation(key: &Ident, value: &Value, diag: &mut Diagnostics) -> Operation {
    let Value::List(tokens) = value else {
        return Operation::default();
    };
    let (first, rest) = split_before_key(tokens.clone());
    let mut found = Operation {
        operation: ty(key, &Value::List(first), diag),
        ..Operation::default()
    };
    let what = format!("`{key}(..)` after its type");
    let keys = Keys {
        what: &what,
        known: OPERATION_KEYS,
        words: &[],
    };
    for Entry { key, value } in entries(rest, &keys, diag) {
        if key == "name" {
            let name = constant(&key, &value, diag);
            found.name = Some((key, name));
        } else {
            let name = text(&key, &value, diag);
            let name = name.filter(|name| is_type(&key, name, diag));
            found.was.push((key, name));
        }
    }
    found
}

/// Returns the expression of `key = T::NAME`.
fn constant(key: &Ident, value: &Value, diag: &mut Diagnostics) -> Option<Expr> {
    let Value::Equals(tokens) = value else {
        return None;
    };
    let constant = syn::parse2(tokens.clone()).ok();
    if constant.is_none() {
        diag.error(
            tokens,
            format!("`{key}` takes a constant; write `{key} = T::NAME`"),
        );
    }
    constant
}

/// Splits the tokens before the first key. A type has commas of its own, but none with a key behind it.
fn split_before_key(tokens: TokenStream) -> (TokenStream, TokenStream) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let is_comma =
        |token: &TokenTree| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ',');
    let is_key = |rest: &[TokenTree]| match rest {
        [TokenTree::Ident(key), ..] if key == "was" => true,
        [TokenTree::Ident(_), TokenTree::Punct(punct), ..] => punct.as_char() == '=',
        _ => false,
    };
    let comma = (0..tokens.len()).find(|&at| is_comma(&tokens[at]) && is_key(&tokens[at + 1..]));
    let comma = comma.unwrap_or(tokens.len());
    let first = tokens[..comma].iter().cloned().collect();
    let rest = tokens.into_iter().skip(comma + 1).collect();
    (first, rest)
}

/// Returns whether a type can have had this name.
fn is_type(key: &Ident, name: &LitStr, diag: &mut Diagnostics) -> bool {
    let fine = syn::parse_str::<Type>(&name.value()).is_ok();
    if !fine {
        diag.error(
            name,
            format!(
                "`{}` cannot be the name of a type; write in `{key}` the type that was in `operation(..)`",
                name.value()
            ),
        );
    }
    fine
}
