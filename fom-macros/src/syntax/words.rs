//! The words of other systems, and the keys that are meant.

/// What a word means here.
#[derive(Clone, Copy)]
pub(crate) enum Meant {
    /// This key of the same attribute.
    Key(&'static str),
    /// Something that is written at another place. The text is the remedy.
    Elsewhere(&'static str),
}

/// Words in `#[fom(..)]`.
pub(crate) const OF_MACHINE: &[(&str, Meant)] = &[
    (
        "initial",
        Meant::Elsewhere("write `start` in the `#[phase(..)]` of the phase that runs first"),
    ),
    (
        "start",
        Meant::Elsewhere("write `start` in the `#[phase(..)]` of the phase that runs first"),
    ),
    (
        "terminal",
        Meant::Elsewhere("write `#[phase(end)]` on each end"),
    ),
    (
        "final",
        Meant::Elsewhere("write `#[phase(end)]` on each end"),
    ),
    ("end", Meant::Elsewhere("write `#[phase(end)]` on each end")),
    (
        "states",
        Meant::Elsewhere("the variants of the enum are the phases, so remove it"),
    ),
    (
        "transitions",
        Meant::Elsewhere("write `to(..)` in the `#[phase(..)]` of each phase"),
    ),
    (
        "next",
        Meant::Elsewhere("write `to(..)` in the `#[phase(..)]` of each phase"),
    ),
    (
        "timeout",
        Meant::Elsewhere("write `within = \"2s\"` in the `#[phase(..)]` of a phase"),
    ),
    (
        "guard",
        Meant::Elsewhere("write `gate` in the `#[phase(..)]` of a phase"),
    ),
    ("events", Meant::Key("event")),
];

/// Words in `#[phase(..)]`.
pub(crate) const OF_PHASE: &[(&str, Meant)] = &[
    ("initial", Meant::Key("start")),
    ("terminal", Meant::Key("end")),
    ("final", Meant::Key("end")),
    ("next", Meant::Key("to")),
    ("states", Meant::Key("to")),
    ("transitions", Meant::Key("to")),
    ("timeout", Meant::Key("within")),
    // Without recovery, because the function of the gate is not there.
    (
        "guard",
        Meant::Elsewhere("write `gate`, and the function that returns the gate"),
    ),
    ("event", Meant::Key("on")),
    ("events", Meant::Key("on")),
];
