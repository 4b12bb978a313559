//! Warnings as events of the crate `tracing`.

use crate::{Level, Warning};

/// Emits an event for a warning that is told: a warning at the level `WARN`, a severe or critical one at `ERROR`.
pub(crate) fn emit(warning: &Warning) {
    macro_rules! event {
        ($level:expr) => {
            tracing::event!(
                $level,
                level = %warning.level,
                kind = %warning.kind,
                operation = warning.operation.as_deref(),
                phase = warning.phase.as_deref(),
                subject = warning.subject,
                foms = warning.foms,
                ids = %ids(warning),
                age_seconds = warning.age.as_secs_f64(),
                common = warning.common.join("; "),
                advice = warning.advice,
                "{}",
                warning.text,
            )
        };
    }
    match warning.level {
        Level::Warning => event!(tracing::Level::WARN),
        Level::Severe | Level::Critical => event!(tracing::Level::ERROR),
    }
}

fn ids(warning: &Warning) -> String {
    let ids: Vec<_> = warning.ids.iter().map(ToString::to_string).collect();
    ids.join(" ")
}
