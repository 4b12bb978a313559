//! The arguments of `#[fom(..)]`.

use proc_macro2::TokenStream;
use syn::{Expr, Generics, Ident, LitInt, LitStr, Type};

use super::versions::{self, Migration};
use super::{Form, entries, generics, text, ty};
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
                let cure = did_you_mean(other, &["sync", "lazy", "none"]);
                diag.error(text, format!("`{other}` is no durability; {cure}"));
                None
            }
        }
    }
}

pub(crate) struct Args {
    pub(crate) operation: Option<Type>,
    /// The key and the constant with the operation's name. An inner `None` was already reported.
    pub(crate) operation_name: Option<(Ident, Option<Expr>)>,
    /// The earlier names of the operation. A name that is no type was already reported.
    pub(crate) operation_was: Vec<(Ident, Option<LitStr>)>,
    /// The earlier names of the enum.
    pub(crate) was: Vec<(Ident, Option<LitStr>)>,
    pub(crate) generics: Generics,
    /// The operation inside a layer. An inner `None` was already reported.
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
    pub(crate) migrate_bad: bool,
    pub(crate) migrations: Vec<Migration>,
    pub(crate) retired_key: Option<Ident>,
    pub(crate) retired: Vec<LitStr>,
    /// The text as written, and its value. An inner `None` was already reported.
    pub(crate) durability: Option<(LitStr, Option<Durability>)>,
    pub(crate) krate: CratePath,
    /// The path of the package of patterns.
    pub(crate) patterns: CratePath,
}

const KEYS: &[(&str, Form)] = &[
    ("operation", Form::List("operation(Type)")),
    ("generics", Form::List("generics(\"T: Send + 'static\")")),
    ("around", Form::List("around(Type)")),
    ("error", Form::List("error(Type)")),
    ("event", Form::List("event(Type)")),
    ("transient", Form::Flag),
    ("durability", Form::Text("durability = \"lazy\"")),
    ("version", Form::Text("version = 2")),
    ("was", Form::Text("was = \"Name\"")),
    ("migrate", Form::List("migrate(v1(path))")),
    ("retired", Form::List("retired(\"Name\")")),
    ("crate", Form::Text("crate = \"::fom_runtime\"")),
];

impl Args {
    pub(crate) fn parse(tokens: TokenStream, item: &Ident, diag: &mut Diagnostics) -> Self {
        let mut args = Args {
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
            migrate_bad: false,
            migrations: Vec::new(),
            retired_key: None,
            retired: Vec::new(),
            durability: None,
            krate: CratePath::of_runtime(),
            patterns: CratePath::of_patterns(),
        };
        let mut operation_written = false;
        // A mistyped key may have been this key, so its absence is not reported.
        let reported = !diag.is_empty();
        let mut own = Diagnostics::default();
        for entry in entries(tokens, KEYS, "`#[fom(..)]`", &mut own) {
            let key = &entry.key;
            match key.to_string().as_str() {
                "operation" => {
                    operation_written = true;
                    let found = versions::operation(key, &entry.value, &mut own);
                    args.operation = found.operation;
                    args.operation_name = found.name;
                    args.operation_was = found.was;
                }
                "generics" => {
                    if let Some(found) = generics(key, &entry.value, &mut own) {
                        args.generics = found;
                    }
                }
                "around" => {
                    let ty = ty(key, &entry.value, &mut own);
                    args.around = Some((key.clone(), ty));
                }
                "error" => args.error = ty(key, &entry.value, &mut own),
                "event" => {
                    args.event_key = Some(key.clone());
                    args.event = ty(key, &entry.value, &mut own);
                    if let Some(ty) = &args.event
                        && !matches!(ty, Type::Path(path) if path.qself.is_none())
                    {
                        own.error(ty, "the event type is no path; write the name of an enum");
                        args.event = None;
                    }
                }
                "transient" => {
                    args.transient = true;
                    args.transient_key = Some(key.clone());
                }
                "version" => {
                    let number = versions::version(key, &entry.value, &mut own);
                    args.version = Some((key.clone(), number));
                }
                "was" => {
                    let name = text(key, &entry.value, &mut own);
                    let name = name.filter(|name| versions::is_enum(key, name, &mut own));
                    args.was.push((key.clone(), name));
                }
                "migrate" => {
                    let mut bad = Diagnostics::default();
                    args.migrations = versions::migrations(key, &entry.value, &mut bad);
                    args.migrate_key = Some(key.clone());
                    args.migrate_bad = !bad.is_empty();
                    own.append(bad);
                }
                "retired" => {
                    args.retired = versions::retired(key, &entry.value, &mut own);
                    args.retired_key = Some(key.clone());
                }
                "durability" => {
                    args.durability = text(key, &entry.value, &mut own).map(|text| {
                        let word = Durability::parse(&text, &mut own);
                        (text, word)
                    });
                }
                "crate" => {
                    if let Some(text) = text(key, &entry.value, &mut own)
                        && let Some(path) = CratePath::parse(&text, &mut own)
                    {
                        args.patterns = path.clone();
                        args.krate = path;
                    }
                }
                _ => unreachable!("`entries` returns known keys only"),
            }
        }
        if !operation_written && own.is_empty() && !reported {
            own.error(
                item,
                format!("no operation is named for `{item}`; write `#[fom(operation(Type))]` with the type that holds its data"),
            );
        }
        // A mistyped key may have been `transient`.
        args.transient |= !own.is_empty();
        diag.append(own);
        args
    }
}
