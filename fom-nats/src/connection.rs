//! The connections to the servers, and the thread that serves them. The thread of a caller may be inside an async runtime, where
//! it must not wait for an answer.

use std::{
    error::Error as _,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use async_nats::{
    Client, ConnectOptions, HeaderMap,
    jetstream::{
        self, Context, ErrorCode,
        context::{PublishError, PublishErrorKind},
        message::{PublishMessage, StreamMessage},
        publish::PublishAck,
        stream::{Info, LastRawMessageErrorKind},
    },
};
use bytes::Bytes;
use futures::StreamExt as _;
use serde_json::{Value, json};
use tokio::{
    runtime::Handle,
    sync::{OnceCell, oneshot},
    time::{Instant, sleep, timeout},
};

use crate::{error::NatsError, page::Page};

/// How long a call takes at most.
const LIMIT: Duration = Duration::from_secs(8);
/// How long a node waits for servers that choose a leader, when it joins.
const JOIN: Duration = Duration::from_secs(20);
/// How long one request takes at most.
const REQUEST: Duration = Duration::from_secs(4);
/// The time between two attempts to connect.
const RECONNECT: Duration = Duration::from_millis(250);
/// A server that does not answer for two of these is given up.
const PING: Duration = Duration::from_secs(1);
/// How many messages one read returns, and how many bytes of them.
const PAGE: (usize, usize) = (512, 8 << 20);
/// What the headers of a message need at most.
const HEADERS: usize = 1024;
/// How often a message is sent that no server takes, and the time between.
const ATTEMPTS: u32 = 40;
const AGAIN: Duration = Duration::from_millis(50);
/// The time until a copy that lags is asked again.
const LAG: Duration = Duration::from_millis(10);

/// How the servers are reached.
#[derive(Clone)]
pub(crate) struct Servers {
    pub(crate) urls: Vec<String>,
    pub(crate) options: Arc<dyn Fn(ConnectOptions) -> ConnectOptions + Send + Sync>,
}

/// The stream of a cluster, and a connection to it.
pub(crate) struct Stream {
    servers: Servers,
    name: String,
    context: OnceCell<Context>,
}

impl Stream {
    pub(crate) fn new(servers: Servers, name: String) -> Self {
        Self {
            servers,
            name,
            context: OnceCell::new(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the connection. After the first time, it connects again by itself.
    pub(crate) async fn context(&self) -> Result<&Context, NatsError> {
        self.context.get_or_try_init(|| self.connect()).await
    }

    async fn connect(&self) -> Result<Context, NatsError> {
        let options = ConnectOptions::new()
            .name(&self.name)
            .ping_interval(PING)
            .connection_timeout(REQUEST)
            .request_timeout(Some(REQUEST))
            .reconnect_delay_callback(|attempt| match attempt {
                0 | 1 => Duration::ZERO,
                _ => RECONNECT,
            });
        let options = (self.servers.options)(options);
        let client = options.connect(&self.servers.urls).await;
        let client = client.map_err(|error| NatsError::Connect(Arc::new(error)))?;
        let mut context = jetstream::new(client);
        context.set_timeout(REQUEST);
        Ok(context)
    }

    /// Returns the longest message.
    pub(crate) async fn longest(&self) -> Result<usize, NatsError> {
        let most = self.context().await?.client().max_payload();
        Ok(most.saturating_sub(HEADERS))
    }

    /// Adds messages to a subject, all or none of them, if its last message has this number. Returns the number of the last one
    /// that was added, or `None` if the subject has another last message, or another message is under way.
    pub(crate) async fn publish(
        &self,
        subject: &str,
        messages: Vec<Vec<u8>>,
        expected: u64,
    ) -> Result<Option<u64>, NatsError> {
        let messages: Vec<Bytes> = messages.into_iter().map(Bytes::from).collect();
        let mut attempts = 0..ATTEMPTS;
        loop {
            match self.try_publish(subject, &messages, expected).await? {
                Ok(ack) => return Ok(Some(ack.sequence)),
                Err(error) if is_other_last(&error) => return Ok(None),
                // The server knows of no server with the stream, so it has sent the message to none.
                Err(error)
                    if error.kind() == PublishErrorKind::StreamNotFound
                        && attempts.next().is_some() =>
                {
                    sleep(AGAIN).await;
                }
                Err(error) => return Err(NatsError::request(error)),
            }
        }
    }

    async fn try_publish(
        &self,
        subject: &str,
        messages: &[Bytes],
        expected: u64,
    ) -> Result<Result<PublishAck, PublishError>, NatsError> {
        let context = self.context().await?;
        let client = context.client();
        let batch = client.new_inbox();
        let headers_of = |number: usize| {
            let mut headers = HeaderMap::new();
            if number == 1 {
                let expected = expected.to_string();
                headers.insert("Nats-Expected-Last-Subject-Sequence", expected.as_str());
            }
            if messages.len() > 1 {
                headers.insert("Nats-Batch-Id", batch.as_str());
                headers.insert("Nats-Batch-Sequence", number.to_string().as_str());
            }
            headers
        };
        let Some((last, others)) = messages.split_last() else {
            return Err(NatsError::request("there is nothing to add"));
        };
        for (number, message) in (1..).zip(others) {
            let (subject, headers) = (subject.to_owned(), headers_of(number));
            let sent = client.publish_with_headers(subject, headers, message.clone());
            sent.await.map_err(NatsError::request)?;
        }
        let mut headers = headers_of(messages.len());
        if messages.len() > 1 {
            headers.insert("Nats-Batch-Commit", "1");
        }
        let last = PublishMessage::build()
            .headers(headers)
            .payload(last.clone());
        Ok(match context.send_publish(subject.to_owned(), last).await {
            Ok(acknowledged) => acknowledged.await,
            Err(error) => Err(error),
        })
    }

    /// Returns the last message of a subject, as the leader knows it. It may have been deposed, and not know that yet.
    pub(crate) async fn last(&self, subject: &str) -> Result<Option<StreamMessage>, NatsError> {
        let stream = self.context().await?.get_stream_no_info(&self.name).await;
        let stream = stream.map_err(NatsError::request)?;
        match stream.get_last_raw_message_by_subject(subject).await {
            Ok(message) => Ok(Some(message)),
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
            Err(error) => Err(NatsError::request(error)),
        }
    }

    /// Returns the next messages of a subject, from a number on. Any server that has a copy answers, and may lag. At its end,
    /// there is none.
    pub(crate) async fn read(
        &self,
        subject: &str,
        from: u64,
    ) -> Result<Vec<StreamMessage>, NatsError> {
        let (batch, max_bytes) = PAGE;
        let request = json!({
            "seq": from.max(1), "batch": batch, "max_bytes": max_bytes, "next_by_subj": subject,
        });
        self.read_page(request).await
    }

    /// Returns the last message of each subject that has one, up to this number, as of one moment. The server that answers may lag.
    pub(crate) async fn read_last(
        &self,
        subjects: &[&str],
        until: u64,
    ) -> Result<Vec<StreamMessage>, NatsError> {
        let request = json!({ "multi_last": subjects, "up_to_seq": until });
        self.read_page(request).await
    }

    async fn read_page(&self, request: Value) -> Result<Vec<StreamMessage>, NatsError> {
        let client = self.context().await?.client();
        let answered = timeout(REQUEST, self.ask_page(&client, &request));
        let late = |_| NatsError::request("a read was not answered");
        answered.await.map_err(late)?
    }

    async fn ask_page(
        &self,
        client: &Client,
        request: &Value,
    ) -> Result<Vec<StreamMessage>, NatsError> {
        let inbox = client.new_inbox();
        let mut answers = client
            .subscribe(inbox.clone())
            .await
            .map_err(NatsError::request)?;
        let to = format!("$JS.API.DIRECT.GET.{}", self.name);
        let request = request.to_string().into_bytes().into();
        let sent = client.publish_with_reply(to, inbox, request).await;
        sent.map_err(NatsError::request)?;
        let mut page = Page::default();
        while let Some(answer) = answers.next().await {
            if page.take(answer)? {
                return Ok(page.into_messages());
            }
        }
        Err(NatsError::request("the connection was closed"))
    }

    /// Returns this message of a subject, if a copy has it already.
    pub(crate) async fn read_one(
        &self,
        subject: &str,
        number: u64,
    ) -> Result<Option<StreamMessage>, NatsError> {
        let page = self.read(subject, number).await?.into_iter();
        Ok(page.take(1).find(|message| message.sequence == number))
    }

    /// Waits until a copy that lags may have more.
    pub(crate) async fn wait_for_copy(&self) {
        sleep(LAG).await;
    }

    /// Deletes the messages of a subject before this one.
    pub(crate) async fn delete_before(&self, subject: &str, number: u64) -> Result<(), NatsError> {
        let stream = self.context().await?.get_stream_no_info(&self.name).await;
        let stream = stream.map_err(NatsError::request)?;
        let purged = stream.purge().filter(subject).sequence(number).await;
        purged.map(drop).map_err(NatsError::request)
    }

    /// Creates the stream, if there is none. Returns what the leader says of it.
    pub(crate) async fn create(
        &self,
        config: jetstream::stream::Config,
    ) -> Result<Info, NatsError> {
        let context = self.context().await?;
        let stream = context.get_or_create_stream(config).await;
        Ok(stream.map_err(NatsError::request)?.cached_info().clone())
    }
}

/// Whether a message was refused because another one is the last of its subject, or is about to be.
fn is_other_last(error: &PublishError) -> bool {
    let source = error.source();
    let source = source.and_then(|source| source.downcast_ref::<jetstream::Error>());
    let code = source.map(jetstream::Error::error_code);
    let is_about_to_be = code == Some(ErrorCode::STREAM_WRONG_LAST_SEQUENCE_CONSTANT);
    is_about_to_be || error.kind() == PublishErrorKind::WrongLastSequence
}

async fn within<T>(
    limit: Duration,
    call: impl Future<Output = Result<T, NatsError>>,
) -> Result<T, NatsError> {
    let seconds = limit.as_secs();
    let done = timeout(limit, call).await;
    done.unwrap_or(Err(NatsError::Silent { seconds }))
}

/// The thread of the connections. It ends with this value.
#[derive(Debug)]
pub(crate) struct Caller {
    thread: Handle,
    _ends: oneshot::Sender<()>,
}

impl Caller {
    /// Starts the thread.
    pub(crate) fn start() -> Result<Self, NatsError> {
        let failed = |error| NatsError::Thread(Arc::new(error));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(failed)?;
        let thread = runtime.handle().clone();
        let (ends, ended) = oneshot::channel::<()>();
        thread::Builder::new()
            .name("fom-nats".to_owned())
            .spawn(move || {
                // The sender sends nothing.
                let _ = runtime.block_on(ended);
            })
            .map_err(failed)?;
        Ok(Self {
            thread,
            _ends: ends,
        })
    }

    /// Runs a call on the thread, and waits for its answer.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        call: impl Future<Output = Result<T, NatsError>> + Send + 'static,
    ) -> Result<T, NatsError> {
        let (answer, answered) = mpsc::sync_channel(1);
        self.thread.spawn(async move {
            // The caller waits.
            let _ = answer.send(within(LIMIT, call).await);
        });
        answered.recv().unwrap_or(Err(NatsError::Closed))
    }

    /// Runs a call, and runs it again as long as the servers have no leader: some seconds after the loss of one.
    pub(crate) fn ask_until_led<T, F>(
        &self,
        mut call: impl FnMut() -> F + Send + 'static,
    ) -> Result<T, NatsError>
    where
        F: Future<Output = Result<T, NatsError>> + Send,
        T: Send + 'static,
    {
        let (answer, answered) = mpsc::sync_channel(1);
        self.thread.spawn(async move {
            let begun = Instant::now();
            let done = loop {
                match within(LIMIT, call()).await {
                    Err(NatsError::Request(_) | NatsError::Silent { .. })
                        if begun.elapsed() < JOIN =>
                    {
                        sleep(RECONNECT).await;
                    }
                    done => break done,
                }
            };
            let _ = answer.send(done);
        });
        answered.recv().unwrap_or(Err(NatsError::Closed))
    }
}
