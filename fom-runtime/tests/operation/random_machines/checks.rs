//! What the counters and the flight recorder must say after a case.

use super::*;

/// Each phase has as many foms as the model says.
pub(super) fn check_population(runtime: &Runtime, models: &[Model]) {
    for of in runtime.inspect().counters().operations {
        let sleeps = of.operation == "Driven";
        for phase in of
            .phases
            .iter()
            .filter(|phase| !["Done", "Bad"].contains(&phase.phase))
        {
            let is_there = |model: &&Model| {
                model.outcome.is_none()
                    && model.sleeps == sleeps
                    && name(Some(model.phase)) == phase.phase
            };
            let foms = models.iter().filter(is_there).count();
            assert_eq!(
                phase.foms, foms as u64,
                "{} in {}",
                of.operation, phase.phase
            );
        }
    }
}

/// Each edge was counted as often as the model took it, and each time in a phase once.
pub(super) fn check_edges(runtime: &Runtime, models: &[Model]) {
    let mut edges = BTreeMap::new();
    for model in models {
        let of = if model.sleeps { "Driven" } else { "Plain" };
        let mut taken =
            |edge: &str, count| *edges.entry((of, edge.to_owned())).or_insert(0) += count;
        for line in &model.log {
            taken(line.split(" at ").next().unwrap(), 1);
        }
        if model.children > 0 {
            taken(" -> Run (started)", u64::from(model.children));
            taken("Run -> Done (returned)", u64::from(model.children));
        }
    }
    let mut counted = BTreeMap::new();
    for of in runtime.inspect().counters().operations {
        for edge in of.edges.iter().filter(|edge| edge.count > 0) {
            let (from, to) = (edge.from.unwrap_or_default(), edge.to.unwrap_or_default());
            assert_eq!(edge.localities.iter().sum::<u64>(), edge.count);
            counted.insert(
                (of.operation, format!("{from} -> {to} ({})", edge.cause)),
                edge.count,
            );
        }
        for phase in &of.phases {
            let out = of
                .edges
                .iter()
                .filter(|edge| edge.from == Some(phase.phase));
            assert_eq!(
                phase.times.count(),
                out.clone().map(|edge| edge.count).sum::<u64>()
            );
            assert_eq!(
                phase.times.sum(),
                out.map(|edge| edge.time).sum::<Duration>()
            );
        }
    }
    assert_eq!(counted, edges);
}

/// The flight recorder has the transitions of each fom, as the model says.
pub(super) fn check_recording(runtime: &Runtime, models: &[Model], ids: &[FomId]) {
    let recording = runtime.inspect().recording();
    assert_eq!((recording.older, recording.overwritten), (0, 0));
    for (model, id) in models.iter().zip(ids) {
        let line = |entry: &FlightEntry| match entry.event {
            FlightEvent::Transition {
                from, to, cause, ..
            } => {
                let (from, to) = (from.unwrap_or_default(), to.unwrap_or_default());
                Some(format!("{from} -> {to} ({cause})"))
            }
            _ => None,
        };
        let recorded: Vec<_> = recording.timeline(*id).filter_map(line).collect();
        let lines = model.log.iter();
        let edges: Vec<_> = lines
            .map(|line| line.split(" at ").next().unwrap())
            .collect();
        assert_eq!(recorded, edges, "the recorded course of {}", model.name);
    }
    TraceExt::write_trace(&recording, std::io::sink()).unwrap();
}
