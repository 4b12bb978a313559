//! Compares the formatted expansion.

use proc_macro2::TokenStream;
use quote::quote;

/// Asserts a snapshot without the input beside it, which the test already shows.
macro_rules! assert_text {
    ($text:expr $(,)?) => {
        insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!($text) })
    };
}

mod active;

/// Returns the expansion, without the enum itself.
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
                #[phase(to(Open), within = "adaptive, 50ms..2s")]
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
    assert_text!(ten_phases());
}

/// The most that an ordinary machine of ten phases may take, as prettyplease prints it and without the enum. First the
/// lines of code, without doc comments and attributes, then all lines.
const MOST_LINES: (usize, usize) = (196, 222);

/// A typical operation: most phases have one exit, and the operation keeps the data.
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
    let text = ordinary();
    let code = text.lines().filter(|line| {
        let line = line.trim_start();
        !line.starts_with("///") && !line.starts_with("#[")
    });
    let (code, all) = (code.count(), text.lines().count());
    let (most_code, most) = MOST_LINES;
    assert!(
        code <= most_code && all <= most,
        "{code} lines of code, {all} lines"
    );
}

#[test]
fn parameters_and_cfg_go_where_they_are_needed() {
    assert_text!(expansion(
        quote!(
            operation("Job<S, T>"),
            generics("S: Store"),
            transient,
            crate = "::renamed"
        ),
        quote! {
            enum Phases<T: Clone + 'static> where T: Send {
                #[phase(start, to(Write, Trace, Nothing))]
                Fetch,
                #[phase(to(Done), sync)]
                Write { item: T },
                #[cfg(feature = "trace")]
                #[phase(to(Done), blocking)]
                Trace { level: u8 },
                #[phase(end)]
                Done,
                #[phase(end, failure)]
                Nothing { code: u16 },
            }
        },
    ));
}

#[test]
fn phases_with_locks_ask_which() {
    assert_text!(expansion(
        quote!(operation(Transfer), event(Word), transient),
        quote! {
            enum Phases {
                #[phase(start, to(Move), sync)]
                Ask,
                /// From one account to the other.
                #[phase(to(Tell), blocking, locks)]
                Move { amount: u64 },
                #[phase(to(Done), on(Go), locks)]
                Tell,
                #[phase(end)]
                Done,
            }
        },
    ));
}

#[test]
fn what_earlier_releases_saved_is_told_in_constants() {
    let text = expansion(
        quote!(
            operation(Call),
            version = 3,
            migrate(v1(first), v2(migrations::second)),
            retired("Queued", "Parked"),
            durability = "lazy"
        ),
        quote! {
            enum Route {
                #[phase(start, sync, to(Ring), was = "Find", was = "Seek")]
                Locate,
                #[phase(end, was = "Alert")]
                Ring { #[phase(default)] loud: bool, #[serde(default)] endpoint: u32 },
            }
        },
    );
    let told = text.lines().filter(|line| {
        [
            "I_::",
            "GRAPH",
            ".in_version",
            ".retiring",
            ".formerly",
            ".with",
            "MIGRATIONS",
            "(1, ",
            "take",
            "at_(",
            "DURABILITY",
        ]
        .iter()
        .any(|word| line.contains(word))
    });
    assert_text!(told.map(str::trim).collect::<Vec<_>>().join("\n"));
}

#[test]
fn after_a_mistake_the_names_are_still_there() {
    assert_text!(expansion(
        quote!(operation(Call), transient),
        quote! {
            enum Route {
                #[phase(start, to(Rign, Rejected))]
                Locate,
                #[phase(within = "2s")]
                Ring { endpoint: u32 },
                #[phase(end, failure)]
                Rejected,
            }
        },
    ));
}

#[test]
fn an_editor_reads_one_enum_under_several_names() {
    let tokens = crate::fallback::for_editor(
        quote!(operation(Call), event(Signal), transient),
        quote! {
            enum Route<T> {
                #[phase(start, sync, to(Ring, Rejected), on(Bye))]
                Locate,
                #[phase(to(Rejected, Rign))]
                Ring { endpoint: T },
                #[phase(end, failure)]
                Rejected,
            }
        },
    );
    let file: syn::File = syn::parse2(tokens).expect("the expansion is Rust");
    assert_text!(prettyplease::unparse(&file));
}

#[test]
fn the_enum_gets_a_table_and_a_drawing() {
    let tokens = crate::fallback::attribute(
        quote!(operation(Call), event(Signal)),
        quote! {
            /// The way of a call.
            enum Route {
                #[phase(start, to(Ring, Rejected), within = "1m30s", late)]
                Locate,
                #[phase(to(Answered, Rejected, Ring), sync, on(Ack, Bye), within = "adaptive", retry = "3, 50ms..2s")]
                Ring { endpoint: Endpoint },
                #[phase(end)]
                Answered,
                #[phase(end, failure)]
                Rejected,
            }
        },
    );
    let file: syn::File = syn::parse2(tokens).expect("the expansion is Rust");
    let Some(syn::Item::Enum(item)) = file.items.into_iter().next() else {
        panic!("the enum comes first")
    };
    let docs = item.attrs.iter().filter_map(|attr| match &attr.meta {
        syn::Meta::NameValue(doc) => match &doc.value {
            syn::Expr::Lit(syn::ExprLit {
                lit: syn::Lit::Str(text),
                ..
            }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    });
    assert_text!(docs.collect::<Vec<_>>().join("\n"));
}

#[test]
fn the_same_input_gives_the_same_output() {
    assert_eq!(ten_phases(), ten_phases());
}

#[test]
fn a_layer_hands_over_to_what_is_inside() {
    assert_text!(expansion(
        quote!(operation(Guarded<R>), around(R), error(Oops)),
        quote! {
            enum Standard<R: Persistent> {
                #[phase(start, sync, to(Serve, Denied), failed(Denied))]
                Authorise,
                /// The phases of the request.
                #[phase(inner(request), to(Done), failed(Denied, Done))]
                Serve { phase: R::Phase },
                #[phase(end)]
                Done,
                #[phase(end, failure)]
                Denied { why: String },
            }
        },
    ));
}

/// SM-17: an enum has at most 255 phases. The message names the first phase beyond that limit.
#[test]
fn the_256th_phase_is_refused() {
    let machine = |phases: usize| {
        let variants = (0..phases).map(|number| {
            let name = quote::format_ident!("P{number}");
            let next = quote::format_ident!("P{}", number + 1);
            match number {
                0 => quote!(#[phase(start, sync, to(#next))] #name),
                last if last + 1 == phases => quote!(#[phase(end)] #name),
                _ => quote!(#[phase(sync, to(#next))] #name),
            }
        });
        let item = quote!(enum Many { #(#variants),* });
        crate::fallback::attribute(quote!(operation(Job), transient), item).to_string()
    };
    assert!(!machine(255).contains("compile_error"));
    let refused = machine(256);
    assert_eq!(refused.matches("compile_error").count(), 1);
    assert!(refused.contains("this is phase number 256, and 255 is the most; split the operation"));
}
