//! Reads what the user wrote from tokens, tolerantly: a bad part is reported and left out.

pub(crate) mod args;
pub(crate) mod duration;
pub(crate) mod group;
pub(crate) mod hung;
pub(crate) mod item;
pub(crate) mod phase;
pub(crate) mod secret;
pub(crate) mod versions;
pub(crate) mod within;
pub(crate) mod words;

use proc_macro2::{Delimiter, Punct, Spacing, TokenStream, TokenTree};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{Ident, LitStr, Token};

use self::words::Meant;
use crate::diag::{Diagnostics, did_you_mean, nearest};
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
    /// `key`, or `key = "..."`; the text is an example of the second.
    FlagOrText(&'static str),
    /// `key = "..."`, `key(PATH)` with a constant, or `key` with a function of the phase; the text is an example.
    Time(&'static str),
}

/// A value that is written in the attribute, or a constant elsewhere.
#[derive(Clone)]
pub(crate) enum Setting<T> {
    Written(T),
    Constant(syn::Path),
    /// A function of the phase says it at run time.
    Asked,
}

/// The keys that may be repeated: a phase can have had many names, and a machine can have many groups.
const REPEATED: [&str; 2] = ["was", "group"];

/// The keys of an attribute.
pub(crate) struct Keys<'a> {
    /// The attribute, for messages.
    pub(crate) what: &'a str,
    pub(crate) known: &'a [(&'static str, Form)],
    /// The words of other systems.
    pub(crate) words: &'static [(&'static str, Meant)],
}

impl Keys<'_> {
    fn form(&self, key: &str) -> Option<Form> {
        let mut known = self.known.iter();
        known.find(|(name, _)| *name == key).map(|(_, form)| *form)
    }

    /// Reports a key that does not exist. Returns the entry with the key that is probably meant, so that no further
    /// mistakes follow.
    fn unknown(&self, entry: Entry, diag: &mut Diagnostics) -> Option<Entry> {
        let Entry { key, value } = entry;
        let word = key.unraw().to_string();
        let names = || self.known.iter().map(|(name, _)| *name);
        let meant = self.words.iter().find(|(other, _)| *other == word);
        let (remedy, meant) = match meant {
            Some((_, Meant::Elsewhere(remedy))) => ((*remedy).to_owned(), None),
            Some((_, Meant::Key(meant))) => {
                let example = match self.form(meant) {
                    Some(Form::List(_)) => format!("{meant}(..)"),
                    Some(Form::Text(_) | Form::Time(_)) => format!("{meant} = \"..\""),
                    Some(Form::Flag | Form::FlagOrText(_)) | None => (*meant).to_owned(),
                };
                (format!("write `{example}`"), Some(*meant))
            }
            None => {
                let names: Vec<&str> = names().collect();
                (did_you_mean(&word, &names), nearest(&word, names))
            }
        };
        diag.error(
            &key,
            format!("`{word}` is not a key of {}; {remedy}", self.what),
        );
        let (meant, form) = meant.and_then(|meant| Some((meant, self.form(meant)?)))?;
        mismatch(form, &value).is_none().then(|| Entry {
            key: Ident::new(meant, key.span()),
            value,
        })
    }
}

/// Splits an attribute's tokens at its commas. Keeps only known keys in their right form, once each.
pub(crate) fn entries(tokens: TokenStream, keys: &Keys<'_>, diag: &mut Diagnostics) -> Vec<Entry> {
    let mut found: Vec<Entry> = Vec::new();
    for part in split_at_commas(tokens) {
        let Some(entry) = entry(part, diag) else {
            continue;
        };
        let key = entry.key.unraw().to_string();
        let Some(form) = keys.form(&key) else {
            let meant = keys.unknown(entry, diag);
            let is_new = |meant: &Entry| found.iter().all(|earlier| earlier.key != meant.key);
            found.extend(meant.filter(is_new));
            continue;
        };
        if !REPEATED.contains(&key.as_str()) && found.iter().any(|earlier| earlier.key == entry.key)
        {
            diag.error(&entry.key, format!("`{key}` is written twice; keep one"));
            continue;
        }
        let Some(example) = mismatch(form, &entry.value) else {
            found.push(entry);
            continue;
        };
        let value = in_form(form, &entry.value);
        let remedy = match (form, &value) {
            (Form::Flag, _) => format!("write only `{key}`"),
            (Form::FlagOrText(example), _) => format!("write `{key}` or `{example}`"),
            (Form::List(_) | Form::Time(_), Value::List(tokens)) => {
                format!("write `{key}({})`", joined(tokens))
            }
            (Form::Text(_) | Form::Time(_), Value::Equals(tokens)) => {
                format!("write `{key} = {tokens}`")
            }
            _ => format!("write `{example}`"),
        };
        diag.error(&entry.key, format!("`{key}` has another form; {remedy}"));
        // The key was written, so nothing is reported as missing without it.
        found.push(Entry {
            key: entry.key,
            value,
        });
    }
    found
}

/// Returns a value of another form in the form of its key, as far as it has one: `key = Type` as `key(Type)`.
fn in_form(form: Form, value: &Value) -> Value {
    match (form, value) {
        (Form::List(example), Value::Equals(tokens)) => {
            let text = syn::parse2::<LitStr>(tokens.clone()).ok();
            let text = text.filter(|_| !example.contains('"'));
            let inside = text.and_then(|text| text.parse::<TokenStream>().ok());
            Value::List(inside.unwrap_or_else(|| tokens.clone()))
        }
        (Form::Text(_) | Form::Time(_), Value::List(tokens)) if is_text(tokens) => {
            Value::Equals(tokens.clone())
        }
        (Form::Time(_), Value::Equals(tokens)) if is_path(tokens) => Value::List(tokens.clone()),
        _ => Value::None,
    }
}

fn mismatch(form: Form, value: &Value) -> Option<&'static str> {
    match (form, value) {
        (Form::Flag | Form::FlagOrText(_) | Form::Time(_), Value::None)
        | (Form::List(_), Value::List(_))
        | (Form::Text(_) | Form::FlagOrText(_), Value::Equals(_)) => None,
        (Form::Time(_), Value::Equals(tokens)) if !is_path(tokens) => None,
        (Form::Time(_), Value::List(tokens)) if !is_text(tokens) => None,
        (Form::Flag | Form::FlagOrText(_), _) => Some(""),
        (Form::List(example) | Form::Text(example) | Form::Time(example), _) => Some(example),
    }
}

fn is_text(tokens: &TokenStream) -> bool {
    syn::parse2::<LitStr>(tokens.clone()).is_ok()
}

fn is_path(tokens: &TokenStream) -> bool {
    syn::parse2::<syn::Path>(tokens.clone()).is_ok()
}

/// Returns the tokens without the spaces between them, which a path has none of.
fn joined(tokens: &TokenStream) -> String {
    match syn::parse2::<syn::Path>(tokens.clone()) {
        Ok(path) => path_text(&path),
        Err(_) => tokens.to_string(),
    }
}

/// Returns a path as written.
pub(crate) fn path_text(path: &syn::Path) -> String {
    path.to_token_stream().to_string().replace(' ', "")
}

/// Parses the path of a constant inside `key(..)`.
pub(crate) fn constant(
    key: &Ident,
    tokens: &TokenStream,
    example: &str,
    diag: &mut Diagnostics,
) -> Option<syn::Path> {
    if tokens.is_empty() {
        diag.error(
            key,
            format!("`{key}` names no constant; write `{key}({example})`, or remove it"),
        );
        return None;
    }
    let Ok(path) = syn::parse2::<syn::Path>(tokens.clone()) else {
        diag.error(
            tokens,
            format!("`{key}` takes the path of one constant; write `{key}({example})`"),
        );
        return None;
    };
    if path
        .segments
        .first()
        .is_some_and(|first| first.ident == "Self")
    {
        diag.error(
            &path,
            "`Self` has no meaning here; write the name of the type that has the constant",
        );
        return None;
    }
    Some(path)
}

pub(crate) fn split_at_commas(tokens: TokenStream) -> Vec<Vec<TokenTree>> {
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
/// is a mistake. `itself` is the phase that has the list, if the list names phases.
pub(crate) fn names(
    key: &Ident,
    value: &Value,
    itself: Option<&Ident>,
    diag: &mut Diagnostics,
) -> Vec<Ident> {
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
                if let (true, Some(itself)) = (word == "Self", itself) {
                    diag.error(
                        word,
                        format!("`Self` is the enum, not a phase; write `{itself}`"),
                    );
                    let mut itself = itself.clone();
                    itself.set_span(word.span());
                    found.push(itself);
                    continue;
                }
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

/// Parses `A = "name", B` inside `to(..)`: the phases as in [`names`], and the names of the edges to them.
pub(crate) fn exits(
    key: &Ident,
    value: &Value,
    itself: &Ident,
    diag: &mut Diagnostics,
) -> (Vec<Ident>, Vec<(Ident, LitStr)>) {
    let Value::List(tokens) = value else {
        return (Vec::new(), Vec::new());
    };
    let mut edges = Vec::new();
    let mut phases = TokenStream::new();
    for part in split_at_commas(tokens.clone()) {
        match part.as_slice() {
            [
                TokenTree::Ident(phase),
                TokenTree::Punct(punct),
                TokenTree::Literal(literal),
            ] if punct.as_char() == '=' => {
                phases.extend(quote::quote!(#phase,));
                match syn::parse2::<LitStr>(literal.to_token_stream()) {
                    Ok(name) if is_line(&name.value()) => edges.push((phase.unraw(), name)),
                    _ => diag.error(
                        literal,
                        format!("the name of an edge is one line of text; write `{key}({phase} = \"name\")`"),
                    ),
                }
            }
            part => phases.extend(
                part.iter()
                    .cloned()
                    .chain([Punct::new(',', Spacing::Alone).into()]),
            ),
        }
    }
    let phases = names(key, &Value::List(phases), Some(itself), diag);
    (phases, edges)
}

fn is_line(text: &str) -> bool {
    !text.trim().is_empty() && !text.contains(char::is_control)
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
