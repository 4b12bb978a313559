//! Releases of a layer and of the inner operation, each with its own versions.

use fom_runtime::{
    prelude::*,
    snapshot::{RestoreError, Saved},
};
use serde::{Deserialize, Serialize};

mod then {
    use super::{BoxError, Cx, Deserialize, Persistent, Serialize, fom};

    #[derive(Serialize, Deserialize)]
    pub(crate) struct Read {
        pub(crate) title: String,
    }

    #[fom(operation(Read))]
    pub(crate) enum Reading {
        #[phase(start, to(Wait))]
        Look,
        #[phase(to(Found))]
        Wait { seconds: u32 },
        #[phase(end)]
        Found,
    }

    impl ReadingTransitions for Read {
        async fn look(&mut self, _: &mut Cx<'_>) -> Result<ReadingAfterLook, BoxError> {
            Ok(ReadingAfterLook::Wait { seconds: 1 })
        }
        async fn wait(&mut self, _: &mut Cx<'_>, _: &mut u32) -> Result<(), BoxError> {
            Ok(())
        }
    }

    #[derive(Serialize, Deserialize)]
    pub(crate) struct Guarded<R> {
        pub(crate) token: u32,
        pub(crate) request: R,
    }

    #[fom(operation(Guarded<R>), around(R))]
    pub(crate) enum Standard<R: Persistent> {
        #[phase(start, to(Serve))]
        Check,
        #[phase(inner(request), to(Reply))]
        Serve { phase: R::Phase },
        #[phase(to(Done))]
        Reply { words: u32 },
        #[phase(end)]
        Done,
    }

    impl<R: Persistent> StandardTransitions<R> for Guarded<R> {
        async fn check(&mut self, _: &mut Cx<'_, R::Event>) -> Result<(), BoxError> {
            Ok(())
        }
        async fn serve(
            &mut self,
            _: &mut Cx<'_, R::Event>,
            _: &mut R::Phase,
        ) -> Result<StandardAfterServe, BoxError> {
            Ok(StandardAfterServe::Reply { words: 1 })
        }
        async fn reply(&mut self, _: &mut Cx<'_, R::Event>, _: &mut u32) -> Result<(), BoxError> {
            Ok(())
        }
    }

    pub(crate) fn read() -> Guarded<Read> {
        let title = "sky".into();
        Guarded {
            token: 7,
            request: Read { title },
        }
    }
}

mod now {
    use super::{BoxError, Cx, Deserialize, Persistent, Saved, Serialize, fom};

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    pub(crate) struct Read {
        pub(crate) name: String,
        pub(crate) size: u32,
    }

    #[fom(operation(Read), version = 2, migrate(v1(renamed)))]
    #[derive(Debug, PartialEq)]
    pub(crate) enum Reading {
        #[phase(start, to(Hold))]
        Look,
        #[phase(to(Found), was = "Wait")]
        Hold { millis: u64 },
        #[phase(end)]
        Found,
    }

    fn renamed(saved: &mut Saved) -> Result<(), BoxError> {
        #[derive(Deserialize)]
        struct Old {
            title: String,
        }
        assert_eq!(saved.version(), 1);
        let Old { title: name } = saved.operation()?;
        saved.set_operation(&Read { name, size: 0 })?;
        if saved.phase() == "Wait" {
            let seconds: u64 = saved.take("seconds")?;
            saved.put("millis", &(seconds * 1000))?;
        }
        Ok(())
    }

    impl ReadingTransitions for Read {
        async fn look(&mut self, _: &mut Cx<'_>) -> Result<ReadingAfterLook, BoxError> {
            Ok(ReadingAfterLook::Hold { millis: 1 })
        }
        async fn hold(&mut self, _: &mut Cx<'_>, _: &mut u64) -> Result<(), BoxError> {
            Ok(())
        }
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    pub(crate) struct Guarded<R> {
        pub(crate) token: u32,
        pub(crate) request: R,
    }

    #[fom(operation(Guarded<R>), around(R), version = 2, migrate(v1(counted)))]
    #[derive(Debug, PartialEq)]
    pub(crate) enum Standard<R: Persistent> {
        #[phase(start, to(Serve), was = "Check")]
        Authenticate,
        #[phase(inner(request), to(Reply))]
        Serve { phase: R::Phase },
        #[phase(to(Done))]
        Reply { text: String },
        #[phase(end)]
        Done,
    }

    fn counted(saved: &mut Saved) -> Result<(), BoxError> {
        if saved.phase() == "Reply" {
            let words: u32 = saved.take("words")?;
            saved.put("text", &format!("{words} words"))?;
        }
        Ok(())
    }

    impl<R: Persistent> StandardTransitions<R> for Guarded<R> {
        async fn authenticate(&mut self, _: &mut Cx<'_, R::Event>) -> Result<(), BoxError> {
            Ok(())
        }
        async fn serve(
            &mut self,
            _: &mut Cx<'_, R::Event>,
            _: &mut R::Phase,
        ) -> Result<StandardAfterServe, BoxError> {
            Ok(StandardAfterServe::Reply {
                text: String::new(),
            })
        }
        async fn reply(
            &mut self,
            _: &mut Cx<'_, R::Event>,
            _: &mut String,
        ) -> Result<(), BoxError> {
            Ok(())
        }
    }
}

/// SM-11, PR-10: the inner operation has its own versions and migrations. They also hold for what the layer saved,
/// also in a phase of the layer, and also when both have changed.
#[test]
fn versions_of_the_layer_and_of_what_is_inside_are_both_carried_over() {
    type Now = now::Guarded<now::Read>;
    assert_eq!(
        (
            then::Guarded::<then::Read>::GRAPH.version(),
            Now::GRAPH.version()
        ),
        (1, 1002)
    );
    let wait = then::Reading::Wait { seconds: 3 };
    let cases = [
        (then::Standard::Check, now::Standard::Authenticate),
        (
            then::Standard::Serve { phase: wait },
            now::Standard::Serve {
                phase: now::Reading::Hold { millis: 3000 },
            },
        ),
        (
            then::Standard::Reply { words: 2 },
            now::Standard::Reply {
                text: "2 words".into(),
            },
        ),
    ];
    for (before, after) in cases {
        let snapshot = then::read().snapshot(&before).unwrap();
        let (operation, phase) = Now::restore(&snapshot).unwrap();
        let name = "sky".into();
        let request = now::Read { name, size: 0 };
        assert_eq!(operation, now::Guarded { token: 7, request });
        assert_eq!(phase, after);
        // There is no way back to the previous release, and the error says so.
        let snapshot = operation.snapshot(&phase).unwrap();
        let refused = then::Guarded::<then::Read>::restore(&snapshot)
            .err()
            .unwrap();
        assert!(
            matches!(refused, RestoreError::NewerVersion { .. }),
            "{refused}"
        );
    }
}
