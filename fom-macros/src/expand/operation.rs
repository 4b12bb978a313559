//! `Operation` for the operation's type, and the function that runs the phases.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Path, PathArguments, Type};

use super::layer::Layer;
use super::phase_data::{self, Access};
use super::times::{asked, is_fixed, retry, within};
use super::{
    any_data, braces, data, docs, ends, error_type, event_type, operation_generics, phase_type,
    private,
};
use crate::model::{Machine, Mode, Phase, Shared, Target};
use crate::paths::type_name;
use crate::syntax::args::Durability;
use crate::syntax::hung::Hung;
use crate::syntax::phase::Cancelled;
use crate::syntax::secret::Secret;

pub(super) fn expand(machine: &Machine) -> TokenStream {
    let krate = &machine.krate;
    let Some(operation) = &machine.operation else {
        return TokenStream::new();
    };
    let (generics, _, bounds) = operation_generics(machine).split_for_impl();
    let head = quote_spanned!(machine.operation_span()=> impl);
    let is_private = private::is_private(machine);
    let types = types(machine, is_private);
    let phase_type = phase_type(machine);
    let layer = Layer::of(machine);
    let kind = kind_type(machine);
    let own = graph(machine, operation);
    let parts = layer.as_ref().map(|layer| layer.parts(operation, &own));
    let graph = match &layer {
        None => quote!(&#own),
        Some(_) => quote!(fom_::joined::<Self>()),
    };
    let saved = saved(machine);
    let start = machine
        .phases
        .iter()
        .find(|phase| phase.args.start.is_some());
    let start = start.map(|phase| enter(machine, phase, &phase.ident));
    let kinds = machine.phases.iter();
    let kinds = kinds.map(|phase| kind_of(phase, layer.as_ref()));
    let takes = match &layer {
        None => takes(machine),
        Some(layer) => Some(layer.takes()),
    };
    let index = match &layer {
        None => quote!(|kind| kind as usize),
        Some(layer) => layer.index(),
    };
    let own_kinds = own_kinds(machine);
    let kind_at = match &layer {
        None => quote!(#own_kinds[index]),
        Some(_) => quote!(fom_::layered_kind_at::<Self, _>(&#own_kinds, index)),
    };
    let end = ends::function(machine);
    let gate = gate(machine);
    let asked = asked(machine);
    let resumed = resumed(machine);
    let form = if machine.is_sync() {
        quote!(Synchronous)
    } else {
        quote!(Asynchronous)
    };
    let describe = describe(machine, layer.as_ref());
    let (start_type, index_type) = types_of_constants(machine, is_private);
    let items = quote! {
            #types
            type Form = fom_::#form;
            const GRAPH: &'static G_ = #graph;
            #saved
            #describe
            const START: #start_type = #start;
            const INDEX: fn(#index_type) -> usize = #index;
            fn kind(phase: &#phase_type) -> #kind {
                match phase { #(#kinds,)* }
            }
            fn kind_at(index: usize) -> #kind {
                #kind_at
            }
            #end
            #takes
            #gate
            #asked
            #resumed
    };
    let items = braces(machine.operation_span(), items);
    quote! {
        #[automatically_derived]
        #head #generics #krate::Operation for #operation #bounds #items
        #parts
    }
}

/// Returns the constants about snapshots and the journal.
fn saved(machine: &Machine) -> TokenStream {
    let codec = (!machine.transient).then(|| {
        // At the operation's name: rustc reports there what cannot be saved.
        let codec = quote_spanned!(machine.operation_span()=> codec);
        quote!(const CODEC: fom_::MaybeCodec<Self> = fom_::#codec();)
    });
    let durability = durability(machine);
    let keeps_failed = machine.failed.as_ref();
    let keeps_failed = keeps_failed.map(|_| {
        quote!(
            const KEEPS_FAILED: bool = false;
        )
    });
    let keeps_unknown = machine.unknown.as_ref();
    let keeps_unknown = keeps_unknown.map(|_| {
        quote!(
            const KEEPS_UNKNOWN: bool = true;
        )
    });
    quote! {
        #codec
        #durability
        #keeps_failed
        #keeps_unknown
    }
}

/// Returns the type of the start phase, and what an index is found for. A private type would be a lint in a constant.
fn types_of_constants(machine: &Machine, is_private: bool) -> (TokenStream, TokenStream) {
    if is_private {
        let types = private::types(machine);
        (quote!(#types::Phase), quote!(#types::Kind))
    } else {
        (phase_type(machine), kind_type(machine))
    }
}

/// Returns the phases of the enum, without their data and without the place of the inner operation.
fn own_kinds(machine: &Machine) -> TokenStream {
    let own = machine.phases.iter().filter(|phase| !phase.is_inner());
    let own = own.map(|phase| {
        let (cfg, ident) = (&phase.cfg, &phase.ident);
        quote!(#(#cfg)* K_::#ident)
    });
    quote!([#(#own),*])
}

fn durability(machine: &Machine) -> Option<TokenStream> {
    let krate = &machine.krate;
    let (_, word) = machine.durability.as_ref()?;
    let word = match (*word)? {
        Durability::Sync => quote!(Sync),
        Durability::Lazy => quote!(Lazy),
        Durability::None => quote!(None),
    };
    Some(
        quote!(const DURABILITY: #krate::machine::Durability = #krate::machine::Durability::#word;),
    )
}

/// Returns how errors become text and sources. Without it, only the default error is known.
fn describe(machine: &Machine, layer: Option<&Layer<'_>>) -> Option<TokenStream> {
    if let Some(layer) = layer {
        return Some(layer.describe(&error_type(machine)));
    }
    machine.error.is_some().then(|| {
        quote!(
            const DESCRIBE: fom_::Describe<Self> = fom_::describe!();
        )
    })
}

/// Returns the arm of `kind` for a phase.
fn kind_of(phase: &Phase, layer: Option<&Layer<'_>>) -> TokenStream {
    let (cfg, name) = (&phase.cfg, &phase.ident);
    match layer {
        None => {
            let any = any_data(phase);
            quote!(#(#cfg)* P_::#name #any => K_::#name)
        }
        Some(layer) => {
            let (data, kind) = (layer_data(phase), layer.kind(phase));
            quote!(P_::#name #data => #kind)
        }
    }
}

/// Returns the type of the phases without data.
pub(super) fn kind_type(machine: &Machine) -> TokenStream {
    Layer::of(machine).map_or_else(
        || machine.names.kind.to_token_stream(),
        |layer| layer.kind_type(),
    )
}

/// Returns the data in an arm for a phase of a layer.
fn layer_data(phase: &Phase) -> TokenStream {
    if phase.is_inner() {
        data(phase)
    } else {
        any_data(phase)
    }
}

/// Returns a phase as a value, for a transition without data. `name` is the phase's name as written there.
pub(super) fn enter(machine: &Machine, phase: &Phase, name: &Ident) -> TokenStream {
    match Layer::of(machine) {
        Some(layer) if phase.is_inner() => layer.start(),
        _ => quote!(P_::#name),
    }
}

fn types(machine: &Machine, is_private: bool) -> TokenStream {
    let (phase, kind) = (phase_type(machine), kind_type(machine));
    let (mut error, event) = (error_type(machine), event_type(machine));
    if let Some(layer) = Layer::of(machine) {
        error = layer.error_type(&error);
    }
    // At their names: rustc reports there a type that is less visible than the operation.
    let name = machine.item.ident.span();
    let end = ends::end_type(machine);
    let mut types = if is_private {
        let types = private::types(machine);
        quote_spanned!(name=> type Phase = #types::Phase; type End = #types::End; type Kind = #types::Kind;)
    } else {
        quote_spanned!(name=> type Phase = #phase; type End = #end; type Kind = #kind;)
    };
    types.extend(quote!(type Error = #error;));
    let span = machine
        .event
        .as_ref()
        .map_or_else(Span::call_site, Spanned::span);
    types.extend(quote_spanned!(span=> type Event = #event;));
    types
}

/// Returns what the graph says of the phases. This is outside of the impl, where it needs fewer lines.
pub(super) fn phases(machine: &Machine) -> TokenStream {
    let phases = machine.phases.iter().map(|phase| info(machine, phase));
    let phases = machine
        .operation
        .as_ref()
        .map(|_| quote!(const PHASES_: &[I_] = &[#(#phases),*];));
    phases.unwrap_or_default()
}

/// Returns the graph of the declared phases.
fn graph(machine: &Machine, operation: &Type) -> TokenStream {
    let name = machine.item.ident.unraw().to_string();
    let given = machine.operation_name.as_ref();
    let operation = given.and_then(|(_, name)| name.as_ref()).map_or_else(
        || type_name(operation).to_token_stream(),
        ToTokens::to_token_stream,
    );
    let docs = docs::text(&machine.item.attrs);
    let version = machine
        .version
        .as_ref()
        .and_then(|(_, version)| version.as_ref());
    let version = version.map(|version| quote!(.in_version(#version)));
    let retired = &machine.retired;
    let retired = (!retired.is_empty()).then(|| quote!(.retiring(&[#(#retired),*])));
    let was = machine.was.iter().filter_map(|(_, name)| name.as_ref());
    let was: Vec<String> = was.map(syn::LitStr::value).collect();
    // For a layer, the names are combined with the names of the inner operation.
    let operations = earlier_operations(machine).filter(|_| machine.inner_phase().is_none());
    let operations: Vec<String> = operations.map(|name| type_name(&name)).collect();
    let renamed = (!was.is_empty() || !operations.is_empty())
        .then(|| quote!(.renamed(&[#(#was),*], &[#(#operations),*])));
    let secrets: Vec<&str> = secrets(machine).map(|secret| &*secret.name).collect();
    let hiding = (!secrets.is_empty()).then(|| quote!(.hiding(&[#(#secrets),*])));
    quote!(G_::new(#name, #operation, #docs, PHASES_) #version #retired #renamed #hiding)
}

/// Returns the fields that no tool shows.
fn secrets(machine: &Machine) -> impl Iterator<Item = &Secret> {
    let secret = machine.secret.iter();
    secret.flat_map(|(_, fields)| fields)
}

/// Looks at each secret that no phase has as a field of the operation. So rustc reports a mistyped name.
pub(super) fn secret_fields(machine: &Machine) -> Option<TokenStream> {
    let operation = machine.operation.as_ref()?;
    let is_of_phase = |name: &Ident| {
        let mut fields = machine.phases.iter().flat_map(|phase| &phase.fields);
        fields.any(|field| field.ident.as_ref() == Some(name))
    };
    let named = secrets(machine).filter_map(|secret| secret.field.as_ref());
    let own: Vec<_> = named.filter(|name| !is_of_phase(name)).collect();
    if own.is_empty() {
        return None;
    }
    let (generics, _, bounds) = operation_generics(machine).split_for_impl();
    let looked = own.iter().map(|name| {
        let operation = Ident::new("operation", name.span());
        quote_spanned!(name.span()=> &#operation.#name)
    });
    Some(quote! {
        #[allow(unused)]
        fn secrets_ #generics (operation: &#operation) #bounds {
            #(let _ = #looked;)*
        }
    })
}

/// Returns the earlier names of the operation, as types.
pub(super) fn earlier_operations(machine: &Machine) -> impl Iterator<Item = Type> {
    let was = machine.operation_was.iter();
    was.filter_map(|(_, name)| name.as_ref()?.parse().ok())
}

/// Returns what the graph says of one phase.
fn info(machine: &Machine, phase: &Phase) -> TokenStream {
    let (cfg, name, args) = (&phase.cfg, &phase.name, &phase.args);
    let docs = docs::text(&phase.docs);
    let mode = match phase.mode {
        _ if phase.is_end() => quote!(end),
        Mode::Async => quote!(asynchronous),
        Mode::Sync => quote!(synchronous),
        Mode::Blocking => quote!(blocking),
    };
    let to = places(machine, &phase.exits);
    let failed = failed(machine, phase);
    let to = (!to.is_empty()).then(|| quote!(.to(&[#(#to),*])));
    let edges = edges(machine, phase);
    let start = args.start.as_ref().map(|_| quote!(.start()));
    let failure = args.failure.as_ref().map(|_| quote!(.failure()));
    let (timed, retry) = (timed(machine, phase), retry(machine, phase));
    let cancelled = args
        .cancelled
        .as_ref()
        .map(|(_, cancelled)| match cancelled {
            Cancelled::Back => quote!(.cancelled()),
            Cancelled::Later => quote!(.cancelled_later()),
        });
    let exhausted = args.exhausted.as_ref().map(|_| quote!(.exhausted()));
    let gate = match (&args.locks, &args.gate, &args.limit) {
        (Some(_), ..) => quote!(.gated("holds locks")),
        (None, Some(_), _) => quote!(.gated("has a gate")),
        (None, None, Some((_, Some(name)))) => {
            let note = format!("limit {}", name.value());
            quote!(.gated(#note))
        }
        (None, None, _) => quote!(),
    };
    let on = args.on.as_ref().map(|(_, events)| {
        let events = events.iter().map(|event| event.unraw().to_string());
        quote!(.on(&[#(#events),*]))
    });
    let fields: Vec<String> = phase
        .fields
        .iter()
        .filter_map(|field| Some(field.ident.as_ref()?.unraw().to_string()))
        .collect();
    let was: Vec<_> = args
        .was
        .iter()
        .filter_map(|(_, name)| name.as_ref())
        .collect();
    let was = (!was.is_empty()).then(|| quote!(.formerly(&[#(#was),*])));
    let with = (phase.takes_data()).then(|| quote!(.with(&[#(#fields),*])));
    let continues = !phase.is_handed_over();
    let inner = phase.is_inner().then(|| quote!(.inner(#continues)));
    let taken = args.take.as_ref().map(|_| quote!(.taken()));
    quote!(#(#cfg)* I_::#mode(#name, #docs) #inner #was #with #taken #to #edges #failed #cancelled #start #failure #timed #on #retry #exhausted #gate)
}

/// Returns the call that gives the phase its deadline. `None` if it has none, and no key `hung`. A fixed time alone has a
/// shorter call.
fn timed(machine: &Machine, phase: &Phase) -> Option<TokenStream> {
    let within = within(phase);
    let late = phase.args.late.as_ref().map(|_| quote!(.late()));
    let keep = places(machine, &phase.keep);
    let keep = (!keep.is_empty()).then(|| quote!(.keep(&[#(#keep),*])));
    let hung = match &phase.args.hung {
        Some((_, Some(Hung::After(nanos)))) => Some(quote!(.hung_after(#nanos))),
        Some((_, Some(Hung::Never))) => Some(quote!(.never_hung())),
        Some((_, None)) | None => None,
    };
    let more: TokenStream = [hung, late, keep].into_iter().flatten().collect();
    if more.is_empty() && is_fixed(phase) {
        return within;
    }
    let calls = quote!(#within #more);
    (!calls.is_empty()).then(|| quote!(.timed(fom_::Deadline::new() #calls)))
}

/// Returns the names of the edges, in the order of `to(..)`. An edge without a name has an empty one.
fn edges(machine: &Machine, phase: &Phase) -> Option<TokenStream> {
    phase.exits.iter().find(|exit| exit.edge.is_some())?;
    let names = phase.exits.iter().map(|exit| {
        let name = exit.edge.as_deref().unwrap_or_default();
        let cfg = exit
            .phase
            .map_or(&[][..], |number| &machine.phases[number].cfg);
        quote!(#(#cfg)* #name)
    });
    Some(quote!(.edges(&[#(#names),*])))
}

/// Returns the next phases after a failure, and the next phases in every case.
fn failed(machine: &Machine, phase: &Phase) -> Option<TokenStream> {
    if phase.failed.is_empty() {
        return None;
    }
    let is_new = |target: &&Target| {
        let same = |exit: &Target| exit.phase == target.phase;
        !phase.exits.iter().any(same)
    };
    let all = places(machine, &phase.exits).into_iter();
    let more = phase.failed.iter().filter(is_new);
    let all = all.chain(more.map(|target| place(machine, target)));
    let failed = places(machine, &phase.failed);
    Some(quote!(.failed(&[#(#failed),*], &[#(#all),*])))
}

fn places(machine: &Machine, targets: &[Target]) -> Vec<TokenStream> {
    let targets = targets.iter();
    targets.map(|target| place(machine, target)).collect()
}

/// Returns the place of a phase in the graph: a number, unless `cfg` can remove phases.
fn place(machine: &Machine, target: &Target) -> TokenStream {
    let Some(number) = target.phase else {
        return TokenStream::new();
    };
    if !machine.has_cfg() {
        return proc_macro2::Literal::usize_unsuffixed(number).to_token_stream();
    }
    let phase = &machine.phases[number];
    let (cfg, ident) = (&phase.cfg, &phase.ident);
    if cfg.is_empty() {
        quote!(K_::#ident as u16)
    } else {
        quote!(#(#cfg)* { K_::#ident as u16 })
    }
}

/// Returns which phase takes which event. The match is over the events, so rustc finds an event that no phase takes.
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
                quote!(#(#cfg)* K_::#ident => true)
            });
            quote!(match kind { #(#arms,)* _ => false })
        } else {
            let takers = takers.map(|phase| {
                let ident = &phase.ident;
                quote!(K_::#ident)
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

/// Returns the gate of each phase, if any phase has one.
fn gate(machine: &Machine) -> Option<TokenStream> {
    let (phase_type, transitions) = (phase_type(machine), transitions(machine));
    let (krate, patterns) = (&machine.krate, &machine.patterns);
    let span = machine.operation_span();
    let name = |name| Ident::new(name, Span::mixed_site());
    let (cx, fom) = (&name("cx"), &name("fom"));
    let own = machine.working().filter_map(|phase| {
        let (cfg, name, data) = (&phase.cfg, &phase.ident, data(phase));
        if let Some((_, Some(limit))) = &phase.args.limit {
            let any = any_data(phase);
            let gate = quote!(#patterns::limit::LimitGate::new(#limit, #cx));
            return Some(quote!(#(#cfg)* P_::#name #any => fom_::gate(#gate),));
        }
        let function = phase.locks_function.as_ref();
        let mut function = function.or(phase.gate_function.as_ref())?.clone();
        function.set_span(span);
        let is_of_phase = phase.locks_function.is_none() || phase.locks_shared == Shared::Not;
        let values = is_of_phase.then(|| phase_data::arguments(phase, Access::Shared));
        let arguments = quote_spanned!(span=> (self, #cx #values));
        let gate = quote!(#transitions::#function #arguments);
        let gate = match phase.locks_function {
            Some(_) => quote!(#patterns::lock::LockSet::gate(#gate, #cx)),
            None => gate,
        };
        Some(quote!(#(#cfg)* P_::#name #data => fom_::gate(#gate),))
    });
    let own: Vec<_> = own.collect();
    let inside = Layer::of(machine).map(|layer| layer.gate(fom));
    if own.is_empty() && inside.is_none() {
        return None;
    }
    let context = (!own.is_empty()).then(|| quote!(let #cx = &fom_::context(#fom);));
    let event = event_type(machine);
    Some(quote! {
        fn gate(
            &self,
            phase: &#phase_type,
            #fom: fom_::RunningFom<'_, #event>,
        ) -> ::core::option::Option<::std::boxed::Box<dyn #krate::extension::Gate>> {
            #context
            match phase {
                #inside
                #(#own)*
                _ => ::core::option::Option::None,
            }
        }
    })
}

/// Calls the user's `resume` for a restored operation.
fn resumed(machine: &Machine) -> Option<TokenStream> {
    let phase_type = phase_type(machine);
    let resume = |at: &Ident| {
        let (span, transitions) = (machine.operation_span(), transitions(machine));
        // As for the functions of the phases: rustc reports a missing impl once.
        quote_spanned!(span=> #transitions::resume(self, &mut fom_::context(#at.fom), #at.phase))
    };
    let event = machine.event.as_ref().map(|event| quote!(, #event));
    if let Some(layer) = Layer::of(machine) {
        let at = Ident::new("at", Span::mixed_site());
        let own = resume(&at);
        return Some(layer.resumed((!machine.transient).then_some(own), &phase_type));
    }
    (!machine.transient).then(|| {
        let at = Ident::new("at", Span::call_site());
        let own = resume(&at);
        quote! {
            fn resumed(&mut self, #at: fom_::At<'_, '_, #phase_type #event>) -> fom_::Resumed<Self> {
                #own
            }
        }
    })
}

/// Returns `T_` as the prefix of one of its functions. At the operation's name: rustc reports a missing impl there, and
/// only once.
pub(super) fn transitions(machine: &Machine) -> TokenStream {
    let span = machine.operation_span();
    if machine.item.generics.params.is_empty() {
        quote_spanned!(span=> T_)
    } else {
        let (_, params, _) = machine.item.generics.split_for_impl();
        quote_spanned!(span=> <Self as T_ #params>)
    }
}

/// Returns `Event<T>` in the form for a pattern: `Event::<T>`.
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

/// After a mistake: an operation that has a name, but never runs.
pub(super) fn skeleton(machine: &Machine, is_private: bool) -> TokenStream {
    let krate = &machine.krate;
    let Some(operation) = &machine.operation else {
        return TokenStream::new();
    };
    let (generics, _, bounds) = operation_generics(machine).split_for_impl();
    let head = quote_spanned!(machine.operation_span()=> impl);
    let types = types(machine, is_private);
    let (phase_type, kind) = (phase_type(machine), kind_type(machine));
    let (start_type, index_type) = types_of_constants(machine, is_private);
    let items = quote! {
            #types
            type Form = #krate::__private::Unfinished;
            const GRAPH: &'static #krate::machine::Graph = &#krate::machine::Graph::new("", "", "", &[]);
            const START: #start_type = ::core::panic!();
            const INDEX: fn(#index_type) -> usize = |_| 0;
            fn kind(_: &#phase_type) -> #kind { loop {} }
            fn kind_at(_: usize) -> #kind { loop {} }
            fn end(_: #phase_type) -> ::core::option::Option<Self::End> { loop {} }
    };
    let items = braces(machine.operation_span(), items);
    quote! {
        #[automatically_derived]
        #head #generics #krate::Operation for #operation #bounds #items
    }
}
