//! One page of the foms that a survey finds: the first ones in an order, after a cursor.

use std::{collections::BTreeMap, fmt, str::FromStr};

use serde::{Serialize, Serializer};

use crate::{fom::AnyRef, id::FomId, runtime::observe::listing::events};

/// The most foms on a page.
const LARGEST: usize = 1000;

/// Which foms a [survey](crate::observe::Inspect::survey) lists, of those that its filter covers. Default: none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Page {
    /// The number of foms on the page. At most 1,000; a larger number counts as 1,000. Default: 0.
    pub limit: usize,
    /// The order of the foms. Default: the longest in its phase first.
    pub sort: Sort,
    /// Where the page begins. Default: with the first fom.
    pub after: Option<Cursor>,
    /// The number of foms that are named in each [`Group`](crate::observe::Group). Default: 0.
    pub oldest: usize,
}

impl Page {
    /// Returns the first page, with this number of foms in the default order.
    #[must_use]
    pub fn of(limit: usize) -> Self {
        Self {
            limit,
            ..Self::default()
        }
    }

    /// Sets the order of the foms.
    #[must_use]
    pub fn sort(mut self, sort: Sort) -> Self {
        self.sort = sort;
        self
    }

    /// Begins the page after the last fom of another page in the same order.
    #[must_use]
    pub fn after(mut self, cursor: Cursor) -> Self {
        self.after = Some(cursor);
        self
    }

    /// Names this many foms in each group.
    #[must_use]
    pub fn oldest(mut self, foms: usize) -> Self {
        self.oldest = foms;
        self
    }
}

/// The order of the foms of a [page](Page). Foms that are equal in it are in the order of their ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sort {
    /// The longest in its phase first.
    #[default]
    InPhase,
    /// The first submitted first.
    Age,
    /// The most events not taken yet first, or the most [queued](crate::extension::Attached::queued) requests.
    Events,
    /// By id.
    Id,
}

/// The place of the last fom of a page. It stays valid while foms come and go: the next page begins with the first fom
/// behind that place. `Display` and `FromStr` turn it into text and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    at: i64,
    id: FomId,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.at, self.id)
    }
}

impl Serialize for Cursor {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl FromStr for Cursor {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<Self, CursorError> {
        let read = || {
            let (at, id) = text.split_once('.')?;
            Some(Self {
                at: at.parse().ok()?,
                id: FomId(id.parse().ok()?),
            })
        };
        read().ok_or(CursorError)
    }
}

/// A text is no [`Cursor`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CursorError;

impl fmt::Display for CursorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a cursor; pass the text of `Survey::next`, or begin with the first page")
    }
}

impl std::error::Error for CursorError {}

/// The first foms in the order of a page, of those that were offered so far.
pub(super) struct Best<'a> {
    page: &'a Page,
    limit: usize,
    foms: BTreeMap<Cursor, AnyRef>,
    /// Whether foms were left out behind the page.
    is_cut: bool,
}

impl<'a> Best<'a> {
    pub(super) fn new(page: &'a Page) -> Self {
        Self {
            page,
            limit: page.limit.min(LARGEST),
            foms: BTreeMap::new(),
            is_cut: false,
        }
    }

    pub(super) fn offer(&mut self, fom: AnyRef) {
        if self.limit == 0 {
            return;
        }
        let at = match self.page.sort {
            Sort::InPhase => fom.visit().since().cast_signed(),
            Sort::Age => fom.identity.submitted().cast_signed(),
            Sort::Events => -i64::try_from(events(&fom)).unwrap_or(i64::MAX),
            Sort::Id => 0,
        };
        let place = Cursor { at, id: fom.id() };
        if self.page.after.is_some_and(|after| place <= after) {
            return;
        }
        if self.foms.len() == self.limit {
            self.is_cut = true;
            match self.foms.last_entry() {
                Some(last) if place < *last.key() => drop(last.remove()),
                _ => return,
            }
        }
        self.foms.insert(place, fom);
    }

    /// Returns the foms in their order, and where the next page begins.
    pub(super) fn finish(self) -> (Vec<AnyRef>, Option<Cursor>) {
        let last = self.foms.last_key_value().map(|(place, _)| *place);
        let next = last.filter(|_| self.is_cut);
        (self.foms.into_values().collect(), next)
    }
}
