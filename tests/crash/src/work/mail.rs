//! An operation that gets its events from outside, by durable sends.

use fom_durable::prelude::*;
use serde::{Deserialize, Serialize};

use super::{Mark, Story};

/// The number of letters that each operation gets.
pub(crate) const LETTERS: u32 = 4;

/// Takes letters and keeps each in order. A letter that came twice would show in the outcome.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Mail {
    pub(crate) mark: Mark,
    pub(crate) read: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum MailEvent {
    Letter(u32),
}

#[fom(operation(Mail), event(MailEvent))]
pub(crate) enum Mailing {
    #[phase(start, sync, to(Last), on(Letter))]
    Begin,
    #[phase(sync, to(Done))]
    Last,
    #[phase(end)]
    Done,
}

impl MailingTransitions for Mail {
    fn begin(
        &mut self,
        cx: &mut Cx<'_, MailEvent>,
        event: MailEvent,
    ) -> Result<MailingAfterBegin, BoxError> {
        self.mark.effect(cx, "Begin");
        self.mark.hop();
        let MailEvent::Letter(letter) = event;
        self.read.push_str(&letter.to_string());
        Ok(match self.read.len() < LETTERS as usize {
            true => MailingAfterBegin::Stay,
            false => MailingAfterBegin::Last,
        })
    }
    fn last(&mut self, cx: &mut Cx<'_, MailEvent>) -> Result<(), BoxError> {
        self.mark.step(cx, "Last")
    }
}

impl Story for Mail {
    const LETTER: char = 'm';
    fn make(n: u64) -> Self {
        Self {
            mark: Mark::new(n),
            read: String::new(),
        }
    }
    marked!(mark);
    fn due(_: u64) -> String {
        "read-0123".to_owned()
    }
    fn outcome(&self) -> String {
        format!("read-{}", self.read)
    }
}
