//! What clients do to a program, and what they are told.

use std::io::{Read as _, Write as _};

use fom_durable::{DurableBuilderExt as _, DurableExt as _, journal::MemoryJournal};
use fom_patterns::admission::Admission;
use fom_runtime::{observe::IncidentKind, prelude::*, time::TestClock};
use serde_json::{Value, json};

use crate::{
    held::Held,
    kit::{Served, TOKEN, limited, one, runtime, secs, until},
};

fn acting() -> Served {
    Served::acting(runtime())
}

/// Acts, and returns the answer to an action that is carried out.
fn done(served: &Served, action: Value) -> Value {
    let answer = served.act(&action);
    assert_eq!(answer.status, 200, "{action}: {}", answer.body);
    answer.json()
}

#[test]
fn a_cancel_ends_the_fom_and_is_recorded_with_actor_and_reason() {
    limited(|| {
        let served = acting();
        let task = served.start("hear", "a");
        served.quiet();
        let id = task.id();
        let cancel =
            json!({"action": "cancel", "id": id, "reason": "the\ncaller left", "actor": "ada"});
        let answer = done(&served, cancel.clone());
        assert_eq!(answer["done"], 1);
        assert_eq!(
            answer["text"],
            format!("cancelled Task {id} (key a) in Hearing")
        );
        assert!(matches!(task.wait().unwrap_err().cause, Cause::Cancelled));
        until("the fom is gone", || served.act(&cancel).status == 404);
        let incidents = served.runtime.inspect().incidents();
        let [incident] = incidents.as_slice() else {
            panic!("one action: {incidents:?}");
        };
        assert_eq!(incident.kind, IncidentKind::Action);
        assert_eq!(incident.subject, format!("Task {id} (key a)"));
        let text = &incident.text;
        assert!(text.starts_with("ada (127.0.0.1:"), "{text}");
        assert!(text.ends_with("in Hearing: the caller left"), "{text}");
        let listed = served.json("warnings");
        assert_eq!(listed["incidents"][0]["kind"], "action");
        assert!(!listed.to_string().contains(TOKEN));
    });
}

#[test]
fn the_next_attempt_begins_now_if_the_fom_waits_for_one() {
    limited(|| {
        let clock = TestClock::new();
        let served = Served::acting(one(&clock).build().unwrap());
        let (tries, hears) = (served.start("try", "a"), served.start("hear", "b"));
        served.quiet();
        let attempts = || served.json(&format!("foms/{}", tries.id()))["fom"]["attempt"].clone();
        assert_eq!(attempts(), 1);
        let fom = served.json(&format!("foms/{}", tries.id()));
        let actions = fom["actions"].as_array().unwrap();
        assert!(actions.contains(&"next_attempt".into()), "{actions:?}");
        done(
            &served,
            json!({"action": "next_attempt", "id": tries.id(), "reason": "fixed"}),
        );
        until("it has tried again", || attempts() == 2);
        let other = json!({"action": "next_attempt", "id": hears.id(), "reason": "fixed"});
        let answer = served.act(&other);
        answer.is(409, "conflict");
        assert!(answer.body.contains("an event: Go, Say"), "{}", answer.body);
        done(
            &served,
            json!({"action": "wake", "id": hears.id(), "reason": "look again"}),
        );
        served.quiet();
        assert_eq!(
            served.json(&format!("foms/{}", hears.id()))["fom"]["phase"],
            "Hearing"
        );
    });
}

#[test]
fn an_event_is_sent_as_json_by_id_or_key() {
    limited(|| {
        let served = acting();
        let (one, other) = (served.start("hear", "a"), served.start("hear", "7"));
        let send = |to: Value, event: Value| {
            let mut send = json!({"action": "send", "type": "Task", "reason": "x", "event": event});
            send.as_object_mut()
                .unwrap()
                .extend(to.as_object().unwrap().clone());
            served.act(&send)
        };
        let by_id = json!({"id": one.id()});
        let answer = send(by_id.clone(), json!({"Shout": "hey"}));
        answer.is(400, "body");
        assert!(
            answer.body.contains("Shout") && answer.body.contains("Say"),
            "{}",
            answer.body
        );
        assert_eq!(send(by_id.clone(), json!({"Say": "hey"})).status, 200);
        assert_eq!(one.wait().unwrap().operation.0, "hey");
        assert_eq!(send(json!({"key": "7"}), json!("Go")).status, 200);
        other.wait().unwrap();
        until("both are gone", || {
            send(by_id.clone(), json!("Go")).status == 404
        });
        send(json!({"key": "b"}), json!("Go")).is(404, "not_found");
        send(json!({}), json!("Go")).is(400, "body");
        send(json!({"key": "b", "id": 1}), json!("Go")).is(400, "body");
        served
            .act(&json!({"action": "send", "id": 1, "reason": "x"}))
            .is(400, "body");
    });
}

#[test]
fn types_that_the_program_does_not_name_are_refused() {
    limited(|| {
        let served = Served::with(runtime(), |inspector| inspector.actions(TOKEN));
        let task = served.start("hear", "a");
        for action in [
            json!({"action": "send", "id": task.id(), "event": "Go", "reason": "x"}),
            json!({"action": "suspend", "type": "Task", "key": "a", "reason": "x"}),
        ] {
            let answer = served.act(&action);
            answer.is(409, "conflict");
            assert!(answer.body.contains("Inspector::"), "{}", answer.body);
        }
    });
}

#[test]
fn a_suspended_key_holds_its_foms_until_it_is_resumed() {
    limited(|| {
        let served = acting();
        let suspend = json!({"action": "suspend", "type": "Task", "key": "a", "reason": "x"});
        done(&served, suspend.clone());
        served.act(&suspend).is(409, "conflict");
        let task = served.start("done", "a");
        served.quiet();
        let key = &served.json("keys")["keys"][0];
        assert_eq!(
            (&key["key"], &key["by_inspector"]),
            (&json!("a"), &json!(true))
        );
        assert_eq!(key["waiting"], json!([task.id()]));
        let resume = json!({"action": "resume", "type": "Task", "key": "a", "reason": "x"});
        done(&served, resume.clone());
        task.wait().unwrap();
        served.act(&resume).is(409, "conflict");
        // A drop of the inspector resumes the keys that it suspended.
        done(&served, suspend);
        let task = served.start("done", "a");
        let Served { runtime, inspector } = served;
        drop(inspector);
        task.wait().unwrap();
        drop(runtime);
    });
}

#[test]
fn a_failure_is_submitted_again() {
    limited(|| {
        let served = acting();
        let task = served.start("break", "a");
        let old = task.id();
        assert!(task.wait().is_err());
        let answer = done(
            &served,
            json!({"action": "resubmit", "id": old, "reason": "fixed"}),
        );
        let new = answer["id"].as_u64().unwrap();
        assert_ne!(new, old.get());
        until("it has failed again", || {
            let failures = served.json("failures");
            failures["failures"]
                .as_array()
                .unwrap()
                .iter()
                .any(|one| one["id"] == new && one["key"] == "a")
        });
        served
            .act(&json!({"action": "resubmit", "id": 99, "reason": "x"}))
            .is(404, "not_found");
    });
}

#[test]
fn the_foms_of_a_filter_are_frozen_by_a_dry_run() {
    limited(|| {
        let served = acting();
        let mut tasks: Vec<_> = (0..5)
            .map(|n| served.start("hear", &format!("{n}")))
            .collect();
        served.quiet();
        let filter = json!({"type": "Task", "phase": "Hearing"});
        let dry = json!({"action": "cancel", "filter": filter, "dry_run": true, "reason": "x"});
        let frozen = done(&served, dry);
        assert_eq!(
            (&frozen["foms"], &frozen["cut"]),
            (&json!(5), &json!(false))
        );
        assert_eq!(frozen["sample"].as_array().unwrap().len(), 5);
        assert!(
            served.runtime.inspect().incidents().is_empty(),
            "nothing was done"
        );
        // One ends, and one comes: neither is cancelled.
        let gone = tasks.remove(0);
        let id = gone.id();
        served.runtime.cancel(id);
        assert!(gone.wait().is_err());
        let late = served.start("hear", "late");
        served.quiet();
        let name = frozen["dry_run"].clone();
        let real = json!({"action": "cancel", "dry_run": name, "reason": "x"});
        let wrong = json!({"action": "wake", "dry_run": name, "reason": "x"});
        served.act(&wrong).is(409, "conflict");
        let answer = done(&served, real.clone());
        assert_eq!(
            (&answer["done"], &answer["rest_total"]),
            (&json!(4), &json!(1))
        );
        assert_eq!(answer["rest"][0]["id"], id.get());
        for task in tasks {
            assert!(matches!(task.wait().unwrap_err().cause, Cause::Cancelled));
        }
        assert_eq!(
            served.json(&format!("foms/{}", late.id()))["fom"]["phase"],
            "Hearing"
        );
        served.act(&real).is(409, "conflict");
        let incidents = served.runtime.inspect().incidents();
        assert!(
            incidents[0].text.contains("cancelled 4 foms"),
            "{incidents:?}"
        );
    });
}

#[test]
fn entries_of_the_quarantine_are_tried_again_or_discarded_after_a_download() {
    limited(|| {
        let clock = TestClock::new();
        let runtime = one(&clock)
            .journal_with(MemoryJournal::new())
            .build()
            .unwrap();
        let served = Served::acting(runtime);
        assert!(served.start("break", "a").wait().is_err());
        let quarantined = || served.runtime.quarantine().list();
        until("it is in quarantine", || quarantined().len() == 1);
        assert_eq!(served.json("summary")["quarantine"], 1);
        let id = quarantined()[0].id;
        done(
            &served,
            json!({"action": "retry", "id": id, "reason": "fixed"}),
        );
        until("it has failed again", || quarantined().len() == 1);
        let id = quarantined()[0].id;
        let discard = json!({"action": "discard", "id": id, "reason": "of no use"});
        served.act(&discard).is(409, "conflict");
        let path = format!("/api/v1/journal/{id}");
        served.get(&path).is(403, "token");
        let mut stream = served.connect();
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        assert!(bytes.ends_with(&quarantined()[0].bytes));
        done(&served, discard.clone());
        assert!(quarantined().is_empty());
        served.act(&discard).is(404, "not_found");
        served
            .act(&json!({"action": "retry", "id": id, "reason": "x"}))
            .is(404, "not_found");
        clock.advance(secs(1));
        served.goes_on();
    });
}

#[test]
fn a_discard_goes_on_after_its_client_and_the_inspector_are_gone() {
    limited(|| {
        let journal = Held::default();
        let builder = one(&TestClock::new()).journal_with(journal.clone());
        let served = Served::acting(builder.build().unwrap());
        assert!(served.start("break", "a").wait().is_err());
        let runtime = served.runtime.clone();
        let quarantined = || runtime.quarantine().list();
        until("it is in quarantine", || quarantined().len() == 1);
        let id = quarantined()[0].id;
        let token = format!("Authorization: Bearer {TOKEN}\r\n");
        let download = format!("GET /api/v1/journal/{id} HTTP/1.1");
        assert_eq!(served.request(&download, &token, "").status, 200);
        journal.hold_commits(true);
        let commits = journal.asked();
        let body = json!({"action": "discard", "id": id, "reason": "of no use"}).to_string();
        let length = body.len();
        let mut stream = served.connect();
        let request = format!(
            "POST /api/v1/actions HTTP/1.1\r\nHost: localhost\r\n{token}\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        journal.wait_for_asked(commits + 1);
        drop(stream);
        // The server sees the end of the connection before it takes a new one.
        served.json("summary");
        drop(served);
        journal.hold_commits(false);
        until("the discard is recorded", || {
            let incidents = runtime.inspect().incidents();
            let texts = incidents.iter().map(|one| &one.text);
            { texts }.any(|text| text.contains("discarded"))
        });
        assert!(quarantined().is_empty());
    });
}

#[test]
fn an_event_that_never_ends_to_be_read_blocks_actions_only() {
    limited(|| {
        #[derive(Debug)]
        enum Slow {
            Word,
        }

        impl<'de> serde::Deserialize<'de> for Slow {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                match String::deserialize(from)?.as_str() {
                    "panic" => panic!("no event"),
                    "word" => Ok(Self::Word),
                    _ => loop {
                        std::thread::park();
                    },
                }
            }
        }

        struct Ear;

        #[fom(operation(Ear), event(Slow), transient)]
        enum Listening {
            #[phase(start, sync, to(Over), on(Word))]
            Wait,
            #[phase(end)]
            Over,
        }

        impl ListeningTransitions for Ear {
            fn wait(
                &mut self,
                _: &mut Cx<'_, Slow>,
                _: Slow,
            ) -> Result<ListeningAfterWait, BoxError> {
                Ok(ListeningAfterWait::Over)
            }
        }

        let served = Served::with(runtime(), |inspector| {
            inspector.actions(TOKEN).event::<Ear>()
        });
        let ear = served.runtime.submit(Ear).start().unwrap();
        let send = |event: &str| {
            served.act(&json!({"action": "send", "id": ear.id(), "event": event, "reason": "x"}))
        };
        send("panic").is(500, "panicked");
        send("park").is(503, "busy");
        send("park").is(503, "busy");
        served.goes_on();
        drop(ear);
    });
}

#[test]
fn the_policy_of_an_admission_changes_by_its_text() {
    limited(|| {
        let served = acting();
        let intake = Admission::builder(&served.runtime)
            .name("front door")
            .build()
            .unwrap();
        let change = |name: &str, policy: &str| {
            served.act(&json!({
                "action": "policy", "admission": name, "policy": policy, "reason": "a test",
            }))
        };
        let answer = change("front door", "crr quantum=2");
        assert_eq!(answer.status, 200, "{}", answer.body);
        let text = answer.json()["text"].clone();
        assert_eq!(
            text,
            "set the policy to crr quantum=2 in admission front door"
        );
        let tokio = tokio::runtime::Builder::new_current_thread();
        let tokio = { tokio }.build().unwrap();
        let status = tokio.block_on(intake.status());
        let names: Vec<_> = status.policies.iter().map(|of| of.name.as_str()).collect();
        assert_eq!(names.last(), Some(&"crr quantum=2"));

        let promote = |client: &str| {
            served.act(&json!({
                "action": "promote", "admission": "front door", "client": client, "reason": "a test",
            }))
        };
        promote("ada").is(409, "conflict");
        change("front door", "crr quantum=none").is(409, "conflict");
        change("back door", "crr quantum=2").is(404, "not_found");
        let missing = json!({"action": "policy", "policy": "crr quantum=2", "reason": "a test"});
        served.act(&missing).is(400, "body");
        let other = Admission::builder(&served.runtime).name("front door");
        let other = other.build().unwrap();
        change("front door", "crr quantum=2").is(409, "conflict");
        drop(other);
    });
}
