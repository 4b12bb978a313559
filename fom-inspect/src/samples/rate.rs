//! Rates over three windows.

use std::time::Duration;

use serde::Serialize;

/// How often in a second something happens, over three windows.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Rates {
    #[serde(rename = "10s")]
    pub(crate) seconds: Option<f64>,
    #[serde(rename = "1m")]
    minute: Option<f64>,
    #[serde(rename = "10m")]
    minutes: Option<f64>,
}

impl Rates {
    pub(super) fn of(rate: impl Fn(Duration) -> Option<f64>) -> Self {
        // Half a second more, because samples come a little late.
        let of = |seconds| rate(Duration::from_secs(seconds) + Duration::from_millis(500));
        Self {
            seconds: of(10),
            minute: of(60),
            minutes: of(600),
        }
    }
}
