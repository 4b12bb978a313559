//! The machine as it was declared: plain data, in the order of the declaration.

use proc_macro2::{Span, TokenStream};
use syn::{Attribute, Generics, Ident, ItemEnum, LitInt, LitStr, Type};

use crate::paths::CratePath;
use crate::syntax::args::Durability;
use crate::syntax::phase::PhaseArgs;
use crate::syntax::versions::Migration;

pub(crate) struct Machine {
    /// The user's enum without our attributes.
    pub(crate) item: ItemEnum,
    pub(crate) krate: CratePath,
    /// `None` only after a mistake was reported.
    pub(crate) operation: Option<Type>,
    /// The key and a name that it had; `None` inside: it was reported.
    pub(crate) operation_was: Vec<(Ident, Option<LitStr>)>,
    /// The same of the enum.
    pub(crate) was: Vec<(Ident, Option<LitStr>)>,
    /// The enum's parameters and those that only the operation has.
    pub(crate) generics: Generics,
    /// What the layer stands around, and the key that says so.
    pub(crate) around: Option<Type>,
    pub(crate) around_key: Option<Ident>,
    pub(crate) error: Option<Type>,
    pub(crate) event: Option<Type>,
    pub(crate) event_key: Option<Ident>,
    pub(crate) transient: bool,
    /// `transient`, where it was written.
    pub(crate) transient_key: Option<Ident>,
    /// The key and the number; `None` inside: it was reported.
    pub(crate) version: Option<(Ident, Option<LitInt>)>,
    pub(crate) migrate_key: Option<Ident>,
    /// Some of it was reported.
    pub(crate) migrate_bad: bool,
    pub(crate) migrations: Vec<Migration>,
    pub(crate) retired_key: Option<Ident>,
    pub(crate) retired: Vec<LitStr>,
    /// As it was written, and which it is.
    pub(crate) durability: Option<(LitStr, Option<Durability>)>,
    pub(crate) phases: Vec<Phase>,
    pub(crate) names: Names,
}

/// What is generated, by name.
pub(crate) struct Names {
    pub(crate) kind: Ident,
    pub(crate) transitions: Ident,
}

pub(crate) struct Phase {
    pub(crate) ident: Ident,
    /// Without `r#`: what stands in records and in pictures.
    pub(crate) name: String,
    pub(crate) cfg: Vec<Attribute>,
    pub(crate) docs: Vec<Attribute>,
    pub(crate) fields: Vec<syn::Field>,
    /// `default`, at each field that may be missing from what an earlier release saved.
    pub(crate) defaults: Vec<Option<Ident>>,
    /// `None` only after a mistake was reported.
    pub(crate) function: Option<Ident>,
    pub(crate) late_function: Option<Ident>,
    pub(crate) exhausted_function: Option<Ident>,
    /// Says which locks are to be taken first.
    pub(crate) locks_function: Option<Ident>,
    pub(crate) failed_function: Option<Ident>,
    /// The successor enum.
    pub(crate) after: Ident,
    /// The successor enum of what runs when it has failed.
    pub(crate) after_failed: Ident,
    pub(crate) mode: Mode,
    pub(crate) exits: Vec<Target>,
    /// Where it goes when it has failed.
    pub(crate) failed: Vec<Target>,
    pub(crate) keep: Vec<Target>,
    pub(crate) args: PhaseArgs,
    /// Where it goes cannot be known, because of this mistake.
    pub(crate) unsure: Option<TokenStream>,
    /// Its data have no names, which was reported.
    pub(crate) tuple: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    Async,
    Sync,
    Blocking,
}

/// A name in `to(..)` or `keep(..)`.
pub(crate) struct Target {
    /// As it was written there.
    pub(crate) token: Ident,
    /// The phase it means, by number.
    pub(crate) phase: Option<usize>,
    /// The phase it probably means, where it means none.
    pub(crate) near: Option<usize>,
}

impl Machine {
    pub(crate) fn is_sync(&self) -> bool {
        // What is inside may be of either kind.
        self.around_key.is_none() && self.working().all(|phase| phase.mode != Mode::Async)
    }

    /// The phases that have a function.
    pub(crate) fn working(&self) -> impl Iterator<Item = &Phase> {
        self.phases
            .iter()
            .filter(|phase| !phase.is_end())
            .filter(|phase| !phase.is_handed_over() || phase.args.failed.is_some())
    }

    /// Of a layer, the phase in whose place the phases of the operation inside stand.
    pub(crate) fn holder(&self) -> Option<&Phase> {
        self.phases.iter().find(|phase| phase.is_inner())
    }

    /// Where the operation is named, for errors about it. Names there are ours: where the operation came out of another macro,
    /// a `self` of its span would be another one.
    pub(crate) fn operation_span(&self) -> Span {
        use syn::spanned::Spanned;
        let operation = self.operation.as_ref();
        operation.map_or_else(Span::call_site, |operation| {
            Span::call_site().located_at(operation.span())
        })
    }

    pub(crate) fn has_cfg(&self) -> bool {
        self.phases.iter().any(|phase| !phase.cfg.is_empty())
    }
}

impl Phase {
    pub(crate) fn is_end(&self) -> bool {
        self.args.end.is_some()
    }

    /// Other phases stand in its place.
    pub(crate) fn is_inner(&self) -> bool {
        self.args.inner.is_some()
    }

    /// Nothing of its own is run there, not even where the phases in its place end: those are ends of the machine.
    pub(crate) fn is_handed_over(&self) -> bool {
        self.is_inner() && self.args.to.is_none()
    }

    /// Whether who goes there brings data along.
    pub(crate) fn takes_data(&self) -> bool {
        !self.fields.is_empty() && !self.is_inner()
    }

    pub(crate) fn on(&self) -> &[Ident] {
        self.args.on.as_ref().map_or(&[], |(_, events)| events)
    }

    /// A sync phase with `on(..)`: its function runs when an event comes.
    pub(crate) fn waits(&self) -> bool {
        self.mode == Mode::Sync && self.args.on.is_some()
    }

    /// Where its own function leads, and those for when it is late or its attempts are used up.
    pub(crate) fn ways(&self) -> Ways<'_> {
        Ways {
            phase: self,
            after: &self.after,
            exits: &self.exits,
            stays: self.waits(),
        }
    }

    /// Where the function leads that runs when it has failed.
    pub(crate) fn ways_out(&self) -> Ways<'_> {
        Ways {
            phase: self,
            after: &self.after_failed,
            exits: &self.failed,
            stays: false,
        }
    }
}

/// Where a function leads.
#[derive(Clone, Copy)]
pub(crate) struct Ways<'a> {
    pub(crate) phase: &'a Phase,
    /// The successor enum.
    pub(crate) after: &'a Ident,
    pub(crate) exits: &'a [Target],
    /// It may go on waiting.
    pub(crate) stays: bool,
}

impl Ways<'_> {
    /// One exit, no data: the function returns `()`.
    pub(crate) fn are_unit(&self, machine: &Machine) -> bool {
        let [exit] = self.exits else {
            return false;
        };
        let Some(target) = exit.phase.or(exit.near) else {
            return false;
        };
        let target = &machine.phases[target];
        !self.stays && !target.takes_data() && target.cfg.is_empty()
    }
}
