//! A journal with a lease that is over: no phase function is entered.

use fom_runtime::{observe::PartValue, time::Instant};

use crate::{
    Level, WarningKind, Watch,
    board::{Finding, Place},
    sight::Sight,
};

/// Since when the looks have seen that the lease is over.
#[derive(Default)]
pub(super) struct Lease(Option<Instant>);

impl Lease {
    pub(super) fn check(&mut self, watch: &Watch, sight: &Sight) -> Option<Finding> {
        let mut journals = sight.parts.parts.iter();
        let journal = journals.find(|part| part.kind == "journal")?;
        if journal.get("lease") != Some(&PartValue::Flag(false)) {
            self.0 = None;
            return None;
        }
        let age = sight.now - *self.0.get_or_insert(sight.now);
        (age >= watch.journal).then(|| Finding {
            kind: WarningKind::Journal,
            level: Level::of_time(age, watch.journal),
            subject: "the lease of the journal".to_owned(),
            detail: String::new(),
            text: format!("no operation goes on: the lease of the journal is over since {age:.0?}"),
            place: Place::of(None),
            ids: Vec::new(),
            foms: 0,
            age,
            limit: Some(watch.journal),
            common: Vec::new(),
            advice: "see whether the server of the journal answers; the operations go on when it does, here or in the \
                     process that has taken them over"
                .to_owned(),
        })
    }
}
