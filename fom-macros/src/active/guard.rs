//! The condition of a guard. The names of arguments in it refer to the arguments in the list, not to copies.

use proc_macro2::{Group, Ident, Span, TokenStream, TokenTree};
use quote::quote_spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{Expr, Macro};

use super::method::Argument;

/// Returns the condition with `(*cents)` in place of `cents`.
pub(super) fn condition(condition: &Expr, arguments: &[Argument]) -> Expr {
    let mut condition = condition.clone();
    ArgumentPlaces(arguments).visit_expr_mut(&mut condition);
    condition
}

struct ArgumentPlaces<'a>(&'a [Argument]);

impl ArgumentPlaces<'_> {
    fn names(&self, name: &Ident) -> bool {
        self.0.iter().any(|argument| argument.name == *name)
    }
}

impl VisitMut for ArgumentPlaces<'_> {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        if let Expr::Path(path) = expr
            && let Some(name) = path.path.get_ident()
            && self.names(name)
            && let Ok(place) = syn::parse2(place(name))
        {
            *expr = place;
            return;
        }
        visit_mut::visit_expr_mut(self, expr);
    }

    /// The input of a macro is not parsed yet. In it, each such name counts, except after a dot.
    fn visit_macro_mut(&mut self, call: &mut Macro) {
        call.tokens = self.in_tokens(std::mem::take(&mut call.tokens));
    }
}

impl ArgumentPlaces<'_> {
    fn in_tokens(&self, tokens: TokenStream) -> TokenStream {
        let mut after_dot = false;
        tokens
            .into_iter()
            .map(|token| {
                let is_dot = matches!(&token, TokenTree::Punct(punct) if punct.as_char() == '.');
                let after_dot = std::mem::replace(&mut after_dot, is_dot);
                match token {
                    TokenTree::Ident(name) if !after_dot && self.names(&name) => place(&name),
                    TokenTree::Group(group) => {
                        let mut new = Group::new(group.delimiter(), self.in_tokens(group.stream()));
                        new.set_span(group.span());
                        TokenTree::from(new).into()
                    }
                    other => other.into(),
                }
            })
            .collect()
    }
}

/// Returns `*name` in parentheses, which no lint takes for the user's.
fn place(name: &Ident) -> TokenStream {
    // Located at the name: rustc reports there what cannot be done with the argument.
    let tokens = quote_spanned!(name.span()=> *#name);
    let mut group = Group::new(proc_macro2::Delimiter::Parenthesis, tokens);
    group.set_span(Span::mixed_site().located_at(name.span()));
    TokenTree::from(group).into()
}
