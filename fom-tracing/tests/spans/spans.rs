//! The spans around the code of foms.

use fom_durable::{journal::MemoryJournal, prelude::*};
use fom_patterns::{
    prelude::*,
    service::{Provider, Service},
    streams::{KeyedStream, StreamOptions},
};
use fom_runtime::{Builder, submission::Placement, time::TestClock};
use fom_tracing::{Tracing, TracingExt};
use serde::{Deserialize, Serialize};
use tracing::{info, info_span};

use crate::{
    kit::{limited, many, one, secs},
    seen::{extracted, lines, lines_until, see},
};

/// Tells where it is, in phases of all forms.
#[derive(Serialize, Deserialize)]
struct Task {
    word: String,
    fails: u32,
}

impl Task {
    fn new(word: &str) -> Self {
        Self {
            word: word.into(),
            fails: 0,
        }
    }
}

#[derive(Serialize, Deserialize)]
enum Word {
    Go,
}

#[fom(operation(Task), event(Word))]
enum Doing {
    #[phase(start, sync, to(Wait), retry = "2, 5s..5s")]
    Begin,
    #[phase(to(Block), on(Go))]
    Wait,
    #[phase(blocking, to(Done))]
    Block,
    #[phase(end)]
    Done,
}

impl DoingTransitions for Task {
    fn begin(&mut self, _: &mut Cx<'_, Word>) -> Result<(), BoxError> {
        info!("{} begins", self.word);
        if self.fails > 0 {
            self.fails -= 1;
            return Err("no luck".into());
        }
        Ok(())
    }

    async fn wait(&mut self, cx: &mut Cx<'_, Word>) -> Result<(), BoxError> {
        info!("{} waits", self.word);
        let Word::Go = cx.event().await;
        info!("{} goes on", self.word);
        Ok(())
    }

    fn block(&mut self, _: &mut BlockingCx<'_>) -> Result<(), BoxError> {
        info!("{} blocks", self.word);
        Ok(())
    }
}

/// Tells where it is, and ends.
struct Leaf(&'static str);

#[fom(operation(Leaf), transient)]
enum Telling {
    #[phase(start, sync, to(Told))]
    Tell,
    #[phase(end)]
    Told,
}

impl TellingTransitions for Leaf {
    fn tell(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        info!("{}", self.0);
        Ok(())
    }
}

fn traced(builder: Builder) -> Builder {
    see();
    builder.tracing(Tracing::default())
}

/// OB-03
#[test]
fn code_of_a_phase_is_in_the_spans_of_its_phase_and_operation() {
    limited(|| async {
        let runtime = traced(one(&TestClock::new())).build().unwrap();
        let task = runtime.submit(Task::new("plain")).key("plain");
        let task = task.start().unwrap();
        runtime.quiet().await;
        // Another fom runs on the thread meanwhile, and none of its spans stay.
        let other = runtime.submit(Leaf("plain leaf")).key("plain leaf");
        other.await.unwrap();
        lines_until("plain", "end Leaf plain leaf Told");
        task.send(Word::Go).unwrap();
        task.await.unwrap();
        runtime.quiet().await;
        let expected = [
            "plain begins < Begin 0 < Task plain",
            "plain waits < Wait 0 < Task plain",
            "plain leaf < Tell 0 < Leaf plain leaf",
            "end Leaf plain leaf Told",
            "plain goes on < Wait 0 < Task plain",
            "plain blocks < Block 0 < Task plain",
            "end Task plain Done",
        ];
        assert_eq!(lines_until("plain", expected[6]), expected);
    });
}

/// OB-03: the number of the run, and the locality of that run.
#[test]
fn an_event_says_in_which_run_it_was_written() {
    limited(|| async {
        see();
        let builder = one(&TestClock::new()).tracing(Tracing::default().runs());
        let runtime = builder.build().unwrap();
        let task = runtime.submit(Task::new("counted")).key("counted");
        let task = task.start().unwrap();
        runtime.quiet().await;
        task.send(Word::Go).unwrap();
        task.await.unwrap();
        runtime.quiet().await;
        let expected = [
            "counted begins < run 1 in 0 < Begin 0 < Task counted",
            "counted waits < run 1 in 0 < Wait 0 < Task counted",
            "counted goes on < run 2 in 0 < Wait 0 < Task counted",
            "counted blocks < run 2 in 0 < Block 0 < Task counted",
            "end Task counted Done",
        ];
        assert_eq!(lines("counted"), expected);
    });
}

#[test]
fn a_span_of_a_phase_has_the_number_of_failed_attempts() {
    limited(|| async {
        let clock = TestClock::new();
        let runtime = traced(one(&clock)).build().unwrap();
        let task = Task {
            fails: 9,
            ..Task::new("tries")
        };
        let task = runtime.submit(task).key("tries").start().unwrap();
        for _ in 0..2 {
            runtime.quiet().await;
            clock.advance(secs(5));
        }
        task.await.unwrap_err();
        runtime.quiet().await;
        let expected = [
            "tries begins < Begin 0 < Task tries",
            "tries begins < Begin 1 < Task tries",
            "tries begins < Begin 2 < Task tries",
            "end Task tries error",
        ];
        assert_eq!(lines_until("tries", expected[3]), expected);
    });
}

static ECHO: Service<&'static str, ()> = Service::new("echo");

/// Starts others in all ways.
struct Lead;

#[fom(operation(Lead), transient)]
enum Leading {
    #[phase(start, to(Led))]
    Start,
    #[phase(end)]
    Led,
}

impl LeadingTransitions for Lead {
    async fn start(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        cx.submit(Leaf("lead: child")).await?;
        let mut team = cx.team();
        let helper = cx.submit(Leaf("lead: team"));
        drop(team.start(helper.place(Placement::RoundRobin))?);
        team.all().await;
        cx.runtime().services().call(&ECHO, "lead: call").await?;
        Ok(())
    }
}

#[test]
fn an_operation_is_below_the_one_that_starts_it() {
    limited(|| async {
        let runtime = traced(many(2, &TestClock::new())).build().unwrap();
        let echo = Provider::operation(
            |runtime: &Runtime, name| runtime.submit(Leaf(name)),
            |outcome| drop(outcome.unwrap()),
        );
        let _echo = runtime.services().register(&ECHO, echo.owner("the test"));
        // The span of the caller is above.
        let request = info_span!("request");
        let lead = request.in_scope(|| runtime.submit(Lead).key("lead").start());
        lead.unwrap().await.unwrap();
        runtime.quiet().await;
        let told: Vec<_> = lines("lead: ");
        let lead = "< Start 0 < Lead lead < request";
        assert_eq!(told[0], format!("lead: child < Tell 0 < Leaf - {lead}"));
        assert_eq!(told[1], format!("lead: team < Tell 0 < Leaf - {lead}"));
        let call = &told[2];
        assert!(
            call.starts_with("lead: call < Tell 0 < Leaf - < "),
            "{call}"
        );
        assert!(call.ends_with(lead), "{call}");
        assert_eq!(told.len(), 3);
    });
}

/// A stream runs its operations in turns of the locality, and not in runs of a fom.
#[test]
fn an_operation_of_a_stream_has_its_spans_and_no_parent() {
    limited(|| async {
        let runtime = traced(one(&TestClock::new())).build().unwrap();
        let stream = KeyedStream::new(&runtime, StreamOptions::default());
        let request = info_span!("request");
        request.in_scope(|| stream.push(1_u32, Leaf("streamed")).unwrap());
        let expected = ["streamed < Tell 0 < Leaf -"];
        assert_eq!(lines_until("streamed", expected[0]), expected);
    });
}

#[test]
fn a_fom_has_new_spans_after_a_restart_and_the_context_of_the_first() {
    limited(|| async {
        see();
        let (clock, journal) = (TestClock::new(), MemoryJournal::new());
        let run = || {
            let tracing = Tracing::default().propagate(
                |span| Some(format!("span {}", span.id()?.into_u64())),
                |span, context| {
                    assert!(span.id().is_some());
                    extracted().lock().unwrap().push(context.to_owned());
                },
            );
            let builder = one(&clock).tracing(tracing);
            builder.journal_with(journal.clone()).build().unwrap()
        };
        {
            let runtime = run();
            let task = runtime.submit(Task::new("lasts")).key("lasts");
            task.detach().unwrap();
            runtime.quiet().await;
            assert!(extracted().lock().unwrap().is_empty());
        }
        lines_until("lasts", "end Task lasts shutdown");
        let runtime = run();
        runtime.quiet().await;
        let task = runtime.find::<Task>("lasts").unwrap();
        let end = task.reached([]);
        task.send(Word::Go).unwrap();
        end.await;
        runtime.quiet().await;
        assert_eq!(extracted().lock().unwrap().len(), 1);
        let told = lines_until("lasts", "end Task lasts Done");
        let expected = [
            "lasts begins < Begin 0 < Task lasts",
            "lasts waits < Wait 0 < Task lasts",
            "end Task lasts shutdown",
            "lasts waits < Wait 0 < Task lasts",
            "lasts goes on < Wait 0 < Task lasts",
            "lasts blocks < Block 0 < Task lasts",
            "end Task lasts Done",
        ];
        assert_eq!(told, expected);
    });
}
