//! The bank of a locality: a fom that says what it thinks of payments. It stands for a connection to a real one.

use fom_runtime::{prelude::*, submission::EventSender};

use crate::http::{Verdict, verdict};

/// The address of a bank.
pub(crate) type Bank = EventSender<Question>;

/// What a bank is told.
#[derive(Debug)]
pub(crate) enum Question {
    Asked {
        cents: u64,
        payment: EventSender<Verdict>,
    },
    /// The bank closes.
    Close,
}

/// The bank has no state.
#[derive(Debug)]
pub(crate) struct Desk;

#[fom(operation(Desk), event(Question), transient)]
#[derive(Debug)]
pub(crate) enum Banking {
    /// Takes one question after the other, until it closes.
    #[phase(start, sync, on(Asked, Close), to(Closed), hung = "never")]
    Open,
    #[phase(end)]
    Closed,
}

impl BankingTransitions for Desk {
    fn open(
        &mut self,
        _: &mut Cx<'_, Question>,
        question: Question,
    ) -> Result<BankingAfterOpen, BoxError> {
        let Question::Asked { cents, payment } = question else {
            return Ok(BankingAfterOpen::Closed);
        };
        if let Some(verdict) = verdict(cents) {
            // A payment that has ended wants no answer.
            let _ = payment.send(verdict);
        }
        Ok(BankingAfterOpen::Stay)
    }
}
