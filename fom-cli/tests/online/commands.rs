//! What the commands that read print.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    sync::{Arc, Mutex, mpsc},
};

use fom_inspect::ParentsExt as _;
use fom_runtime::{observe::IncidentKind, prelude::*, time::TestClock};
use serde_json::{Value, json};

use crate::kit::{Heard, Running, Served, TOKEN, Task, errors, limited, one, out, secs, until};

#[test]
fn list_shows_foms_with_what_they_wait_for() {
    limited(|| {
        let served = Served::busy(&TestClock::new());
        insta::assert_snapshot!("list", served.done(&["list", "--sort", "id"]));
        insta::assert_snapshot!("list_failed", served.done(&["list", "--failed"]));
        let of = |filter: &str| served.json(&["list", filter]).len();
        assert_eq!(
            of("type:Task phase:Hearing in_phase>2s age>2s waits:event"),
            1
        );
        assert_eq!(of("key:a"), 2);
        assert_eq!(of("attempts>=1"), 1);
        assert_eq!(of("age>1h"), 0);
        assert_eq!(served.done(&["list", "age>1h"]), "");
        let failed = &served.json(&["list", "--failed"])[0];
        assert_eq!(
            (&failed["key"], &failed["state"]),
            (&json!("c"), &json!("in quarantine"))
        );
    });
}

#[test]
fn list_reads_as_many_pages_as_it_needs() {
    limited(|| {
        let served = Served::acting(one(&TestClock::new()).build().unwrap());
        for number in 0..450 {
            drop(served.start("hear", &format!("key {number}")));
        }
        served.quiet();
        let ids = |foms: &[Value]| {
            foms.iter()
                .map(|fom| fom["id"].as_u64())
                .collect::<Vec<_>>()
        };
        let all = ids(&served.json(&["list", "--sort", "id", "--limit", "1000"]));
        assert_eq!(all.len(), 450);
        assert!(
            all.is_sorted_by(|one, other| one < other),
            "each fom once, in order"
        );
        let some = served.fom(&["list", "--limit", "210", "--json"]);
        assert_eq!(String::from_utf8_lossy(&some.stdout).lines().count(), 210);
        assert!(
            errors(&some).contains("210 of 450 foms"),
            "{}",
            errors(&some)
        );
    });
}

#[test]
fn list_says_how_many_failed_operations_it_leaves_out() {
    limited(|| {
        let runtime = one(&TestClock::new()).failures(2000).build().unwrap();
        let served = Served::acting(runtime);
        for _ in 0..1100 {
            drop(served.start("break", "c"));
        }
        served.quiet();
        let of = |more: &[&str]| {
            let listed = served.fom(&[&["list", "--failed", "--json"], more].concat());
            (out(&listed).lines().count(), errors(&listed))
        };
        let more = |of: &str| format!("fom: {of}; `--limit` shows more\n");
        assert_eq!(of(&[]), (50, more("50 of 1100")));
        assert_eq!(of(&["--limit", "0"]), (0, more("0 of 1100")));
        let all = (
            1000,
            "fom: 1000 of 1100; an inspector lists no more\n".into(),
        );
        assert_eq!(of(&["--limit", "1500"]), all);
    });
}

#[test]
fn show_finds_a_fom_by_id_and_by_key() {
    limited(|| {
        let served = Served::busy(&TestClock::new());
        let hearing = served.json(&["list", "phase:Hearing"])[0]["id"].to_string();
        let trying = served.done(&["show", "b"]);
        let by_id = served.done(&["show", &hearing]);
        insta::assert_snapshot!("show", without_bytes(&format!("{by_id}\n{trying}")));
        insta::assert_snapshot!("show_failed", served.done(&["show", "c"]));
        assert_eq!(
            served.json(&["show", "a"]).len(),
            2,
            "the holder of the key, and a fom that waits for it"
        );
        assert_eq!(
            served.json(&["show", &hearing])[0]["fom"]["phase"],
            "Hearing"
        );
        served.fails(
            &["show", "nothing"],
            1,
            "no fom in flight has the id or key `nothing`",
        );
        served.fails(
            &["show", "a", "--follow"],
            1,
            "several foms have the key `a`",
        );
    });
}

/// Removes the line with the size of a fom, which depends on the compiler.
fn without_bytes(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.starts_with("bytes"));
    lines.map(|line| format!("{line}\n")).collect()
}

/// Submits a task, and waits for it.
struct Parent;

#[fom(operation(Parent), transient)]
enum Asking {
    #[phase(start, to(Done))]
    Ask,
    #[phase(end)]
    Done,
}

impl AskingTransitions for Parent {
    async fn ask(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        cx.submit(Task("hear".into())).key("child").await?;
        Ok(())
    }
}

#[test]
fn show_has_the_parent_and_the_children() {
    limited(|| {
        let runtime = one(&TestClock::new()).parents().build().unwrap();
        let served = Served::acting(runtime);
        let parent = served.runtime.submit(Parent).start().unwrap();
        served.quiet();
        let child = served.runtime.find::<Task>("child").unwrap();
        let shown = served.done(&["show", "child"]);
        let line = format!("parent        {}", parent.id());
        assert!(shown.lines().any(|one| one == line), "{shown}");
        let shown = served.done(&["show", &parent.id().to_string()]);
        let line = format!("Task {} in Hearing", child.id());
        assert!(shown.lines().any(|one| one.trim() == line), "{shown}");
        let family = &served.json(&["show", "child"])[0]["family"];
        assert_eq!(family["parent"], json!(parent.id()));
    });
}

#[test]
fn show_follows_a_fom_to_its_end() {
    limited(|| {
        let served = Served::acting(one(&TestClock::new()).build().unwrap());
        let follow = |more: &[&str]| {
            let arguments = [&["show", "a", "--follow"], more].concat();
            Running::new(served.command().args(arguments))
        };
        let task = served.start("hear", "a");
        served.quiet();
        let mut following = follow(&[]);
        following.until("Hearing          waiting   an event: Go, Say");
        served.done(&["send", "a", "Go", "--reason", "it is time"]);
        following.until(&format!("{} has ended", task.id()));
        assert_eq!(following.status(), Some(0));

        let task = served.start("hear", "a");
        served.quiet();
        let mut following = follow(&["--json"]);
        following.until("\"Hearing\"");
        task.send(Heard::Say("fail".into())).unwrap();
        let ended: Value = serde_json::from_str(&following.until("\"ended\"")).unwrap();
        assert_eq!(ended["id"], task.id().get());
        assert!(
            ended["failure"].to_string().contains("it was told to"),
            "{ended}"
        );
    });
}

#[test]
fn show_has_the_timeline_of_the_recorder_and_record_writes_all_of_it() {
    limited(|| {
        let runtime = Runtime::builder().localities(1).pin(false).recorder(1024);
        let served = Served::acting(runtime.build().unwrap());
        drop(served.start("hear", "a"));
        served.quiet();
        let shown = served.done(&["show", "a"]);
        assert!(shown.contains("Choosing -> Hearing (returned)"), "{shown}");

        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("recording.json");
        let file = path.to_str().unwrap();
        let written = &served.json(&["record", file])[0];
        let bytes = fs::read(&path).unwrap();
        assert_eq!(written["bytes"], bytes.len());
        let trace: Value = serde_json::from_slice(&bytes).unwrap();
        assert!(trace.to_string().contains("Hearing"));
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        served.fails(&["record", file], 1, "cannot write");
        assert_eq!(fs::read(&path).unwrap(), bytes, "the file stays");

        let without = Served::acting(one(&TestClock::new()).build().unwrap());
        let other = directory.path().join("other.json");
        without.fails(&["record", other.to_str().unwrap()], 1, "Builder::recorder");
        assert!(!other.exists());
    });
}

#[test]
fn waits_name_the_fom_that_is_waited_for() {
    limited(|| {
        let served = Served::busy(&TestClock::new());
        insta::assert_snapshot!("waits", served.done(&["waits"]));
        let wait = &served.json(&["waits"])[0];
        let holder = &wait["wait"]["holders"][0]["fom"];
        assert_eq!((&wait["kind"], holder.is_u64()), (&json!("wait"), true));
    });
}

#[test]
fn graph_draws_a_machine_in_each_form() {
    limited(|| {
        let served = Served::acting(one(&TestClock::new()).build().unwrap());
        insta::assert_snapshot!("graph", served.done(&["graph", "Task"]));
        for (form, begin) in [
            ("--svg", "<svg"),
            ("--mermaid", "stateDiagram"),
            ("--dot", "digraph"),
        ] {
            let drawn = served.done(&["graph", "Task", form]);
            assert!(
                drawn.starts_with(begin) && drawn.contains("Hearing"),
                "{drawn}"
            );
        }
        assert_eq!(served.json(&["graph", "Task", "--dot"])[0]["form"], "dot");
        served.fails(
            &["graph", "Nothing"],
            1,
            "no machine of type `Nothing`; allowed: ",
        );
        served.fails(
            &["graph", "Task", "--svg", "--dot"],
            2,
            "cannot be used with",
        );
    });
}

#[test]
fn watch_prints_each_warning_and_each_incident_when_it_comes() {
    limited(|| {
        let warnings = Arc::new(Mutex::new(json!([])));
        let listed = Arc::clone(&warnings);
        let runtime = one(&TestClock::new()).build().unwrap();
        let served = Served::with(runtime, |inspector| {
            inspector
                .actions(TOKEN)
                .warnings(move || listed.lock().unwrap().clone())
        });
        let mut watching = Running::new(served.command().arg("watch"));
        let hot = json!([{
            "level": "severe", "kind": "hung", "subject": "Task in Hearing", "text": "1 fom hangs", "age": 1, "ids": [7],
            "common": ["waits for an event: Go"], "advice": "send it", "times": 1,
        }]);
        *warnings.lock().unwrap() = hot.clone();
        assert_eq!(watching.until("hung"), "severe: hung: 1 fom hangs\n");
        assert_eq!(watching.until("7"), "  foms: 7\n");
        watching.until("waits for an event: Go");
        watching.until("advice: send it");
        served
            .runtime
            .report(IncidentKind::Machine, "link 7", "the link is down");
        watching.until("incident: link 7: the link is down");
        *warnings.lock().unwrap() = json!([]);
        watching.until("over: hung: 1 fom hangs");
        *warnings.lock().unwrap() = hot;
        let mut second = Running::new(served.command().args(["watch", "--json"]));
        let line: Value = serde_json::from_str(&second.until("warning")).unwrap();
        assert_eq!(
            (&line["news"], &line["warning"]["ids"]),
            (&json!("warning"), &json!([7]))
        );
        let Served { inspector, .. } = served;
        drop(inspector);
        assert_eq!(watching.status(), Some(3), "the program has ended");
    });
}

#[test]
fn watch_goes_on_while_the_program_is_busy() {
    limited(|| {
        let (release, held) = mpsc::channel::<()>();
        let held = Mutex::new(held);
        let runtime = one(&TestClock::new()).build().unwrap();
        let served = Served::with(runtime, |inspector| {
            inspector.actions(TOKEN).warnings(move || {
                // The first listing takes until the test lets it go on. After that the channel is closed.
                let _ = held.lock().unwrap().recv();
                json!([{"level": "warning", "text": "hot", "age": 1}])
            })
        });
        let errors = tempfile::NamedTempFile::new().unwrap();
        let mut command = served.command();
        let mut watching = Running::new(command.arg("watch").stderr(errors.reopen().unwrap()));
        until("the program is busy", || {
            let errors = fs::read_to_string(errors.path()).unwrap();
            errors.contains("does not answer within 1 s")
        });
        drop(release);
        watching.until("warning: hot");
    });
}

#[test]
fn watch_says_so_if_the_program_does_not_watch() {
    limited(|| {
        let served = Served::acting(one(&TestClock::new()).build().unwrap());
        served
            .runtime
            .report(IncidentKind::Machine, "link 7", "the link is down");
        let errors = tempfile::NamedTempFile::new().unwrap();
        let mut command = served.command();
        let mut watching = Running::new(command.arg("watch").stderr(errors.reopen().unwrap()));
        watching.until("incident: link 7");
        drop(watching);
        let errors = fs::read_to_string(errors.path()).unwrap();
        assert!(errors.contains("Builder::watch"), "{errors}");
    });
}

#[test]
fn top_prints_one_frame_if_the_output_is_no_terminal() {
    limited(|| {
        let clock = TestClock::new();
        let served = Served::busy(&clock);
        until("the tasks are counted", || {
            served.json(&["top"])[0]["summary"]["machines"]
                .to_string()
                .contains("\"started\":3")
        });
        let frame = served.done(&["top"]);
        let lines: Vec<_> = frame.lines().collect();
        assert_eq!(lines.len(), 24);
        assert!(
            lines.iter().all(|line| line.chars().count() <= 80),
            "{frame}"
        );
        for text in [
            "Hearing",
            "Trying",
            "its key, held by Task",
            "machine",
            "localities",
        ] {
            assert!(frame.contains(text), "no `{text}` in\n{frame}");
        }
        let all = &served.json(&["top"])[0];
        assert_eq!(all["foms"]["foms"], 3);
        clock.advance(secs(1));
    });
}
