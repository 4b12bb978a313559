//! The arguments of `#[fom(..)]`.

use proc_macro2::TokenStream;
use syn::{Expr, Generics, Ident, LitInt, LitStr, Type};

use super::group::GroupArgs;
use super::secret::{Secret, secret};
use super::versions::{self, Migration};
use super::{Entry, Form, Keys, entries, generics, text, ty, words};
use crate::diag::{Diagnostics, did_you_mean};
use crate::paths::CratePath;

/// When a transition counts as done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Durability {
    Sync,
    Lazy,
    None,
}

impl Durability {
    fn parse(text: &LitStr, diag: &mut Diagnostics) -> Option<Self> {
        match text.value().as_str() {
            "sync" => Some(Self::Sync),
            "lazy" => Some(Self::Lazy),
            "none" => Some(Self::None),
            other => {
                let remedy = did_you_mean(other, &["sync", "lazy", "none"]);
                diag.error(text, format!("`{other}` is not a durability; {remedy}"));
                None
            }
        }
    }
}

/// Reports a text of `failed` that is not known.
fn check_failed(text: &LitStr, diag: &mut Diagnostics) {
    if text.value() != "forget" {
        let other = text.value();
        diag.error(
            text,
            format!("`{other}` is not a value of `failed`; write `failed = \"forget\"`, or remove the key to keep what fails"),
        );
    }
}

/// Reports a text of `unknown` that is not known.
fn check_unknown(text: &LitStr, diag: &mut Diagnostics) {
    if text.value() != "keep" {
        let other = text.value();
        diag.error(
            text,
            format!("`{other}` is not a value of `unknown`; write `unknown = \"keep\"` to keep unknown fields, or remove the key"),
        );
    }
}

pub(crate) struct Args {
    pub(crate) operation: Option<Type>,
    /// The key and the constant with the operation's name. An inner `None` was already reported.
    pub(crate) operation_name: Option<(Ident, Option<Expr>)>,
    /// The earlier names of the operation. A name that is not a type was already reported.
    pub(crate) operation_was: Vec<(Ident, Option<LitStr>)>,
    /// The earlier names of the enum.
    pub(crate) was: Vec<(Ident, Option<LitStr>)>,
    pub(crate) generics: Generics,
    /// The inner operation of a layer. An inner `None` was already reported.
    pub(crate) around: Option<(Ident, Option<Type>)>,
    pub(crate) error: Option<Type>,
    /// The event type and the tokens of the whole `event(..)`.
    pub(crate) event: Option<Type>,
    pub(crate) event_key: Option<Ident>,
    pub(crate) transient: bool,
    pub(crate) transient_key: Option<Ident>,
    /// The key and the number. An inner `None` was already reported.
    pub(crate) version: Option<(Ident, Option<LitInt>)>,
    pub(crate) migrate_key: Option<Ident>,
    /// Whether a mistake in the migrations was already reported.
    pub(crate) migrate_has_mistake: bool,
    pub(crate) migrations: Vec<Migration>,
    pub(crate) retired_key: Option<Ident>,
    pub(crate) retired: Vec<LitStr>,
    /// The text as written, and its value. An inner `None` was already reported.
    pub(crate) durability: Option<(LitStr, Option<Durability>)>,
    /// The text of `failed`, as written. Whether it is known was already reported.
    pub(crate) failed: Option<LitStr>,
    pub(crate) groups: Vec<GroupArgs>,
    /// The text of `unknown`, in the same way.
    pub(crate) unknown: Option<LitStr>,
    /// The key, and the fields that no tool shows.
    pub(crate) secret: Option<(Ident, Vec<Secret>)>,
    pub(crate) krate: CratePath,
    /// The path of the package of patterns.
    pub(crate) patterns: CratePath,
}

const KEYS: Keys<'_> = Keys {
    what: "`#[fom(..)]`",
    known: KNOWN,
    words: words::OF_MACHINE,
};

const KNOWN: &[(&str, Form)] = &[
    ("operation", Form::List("operation(Type)")),
    ("generics", Form::List("generics(\"T: Send + 'static\")")),
    ("around", Form::List("around(Type)")),
    ("error", Form::List("error(Type)")),
    ("event", Form::List("event(Type)")),
    ("transient", Form::Flag),
    (
        "group",
        Form::List("group(Saga, phases(Reserve, Charge), failed(Refund))"),
    ),
    ("durability", Form::Text("durability = \"lazy\"")),
    ("failed", Form::Text("failed = \"forget\"")),
    ("unknown", Form::Text("unknown = \"keep\"")),
    ("secret", Form::List("secret(field)")),
    ("version", Form::Text("version = 2")),
    ("was", Form::Text("was = \"Name\"")),
    ("migrate", Form::List("migrate(v1(path))")),
    ("retired", Form::List("retired(\"Name\")")),
    ("crate", Form::Text("crate = \"::fom_runtime\"")),
];

impl Args {
    pub(crate) fn parse(tokens: TokenStream, item: &Ident, diag: &mut Diagnostics) -> Self {
        let mut args = Args::empty();
        // A mistyped key may have been this key, so its absence is not reported.
        let reported = !diag.is_empty();
        let mut own = Diagnostics::default();
        let mut operation_written = false;
        for entry in entries(tokens, &KEYS, &mut own) {
            operation_written |= entry.key == "operation";
            args.set(entry, &mut own);
        }
        if !operation_written && own.is_empty() && !reported {
            own.error(
                item,
                format!("`{item}` names no operation; write `#[fom(operation(Type))]` with the type that holds the data"),
            );
        }
        // A mistyped key may have been `transient`.
        args.transient |= !own.is_empty();
        diag.append(own);
        args
    }

    fn empty() -> Self {
        Args {
            operation: None,
            operation_name: None,
            operation_was: Vec::new(),
            was: Vec::new(),
            generics: Generics::default(),
            around: None,
            error: None,
            event: None,
            event_key: None,
            transient: false,
            transient_key: None,
            version: None,
            migrate_key: None,
            migrate_has_mistake: false,
            migrations: Vec::new(),
            retired_key: None,
            retired: Vec::new(),
            durability: None,
            failed: None,
            unknown: None,
            secret: None,
            groups: Vec::new(),
            krate: CratePath::of_runtime(),
            patterns: CratePath::of_patterns(),
        }
    }

    /// Reads the value of one key.
    fn set(&mut self, entry: Entry, diag: &mut Diagnostics) {
        let Entry { key, value } = entry;
        match key.to_string().as_str() {
            "operation" => {
                let found = versions::operation(&key, &value, diag);
                self.operation = found.operation;
                self.operation_name = found.name;
                self.operation_was = found.was;
            }
            "generics" => {
                if let Some(found) = generics(&key, &value, diag) {
                    self.generics = found;
                }
            }
            "around" => {
                let ty = ty(&key, &value, diag);
                self.around = Some((key, ty));
            }
            "error" => self.error = ty(&key, &value, diag),
            "event" => {
                self.event = ty(&key, &value, diag);
                self.event_key = Some(key);
                if let Some(ty) = &self.event
                    && !matches!(ty, Type::Path(path) if path.qself.is_none())
                {
                    diag.error(
                        ty,
                        "the event type is not a path; write the name of an enum",
                    );
                    self.event = None;
                }
            }
            "transient" => {
                self.transient = true;
                self.transient_key = Some(key);
            }
            "version" => {
                let number = versions::version(&key, &value, diag);
                self.version = Some((key, number));
            }
            "was" => {
                let name = text(&key, &value, diag);
                let name = name.filter(|name| versions::is_enum(&key, name, diag));
                self.was.push((key, name));
            }
            "migrate" => {
                let mut mistakes = Diagnostics::default();
                self.migrations = versions::migrations(&key, &value, &mut mistakes);
                self.migrate_key = Some(key);
                self.migrate_has_mistake = !mistakes.is_empty();
                diag.append(mistakes);
            }
            "retired" => {
                self.retired = versions::retired(&key, &value, diag);
                self.retired_key = Some(key);
            }
            "durability" => {
                self.durability = text(&key, &value, diag).map(|text| {
                    let word = Durability::parse(&text, diag);
                    (text, word)
                });
            }
            "failed" => {
                self.failed = text(&key, &value, diag).inspect(|text| check_failed(text, diag));
            }
            "group" => self.groups.extend(GroupArgs::parse(&key, &value, diag)),
            "unknown" => {
                self.unknown = text(&key, &value, diag).inspect(|text| check_unknown(text, diag));
            }
            "secret" => {
                let fields = secret(&key, &value, diag);
                self.secret = Some((key, fields));
            }
            "crate" => {
                if let Some(text) = text(&key, &value, diag)
                    && let Some(path) = CratePath::parse(&text, diag)
                {
                    self.patterns = path.clone();
                    self.krate = path;
                }
            }
            _ => unreachable!("`entries` returns known keys only"),
        }
    }
}
