//! Requests: what a node asks of the cluster, as messages of the stream. Each node applies them in the order of the stream, so
//! all nodes have the same state.

use std::time::Duration;

use fom_cluster::{
    ClusterState, Slot,
    engine::{Assignment, Beat, Claim, Claimed, EngineError, NodeInfo, Settings, Versions, View},
};
use serde::{Deserialize, Serialize};

/// What a node asks of the cluster. The form is JSON, so that an operator can read the stream.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    Open(Settings),
    Beat {
        incarnation: String,
        is_first: bool,
        time: Duration,
        node: NodeInfo,
    },
    // The name in the texts that are stored.
    #[serde(rename = "Bury")]
    Evict {
        incarnation: String,
        beat: u64,
    },
    Claim {
        slot: Slot,
        seen: u64,
        incarnation: String,
        time: Duration,
        reads: Versions,
    },
    Note {
        slot: Slot,
        term: u64,
        notes: Vec<u8>,
    },
    Assign(Assignment),
    Release {
        slot: Slot,
        term: u64,
    },
    Leave {
        incarnation: String,
    },
    /// Changes nothing: its place in the stream is a moment of all slots.
    Mark,
    /// The state after all messages before this one.
    Snapshot(ClusterState),
}

/// What came of a request.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Settings(Settings),
    View(View),
    Claimed(Option<Claimed>),
    Assignment(Assignment),
    /// Whether it did something.
    Done(bool),
}

/// Returns what a request was answered, if this is the answer to such a request.
macro_rules! answers {
    ($($name:ident: $variant:ident($answer:ty),)*) => {
        impl Answer {
            $(pub(crate) fn $name(self) -> Result<$answer, EngineError> {
                match self {
                    Self::$variant(answer) => Ok(answer),
                    other => Err(EngineError::refused(format!("the state answers something else: {other:?}"))),
                }
            })*
        }
    };
}

answers! {
    settings: Settings(Settings),
    view: View(View),
    claimed: Claimed(Option<Claimed>),
    assignment: Assignment(Assignment),
    done: Done(bool),
}

impl Request {
    /// Does what the request asks, at this time of the stream.
    pub(crate) fn apply(
        &self,
        state: &mut ClusterState,
        now: Duration,
    ) -> Result<Answer, EngineError> {
        Ok(match self {
            Self::Open(settings) => Answer::Settings(state.open(settings)),
            Self::Beat {
                incarnation,
                is_first,
                time,
                node,
            } => {
                let beat = Beat::new(incarnation, *is_first, *time, node);
                Answer::View(state.beat(&beat, now))
            }
            Self::Evict { incarnation, beat } => Answer::Done(state.evict(incarnation, *beat)),
            Self::Claim {
                slot,
                seen,
                incarnation,
                time,
                reads,
            } => {
                let mut claim = Claim::new(*slot, *seen, incarnation, *time);
                claim.reads = reads;
                Answer::Claimed(state.claim(&claim)?)
            }
            Self::Note { slot, term, notes } => Answer::Done(state.note(*slot, *term, notes)?),
            Self::Assign(assignment) => Answer::Assignment(state.assign(assignment)),
            Self::Release { slot, term } => {
                state.release(*slot, *term)?;
                Answer::Done(true)
            }
            Self::Leave { incarnation } => {
                state.leave(incarnation);
                Answer::Done(true)
            }
            Self::Mark => Answer::Done(true),
            Self::Snapshot(snapshot) => {
                state.clone_from(snapshot);
                Answer::Done(true)
            }
        })
    }

    /// Whether what comes of it depends on when the servers got it.
    pub(crate) fn has_time(&self) -> bool {
        matches!(self, Self::Beat { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Releases read each other's requests, so a text that was read once is read for ever. A new field has `serde(default)`.
    #[test]
    fn the_texts_of_requests_stay() {
        let texts = [
            r#"{"Open":{"slots":2,"hash":1}}"#,
            r#"{"Beat":{"incarnation":"a-1","is_first":true,"time":{"secs":7,"nanos":5},"node":{"name":"a","address":"10.0.0.5:7070","weight":1,"reads":{"Selling Order":2},"survived":["a-0"]}}}"#,
            r#"{"Claim":{"slot":1,"seen":0,"incarnation":"a-1","time":{"secs":8,"nanos":0},"reads":{"Selling Order":2}}}"#,
            r#"{"Note":{"slot":1,"term":1,"notes":[1,2]}}"#,
            r#"{"Assign":{"version":1,"drained":["b"],"pinned":{"1":"a"}}}"#,
            r#""Mark""#,
            r#"{"Snapshot":{"facts":{"slots":2,"hash":1},"nodes":{"a-1":{"info":{"name":"a","address":"10.0.0.5:7070","weight":1,"reads":{"Selling Order":2},"survived":["a-0"]},"beat":1}},"slots":[{"row":{"term":0,"owner":null,"since":{"secs":0,"nanos":0},"holds":{}},"time":{"secs":0,"nanos":0},"notes":[]},{"row":{"term":1,"owner":"a-1","since":{"secs":8,"nanos":0},"holds":{"Selling Order":2}},"time":{"secs":8,"nanos":0},"notes":[1,2]}],"time":{"secs":7,"nanos":5},"assignment":{"version":1,"drained":["b"],"pinned":{"1":"a"}},"beaten":{"secs":100,"nanos":0}}}"#,
            r#"{"Release":{"slot":1,"term":1}}"#,
            r#"{"Bury":{"incarnation":"a-1","beat":1}}"#,
            r#"{"Leave":{"incarnation":"a-1"}}"#,
        ];
        let mut state = ClusterState::default();
        for text in texts {
            let request: Request = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&request).unwrap(), text);
            if let Request::Snapshot(snapshot) = &request {
                assert_eq!(*snapshot, state, "it is what the requests before have made");
            }
            request.apply(&mut state, Duration::from_secs(100)).unwrap();
        }
    }
}
