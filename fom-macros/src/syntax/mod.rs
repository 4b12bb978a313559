//! Reads what the user wrote from tokens, tolerantly: a bad part is reported and left out.

pub(crate) mod args;
pub(crate) mod duration;
pub(crate) mod item;
pub(crate) mod phase;
pub(crate) mod versions;
pub(crate) mod within;

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{Ident, LitStr, Token};

use crate::diag::{Diagnostics, did_you_mean};
use crate::paths;

/// One entry of an attribute's list: `key`, `key(..)` or `key = ..`.
pub(crate) struct Entry {
    pub(crate) key: Ident,
    pub(crate) value: Value,
}

pub(crate) enum Value {
    None,
    /// `key(tokens)`
    List(TokenStream),
    /// `key = tokens`
    Equals(TokenStream),
}

/// The form of an entry after its key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Flag,
    /// `key(..)`; the text is an example.
    List(&'static str),
    /// `key = "..."`; the text is an example.
    Text(&'static str),
}

/// The one key that may be repeated: a phase can have had many names.
const REPEATED: &str = "was";

/// Splits an attribute's tokens at its commas. Keeps only known keys in their right form, once each.
pub(crate) fn entries(
    tokens: TokenStream,
    known: &[(&'static str, Form)],
    what: &str,
    diag: &mut Diagnostics,
) -> Vec<Entry> {
    let mut found: Vec<Entry> = Vec::new();
    for part in split_at_commas(tokens) {
        let Some(entry) = entry(part, diag) else {
            continue;
        };
        let key = entry.key.unraw().to_string();
        let Some((_, form)) = known.iter().find(|(name, _)| *name == key) else {
            let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            let remedy = did_you_mean(&key, &names);
            diag.error(
                &entry.key,
                format!("`{key}` is not a key of {what}; {remedy}"),
            );
            continue;
        };
        if key != REPEATED && found.iter().any(|earlier| earlier.key == entry.key) {
            diag.error(&entry.key, format!("`{key}` is written twice; keep one"));
            continue;
        }
        if let Some(example) = mismatch(*form, &entry.value) {
            let remedy = match form {
                Form::Flag => format!("write only `{key}`"),
                _ => format!("write `{example}`"),
            };
            diag.error(&entry.key, format!("`{key}` has another form; {remedy}"));
            // The key was written, so nothing is reported as missing without it.
            if *form == Form::Flag {
                found.push(Entry {
                    key: entry.key,
                    value: Value::None,
                });
            } else {
                found.push(entry);
            }
            continue;
        }
        found.push(entry);
    }
    found
}

fn mismatch(form: Form, value: &Value) -> Option<&'static str> {
    match (form, value) {
        (Form::Flag, Value::None)
        | (Form::List(_), Value::List(_))
        | (Form::Text(_), Value::Equals(_)) => None,
        (Form::Flag, _) => Some(""),
        (Form::List(example) | Form::Text(example), _) => Some(example),
    }
}

fn split_at_commas(tokens: TokenStream) -> Vec<Vec<TokenTree>> {
    let mut parts = vec![Vec::new()];
    for token in tokens {
        match &token {
            TokenTree::Punct(punct) if punct.as_char() == ',' => parts.push(Vec::new()),
            _ => parts.last_mut().expect("never empty").push(token),
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

fn entry(part: Vec<TokenTree>, diag: &mut Diagnostics) -> Option<Entry> {
    let mut tokens = part.into_iter().peekable();
    let key = match tokens.next()? {
        TokenTree::Ident(ident) => ident,
        other => {
            diag.error(
                &other,
                format!(
                    "expected a key, found `{other}`; write `key`, `key(..)` or `key = \"..\"`"
                ),
            );
            return None;
        }
    };
    let value = match tokens.next() {
        None => Value::None,
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis => {
            Value::List(group.stream())
        }
        Some(TokenTree::Punct(punct)) if punct.as_char() == '=' => {
            let value: TokenStream = tokens.by_ref().collect();
            if value.is_empty() {
                diag.error(
                    &punct,
                    format!("`{key} =` has no value; write `{key} = \"..\"`"),
                );
                return None;
            }
            Value::Equals(value)
        }
        Some(other) => {
            diag.error(
                &other,
                format!(
                    "expected `,` after `{key}`, found `{other}`; put a comma between two keys"
                ),
            );
            return Some(Entry {
                key,
                value: Value::None,
            });
        }
    };
    if let Some(other) = tokens.next() {
        diag.error(
            &other,
            format!("expected `,` after `{key}`, found `{other}`; put a comma between two keys"),
        );
    }
    Some(Entry { key, value })
}

/// Parses `A, B` inside `key(..)`: names, each at most once. A keyword may appear with and without `r#`. An empty list
/// is a mistake.
pub(crate) fn names(key: &Ident, value: &Value, diag: &mut Diagnostics) -> Vec<Ident> {
    let Value::List(tokens) = value else {
        return Vec::new();
    };
    if tokens.is_empty() {
        diag.error(
            key,
            format!("`{key}` names nothing; write the names in it, or remove it"),
        );
        return Vec::new();
    }
    let mut found: Vec<Ident> = Vec::new();
    for part in split_at_commas(tokens.clone()) {
        match part.as_slice() {
            [TokenTree::Ident(word)] => {
                let Some(name) = paths::name(&word.unraw().to_string(), word.span()) else {
                    diag.error(
                        word,
                        format!(
                            "`{word}` is a keyword that cannot be a name; write a name in `{key}`"
                        ),
                    );
                    continue;
                };
                if found.contains(&name) {
                    diag.error(word, format!("`{word}` appears twice in `{key}`; keep one"));
                } else {
                    found.push(name);
                }
            }
            _ => {
                let tokens: TokenStream = part.into_iter().collect();
                diag.error(
                    &tokens,
                    format!("`{key}` takes plain names; write `{key}(Name, Other)`"),
                );
            }
        }
    }
    found
}

/// Returns the string of `key = ".."`.
pub(crate) fn text(key: &Ident, value: &Value, diag: &mut Diagnostics) -> Option<LitStr> {
    let Value::Equals(tokens) = value else {
        return None;
    };
    match syn::parse2::<LitStr>(tokens.clone()) {
        Ok(text) => Some(text),
        Err(_) => {
            diag.error(
                tokens,
                format!("`{key}` takes a string; write `{key} = \"..\"`"),
            );
            None
        }
    }
}

/// Returns the type in `key(Path)` or `key("Type")`.
pub(crate) fn ty(key: &Ident, value: &Value, diag: &mut Diagnostics) -> Option<syn::Type> {
    let Value::List(tokens) = value else {
        return None;
    };
    if tokens.is_empty() {
        diag.error(key, format!("`{key}` names nothing; write `{key}(Type)`"));
        return None;
    }
    let parsed = match syn::parse2::<LitStr>(tokens.clone()) {
        Ok(text) => text.parse::<syn::Type>(),
        Err(_) => syn::parse2::<syn::Type>(tokens.clone()),
    };
    match parsed {
        Ok(ty) => Some(ty),
        Err(_) => {
            diag.error(
                tokens,
                format!("`{key}` takes one type; write `{key}(Type)` or `{key}(\"Type<T>\")`"),
            );
            None
        }
    }
}

/// Returns the generic parameters in `key("S: Store + 'static")`.
pub(crate) fn generics(
    key: &Ident,
    value: &Value,
    diag: &mut Diagnostics,
) -> Option<syn::Generics> {
    let Value::List(tokens) = value else {
        return None;
    };
    let parse = |stream: syn::parse::ParseStream<'_>| {
        Punctuated::<syn::GenericParam, Token![,]>::parse_terminated(stream)
    };
    let parsed = match syn::parse2::<LitStr>(tokens.clone()) {
        Ok(text) => text.parse_with(parse),
        Err(_) => parse.parse2(tokens.clone()),
    };
    match parsed {
        Ok(params) => Some(syn::Generics {
            params,
            ..syn::Generics::default()
        }),
        Err(_) => {
            let wrong = if tokens.is_empty() {
                key.to_token_stream()
            } else {
                tokens.clone()
            };
            diag.error(
                wrong,
                format!("`{key}` takes generic parameters; write `{key}(\"T: Send + 'static\")`"),
            );
            None
        }
    }
}
