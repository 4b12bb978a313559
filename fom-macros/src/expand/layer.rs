//! The differences of a layer: one of its phases stands for the phases of the inner operation.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Member, Type};

use super::operation::earlier_operations;
use super::{braces, error_type, operation_generics};
use crate::model::{Machine, Phase};

/// A layer and its parts, if the machine is a layer without a mistake in these parts.
pub(super) struct Layer<'a> {
    machine: &'a Machine,
    /// The type of the inner operation.
    inner: &'a Type,
    /// The phase that stands for the phases of the inner operation.
    pub(super) inner_phase: &'a Phase,
    /// The field of that phase with the phase of the inner operation.
    field: &'a Ident,
    /// The field of the operation with the inner operation.
    place: Member,
}

impl<'a> Layer<'a> {
    pub(super) fn of(machine: &'a Machine) -> Option<Self> {
        let inner_phase = machine.inner_phase()?;
        let (_, place) = inner_phase.args.inner.as_ref()?;
        Some(Layer {
            machine,
            inner: machine.around.as_ref()?,
            inner_phase,
            field: inner_phase.fields.first()?.ident.as_ref()?,
            place: Member::Named(place.clone()?),
        })
    }

    /// Returns the inner operation as an `Operation`, at its name: rustc reports there if it is none.
    fn as_operation(&self) -> TokenStream {
        let (krate, inner) = (&self.machine.krate, self.inner);
        quote_spanned!(inner.span()=> <#inner as #krate::Operation>)
    }

    /// Returns the phase that holds `value` as the phase of the inner operation.
    fn as_outer(&self, value: &TokenStream) -> TokenStream {
        let (inner_phase, field) = (&self.inner_phase.ident, self.field);
        quote!(P_::#inner_phase { #field: #value })
    }

    /// Returns the start of the inner operation.
    pub(super) fn start(&self) -> TokenStream {
        let operation = self.as_operation();
        self.as_outer(&quote!(#operation::START))
    }

    pub(super) fn kind_type(&self) -> TokenStream {
        let (krate, kind, operation) = (
            &self.machine.krate,
            &self.machine.names.kind,
            self.as_operation(),
        );
        quote!(#krate::machine::Layered<#kind, #operation::Kind>)
    }

    /// Returns the type of the ends of the inner operation. `R::Phase` becomes `R::End`, so that a derive finds `R`.
    pub(super) fn end_type(&self, field: &Type) -> TokenStream {
        if let Type::Path(path) = field
            && let Some(last) = path.path.segments.last()
            && last.ident == "Phase"
            && (path.qself.is_some() || path.path.segments.len() > 1)
        {
            let mut path = path.clone();
            if let Some(last) = path.path.segments.last_mut() {
                last.ident = Ident::new("End", last.ident.span());
            }
            return path.to_token_stream();
        }
        let operation = self.as_operation();
        quote!(#operation::End)
    }

    /// Returns the data of the end in which the inner operation ends the machine.
    pub(super) fn end(&self) -> TokenStream {
        let (field, operation) = (self.field, self.as_operation());
        quote!({ #field: #operation::end(#field)? })
    }

    pub(super) fn error_type(&self, own: &TokenStream) -> TokenStream {
        let (krate, inner) = (&self.machine.krate, self.inner_error());
        quote!(#krate::machine::Layered<#own, #inner>)
    }

    pub(super) fn inner_error(&self) -> TokenStream {
        let operation = self.as_operation();
        quote!(#operation::Error)
    }

    pub(super) fn index(&self) -> TokenStream {
        quote! {
            |kind| match kind {
                L_::Own(kind) => fom_::own_index::<Self>(kind as usize),
                L_::Inner(kind) => fom_::inner_index::<Self>(kind),
            }
        }
    }

    pub(super) fn kind(&self, phase: &Phase) -> TokenStream {
        let name = &phase.ident;
        if !phase.is_inner() {
            return quote!(L_::Own(K_::#name));
        }
        let (field, operation) = (self.field, self.as_operation());
        quote!(L_::Inner(#operation::kind(#field)))
    }

    pub(super) fn takes(&self) -> TokenStream {
        let (kind, operation) = (self.kind_type(), self.as_operation());
        let event = &self.machine.event;
        quote! {
            fn takes(kind: #kind, event: &#event) -> bool {
                ::core::matches!(kind, L_::Inner(kind) if #operation::takes(kind, event))
            }
        }
    }

    /// Returns the function that tells of errors. The layer describes its own errors, and the inner operation describes its
    /// errors.
    pub(super) fn describe(&self, own: &TokenStream) -> TokenStream {
        let operation = self.as_operation();
        quote! {
            const DESCRIBE: fom_::Describe<Self> = |error| match error {
                L_::Own(error) => {
                    let describe: for<'told> fn(&'told #own) -> fom_::Told<'told> = fom_::describe!();
                    describe(error)
                }
                L_::Inner(error) => (#operation::DESCRIBE)(error),
            };
        }
    }

    /// Runs the layer's own `resume` first. Then runs the `resume` of the inner operation, if its phases are still to
    /// come.
    pub(super) fn resumed(&self, own: Option<TokenStream>, phase: &TokenStream) -> TokenStream {
        let (operation, place) = (self.as_operation(), self.place());
        let (inner_phase, field) = (&self.inner_phase.ident, self.field);
        let event = &self.machine.event;
        let own = own.map(|own| quote!(fom_::own(#own)?;));
        let (at, inner) = (local("at"), local("phase"));
        quote! {
            fn resumed(&mut self, #at: fom_::At<'_, '_, #phase, #event>) -> fom_::Resumed<Self> {
                #own
                let mut start = #operation::START;
                let phase = match #at.phase {
                    P_::#inner_phase { #field: #inner } => #inner,
                    other if fom_::leads_inside::<Self>(Self::kind(other)) => &mut start,
                    _ => return ::core::result::Result::Ok(()),
                };
                let at = fom_::At { phase, fom: #at.fom, entry: #at.entry };
                #operation::resumed(&mut #place, at).map_err(L_::Inner)
            }
        }
    }

    /// Returns the inner operation, from any `self`. The compiler then reports a missing field only once.
    fn place(&self) -> TokenStream {
        let place = &self.place;
        quote!((*self).#place)
    }

    /// Returns the arm of `gate` for the phases of the inner operation.
    pub(super) fn gate(&self, fom: &Ident) -> TokenStream {
        let (operation, place) = (self.as_operation(), self.place());
        let (inner_phase, field, inner) = (&self.inner_phase.ident, self.field, local("phase"));
        quote! {
            P_::#inner_phase { #field: #inner } => #operation::gate(&#place, #inner, #fom),
        }
    }

    /// Returns the arm of `within` or `retry` for the phases of the inner operation.
    pub(super) fn asked(&self, name: &str, fom: &Ident) -> TokenStream {
        let (operation, place) = (self.as_operation(), self.place());
        let (inner_phase, field, inner) = (&self.inner_phase.ident, self.field, local("phase"));
        let name = Ident::new(name, Span::call_site());
        quote! {
            P_::#inner_phase { #field: #inner } => #operation::#name(&#place, #inner, #fom),
        }
    }

    /// Returns the arm of `step` for the phases of the inner operation.
    pub(super) fn arm(&self, at: &Ident) -> TokenStream {
        let (inner, place) = (self.inner, self.place());
        let (inner_phase, field) = (&self.inner_phase.ident, self.field);
        let (phase, entry) = (local("phase"), local("entry"));
        let outer_phase = self.as_outer(&phase.to_token_stream());
        let error = error_type(self.machine);
        quote! {
            (P_::#inner_phase { #field: #phase }, #entry, _) if fom_::is_inside::<#inner>(#phase, &#entry, #at.fom) => {
                let at = fom_::At { phase: #phase, fom: #at.fom, entry: #entry };
                let stepped = fom_::inner::<#inner, #error>(&mut #place, at).await;
                fom_::raised::<#inner, _, _>(stepped, |#phase| #outer_phase)
            }
        }
    }

    /// Returns the inner operation as a `Persistent`, at its name too, so that the compiler reports the same error
    /// only once.
    fn as_persistent(&self) -> TokenStream {
        let (krate, inner) = (&self.machine.krate, self.inner);
        quote_spanned!(inner.span()=> <#inner as #krate::Persistent>)
    }

    /// Returns the migrations of the layer and of the inner operation.
    pub(super) fn migrate(&self) -> TokenStream {
        let (krate, place, persistent) = (&self.machine.krate, &self.place, self.as_persistent());
        let place = match place {
            Member::Named(name) => name.unraw().to_string(),
            Member::Unnamed(index) => index.index.to_string(),
        };
        quote! {
            fn migrate(saved: &mut #krate::snapshot::Saved) -> ::core::result::Result<(), #krate::snapshot::RestoreError> {
                fom_::migrate::<Self>(saved, #place, #persistent::migrate)
            }
        }
    }

    /// Returns the arm for loading a name that is not one of the layer's own.
    pub(super) fn load(&self, name: &Ident, fields: &Ident) -> TokenStream {
        let persistent = self.as_persistent();
        let load = self.as_outer(&quote!(#persistent::load(name, #fields)?));
        quote! {
            _ => match fom_::inner_name::<Self>(#name) {
                ::core::option::Option::Some(name) => #load,
                ::core::option::Option::None => #fields.unknown_phase(#name)?,
            }
        }
    }

    pub(super) fn save(&self, fields: &Ident) -> TokenStream {
        let (field, persistent) = (self.field, self.as_persistent());
        quote!(#persistent::save(#field, #fields))
    }

    /// Returns the parts of the joined graph. `own` is the graph of the layer's own phases.
    pub(super) fn parts(&self, operation: &Type, own: &TokenStream) -> TokenStream {
        let (generics, _, bounds) = operation_generics(self.machine).split_for_impl();
        let inner = self.inner;
        let name = name_parts(operation, inner);
        let was: Vec<TokenStream> = earlier_operations(self.machine)
            .map(|was| {
                let name = name_parts(&was, inner);
                quote!(&[#(#name),*])
            })
            .collect();
        let was = (!was.is_empty())
            .then(|| quote!(const WAS: &'static [&'static [&'static str]] = &[#(#was),*];));
        let items = quote! {
            type Inner = #inner;
            const OWN: &'static G_ = &#own;
            const NAME: &'static [&'static str] = &[#(#name),*];
            #was
        };
        let items = braces(self.machine.operation_span(), items);
        quote! {
            #[automatically_derived]
            impl #generics fom_::Layer for #operation #bounds #items
        }
    }
}

/// Returns the name of the operation, cut where the inner operation is a parameter.
fn name_parts(operation: &Type, inner: &Type) -> Vec<String> {
    let mut parts = vec![String::new()];
    let inner = match inner {
        Type::Path(path) => path.path.get_ident(),
        _ => None,
    };
    collect_name(operation.to_token_stream(), inner, &mut parts);
    parts
}

fn collect_name(tokens: TokenStream, inner: Option<&Ident>, parts: &mut Vec<String>) {
    for token in tokens {
        match token {
            TokenTree::Ident(ident) if Some(&ident) == inner => parts.push(String::new()),
            other => {
                let text = other.to_string().replace(' ', "");
                if let Some(last) = parts.last_mut() {
                    last.push_str(&text);
                }
            }
        }
    }
}

fn local(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}
