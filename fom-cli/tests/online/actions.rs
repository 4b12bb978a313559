//! What the commands that act do, and what they say.

use fom_durable::{DurableBuilderExt as _, DurableExt as _, journal::MemoryJournal};
use fom_patterns::admission::Admission;
use fom_runtime::{Runtime, prelude::*, time::TestClock};
use serde_json::json;

use crate::kit::{Served, TOKEN, limited, one, until};

fn acting() -> Served {
    Served::acting(one(&TestClock::new()).build().unwrap())
}

const WHY: [&str; 2] = ["--reason", "the provider is down"];

#[test]
fn a_cancel_has_a_reason_that_the_program_keeps_with_the_user() {
    limited(|| {
        let served = acting();
        let task = served.start("hear", "a");
        served.quiet();
        served.fails(&["cancel", "a"], 2, "--reason");
        served.fails(&["cancel", "--reason", "x"], 2, "required");
        let said = served.done(&[&["cancel", "a"][..], &WHY].concat());
        assert_eq!(
            said,
            format!("cancelled Task {} (key a) in Hearing\n", task.id())
        );
        assert!(matches!(task.wait().unwrap_err().cause, Cause::Cancelled));
        let incident = &served.runtime.inspect().incidents()[0];
        assert!(
            incident.text.starts_with("ada (127.0.0.1:"),
            "{}",
            incident.text
        );
        assert!(incident.text.ends_with(WHY[1]), "{}", incident.text);
        served.fails(
            &[&["cancel", "a"][..], &WHY].concat(),
            1,
            "no fom in flight has the id or key `a`",
        );
    });
}

#[test]
fn an_action_on_a_filter_counts_first_and_acts_with_yes() {
    limited(|| {
        let served = acting();
        let tasks: Vec<_> = (0..3)
            .map(|number| served.start("hear", &format!("{number}")))
            .collect();
        served.quiet();
        let cancel = |more: &[&str]| {
            let filter = &["cancel", "--filter", "type:Task phase:Hearing"][..];
            served.done(&[filter, &WHY, more].concat())
        };
        let counted = cancel(&[]);
        assert!(
            counted.starts_with("the filter matches 3 foms: "),
            "{counted}"
        );
        assert!(counted.contains("--yes"), "{counted}");
        assert_eq!(served.runtime.in_flight(), 3, "nothing was done");
        assert_eq!(cancel(&["--yes"]), "cancelled 3 foms\n");
        for task in tasks {
            assert!(matches!(task.wait().unwrap_err().cause, Cause::Cancelled));
        }
        let none = [&["wake", "--filter", "phase:Hearing"][..], &WHY].concat();
        until("all are gone", || served.runtime.in_flight() == 0);
        served.fails(&none, 1, "no fom in flight matches");
        served.fails(
            &[&["cancel", "--filter", "phase="][..], &WHY].concat(),
            2,
            "`phase=`",
        );
        served.fails(
            &[&["cancel", "1", "--yes"][..], &WHY].concat(),
            2,
            "--filter",
        );
        served.fails(
            &[&["cancel", "1", "--filter", "x"][..], &WHY].concat(),
            2,
            "cannot be used with",
        );
    });
}

#[test]
fn an_event_is_a_name_or_json() {
    limited(|| {
        let served = acting();
        let (one, other) = (served.start("hear", "a"), served.start("hear", "b"));
        served.quiet();
        let send = |fom: &str, event: &str| served.fom(&[&["send", fom, event][..], &WHY].concat());
        let wrong = send("a", r#"{"Shout": 1}"#);
        assert_eq!(wrong.status.code(), Some(2));
        let message = String::from_utf8_lossy(&wrong.stderr).into_owned();
        assert!(
            message.contains("Shout") && message.contains("Say"),
            "{message}"
        );
        assert_eq!(send("a", "{").status.code(), Some(2));
        assert_eq!(send("a", "Go").status.code(), Some(0));
        one.wait().unwrap();
        assert_eq!(
            send(&other.id().to_string(), r#"{"Say": "hello"}"#)
                .status
                .code(),
            Some(0)
        );
        assert_eq!(other.wait().unwrap().operation.0, "hello");
        assert_eq!(send("a", "Go").status.code(), Some(1));
    });
}

#[test]
fn a_suspended_key_is_resumed() {
    limited(|| {
        let served = acting();
        let of_key = |command: &str| served.fom(&[&[command, "Task", "a"][..], &WHY].concat());
        assert_eq!(of_key("suspend").status.code(), Some(0));
        assert_eq!(of_key("suspend").status.code(), Some(1));
        let task = served.start("done", "a");
        served.quiet();
        assert_eq!(served.json(&["list", "key:a"])[0]["phase"], "Choosing");
        assert_eq!(of_key("resume").status.code(), Some(0));
        task.wait().unwrap();
        assert_eq!(of_key("resume").status.code(), Some(1));
        served.fails(
            &[&["suspend", "Nothing", "a"][..], &WHY].concat(),
            1,
            "no machine of type `Nothing`",
        );
    });
}

#[test]
fn retry_begins_the_next_attempt_of_a_fom() {
    limited(|| {
        let served = acting();
        let (tries, hears) = (served.start("try", "a"), served.start("hear", "b"));
        served.quiet();
        let attempts = || served.json(&["show", "a"])[0]["fom"]["attempt"].clone();
        assert_eq!(attempts(), 1);
        served.done(&[&["retry", "a"][..], &WHY].concat());
        until("it has tried again", || attempts() == 2);
        served.fails(
            &[&["retry", "b"][..], &WHY].concat(),
            1,
            "an event: Go, Say",
        );
        let all = [&["retry", "--filter", "type:Task", "--yes"][..], &WHY].concat();
        let output = served.fom(&all);
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            "began the next attempt of 1 fom\n"
        );
        let left = format!("left out {}: it waits for no attempt", hears.id());
        assert!(
            String::from_utf8_lossy(&output.stderr).contains(&left),
            "{output:?}"
        );
        drop(tries);
    });
}

#[test]
fn retry_runs_a_failed_operation_again() {
    limited(|| {
        // Without a journal, the failure is in memory.
        let served = acting();
        let task = served.start("break", "a");
        let old = task.id().get();
        assert!(task.wait().is_err());
        assert!(served.start("break", "a").wait().is_err());
        let two = [&["retry", "a"][..], &WHY].concat();
        served.fails(&two, 1, "several failed operations have the key `a`");
        let answer = &served.json(&[&["retry", &old.to_string()][..], &WHY].concat())[0];
        assert_eq!(answer["action"], "resubmit");
        let new = answer["id"].as_u64().unwrap();
        assert_ne!(new, old);
        until("it has failed again", || {
            let failed = served.json(&["list", "--failed"]);
            failed.iter().any(|one| one["id"] == new)
        });

        let runtime = one(&TestClock::new()).journal_with(MemoryJournal::new());
        let served = Served::acting(runtime.build().unwrap());
        assert!(served.start("break", "a").wait().is_err());
        let quarantined = || served.runtime.quarantine().list();
        until("it is in quarantine", || quarantined().len() == 1);
        let id = quarantined()[0].id.to_string();
        let answer = &served.json(&[&["retry", &id][..], &WHY].concat())[0];
        assert_eq!(
            (&answer["action"], &answer["done"]),
            (&json!("retry"), &json!(1))
        );
        until("it has failed again", || quarantined().len() == 1);
    });
}

#[test]
fn an_action_needs_a_program_that_allows_it_and_the_token() {
    limited(|| {
        let served = acting();
        let task = served.start("hear", "a");
        let cancel = [&["cancel", "a"][..], &WHY].concat();
        let run = |change: &dyn Fn(&mut std::process::Command)| {
            let mut command = served.command();
            change(command.args(&cancel));
            command.output().unwrap()
        };
        let without = run(&|command| {
            command.env_remove("FOM_INSPECT_TOKEN");
        });
        crate::kit::failed(&without, 1, "FOM_INSPECT_TOKEN");
        let wrong = run(&|command| {
            command.env("FOM_INSPECT_TOKEN", "another long secret");
        });
        crate::kit::failed(&wrong, 1, "the token is not that of this program");
        let odd = run(&|command| {
            command.env("FOM_INSPECT_TOKEN", "two\nlines of a secret");
        });
        crate::kit::failed(&odd, 2, "no token of one line");
        assert!(!String::from_utf8_lossy(&odd.stderr).contains("secret"));
        let missing = run(&|command| {
            command.args(["--token-file", "/nothing/here"]);
        });
        crate::kit::failed(&missing, 2, "/nothing/here");
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), format!("{TOKEN}\n")).unwrap();
        let from_file = run(&|command| {
            command
                .env_remove("FOM_INSPECT_TOKEN")
                .arg("--token-file")
                .arg(file.path());
        });
        assert_eq!(from_file.status.code(), Some(0), "{from_file:?}");
        assert!(task.wait().is_err());

        let runtime = Runtime::builder().localities(1).pin(false).build().unwrap();
        let reading = Served::with(runtime, |inspector| inspector.token(TOKEN));
        let task = reading.start("hear", "a");
        reading.fails(&cancel, 1, "Inspector::actions");
        drop(task);
    });
}

#[test]
fn the_policy_of_an_admission_changes() {
    limited(|| {
        let served = acting();
        let intake = Admission::builder(&served.runtime).name("front door");
        let intake = intake.build().unwrap();
        let change = |name, policy| [&["policy", name, policy][..], &WHY].concat();
        assert_eq!(
            served.done(&change("front door", "crr quantum=2")),
            "set the policy to crr quantum=2 in admission front door\n"
        );
        served.fails(&change("front door", "crr quantum=x"), 1, "quantum=x");
        served.fails(&change("back door", "crr quantum=2"), 1, "back door");
        drop(intake);
    });
}
