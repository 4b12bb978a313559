//! The time limit and the retries of a phase, in its graph.

use proc_macro2::TokenStream;
use quote::quote;

use crate::syntax::phase::PhaseArgs;
use crate::syntax::within::Within;
use crate::syntax::{Setting, path_text};

/// Returns the call that gives the phase its time limit.
pub(super) fn within(args: &PhaseArgs) -> Option<TokenStream> {
    let (_, within) = args.within.as_ref()?;
    Some(match within.as_ref()? {
        Setting::Written(Within::Fixed(nanos)) => {
            let nanos = number(*nanos);
            quote!(.within_nanos(#nanos))
        }
        Setting::Written(Within::Adaptive { floor, ceiling }) => {
            let (floor, ceiling) = (number(*floor), number(*ceiling));
            quote!(.within_adaptive(#floor, #ceiling))
        }
        Setting::Constant(path) => {
            let name = path_text(path);
            quote!(.within_constant(#path, #name))
        }
    })
}

/// Returns the call that gives the phase its retries.
pub(super) fn retry(args: &PhaseArgs) -> Option<TokenStream> {
    let (_, retry) = args.retry.as_ref()?;
    Some(match retry.as_ref()? {
        Setting::Written(retry) => {
            let times = number(retry.times.into());
            let (least, most) = (number(retry.least), number(retry.most));
            quote!(.retry(#times, #least, #most))
        }
        Setting::Constant(path) => {
            let name = path_text(path);
            quote!(.retry_constant(#path, #name))
        }
    })
}

/// Returns a literal that clippy calls readable: `2_000_000_000`.
fn number(value: u64) -> proc_macro2::Literal {
    let digits = value.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push('_');
        }
        text.push(digit);
    }
    text.parse()
        .unwrap_or_else(|_| proc_macro2::Literal::u64_unsuffixed(value))
}
