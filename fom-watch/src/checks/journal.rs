//! Foms that wait long for the commit of a transition.

use std::{collections::HashMap, time::Duration};

use fom_runtime::{FomId, observe::Group, time::Instant};

use crate::{
    Level, WarningKind, Watch,
    board::{Finding, Place},
    checks::IDS,
    sight::Sight,
};

/// The foms that wait for a commit: since when they are in their phase, and when a look first saw them wait.
#[derive(Default)]
pub(super) struct Behind(HashMap<FomId, (Instant, Instant)>);

/// The time of a visit is known to this precision.
const SAME: Duration = Duration::from_millis(1);

impl Behind {
    pub(super) fn check(&mut self, watch: &Watch, sight: &Sight) -> Option<Finding> {
        // A look without foms knows nothing of them.
        sight.foms()?;
        let waits = |group: &&Group| group.wait == Some("journal");
        let groups: Vec<_> = sight.groups().iter().filter(waits).collect();
        let mut seen = HashMap::new();
        for oldest in groups.iter().flat_map(|group| &group.oldest) {
            let since =
                Instant::START + (sight.now - Instant::START).saturating_sub(oldest.in_phase);
            let before = self.0.get(&oldest.id);
            let is_same = |(one, _): &&(Instant, Instant)| (*one - since).max(since - *one) <= SAME;
            let first = before
                .filter(is_same)
                .map_or(sight.now, |(_, first)| *first);
            seen.insert(oldest.id, (since, first));
        }
        self.0 = seen;
        let mut waiting: Vec<_> = self
            .0
            .iter()
            .map(|(id, (_, first))| (*first, *id))
            .collect();
        waiting.sort_unstable();
        let age = sight.now - waiting.first()?.0;
        if age < watch.journal {
            return None;
        }
        let foms = groups.iter().map(|group| group.foms).sum();
        let is_long = |(first, _): &(Instant, FomId)| sight.now - *first >= watch.journal;
        let same = groups
            .iter()
            .all(|group| group.operation == groups[0].operation && group.phase == groups[0].phase);
        Some(Finding {
            kind: WarningKind::Journal,
            level: Level::of_time(age, watch.journal),
            subject: "the journal".to_owned(),
            detail: String::new(),
            text: format!("{foms} foms wait for the journal, one of them for {age:.0?}"),
            place: Place::of(same.then(|| (groups[0].operation, groups[0].phase))),
            ids: waiting
                .iter()
                .copied()
                .filter(is_long)
                .map(|(_, id)| id)
                .take(IDS)
                .collect(),
            foms,
            age,
            limit: Some(watch.journal),
            common: groups
                .iter()
                .map(|group| format!("{} in {} of {}", group.foms, group.phase, group.operation))
                .collect(),
            advice: "see whether the disk of the journal is slow or full".to_owned(),
        })
    }
}
