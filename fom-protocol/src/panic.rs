//! The text of a panic.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the user's code, such as a waker or a destructor.
///
/// # Errors
///
/// The message, if the code panics. The panic hook has reported the panic by then.
pub fn caught<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(f)).map_err(panic_message)
}

/// Returns the message of a panic. The payload is the user's, and may panic when it is dropped.
pub fn panic_message(panic: Box<dyn std::any::Any + Send>) -> String {
    let text = if let Some(text) = panic.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text.clone()
    } else {
        "a panic without a message".to_owned()
    };
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        // This payload is leaked, because its drop might panic again without end.
        std::mem::forget(again);
    }
    text
}
