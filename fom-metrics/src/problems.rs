//! What went wrong: incidents, failures, the quarantine.

use fom_runtime::{
    observe::{FailedFom, IncidentCounter},
    snapshot::Quarantined,
};

use crate::{
    catalog::{FAILURES, INCIDENTS, QUARANTINED},
    readings::Readings,
};

pub(crate) fn read_incidents(incidents: &[IncidentCounter], into: &mut Readings) {
    for of in incidents {
        into.count(INCIDENTS, &[of.kind.name()], of.count);
    }
}

pub(crate) fn read_failures(failures: &[FailedFom], into: &mut Readings) {
    for failed in failures {
        into.count(FAILURES, &[failed.operation, failed.phase], 1);
    }
}

pub(crate) fn read_quarantine(quarantined: &[Quarantined], into: &mut Readings) {
    for entry in quarantined {
        // A damaged entry does not tell its type.
        let operation = entry.operation.as_deref().unwrap_or_default();
        into.count(QUARANTINED, &[operation, entry.kind().name()], 1);
    }
}
