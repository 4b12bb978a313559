//! By what a child is stopped, or what its disk is like.

use std::{fmt, str::FromStr};

/// What happens to the child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// It is killed, and the system goes on; now and then its disk has a fault.
    Kill,
    /// The power goes: what was not synced reached the disk in part, or not at all.
    PowerCut,
    /// It is killed, and in each life its disk fails at times.
    FailingDisk,
    /// It is killed, and in each life its disk is full for a while.
    FullDisk,
}

const NAMES: [(Means, &str); 4] = [
    (Means::Kill, "kill"),
    (Means::PowerCut, "power-cut"),
    (Means::FailingDisk, "failing-disk"),
    (Means::FullDisk, "full-disk"),
];

impl Means {
    /// The names of all.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|(_, name)| *name)
    }
}

impl fmt::Display for Means {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(means, _)| means == self);
        f.write_str(name.map_or("?", |(_, name)| name))
    }
}

impl FromStr for Means {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = NAMES.iter().find(|(_, of)| *of == name);
        found
            .map(|(means, _)| *means)
            .ok_or_else(|| format!("there are no means `{name}`"))
    }
}
