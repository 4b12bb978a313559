//! The errors of an engine in NATS JetStream.

use std::{io, sync::Arc};

/// The engine could not be made, or its servers do not do what they must.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NatsError {
    /// The name of a cluster is part of the name of its stream.
    #[error("the name of a cluster has letters, digits, `-` and `_`, and no others: `{0}`")]
    Name(String),
    /// No server could be reached.
    #[error("NATS: no server accepts a connection: {0}")]
    Connect(#[source] Arc<async_nats::ConnectError>),
    /// The servers did not answer in time.
    #[error("NATS did not answer within {seconds} s; check the servers and the network")]
    Silent {
        /// The limit, in seconds.
        seconds: u64,
    },
    /// A request failed. The servers may have done it.
    #[error("NATS: {0}")]
    Request(#[source] Arc<dyn std::error::Error + Send + Sync>),
    /// A server is too old: it has no atomic batches.
    #[error("the server {server} has version {version}, but fom needs NATS 2.12 or later")]
    OldServer {
        /// The name of the server.
        server: String,
        /// Its version.
        version: String,
    },
    /// A server acknowledges messages before they are on its disk.
    #[error(
        "the server {server} acknowledges messages before they are on its disk, and a power failure loses committed \
         transitions; set `sync_interval: always` in `jetstream`, or call `allow_no_fsync`"
    )]
    NoFsync {
        /// The name of the server.
        server: String,
    },
    /// The stream has one copy.
    #[error(
        "the stream {stream} has one copy, and the failure of its server loses committed transitions; give it three \
         with `nats stream edit --replicas 3`, or call `allow_one_copy`"
    )]
    OneCopy {
        /// The name of the stream.
        stream: String,
    },
    /// The servers that have the stream could not be checked, because their monitoring pages did not answer.
    #[error(
        "the servers {servers} have the stream, and none of the monitoring URLs shows their settings; name the \
         monitoring URL (`http: HOST:8222`) of each server, or call `allow_no_fsync`. {failures}"
    )]
    NotChecked {
        /// The names of the servers.
        servers: String,
        /// Why monitoring URLs did not answer.
        failures: String,
    },
    /// The stream was made with other settings.
    #[error(
        "the stream {stream} has other settings than fom gives it: {what}; change them, or use another name for the cluster"
    )]
    Settings {
        /// The name of the stream.
        stream: String,
        /// The setting.
        what: &'static str,
    },
    /// A message of the stream cannot be read.
    #[error(
        "message {sequence} of the stream {stream} is damaged: {what}; restore the stream from a backup"
    )]
    Damaged {
        /// The name of the stream.
        stream: String,
        /// The number of the message.
        sequence: u64,
        /// What is wrong.
        what: String,
    },
    /// A later release wrote a message.
    #[error(
        "message {sequence} of the stream {stream} is of a later release of fom; use that release"
    )]
    Newer {
        /// The name of the stream.
        stream: String,
        /// The number of the message.
        sequence: u64,
    },
    /// The thread for the connections could not be created.
    #[error("the thread `fom-nats` could not be created: {0}")]
    Thread(#[source] Arc<io::Error>),
    /// The thread for the connections has ended.
    #[error("the engine is closed")]
    Closed,
}

impl NatsError {
    pub(crate) fn request(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Request(Arc::from(why.into()))
    }

    /// Whether the servers have done nothing, and will do nothing when they are asked again.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::Name(_)
                | Self::OldServer { .. }
                | Self::NoFsync { .. }
                | Self::OneCopy { .. }
                | Self::NotChecked { .. }
                | Self::Settings { .. }
                | Self::Damaged { .. }
                | Self::Newer { .. }
        )
    }
}
