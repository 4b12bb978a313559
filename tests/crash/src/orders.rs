//! The orders of the parent to a child.

use std::{collections::BTreeMap, fmt, path::PathBuf, str::FromStr};

use crate::{journals::Broken, means::Means, points::Point};

/// The orders for one life.
#[derive(Clone, Debug)]
pub(crate) struct Orders {
    pub(crate) journal: PathBuf,
    pub(crate) history: PathBuf,
    pub(crate) life: u64,
    /// The kill point, and the number of the pass at which the child dies there.
    pub(crate) point: Point,
    pub(crate) nth: u64,
    pub(crate) broken: Broken,
    pub(crate) means: Means,
    /// The time of the power cut in microseconds from the beginning, unless the point comes first.
    pub(crate) cut_after: u64,
    /// The seed that decides about the bytes that are not synced.
    pub(crate) luck: u64,
    /// Whether the child begins nothing new, and ends when nothing is in flight.
    pub(crate) drain: bool,
    pub(crate) localities: usize,
    /// The most restored foms in memory at once.
    pub(crate) resident: usize,
    /// The seed of the disk faults; 0 means none.
    pub(crate) faults: u64,
    /// How long the child cannot read what a newer release wrote, in milliseconds, before it acts as that release.
    pub(crate) old_for: Option<u64>,
    /// The operations to submit again with their ids.
    pub(crate) again: Vec<(char, u64)>,
}

impl Orders {
    /// Returns the orders as lines.
    pub(crate) fn words(&self) -> Vec<String> {
        let again = self.again.iter().map(|(letter, n)| format!("{letter}{n}"));
        vec![
            format!("journal={}", self.journal.display()),
            format!("history={}", self.history.display()),
            format!("life={}", self.life),
            format!("point={}", self.point),
            format!("nth={}", self.nth),
            format!("broken={}", self.broken),
            format!("means={}", self.means),
            format!("cut-after={}", self.cut_after),
            format!("luck={}", self.luck),
            format!("drain={}", self.drain),
            format!("localities={}", self.localities),
            format!("resident={}", self.resident),
            format!("faults={}", self.faults),
            format!(
                "old-for={}",
                self.old_for.map_or("-".into(), |for_| for_.to_string())
            ),
            format!("again={}", again.collect::<Vec<_>>().join(",")),
        ]
    }

    /// Parses the lines.
    pub(crate) fn parse(words: &[String]) -> Result<Self, String> {
        let said: BTreeMap<_, _> = words
            .iter()
            .filter_map(|word| word.split_once('='))
            .collect();
        let word = |name: &str| {
            said.get(name)
                .copied()
                .ok_or(format!("`{name}` is not said"))
        };
        fn parsed<T: FromStr<Err: fmt::Display>>(word: &str) -> Result<T, String> {
            word.parse().map_err(|error| format!("{word}: {error}"))
        }
        let again = word("again")?.split(',').filter(|word| !word.is_empty());
        Ok(Self {
            journal: word("journal")?.into(),
            history: word("history")?.into(),
            life: parsed(word("life")?)?,
            point: parsed(word("point")?)?,
            nth: parsed(word("nth")?)?,
            broken: parsed(word("broken")?)?,
            means: parsed(word("means")?)?,
            cut_after: parsed(word("cut-after")?)?,
            luck: parsed(word("luck")?)?,
            drain: parsed(word("drain")?)?,
            localities: parsed(word("localities")?)?,
            resident: parsed(word("resident")?)?,
            faults: parsed(word("faults")?)?,
            old_for: match word("old-for")? {
                "-" => None,
                time => Some(parsed(time)?),
            },
            again: again
                .map(|word| {
                    let letter = word.chars().next().unwrap_or('?');
                    Ok((letter, parsed(&word[letter.len_utf8()..])?))
                })
                .collect::<Result<_, String>>()?,
        })
    }
}
