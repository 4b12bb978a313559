//! What each command shows of a whole journal.

use fom_durable::{prelude::*, reading};
use fom_runtime::snapshot::Snapshot;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::program::{Fulfil, News, Order, errors, fom, leave, lines, open, out, run};

#[test]
fn list_shows_each_fom_with_its_phase_and_key() {
    let directory = tempfile::tempdir().unwrap();
    leave(directory.path(), 3);
    let listed = fom("list", directory.path(), &["--json"]);
    assert_eq!(listed.status.code(), Some(0), "{}", errors(&listed));
    let foms = lines(&listed);
    assert_eq!(foms.len(), 4);
    let of = |key: &str| foms.iter().find(|fom| fom["key"] == key).unwrap();
    let order = of("order-1");
    assert_eq!(
        (&order["operation"], &order["phase"]),
        (&json!("Order"), &json!("Hold"))
    );
    assert_eq!(order["failed"], Value::Null);
    let failed = of("empty")["failed"].as_str().unwrap();
    assert!(
        failed.contains("there is nothing in the parcel"),
        "{failed}"
    );

    let text = out(&fom("list", directory.path(), &["--failed"]));
    assert!(
        text.contains("Order empty") && !text.contains("order-1"),
        "{text}"
    );
    let none = fom(
        "list",
        directory.path(),
        &["--phase", "Ship", "--operation", "Other"],
    );
    assert_eq!((none.status.code(), &*out(&none)), (Some(0), ""));
}

#[test]
fn show_prints_the_values_by_name_without_code_of_the_program() {
    let directory = tempfile::tempdir().unwrap();
    leave(directory.path(), 2);
    let shown = fom("show", directory.path(), &["order-1", "--json"]);
    assert_eq!(shown.status.code(), Some(0), "{}", errors(&shown));
    let [fom_1] = &lines(&shown)[..] else {
        panic!("there is one")
    };
    assert_eq!(fom_1["values"], json!({ "item": "item 1", "pieces": 3 }));
    assert_eq!(fom_1["fields"], json!({ "shelf": [3, "of item 1"] }));
    assert_eq!(fom_1["phase"], "Hold");
    assert_eq!(fom_1["path"], json!(["Reserve"]));
    assert_eq!(fom_1["kind"], "fom");

    let by_id = fom("show", directory.path(), &[&fom_1["id"].to_string()]);
    let text = out(&by_id);
    assert!(
        text.contains("\"item\": \"item 1\"") && text.contains("phase         Hold"),
        "{text}"
    );

    let missing = fom("show", directory.path(), &["order-7"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(errors(&missing).contains("has the key or id `order-7`"));
}

#[test]
fn stats_count_by_type_and_phase() {
    let directory = tempfile::tempdir().unwrap();
    leave(directory.path(), 5);
    let stats = fom("stats", directory.path(), &["--json"]);
    assert_eq!(stats.status.code(), Some(0));
    let stats = &lines(&stats)[0];
    let awaiting = stats["foms"]
        .as_array()
        .unwrap()
        .iter()
        .find(|group| group["phase"] == "Hold");
    assert_eq!(awaiting.unwrap()["foms"], 5);
    assert_eq!(stats["records"]["foms"]["records"], 5);
    assert_eq!(stats["records"]["failed"]["records"], 1);
    assert_eq!(
        (&stats["closed"], &stats["in_use"]),
        (&json!(true), &json!(false))
    );
    let text = out(&fom("stats", directory.path(), &[]));
    assert!(text.contains("5 Order (version 1)"), "{text}");
}

#[test]
fn dump_prints_every_record_with_the_schemas() {
    let directory = tempfile::tempdir().unwrap();
    leave(directory.path(), 2);
    let records = lines(&fom("dump", directory.path(), &[]));
    let kinds: Vec<_> = records
        .iter()
        .map(|record| record["kind"].as_str().unwrap())
        .collect();
    for kind in ["head", "schema", "fom", "failed"] {
        assert!(kinds.contains(&kind), "{kinds:?}");
    }
    let schema = records
        .iter()
        .find(|record| record["kind"] == "schema")
        .unwrap();
    assert_eq!(schema["phases"]["Hold"], json!(["shelf"]));
}

#[test]
fn verify_reads_everything() {
    let directory = tempfile::tempdir().unwrap();
    leave(directory.path(), 2);
    let verified = fom("verify", directory.path(), &[]);
    assert_eq!(verified.status.code(), Some(0));
    assert!(out(&verified).contains("no damage"), "{}", out(&verified));
}

#[test]
fn an_exported_fom_is_a_snapshot_that_the_program_reads() {
    let directory = tempfile::tempdir().unwrap();
    leave(&directory.path().join("journal"), 2);
    let journal = directory.path().join("journal");
    let to = directory.path().join("order.snapshot");
    let to_text = to.to_str().unwrap();
    let exported = fom("export", &journal, &["order-0", "--to", to_text]);
    assert_eq!(exported.status.code(), Some(0), "{}", errors(&exported));
    let snapshot = Snapshot::from_bytes(std::fs::read(&to).unwrap()).unwrap();
    let (order, phase) = Order::restore(&snapshot).unwrap();
    assert_eq!((&*order.item, order.pieces), ("item 0", 3));
    assert!(matches!(phase, Fulfil::Hold { shelf } if shelf.0 == 3));

    let again = fom("export", &journal, &["order-1", "--to", to_text]);
    assert_eq!(again.status.code(), Some(1));
    assert!(
        errors(&again).contains("cannot write"),
        "{}",
        errors(&again)
    );
}

#[test]
fn the_commands_work_beside_a_running_program_and_compact_names_it() {
    let directory = tempfile::tempdir().unwrap();
    let runtime = run(directory.path(), 3);
    for command in ["list", "stats", "verify", "dump"] {
        let beside = fom(command, directory.path(), &["--json"]);
        assert_eq!(
            beside.status.code(),
            Some(0),
            "{command}: {}",
            errors(&beside)
        );
    }
    let stats = &lines(&fom("stats", directory.path(), &["--json"]))[0];
    assert_eq!(stats["in_use"], true);
    let compacted = fom("compact", directory.path(), &[]);
    assert_eq!(compacted.status.code(), Some(1));
    let message = errors(&compacted);
    let holder = match cfg!(target_os = "linux") {
        true => format!("process {} (", std::process::id()),
        false => "another process".to_owned(),
    };
    assert!(message.contains(&holder), "{message}");
    drop(runtime);
    let compacted = fom("compact", directory.path(), &["--json"]);
    assert_eq!(compacted.status.code(), Some(0), "{}", errors(&compacted));
}

#[test]
fn compact_keeps_every_fom() {
    let directory = tempfile::tempdir().unwrap();
    leave(directory.path(), 4);
    let sorted = |mut lines: Vec<Value>| {
        lines.sort_by_key(|line| line["entry"].as_u64());
        lines
    };
    let before = sorted(lines(&fom("dump", directory.path(), &[])));
    let compacted = fom("compact", directory.path(), &[]);
    assert_eq!(compacted.status.code(), Some(0), "{}", errors(&compacted));
    assert_eq!(sorted(lines(&fom("dump", directory.path(), &[]))), before);
}

#[test]
fn a_mistake_in_the_command_line_has_status_2() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(fom("lost", directory.path(), &[]).status.code(), Some(2));
    assert_eq!(fom("show", directory.path(), &[]).status.code(), Some(2));
    assert_eq!(
        fom("list", directory.path(), &["--help"]).status.code(),
        Some(0)
    );
}

#[test]
fn a_directory_without_a_journal_is_refused_and_stays_empty() {
    let directory = tempfile::tempdir().unwrap();
    for command in ["list", "stats", "verify", "dump", "compact"] {
        let refused = fom(command, directory.path(), &[]);
        assert_eq!(refused.status.code(), Some(1), "{command}");
        assert!(
            errors(&refused).contains("no journal"),
            "{}",
            errors(&refused)
        );
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    let missing = fom("list", &directory.path().join("missing"), &[]);
    assert_eq!(missing.status.code(), Some(1));
}

/// A record can contain anything, also what moves a terminal.
#[test]
fn control_characters_of_a_journal_do_not_reach_the_terminal() {
    let directory = tempfile::tempdir().unwrap();
    let runtime = open(directory.path());
    let order = Order {
        item: "x".to_owned(),
        pieces: 1,
    };
    drop(runtime.submit(order).key("\u{1b}[2Jgone").start());
    fom_runtime::extension::block_on(runtime.quiet());
    drop(runtime);
    let text = out(&fom("list", directory.path(), &[]));
    assert!(
        text.contains("\\u{1b}[2Jgone") && !text.contains('\u{1b}'),
        "{text}"
    );
}

/// The same in a program: the public reader.
#[test]
fn a_program_reads_records_with_the_library() {
    struct Keys(Vec<String>);
    impl reading::Reader for Keys {
        fn record(&mut self, record: reading::Record<'_>) {
            if let reading::Content::Fom(fom) = record.content {
                self.0.extend(fom.key.map(|key| key.to_string()));
            }
        }
        fn damaged(
            &mut self,
            _: fom_durable::journal::EntryId,
            damage: fom_durable::journal::Damage,
        ) {
            panic!("{damage}");
        }
    }
    let directory = tempfile::tempdir().unwrap();
    leave(directory.path(), 2);
    let mut keys = Keys(Vec::new());
    reading::read(directory.path(), &mut keys).unwrap();
    keys.0.sort();
    assert_eq!(keys.0, ["order-0", "order-1"]);
}

/// An operation that takes an event later.
#[derive(Serialize, Deserialize)]
struct Wait;

#[fom(operation(Wait), event(News))]
enum Waiting {
    #[phase(start, to(Take))]
    First,
    #[phase(sync, on(Paid), to(Over))]
    Take,
    #[phase(end)]
    Over,
}

impl WaitingTransitions for Wait {
    async fn first(&mut self, _: &mut Cx<'_, News>) -> Result<(), BoxError> {
        std::future::pending().await
    }

    fn take(&mut self, _: &mut Cx<'_, News>, _: News) -> Result<WaitingAfterTake, BoxError> {
        Ok(WaitingAfterTake::Over)
    }
}

#[test]
fn dump_prints_outcomes_events_and_sends() {
    let directory = tempfile::tempdir().unwrap();
    let runtime = run(directory.path(), 0);
    let order = Order {
        item: "tea".to_owned(),
        pieces: 2,
    };
    let order = runtime.submit(order).key("tea").once("order 1").start();
    let order = order.unwrap();
    order.send(News::Paid).unwrap();
    order.wait().unwrap();
    drop(runtime.submit(Wait).key("slow").start());
    fom_runtime::extension::block_on(runtime.quiet());
    let sent = runtime.send_durably::<Wait>("slow", News::Paid, "webhook 1");
    fom_runtime::extension::block_on(sent)
        .map_err(|error| error.to_string())
        .unwrap();
    fom_runtime::extension::block_on(runtime.quiet());
    drop(runtime);
    let records = lines(&fom("dump", directory.path(), &[]));
    let of = |kind: &str| records.iter().find(|record| record["kind"] == kind);
    let outcome = of("outcome").unwrap();
    assert_eq!(outcome["operation_id"], "order 1");
    assert_eq!(outcome["phase"], "Shipped");
    assert_eq!(outcome["values"], json!({ "item": "tea", "pieces": 2 }));
    let event = of("event").unwrap();
    assert_eq!(
        (&event["key"], &event["event"]),
        (&json!("slow"), &json!("Paid"))
    );
    assert!(of("sent").is_some());
}
