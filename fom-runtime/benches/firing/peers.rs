//! Tasks of the peers. They sleep until their time, or time out while they wait for an event that never comes.

use std::{future::pending, time::Instant};

use futures_lite::FutureExt;
use kit::peers::{self_wake, smol_io, tokio_ct, tokio_mt};

use super::{BATCH, Plan, Spawn, WORKERS};
use crate::LEAD;

/// A worker's generator. It is a macro, since the two kinds of task have two types, which no closure can spawn.
macro_rules! generator {
    ($n:expr, $plan:expr, $peer:ident, |$task:ident| $spawn:expr) => {{
        let (n, plan): (usize, Plan) = ($n, $plan);
        async move {
            match plan.spawn {
                Spawn::AtOnce | Spawn::Shuffled => {
                    for (k, number) in plan.numbers(n).enumerate() {
                        let $task = async move {
                            let deadline = plan.deadline(number);
                            $peer::sleep_until(deadline).await;
                            plan.fired(number, deadline);
                        };
                        $spawn;
                        if k % BATCH == BATCH - 1 {
                            self_wake().await;
                        }
                    }
                }
                Spawn::Spread => {
                    for (at, numbers) in plan.ticks(n) {
                        $peer::sleep_until(at).await;
                        for number in numbers {
                            let $task = async move {
                                let deadline = Instant::now() + LEAD;
                                $peer::time_out().await;
                                plan.fired(number, deadline);
                            };
                            $spawn;
                        }
                    }
                }
            }
            pending::<()>().await;
        }
    }};
}

pub(super) fn start(peer: &str, plan: Plan) -> bool {
    match peer {
        "tokio-mt" => {
            tokio_mt(WORKERS, |n| {
                generator!(n, plan, by_tokio, |task| drop(tokio::spawn(task)))
            });
        }
        "tokio-ct" => {
            tokio_ct(WORKERS, move |n| {
                generator!(n, plan, by_tokio, |task| drop(tokio::spawn(task)))
            });
        }
        "smol" => {
            smol_io(WORKERS, |n, smol| {
                generator!(n, plan, by_smol, |task| smol.spawn(task).detach())
            });
        }
        "glommio" => {
            kit::peers::glommio(WORKERS, move |n| {
                generator!(n, plan, by_glommio, |task| drop(
                    glommio::spawn_local(task).detach()
                ))
            });
        }
        "monoio" => {
            kit::peers::monoio(WORKERS, move |n| {
                generator!(n, plan, by_monoio, |task| drop(monoio::spawn(task)))
            });
        }
        _ => return false,
    }
    true
}

mod by_tokio {
    use super::*;

    pub(super) async fn sleep_until(at: Instant) {
        tokio::time::sleep_until(at.into()).await;
    }

    pub(super) async fn time_out() {
        assert!(tokio::time::timeout(LEAD, pending::<()>()).await.is_err());
    }
}

mod by_smol {
    use super::*;

    pub(super) async fn sleep_until(at: Instant) {
        async_io::Timer::at(at).await;
    }

    pub(super) async fn time_out() {
        let late = async {
            async_io::Timer::after(LEAD).await;
        };
        pending::<()>().or(late).await;
    }
}

mod by_glommio {
    use super::*;

    pub(super) async fn sleep_until(at: Instant) {
        glommio::timer::sleep(at.saturating_duration_since(Instant::now())).await;
    }

    pub(super) async fn time_out() {
        let never = pending::<Result<(), glommio::GlommioError<()>>>();
        assert!(glommio::timer::timeout(LEAD, never).await.is_err());
    }
}

mod by_monoio {
    use super::*;

    pub(super) async fn sleep_until(at: Instant) {
        monoio::time::sleep_until(monoio::time::Instant::from_std(at)).await;
    }

    pub(super) async fn time_out() {
        assert!(monoio::time::timeout(LEAD, pending::<()>()).await.is_err());
    }
}
