//! The command line of the commands for a program that runs.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Commands for a program that runs with an inspector.
#[derive(Debug, Subcommand)]
pub(crate) enum Online {
    /// Lists foms of a program, such as `fom list 'type:Call phase:Ring in_phase>30s'`.
    List(Listing),
    /// Shows everything about one fom: its phase, what it waits for, its failed attempts.
    Show(Follow),
    /// Shows which fom waits for which other one, and the cycles.
    Waits(Program),
    /// Draws a machine, as text by default.
    Graph(Drawn),
    /// Shows the program in the terminal: machines, phases, oldest foms, localities, warnings.
    Top(Program),
    /// Prints warnings as they come, until the program ends.
    Watch(Program),
    /// Writes the flight recorder to a file, as JSON for Perfetto and chrome://tracing.
    Record(Recording),
    /// Sends an event to a fom.
    Send(Send),
    /// Cancels a fom, or all foms of a filter.
    Cancel(Many),
    /// Wakes a fom, or all foms of a filter.
    Wake(Many),
    /// Begins the next attempt of a fom, or runs a failed operation again.
    Retry(Many),
    /// Keeps foms with a key from their begin.
    Suspend(OfKey),
    /// Ends what `suspend` began.
    Resume(OfKey),
    /// Changes the policy of an admission.
    Policy(Policy),
    /// Moves the oldest queued request of a client to the highest priority.
    Promote(Promote),
}

impl Online {
    pub(crate) fn program(&self) -> &Program {
        match self {
            Self::List(list) => &list.program,
            Self::Show(show) => &show.program,
            Self::Graph(drawn) => &drawn.program,
            Self::Record(record) => &record.program,
            Self::Waits(program) | Self::Top(program) | Self::Watch(program) => program,
            Self::Send(send) => &send.act.program,
            Self::Cancel(many) | Self::Wake(many) | Self::Retry(many) => &many.act.program,
            Self::Suspend(of) | Self::Resume(of) => &of.act.program,
            Self::Policy(policy) => &policy.act.program,
            Self::Promote(promote) => &promote.act.program,
        }
    }
}

#[derive(Args, Debug)]
pub(crate) struct Program {
    /// The inspector of the program: `http://HOST:PORT` or `unix:PATH`. Default: $FOM_INSPECT.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) at: Option<String>,
    /// A file with the token of the inspector. Default: the token is $FOM_INSPECT_TOKEN.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Prints JSON: one object a line.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Listing {
    #[command(flatten)]
    pub(crate) program: Program,
    /// Which foms: type:NAME, phase:NAME, state:NAME, waits:KIND, key:TEXT, key:TEXT*, locality:N, in_phase>TIME, age>TIME,
    /// attempts>=N.
    #[arg(value_name = "FILTER")]
    pub(crate) filter: Vec<String>,
    /// The order: the longest in its phase first, the first submitted first, or by id.
    #[arg(long, value_parser = ["in_phase", "age", "id"], default_value = "in_phase")]
    pub(crate) sort: String,
    /// The most foms in the list.
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(crate) limit: u64,
    /// Lists the last failed operations and the quarantine instead, with the ids for `fom retry`.
    #[arg(long, conflicts_with_all = ["filter", "sort"])]
    pub(crate) failed: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Follow {
    #[command(flatten)]
    pub(crate) program: Program,
    /// The key or the id of the fom.
    #[arg(value_name = "KEY|ID")]
    pub(crate) fom: String,
    /// Prints what changes, until the fom ends.
    #[arg(long)]
    pub(crate) follow: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Drawn {
    #[command(flatten)]
    pub(crate) program: Program,
    /// The type of the machine, as `fom top` shows it.
    #[arg(value_name = "TYPE")]
    pub(crate) machine: String,
    /// As a picture.
    #[arg(long, group = "form")]
    pub(crate) svg: bool,
    /// As a Mermaid state diagram.
    #[arg(long, group = "form")]
    pub(crate) mermaid: bool,
    /// As a Graphviz digraph.
    #[arg(long, group = "form")]
    pub(crate) dot: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Recording {
    #[command(flatten)]
    pub(crate) program: Program,
    /// The file to write. It must not exist.
    #[arg(value_name = "FILE")]
    pub(crate) to: PathBuf,
}

#[derive(Args, Debug)]
pub(crate) struct Act {
    #[command(flatten)]
    pub(crate) program: Program,
    /// Why. The program keeps it, with the name of the user.
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
}

#[derive(Args, Debug)]
pub(crate) struct Send {
    #[command(flatten)]
    pub(crate) act: Act,
    /// The key or the id of the fom.
    #[arg(value_name = "KEY|ID")]
    pub(crate) fom: String,
    /// The event as JSON, such as '{"Say": "hello"}'. An event without data is its name.
    #[arg(value_name = "EVENT")]
    pub(crate) event: String,
}

#[derive(Args, Debug)]
pub(crate) struct Many {
    #[command(flatten)]
    pub(crate) act: Act,
    #[command(flatten)]
    pub(crate) target: Target,
    /// Acts on the foms of the filter. Without this, the command only counts them.
    #[arg(long)]
    pub(crate) yes: bool,
}

/// One fom, or all foms of a filter.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct Target {
    /// The key or the id of the fom.
    #[arg(value_name = "KEY|ID")]
    pub(crate) fom: Option<String>,
    /// All foms of a filter, such as 'type:Call phase:Ring in_phase>30s'.
    #[arg(long, value_name = "FILTER")]
    pub(crate) filter: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct OfKey {
    #[command(flatten)]
    pub(crate) act: Act,
    /// The type of the operations.
    #[arg(value_name = "TYPE")]
    pub(crate) machine: String,
    /// Their key.
    #[arg(value_name = "KEY")]
    pub(crate) key: String,
}

#[derive(Args, Debug)]
pub(crate) struct Policy {
    #[command(flatten)]
    pub(crate) act: Act,
    /// The name of the admission.
    #[arg(value_name = "ADMISSION")]
    pub(crate) admission: String,
    /// The new policy, in one line: `crr quantum=2`.
    #[arg(value_name = "POLICY")]
    pub(crate) policy: String,
}

#[derive(Args, Debug)]
pub(crate) struct Promote {
    #[command(flatten)]
    pub(crate) act: Act,
    /// The name of the admission.
    #[arg(value_name = "ADMISSION")]
    pub(crate) admission: String,
    /// The client.
    #[arg(value_name = "CLIENT")]
    pub(crate) client: String,
}
