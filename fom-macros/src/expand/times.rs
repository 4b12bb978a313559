//! The time limit and the retries of a phase: in its graph, or said by a function at run time.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};

use super::layer::Layer;
use super::operation::transitions;
use super::phase_data::{self, Access};
use super::{data, event_type, phase_type};
use crate::model::{Machine, Phase};
use crate::syntax::within::Within;
use crate::syntax::{Setting, path_text};

/// Returns the call that gives a deadline its time limit.
pub(super) fn within(phase: &Phase) -> Option<TokenStream> {
    let (_, within) = phase.args.within.as_ref()?;
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
        Setting::Asked => {
            let name = phase.within_function.as_ref()?.to_string();
            quote!(.within_asked(#name))
        }
    })
}

/// Returns whether the phase has a time limit that is written in its attribute.
pub(super) fn is_fixed(phase: &Phase) -> bool {
    let within = phase.args.within.as_ref();
    let within = within.and_then(|(_, within)| within.as_ref());
    matches!(within, Some(Setting::Written(Within::Fixed(_))))
}

/// Returns the call that gives the phase its retries.
pub(super) fn retry(machine: &Machine, phase: &Phase) -> Option<TokenStream> {
    let krate = &machine.krate;
    let (_, retry) = phase.args.retry.as_ref()?;
    Some(match retry.as_ref()? {
        Setting::Written(retry) => {
            let times = number(retry.times.into());
            let (least, most) = (number(retry.least), number(retry.most));
            quote!(.retry(#times, #least, #most))
        }
        Setting::Constant(path) => {
            let name = path_text(path);
            quote!(.retry_named(#path, #name))
        }
        Setting::Asked => {
            let name = phase.retry_function.as_ref()?.to_string();
            quote!(.retry_named(#krate::machine::Retry::ASKED, #name))
        }
    })
}

/// Returns the functions that say time limits and retries at run time.
pub(super) fn asked(machine: &Machine) -> TokenStream {
    let krate = &machine.krate;
    let within = asked_by(
        machine,
        "asked_within",
        &quote!(::core::time::Duration),
        |phase| phase.within_function.as_ref(),
        |layer, fom| layer.asked("asked_within", fom),
    );
    let retry = asked_by(
        machine,
        "asked_retry",
        &quote!(#krate::machine::Retry),
        |phase| phase.retry_function.as_ref(),
        |layer, fom| layer.asked("asked_retry", fom),
    );
    quote!(#within #retry)
}

fn asked_by(
    machine: &Machine,
    name: &str,
    output: &TokenStream,
    function: impl Fn(&Phase) -> Option<&Ident>,
    inside: impl Fn(&Layer<'_>, &Ident) -> TokenStream,
) -> Option<TokenStream> {
    let (phase_type, transitions) = (phase_type(machine), transitions(machine));
    let (span, event) = (machine.operation_span(), event_type(machine));
    let local = |name| Ident::new(name, Span::mixed_site());
    let (cx, fom) = (&local("cx"), &local("fom"));
    let own = machine.working().filter_map(|phase| {
        let mut function = function(phase)?.clone();
        function.set_span(span);
        let (cfg, ident, data) = (&phase.cfg, &phase.ident, data(phase));
        let values = phase_data::arguments(phase, Access::Shared);
        let arguments = quote_spanned!(span=> (self, #cx #values));
        Some(quote! {
            #(#cfg)*
            P_::#ident #data => ::core::option::Option::Some(#transitions::#function #arguments),
        })
    });
    let own: Vec<_> = own.collect();
    let layer = Layer::of(machine);
    if own.is_empty() && layer.is_none() {
        return None;
    }
    let inside = layer.map(|layer| inside(&layer, fom));
    let context = (!own.is_empty()).then(|| quote!(let #cx = &fom_::context(#fom);));
    let name = Ident::new(name, span);
    Some(quote! {
        fn #name(
            &self,
            phase: &#phase_type,
            #fom: fom_::RunningFom<'_, #event>,
        ) -> ::core::option::Option<#output> {
            #context
            match phase {
                #inside
                #(#own)*
                _ => ::core::option::Option::None,
            }
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
