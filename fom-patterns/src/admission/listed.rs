//! An intake among the parts of its runtime. A status runs the policies, so it has a time limit.

use std::{
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError},
    },
    time::Duration,
};

use fom_runtime::{
    Runtime,
    error::BoxError,
    extension::{Listed, Question},
    observe::{PartInfo, PartValue},
};

use crate::admission::{
    AdmissionStatus, Policy, PolicyStatus, QueueStatus,
    intake::{Event, Shared},
};

/// How long a thread waits for an answer of the policies. Longer than the runtime waits for the thread.
const LIMIT: Duration = Duration::from_millis(200);

/// Returns the status. If a policy does not return in time, the status is `busy`.
pub(super) async fn status(shared: &Arc<Shared>) -> AdmissionStatus {
    #[cfg(not(fom_shuttle))]
    let full = {
        let asked = Arc::clone(shared);
        let question = move || ask(&asked);
        shared.runtime.extension().ask(question).await.flatten()
    };
    // The model checker knows no limits of real time.
    #[cfg(fom_shuttle)]
    let full = {
        let (tell, told) = tokio::sync::oneshot::channel();
        shared.ask(move |status| drop(tell.send(status)));
        told.await.ok()
    };
    full.unwrap_or_else(|| AdmissionStatus {
        busy: true,
        ..shared.part_of_status()
    })
}

/// Returns the status, or `None` if a policy does not return in time. The answer may come from the thread that works for
/// the intake now.
fn ask(shared: &Arc<Shared>) -> Option<AdmissionStatus> {
    let (tell, told) = mpsc::channel();
    // The caller may have gone.
    shared.ask(move |status| drop(tell.send(status)));
    told.recv_timeout(LIMIT).ok()
}

impl Listed for Shared {
    fn parts(self: Arc<Self>, _: &Runtime) -> Vec<PartInfo> {
        vec![brief(&self.part_of_status())]
    }

    fn question(self: Arc<Self>) -> Option<Question> {
        Some(Box::new(move || match ask(&self) {
            Some(status) => vec![full(&status)],
            None => vec![brief(&self.part_of_status())],
        }))
    }

    fn command(self: Arc<Self>, command: &str, argument: &str) -> Option<Result<String, BoxError>> {
        match command {
            "policy" => Some(change_policy(&self, argument)),
            "promote" => Some(promote(&self, argument)),
            _ => None,
        }
    }
}

fn change_policy(shared: &Arc<Shared>, text: &str) -> Result<String, BoxError> {
    let policy: Box<dyn Policy> = text.parse()?;
    let done = format!("set the policy to {}", policy.name());
    shared.deliver(Event::Policy(policy));
    Ok(done)
}

fn promote(shared: &Arc<Shared>, client: &str) -> Result<String, BoxError> {
    let (tell, told) = mpsc::channel();
    shared.deliver(Event::PromoteClient(client.to_owned(), tell));
    match told.recv_timeout(LIMIT) {
        Ok(true) => Ok(format!(
            "promoted the oldest request of the client {client}"
        )),
        Ok(false) => {
            let why = "no queued request of the client can move up: it has none, or the policy knows no priorities";
            Err(why.into())
        }
        Err(RecvTimeoutError::Timeout) => {
            Err("a policy does not return; the request moves up when it does".into())
        }
        Err(RecvTimeoutError::Disconnected) => Err("the runtime has ended".into()),
    }
}

/// Describes what the intake knows without its policies.
fn brief(status: &AdmissionStatus) -> PartInfo {
    PartInfo::new("admission", &*status.name)
        .queued(status.queued)
        .with("in_flight", status.in_flight)
        .with("waiting_for_room", status.waiting_for_room)
        .with("full", status.level == crate::admission::Level::Full)
        .with("filled", status.filled)
        .with("refused", status.refused)
}

fn full(status: &AdmissionStatus) -> PartInfo {
    let policies = status.policies.iter().map(policy).collect();
    let queues = status.queues.iter().map(queue).collect();
    let mut info = brief(status)
        .with("running", status.running)
        .with("ended", status.ended)
        .with("cancelled", status.cancelled)
        .with("shed", status.shed);
    if let Some(time) = status.throttled_for {
        info = info.with("throttled_for", time);
    }
    info.oldest = status.queues.iter().map(|queue| queue.longest).max();
    info.with("policies", PartValue::List(policies))
        .with("queues", PartValue::List(queues))
}

fn policy(of: &PolicyStatus) -> PartValue {
    PartValue::Fields(vec![
        ("name", of.name.clone().into()),
        ("queued", of.queued.into()),
        ("started", of.started.into()),
        ("declined", of.declined.into()),
        ("in_use", of.in_use.into()),
    ])
}

fn queue(of: &QueueStatus) -> PartValue {
    let mut fields = Vec::new();
    if let Some(client) = &of.client {
        fields.push(("client", client.to_string().into()));
    }
    if let Some(class) = &of.class {
        fields.push(("class", class.to_string().into()));
    }
    fields.push(("queued", of.queued.into()));
    fields.push(("longest", of.longest.into()));
    PartValue::Fields(fields)
}
