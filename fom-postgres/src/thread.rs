//! The thread with the connections. The caller's thread may be inside an async runtime, where it must not wait for one.

use std::{
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use fom_journal::{JournalError, Lease, Statement};
use tokio::sync::{mpsc as commands, oneshot};

use crate::{
    appends::Appends,
    clock::{JournalTime, boot_time},
    connection::Connection,
    error::PostgresError,
    row,
    settings::{Servers, Settings},
    standby::{AGAIN, LEASE, own},
};

/// The time between two heartbeats.
const BEAT: Duration = Duration::from_secs(1);
/// The lease of an owner ends this long before a standby may claim the journal.
const MARGIN: Duration = Duration::from_secs(1);

/// Rows of the log: their numbers and bodies.
pub(crate) type Rows = Vec<(i64, Vec<u8>)>;

/// Where an answer goes.
pub(crate) type Answer<T> = mpsc::SyncSender<Result<T, JournalError>>;

/// Something for the thread to do.
pub(crate) enum Command {
    Append {
        bodies: Vec<Vec<u8>>,
        statements: Vec<(usize, Statement)>,
        answer: Answer<Vec<i64>>,
    },
    Load {
        from: i64,
        to: i64,
        answer: Answer<Rows>,
    },
    DeleteUntil(i64, Answer<()>),
    Release(Answer<()>),
}

/// A journal that this process has claimed.
pub(crate) struct Owned {
    pub(crate) commands: commands::UnboundedSender<Command>,
    pub(crate) lease: Lease,
    /// The number of the last row of the log.
    pub(crate) last: i64,
    pub(crate) time: JournalTime,
}

/// Starts the thread. It ends with the last sender of commands, or when the receiver of the journal is gone.
pub(crate) fn start(
    settings: Settings,
) -> Result<oneshot::Receiver<Result<Owned, PostgresError>>, PostgresError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| PostgresError::Thread(Arc::new(error)))?;
    let (tell, told) = oneshot::channel();
    let spawned = thread::Builder::new()
        .name("fom-postgres".to_owned())
        .spawn(move || runtime.block_on(run(settings, tell)));
    match spawned {
        Ok(_) => Ok(told),
        Err(error) => Err(PostgresError::Thread(Arc::new(error))),
    }
}

async fn run(mut settings: Settings, mut tell: oneshot::Sender<Result<Owned, PostgresError>>) {
    let me = incarnation(&settings.node);
    let owned = tokio::select! {
        owned = own(&mut settings, &me) => owned,
        // The caller has given up.
        () = tell.closed() => return,
    };
    let (connection, claim, sent) = match owned {
        Ok(owned) => owned,
        Err(error) => {
            let _ = tell.send(Err(error));
            return;
        }
    };
    let until = sent + LEASE - MARGIN;
    let lease = Lease::new(claim.term.cast_unsigned(), until, boot_time);
    let time = JournalTime {
        passed: claim.passed,
        at: sent,
    };
    let (commands, mut asked) = commands::unbounded_channel();
    let owned = Owned {
        commands,
        lease: lease.clone(),
        last: claim.batch,
        time,
    };
    let beats = beat(Beats {
        servers: settings.servers.clone(),
        name: settings.name.clone(),
        me: me.clone(),
        lease: lease.clone(),
        time,
        connection: Some(connection),
    });
    let beats = tokio::spawn(beats);
    let mut appends = Appends::new(settings, me, lease, time, claim);
    if tell.send(Ok(owned)).is_err() {
        let _ = appends.release().await;
        return;
    }
    // The receivers of answers may be gone.
    while let Some(command) = asked.recv().await {
        match command {
            Command::Append {
                bodies,
                statements,
                answer,
            } => drop(answer.send(appends.append(&bodies, &statements).await)),
            Command::Load { from, to, answer } => {
                drop(answer.send(appends.load(from, to).await.map_err(Into::into)))
            }
            Command::DeleteUntil(last, answer) => {
                drop(answer.send(appends.delete_until(last).await.map_err(Into::into)));
            }
            Command::Release(answer) => {
                // No heartbeat follows the release.
                beats.abort();
                drop(answer.send(appends.release().await.map_err(Into::into)));
            }
        }
    }
    beats.abort();
}

/// What the heartbeats need.
struct Beats {
    servers: Servers,
    name: String,
    me: String,
    lease: Lease,
    time: JournalTime,
    connection: Option<Connection>,
}

/// Sends heartbeats until another process has the journal. They have a connection of their own: a commit that waits does
/// not delay them.
async fn beat(mut this: Beats) {
    loop {
        let sent = boot_time();
        let beaten = match &this.connection {
            Some(to) => row::beat(to, &this.name, &this.me, this.time.now()).await,
            None => match this.servers.connect().await {
                Ok(open) => {
                    this.connection = Some(open);
                    continue;
                }
                Err(error) => Err(error),
            },
        };
        match beaten {
            Ok(true) => {
                this.lease.extend(sent + LEASE - MARGIN);
                tokio::time::sleep(BEAT).await;
            }
            Ok(false) => {
                this.lease.lose();
                return;
            }
            Err(_) => {
                this.connection = None;
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}

/// Returns a name that no other process, and no earlier run of this one, has.
fn incarnation(node: &str) -> String {
    use std::hash::{BuildHasher, RandomState};
    let random = || RandomState::new().hash_one(std::process::id());
    format!("{node} {:016x}{:016x}", random(), random())
}
