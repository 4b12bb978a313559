//! Users that post operations for one key from several localities at once.

use std::collections::VecDeque;

use fom_runtime::submission::Placement;

use crate::{
    load::{PER_USER, User},
    work::{Feed, NEXT, Queued, mixed},
};

impl User {
    /// Two senders in two localities post for the same key. Sometimes the user also submits an operation for it.
    pub(crate) async fn feed(self, first: u64, line: u64) {
        let key = Feed::key(line);
        let localities = self.runtime.localities() as u64;
        let mut waiting = VecDeque::new();
        let mut n = first;
        while n + 10 < first + PER_USER {
            // The key must be free, so that the first operation has it at once.
            while let Some(live) = self.runtime.find::<Queued>(key.clone()) {
                live.reached([]).await;
            }
            let mut senders = Vec::new();
            for turn in 0..2 {
                self.say_submitted::<Feed>(n, false);
                let feed = Feed::new(n, line, turn == 0);
                let home = (n / NEXT + turn) % localities;
                let feed = self.runtime.submit(feed);
                match feed.place(Placement::Locality(home as usize)).start() {
                    Ok(handle) => senders.push((n, handle)),
                    Err(refused) => self.say_refused(n, refused.reason()),
                }
                n += NEXT;
            }
            if mixed(n).is_multiple_of(3) {
                self.queue(n, &key, false, &mut waiting).await;
                n += 1;
            }
            for (n, handle) in senders {
                self.say_outcome(n, handle.await);
            }
        }
    }
}
