//! The command line of the commands for a cluster.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Commands for a cluster of nodes. They ask one node.
#[derive(Debug, Subcommand)]
pub(crate) enum Cluster {
    /// Shows the nodes, the slots that have no owner, move or are pinned, and what is wrong.
    Status(Asked),
    /// Lists what all slots have in quarantine, with the slots and ids for `retry` and `discard`.
    Quarantine(Asked),
    /// Lets a node give its slots up and take no other ones, until `undrain`.
    Drain(OfNode),
    /// Lets a node take slots again.
    Undrain(OfNode),
    /// Moves a slot to a node and keeps it there, until `unpin`. To forbid moves of a slot, pin it to its owner.
    Pin(Pin),
    /// Lets a slot move to the node that should own it.
    Unpin(Unpin),
    /// Tries an entry of the quarantine again.
    Retry(OfEntry),
    /// Removes an entry of the quarantine, and all that is known of it.
    Discard(OfEntry),
}

impl Cluster {
    pub(crate) fn asked(&self) -> &Asked {
        match self {
            Self::Status(asked) | Self::Quarantine(asked) => asked,
            Self::Drain(of) | Self::Undrain(of) => &of.asked,
            Self::Pin(pin) => &pin.asked,
            Self::Unpin(unpin) => &unpin.asked,
            Self::Retry(entry) | Self::Discard(entry) => &entry.asked,
        }
    }
}

/// The node that is asked.
#[derive(Args, Debug)]
pub(crate) struct Asked {
    /// The address of any node, such as `10.0.0.5:7070`. Default: $FOM_CLUSTER.
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) at: Option<String>,
    /// A file with the secret of the nodes. Default: the secret is $FOM_CLUSTER_SECRET.
    #[arg(long, value_name = "FILE")]
    pub(crate) secret_file: Option<PathBuf>,
    #[cfg(feature = "tls")]
    #[command(flatten)]
    pub(crate) tls: Option<Certificates>,
    /// Prints JSON: one object a line.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The files for an encrypted connection.
#[cfg(feature = "tls")]
#[derive(Args, Debug)]
#[group(requires_all = ["certificate", "key", "authority"])]
pub(crate) struct Certificates {
    /// A file with a certificate for this command, for nodes that encrypt their connections.
    #[arg(long, value_name = "FILE", required = false)]
    pub(crate) certificate: PathBuf,
    /// The file with the private key of the certificate.
    #[arg(long, value_name = "FILE", required = false)]
    pub(crate) key: PathBuf,
    /// A file with the certificate of the authority of the cluster.
    #[arg(long, value_name = "FILE", required = false)]
    pub(crate) authority: PathBuf,
}

#[derive(Args, Debug)]
pub(crate) struct OfNode {
    #[command(flatten)]
    pub(crate) asked: Asked,
    /// The name of the node.
    #[arg(value_name = "NODE")]
    pub(crate) node: String,
}

#[derive(Args, Debug)]
pub(crate) struct Pin {
    #[command(flatten)]
    pub(crate) asked: Asked,
    /// The number of the slot.
    #[arg(value_name = "SLOT")]
    pub(crate) slot: u16,
    /// The name of the node.
    #[arg(value_name = "NODE")]
    pub(crate) node: String,
}

#[derive(Args, Debug)]
pub(crate) struct Unpin {
    #[command(flatten)]
    pub(crate) asked: Asked,
    /// The number of the slot.
    #[arg(value_name = "SLOT")]
    pub(crate) slot: u16,
}

#[derive(Args, Debug)]
pub(crate) struct OfEntry {
    #[command(flatten)]
    pub(crate) asked: Asked,
    /// The number of the slot.
    #[arg(value_name = "SLOT")]
    pub(crate) slot: u16,
    /// The id of the entry in its slot.
    #[arg(value_name = "ID")]
    pub(crate) id: u64,
}
