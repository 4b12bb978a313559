//! The parent and the children of a fom.

use fom_inspect::ParentsExt;
use fom_runtime::{prelude::*, time::TestClock};
use serde_json::json;

use crate::kit::{Heard, Served, Task, limited, one, runtime, until};

/// Submits two tasks, and waits for them.
struct Both;

#[fom(operation(Both), transient)]
enum Asking {
    #[phase(start, to(Done))]
    Ask,
    #[phase(end)]
    Done,
}

impl AskingTransitions for Both {
    async fn ask(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        let first = cx.submit(Task("hear".into())).key("first").start()?;
        let second = cx.submit(Task("hear".into())).key("second").start()?;
        first.await?;
        second.await?;
        Ok(())
    }
}

#[test]
fn a_fom_has_its_parent_and_its_children() {
    limited(|| {
        let runtime = one(&TestClock::new()).parents().build().unwrap();
        let served = Served::new(runtime);
        let both = served.runtime.submit(Both).start().unwrap();
        served.quiet();
        let family = served.json(&format!("foms/{}/family", both.id()));
        assert_eq!(
            (&family["parent"], &family["more"]),
            (&json!(null), &json!(false))
        );
        let children = family["children"].as_array().unwrap();
        let mut keys: Vec<_> = children.iter().map(|fom| fom["key"].clone()).collect();
        keys.sort_by_key(ToString::to_string);
        assert_eq!(keys, ["first", "second"]);

        let first = served.runtime.find::<Task>("first").unwrap();
        let family = served.json(&format!("foms/{}/family", first.id()));
        assert_eq!(family["parent"], json!(both.id()));
        assert_eq!(family["children"], json!([]));

        first.send(Heard::Go).unwrap();
        until("one child is left", || {
            let family = served.json(&format!("foms/{}/family", both.id()));
            family["children"].as_array().unwrap().len() == 1
        });
        let gone = served.get(&format!("/api/v1/foms/{}/family", first.id()));
        gone.is(404, "not_found");
    });
}

#[test]
fn a_program_without_parents_knows_no_children() {
    limited(|| {
        let served = Served::new(runtime());
        let task = served.start("hear", "a");
        let family = served.json(&format!("foms/{}/family", task.id()));
        assert_eq!(family["children"], json!(null));
    });
}
