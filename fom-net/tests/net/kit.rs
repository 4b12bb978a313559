//! What the tests share.

use std::{future::Future, net::SocketAddr, time::Duration};

/// No test takes longer.
const LIMIT: Duration = Duration::from_secs(30);

pub(crate) fn any() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// Runs a test that could hang.
pub(crate) fn limited<F: Future<Output = ()>>(test: impl FnOnce() -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let done = async { tokio::time::timeout(LIMIT, test()).await };
    runtime.block_on(done).expect("in time");
}

/// Waits until something is so that no call tells.
pub(crate) async fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        tokio::task::yield_now().await;
        std::thread::yield_now();
    }
}
