//! A recording as trace events, the JSON that Perfetto and `chrome://tracing` open.
//!
//! The localities are the threads of one process. The operation types are the other processes, and their foms are the
//! threads. A slice is written as a whole, so no slice depends on an entry that the ring has lost.

mod foms;
mod localities;
mod out;

use std::io;

use fom_runtime::observe::{
    FlightEvent::{EventSent, Woken},
    FlightRecording,
};

use self::{foms::Foms, localities::Runs, out::Out};

/// The process of the localities.
const LOCALITIES: usize = 1;

/// Writes the recording. `why`: the reason, for a dump.
pub(crate) fn write(
    recording: &FlightRecording,
    why: Option<&str>,
    to: impl io::Write,
) -> io::Result<()> {
    let foms = Foms::of(recording);
    let runs = Runs::of(recording);
    let mut out = Out::begin(to)?;
    runs.name_tracks(&mut out)?;
    foms.name_tracks(&mut out)?;
    runs.write(&foms, &mut out)?;
    foms.write(recording, &mut out)?;
    arrows(recording, &foms, &runs, &mut out)?;
    out.end(recording, why)
}

/// Writes the arrows. An arrow of a wake leads from run to run, and one of an event from fom to fom. It ends where the
/// next run of the fom begins.
fn arrows<W: io::Write>(
    recording: &FlightRecording,
    foms: &Foms,
    runs: &Runs,
    out: &mut Out<W>,
) -> io::Result<()> {
    let mut number = 0;
    for (index, entry) in recording.entries.iter().enumerate() {
        let (name, by) = match entry.event {
            Woken { by: Some(by) } => ("wake", by),
            EventSent { by: Some(by) } => ("event", by),
            _ => continue,
        };
        let Some((at, locality)) = runs.next(entry.fom, index) else {
            continue;
        };
        let (from, to) = match name {
            "wake" => (
                localities::track(entry.locality),
                localities::track(locality),
            ),
            _ => match (foms.track(by), foms.track(entry.fom)) {
                (Some(from), Some(to)) => (from, to),
                _ => continue,
            },
        };
        number += 1;
        out.arrow(name, number, (from, entry.at), (to, at.max(entry.at)))?;
    }
    Ok(())
}
