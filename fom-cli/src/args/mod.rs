//! The command line.

mod cluster;
mod journal;
mod online;

use clap::Parser;

pub(crate) use cluster::{Asked, Cluster};
pub(crate) use journal::{Export, Journal, List, Show};
pub(crate) use online::{
    Act, Drawn, Follow, Listing, Many, OfKey, Online, Policy, Program, Promote, Send,
};

/// Looks into programs of foms that run, acts on them, and looks into journals.
#[derive(Debug, Parser)]
#[command(name = "fom", version, max_term_width = 100)]
pub(crate) enum Command {
    /// Commands for a journal. They need no program and no code of it.
    #[command(subcommand)]
    Journal(Journal),
    /// Commands for a cluster of nodes. They ask one node.
    #[command(subcommand)]
    Cluster(Cluster),
    #[command(flatten)]
    Online(Online),
}

impl Command {
    pub(crate) fn is_json(&self) -> bool {
        match self {
            Self::Journal(command) => command.is_json(),
            Self::Cluster(command) => command.asked().json,
            Self::Online(command) => command.program().json,
        }
    }
}
