//! A request to an inspector: it is answered with a status of the API, or the connection is closed. No panic is
//! reported, and the program goes on.
//!
//! This file has the dependencies of `fom-inspect`, so it is no module of the other targets.

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::OnceLock,
    time::Duration,
};

use fom_inspect::{Inspector, InspectorHandle};
use fom_runtime::{
    observe::{Incident, IncidentKind},
    prelude::*,
};
use serde::{Deserialize, Serialize};

const TOKEN: &str = "correct horse battery staple";

/// The statuses that the API names, and none for a connection that is closed.
const STATUSES: [&str; 10] = [
    "", "200", "400", "403", "404", "405", "408", "409", "413", "431",
];

/// Waits for a word.
#[derive(Serialize, Deserialize)]
struct Door;

#[derive(Serialize, Deserialize)]
enum Word {
    Go,
    Say(String),
}

#[fom(operation(Door), event(Word))]
enum Knocking {
    #[phase(start, sync, on(Go, Say), to(Open))]
    Shut,
    #[phase(end)]
    Open,
}

impl KnockingTransitions for Door {
    fn shut(&mut self, _: &mut Cx<'_, Word>, _: Word) -> Result<KnockingAfterShut, BoxError> {
        Ok(KnockingAfterShut::Open)
    }
}

struct Served {
    runtime: Runtime,
    address: SocketAddr,
    _inspector: InspectorHandle,
}

/// One program for all inputs.
fn served() -> &'static Served {
    static SERVED: OnceLock<Served> = OnceLock::new();
    SERVED.get_or_init(|| {
        let runtime = Runtime::builder().localities(1).pin(false).observe();
        let runtime = runtime.build().expect("there are threads");
        let inspector = Inspector::new(&runtime)
            .actions(TOKEN)
            .operation::<Door>()
            .persistent::<Door>()
            .event::<Door>()
            .start()
            .expect("a port is free");
        Served {
            address: inspector.address().expect("it listens"),
            runtime,
            _inspector: inspector,
        }
    })
}

/// The first byte says what the others are: a path below the API with its query, the body of an action, or a whole
/// request.
pub(crate) fn request(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else {
        return;
    };
    let served = served();
    keep_one(served);
    let head = "Host: localhost\r\nConnection: close\r\n";
    let wanted = match kind % 3 {
        0 => {
            let line = [b"GET /api/v1/", rest, b" HTTP/1.1\r\n"].concat();
            [&line[..], head.as_bytes(), b"\r\n"].concat()
        }
        1 => {
            let length = rest.len();
            let head = format!(
                "POST /api/v1/actions HTTP/1.1\r\n{head}Authorization: Bearer {TOKEN}\r\n\
                 Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
            );
            [head.as_bytes(), rest].concat()
        }
        _ => rest.to_vec(),
    };
    // The stream of changes has no end.
    if wanted.windows(6).any(|word| word == b"stream") {
        return;
    }
    let status = ask(served.address, &wanted);
    assert!(STATUSES.contains(&&*status), "the status {status}");
    let incidents = served.runtime.inspect().incidents();
    let panicked = |incident: &&Incident| incident.kind == IncidentKind::Panicked;
    let panicked = incidents.iter().find(panicked);
    assert!(panicked.is_none(), "{panicked:?}");
}

/// Makes sure that there is a fom to look at, because a request may cancel it.
fn keep_one(served: &Served) {
    if served.runtime.in_flight() == 0 {
        let door = served.runtime.submit(Door).key("a");
        drop(door.detach());
    }
}

/// Sends a request, and returns the status of the answer.
fn ask(address: SocketAddr, wanted: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let patience = Some(Duration::from_secs(30));
    stream.set_read_timeout(patience).expect("a valid time");
    // The server may close before it has read all.
    let _ = stream.write_all(wanted);
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    let ended = stream.read_to_end(&mut answer);
    let waits = ended.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
    assert!(!waits, "no answer, and no end");
    let status = answer
        .strip_prefix(b"HTTP/1.1 ")
        .and_then(|rest| rest.get(..3));
    String::from_utf8_lossy(status.unwrap_or_default()).into_owned()
}
