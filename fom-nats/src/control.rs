//! The state of the cluster: the requests of all nodes, in the order of the stream.

use std::time::Duration;

use async_nats::jetstream::message::StreamMessage;
use fom_cluster::{ClusterState, engine::EngineError};
use tokio::sync::Mutex;

use crate::{
    connection::Stream,
    error::NatsError,
    request::{Answer, Request},
};

/// After so many requests, a node adds a snapshot of the state, and deletes the requests before the last one.
const REQUESTS: u64 = 1_000;

/// The state of the cluster, as this node has applied the requests.
#[derive(Debug)]
pub(crate) struct Control {
    subject: String,
    applied: Mutex<Applied>,
}

#[derive(Debug, Default)]
struct Applied {
    state: ClusterState,
    /// The number of the last message that was applied.
    last: u64,
    /// The requests since the last snapshot, and its number.
    since: u64,
    snapshot: u64,
}

/// What came of a request, or why the state refuses it.
pub(crate) type Answered = Result<Answer, EngineError>;

impl Control {
    pub(crate) fn new(subject: String) -> Self {
        Self {
            subject,
            applied: Mutex::default(),
        }
    }

    /// Adds a request, directly after those that this node has applied. If other nodes were faster, this one applies theirs first.
    pub(crate) async fn execute(
        &self,
        stream: &Stream,
        request: Request,
    ) -> Result<Answered, NatsError> {
        let mut applied = self.applied.lock().await;
        let message = serde_json::to_vec(&request).map_err(NatsError::request)?;
        loop {
            let messages = vec![message.clone()];
            let added = stream.publish(&self.subject, messages, applied.last).await;
            let Some(number) = added? else {
                self.catch_up(stream, &mut applied).await?;
                continue;
            };
            let now = match request.has_time() {
                true => self.time_of(stream, number).await?,
                false => Duration::ZERO,
            };
            let answered = applied.apply(&request, number, now);
            if applied.since >= REQUESTS {
                self.add_snapshot(stream, &mut applied).await;
            }
            return Ok(answered);
        }
    }

    /// Adds a mark. Returns its number, or that of a later request: each is a moment after the call.
    pub(crate) async fn mark(&self, stream: &Stream) -> Result<u64, NatsError> {
        // It changes nothing, so the state cannot refuse it.
        let _ = self.execute(stream, Request::Mark).await?;
        Ok(self.applied.lock().await.last)
    }

    pub(crate) fn subject(&self) -> &str {
        &self.subject
    }

    /// Applies the requests of other nodes.
    async fn catch_up(&self, stream: &Stream, applied: &mut Applied) -> Result<(), NatsError> {
        let last = stream.last(&self.subject).await?;
        let last = last.map_or(0, |message| message.sequence);
        if last < applied.last {
            // The servers were restored from a backup, or the stream was made anew. The terms show it to the node.
            *applied = Applied::default();
        }
        while applied.last < last {
            let page = stream.read(&self.subject, applied.last + 1).await?;
            if page.is_empty() {
                stream.wait_for_copy().await;
            }
            for message in page {
                let request = self.request_of(stream, &message)?;
                // What came of the requests of others is in the state.
                let _ = applied.apply(&request, message.sequence, time(&message));
            }
        }
        Ok(())
    }

    fn request_of(&self, stream: &Stream, message: &StreamMessage) -> Result<Request, NatsError> {
        let read = serde_json::from_slice(&message.payload);
        let (stream, sequence) = (stream.name().to_owned(), message.sequence);
        read.map_err(|error: serde_json::Error| match error.classify() {
            // The text is whole, and says what this release does not know.
            serde_json::error::Category::Data => NatsError::Newer { stream, sequence },
            _ => NatsError::Damaged {
                stream,
                sequence,
                what: error.to_string(),
            },
        })
    }

    /// Returns when the servers got this message.
    async fn time_of(&self, stream: &Stream, number: u64) -> Result<Duration, NatsError> {
        loop {
            let page = stream.read_one(&self.subject, number).await?;
            match page {
                Some(message) => return Ok(time(&message)),
                None => stream.wait_for_copy().await,
            }
        }
    }

    /// The requests between the last two snapshots are kept for nodes that are slow.
    async fn add_snapshot(&self, stream: &Stream, applied: &mut Applied) {
        let request = Request::Snapshot(applied.state.clone());
        let before = applied.snapshot;
        let Ok(message) = serde_json::to_vec(&request) else {
            return;
        };
        // After a failure, the next request tries it again.
        let added = stream.publish(&self.subject, vec![message], applied.last);
        let Ok(Some(number)) = added.await else {
            return;
        };
        let _ = applied.apply(&request, number, Duration::ZERO);
        if before > 0 {
            let _ = stream.delete_before(&self.subject, before).await;
        }
    }
}

impl Applied {
    fn apply(&mut self, request: &Request, number: u64, now: Duration) -> Answered {
        self.last = number;
        match request {
            Request::Snapshot(_) => (self.since, self.snapshot) = (0, number),
            _ => self.since += 1,
        }
        request.apply(&mut self.state, now)
    }
}

/// Returns when the servers got a message.
fn time(message: &StreamMessage) -> Duration {
    let nanos = message.time.unix_timestamp_nanos();
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
}
