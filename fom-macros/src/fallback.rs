//! The steps of the macro, and its output after a mistake.

use proc_macro2::{Span, TokenStream};
use quote::quote;

use crate::diag::Diagnostics;
use crate::syntax::args::Args;
use crate::syntax::item;
use crate::{check, expand, lower};

pub(crate) fn run(args: TokenStream, item: TokenStream) -> TokenStream {
    let copy = item.clone();
    std::panic::catch_unwind(|| attribute(args, item)).unwrap_or_else(|_| {
        let error = syn::Error::new(
            Span::call_site(),
            "`#[fom]` panicked, which is a bug in `#[fom]`; please report it with this enum",
        );
        let error = error.to_compile_error();
        quote!(#copy #error)
    })
}

/// Parses, checks and expands. After a mistake, returns the item, the same names without behaviour, and every mistake.
pub(crate) fn attribute(args: TokenStream, item: TokenStream) -> TokenStream {
    let mut diag = Diagnostics::default();
    let Some(mut parsed) = item::parse(item.clone(), &mut diag) else {
        let errors = diag.into_tokens();
        return quote!(#item #errors);
    };
    let args = Args::parse(args, &parsed.ident, &mut diag);
    let phases = item::phases(&mut parsed, &mut diag);
    let mut machine = lower::lower(args, parsed, phases, &mut diag);
    check::check(&mut machine, &mut diag);
    if diag.is_empty() {
        return expand::expand(&machine);
    }
    let skeleton = expand::skeleton(&machine);
    let errors = diag.into_tokens();
    quote!(#errors #skeleton)
}
