//! Joins the graph of a layer and the graph of its inner operation, at compile time.
//!
//! Everything is computed from constants, so the joined graph is a constant too. Rust has no arrays with a length
//! computed from a type parameter. So there are three sizes of tables, and the smallest that has room is kept.

use std::marker::PhantomData;

use super::{Graph, PhaseInfo, check, renamed::Around};

/// Separates the name of the holding phase from the names inside. No declared phase has it in its name.
const BETWEEN: &str = ".";

/// The parts of a joined graph.
pub(crate) trait Parts {
    /// The layer's own graph. One of its phases holds the phases of the inner operation.
    const OWN: &'static Graph;
    /// The name of the layer's operation, cut where the name of the inner operation stands.
    const OPERATION: &'static [&'static str];
    /// The earlier names of the layer's operation, cut in the same place.
    const OPERATION_WAS: &'static [&'static [&'static str]];
    /// The graph of the inner operation.
    const INNER: &'static Graph;
}

/// The joined graph.
#[derive(Debug)]
pub(crate) struct Joined<J>(PhantomData<J>);

impl<J: Parts> Joined<J> {
    const TWO: Two = Two::new(J::OWN, J::OPERATION, J::OPERATION_WAS, J::INNER);
    const SIZE: Size = Self::TWO.size();

    /// The index of the first phase of the inner operation.
    pub(crate) const PLACE: usize = Self::TWO.place;

    pub(crate) const GRAPH: &'static Graph = {
        assert!(
            Self::SIZE.fits(255, 2048, 16_384),
            "a layer and what it stands around are too large together: 255 phases, 2048 exits and 16384 letters in the names of phases are the most"
        );
        let graph = if Self::SIZE.fits(16, 64, 512) {
            Tables::<J, 16, 64, 512>::GRAPH
        } else if Self::SIZE.fits(64, 256, 2048) {
            Tables::<J, 64, 256, 2048>::GRAPH
        } else {
            Tables::<J, 255, 2048, 16_384>::GRAPH
        };
        check::check(&graph);
        &{ graph }
    };
}

/// The tables of one size. The compiler also evaluates the sizes that are too small or not needed, and they are thrown
/// away.
struct Tables<J, const P: usize, const X: usize, const T: usize>(PhantomData<J>);

impl<J: Parts, const P: usize, const X: usize, const T: usize> Tables<J, P, X, T> {
    const TWO: Two = Joined::<J>::TWO;
    const FITS: bool = Joined::<J>::SIZE.fits(P, X, T);
    const TEXT: &'static [u8; T] = &if Self::FITS {
        Self::TWO.text().items
    } else {
        [0; T]
    };
    const EXITS: &'static [u16; X] = &if Self::FITS {
        Self::TWO.exits().items
    } else {
        [0; X]
    };
    const NAMES: &'static [&'static str; P] = &if Self::FITS {
        Self::TWO.names(Self::TEXT).items
    } else {
        [""; P]
    };
    const PHASES: &'static [PhaseInfo; P] = &if Self::FITS {
        Self::TWO.phases(Self::TEXT, Self::EXITS, Self::NAMES)
    } else {
        [PhaseInfo::end("", ""); P]
    };
    const GRAPH: Graph = if Self::FITS {
        Self::TWO.graph(Self::TEXT, Self::NAMES, Self::PHASES)
    } else {
        Graph::new("", "", "", &[])
    };
}

/// Returns how many versions of the inner operation there are for each version of the layer: a factor of 1000 for each
/// layer.
const fn step(inner: &Graph) -> u64 {
    let (mut step, mut layer) = (1000u64, 0);
    while layer < inner.layers {
        step = step.saturating_mul(1000);
        layer += 1;
    }
    step
}

/// Returns the versions of a layer and of the inner operation as one number; 1 if both are 1.
const fn version(own: u32, inner: &Graph) -> u32 {
    assert!(
        (inner.version as u64) < step(inner),
        "version 999 is the last of an operation that a layer stands around"
    );
    let version = step(inner)
        .saturating_mul(own as u64 - 1)
        .saturating_add(inner.version as u64);
    assert!(
        version <= u32::MAX as u64,
        "the versions of these layers and of what is inside are no one number any more: three layers that have versions are the most"
    );
    version as u32
}

/// Splits a joined version into the version of the layer and the version of the inner operation. `inner` is the graph
/// of that operation.
pub(crate) fn versions(version: u32, inner: &Graph) -> (u32, u32) {
    let (version, step) = (u64::from(version).saturating_sub(1), step(inner));
    ((version / step) as u32 + 1, (version % step) as u32 + 1)
}

/// The number of items of each kind.
#[derive(Clone, Copy)]
struct Size {
    phases: usize,
    exits: usize,
    text: usize,
    names: usize,
}

impl Size {
    const fn fits(self, phases: usize, exits: usize, text: usize) -> bool {
        self.phases <= phases && self.names <= phases && self.exits <= exits && self.text <= text
    }
}

/// Items in a row. An item without room is only counted.
#[derive(Clone, Copy)]
struct Row<T: Copy, const N: usize> {
    items: [T; N],
    used: usize,
}

impl<T: Copy, const N: usize> Row<T, N> {
    const fn new(empty: T) -> Self {
        Self {
            items: [empty; N],
            used: 0,
        }
    }

    const fn push(&mut self, item: T) {
        if self.used < N {
            self.items[self.used] = item;
        }
        self.used += 1;
    }
}

impl<const N: usize> Row<u8, N> {
    const fn text(&mut self, text: &str) {
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            self.push(bytes[at]);
            at += 1;
        }
    }
}

/// Takes parts off a row, in the order in which they were added.
struct Parted<T: 'static> {
    rest: &'static [T],
}

impl<T> Parted<T> {
    const fn take(&mut self, length: usize) -> &'static [T] {
        // Shorter only while items are counted.
        let length = if length <= self.rest.len() {
            length
        } else {
            self.rest.len()
        };
        let (first, rest) = self.rest.split_at(length);
        self.rest = rest;
        first
    }
}

impl Parted<u8> {
    const fn text(&mut self, length: usize) -> &'static str {
        match str::from_utf8(self.take(length)) {
            Ok(text) => text,
            Err(_) => panic!("a name was cut in the middle of a letter"),
        }
    }
}

/// A layer's own graph, and the graph of the inner operation.
#[derive(Clone, Copy)]
struct Two {
    own: &'static Graph,
    operation: &'static [&'static str],
    operation_was: &'static [&'static [&'static str]],
    inner: &'static Graph,
    /// The index of the layer's phase that holds the others.
    place: usize,
    holder: &'static PhaseInfo,
    /// The number of phases inside.
    inside: usize,
    /// The index of the start phase inside.
    first: usize,
}

impl Two {
    const fn new(
        own: &'static Graph,
        operation: &'static [&'static str],
        operation_was: &'static [&'static [&'static str]],
        inner: &'static Graph,
    ) -> Self {
        let mut place = 0;
        while place < own.phases.len() && own.phases[place].inner.is_none() {
            place += 1;
        }
        assert!(place < own.phases.len(), "no phase of the layer is `inner`");
        let mut first = 0;
        while first < inner.phases.len() && !inner.phases[first].start {
            first += 1;
        }
        assert!(
            first < inner.phases.len(),
            "what the layer stands around has no start"
        );
        Self {
            own,
            operation,
            operation_was,
            inner,
            place,
            holder: &own.phases[place],
            inside: inner.phases.len(),
            first,
        }
    }

    const fn len(self) -> usize {
        self.own.phases.len() - 1 + self.inside
    }

    const fn size(self) -> Size {
        Size {
            phases: self.len(),
            exits: self.exits::<0>().used,
            text: self.text::<0>().used,
            names: self.names::<0>(&[]).used,
        }
    }

    /// Returns a phase from its own graph, and whether this is the graph inside.
    const fn at(self, index: usize) -> (&'static PhaseInfo, bool) {
        if index < self.place {
            (&self.own.phases[index], false)
        } else if index < self.place + self.inside {
            (&self.inner.phases[index - self.place], true)
        } else {
            (&self.own.phases[index + 1 - self.inside], false)
        }
    }

    /// Whether the phase is an end of the inner operation from which the layer goes on.
    const fn goes_on(self, phase: &PhaseInfo, inside: bool) -> bool {
        inside && phase.is_end() && matches!(self.holder.inner, Some(true))
    }

    /// Adds the joined indexes of phases of the layer's own graph. The index of the holding phase becomes the index of
    /// the start phase inside.
    const fn put_own<const X: usize>(self, indexes: &[u16], row: &mut Row<u16, X>) {
        let mut at = 0;
        while at < indexes.len() {
            let to = indexes[at] as usize;
            let to = if to < self.place {
                to
            } else if to == self.place {
                self.place + self.first
            } else {
                to - 1 + self.inside
            };
            row.push(to as u16);
            at += 1;
        }
    }

    const fn put_inner<const X: usize>(self, indexes: &[u16], row: &mut Row<u16, X>) {
        let mut at = 0;
        while at < indexes.len() {
            row.push(self.place as u16 + indexes[at]);
            at += 1;
        }
    }

    const fn put_to<const X: usize>(self, index: usize, row: &mut Row<u16, X>) {
        let (phase, inside) = self.at(index);
        if self.goes_on(phase, inside) {
            self.put_own(self.holder.exits.all, row);
        } else if inside {
            self.put_inner(phase.exits.all, row);
            if !phase.is_end() {
                self.put_own(self.holder.exits.failed, row);
            }
        } else {
            self.put_own(phase.exits.all, row);
        }
    }

    /// Adds the exits of a phase after a failure. A phase inside has its own, and those of the layer.
    const fn put_failed<const X: usize>(self, index: usize, row: &mut Row<u16, X>) {
        let (phase, inside) = self.at(index);
        if !inside {
            return self.put_own(phase.exits.failed, row);
        }
        self.put_inner(phase.exits.failed, row);
        if !phase.is_end() || self.goes_on(phase, inside) {
            self.put_own(self.holder.exits.failed, row);
        }
    }

    /// Adds the phases in which a deadline goes on. A deadline that goes on in the holding phase goes on in all phases
    /// inside.
    const fn put_keep<const X: usize>(self, index: usize, row: &mut Row<u16, X>) {
        let (phase, inside) = self.at(index);
        if inside {
            return self.put_inner(phase.deadline.keep, row);
        }
        let mut at = 0;
        while at < phase.deadline.keep.len() {
            if phase.deadline.keep[at] as usize != self.place {
                self.put_own(&[phase.deadline.keep[at]], row);
                at += 1;
                continue;
            }
            let mut inner = 0;
            while inner < self.inside {
                let kept = &self.inner.phases[inner];
                if !kept.is_end() || self.goes_on(kept, true) {
                    row.push((self.place + inner) as u16);
                }
                inner += 1;
            }
            at += 1;
        }
    }

    /// Returns for each phase all exits, the exits after a failure, and the phases in which its deadline goes on.
    const fn exits<const X: usize>(self) -> Row<u16, X> {
        let mut row = Row::new(0);
        let mut index = 0;
        while index < self.len() {
            self.put_to(index, &mut row);
            self.put_failed(index, &mut row);
            self.put_keep(index, &mut row);
            index += 1;
        }
        row
    }

    const fn put_name<const T: usize>(self, name: &str, row: &mut Row<u8, T>) {
        row.text(self.holder.name);
        row.text(BETWEEN);
        row.text(name);
    }

    const fn take_name(self, name: &str, text: &mut Parted<u8>) -> &'static str {
        text.text(self.holder.name.len() + BETWEEN.len() + name.len())
    }

    /// Returns the operation's name, then the current and earlier names of the phases inside, then their retired names.
    const fn text<const T: usize>(self) -> Row<u8, T> {
        let mut row = Row::new(0);
        let mut at = 0;
        while at < self.operation.len() {
            if at > 0 {
                row.text(self.inner.operation);
            }
            row.text(self.operation[at]);
            at += 1;
        }
        let mut index = 0;
        while index < self.inside {
            let phase = &self.inner.phases[index];
            self.put_name(phase.name, &mut row);
            let mut was = 0;
            while was < phase.saved.was.len() {
                self.put_name(phase.saved.was[was], &mut row);
                was += 1;
            }
            index += 1;
        }
        let mut retired = 0;
        while retired < self.inner.retired.len() {
            self.put_name(self.inner.retired[retired], &mut row);
            retired += 1;
        }
        row
    }

    const fn take_operation(self, text: &mut Parted<u8>) -> &'static str {
        let (mut length, mut at) = (0, 0);
        while at < self.operation.len() {
            if at > 0 {
                length += self.inner.operation.len();
            }
            length += self.operation[at].len();
            at += 1;
        }
        text.text(length)
    }

    /// Returns the earlier names of the phases inside, then all retired names.
    const fn names<const N: usize>(self, text: &'static [u8]) -> Row<&'static str, N> {
        let mut row = Row::new("");
        let mut text = Parted { rest: text };
        self.take_operation(&mut text);
        let mut index = 0;
        while index < self.inside {
            let phase = &self.inner.phases[index];
            self.take_name(phase.name, &mut text);
            let mut was = 0;
            while was < phase.saved.was.len() {
                row.push(self.take_name(phase.saved.was[was], &mut text));
                was += 1;
            }
            index += 1;
        }
        let mut retired = 0;
        while retired < self.inner.retired.len() {
            row.push(self.take_name(self.inner.retired[retired], &mut text));
            retired += 1;
        }
        let mut retired = 0;
        while retired < self.own.retired.len() {
            row.push(self.own.retired[retired]);
            retired += 1;
        }
        row
    }

    const fn phases<const P: usize>(
        self,
        text: &'static [u8],
        exits: &'static [u16],
        names: &'static [&'static str],
    ) -> [PhaseInfo; P] {
        let mut phases = [PhaseInfo::end("", ""); P];
        let (mut text, mut exits, mut names) = (
            Parted { rest: text },
            Parted { rest: exits },
            Parted { rest: names },
        );
        self.take_operation(&mut text);
        let mut index = 0;
        while index < self.len() {
            let (phase, inside) = self.at(index);
            let mut joined = *phase;
            let mut count = Row::<u16, 0>::new(0);
            self.put_to(index, &mut count);
            joined.exits.all = exits.take(count.used);
            let mut count = Row::<u16, 0>::new(0);
            self.put_failed(index, &mut count);
            joined.exits.failed = exits.take(count.used);
            let mut count = Row::<u16, 0>::new(0);
            self.put_keep(index, &mut count);
            joined.deadline.keep = exits.take(count.used);
            if inside {
                joined.name = self.take_name(phase.name, &mut text);
                let mut was = 0;
                while was < phase.saved.was.len() {
                    self.take_name(phase.saved.was[was], &mut text);
                    was += 1;
                }
                joined.saved.was = names.take(phase.saved.was.len());
                joined.start = phase.start && self.holder.start;
                if !phase.is_end() {
                    joined.exits.ways_out = phase.exits.ways_out + self.holder.exits.ways_out;
                    joined.exits.on_cancel =
                        phase.exits.on_cancel.inside(self.holder.exits.on_cancel);
                }
            }
            if self.goes_on(phase, inside) {
                joined.mode = self.holder.mode;
                joined.failure = false;
                joined.exits.plain = self.holder.exits.plain;
                joined.exits.names = self.holder.exits.names;
                joined.exits.ways_out = self.holder.exits.ways_out;
                joined.exits.on_cancel = self.holder.exits.on_cancel;
            }
            phases[index] = joined;
            index += 1;
        }
        phases
    }

    const fn graph(
        self,
        text: &'static [u8],
        names: &'static [&'static str],
        phases: &'static [PhaseInfo],
    ) -> Graph {
        let all = self.names::<0>(text).used;
        let retired = self.inner.retired.len() + self.own.retired.len();
        Graph {
            name: self.own.name,
            operation: self.take_operation(&mut Parted { rest: text }),
            docs: self.own.docs,
            phases: phases.split_at(self.len()).0,
            version: version(self.own.version, self.inner),
            layers: self.inner.layers + 1,
            retired: names.split_at(all - retired).1.split_at(retired).0,
            was: self.own.was,
            operation_was: &[],
            secrets: self.own.secrets.around(&self.inner.secrets),
            around: Some(Around {
                name: self.operation,
                was: self.operation_was,
                inner: self.inner,
            }),
        }
    }
}
