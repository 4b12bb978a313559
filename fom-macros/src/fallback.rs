//! The steps of the macro, and its output after a mistake or for an editor.

use std::sync::OnceLock;

use proc_macro2::{Span, TokenStream};
use quote::quote;

use crate::diag::Diagnostics;
use crate::model::Machine;
use crate::syntax::args::Args;
use crate::syntax::item;
use crate::{check, expand, lower};

/// Returns whether an editor reads the output. rust-analyzer expands macros in a program of its own.
fn is_for_editor() -> bool {
    static IS_FOR_EDITOR: OnceLock<bool> = OnceLock::new();
    *IS_FOR_EDITOR.get_or_init(|| {
        let program = std::env::current_exe().ok();
        let name = program.as_ref().and_then(|path| path.file_name());
        name.is_some_and(|name| name.to_string_lossy().contains("rust-analyzer"))
    })
}

pub(crate) fn run(args: TokenStream, item: TokenStream) -> TokenStream {
    let copy = item.clone();
    let expand = if is_for_editor() {
        for_editor
    } else {
        attribute
    };
    std::panic::catch_unwind(|| expand(args, item)).unwrap_or_else(|_| {
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
    checked(args, item, |machine, diag| {
        if diag.is_empty() {
            return expand::expand(&machine);
        }
        let skeleton = expand::skeleton(&machine);
        let errors = diag.into_tokens();
        quote!(#errors #skeleton)
    })
}

/// Returns the code for an editor, then every mistake. For a completion, rust-analyzer expands twice, and compares places
/// in the two results. So the code before a place must not depend on the half-written name at that place.
pub(crate) fn for_editor(args: TokenStream, item: TokenStream) -> TokenStream {
    checked(args, item, |machine, diag| {
        let items = expand::for_editor(machine);
        let errors = diag.into_tokens();
        quote!(#items #errors)
    })
}

/// Parses and checks. Returns what `finish` makes of the machine and its mistakes.
fn checked(
    args: TokenStream,
    item: TokenStream,
    finish: impl FnOnce(Machine, Diagnostics) -> TokenStream,
) -> TokenStream {
    let mut diag = Diagnostics::default();
    let Some(mut parsed) = item::parse(item.clone(), &mut diag) else {
        let errors = diag.into_tokens();
        return quote!(#item #errors);
    };
    let mut args = Args::parse(args, &parsed.ident, &mut diag);
    let mut phases = item::phases(&mut parsed, &mut diag);
    for group in std::mem::take(&mut args.groups) {
        group.spread(&mut phases, &mut diag);
    }
    let mut machine = lower::lower(args, parsed, phases, &mut diag);
    check::check(&mut machine, &mut diag);
    finish(machine, diag)
}
