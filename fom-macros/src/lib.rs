//! The `#[fom]` attribute. Users take it from `fom-runtime`.
#![forbid(unsafe_code)]

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

/// Declares an operation state machine.
#[proc_macro_attribute]
pub fn fom(args: TokenStream, item: TokenStream) -> TokenStream {
    fallback::run(args.into(), item.into()).into()
}
