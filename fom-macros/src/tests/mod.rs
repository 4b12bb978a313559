//! The expansion, formatted and compared.

use proc_macro2::TokenStream;
use quote::quote;

/// The expansion, without the enum itself.
fn expansion(args: TokenStream, item: TokenStream) -> String {
    let tokens = crate::fallback::attribute(args, item);
    let mut file: syn::File = syn::parse2(tokens).expect("the expansion is Rust");
    file.items.remove(0);
    prettyplease::unparse(&file)
}

fn ten_phases() -> String {
    expansion(
        quote!(operation(Upload), error(UploadError), event(UploadEvent)),
        quote! {
            /// An upload.
            pub enum Phases {
                /// Who is it?
                #[phase(start, to(Authorize))]
                Authenticate,
                /// May they?
                #[phase(to(Reserve, Refused))]
                Authorize,
                /// Find room.
                #[phase(to(Open), within = "2s")]
                Reserve,
                /// Open the file.
                #[phase(to(Receive), blocking)]
                Open,
                /// Take a part.
                #[phase(to(Write, Refused), within = "30s", late, on(Part, Abort))]
                Receive,
                /// Write a part.
                #[phase(to(Receive, Check), blocking)]
                Write { part: Vec<u8> },
                /// Compare the sums.
                #[phase(to(Reply), sync)]
                Check,
                /// Say so.
                #[phase(to(Done), retry = "3, 50ms..2s")]
                Reply,
                /// It is there.
                #[phase(end)]
                Done,
                /// It is not.
                #[phase(end, failure)]
                Refused { status: u16 },
            }
        },
    )
}

#[test]
fn ten_phases_expand_to_what_can_be_read() {
    insta::assert_snapshot!(ten_phases());
}

/// What an ordinary machine of ten phases may take, formatted, with its docs and without the enum.
const MOST_LINES: usize = 200;

/// Most operations are like this: one way on from most phases, what is kept is in the operation.
fn ordinary() -> String {
    expansion(
        quote!(operation(Write), error(Error)),
        quote! {
            /// A write.
            pub enum Route {
                /// Take it in.
                #[phase(start, to(Auth))]
                Init,
                /// May they?
                #[phase(to(Lookup, Failed))]
                Auth,
                /// Where is it?
                #[phase(to(Reserve), within = "2s")]
                Lookup,
                /// Find room.
                #[phase(to(Fetch))]
                Reserve,
                /// Fetch the data.
                #[phase(to(Store))]
                Fetch,
                /// Write it.
                #[phase(to(Check), blocking)]
                Store,
                /// Compare the sums.
                #[phase(to(Reply, Failed), sync)]
                Check,
                /// Say so.
                #[phase(to(Done))]
                Reply,
                /// It is there.
                #[phase(end)]
                Done,
                /// It is not.
                #[phase(end, failure)]
                Failed { status: u16 },
            }
        },
    )
}

#[test]
fn an_ordinary_machine_is_short() {
    let lines = ordinary().lines().count();
    assert!(lines <= MOST_LINES, "{lines} lines");
}
