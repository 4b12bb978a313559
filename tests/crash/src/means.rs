//! The faults that end a life of the child, and the faults of its disk.

use std::{fmt, str::FromStr};

/// How a life of the child ends, and the faults of its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// A kill. The system continues, and the disk sometimes has a fault.
    Kill,
    /// A power cut. The bytes that are not synced reach the disk in part, or not at all.
    PowerCut,
    /// A kill. In each life the disk returns errors at times.
    FailingDisk,
    /// A kill. In each life the disk is full for a while.
    FullDisk,
}

const NAMES: [(Means, &str); 4] = [
    (Means::Kill, "kill"),
    (Means::PowerCut, "power-cut"),
    (Means::FailingDisk, "failing-disk"),
    (Means::FullDisk, "full-disk"),
];

impl Means {
    /// Returns all names.
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
