//! The tracks of the localities: which fom each of them ran.

use std::{
    collections::{BTreeSet, HashMap},
    io,
};

use fom_runtime::{
    FomId,
    observe::{FlightEvent, FlightRecording},
    time::Instant,
};

use crate::trace::{
    LOCALITIES,
    foms::Foms,
    out::{Out, Slice, Track},
};

/// Returns the track of a locality.
pub(super) fn track(locality: usize) -> Track {
    (LOCALITIES, locality + 1)
}

/// A part of a run, in which the fom had the locality. A blocking section parts a run.
struct Part {
    locality: usize,
    fom: FomId,
    phase: Option<&'static str>,
    begin: Instant,
    end: Instant,
    /// Whether the part goes on.
    open: bool,
}

/// The parts of all runs.
pub(super) struct Runs {
    parts: Vec<Part>,
    localities: BTreeSet<usize>,
    /// For each fom, the places of its run begins among the entries, with time and locality.
    begins: HashMap<FomId, Vec<(usize, Instant, usize)>>,
}

/// What is known of a locality up to an entry.
struct Now {
    /// The time of its first entry.
    first: Instant,
    /// Whether a begin was seen. Before it, an end belongs to a part that began before the recording.
    begun: bool,
    runs: Option<Part>,
}

impl Runs {
    pub(super) fn of(recording: &FlightRecording) -> Self {
        let mut all = Self {
            parts: Vec::new(),
            localities: BTreeSet::new(),
            begins: HashMap::new(),
        };
        let mut now: HashMap<usize, Now> = HashMap::new();
        for (index, entry) in recording.entries.iter().enumerate() {
            let (fom, at, locality) = (entry.fom, entry.at, entry.locality);
            all.localities.insert(locality);
            let now = now.entry(locality).or_insert(Now {
                first: at,
                begun: false,
                runs: None,
            });
            let part = |phase, begin| Part {
                locality,
                fom,
                phase,
                begin,
                end: at,
                open: false,
            };
            match entry.event {
                FlightEvent::RunBegins { phase, .. } => {
                    all.end(now.runs.take(), at);
                    now.runs = Some(part(Some(phase), at));
                    now.begun = true;
                    let begins = all.begins.entry(fom).or_default();
                    begins.push((index, at, locality));
                }
                FlightEvent::BlockEnds => {
                    all.end(now.runs.take(), at);
                    now.runs = Some(part(None, at));
                    now.begun = true;
                }
                FlightEvent::BlockBegins | FlightEvent::RunEnds => {
                    match now.runs.take() {
                        None if !now.begun => all.parts.push(part(None, now.first)),
                        runs => all.end(runs, at),
                    }
                    now.begun = true;
                }
                _ => {}
            }
        }
        for (_, now) in now {
            let open = now.runs.map(|part| Part { open: true, ..part });
            all.end(open, recording.now);
        }
        all
    }

    fn end(&mut self, part: Option<Part>, at: Instant) {
        self.parts.extend(part.map(|part| Part {
            end: at.max(part.begin),
            ..part
        }));
    }

    /// Returns where the next run of the fom begins after this entry.
    pub(super) fn next(&self, fom: FomId, after: usize) -> Option<(Instant, usize)> {
        let begins = self.begins.get(&fom)?;
        let next = begins.partition_point(|(index, ..)| *index < after);
        begins.get(next).map(|(_, at, locality)| (*at, *locality))
    }

    pub(super) fn name_tracks<W: io::Write>(&self, out: &mut Out<W>) -> io::Result<()> {
        out.process(LOCALITIES, "localities")?;
        let mut localities = self.localities.iter();
        localities.try_for_each(|index| out.track(track(*index), &format!("locality {index}")))
    }

    pub(super) fn write<W: io::Write>(&self, foms: &Foms, out: &mut Out<W>) -> io::Result<()> {
        for part in &self.parts {
            let slice = Slice {
                track: track(part.locality),
                name: &foms.name(part.fom),
                kind: "run",
                begin: part.begin,
                end: part.end,
                args: &[
                    ("fom", &part.fom),
                    ("phase", &part.phase.unwrap_or("the same")),
                    ("goes on", &part.open),
                ],
            };
            out.slice(&slice)?;
        }
        Ok(())
    }
}
