//! Work that takes long or waits for the engine, on a thread of its own.

use fom_protocol::schedule::spawn;
use tokio::sync::oneshot;

/// Runs a function on a thread of its own. Returns its result, or why there is none.
pub(crate) async fn apart<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    let (tell, told) = oneshot::channel();
    let main = move || {
        // The caller may have gone.
        let _ = tell.send(work());
    };
    spawn(name, main).map_err(|error| format!("a thread could not be created: {error}"))?;
    told.await
        .map_err(|_| format!("the thread {name} has panicked"))
}
