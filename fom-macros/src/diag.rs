//! Mistakes are collected, not thrown, so one compile reports all of them.

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;

/// The mistakes of one declaration, in the order in which they were found.
#[derive(Default)]
pub(crate) struct Diagnostics {
    errors: Vec<syn::Error>,
}

impl Diagnostics {
    /// Reports a mistake at the smallest wrong tokens.
    pub(crate) fn error(&mut self, tokens: impl ToTokens, message: impl std::fmt::Display) {
        self.errors.push(syn::Error::new_spanned(tokens, message));
    }

    /// Reports a mistake at a place.
    pub(crate) fn error_at(&mut self, span: Span, message: impl std::fmt::Display) {
        self.errors.push(syn::Error::new(span, message));
    }

    /// Adds an error of syn.
    pub(crate) fn syntax(&mut self, error: syn::Error) {
        self.errors.push(error);
    }

    /// Adds the mistakes of `other`.
    pub(crate) fn append(&mut self, other: Diagnostics) {
        self.errors.extend(other.errors);
    }

    /// Returns the first mistake as a type. rustc then reports nothing more about code that mentions the type, and
    /// shows the mistake once.
    pub(crate) fn first(&self) -> Option<TokenStream> {
        self.errors.first().map(syn::Error::to_compile_error)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    /// Returns one `compile_error!` for each mistake.
    pub(crate) fn into_tokens(self) -> TokenStream {
        self.errors
            .iter()
            .map(syn::Error::to_compile_error)
            .collect()
    }
}

/// Returns the known name that was probably meant, if one is near.
pub(crate) fn nearest<'a>(
    wrong: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let limit = (wrong.chars().count() / 3).max(1);
    known
        .into_iter()
        .map(|name| (distance(&wrong.to_lowercase(), &name.to_lowercase()), name))
        .filter(|(distance, name)| {
            *distance <= limit
                || (wrong.len() > 2 && name.to_lowercase().starts_with(&wrong.to_lowercase()))
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Returns a text with the nearest name, or with the whole list if no name is near.
pub(crate) fn did_you_mean(wrong: &str, known: &[&str]) -> String {
    match nearest(wrong, known.iter().copied()) {
        Some(name) => format!("did you mean `{name}`?"),
        None if known.is_empty() => "there is none".to_owned(),
        None => format!("write one of {}", list(known)),
    }
}

/// Formats names as `` `A`, `B` `` for a message.
pub(crate) fn list(names: &[&str]) -> String {
    names
        .iter()
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(", ")
}

/// Returns Levenshtein's distance. A swap of two neighbours counts as one.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    rows[0] = (0..=b.len()).collect();
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let change = usize::from(a[i - 1] != b[j - 1]);
            let mut least = (rows[i - 1][j] + 1)
                .min(rows[i][j - 1] + 1)
                .min(rows[i - 1][j - 1] + change);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = least;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_name_is_offered() {
        assert_eq!(nearest("Rign", ["Ring", "Rejected"]), Some("Ring"));
        assert_eq!(nearest("ring", ["Ring", "Rejected"]), Some("Ring"));
        assert_eq!(nearest("Reject", ["Ring", "Rejected"]), Some("Rejected"));
        assert_eq!(nearest("Paris", ["Ring", "Rejected"]), None);
    }
}
