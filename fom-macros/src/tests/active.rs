//! Compares the formatted proxy.

use proc_macro2::TokenStream;
use quote::quote;

/// Returns the expansion, without the `impl` itself.
fn expansion(item: TokenStream) -> String {
    expansion_with(TokenStream::new(), item)
}

fn expansion_with(args: TokenStream, item: TokenStream) -> String {
    let tokens = crate::active::attribute(args, item);
    let mut file: syn::File = syn::parse2(tokens).expect("the expansion is Rust");
    let at = file
        .items
        .iter()
        .position(|item| matches!(item, syn::Item::Impl(_)));
    file.items.remove(at.expect("the `impl` is there"));
    prettyplease::unparse(&file)
}

/// AO-06: each public method has a typed request, with its docs. Guards are functions that borrow the arguments in the
/// list.
#[test]
fn a_proxy_can_be_read() {
    let text = expansion(quote! {
        impl<T: Send + 'static> Store<T> {
            /// Not in the proxy.
            fn helper(&self) {}
            /// Nor is this.
            pub fn new() -> Self {}
            /// Waits for room.
            #[when(self.room > items.len() && matches!(items.first(), Some(_)))]
            pub fn put(&mut self, items: Vec<T>) -> usize {}
            #[active(priority = "high")]
            pub async fn merge<U: Into<T>>(&mut self, (a, b): (U, U), other: Self) {}
        }
    });
    assert_text!(text);
}

/// After a mistake the proxy has all its methods, and none does anything.
#[test]
fn after_a_mistake_the_proxy_is_still_there() {
    let text = expansion(quote! {
        impl Shop {
            pub fn rename(&mut self, name: &str) {}
            #[when(self.open)]
            pub fn buy(&mut self, wanted: u64) -> u64 {}
        }
    });
    assert_text!(text);
}

/// AO-09: with `remote`, each call has a form that can be sent, and each method is found by its name.
#[test]
fn a_remote_proxy_can_be_read() {
    let item = quote! {
        impl Account {
            #[when(self.cents >= cents)]
            pub fn withdraw(&mut self, cents: u64) -> u64 {}
            #[cfg(unix)]
            pub(crate) async fn r#move(&mut self, (to, cents): (String, u64)) {}
        }
    };
    let text = expansion_with(quote!(remote), item);
    assert_text!(text);
}
