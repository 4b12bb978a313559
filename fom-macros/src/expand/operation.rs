//! `Operation` for the operation's type, and the one function that runs its phases.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::{Path, PathArguments, Type};

use super::{
    any_data, context, data, docs, error_type, event_type, operation_generics, phase_type,
    transitions_type,
};
use crate::model::{Machine, Mode, Phase};

pub(super) fn expand(machine: &Machine) -> TokenStream {
    let krate = &machine.krate;
    let Some(operation) = &machine.operation else {
        return TokenStream::new();
    };
    let (generics, _, bounds) = operation_generics(machine).split_for_impl();
    let types = types(machine);
    let phase_type = phase_type(machine);
    let kind = &machine.names.kind;
    let graph = graph(machine, operation);
    let codec = (!machine.transient).then(|| {
        let codec = quote_spanned!(machine.operation_span()=> Codec::new());
        quote! {
            const CODEC: ::core::option::Option<#krate::Codec<Self>> = ::core::option::Option::Some(#krate::#codec);
        }
    });
    let start = machine
        .phases
        .iter()
        .find(|phase| phase.args.start.is_some());
    let start = start.map(|phase| &phase.ident);
    let ident = &machine.item.ident;
    let kinds = machine.phases.iter().map(|phase| {
        let (cfg, name, any) = (&phase.cfg, &phase.ident, any_data(phase));
        quote!(#(#cfg)* #ident::#name #any => #kind::#name)
    });
    let takes = takes(machine);
    let launch = if machine.is_sync() {
        quote!(synchronous)
    } else {
        quote!(asynchronous)
    };
    quote! {
        #[automatically_derived]
        impl #generics #krate::Operation for #operation #bounds {
            #types
            #graph
            #codec
            fn start() -> #phase_type {
                #ident::#start
            }
            fn kind(phase: &#phase_type) -> #kind {
                match phase { #(#kinds,)* }
            }
            fn index(kind: #kind) -> usize {
                kind as usize
            }
            #takes
            fn launch(seed: #krate::__private::Seed<Self>) -> #krate::__private::Launched<Self> {
                seed.#launch()
            }
        }
    }
}

fn types(machine: &Machine) -> TokenStream {
    let (phase, kind) = (phase_type(machine), &machine.names.kind);
    let (error, event) = (error_type(machine), event_type(machine));
    quote! {
        type Phase = #phase;
        type Kind = #kind;
        type Error = #error;
        type Event = #event;
    }
}

fn graph(machine: &Machine, operation: &Type) -> TokenStream {
    let krate = &machine.krate;
    let name = machine.item.ident.to_string();
    let operation = operation.to_token_stream().to_string().replace(' ', "");
    let docs = docs::text(&machine.item.attrs);
    let phases = machine.phases.iter().map(|phase| info(machine, phase));
    quote! {
        const GRAPH: &'static #krate::Graph = {
            use #krate::PhaseInfo as Phase;
            &#krate::Graph::new(#name, #operation, #docs, &[#(#phases),*])
        };
    }
}

/// What the graph says of one phase. The names in `to(..)` stand here as they were written, so that an editor finds them.
fn info(machine: &Machine, phase: &Phase) -> TokenStream {
    let (cfg, name, args) = (&phase.cfg, &phase.name, &phase.args);
    let docs = docs::text(&phase.docs);
    let kind = &machine.names.kind;
    let mode = match phase.mode {
        _ if phase.is_end() => quote!(end),
        Mode::Async => quote!(asynchronous),
        Mode::Sync => quote!(synchronous),
        Mode::Blocking => quote!(blocking),
    };
    let numbers = |targets: &[crate::model::Target]| {
        targets
            .iter()
            .map(|target| {
                let token = &target.token;
                let cfg = target
                    .phase
                    .map(|phase| &machine.phases[phase].cfg)
                    .into_iter()
                    .flatten();
                quote!(#(#cfg)* (#kind::#token as u16))
            })
            .map(plain)
            .collect::<Vec<_>>()
    };
    let to = numbers(&phase.exits);
    let to = (!to.is_empty()).then(|| quote!(.to(&[#(#to),*])));
    let start = args.start.as_ref().map(|_| quote!(.start()));
    let failure = args.failure.as_ref().map(|_| quote!(.failure()));
    let within = args
        .within
        .as_ref()
        .and_then(|(_, nanos)| *nanos)
        .map(|nanos| {
            let nanos = number(nanos);
            quote!(.within_nanos(#nanos))
        });
    let late = args.late.as_ref().map(|_| quote!(.late()));
    let on = args.on.as_ref().map(|(_, events)| {
        let events = events
            .iter()
            .map(|event| syn::ext::IdentExt::unraw(event).to_string());
        quote!(.on(&[#(#events),*]))
    });
    let retry = args
        .retry
        .as_ref()
        .and_then(|(_, retry)| *retry)
        .map(|retry| {
            let (times, least, most) = (
                number(retry.times.into()),
                number(retry.least),
                number(retry.most),
            );
            quote!(.retry(#times, #least, #most))
        });
    let keep = numbers(&phase.keep);
    let keep = (!keep.is_empty()).then(|| quote!(.keep(&[#(#keep),*])));
    quote!(#(#cfg)* Phase::#mode(#name, #docs) #to #start #failure #within #late #on #retry #keep)
}

/// Takes the parentheses off again where no `#[cfg]` asks for them.
fn plain(tokens: TokenStream) -> TokenStream {
    let mut trees: Vec<_> = tokens.clone().into_iter().collect();
    match (trees.pop(), trees.is_empty()) {
        (Some(proc_macro2::TokenTree::Group(group)), true) => group.stream(),
        _ => tokens,
    }
}

/// A literal that clippy calls readable: `2_000_000_000`.
fn number(value: u64) -> proc_macro2::Literal {
    let digits = value.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            text.push('_');
        }
        text.push(digit);
    }
    text.parse()
        .unwrap_or_else(|_| proc_macro2::Literal::u64_unsuffixed(value))
}

/// Which phase takes which event. The match is over the events, so rustc finds those that nobody takes.
fn takes(machine: &Machine) -> Option<TokenStream> {
    let event = machine.event.as_ref()?;
    let key = machine.event_key.as_ref()?;
    let path = expression_path(event)?;
    let kind = &machine.names.kind;
    let mut events: Vec<&Ident> = Vec::new();
    for name in machine.phases.iter().flat_map(Phase::on) {
        if !events.contains(&name) {
            events.push(name);
        }
    }
    let arms = events.into_iter().map(|event| {
        let takers = machine
            .phases
            .iter()
            .filter(|phase| phase.on().contains(event));
        let takes = if machine.has_cfg() {
            let arms = takers.map(|phase| {
                let (cfg, ident) = (&phase.cfg, &phase.ident);
                quote!(#(#cfg)* #kind::#ident => true)
            });
            quote!(match kind { #(#arms,)* _ => false })
        } else {
            let takers = takers.map(|phase| {
                let ident = &phase.ident;
                quote!(#kind::#ident)
            });
            quote!(::core::matches!(kind, #(#takers)|*))
        };
        quote!(#path::#event { .. } => #takes)
    });
    let scrutinee = Ident::new("event", Span::mixed_site().located_at(key.span()));
    Some(quote! {
        fn takes(kind: #kind, #scrutinee: &#event) -> bool {
            match #scrutinee { #(#arms,)* }
        }
    })
}

/// `Event<T>` as it stands in a pattern: `Event::<T>`.
fn expression_path(ty: &Type) -> Option<Path> {
    let Type::Path(ty) = ty else { return None };
    let mut path = ty.path.clone();
    for segment in &mut path.segments {
        if let PathArguments::AngleBracketed(arguments) = &mut segment.arguments {
            arguments.colon2_token = Some(Default::default());
        }
    }
    Some(path)
}

/// `step`: runs the function of the phase and turns its exit into the next phase.
pub(super) fn step(machine: &Machine) -> TokenStream {
    let krate = &machine.krate;
    let Some(operation) = &machine.operation else {
        return TokenStream::new();
    };
    let (generics, _, bounds) = operation_generics(machine).split_for_impl();
    let (phase_type, context, event) = (phase_type(machine), context(machine), event_type(machine));
    let (trait_name, is_async) = if machine.is_sync() {
        (quote!(SyncOperation), None)
    } else {
        (quote!(AsyncOperation), Some(quote!(async)))
    };
    let local = Locals::new();
    let Locals {
        phase, cx, entry, ..
    } = &local;
    let arms = machine.working().map(|phase| arms(machine, phase, &local));
    let special = machine
        .working()
        .any(|phase| phase.args.late.is_some() || phase.waits());
    let (scrutinee, rest) = if special {
        (quote!((#phase, #entry)), quote!(_))
    } else {
        (quote!(#phase), quote!(_))
    };
    let unused = (!special).then(|| quote!(let _ = #entry;));
    quote! {
        #[automatically_derived]
        impl #generics #krate::__private::#trait_name for #operation #bounds {
            #is_async fn step(
                &mut self,
                #phase: &mut #phase_type,
                #cx: &mut #context,
                #entry: #krate::__private::Entry<#event>,
            ) -> #krate::__private::Stepped<Self> {
                #unused
                ::core::result::Result::Ok(#krate::__private::Next::Go(match #scrutinee {
                    #(#arms)*
                    #rest => return ::core::result::Result::Ok(#krate::__private::Next::Stay),
                }))
            }
        }
    }
}

/// Names inside `step`, which no name of the user's can meet.
struct Locals {
    phase: Ident,
    cx: Ident,
    entry: Ident,
    event: Ident,
}

impl Locals {
    fn new() -> Self {
        let name = |name| Ident::new(name, Span::mixed_site());
        Locals {
            phase: name("phase"),
            cx: name("cx"),
            entry: name("entry"),
            event: name("event"),
        }
    }
}

fn arms(machine: &Machine, phase: &Phase, local: &Locals) -> TokenStream {
    let krate = &machine.krate;
    let special = machine
        .working()
        .any(|phase| phase.args.late.is_some() || phase.waits());
    let Some(function) = &phase.function else {
        return TokenStream::new();
    };
    let (cfg, enum_name, name, data) = (&phase.cfg, &machine.item.ident, &phase.ident, data(phase));
    let event = &local.event;
    let pattern = |entry: TokenStream| {
        if special {
            quote!((#enum_name::#name #data, #entry))
        } else {
            quote!(#enum_name::#name #data)
        }
    };
    let late = phase.late_function.as_ref().map(|function| {
        let pattern = pattern(quote!(#krate::__private::Entry::Late));
        let body = next(
            machine,
            phase,
            call(machine, phase, function, local, Call::Late),
        );
        quote!(#(#cfg)* #pattern => #body,)
    });
    let own = if phase.waits() {
        let pattern = pattern(quote!(#krate::__private::Entry::Event(#event)));
        let body = next(
            machine,
            phase,
            call(machine, phase, function, local, Call::Event),
        );
        quote!(#(#cfg)* #pattern => #body,)
    } else {
        let pattern = pattern(quote!(_));
        let body = next(
            machine,
            phase,
            call(machine, phase, function, local, Call::Enter),
        );
        quote!(#(#cfg)* #pattern => #body,)
    };
    quote!(#late #own)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    Enter,
    Event,
    Late,
}

/// The call of a phase's function, up to its `Result`.
fn call(
    machine: &Machine,
    phase: &Phase,
    function: &Ident,
    local: &Locals,
    how: Call,
) -> TokenStream {
    // At the operation's name: a missing impl is reported there.
    let transitions = transitions_type(machine);
    let transitions = if machine.item.generics.params.is_empty() {
        crate::paths::respan(transitions, machine.operation_span())
    } else {
        quote!(<Self as #transitions>)
    };
    let Locals { cx, event, .. } = local;
    let data = phase.fields.iter().map(|field| &field.ident);
    let event = (how == Call::Event).then(|| quote!(, #event));
    let call = quote!(#transitions::#function(self, #cx #(, #data)* #event));
    match phase.mode {
        Mode::Async => quote!(#call.await),
        Mode::Blocking if how == Call::Enter => quote!(#cx.blocking(|#cx| #call)),
        Mode::Sync | Mode::Blocking => call,
    }
}

/// From the `Result` of a phase's function to the next phase.
fn next(machine: &Machine, phase: &Phase, call: TokenStream) -> TokenStream {
    let (krate, enum_name, after) = (&machine.krate, &machine.item.ident, &phase.after);
    let targets = phase
        .exits
        .iter()
        .filter_map(|exit| exit.phase)
        .map(|target| &machine.phases[target]);
    if phase.returns_unit(machine) {
        let target = targets.map(|target| &target.ident);
        return quote!(#call.map(|()| #(#enum_name::#target)*)?);
    }
    let arms = targets.map(|target| {
        let (cfg, ident, data) = (&target.cfg, &target.ident, data(target));
        quote!(#(#cfg)* #after::#ident #data => #enum_name::#ident #data,)
    });
    let stay = phase.waits().then(|| {
        quote!(#after::Stay => return ::core::result::Result::Ok(#krate::__private::Next::Stay),)
    });
    quote!(match #call? { #(#arms)* #stay })
}

/// After a mistake: an operation that can be named, but never runs.
pub(super) fn skeleton(machine: &Machine) -> TokenStream {
    let krate = &machine.krate;
    let Some(operation) = &machine.operation else {
        return TokenStream::new();
    };
    let (generics, _, bounds) = operation_generics(machine).split_for_impl();
    let (types, phase_type, kind) = (types(machine), phase_type(machine), &machine.names.kind);
    quote! {
        #[automatically_derived]
        impl #generics #krate::Operation for #operation #bounds {
            #types
            const GRAPH: &'static #krate::Graph = &#krate::Graph::new("", "", "", &[]);
            fn start() -> #phase_type { loop {} }
            fn kind(_: &#phase_type) -> #kind { loop {} }
            fn index(_: #kind) -> usize { 0 }
            fn launch(_: #krate::__private::Seed<Self>) -> #krate::__private::Launched<Self> { loop {} }
        }
    }
}
