//! From a request to its answer.

use std::{sync::Arc, time::Duration};

use hyper::{
    Method, Request,
    body::Incoming,
    header::{CONTENT_TYPE, HeaderMap},
    http::request::Parts,
};
use serde_json::{Value, json};
use tokio::{
    sync::{Semaphore, mpsc},
    task::{spawn, spawn_blocking},
    time::timeout,
};

use super::{
    access::{Access, Grant, below_api},
    answer::{self, Answer},
    assets,
    body::{self, Body, Pieces},
    connection::Conn,
    work::Work,
};
use crate::{
    actions::{Actions, WaitsFor},
    journal, live,
    problem::Problem,
    query::{Query, short},
    resources::{self, Resource, entry},
    source::MetricsSource,
    state::State,
};

/// How long the body of a request may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// The largest answer.
const LARGEST: usize = 1024 * 1024;
/// The path of the metrics.
const METRICS: &str = "/metrics";
/// The most streams at a time.
const STREAMS: usize = 32;

/// What answers the requests of all connections.
#[derive(Debug)]
pub(crate) struct Handler {
    state: Arc<State>,
    actions: Arc<Actions>,
    access: Access,
    work: Work,
    streams: Arc<Semaphore>,
    metrics: MetricsSource,
}

impl Handler {
    pub(crate) fn new(state: Arc<State>, access: Access, metrics: MetricsSource) -> Self {
        Self {
            actions: Arc::new(Actions::new(Arc::clone(&state))),
            state,
            access,
            work: Work::new(),
            streams: Arc::new(Semaphore::new(STREAMS)),
            metrics,
        }
    }

    pub(super) async fn answer(&self, request: Request<Incoming>, conn: &Conn) -> Answer {
        // A scraper is no client that looks at warnings.
        if request.uri().path() != METRICS {
            self.state.visit();
        }
        let (head, body) = request.into_parts();
        match self.route(&head, body, conn).await {
            Ok(answer) => answer,
            Err(problem) => answer::problem(&problem),
        }
    }

    async fn route(&self, head: &Parts, body: Incoming, conn: &Conn) -> Result<Answer, Problem> {
        self.access.check(head, conn.local)?;
        let path = head.uri.path();
        let Some(api) = below_api(path) else {
            read_only(head)?;
            if path == METRICS {
                return self.metrics(head).await;
            }
            return page(path);
        };
        check_version(head, api)?;
        match api.strip_prefix("/v1/") {
            Some("actions") => self.act(head, body, conn).await,
            Some(resource) => {
                read_only(head)?;
                self.read(Resource::of(resource)?, head).await
            }
            None if api.is_empty() || api == "/" => {
                read_only(head)?;
                let versions = json!({"api": [1], "version": env!("CARGO_PKG_VERSION")});
                Ok(answer::json(written(&versions)?))
            }
            None => Err(Problem::not_found("the API is at /api/v1/").allow(["/api/v1/"])),
        }
    }

    /// Answers a request that changes nothing.
    async fn read(&self, resource: Resource, head: &Parts) -> Result<Answer, Problem> {
        let grant = self.access.grant(&head.headers)?;
        let query = Query::read(head.uri.query(), resource.parameters())?;
        if resource == Resource::Session {
            return Ok(answer::json(written(&self.session(grant))?));
        }
        if !grant.reads {
            return Err(token_missing("reading"));
        }
        match resource {
            Resource::Stream => self.stream(&query).await,
            Resource::Entry(number) => self.download(number, grant).await,
            Resource::Trace => self.trace(),
            resource => {
                let state = Arc::clone(&self.state);
                if !resource.walks() {
                    let answer = resources::answer(&state, &resource, &query)?;
                    return Ok(answer::json(written(&answer)?));
                }
                let of = resource.clone();
                let work = move || written(&resources::answer(&state, &of, &query)?);
                Ok(answer::json(match resource {
                    Resource::Warnings => self.work.warnings(work).await?,
                    Resource::Data(_) => self.work.data(work).await?,
                    _ => self.work.walk(work).await?,
                }))
            }
        }
    }

    /// Answers a scraper. This calls code of the program.
    async fn metrics(&self, head: &Parts) -> Result<Answer, Problem> {
        if !self.access.grant(&head.headers)?.reads {
            return Err(token_missing("metrics"));
        }
        let Some(source) = self.metrics.0.clone() else {
            let message = "the program has no metrics here; it adds them with `Inspector::metrics`";
            return Err(Problem::unavailable(message));
        };
        let wrong = |error| Problem::unavailable(format!("the metrics cannot be written: {error}"));
        let text = self.work.metrics(move || source().map_err(wrong)).await?;
        Ok(answer::metrics(text))
    }

    fn session(&self, grant: Grant) -> Value {
        json!({
            "token": grant.has_token,
            "actions": grant.acts,
            "data": grant.reads && self.state.data.is_some(),
        })
    }

    async fn stream(&self, query: &Query) -> Result<Answer, Problem> {
        let machine = query.text("machine");
        let machine = machine.map(|name| self.state.catalog.find(name));
        let machine = machine.transpose()?;
        let Ok(place) = Arc::clone(&self.streams).try_acquire_owned() else {
            let message = format!("there are {STREAMS} streams already; close one");
            return Err(Problem::busy(message));
        };
        let (to, from) = mpsc::channel(1);
        spawn(live::run(Arc::clone(&self.state), machine, to));
        Ok(answer::stream(Body::stream(from, Arc::new(place))))
    }

    /// Lists the warnings while there are clients, so that their number is known.
    pub(crate) async fn watch(&self) {
        if self.state.warnings.0.is_some() && self.state.has_clients() {
            let state = Arc::clone(&self.state);
            // The clients that ask for the warnings are told what goes wrong.
            let _ = self.work.warnings(move || state.list_warnings()).await;
        }
    }

    /// Returns the recording, which may be long, in pieces. Its place is free when the body is sent and the writer has ended.
    fn trace(&self) -> Result<Answer, Problem> {
        resources::check_recorder(&self.state)?;
        let place = Arc::new(self.work.download()?);
        let (to, from) = mpsc::channel(1);
        let state = Arc::clone(&self.state);
        let of_writer = Arc::clone(&place);
        spawn_blocking(move || {
            let _place = of_writer;
            let mut pieces = Pieces::new(to);
            // An error means that the client is gone.
            let _ = resources::write_trace(&state, &mut pieces);
            pieces.end();
        });
        let body = Body::stream(from, place);
        Ok(answer::attachment(
            body,
            "application/json",
            "recording.json",
        ))
    }

    /// Returns the bytes of an entry in quarantine. They have the data of an operation.
    async fn download(&self, number: u64, grant: Grant) -> Result<Answer, Problem> {
        if !grant.has_token {
            return Err(token_missing("downloads"));
        }
        let id = entry(number)?;
        let state = Arc::clone(&self.state);
        let walk = self.work.walk(move || journal::bytes(&state.runtime, id));
        let bytes = walk.await?;
        self.actions.has_downloaded(number);
        let name = format!("fom-{number}.bin");
        let kind = "application/octet-stream";
        Ok(answer::attachment(Body::whole(bytes), kind, &name))
    }

    async fn act(&self, head: &Parts, body: Incoming, conn: &Conn) -> Result<Answer, Problem> {
        if head.method != Method::POST {
            return Err(Problem::method("POST"));
        }
        if !self.state.acts {
            let message =
                "actions are off; the program allows them with `Inspector::actions(token)`";
            return Err(Problem::forbidden("actions_off", message));
        }
        if !self.access.grant(&head.headers)?.acts {
            return Err(token_missing("actions"));
        }
        check_json(&head.headers)?;
        // Only the API's own parameters are allowed, and an action has none.
        Query::read(head.uri.query(), &[])?;
        let body = timeout(PATIENCE, body::read(body)).await;
        let body = body.map_err(|_| Problem::slow())??;
        let prepared = Actions::read(&body, &conn.peer)?;
        let actions = Arc::clone(&self.actions);
        let waits_for = prepared.waits_for();
        let work = move || actions.act(&prepared);
        let answered = match waits_for {
            WaitsFor::Journal => self.work.discard(work).await,
            WaitsFor::Program => self.work.act_with_program(work).await,
            WaitsFor::Nothing => self.work.act(work).await,
        };
        Ok(answer::json(written(&answered?)?))
    }
}

/// Answers a request for a file of the page.
fn page(path: &str) -> Result<Answer, Problem> {
    if path == "/favicon.ico" {
        return Ok(answer::nothing());
    }
    let missing = || {
        let message = format!("there is nothing at `{}`", short(path));
        let paths = assets::ASSETS.iter().map(|asset| asset.path);
        Problem::not_found(message).allow(paths.chain(["/api/v1/"]))
    };
    assets::find(path).map(answer::asset).ok_or_else(missing)
}

fn read_only(head: &Parts) -> Result<(), Problem> {
    match head.method {
        Method::GET | Method::HEAD => Ok(()),
        _ => Err(Problem::method("GET")),
    }
}

fn token_missing(what: &str) -> Problem {
    let message = format!("{what} need the token, as `Authorization: Bearer TOKEN`");
    Problem::forbidden("token", message)
}

/// Refuses a client of another version of the API, and tells it so.
fn check_version(head: &Parts, api: &str) -> Result<(), Problem> {
    let in_path = api
        .strip_prefix("/v")
        .and_then(|rest| rest.split('/').next());
    let in_header = head.headers.get("fom-api");
    let in_header = in_header.map(|version| version.to_str().unwrap_or("?").trim());
    for version in in_path.into_iter().chain(in_header) {
        if version != "1" {
            let ours = env!("CARGO_PKG_VERSION");
            let version = short(version);
            return Err(Problem::version(format!(
                "the client speaks version {version} of the API, this program version 1: reload \
                 the page, or use a client of fom {ours}"
            )));
        }
    }
    Ok(())
}

fn check_json(headers: &HeaderMap) -> Result<(), Problem> {
    let kind = headers.get(CONTENT_TYPE).map(|kind| kind.as_bytes());
    let kind = kind.unwrap_or_default();
    let kind = kind.split(|byte| *byte == b';').next().unwrap_or_default();
    if kind.trim_ascii().eq_ignore_ascii_case(b"application/json") {
        return Ok(());
    }
    let message = "an action is JSON: send `Content-Type: application/json`";
    Err(Problem::body(message).allow(["application/json"]))
}

/// Writes an answer.
fn written(value: &Value) -> Result<Vec<u8>, Problem> {
    let text = value.to_string().into_bytes();
    if text.len() > LARGEST {
        let length = text.len();
        let message = format!(
            "the answer has {length} bytes, and can have 1 MiB at most; ask for fewer with `limit`"
        );
        return Err(Problem::too_large(message));
    }
    Ok(text)
}
