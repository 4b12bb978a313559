//! The `#[fom]` and `#[active]` attributes. Users import `#[fom]` from `fom-runtime` and `#[active]` from
//! `fom-patterns`, which re-export them.
//!
//! A declaration goes through the modules in one direction: `syntax` parses it, `lower` turns it into the `model`,
//! `check` finds the mistakes, and `expand` writes the code. `diag` collects all mistakes, so that one build shows them
//! all. After a mistake, `fallback` writes code that causes no further errors. `active` does the same for `#[active]`.
//! No module imports from a later one; `tests/layout.rs` of the workspace checks this.
#![forbid(unsafe_code)]

mod active;
mod check;
mod diag;
mod expand;
mod fallback;
mod lower;
mod model;
mod paths;
mod syntax;
#[cfg(test)]
mod tests;

use proc_macro::TokenStream;

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[doc = include_str!("fom.md")]
#[proc_macro_attribute]
pub fn fom(args: TokenStream, item: TokenStream) -> TokenStream {
    fallback::run(args.into(), item.into()).into()
}

#[doc = include_str!("active.md")]
#[proc_macro_attribute]
pub fn active(args: TokenStream, item: TokenStream) -> TokenStream {
    active::run(args.into(), item.into()).into()
}
