//! Code of the program that panics or never returns. The inspector says so within a second, and answers everything else.

use std::{
    fmt,
    sync::{Condvar, Mutex, PoisonError},
};

use fom_durable::{DurableBuilderExt as _, journal::MemoryJournal};
use fom_patterns::admission::{Admission, Next, Policy, Request, Tags};
use fom_runtime::{prelude::*, submission::Placement, time::Instant};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

use crate::kit::{Served, TOKEN, limited, secs, until};

/// Code that does not return before the test lets it.
struct Gate {
    state: Mutex<(usize, bool)>,
    changed: Condvar,
}

impl Gate {
    const fn new() -> Self {
        Self {
            state: Mutex::new((0, false)),
            changed: Condvar::new(),
        }
    }

    fn pass(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 += 1;
        self.changed.notify_all();
        while !state.1 {
            state = self.changed.wait(state).unwrap();
        }
    }

    fn wait_for_one(&self) {
        let state = self.state.lock().unwrap();
        let reached = self
            .changed
            .wait_timeout_while(state, secs(60), |state| state.0 == 0);
        assert!(!reached.unwrap().1.timed_out());
    }

    fn open(&self) {
        self.state.lock().unwrap().1 = true;
        self.changed.notify_all();
    }
}

/// What code of the program does where it is called.
#[derive(Clone, Copy)]
enum Does {
    Panic,
    Hang(&'static Gate),
}

impl Does {
    fn it(self) {
        match self {
            Self::Panic => panic!("the code of the program breaks"),
            Self::Hang(gate) => gate.pass(),
        }
    }
}

/// Fails at once, with this in its `Serialize` or in the `Display` of its error.
#[derive(Default)]
struct Rude {
    written: Option<Does>,
    shown: Option<Does>,
}

impl Serialize for Rude {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if let Some(does) = self.written {
            does.it();
        }
        to.serialize_unit()
    }
}

impl<'de> Deserialize<'de> for Rude {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        <()>::deserialize(from).map(|()| Self::default())
    }
}

#[derive(Debug)]
struct Shown(Option<Does>);

impl fmt::Debug for Does {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Does")
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(does) = self.0 {
            does.it();
        }
        f.write_str("it is rude")
    }
}

impl std::error::Error for Shown {}

#[fom(operation(Rude), event(Word))]
enum Being {
    #[phase(start, sync, to(Listening))]
    Begin,
    #[phase(sync, to(Gone), on(Go))]
    Listening,
    #[phase(end)]
    Gone,
}

impl BeingTransitions for Rude {
    fn begin(&mut self, _: &mut Cx<'_, Word>) -> Result<(), BoxError> {
        match self.shown.take() {
            None => Ok(()),
            does => Err(Shown(does).into()),
        }
    }

    fn listening(
        &mut self,
        _: &mut Cx<'_, Word>,
        _: Word,
    ) -> Result<BeingAfterListening, BoxError> {
        Ok(BeingAfterListening::Gone)
    }
}

enum Word {
    Go,
}

static READS: Gate = Gate::new();

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match String::deserialize(from)?.as_str() {
            "Panic" => Does::Panic.it(),
            "Hang" => Does::Hang(&READS).it(),
            _ => {}
        }
        Ok(Self::Go)
    }
}

impl Serialize for Word {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str("Go")
    }
}

/// Two localities, of which the foms of these tests use the second.
fn served() -> Served {
    let runtime = Runtime::builder()
        .localities(2)
        .pin(false)
        .observe()
        .journal_with(MemoryJournal::new())
        .build()
        .unwrap();
    Served::with(runtime, |inspector| {
        inspector.actions(TOKEN).event::<Rude>()
    })
}

fn start(served: &Served, rude: Rude) -> Handle<Rude> {
    let submission = served.runtime.submit(rude).place(Placement::Locality(1));
    submission.start().unwrap()
}

/// Checks that the inspector answers, also about the foms of a locality that hangs.
fn answers(served: &Served) {
    for path in [
        "summary",
        "foms",
        "localities",
        "waits",
        "failures",
        "parts",
    ] {
        served.json(path);
    }
}

#[test]
fn an_event_that_panics_or_hangs_when_it_is_read_holds_up_no_other_action() {
    limited(|| {
        let served = served();
        let rude = start(&served, Rude::default());
        served.quiet();
        let send = |event: &str| {
            served.act(
                &json!({"action": "send", "id": rude.id(), "event": event, "reason": "a test"}),
            )
        };
        send("Panic").is(500, "panicked");
        send("Hang").is(503, "busy");
        // The call that hangs keeps its place.
        let answer = send("Go");
        answer.is(503, "busy");
        assert!(answer.body.contains("within 1 s"), "{}", answer.body);
        let cancel = json!({"action": "cancel", "id": rude.id(), "reason": "a test"});
        assert_eq!(served.act(&cancel).status, 200);
        assert!(matches!(rude.wait().unwrap_err().cause, Cause::Cancelled));
        served.goes_on();
        READS.open();
    });
}

#[test]
fn an_error_that_panics_or_hangs_when_it_is_shown_stops_its_locality_only() {
    static SHOWS: Gate = Gate::new();

    limited(|| {
        let served = served();
        let shown = |does| Rude {
            written: None,
            shown: Some(does),
        };
        assert!(start(&served, shown(Does::Panic)).wait().is_err());
        answers(&served);
        let hangs = start(&served, shown(Does::Hang(&SHOWS)));
        SHOWS.wait_for_one();
        answers(&served);
        let fom = served.json(&format!("foms/{}", hangs.id()));
        assert_eq!(fom["fom"]["state"], "running");
        SHOWS.open();
        assert!(hangs.wait().is_err());
        served.goes_on();
    });
}

#[test]
fn an_operation_that_panics_or_hangs_when_it_is_saved_stops_its_locality_only() {
    static WRITES: Gate = Gate::new();

    limited(|| {
        let served = served();
        let written = |does| Rude {
            written: Some(does),
            shown: None,
        };
        assert!(start(&served, written(Does::Panic)).wait().is_err());
        answers(&served);
        let hangs = start(&served, written(Does::Hang(&WRITES)));
        WRITES.wait_for_one();
        answers(&served);
        WRITES.open();
        served.quiet();
        let cancel = json!({"action": "cancel", "id": hangs.id(), "reason": "a test"});
        assert_eq!(served.act(&cancel).status, 200);
        assert!(hangs.wait().is_err());
        served.goes_on();
    });
}

/// Declines all requests, and shows its gate or panics before that.
struct Declines(Does);

impl Policy for Declines {
    fn name(&self) -> &str {
        "declines"
    }

    fn enqueue(&mut self, request: Request, _: Instant) -> Result<(), Request> {
        self.0.it();
        Err(request)
    }

    fn get(&mut self, _: Instant, _: bool) -> Next {
        Next::Empty
    }

    fn remove(&mut self, _: &Tags) -> Option<Request> {
        None
    }

    fn visit(&self, _: &mut dyn FnMut(&Tags)) {}
}

#[test]
fn a_policy_that_panics_or_hangs_makes_its_admission_busy_only() {
    static DECLINES: Gate = Gate::new();

    limited(|| {
        let served = served();
        let admission = |name: &'static str| Admission::builder(&served.runtime).name(name).build();
        let (stuck, other) = (admission("stuck").unwrap(), admission("other").unwrap());
        other.set_policy(Declines(Does::Panic));
        let panics = other.submit(Rude::default()).start().unwrap();
        until("the policy is gone", || {
            let incidents = served.json("warnings")["incidents"].to_string();
            incidents.contains("the code of the program breaks")
        });
        stuck.set_policy(Declines(Does::Hang(&DECLINES)));
        let submitter = {
            let stuck = stuck.clone();
            std::thread::spawn(move || stuck.submit(Rude::default()).start().unwrap())
        };
        DECLINES.wait_for_one();
        let listed = served.json("admissions");
        let busy = |name: &str| -> Value {
            let all = listed["parts"].as_array().unwrap();
            let one = all.iter().find(|one| one["name"] == name).unwrap();
            one["busy"].clone()
        };
        assert_eq!((busy("stuck"), busy("other")), (true.into(), false.into()));
        let promote = json!({
            "action": "promote", "admission": "stuck", "client": "ada", "reason": "a test",
        });
        let answer = served.act(&promote);
        answer.is(409, "conflict");
        assert!(
            answer.body.contains("a policy does not return"),
            "{}",
            answer.body
        );
        answers(&served);
        served.goes_on();
        DECLINES.open();
        drop((panics, submitter.join().unwrap()));
    });
}
