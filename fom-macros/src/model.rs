//! The machine as declared: plain data, in the order of the declaration.

use proc_macro2::{Span, TokenStream};
use syn::{Attribute, Expr, Generics, Ident, ItemEnum, LitInt, LitStr, Type};

use crate::paths::CratePath;
use crate::syntax::args::Durability;
use crate::syntax::phase::PhaseArgs;
use crate::syntax::secret::Secret;
use crate::syntax::versions::Migration;

pub(crate) struct Machine {
    /// The user's enum, without our attributes.
    pub(crate) item: ItemEnum,
    pub(crate) krate: CratePath,
    pub(crate) patterns: CratePath,
    /// `None` only after a mistake was reported.
    pub(crate) operation: Option<Type>,
    /// The key and the constant with the operation's name. An inner `None` was already reported.
    pub(crate) operation_name: Option<(Ident, Option<Expr>)>,
    /// The key and an earlier name. An inner `None` was already reported.
    pub(crate) operation_was: Vec<(Ident, Option<LitStr>)>,
    /// The same for the enum.
    pub(crate) was: Vec<(Ident, Option<LitStr>)>,
    /// The enum's parameters, and the parameters that only the operation has.
    pub(crate) generics: Generics,
    /// The inner operation of the layer, and its key.
    pub(crate) around: Option<Type>,
    pub(crate) around_key: Option<Ident>,
    pub(crate) error: Option<Type>,
    pub(crate) event: Option<Type>,
    pub(crate) event_key: Option<Ident>,
    pub(crate) transient: bool,
    /// `transient`, where it was written.
    pub(crate) transient_key: Option<Ident>,
    /// The key and the number. An inner `None` was already reported.
    pub(crate) version: Option<(Ident, Option<LitInt>)>,
    pub(crate) migrate_key: Option<Ident>,
    /// Whether a mistake in the migrations was already reported.
    pub(crate) migrate_has_mistake: bool,
    pub(crate) migrations: Vec<Migration>,
    pub(crate) retired_key: Option<Ident>,
    pub(crate) retired: Vec<LitStr>,
    /// The text as written, and its value.
    pub(crate) durability: Option<(LitStr, Option<Durability>)>,
    /// `failed = "forget"`: the journal does not keep an operation that fails.
    pub(crate) failed: Option<LitStr>,
    /// `unknown = "keep"`: a fom carries along the fields that this release does not know.
    pub(crate) unknown: Option<LitStr>,
    /// `secret(field)`: the key, and the fields that no tool shows.
    pub(crate) secret: Option<(Ident, Vec<Secret>)>,
    pub(crate) phases: Vec<Phase>,
    pub(crate) names: Names,
    /// Whether the enum has the name of its operation, which was already reported.
    pub(crate) named_like_operation: bool,
    /// Whether an editor reads the output, and may copy signatures into the user's code.
    pub(crate) for_editor: bool,
}

/// The names of generated items.
pub(crate) struct Names {
    pub(crate) kind: Ident,
    pub(crate) end: Ident,
    pub(crate) transitions: Ident,
}

pub(crate) struct Phase {
    pub(crate) ident: Ident,
    /// The name without `r#`, for records and drawings.
    pub(crate) name: String,
    pub(crate) cfg: Vec<Attribute>,
    pub(crate) docs: Vec<Attribute>,
    pub(crate) fields: Vec<syn::Field>,
    /// `default`, at each field that may be missing from the data of an earlier release.
    pub(crate) defaults: Vec<Option<Ident>>,
    /// `None` only after a mistake was reported.
    pub(crate) function: Option<Ident>,
    pub(crate) late_function: Option<Ident>,
    pub(crate) exhausted_function: Option<Ident>,
    /// The function that says which locks to take first.
    pub(crate) locks_function: Option<Ident>,
    /// The functions that say the time limit and the retries.
    pub(crate) within_function: Option<Ident>,
    pub(crate) retry_function: Option<Ident>,
    /// The function that returns the gate of the phase.
    pub(crate) gate_function: Option<Ident>,
    /// The function that checks the invariant of the phase.
    pub(crate) invariant_function: Option<Ident>,
    pub(crate) failed_function: Option<Ident>,
    /// Whether the function for a failure, and the function for the locks, are those of a group.
    pub(crate) failed_shared: Shared,
    pub(crate) locks_shared: Shared,
    /// The kind of the function for a failure.
    pub(crate) failed_mode: Mode,
    /// The successor enum.
    pub(crate) after: Ident,
    /// The successor enum of the function that runs after a failure.
    pub(crate) after_failed: Ident,
    /// The struct with the data, by name.
    pub(crate) data: Ident,
    /// The same for the functions that only look at the data.
    pub(crate) data_ref: Ident,
    pub(crate) mode: Mode,
    pub(crate) exits: Vec<Target>,
    /// The next phases after a failure.
    pub(crate) failed: Vec<Target>,
    pub(crate) keep: Vec<Target>,
    pub(crate) args: PhaseArgs,
    /// The mistake because of which the next phases are unknown.
    pub(crate) exits_mistake: Option<TokenStream>,
    /// Whether the data have no names, which was already reported.
    pub(crate) tuple: bool,
}

/// Whether a function is one of a group of phases.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shared {
    /// The function is of this phase alone.
    Not,
    /// This is the first phase of the group. It declares the function.
    First,
    /// An earlier phase of the group declares the function.
    Later,
}

impl Shared {
    pub(crate) fn of(group: Option<&Ident>) -> Self {
        group.map_or(Self::Not, |_| Self::First)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    Async,
    Sync,
    Blocking,
}

/// A name in `to(..)` or `keep(..)`.
pub(crate) struct Target {
    /// The name as written there.
    pub(crate) token: Ident,
    /// The number of the phase.
    pub(crate) phase: Option<usize>,
    /// The phase that is probably meant, if no phase has this name.
    pub(crate) near: Option<usize>,
    /// The name of the edge, in `to(..)`.
    pub(crate) edge: Option<String>,
}

impl Machine {
    pub(crate) fn is_sync(&self) -> bool {
        // The inner operation may be of either kind.
        let mut with_function = self.working().chain(self.entries());
        self.around_key.is_none() && with_function.all(|phase| phase.mode != Mode::Async)
    }

    /// Returns the phases that have a function.
    pub(crate) fn working(&self) -> impl Iterator<Item = &Phase> {
        self.phases
            .iter()
            .filter(|phase| !phase.is_end())
            .filter(|phase| !phase.is_handed_over() || phase.args.failed.is_some())
    }

    /// Returns the ends that have a function.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Phase> {
        let ends = self.phases.iter().filter(|phase| phase.is_end());
        ends.filter(|phase| phase.args.entry.is_some())
    }

    /// Returns the phase of a layer that the phases of the inner operation replace.
    pub(crate) fn inner_phase(&self) -> Option<&Phase> {
        self.phases.iter().find(|phase| phase.is_inner())
    }

    /// Returns the place of the operation's name, for errors about it. Names at this span are ours. If the operation
    /// came from another macro, a `self` with its span would be another `self`.
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

    /// Returns whether other phases take the place of this phase.
    pub(crate) fn is_inner(&self) -> bool {
        self.args.inner.is_some()
    }

    /// Returns whether the phase runs nothing of its own. The ends of the phases in its place are then ends of the
    /// machine.
    pub(crate) fn is_handed_over(&self) -> bool {
        self.is_inner() && self.args.to.is_none()
    }

    /// Returns whether a transition to the phase has data.
    pub(crate) fn takes_data(&self) -> bool {
        !self.fields.is_empty() && !self.is_inner()
    }

    /// Returns whether the functions of the phase get its data as a struct.
    pub(crate) fn is_by_name(&self) -> bool {
        self.fields.len() > 1 && !self.tuple && !self.is_inner()
    }

    /// Returns whether any function runs in the phase.
    pub(crate) fn is_run_by_functions(&self) -> bool {
        let functions = [
            &self.function,
            &self.late_function,
            &self.exhausted_function,
            &self.failed_function,
        ];
        functions.into_iter().any(Option::is_some)
    }

    pub(crate) fn on(&self) -> &[Ident] {
        self.args.on.as_ref().map_or(&[], |(_, events)| events)
    }

    /// Returns whether this is a sync phase with `on(..)`. The function of such a phase runs when an event arrives.
    pub(crate) fn waits(&self) -> bool {
        self.mode == Mode::Sync && self.args.on.is_some()
    }

    /// Returns the exits of the phase's own function, and of its `_late` and `_exhausted` functions.
    pub(crate) fn exit_set(&self) -> ExitSet<'_> {
        ExitSet {
            phase: self,
            after: &self.after,
            exits: &self.exits,
            stays: self.waits(),
        }
    }

    /// Returns the exits of the function that runs after a failure.
    pub(crate) fn failed_exit_set(&self) -> ExitSet<'_> {
        ExitSet {
            phase: self,
            after: &self.after_failed,
            exits: &self.failed,
            stays: false,
        }
    }
}

/// The exits of a function.
#[derive(Clone, Copy)]
pub(crate) struct ExitSet<'a> {
    pub(crate) phase: &'a Phase,
    /// The successor enum.
    pub(crate) after: &'a Ident,
    pub(crate) exits: &'a [Target],
    /// Whether the function may continue to wait.
    pub(crate) stays: bool,
}

impl ExitSet<'_> {
    /// Returns whether there is one exit without data: the function returns `()`.
    pub(crate) fn is_unit(&self, machine: &Machine) -> bool {
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
