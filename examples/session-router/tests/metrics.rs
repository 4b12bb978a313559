//! The metrics of the program: what it serves, what the book lists, what the dashboard and the alerts use.

mod phone;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use phone::{Calling, Phone};

const BOOK: &str = include_str!("../../../book/src/metrics.md");
const DASHBOARD: &str = include_str!("../monitoring/dashboard.json");
const ALERTS: &str = include_str!("../monitoring/alerts.yml");

/// What the book's code imports.
const CRATES: [&str; 3] = ["fom_inspect", "fom_metrics", "fom_runtime"];

/// The program with a journal. Both end with the test.
struct Serving {
    child: Child,
    journal: PathBuf,
    router: SocketAddr,
    inspector: SocketAddr,
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.journal);
    }
}

impl Serving {
    fn new(bob: SocketAddr) -> Self {
        let name = format!("session-router-metrics-{}", std::process::id());
        let journal = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&journal); // of a run that was broken off
        let mut child = Command::new(env!("CARGO_BIN_EXE_session-router"))
            .args(["serve", "--localities", "1", "--listen", "127.0.0.1:0"])
            .args(["--endpoint", &format!("bob={bob}")])
            .args(["--inspect", "127.0.0.1:0", "--journal"])
            .arg(&journal)
            .stdout(Stdio::piped())
            .spawn()
            .expect("it runs");
        let output = BufReader::new(child.stdout.take().expect("its output"));
        let mut lines = output.lines().map(|line| line.expect("a line"));
        let mut after = |start: &str| {
            let found = lines.find_map(|line| Some(line.strip_prefix(start)?.to_owned()));
            let found = found.expect("the line");
            let address = found.split([',', '/', ' ']).next().expect("an address");
            address.parse().expect("an address")
        };
        let inspector = after("inspector at http://");
        let router = after("router on ");
        Self {
            child,
            journal,
            router,
            inspector,
        }
    }

    fn scrape(&self) -> String {
        let mut stream = TcpStream::connect(self.inspector).expect("a connection");
        let limit = Some(Duration::from_secs(60));
        stream.set_read_timeout(limit).expect("a limit");
        let host = self.inspector;
        let request = format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a body");
        assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
        body.to_owned()
    }
}

/// A metric as it is served: its kind, its meaning, and whether it has a value.
#[derive(Debug, Default)]
struct Served {
    kind: String,
    help: String,
    has_value: bool,
}

fn served(text: &str) -> BTreeMap<String, Served> {
    let mut all = BTreeMap::<String, Served>::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect("a name");
            all.entry(name.into()).or_default().help = help.into();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a name");
            all.entry(name.into()).or_default().kind = kind.into();
        } else {
            let name = line.split(['{', ' ']).next().expect("a name");
            let name = family(name, |name| all.contains_key(name));
            all.get_mut(&name).expect("its type").has_value = true;
        }
    }
    all
}

/// Returns the metric that a name in a text or a query is of: a histogram has three names.
fn family(name: &str, is_there: impl Fn(&str) -> bool) -> String {
    let suffixes = ["_bucket", "_sum", "_count"];
    let shorter = suffixes.iter().filter_map(|end| name.strip_suffix(end));
    let found = shorter.into_iter().find(|name| is_there(name));
    found.unwrap_or(name).to_owned()
}

/// Returns the metrics that a text names.
fn named(text: &str, served: &BTreeMap<String, Served>) -> BTreeSet<String> {
    let words = text.split(|one: char| !(one.is_ascii_alphanumeric() || one == '_'));
    let names = words.filter(|word| word.starts_with("fom_") && !word.ends_with('_'));
    names
        .filter(|name| !CRATES.contains(name))
        .map(|name| family(name, |name| served.contains_key(name)))
        .collect()
}

/// OB-10
#[test]
fn the_book_the_dashboard_and_the_alerts_name_what_the_router_serves() {
    let (caller, bob) = (Phone::new(), Phone::new());
    let serving = Serving::new(bob.address);
    let call = Calling::to("bob");
    caller.request("INVITE", &call, serving.router);
    caller.expect(100);
    let invite = bob.expect_request("INVITE");
    bob.answer(&invite, 200, "b");
    caller.expect(200);
    let text = serving.scrape();
    let started = "fom_operations_started_total{operation=\"Call\"} 1\n";
    assert!(text.contains(started), "{text}");
    assert!(text.contains("fom_phase_foms{operation=\"Call\",phase=\"Talk\"} 1\n"));
    let served = served(&text);

    // The inventory of the book.
    let mut listed = BTreeSet::new();
    for row in BOOK.lines().filter(|line| line.starts_with("| `fom_")) {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [name, kind, _, meaning] = &*cells else {
            panic!("{row}");
        };
        let name = name.trim_matches('`');
        let of = served.get(name).unwrap_or_else(|| panic!("no {name}"));
        assert_eq!((&*of.kind, &*of.help), (*kind, *meaning), "{name}");
        assert!(listed.insert(name.to_owned()), "{name} is listed twice");
    }
    let all: BTreeSet<_> = served.keys().cloned().collect();
    assert_eq!(listed, all, "the inventory");

    // What is used is there.
    for (place, text) in [("book", BOOK), ("dashboard", DASHBOARD), ("alerts", ALERTS)] {
        let missing: Vec<_> = named(text, &served).difference(&all).cloned().collect();
        assert!(missing.is_empty(), "the {place} names {missing:?}");
    }

    // What has a value is on the dashboard.
    let shown = named(DASHBOARD, &served);
    let hidden = served
        .iter()
        .filter(|(name, of)| of.has_value && !shown.contains(*name));
    let hidden: Vec<_> = hidden.map(|(name, _)| name).collect();
    assert!(hidden.is_empty(), "not on the dashboard: {hidden:?}");
}
