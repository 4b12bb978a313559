//! The text of a panic.

use std::panic::{AssertUnwindSafe, catch_unwind};

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
