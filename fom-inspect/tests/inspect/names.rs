//! Two machines with operations of one name.

use serde_json::json;

use crate::kit::{Served, TOKEN, limited, runtime};

/// Writes a module with an operation `Twin`, and its machine with a phase of its own.
macro_rules! twin {
    ($module:ident, $machine:ident, $transitions:ident, $phase:ident, $function:ident) => {
        mod $module {
            use fom_runtime::prelude::*;

            pub(super) struct Twin;

            #[derive(serde::Deserialize)]
            pub(super) enum Word {
                Go,
            }

            #[fom(operation(Twin), event(Word), transient)]
            pub(super) enum $machine {
                #[phase(start, to(Done), on(Go))]
                $phase,
                #[phase(end)]
                Done,
            }

            impl $transitions for Twin {
                async fn $function(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), BoxError> {
                    let Word::Go = cx.event().await;
                    Ok(())
                }
            }
        }
    };
}

twin!(first, First, FirstTransitions, Expect, expect);
twin!(second, Second, SecondTransitions, Listen, listen);

#[test]
fn the_phase_of_a_fom_tells_its_machine() {
    limited(|| {
        let served = Served::with(runtime(), |inspector| {
            inspector
                .actions(TOKEN)
                .event::<first::Twin>()
                .event::<second::Twin>()
        });
        let one = served.runtime.submit(first::Twin).start().unwrap();
        let two = served
            .runtime
            .submit(second::Twin)
            .key("a")
            .start()
            .unwrap();
        served.quiet();
        let type_of = |id| served.json(&format!("foms/{id}"))["type"].clone();
        assert_eq!(type_of(one.id()), "Twin.First");
        assert_eq!(type_of(two.id()), "Twin.Second");
        let suspend = json!({"action": "suspend", "id": two.id(), "reason": "x"});
        assert_eq!(served.act(&suspend).status, 200);
        let keys = served.runtime.inspect().keys();
        assert_eq!((keys.len(), &*keys[0].holders), (1, &[two.id()][..]));
        for id in [one.id(), two.id()] {
            let send = json!({"action": "send", "id": id, "event": "Go", "reason": "x"});
            let answer = served.act(&send);
            assert_eq!(answer.status, 200, "{}", answer.body);
        }
        one.wait().unwrap();
        two.wait().unwrap();
    });
}
