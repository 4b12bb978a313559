//! Submissions that wait for a place in the queue of a key.

use crate::{
    fom::{Full, Order},
    id::KeyOf,
    operation::Operation,
    runtime::{Shared, Submission, room::Told},
};

/// A place that is kept in the queue of a key.
pub(in crate::runtime) struct KeyPlace<'a> {
    shared: &'a Shared,
    of: KeyOf,
}

impl Drop for KeyPlace<'_> {
    fn drop(&mut self) {
        self.shared.key_index.release(self.shared, &self.of);
    }
}

impl<'a> KeyPlace<'a> {
    /// Keeps a place if there is room for one.
    pub(super) fn now(shared: &'a Shared, of: &KeyOf, shares: bool) -> Option<Self> {
        let kept = shared.key_index.reserve_now(of, shares);
        kept.then(|| Self {
            shared,
            of: of.clone(),
        })
    }

    /// Waits until a place is kept. Returns `None` if the wait would never end: the fom that runs here has the key, or
    /// the runtime takes nothing more.
    async fn kept(shared: &'a Shared, of: KeyOf, shares: bool) -> Option<Self> {
        loop {
            let Some(told) = shared.key_index.reserve(&of, shares) else {
                return Some(Self { shared, of });
            };
            let mut told = Told::new(told, || shared.key_index.release(shared, &of));
            let own =
                crate::fom::hand::context::running(&shared.env, |fom| fom.turn().has_key(&of));
            if own == Some(true) || shared.is_late() {
                return None;
            }
            if told.is_given().await {
                let of = of.clone();
                return Some(Self { shared, of });
            }
        }
    }
}

impl<'a, O: Operation> Submission<'a, O> {
    /// If the submission would be refused because the queue of its key is full, waits until a place is kept. Then the
    /// submission gets in without a look at the limit. The place lasts until the returned value is dropped.
    pub(in crate::runtime) async fn wait_for_place(&mut self) -> Option<KeyPlace<'a>> {
        let special = self.special.as_ref();
        let is_delayed = special.is_some_and(|special| special.after.is_some());
        let (
            Some(of),
            Order::Queue {
                shares,
                full: Full::Refuse,
            },
            false,
        ) = (self.turn(), self.order, is_delayed)
        else {
            return None;
        };
        let place = KeyPlace::kept(self.shared, of, shares);
        let place = place.await?;
        self.order = Order::Queue {
            shares,
            full: Full::Ignore,
        };
        Some(place)
    }
}
