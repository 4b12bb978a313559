//! What foms carry goes along in teams, calls of services, admissions and closures.

use fom_patterns::{
    admission::Admission,
    prelude::*,
    service::{Provider, Service},
    streams::{KeyedStream, StreamOptions},
};
use fom_runtime::{Builder, observe::IncidentKind, submission::Placement, time::TestClock};
use serde::{Deserialize, Serialize};

use crate::kit::{Log, hush_localities, limited, many, one};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Tenant(String);

fn carrying(builder: Builder) -> Builder {
    builder.carry("tenant", |from: Option<&Tenant>| {
        from.cloned().unwrap_or_default()
    })
}

static ECHO: Service<&'static str, ()> = Service::new("echo");

/// Tells what it carries.
struct Leaf(&'static str);

#[fom(operation(Leaf), transient)]
enum Telling {
    #[phase(start, sync, to(Told))]
    Tell,
    #[phase(end)]
    Told,
}

impl TellingTransitions for Leaf {
    fn tell(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        let tenant = cx.carried::<Tenant>().unwrap();
        cx.resource::<Log>()
            .put(format!("{}: {}", self.0, tenant.0));
        Ok(())
    }
}

/// Starts others in all ways.
struct Lead {
    intake: Admission,
}

#[fom(operation(Lead), transient)]
enum Leading {
    #[phase(start, to(Led))]
    Start,
    #[phase(end)]
    Led,
}

impl LeadingTransitions for Lead {
    async fn start(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        let mut team = cx.team();
        for place in [Placement::Here, Placement::RoundRobin] {
            drop(team.start(cx.submit(Leaf("team")).place(place))?);
        }
        team.all().await;
        cx.runtime().services().call(&ECHO, "call").await?;
        self.intake.submit(Leaf("admission")).start()?.await?;
        let other = self.intake.submit(Leaf("given to an admission"));
        other.carrying(Tenant("other".into())).start()?.await?;
        Ok(())
    }
}

#[test]
fn what_a_fom_starts_inherits_what_it_carries() {
    limited(|| async {
        let log = Log::default();
        let runtime = carrying(many(2, &TestClock::new())).resource(log.clone());
        let runtime = runtime.build().unwrap();
        let echo = Provider::operation(
            |runtime: &Runtime, name| runtime.submit(Leaf(name)),
            |outcome| drop(outcome.unwrap()),
        );
        let _echo = runtime.services().register(&ECHO, echo.owner("the test"));
        let intake = Admission::builder(&runtime).in_flight(1).build().unwrap();
        let lead = runtime.submit(Lead {
            intake: intake.clone(),
        });
        lead.carrying(Tenant("acme".into())).await.unwrap();
        // From outside, nothing is inherited.
        intake
            .submit(Leaf("outside"))
            .start()
            .unwrap()
            .await
            .unwrap();
        let expected = [
            "team: acme",
            "team: acme",
            "call: acme",
            "admission: acme",
            "given to an admission: other",
            "outside: ",
        ];
        assert_eq!(log.lines(), expected);
    });
}

/// Counts, whatever it carries.
struct Count;

#[fom(operation(Count), transient)]
enum Counting {
    #[phase(start, sync, to(Counted))]
    Add,
    #[phase(end)]
    Counted,
}

impl CountingTransitions for Count {
    fn add(&mut self, cx: &mut Cx<'_>) -> Result<(), BoxError> {
        let carries = cx.carried::<Tenant>().is_some();
        cx.resource::<Log>().put(format!("carries: {carries}"));
        Ok(())
    }
}

/// A stream goes on if what its operations carry cannot be made.
#[test]
fn a_maker_that_panics_stops_no_stream() {
    hush_localities();
    limited(|| async {
        let log = Log::default();
        let runtime = one(&TestClock::new()).resource(log.clone());
        let runtime = runtime.carry("tenant", |from: Option<&Tenant>| {
            from.expect("a submitter").clone()
        });
        let runtime = runtime.build().unwrap();
        let stream = KeyedStream::new(&runtime, StreamOptions::default());
        for _ in 0..3 {
            stream.push(7_u32, Count).unwrap();
        }
        runtime.quiet().await;
        assert_eq!(log.take(), ["carries: false"; 3]);
        assert_eq!(runtime.in_flight(), 0);
        let incidents = runtime.inspect().incidents();
        let last = incidents.last().unwrap();
        assert_eq!(last.kind, IncidentKind::Panicked);
        assert!(last.text.ends_with("a submitter"), "{}", last.text);
    });
}
