//! The tracks of the foms: their phases, with the blocking sections and commits in them.

use std::{collections::BTreeMap, io};

use fom_runtime::{
    FomId,
    observe::{FlightEntry, FlightEvent, FlightRecording, TransitionCause},
    time::Instant,
};

use crate::trace::{
    LOCALITIES,
    out::{Out, Slice, Track},
};

/// What is known of a fom whose type no entry tells.
const UNKNOWN: &str = "operations of an unknown type";

/// The foms that entries are about.
pub(super) struct Foms {
    operations: Vec<&'static str>,
    foms: BTreeMap<FomId, Fom>,
}

struct Fom {
    operation: Option<&'static str>,
    /// The entries about it, by their places.
    entries: Vec<usize>,
}

impl Foms {
    pub(super) fn of(recording: &FlightRecording) -> Self {
        let mut all = Self {
            operations: Vec::new(),
            foms: BTreeMap::new(),
        };
        for (index, entry) in recording.entries.iter().enumerate() {
            let fom = all.foms.entry(entry.fom).or_insert(Fom {
                operation: None,
                entries: Vec::new(),
            });
            fom.entries.push(index);
            if let FlightEvent::Transition { operation, .. }
            | FlightEvent::RunBegins { operation, .. }
            | FlightEvent::Panicked { operation, .. } = entry.event
            {
                fom.operation = Some(operation);
                if !all.operations.contains(&operation) {
                    all.operations.push(operation);
                }
            }
        }
        all.operations.sort_unstable();
        all
    }

    fn process(&self, fom: &Fom) -> usize {
        let known = fom.operation.and_then(|operation| {
            let mut operations = self.operations.iter();
            operations.position(|known| *known == operation)
        });
        LOCALITIES + 1 + known.unwrap_or(self.operations.len())
    }

    /// Returns the track of a fom, if there is an entry about it.
    pub(super) fn track(&self, id: FomId) -> Option<Track> {
        let fom = self.foms.get(&id)?;
        // Viewers read 32 bits of an id. Two foms share a track if their ids differ in the higher bits only.
        Some((self.process(fom), id.get() as u32 as usize))
    }

    /// Returns the name of a fom.
    pub(super) fn name(&self, id: FomId) -> String {
        match self.foms.get(&id).and_then(|fom| fom.operation) {
            Some(operation) => format!("{operation} {id}"),
            None => format!("operation {id}"),
        }
    }

    pub(super) fn name_tracks<W: io::Write>(&self, out: &mut Out<W>) -> io::Result<()> {
        for (index, operation) in self.operations.iter().enumerate() {
            out.process(LOCALITIES + 1 + index, operation)?;
        }
        if self.foms.values().any(|fom| fom.operation.is_none()) {
            out.process(LOCALITIES + 1 + self.operations.len(), UNKNOWN)?;
        }
        for id in self.foms.keys() {
            if let Some(track) = self.track(*id) {
                out.track(track, &self.name(*id))?;
            }
        }
        Ok(())
    }

    pub(super) fn write<W: io::Write>(
        &self,
        recording: &FlightRecording,
        out: &mut Out<W>,
    ) -> io::Result<()> {
        let Some(first) = recording.entries.first() else {
            return Ok(());
        };
        for (id, fom) in &self.foms {
            let Some(track) = self.track(*id) else {
                continue;
            };
            let mut line = Line {
                track,
                first: first.at,
                phase: None,
                blocks: None,
                commits: None,
            };
            for index in &fom.entries {
                line.add(&recording.entries[*index], out)?;
            }
            line.end(recording.now, out)?;
        }
        Ok(())
    }
}

/// The track of one fom, up to an entry.
struct Line {
    track: Track,
    /// When the recording begins.
    first: Instant,
    phase: Option<Visit>,
    /// When the blocking section began.
    blocks: Option<Instant>,
    /// When the commit began.
    commits: Option<Instant>,
}

struct Visit {
    phase: &'static str,
    since: Instant,
    cause: Option<TransitionCause>,
}

impl Line {
    fn add<W: io::Write>(&mut self, entry: &FlightEntry, out: &mut Out<W>) -> io::Result<()> {
        let at = entry.at;
        match entry.event {
            FlightEvent::Transition {
                from,
                to,
                cause,
                ends,
                ..
            } => {
                let before = from.map(|phase| Visit {
                    phase,
                    since: self.first,
                    cause: None,
                });
                let visit = self.phase.take().or(before);
                // A fom that begins was in no phase when its first run began.
                if let Some(visit) = visit.filter(|_| from.is_some()) {
                    self.visited(&visit, at, false, out)?;
                }
                if ends {
                    let name = match to {
                        Some(phase) => phase.to_owned(),
                        None => format!("failed: {cause}"),
                    };
                    return out.moment(self.track, &name, "end", at);
                }
                self.phase = to.map(|phase| Visit {
                    phase,
                    since: at,
                    cause: Some(cause),
                });
                Ok(())
            }
            FlightEvent::BlockBegins => {
                self.blocks = Some(at);
                Ok(())
            }
            FlightEvent::BlockEnds => {
                let since = self.blocks.take().unwrap_or(self.first);
                self.part("blocking", since, at, out)
            }
            FlightEvent::CommitBegins => {
                // The fom has not waited for an earlier one.
                let earlier = self.commits.replace(at);
                earlier.map_or(Ok(()), |at| out.moment(self.track, "commit", "commit", at))
            }
            FlightEvent::CommitEnds => {
                let since = self.commits.take().unwrap_or(self.first);
                self.part("commit", since, at, out)
            }
            FlightEvent::TimerFired => out.moment(self.track, "timer", "wake", at),
            FlightEvent::Panicked { .. } => out.moment(self.track, "panic", "panic", at),
            FlightEvent::RunBegins { phase, .. } => {
                self.phase.get_or_insert(Visit {
                    phase,
                    since: self.first,
                    cause: None,
                });
                Ok(())
            }
            // The tracks of the localities, the arrows, and events of a later release.
            _ => Ok(()),
        }
    }

    /// Ends what goes on at the end of the recording.
    fn end<W: io::Write>(self, now: Instant, out: &mut Out<W>) -> io::Result<()> {
        if let Some(visit) = &self.phase {
            self.visited(visit, now, true, out)?;
        }
        if let Some(since) = self.blocks {
            self.part("blocking", since, now, out)?;
        }
        match self.commits {
            Some(at) => out.moment(self.track, "commit", "commit", at),
            None => Ok(()),
        }
    }

    fn visited<W: io::Write>(
        &self,
        visit: &Visit,
        end: Instant,
        open: bool,
        out: &mut Out<W>,
    ) -> io::Result<()> {
        let cause = visit.cause.map(|cause| cause.to_string());
        out.slice(&Slice {
            track: self.track,
            name: visit.phase,
            kind: "phase",
            begin: visit.since,
            end: end.max(visit.since),
            args: &[
                (
                    "entered",
                    &cause.as_deref().unwrap_or("before the recording"),
                ),
                ("goes on", &open),
            ],
        })
    }

    fn part<W: io::Write>(
        &self,
        name: &str,
        begin: Instant,
        end: Instant,
        out: &mut Out<W>,
    ) -> io::Result<()> {
        out.slice(&Slice {
            track: self.track,
            name,
            kind: name,
            begin,
            end: end.max(begin),
            args: &[],
        })
    }
}
