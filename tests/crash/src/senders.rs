//! Users that send from outside, as webhooks do, and that look outcomes up.

use std::time::Duration;

use fom_durable::{Address, Lookup, NotCommitted, NotSentReason, Sent, prelude::*};
use fom_runtime::{FomId, Key, snapshot::QuarantineKind};

use crate::{
    load::{MOST, PAUSE, PER_USER, User},
    work::{
        Buy, Fail, Guarded, LETTERS, MENDED_PATH, Mail, MailEvent, Mend, Retry, Story, Tick, Walk,
        is_cancelled, mixed,
    },
};

/// The pause between two looks for operations to cancel.
const LOOK: Duration = Duration::from_millis(20);

fn key_of(n: u64) -> Key {
    ("mail", n).into()
}

impl User {
    /// Submits the operations that get letters, and sends the letters.
    pub(crate) async fn mails(self, first: u64) {
        for n in first..first + PER_USER {
            while self.runtime.in_flight() > MOST {
                tokio::time::sleep(PAUSE).await;
            }
            let Some(handle) = self.with_key::<Mail>(n, key_of(n)).await else {
                return;
            };
            while let Err(NotCommitted::Journal(_)) = handle.committed().await {
                tokio::time::sleep(PAUSE).await;
            }
            self.letters(n).await;
            self.say_outcome(n, handle.await);
        }
    }

    /// Submits the operations that are cancelled, and those that are not.
    pub(crate) async fn buys(self, first: u64) {
        for n in first..first + PER_USER {
            let Some(handle) = self.with_key::<Buy>(n, ("buy", n).into()).await else {
                return;
            };
            self.say_outcome(n, handle.await);
        }
    }

    /// Cancels the operations that are to be cancelled, also on their way back.
    pub(crate) async fn cancels(self) {
        loop {
            tokio::time::sleep(LOOK).await;
            let foms = self.runtime.operations().foms;
            let buys = foms
                .iter()
                .filter(|fom| fom.operation == Buy::GRAPH.operation());
            // A fom that has begun is past the phase without a way back.
            for fom in buys.filter(|fom| matches!(fom.phase, "Pack" | "Back")) {
                if let Some(Key::Pair(pair)) = &fom.key
                    && let Key::Int(n) = pair.1
                    && is_cancelled(n)
                {
                    self.runtime.cancel(fom.id);
                }
            }
        }
    }

    /// Tries the operations again that failed, and that a retry mends.
    pub(crate) async fn mends(self) {
        loop {
            for fom in self.to_mend() {
                self.history.line(format_args!("M {fom}"));
                if self.runtime.quarantine().retry(fom).is_err() {
                    self.history.line(format_args!("N {fom}"));
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Returns the failed operations that a retry mends. The path of each is whole, also after a restart.
    fn to_mend(&self) -> Vec<FomId> {
        let mut failed = self.runtime.quarantine().list_of(QuarantineKind::Failed);
        let mend = Mend::GRAPH.operation();
        failed.retain(|entry| entry.operation.as_deref() == Some(mend));
        for entry in &failed {
            let path = entry.failure.as_ref().map(|failure| &failure.path);
            if path.is_none_or(|path| path != &MENDED_PATH) {
                let id = entry.id;
                self.history
                    .line(format_args!("X fom {id} failed with the path {path:?}"));
            }
        }
        failed.iter().map(|entry| entry.id).collect()
    }

    /// Waits until nothing is in flight, and no retry mends what has failed.
    pub(crate) async fn ends(&self) {
        loop {
            self.runtime.idle().await;
            if self.to_mend().is_empty() && self.runtime.in_flight() == 0 {
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Sends all letters again to the operations that came back, as their senders would.
    pub(crate) async fn letters_again(self) {
        let foms = self.runtime.operations().foms;
        for fom in foms
            .iter()
            .filter(|fom| fom.operation == Mail::GRAPH.operation())
        {
            if let Some(Key::Pair(pair)) = &fom.key
                && let Key::Int(n) = pair.1
            {
                self.letters(n).await;
            }
        }
    }

    /// Sends the letters in their order. Repeats some.
    async fn letters(&self, n: u64) {
        for letter in 0..LETTERS {
            let times = 1 + u32::from(mixed(n + u64::from(letter)).is_multiple_of(3));
            for _ in 0..times {
                if !self.letter(n, letter).await {
                    return;
                }
            }
        }
    }

    /// Sends a letter until it is acknowledged. Returns `false` if the operation has ended.
    async fn letter(&self, n: u64, letter: u32) -> bool {
        loop {
            let event = MailEvent::Letter(letter);
            let sent = self
                .runtime
                .send_durably::<Mail>(key_of(n), event, u64::from(letter));
            let how = match sent.await.map_err(|not_sent| not_sent.reason) {
                Ok(Sent::Now) => "now",
                Ok(_) => "before",
                Err(NotSentReason::NoReceiver { .. }) => return false,
                // The journal fails at times, on purpose.
                Err(NotSentReason::NotAccepted | NotSentReason::Journal(_)) => {
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
                Err(reason) => {
                    let line = format_args!("X letter {letter} of {n}: {reason}");
                    self.history.line(line);
                    return false;
                }
            };
            self.history.line(format_args!("K {n} {letter} {how}"));
            return true;
        }
    }

    /// Looks up how operations of earlier lives ended, by their operation ids.
    pub(crate) fn look_up(&self, known: &[(char, u64)]) {
        for (letter, n) in known {
            match *letter {
                Walk::LETTER => self.look::<Walk>(*n),
                Tick::LETTER => self.look::<Tick>(*n),
                Retry::LETTER => self.look::<Retry>(*n),
                Fail::LETTER => self.look::<Fail>(*n),
                Guarded::<Tick>::LETTER => self.look::<Guarded<Tick>>(*n),
                // This release may not know the type.
                _ => {}
            }
        }
    }

    fn look<O: Story>(&self, n: u64) {
        let found = match self.runtime.outcome::<O>(Address::once(n)) {
            Lookup::Ended { outcome, .. } => match outcome {
                Ok(ended) => ended.operation.outcome(),
                Err(_) => "failed".to_owned(),
            },
            Lookup::Unknown => "unknown".to_owned(),
            _ => "in-flight".to_owned(),
        };
        self.history.line(format_args!("F {n} {found}"));
    }
}
