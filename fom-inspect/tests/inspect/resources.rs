//! What the resources answer. Their field names are part of the API.

use std::sync::Arc;

use fom_durable::{DurableBuilderExt as _, journal::MemoryJournal};
use fom_runtime::{
    Runtime,
    extension::Listed,
    observe::{IncidentKind, PartInfo},
    time::TestClock,
};
use serde_json::{Map, Value, json};

use crate::kit::{Served, Task, limited, one, runtime, secs, until};

/// Replaces each value by its kind. Of a list, there is one item with the fields of all.
fn shape(value: &Value) -> Value {
    fn join(all: &mut Value, one: Value) {
        match (all, one) {
            (Value::Object(all), Value::Object(one)) => {
                for (name, value) in one {
                    join(all.entry(name).or_insert(Value::Null), value);
                }
            }
            (all, one) if all.is_null() || *all == json!("null") => *all = one,
            (Value::Array(all), Value::Array(one)) if all.is_empty() => *all = one,
            _ => {}
        }
    }
    match value {
        Value::Null => json!("null"),
        Value::Bool(_) => json!("bool"),
        Value::Number(_) => json!("number"),
        Value::String(_) => json!("text"),
        Value::Array(values) => {
            let mut item = Value::Null;
            values
                .iter()
                .for_each(|value| join(&mut item, shape(value)));
            if item.is_null() {
                json!([])
            } else {
                json!([item])
            }
        }
        Value::Object(fields) => {
            // They depend on the moment.
            let varies = |name: &str| {
                let names = ["running", "running_fom", "idle_fom", "ready"];
                names.contains(&name)
            };
            let field = |(name, value): (&String, &Value)| {
                let kind = match varies(name) {
                    true => json!("varies"),
                    false => shape(value),
                };
                (name.clone(), kind)
            };
            Value::Object(fields.iter().map(field).collect::<Map<_, _>>())
        }
    }
}

fn text(value: &Value) -> String {
    serde_json::to_string_pretty(&shape(value)).unwrap()
}

/// A part of the program.
struct Named;

impl Listed for Named {
    fn parts(self: Arc<Self>, _: &Runtime) -> Vec<PartInfo> {
        vec![
            PartInfo::new("admission", "gate")
                .queued(7)
                .with("policy", "fifo"),
        ]
    }
}

/// A program with something in each resource.
fn busy(clock: &TestClock) -> Served {
    let runtime = one(clock).history(4).observe();
    let runtime = runtime.journal_with(MemoryJournal::new()).build().unwrap();
    let served = Served::acting(runtime);
    for (kind, key) in [("hear", "a"), ("hear", "a"), ("try", "b"), ("break", "c")] {
        drop(served.start(kind, key));
    }
    until("one is in quarantine", || {
        served.json("journal")["quarantine"]["total"] == 1
    });
    served.quiet();
    clock.advance(secs(3));
    served
        .runtime
        .report(IncidentKind::Machine, "link 7", "the link is down");
    served.quiet();
    served
}

#[test]
fn the_fields_of_the_resources() {
    limited(|| {
        let served = busy(&TestClock::new());
        // The second sample comes two seconds after the first one.
        until("there is a strip", || {
            let spark = &served.json("machines/Task")["spark"];
            !spark.as_array().unwrap().is_empty()
        });
        let suspend = json!({"action": "suspend", "type": "Task", "key": "z", "reason": "x"});
        assert_eq!(served.act(&suspend).status, 200);
        for (name, path) in [
            ("summary", "summary"),
            ("machines", "machines"),
            ("machine", "machines/Task"),
            ("foms", "foms?type=Task&oldest=2"),
            ("find", "find?q=a"),
            ("waits", "waits"),
            ("keys", "keys"),
            ("localities", "localities"),
            ("journal", "journal"),
            ("warnings", "warnings"),
            ("session", "session"),
        ] {
            insta::assert_snapshot!(name, text(&served.json(path)));
        }
        let part = Arc::new(Named);
        let _listed = {
            let part: Arc<dyn Listed> = part.clone();
            served.runtime.extension().list(Arc::downgrade(&part))
        };
        insta::assert_snapshot!("parts", text(&served.json("parts")));
        assert_eq!(served.json("admissions")["parts"][0]["name"], "gate");
        assert_eq!(served.json("services")["parts"], json!([]));
        let id = served.json("foms?phase=Trying")["page"][0]["id"].clone();
        insta::assert_snapshot!("fom", text(&served.json(&format!("foms/{id}"))));
        let problem = served.get("/api/v1/foms?sort=size").json();
        insta::assert_snapshot!("problem", text(&problem));
    });
}

#[test]
fn the_fields_of_the_failures() {
    limited(|| {
        let served = Served::new(runtime());
        let failed = served.start("break", "c").wait();
        assert!(failed.is_err());
        insta::assert_snapshot!("failures", text(&served.json("failures")));
        assert_eq!(served.json("failures?type=Task&limit=1")["total"], 1);
        assert_eq!(served.json("failures")["failures"][0]["resubmit"], true);
        served.get("/api/v1/journal").is(404, "unavailable");
    });
}

#[test]
fn the_summary_has_the_same_size_for_any_number_of_foms() {
    limited(|| {
        let served = Served::new(runtime());
        let size = |served: &Served| served.get("/api/v1/summary").body.len();
        served.start("done", "a").wait().unwrap();
        let few = size(&served);
        let many: Vec<_> = (0..10_000)
            .map(|number| served.start("hear", &format!("key {number}")))
            .collect();
        served.quiet();
        until("they are counted", || {
            let summary = served.json("summary");
            let machines = summary["machines"].as_array().unwrap();
            machines.iter().any(|one| one["in_flight"] == 10_000)
        });
        let summary = size(&served);
        // Numbers got digits, and the strips got cells.
        assert!(summary < few + 1000, "{few} and {summary} bytes");
        assert_eq!(served.json("foms?limit=1")["foms"], 10_000);
        drop(many);
    });
}

#[test]
fn counts_and_edges_are_those_of_the_foms() {
    limited(|| {
        let served = Served::new(runtime());
        for number in 0..5 {
            served
                .start("done", &format!("done {number}"))
                .wait()
                .unwrap();
        }
        let hears: Vec<_> = (0..3)
            .map(|n| served.start("hear", &format!("{n}")))
            .collect();
        assert!(served.start("break", "x").wait().is_err());
        served.quiet();
        until("all is counted", || {
            served.json("machines/Task")["started"] == 9
        });
        let machine = served.json("machines/Task");
        assert_eq!(
            [&machine["in_flight"], &machine["ended"], &machine["failed"]],
            [&json!(3), &json!(6), &json!(1)]
        );
        let find = |list: &str, name: &str, value: &str| {
            let all = machine[list].as_array().unwrap().iter();
            let found = all.clone().find(|one| one[name] == value);
            found
                .unwrap_or_else(|| panic!("no {value} in {all:?}"))
                .clone()
        };
        let hearing = find("phases", "phase", "Hearing");
        assert_eq!(hearing["foms"], 3);
        assert_eq!(hearing["takes"], json!(["Go", "Say"]));
        assert_eq!(hearing["deadline"]["within"], 3600.0);
        assert_eq!(hearing["docs"], "Waits for a word.");
        let edge = find("edges", "key", "Choosing>Done:returned");
        assert_eq!(
            (&edge["count"], &edge["name"]),
            (&json!(5), &json!("at once"))
        );
        assert_eq!(
            (&edge["kind"], &edge["share"]),
            (&json!("exit"), &json!(0.556))
        );
        let failed = find("edges", "kind", "failure");
        assert_eq!(
            (&failed["from"], &failed["count"]),
            (&json!("Breaking"), &json!(1))
        );
        let start = find("edges", "kind", "start");
        assert_eq!(
            (&start["to"], &start["count"]),
            (&json!("Choosing"), &json!(9))
        );
        drop(hears);
    });
}

#[test]
fn a_machine_is_drawn_in_each_form() {
    limited(|| {
        let served = Served::new(runtime());
        for (form, begin) in [
            ("svg", "<svg"),
            ("mermaid", "stateDiagram-v2"),
            ("dot", "digraph"),
            ("text", ""),
        ] {
            let drawn = served.json(&format!("machines/Task/graph?form={form}"));
            let graph = drawn["graph"].as_str().unwrap();
            assert!(
                graph.starts_with(begin) && graph.contains("Hearing"),
                "{graph}"
            );
            assert_eq!(
                (&drawn["type"], &drawn["form"]),
                (&json!("Task"), &json!(form))
            );
        }
        assert_eq!(served.json("machines/Task/graph")["form"], "svg");
        served
            .get("/api/v1/machines/Task/graph?form=png")
            .is(400, "query");
        served
            .get("/api/v1/machines/Nothing/graph")
            .is(404, "not_found");
    });
}

#[test]
fn pages_follow_each_other_and_filters_select() {
    limited(|| {
        let served = Served::new(runtime());
        let mut wanted: Vec<_> = (0..7)
            .map(|number| served.start("hear", &format!("key {number}")).id().get())
            .collect();
        let number = served
            .runtime
            .submit(Task("hear".into()))
            .key(7_u64)
            .start()
            .unwrap();
        wanted.push(number.id().get());
        served.quiet();
        wanted.sort_unstable();
        let (mut seen, mut path) = (Vec::new(), "foms?sort=id&limit=3".to_owned());
        loop {
            let page = served.json(&path);
            assert_eq!(page["foms"], 8);
            let foms = page["page"].as_array().unwrap();
            seen.extend(foms.iter().map(|fom| fom["id"].as_u64().unwrap()));
            let Some(next) = page["next"].as_str() else {
                break;
            };
            path = format!("foms?sort=id&limit=3&after={next}");
        }
        assert_eq!(seen, wanted);
        for (query, foms) in [
            (
                "type=Task&phase=Hearing&state=waiting&wait=event&attempts=0",
                8,
            ),
            ("key=key%205", 1),
            ("key=7", 1),
            ("key_prefix=key+", 7),
            ("key=key", 0),
            ("in_phase=3600", 0),
            ("age=3600", 0),
            ("age=0", 8),
            ("locality=0", 8),
            ("locality=1", 0),
            ("state=ready", 0),
        ] {
            assert_eq!(
                served.json(&format!("foms?{query}"))["foms"],
                foms,
                "{query}"
            );
        }
        let found = served.json("find?q=key%205");
        assert_eq!(found["foms"][0]["key"], "key 5");
        let found = served.json(&format!("find?q={}", number.id()));
        assert_eq!(found["foms"][0]["key"], "7");
        let found = served.json("find?q=hear");
        assert_eq!(
            found["machines"],
            json!([{"type": "Task", "phase": "Hearing"}])
        );
    });
}

#[test]
fn the_recorder_shows_the_timeline_of_a_fom_and_the_trace_is_a_download() {
    limited(|| {
        let runtime = Runtime::builder().localities(1).pin(false).recorder(1024);
        let served = Served::new(runtime.build().unwrap());
        let task = served.start("hear", "a");
        served.quiet();
        insta::assert_snapshot!("recorder", text(&served.json("recorder")));
        let fom = served.json(&format!("foms/{}", task.id()));
        insta::assert_snapshot!("recorded_fom", text(&fom));
        let history = fom["fom"]["history"].as_array().unwrap();
        let phases: Vec<_> = history.iter().map(|one| one["phase"].clone()).collect();
        assert_eq!(phases, ["Choosing", "Hearing"]);
        let trace = served.get("/api/v1/recorder/trace");
        assert!(trace.head.contains("attachment"), "{}", trace.head);
        assert!(trace.body.contains("Hearing"), "{}", trace.body);
        let resources = served.json("summary")["resources"].to_string();
        assert!(resources.contains("\"recorder\""), "{resources}");
    });
}

#[test]
fn warnings_are_those_of_the_source() {
    limited(|| {
        let served = Served::with(runtime(), |inspector| {
            inspector.warnings(|| json!({"watching": true, "warnings": [{"level": "warning", "text": "hot", "age": 1}]}))
        });
        let warnings = served.json("warnings")["warnings"].clone();
        assert_eq!(warnings[0]["text"], "hot");
        assert_eq!(served.json("summary")["warnings"], 1);
    });
}

#[test]
fn an_answer_above_one_mib_asks_for_fewer() {
    limited(|| {
        let served = Served::new(runtime());
        let long = "x".repeat(2000);
        let foms: Vec<_> = (0..1000)
            .map(|number| served.start("hear", &format!("{number} {long}")))
            .collect();
        served.quiet();
        let answer = served.get("/api/v1/foms?limit=1000");
        answer.is(413, "too_large");
        assert!(answer.body.contains("limit"), "{}", answer.body);
        assert_eq!(served.get("/api/v1/foms?limit=500").status, 200);
        drop(foms);
        served.goes_on();
    });
}
