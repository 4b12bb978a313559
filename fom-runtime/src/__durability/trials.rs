//! What a trial of all boundaries needs of a runtime.

use fom_protocol::FomState;

use crate::{
    Builder, FomRef, Operation, Runtime,
    fom::{RuntimeState, WaitingFor},
    locality::Home,
    observe::Interpose,
};

/// As [`Runtime::interpose`], from the first transition on.
pub fn interpose<O: Operation>(builder: Builder, interposer: impl Interpose<O>) -> Builder {
    builder.hook(|hooks| {
        crate::typed::interpose::<O>(hooks, Box::new(interposer));
    })
}

/// Returns a time that no timer precedes, or `None` if no timer is armed.
pub async fn next_timer(runtime: &Runtime) -> Option<u64> {
    runtime.shared.localities.next_timer().await
}

/// Returns whether a fom waits for a future that is not the runtime's, such as a socket.
pub fn waits_outside(runtime: &Runtime) -> bool {
    let homes = runtime.shared.localities.iter();
    homes.flat_map(|home| home.pools.foms()).any(|fom| {
        let is_waiting = fom.token.state() == FomState::Waiting;
        is_waiting && fom.waiting.get() == WaitingFor::Future
    })
}

/// From now on nothing begins, and no phase function is entered. No fom is told yet.
pub fn close(runtime: &Runtime) {
    runtime.shared.close(RuntimeState::Closed);
}

/// Returns the home of the fom.
pub fn home_of<O: Operation>(fom: &FomRef<O>) -> Home {
    fom.home()
}

/// Drops an event that the fom has not taken, as a crash would. Returns whether there was one.
pub fn lose_event<O: Operation>(fom: &FomRef<O>) -> bool {
    fom.lose_event()
}
