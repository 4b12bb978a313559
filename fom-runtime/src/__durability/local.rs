//! The inside of a locality. [`Local`] is its public part.

use crate::{
    context::Local,
    fom::Header,
    locality::{Home, with_core},
    runtime::Shared,
};

/// Calls `f` with the locality that this thread holds, if it holds one. `f` must call no user code.
#[inline]
pub fn with_local<R>(f: impl FnOnce(&mut Local<'_>) -> R) -> Option<R> {
    with_core(|core| f(&mut Local::new(core)))
}

/// Returns the address of the locality.
#[inline]
pub fn home<'a>(local: &'a Local<'_>) -> &'a Home {
    &local.core_ref().home
}

/// Returns what the localities of the runtime share.
#[inline]
pub fn shared_at(home: &Home) -> &Shared {
    Shared::behind(home.env())
}

/// Runs `f` in the locality, soon. It may be dropped without being run while the runtime shuts down.
pub fn post(home: &Home, f: impl FnOnce(&mut Local<'_>) + Send + 'static) {
    home.post_job(Box::new(move |core| f(&mut Local::new(core))));
}

/// Returns the time of the locality's last look at the clock, in nanoseconds.
#[inline]
pub fn last_look(local: &Local<'_>) -> u64 {
    local.core_ref().now()
}

/// Wakes a fom of this locality.
#[inline]
pub fn wake_here(local: &mut Local<'_>, fom: &Header) {
    local.core().wake(fom);
}

/// Makes the locality look at the lease before each phase function.
pub fn look_at_lease(local: &mut Local<'_>) {
    local.core().run_budget.limit_to_one_step();
}

/// Numbers the foms that are submitted in this locality from `first` on.
pub fn number_here_from(local: &mut Local<'_>, first: u64) {
    local.core().number_from(first);
}
