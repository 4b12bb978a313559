//! The `#[fom]` attribute. Users take it from `fom-runtime`.

use proc_macro::TokenStream;

/// Declares an operation state machine.
#[proc_macro_attribute]
pub fn fom(_args: TokenStream, item: TokenStream) -> TokenStream {
    item
}
