//! Queues that only grow: mailboxes, streams, admissions, active objects, locks, services.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    time::Duration,
};

use fom_runtime::{FomId, Runtime, time::Instant};

use crate::{
    Level, WarningKind, Watch,
    board::{Finding, Place},
    checks::similar,
    sight::Sight,
};

/// The number of samples in the time of a growth.
const SAMPLES: u32 = 6;

/// The last lengths of each queue, by its name.
#[derive(Default)]
pub(super) struct Growth(HashMap<String, Series>);

#[derive(Default)]
struct Series(VecDeque<(Instant, u64)>);

impl Series {
    /// Adds a length. Returns how much the queue has grown, and for how long, if it only grows.
    fn add(&mut self, watch: &Watch, now: Instant, length: u64) -> Option<(u64, Duration)> {
        let (least, time) = watch.growth;
        if self.0.back().is_some_and(|(_, last)| length < *last) {
            self.0.clear();
        }
        let is_due = |(at, _): &(Instant, u64)| now - *at >= time / SAMPLES;
        if self.0.back().is_none_or(is_due) {
            if self.0.back().is_some_and(|(_, last)| length == *last) {
                // A queue that has reached its length for this load does not grow.
                self.0.clear();
            }
            self.0.push_back((now, length));
        }
        // The first sample is the youngest that is old enough.
        while self.0.get(1).is_some_and(|(at, _)| now - *at >= time) {
            self.0.pop_front();
        }
        let (first, before) = *self.0.front()?;
        let (grown, lasts) = (length - before, now - first);
        (lasts >= time && grown >= least).then_some((grown, lasts))
    }
}

/// A queue, as a look sees it.
struct Queue {
    name: String,
    length: u64,
    fom: Option<FomId>,
    oldest: Option<Duration>,
    kind: &'static str,
}

impl Growth {
    pub(super) fn check(
        &mut self,
        runtime: &Runtime,
        watch: &Watch,
        sight: &Sight,
    ) -> Vec<Finding> {
        if sight.foms().is_none() {
            return Vec::new();
        }
        let queues = queues(sight);
        let names: HashSet<_> = queues.iter().map(|queue| &*queue.name).collect();
        // A look sees the longest mailboxes only. One that is not among them now may be again at the next look.
        let is_recent = |series: &Series| {
            let last = series.0.back();
            last.is_some_and(|(at, _)| sight.now - *at < watch.growth.1)
        };
        self.0
            .retain(|name, series| names.contains(&**name) || is_recent(series));
        let mut found = Vec::new();
        for queue in &queues {
            let series = self.0.entry(queue.name.clone()).or_default();
            if let Some((grown, time)) = series.add(watch, sight.now, queue.length) {
                found.push(growth(runtime, watch, queue, grown, time));
            }
        }
        found
    }
}

fn queues(sight: &Sight) -> Vec<Queue> {
    let mut seen: HashMap<String, u32> = HashMap::new();
    let parts = sight.parts.parts.iter().filter_map(|part| {
        let length = part.queued?;
        let mut name = format!("{} {}", part.kind, part.name);
        let same = seen.entry(name.clone()).or_default();
        *same += 1;
        if *same > 1 {
            name = format!("{name} ({same})");
        }
        Some(Queue {
            name,
            length,
            fom: part.fom,
            oldest: part.oldest,
            kind: part.kind,
        })
    });
    let mut queues: Vec<_> = parts.collect();
    // The list of an active object is there already, as a part.
    let mailboxes = sight
        .mailboxes()
        .iter()
        .filter(|fom| !sight.is_server(fom.id));
    queues.extend(mailboxes.map(|fom| Queue {
        name: format!("mailbox of {} {}", fom.operation, fom.id),
        length: fom.events as u64,
        fom: Some(fom.id),
        oldest: None,
        kind: "mailbox",
    }));
    queues
}

fn growth(runtime: &Runtime, watch: &Watch, queue: &Queue, grown: u64, time: Duration) -> Finding {
    let fom = queue.fom.and_then(|id| runtime.operation(id));
    let mut common = match &queue.oldest {
        Some(oldest) => vec![format!("the oldest has waited for {oldest:.1?}")],
        None => Vec::new(),
    };
    common.extend(similar::common(runtime, fom.as_slice()));
    let advice = match queue.kind {
        "mailbox" => "see why the phase takes no event; add `on(..)`, or send less",
        "admission" => {
            "let more foms run with `in_flight`, or reject or shed requests with `marks`"
        }
        "lock table" => "hold the lock for a shorter time, or over fewer phases",
        "journal" => "see whether the disk is slow or full; `lazy` operations wait for no commit",
        _ => "more comes in than is done; let callers wait for room, or make a request cost less",
    };
    Finding {
        kind: WarningKind::Growth,
        level: Level::of(grown as f64, watch.growth.0 as f64),
        subject: queue.name.clone(),
        detail: String::new(),
        text: format!(
            "the {} has {} waiting, {grown} more than {time:.0?} ago, and was never shorter",
            queue.name, queue.length
        ),
        place: Place::of(fom.as_ref().map(|fom| (fom.operation, fom.phase))),
        ids: queue.fom.into_iter().collect(),
        foms: usize::from(queue.fom.is_some()),
        age: time,
        limit: None,
        common,
        advice: advice.to_owned(),
    }
}
