//! The arguments of `#[phase(..)]`.

use proc_macro2::TokenStream;
use syn::{Ident, LitStr};

use super::duration::{self, Retry};
use super::hung::{self, Hung};
use super::versions::is_name;
use super::within::{self, Within};
use super::{Entry, Form, Keys, Setting, Value, constant, entries, exits, names, text, words};
use crate::diag::Diagnostics;

/// The arguments of one `#[phase(..)]`. Keys are kept for their places.
#[derive(Default)]
pub(crate) struct PhaseArgs {
    pub(crate) start: Option<Ident>,
    pub(crate) end: Option<Ident>,
    pub(crate) failure: Option<Ident>,
    /// The end has a function.
    pub(crate) entry: Option<Ident>,
    /// The key, and the operation's field with the inner operation. An inner `None` was already reported.
    pub(crate) inner: Option<(Ident, Option<Ident>)>,
    pub(crate) late: Option<Ident>,
    pub(crate) exhausted: Option<Ident>,
    pub(crate) take: Option<Ident>,
    pub(crate) sync: Option<Ident>,
    pub(crate) blocking: Option<Ident>,
    pub(crate) locks: Option<Ident>,
    pub(crate) gate: Option<Ident>,
    /// The key and the name of the limit. An inner `None` was already reported.
    pub(crate) limit: Option<(Ident, Option<LitStr>)>,
    pub(crate) invariant: Option<Ident>,
    pub(crate) to: Option<(Ident, Vec<Ident>)>,
    /// The names of edges in `to(..)`, each with its phase.
    pub(crate) edges: Vec<(Ident, LitStr)>,
    pub(crate) on: Option<(Ident, Vec<Ident>)>,
    pub(crate) keep: Option<(Ident, Vec<Ident>)>,
    pub(crate) failed: Option<(Ident, Vec<Ident>)>,
    pub(crate) cancelled: Option<(Ident, Cancelled)>,
    /// The time limit. An inner `None` was written, but was already reported.
    pub(crate) within: Option<(Ident, Option<Setting<Within>>)>,
    /// The time after which a fom counts as hung. An inner `None` was already reported.
    pub(crate) hung: Option<(Ident, Option<Hung>)>,
    /// The key and an earlier name of the phase. An inner `None` was already reported.
    pub(crate) was: Vec<(Ident, Option<LitStr>)>,
    pub(crate) retry: Option<(Ident, Option<Setting<Retry>>)>,
    pub(crate) groups: Groups,
    /// Whether a mistake here was already reported.
    pub(crate) has_mistake: bool,
    /// The mistake because of which the next phases are unknown.
    pub(crate) exits_mistake: Option<TokenStream>,
}

/// What a cancel does in the phase.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cancelled {
    /// It takes the exits of `failed(..)`.
    Back,
    /// It waits until the phase is left.
    Later,
}

impl Cancelled {
    /// Reads `cancelled` or `cancelled = "later"`.
    fn parse(key: &Ident, value: &Value, diag: &mut Diagnostics) -> Self {
        let text = text(key, value, diag);
        if let Some(text) = text.as_ref().filter(|text| text.value() != "later") {
            let other = text.value();
            diag.error(
                text,
                format!("`{other}` is not a value of `cancelled`; write `cancelled = \"later\"`, or `cancelled` beside `failed(..)`"),
            );
        }
        match value {
            Value::None => Self::Back,
            _ => Self::Later,
        }
    }
}

/// The groups from which the phase has something.
#[derive(Default)]
pub(crate) struct Groups {
    /// The group with the function for a failure.
    pub(crate) failed: Option<Ident>,
    /// The group with the function for the locks.
    pub(crate) locks: Option<Ident>,
    /// The group with a deadline, if the phase has a time limit of its own.
    pub(crate) within: Option<Ident>,
}

const KEYS: Keys<'_> = Keys {
    what: "`#[phase(..)]`",
    known: KNOWN,
    words: words::OF_PHASE,
};

const KNOWN: &[(&str, Form)] = &[
    ("start", Form::Flag),
    ("end", Form::Flag),
    ("failure", Form::Flag),
    ("entry", Form::Flag),
    ("inner", Form::List("inner(field)")),
    ("to", Form::List("to(Phase, Other)")),
    ("within", Form::Time("within = \"2s\"")),
    ("hung", Form::Text("hung = \"5m\"")),
    ("late", Form::Flag),
    ("failed", Form::List("failed(Phase, Other)")),
    ("cancelled", Form::FlagOrText("cancelled = \"later\"")),
    ("take", Form::Flag),
    ("sync", Form::Flag),
    ("blocking", Form::Flag),
    ("locks", Form::Flag),
    ("gate", Form::Flag),
    ("limit", Form::Text("limit = \"charges\"")),
    ("invariant", Form::Flag),
    ("on", Form::List("on(Event, Other)")),
    ("retry", Form::Time("retry = \"3, 50ms..2s\"")),
    ("exhausted", Form::Flag),
    ("keep", Form::List("keep(Phase, Other)")),
    ("was", Form::Text("was = \"Name\"")),
];

const FIELD_KEYS: Keys<'_> = Keys {
    what: "`#[phase(..)]` on a field",
    known: &[("default", Form::Flag)],
    words: &[],
};

/// Returns the `default` of a `#[phase(..)]` on a field, if it is there.
pub(crate) fn of_field(tokens: TokenStream, diag: &mut Diagnostics) -> Option<Ident> {
    let keys = entries(tokens, &FIELD_KEYS, diag);
    keys.into_iter().map(|entry| entry.key).next()
}

/// Whether this is the name of a limit. Reports the mistake.
fn is_limit(name: &LitStr, diag: &mut Diagnostics) -> bool {
    let is_name = !name.value().trim().is_empty();
    if !is_name {
        diag.error(
            name,
            "a limit needs a name, by which the program sets it; write `limit = \"charges\"`",
        );
    }
    is_name
}

/// Reads the value of `within`.
pub(super) fn time_limit(
    key: &Ident,
    value: &Value,
    diag: &mut Diagnostics,
) -> Option<Setting<Within>> {
    match value {
        Value::None => Some(Setting::Asked),
        Value::List(path) => constant(key, path, "RING_TIME", diag).map(Setting::Constant),
        value => parsed(key, value, within::within, diag).map(Setting::Written),
    }
}

/// Parses the text of a key. A mistake is reported at the text.
fn parsed<T>(
    key: &Ident,
    value: &Value,
    parse: fn(&str) -> Result<T, String>,
    diag: &mut Diagnostics,
) -> Option<T> {
    let text = text(key, value, diag)?;
    parse(&text.value())
        .map_err(|message| diag.error(&text, message))
        .ok()
}

impl PhaseArgs {
    /// Reads the keys of the phase with this name.
    pub(crate) fn parse(tokens: TokenStream, phase: &Ident, diag: &mut Diagnostics) -> Self {
        let mut own = Diagnostics::default();
        let mut args = PhaseArgs::default();
        for Entry { key, value } in entries(tokens, &KEYS, &mut own) {
            match key.to_string().as_str() {
                "start" => args.start = Some(key),
                "end" => args.end = Some(key),
                "failure" => args.failure = Some(key),
                "entry" => args.entry = Some(key),
                "inner" => {
                    let names = names(&key, &value, None, &mut own);
                    for more in names.iter().skip(1) {
                        own.error(more, "the inner operation is in one field; keep one name");
                    }
                    args.inner = Some((key, names.into_iter().next()));
                }
                "late" => args.late = Some(key),
                "exhausted" => args.exhausted = Some(key),
                "take" => args.take = Some(key),
                "sync" => args.sync = Some(key),
                "blocking" => args.blocking = Some(key),
                "locks" => args.locks = Some(key),
                "gate" => args.gate = Some(key),
                "limit" => {
                    let name = text(&key, &value, &mut own);
                    let name = name.filter(|name| is_limit(name, &mut own));
                    args.limit = Some((key, name));
                }
                "invariant" => args.invariant = Some(key),
                "to" => {
                    let (names, edges) = exits(&key, &value, phase, &mut own);
                    if names.is_empty() {
                        args.exits_mistake = own.first();
                    }
                    args.edges = edges;
                    args.to = Some((key, names));
                }
                "on" => args.on = Some((key.clone(), names(&key, &value, None, &mut own))),
                "failed" => {
                    args.failed = Some((key.clone(), names(&key, &value, Some(phase), &mut own)))
                }
                "cancelled" => {
                    let cancelled = Cancelled::parse(&key, &value, &mut own);
                    args.cancelled = Some((key, cancelled));
                }
                "keep" => {
                    args.keep = Some((key.clone(), names(&key, &value, Some(phase), &mut own)))
                }
                "was" => {
                    let name = text(&key, &value, &mut own);
                    let name = name.filter(|name| is_name(&key, name, &mut own));
                    args.was.push((key, name));
                }
                "within" => {
                    let within = time_limit(&key, &value, &mut own);
                    args.within = Some((key, within));
                }
                "hung" => {
                    let hung = parsed(&key, &value, hung::hung, &mut own);
                    args.hung = Some((key, hung));
                }
                "retry" => {
                    let retry = match &value {
                        Value::None => Some(Setting::Asked),
                        Value::List(path) => {
                            constant(&key, path, "RETRIES", &mut own).map(Setting::Constant)
                        }
                        value => {
                            parsed(&key, value, duration::retry, &mut own).map(Setting::Written)
                        }
                    };
                    args.retry = Some((key, retry));
                }
                _ => unreachable!("`entries` returns known keys only"),
            }
        }
        args.has_mistake = !own.is_empty();
        diag.append(own);
        args
    }
}
