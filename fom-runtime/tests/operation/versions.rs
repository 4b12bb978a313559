//! What one release saved is read by the next correctly, or not at all.

use fom_runtime::{
    prelude::*,
    snapshot::{RestoreError, SavedError},
};
use serde::{Deserialize, Serialize};

use crate::kit::release::release;

/// What `Ring` of the first release saves.
fn rung() -> Snapshot {
    let call = first::Call {
        callee: "ada".into(),
        tries: 3,
    };
    let ring = first::Route::Ring {
        endpoint: "10.0.0.7".into(),
        seconds: 32,
    };
    call.snapshot(&ring).unwrap()
}

release!(first() struct { pub(super) callee: String, pub(super) tries: u32 } to(Ring, Over) {
    #[phase(end)]
    Ring { endpoint: String, seconds: u64 },
    #[phase(end)]
    Over,
});

// In the second, time is in milliseconds, and `Ring` is called `Alert`.
release!(second(, version = 2, migrate(v1(super::to_second)))
    struct { pub(super) callee: String, pub(super) tries: u32 } to(Alert, Over) {
    #[phase(end, was = "Ring")]
    Alert { endpoint: String, millis: u64 },
    #[phase(end)]
    Over,
});

fn to_second(saved: &mut fom_runtime::snapshot::Saved) -> Result<(), BoxError> {
    assert_eq!(saved.version(), 1);
    if saved.phase() == "Ring" {
        let seconds: u64 = saved.take("seconds")?;
        saved.put("millis", &(seconds * 1_000))?;
    }
    Ok(())
}

// In the third, the operation knows its callee by parts, and `Over` is gone.
release!(third(, version = 3, migrate(v1(super::to_second), v2(super::to_third)), retired("Over"))
    struct { pub(super) user: String, pub(super) host: Option<String>, pub(super) tries: u32 }
    to(Alert, Ended) {
    #[phase(end, was = "Ring")]
    Alert { endpoint: String, millis: u64, #[phase(default)] loud: bool },
    #[phase(end)]
    Ended { well: bool },
});

fn to_third(saved: &mut fom_runtime::snapshot::Saved) -> Result<(), BoxError> {
    #[derive(Deserialize)]
    struct Call {
        callee: String,
        tries: u32,
    }
    assert_eq!(saved.version(), 2);
    let Call { callee, tries } = saved.operation()?;
    let (user, host) = match callee.split_once('@') {
        Some((user, host)) => (user.to_owned(), Some(host.to_owned())),
        None => (callee, None),
    };
    saved.set_operation(&third::Call { user, host, tries })?;
    Ok(())
}

/// Migrations run from the saved version on, one after the other, and each sees the result of the one before. Names of
/// phases and defaults of fields come after them.
#[test]
fn an_operation_goes_through_all_versions() {
    let saved = rung();
    assert_eq!(saved.version().unwrap(), 1);
    let (call, phase) = second::Call::restore(&saved).unwrap();
    let endpoint = "10.0.0.7".to_owned();
    let alert = second::Route::Alert {
        endpoint: endpoint.clone(),
        millis: 32_000,
    };
    assert_eq!(
        (call.callee.as_str(), call.tries, &phase),
        ("ada", 3, &alert)
    );

    let again = call.snapshot(&phase).unwrap();
    assert_eq!(again.version().unwrap(), 2);
    for saved in [saved, again] {
        let (call, phase) = third::Call::restore(&saved).unwrap();
        let loud = false;
        let (endpoint, millis) = (endpoint.clone(), 32_000);
        assert_eq!(
            phase,
            third::Route::Alert {
                endpoint,
                millis,
                loud
            }
        );
        assert_eq!(
            (call.user.as_str(), call.host, call.tries),
            ("ada", None, 3)
        );
    }
}

/// A refused snapshot is unchanged: the release that it belongs to can read it.
#[test]
fn what_is_newer_is_refused_and_kept() {
    let call = second::Call {
        callee: "ada".into(),
        tries: 1,
    };
    let saved = call.snapshot(&second::Route::Over).unwrap();
    let error = first::Call::restore(&saved).unwrap_err();
    assert_eq!(
        error,
        RestoreError::NewerVersion {
            machine: "Route",
            found: 2,
            known: 1
        }
    );
    assert_eq!(
        error.to_string(),
        "the snapshot is of version 2 of `Route`, and this release knows up to version 1; start one that has version 2"
    );
    assert_eq!(second::Call::restore(&saved).unwrap().0, call);
}

mod led {
    pub(super) fn on(
        saved: &mut fom_runtime::snapshot::Saved,
    ) -> Result<(), fom_runtime::error::BoxError> {
        if saved.phase() == "Over" {
            saved.set_phase("Ended");
            saved.put("well", &true)?;
        }
        Ok(())
    }
}

/// A retired phase is refused as retired, unless a migration leads elsewhere.
#[test]
fn a_retired_phase_is_refused_unless_it_is_migrated() {
    release!(leading(, version = 3, migrate(v2(super::led::on)), retired("Over"))
        struct { pub(super) callee: String, pub(super) tries: u32 } to(Alert, Ended) {
        #[phase(end)]
        Alert { endpoint: String, millis: u64 },
        #[phase(end)]
        Ended { well: bool },
    });
    let call = second::Call {
        callee: "ada".into(),
        tries: 1,
    };
    let over = call.snapshot(&second::Route::Over).unwrap();
    let error = third::Call::restore(&over).unwrap_err();
    let retired = RestoreError::RetiredPhase {
        phase: "Over".into(),
        machine: "Route",
    };
    assert_eq!(error, retired);
    let (_, phase) = leading::Call::restore(&over).unwrap();
    assert_eq!(phase, leading::Route::Ended { well: true });
    // This release reads what version 2 saved, and says that nothing leads from version 1.
    assert_eq!(
        leading::Call::restore(&rung()).unwrap_err(),
        RestoreError::NoMigration {
            machine: "Route",
            found: 1,
            wanted: 3
        }
    );
}

mod bad {
    use fom_runtime::{error::BoxError, snapshot::Saved};

    pub(super) fn asks(saved: &mut Saved) -> Result<(), BoxError> {
        let _: u8 = saved.take("colour")?;
        Ok(())
    }

    pub(super) fn panics(_: &mut Saved) -> Result<(), BoxError> {
        panic!("nobody thought of this")
    }
}

/// A migration that fails or panics leaves the rest alone, and the error names it.
#[test]
fn a_migration_that_fails_is_named() {
    release!(asking(, version = 2, migrate(v1(super::bad::asks)))
        struct { pub(super) callee: String, pub(super) tries: u32 } to(Ring, Over) {
        #[phase(end)]
        Ring { endpoint: String, seconds: u64 },
        #[phase(end)]
        Over,
    });
    release!(panicking(, version = 3, migrate(v1(super::to_second), v2(super::bad::panics)))
        struct { pub(super) callee: String, pub(super) tries: u32 } to(Ring, Over) {
        #[phase(end)]
        Ring { endpoint: String, seconds: u64 },
        #[phase(end)]
        Over,
    });
    let failed = asking::Call::restore(&rung()).unwrap_err();
    assert_eq!(
        failed.to_string(),
        "the migration of `Route` from version 1 failed: phase `Ring` was saved without a field `colour`; it has `endpoint`, `seconds`"
    );
    let panicked = panicking::Call::restore(&rung()).unwrap_err();
    let message = "nobody thought of this".to_owned();
    assert_eq!(
        panicked,
        RestoreError::MigrationPanicked {
            machine: "Route",
            from: 2,
            message
        }
    );
}

/// A migration finds fields by name and type, and gets an error for a field that it cannot have. Fields that it did not
/// take stay.
#[test]
fn what_a_migration_can_ask() {
    release!(asked(, version = 2, migrate(v1(super::asks)))
        struct { pub(super) callee: String, pub(super) tries: u32 } to(Ring, Over) {
        #[phase(end)]
        Ring { endpoint: String, seconds: u64 },
        #[phase(end)]
        Over,
    });
    let (_, phase) = asked::Call::restore(&rung()).unwrap();
    assert!(
        matches!(phase, asked::Route::Ring { seconds: 8, .. }),
        "{phase:?}"
    );
}

fn asks(saved: &mut fom_runtime::snapshot::Saved) -> Result<(), BoxError> {
    #[derive(Debug, Deserialize)]
    struct Narrow {
        #[allow(dead_code, reason = "it is never read that far")]
        callee: String,
    }
    #[derive(Serialize)]
    enum Unsaved {
        #[serde(skip)]
        Never,
    }
    let fields: Vec<&str> = saved.fields().collect();
    assert_eq!(fields, ["endpoint", "seconds"]);
    let error = saved.take::<u64>("endpoint").unwrap_err();
    assert!(
        matches!(&error, SavedError::Field { field, .. } if field == "endpoint"),
        "{error}"
    );
    let error = saved.operation::<Narrow>().unwrap_err();
    assert!(error.to_string().contains("`tries`"), "{error}");
    let before = saved.clone();
    let error = saved.put("endpoint", &Unsaved::Never).unwrap_err();
    assert!(matches!(error, SavedError::NotSaved { .. }), "{error}");
    saved.set_operation(&Unsaved::Never).unwrap_err();
    assert_eq!(*saved, before);
    saved.put("seconds", &7u64)?;
    assert!(saved.remove("seconds") && !saved.remove("seconds"));
    saved.put("seconds", &8u64)?;
    Ok(())
}
