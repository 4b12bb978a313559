//! The answer to a read: messages, each of which says which one is before it. A message can be lost on the way, such as between two
//! servers that connect again, and a log with a hole must not be taken for a whole one.

use async_nats::{HeaderMap, Message, StatusCode, jetstream::message::StreamMessage};

use crate::error::NatsError;

/// The number of the message before, in the same answer.
const BEFORE: &str = "Nats-Last-Sequence";

/// The messages of an answer so far.
#[derive(Debug, Default)]
pub(crate) struct Page {
    messages: Vec<StreamMessage>,
    last: u64,
}

impl Page {
    /// Takes the next message of the answer. Returns whether it was the last one.
    pub(crate) fn take(&mut self, answer: Message) -> Result<bool, NatsError> {
        match answer.status {
            None | Some(StatusCode::OK) => {
                self.follows(answer.headers.as_ref())?;
                let message = StreamMessage::try_from(answer).map_err(NatsError::request)?;
                self.last = message.sequence;
                self.messages.push(message);
                Ok(false)
            }
            // The end of the page.
            Some(status) if status.as_u16() == 204 => {
                self.follows(answer.headers.as_ref())?;
                Ok(true)
            }
            Some(StatusCode::NOT_FOUND) if self.messages.is_empty() => Ok(true),
            Some(status) => {
                let why = answer.description.unwrap_or_default();
                Err(NatsError::request(format!("a read failed: {status} {why}")))
            }
        }
    }

    /// Checks that no message between the last one and this one is missing.
    fn follows(&self, headers: Option<&HeaderMap>) -> Result<(), NatsError> {
        let before = headers.and_then(|headers| headers.get(BEFORE));
        let before = before.and_then(|before| before.as_str().parse().ok());
        match before == Some(self.last) {
            true => Ok(()),
            false => Err(NatsError::request(
                "a message of a read was lost on the way",
            )),
        }
    }

    pub(crate) fn into_messages(self) -> Vec<StreamMessage> {
        self.messages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: Option<u16>, headers: &[(&str, &str)]) -> Message {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, *value);
        }
        Message {
            subject: "inbox".into(),
            reply: None,
            payload: "".into(),
            headers: Some(map),
            status: status.and_then(|status| StatusCode::from_u16(status).ok()),
            description: None,
            length: 0,
        }
    }

    fn message(number: &str, before: &str) -> Message {
        let time = "2026-11-29T11:18:11.537815325Z";
        let headers = [
            ("Nats-Stream", "fom-orders"),
            ("Nats-Subject", "fom.orders.slot.0"),
            ("Nats-Sequence", number),
            ("Nats-Time-Stamp", time),
            (BEFORE, before),
        ];
        answer(None, &headers)
    }

    #[test]
    fn a_whole_page_is_read() {
        let mut page = Page::default();
        assert!(!page.take(message("4", "0")).unwrap());
        assert!(!page.take(message("9", "4")).unwrap());
        assert!(page.take(answer(Some(204), &[(BEFORE, "9")])).unwrap());
        let numbers = page
            .into_messages()
            .into_iter()
            .map(|message| message.sequence);
        assert_eq!(numbers.collect::<Vec<_>>(), [4, 9]);
        assert!(
            Page::default().take(answer(Some(404), &[])).unwrap(),
            "there is none"
        );
    }

    #[test]
    fn a_page_with_a_hole_is_an_error() {
        let lost = |page: &mut Page, next: Message| page.take(next).unwrap_err().to_string();
        let mut page = Page::default();
        assert!(lost(&mut page, message("9", "4")).contains("lost on the way"));
        page.take(message("4", "0")).unwrap();
        assert!(lost(&mut page, message("12", "9")).contains("lost on the way"));
        let end = answer(Some(204), &[(BEFORE, "9")]);
        assert!(lost(&mut page, end).contains("lost on the way"));
        assert!(lost(&mut page, answer(Some(204), &[])).contains("lost on the way"));
        assert!(lost(&mut page, answer(Some(408), &[])).contains("a read failed: 408"));
    }
}
