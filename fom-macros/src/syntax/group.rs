//! `group(Name, phases(..), ..)`: keys that several phases share, and their functions.

use proc_macro2::{TokenStream, TokenTree};
use syn::Ident;
use syn::ext::IdentExt;

use super::item::PhaseItem;
use super::phase::{Cancelled, time_limit};
use super::within::Within;
use super::words::Meant;
use super::{Entry, Form, Keys, Setting, Value, entries, names};
use crate::diag::{Diagnostics, did_you_mean};

/// The arguments of one `group(..)`.
pub(crate) struct GroupArgs {
    name: Ident,
    phases: Vec<Ident>,
    failed: Option<(Ident, Vec<Ident>)>,
    cancelled: Option<Ident>,
    within: Option<(Ident, Option<Setting<Within>>)>,
    locks: Option<Ident>,
}

const EXAMPLE: &str = "write `group(Saga, phases(Reserve, Charge), failed(Refund))`";

const KEYS: Keys<'_> = Keys {
    what: "`group(..)`",
    known: &[
        ("phases", Form::List("phases(Reserve, Charge)")),
        ("failed", Form::List("failed(Refund)")),
        ("cancelled", Form::Flag),
        ("within", Form::Time("within = \"10m\"")),
        ("locks", Form::Flag),
    ],
    words: &[("timeout", Meant::Key("within"))],
};

impl GroupArgs {
    /// Reads one `group(..)`.
    pub(super) fn parse(key: &Ident, value: &Value, diag: &mut Diagnostics) -> Option<Self> {
        let Value::List(tokens) = value else {
            return None;
        };
        let mut rest = tokens.clone().into_iter();
        let (name, comma) = (rest.next(), rest.next());
        let is_comma = matches!(&comma, Some(TokenTree::Punct(punct)) if punct.as_char() == ',');
        let (Some(TokenTree::Ident(name)), true) = (name, is_comma) else {
            diag.error(
                key,
                format!(
                    "a group begins with its name, after which its functions are called; {EXAMPLE}"
                ),
            );
            return None;
        };
        let mut group = GroupArgs {
            name,
            phases: Vec::new(),
            failed: None,
            cancelled: None,
            within: None,
            locks: None,
        };
        let rest: TokenStream = rest.collect();
        for Entry { key, value } in entries(rest, &KEYS, diag) {
            match key.to_string().as_str() {
                "phases" => group.phases = names(&key, &value, None, diag),
                "failed" => {
                    let exits = names(&key, &value, None, diag);
                    group.failed = Some((key, exits));
                }
                "cancelled" => group.cancelled = Some(key),
                "within" => {
                    let within = time_limit(&key, &value, diag);
                    group.within = Some((key, within));
                }
                "locks" => group.locks = Some(key),
                _ => unreachable!("`entries` returns known keys only"),
            }
        }
        group.check(diag);
        Some(group)
    }

    fn check(&self, diag: &mut Diagnostics) {
        let name = &self.name;
        if self.phases.is_empty() {
            diag.error(name, format!("`{name}` has no phases; {EXAMPLE}"));
        }
        let nothing = self.failed.is_none() && self.within.is_none() && self.locks.is_none();
        if nothing && self.cancelled.is_none() {
            diag.error(
                name,
                format!("`{name}` says nothing about its phases; write `failed(..)`, `within = \"..\"` or `locks` in it"),
            );
        }
        if let (Some(cancelled), None) = (&self.cancelled, &self.failed) {
            diag.error(
                cancelled,
                "`cancelled` needs a way out; write `failed(Phase)` beside it",
            );
        }
        if let Some((within, Some(Setting::Asked | Setting::Written(Within::Adaptive { .. })))) =
            &self.within
        {
            diag.error(
                within,
                "the time limit of a group is not that of one phase; write a duration, or `within(PATH)` with a constant",
            );
        }
    }

    /// Gives the keys to the phases of the group. A key that a phase has itself stays as it is.
    pub(crate) fn spread(mut self, items: &mut [PhaseItem], diag: &mut Diagnostics) {
        let known: Vec<String> = items
            .iter()
            .map(|item| item.ident.unraw().to_string())
            .collect();
        let place = |token: &Ident| {
            let word = token.unraw().to_string();
            known.iter().position(|known| *known == word)
        };
        let mut places = Vec::new();
        self.phases.retain(|token| {
            let Some(place) = place(token) else {
                let known: Vec<&str> = known.iter().map(String::as_str).collect();
                let remedy = did_you_mean(&token.unraw().to_string(), &known);
                diag.error(token, format!("there is no phase `{token}`; {remedy}"));
                return false;
            };
            if let Some(mistake) = refused(&items[place]) {
                diag.error(
                    token,
                    format!("`{token}` {mistake}; remove it from the group"),
                );
                return false;
            }
            places.push(place);
            true
        });
        for at in places {
            self.give(&mut items[at]);
            // The first phase reports an exit that is not there.
            if let Some((_, exits)) = &mut self.failed {
                exits.retain(|exit| place(exit).is_some());
            }
        }
    }

    fn give(&self, item: &mut PhaseItem) {
        let args = &mut item.args;
        if let (Some(failed), None) = (&self.failed, &args.failed) {
            args.failed = Some(failed.clone());
            if let (Some(cancelled), None) = (&self.cancelled, &args.cancelled) {
                args.cancelled = Some((cancelled.clone(), Cancelled::Back));
            }
            args.groups.failed = Some(self.name.clone());
        }
        let is_gated = args.locks.is_some() || args.gate.is_some() || args.limit.is_some();
        if let (Some(locks), false) = (&self.locks, is_gated) {
            args.locks = Some(locks.clone());
            args.groups.locks = Some(self.name.clone());
        }
        if let Some((within, time)) = &self.within {
            if args.within.is_none() {
                args.within = Some((within.clone(), time.clone()));
                args.keep = Some((within.clone(), self.phases.clone()));
            } else {
                args.groups.within = Some(self.name.clone());
            }
        }
    }
}

/// Returns why a phase cannot be in a group.
fn refused(item: &PhaseItem) -> Option<&'static str> {
    if item.args.end.is_some() {
        Some("is an end, in which nothing runs")
    } else if item.args.inner.is_some() {
        Some("is the place of the inner operation, whose failures have another type")
    } else if !item.cfg.is_empty() {
        Some("exists only under its `#[cfg]`")
    } else {
        None
    }
}
