//! The wait of a standby until the journal has no living owner.

use std::time::Duration;

use tokio::time::sleep;

use crate::{
    clock::boot_time,
    connection::Connection,
    error::PostgresError,
    owner::Owner,
    row::{self, Claim, JournalRow},
    settings::Settings,
    tables,
};

/// An owner is dead when its heartbeat has not changed for this time.
pub(crate) const LEASE: Duration = Duration::from_secs(5);
/// The time between two looks of a standby.
const LOOK: Duration = Duration::from_millis(250);
/// The fewest answered looks at an unchanged heartbeat.
const LOOKS: u32 = 3;
/// The time between two attempts to connect.
pub(crate) const AGAIN: Duration = Duration::from_millis(250);

/// What a standby has seen of the owner.
#[derive(Default)]
struct Watch {
    /// The row of the last look, and since when it was unchanged in consecutive looks, on the own clock.
    last: Option<(JournalRow, Duration, u32)>,
    /// The newest heartbeat ever seen, when it was first seen, and how old it was then.
    newest: Option<(i64, i64, Duration, Duration)>,
}

impl Watch {
    /// Notes an answered look. Returns whether the owner is dead.
    fn look(&mut self, row: &JournalRow, now: Duration) -> bool {
        let seen = (row.term, row.beat);
        match self.newest {
            Some((term, beat, ..)) if (term, beat) >= seen => {}
            // It has changed since the last look: it is as old as that look, at the most.
            Some(_) => self.newest = Some((row.term, row.beat, now, Duration::ZERO)),
            None => self.newest = Some((row.term, row.beat, now, row.unwritten)),
        }
        let is_same = |last: &JournalRow| (last.term, last.beat) == seen && last.owner == row.owner;
        match &mut self.last {
            Some((last, since, looks)) if is_same(last) => {
                *looks += 1;
                row.owner.is_empty() || *looks >= LOOKS && now.saturating_sub(*since) >= LEASE
            }
            last => {
                *last = Some((row.clone(), now, 1));
                row.owner.is_empty()
            }
        }
    }

    /// Forgets the last look: the connection failed, and another server may answer the next look.
    fn break_off(&mut self) {
        self.last = None;
    }

    /// Returns the time since the owner's last write, measured by this process as far as possible: the clocks of two
    /// servers may differ.
    fn elapsed(&self, now: Duration) -> Duration {
        self.newest.map_or(Duration::ZERO, |(_, _, at, age)| {
            now.saturating_sub(at) + age
        })
    }
}

/// Waits until this process has the journal. Returns when the claim was sent, and the connection.
///
/// # Errors
///
/// Fails if the first connection fails, and if the server has lost commits. After the first connection, a server that
/// fails is tried again.
pub(crate) async fn own(
    settings: &mut Settings,
    me: &str,
) -> Result<(Connection, Claim, Duration), PostgresError> {
    let mut to = Some(settings.servers.connect().await?);
    if let Some(to) = &to {
        tables::create(to).await?;
    }
    let (mut watch, mut told, mut highest) = (Watch::default(), None, 0);
    loop {
        let Some(open) = to.take() else {
            sleep(AGAIN).await;
            watch.break_off();
            to = match settings.servers.connect().await {
                // Another server, with other settings.
                Err(error @ (PostgresError::NoFsync | PostgresError::OneCopy)) => {
                    return Err(error);
                }
                connected => connected.ok(),
            };
            continue;
        };
        let Ok(row) = row::read(&open, &settings.name).await else {
            continue;
        };
        if row.term < highest {
            return Err(PostgresError::TermWentBack {
                name: settings.name.clone(),
                found: row.term.cast_unsigned(),
                seen: highest.cast_unsigned(),
            });
        }
        highest = row.term;
        let now = boot_time();
        let claimed = if row.owner == me {
            // The answer to the claim was lost.
            row::claim_again(&open, &settings.name, me).await
        } else if watch.look(&row, now) {
            let elapsed = watch.elapsed(now);
            row::claim(&open, &settings.name, me, &settings.node, &row, elapsed).await
        } else {
            if told.as_ref() != Some(&row.owner) {
                told = Some(row.owner.clone());
                (settings.on_wait)(&Owner {
                    node: row.node.clone(),
                    term: row.term.cast_unsigned(),
                });
            }
            Ok(None)
        };
        match claimed {
            Ok(Some(claim)) => return Ok((open, claim, now)),
            Ok(None) => {
                to = Some(open);
                sleep(LOOK).await;
            }
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(term: i64, beat: i64) -> JournalRow {
        JournalRow {
            term,
            owner: "a".into(),
            node: "node a".into(),
            beat,
            unwritten: Duration::from_secs(3600),
        }
    }

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(100 + seconds)
    }

    #[test]
    fn an_owner_is_dead_after_a_lease_of_looks_at_one_heartbeat() {
        let mut watch = Watch::default();
        assert!(!watch.look(&row(1, 4), at(0)));
        assert!(!watch.look(&row(1, 5), at(3)), "it beats");
        assert!(!watch.look(&row(1, 5), at(6)));
        assert!(watch.look(&row(1, 5), at(8)));
        assert_eq!(watch.elapsed(at(8)), Duration::from_secs(5));
    }

    /// A standby that was paused must not take the time of its pause for silence of the owner.
    #[test]
    fn two_looks_are_not_enough() {
        let mut watch = Watch::default();
        assert!(!watch.look(&row(1, 4), at(0)));
        assert!(!watch.look(&row(1, 4), at(60)));
        assert!(watch.look(&row(1, 4), at(61)));
    }

    /// A heartbeat that only the server before had must not make the owner look older.
    #[test]
    fn after_a_lost_connection_the_watch_begins_anew() {
        let mut watch = Watch::default();
        for second in 0..4 {
            assert!(!watch.look(&row(1, 4), at(second)));
        }
        watch.break_off();
        for second in 4..9 {
            assert!(!watch.look(&row(1, 4), at(second)), "{second}");
        }
        assert!(watch.look(&row(1, 4), at(9)));
        // The time goes on from the first sight of the heartbeat, by the own clock.
        assert_eq!(watch.elapsed(at(9)), Duration::from_secs(3600 + 9));
    }

    /// The clock of a promoted server may be an hour off: only the first look ever uses it.
    #[test]
    fn the_clock_of_another_server_does_not_count() {
        let mut watch = Watch::default();
        watch.look(&row(1, 4), at(0));
        watch.look(&row(1, 5), at(1));
        watch.break_off();
        watch.look(&row(1, 5), at(4));
        assert_eq!(watch.elapsed(at(4)), Duration::from_secs(3));
    }

    #[test]
    fn a_released_journal_is_free_at_once() {
        let free = JournalRow {
            owner: String::new(),
            ..row(2, 9)
        };
        assert!(Watch::default().look(&free, at(0)));
    }
}
