//! Which nodes live, as one node sees it. Only heartbeats that it has read count, and its own clock.

use std::{collections::BTreeMap, time::Duration};

use crate::engine::View;

/// A node is dead when its heartbeat has not changed for this time.
pub(crate) const LEASE: Duration = Duration::from_secs(5);
/// The lease of an owner ends this long before another node may evict it.
pub(crate) const MARGIN: Duration = Duration::from_secs(1);
/// The time between two heartbeats.
pub(crate) const BEAT: Duration = Duration::from_secs(1);
/// The fewest answers with an unchanged heartbeat.
const LOOKS: u32 = 3;

/// What a node has seen of the others.
#[derive(Debug, Default)]
pub(crate) struct Membership {
    others: BTreeMap<String, Seen>,
    /// When the set of members last changed, or the engine last answered again.
    changed: Option<Duration>,
    is_broken: bool,
}

/// What was seen of a node.
#[derive(Clone, Copy, Debug)]
struct Seen {
    beat: u64,
    /// Since when this heartbeat was unchanged in consecutive answers.
    since: Duration,
    answers: u32,
}

impl Membership {
    /// Notes an answered heartbeat. Returns the dead nodes, with their heartbeats.
    pub(crate) fn look(&mut self, view: &View, now: Duration) -> Vec<(String, u64)> {
        let before = self.others.len();
        let was_broken = std::mem::take(&mut self.is_broken);
        self.others.retain(|name, _| view.nodes.contains_key(name));
        let mut has_changed = was_broken || self.others.len() != before;
        let mut dead = Vec::new();
        for (incarnation, row) in &view.nodes {
            match self.others.get_mut(incarnation) {
                None => {
                    let seen = Seen::new(row.beat, now);
                    self.others.insert(incarnation.clone(), seen);
                    has_changed = true;
                }
                Some(seen) if seen.beat != row.beat => *seen = Seen::new(row.beat, now),
                Some(seen) if seen.answers == 0 => {
                    (seen.since, seen.answers) = (now, 1);
                }
                Some(seen) => {
                    seen.answers += 1;
                    if seen.answers >= LOOKS && now.saturating_sub(seen.since) >= LEASE {
                        dead.push((incarnation.clone(), row.beat));
                    }
                }
            }
        }
        if has_changed {
            self.changed = Some(now);
        }
        dead
    }

    /// Notes that a heartbeat was not answered. Another server may answer the next one.
    pub(crate) fn break_off(&mut self) {
        self.is_broken = true;
        for seen in self.others.values_mut() {
            seen.answers = 0;
        }
    }

    /// Returns since when the members are the same, and the engine answers.
    pub(crate) fn changed(&self) -> Option<Duration> {
        self.changed
    }
}

impl Seen {
    fn new(beat: u64, now: Duration) -> Self {
        Self {
            beat,
            since: now,
            answers: 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{NodeInfo, NodeRow};

    fn view(nodes: &[(&str, u64)]) -> View {
        let nodes = nodes.iter().map(|(name, beat)| {
            let row = NodeRow::new(NodeInfo::new(*name, ""), *beat);
            ((*name).to_owned(), row)
        });
        View::new(true, nodes.collect(), Vec::new(), Duration::ZERO)
    }

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(100 + seconds)
    }

    #[test]
    fn a_node_is_dead_after_a_lease_of_answers_with_one_heartbeat() {
        let mut seen = Membership::default();
        assert!(seen.look(&view(&[("a", 4)]), at(0)).is_empty());
        assert!(seen.look(&view(&[("a", 5)]), at(3)).is_empty());
        assert!(seen.look(&view(&[("a", 5)]), at(6)).is_empty());
        assert_eq!(seen.look(&view(&[("a", 5)]), at(8)), [("a".to_owned(), 5)]);
    }

    /// The time of a pause of this node is no silence of the others.
    #[test]
    fn two_answers_are_not_enough() {
        let mut seen = Membership::default();
        assert!(seen.look(&view(&[("a", 4)]), at(0)).is_empty());
        assert!(seen.look(&view(&[("a", 4)]), at(60)).is_empty());
        assert_eq!(seen.look(&view(&[("a", 4)]), at(61)).len(), 1);
    }

    #[test]
    fn after_a_lost_answer_the_watch_begins_anew() {
        let mut seen = Membership::default();
        for second in 0..5 {
            assert!(seen.look(&view(&[("a", 4)]), at(second)).is_empty());
        }
        seen.break_off();
        for second in 5..10 {
            let dead = seen.look(&view(&[("a", 4)]), at(second));
            assert!(dead.is_empty(), "{second}");
        }
        assert_eq!(seen.look(&view(&[("a", 4)]), at(10)).len(), 1);
    }

    #[test]
    fn a_change_of_the_members_is_noted() {
        let mut seen = Membership::default();
        seen.look(&view(&[("a", 1)]), at(0));
        seen.look(&view(&[("a", 2)]), at(1));
        assert_eq!(seen.changed(), Some(at(0)));
        seen.look(&view(&[("a", 3), ("b", 1)]), at(2));
        assert_eq!(seen.changed(), Some(at(2)));
        seen.look(&view(&[("b", 2)]), at(3));
        assert_eq!(seen.changed(), Some(at(3)));
        seen.break_off();
        seen.look(&view(&[("b", 3)]), at(9));
        seen.look(&view(&[("b", 4)]), at(10));
        assert_eq!(seen.changed(), Some(at(9)), "the engine answers again");
    }
}
