//! A routing service's lookup chain. To route a call, the fom asks all locators that know its number plan, then all
//! endpoints that they named, and then a bridge. Every question goes to another component and returns as a wake-up; no
//! thread waits.
//!
//! This is the example of the operation state machines of Asterisk SCF. See the book's chapter "If you come from ..".
//!
//! `cargo run --example lookup_chain`

use std::{collections::BTreeMap, thread};

use fom_runtime::{error::Unanswered, prelude::*};
use serde::{Deserialize, Serialize};

/// One call on its way: the state that the operation keeps between questions, and that a standby would need to
/// continue.
#[derive(Debug, Serialize, Deserialize)]
struct RouteCall {
    caller: String,
    callee: String,
}

#[fom(operation(RouteCall))]
#[derive(Debug)]
enum Route {
    /// Finds the endpoints of the number. Asks all locators with a matching plan at once; the last answer wakes the
    /// fom.
    #[phase(start, to(Ring, NotFound), within = "2s")]
    Lookup,
    /// Rings all endpoints; the first to answer has the call.
    #[phase(to(Bridge, NotFound), within = "32s")]
    Ring { endpoints: Vec<String> },
    /// Joins both sides.
    #[phase(to(Established), within = "2s", retry = "2, 50ms..1s")]
    Bridge { session: String },
    #[phase(end)]
    Established { bridge: u64 },
    #[phase(end, failure)]
    NotFound,
}

impl RouteTransitions for RouteCall {
    async fn lookup(&mut self, cx: &mut Cx<'_>) -> Result<RouteAfterLookup, BoxError> {
        let number = &self.callee;
        let chain = cx.resource::<Locators>().of(number);
        let answers = cx
            .all(chain, |locators: &Locators, locator, reply| {
                locators.ask(locator, number, reply);
            })
            .await;
        // A locator without an answer counts as one that does not know the number.
        let endpoints: Vec<_> = answers.into_iter().flatten().flatten().collect();
        Ok(match endpoints.is_empty() {
            true => RouteAfterLookup::NotFound,
            false => RouteAfterLookup::Ring { endpoints },
        })
    }

    async fn ring(
        &mut self,
        cx: &mut Cx<'_>,
        endpoints: &mut Vec<String>,
    ) -> Result<RouteAfterRing, BoxError> {
        let caller = &self.caller;
        let first = cx
            .any(endpoints.drain(..), |phones: &Phones, endpoint, reply| {
                phones.ring(&endpoint, caller, reply);
            })
            .await;
        Ok(match first {
            Ok((_, session)) => RouteAfterRing::Bridge { session },
            Err(Unanswered) => RouteAfterRing::NotFound,
        })
    }

    async fn bridge(
        &mut self,
        cx: &mut Cx<'_>,
        session: &mut String,
    ) -> Result<RouteAfterBridge, BoxError> {
        let bridge = cx
            .call(|bridges: &Bridges, reply| bridges.join(&self.caller, session, reply))
            .await?;
        Ok(RouteAfterBridge::Established { bridge })
    }
}

/// The locators, each for the numbers with its prefix. They answer from their own threads.
struct Locators(Vec<(&'static str, BTreeMap<&'static str, &'static str>)>);

impl Locators {
    fn of(&self, number: &str) -> Vec<usize> {
        let plans = self.0.iter().enumerate();
        let mine = plans.filter(|(_, (prefix, _))| number.starts_with(prefix));
        mine.map(|(place, _)| place).collect()
    }

    fn ask(&self, locator: usize, number: &str, reply: Reply<Option<String>>) {
        let found = self.0[locator].1.get(number).map(|name| (*name).to_owned());
        thread::spawn(move || reply.send(found));
    }
}

/// The endpoints. An endpoint that is out drops the question, which counts as an answer.
struct Phones;

impl Phones {
    fn ring(&self, endpoint: &str, caller: &str, reply: Reply<String>) {
        if !endpoint.ends_with("(out)") {
            let session = format!("{caller}-{endpoint}");
            thread::spawn(move || reply.send(session));
        }
    }
}

struct Bridges;

impl Bridges {
    fn join(&self, _: &str, _: &str, reply: Reply<u64>) {
        // The caller may have given up meanwhile.
        let _ = reply.send(7);
    }
}

#[tokio::main]
pub(crate) async fn main() -> Result<(), BoxError> {
    let locators = Locators(vec![
        ("+49", BTreeMap::from([("+4930123", "desk")])),
        (
            "+4930",
            BTreeMap::from([("+4930123", "mobile"), ("+4930999", "attic (out)")]),
        ),
        ("+33", BTreeMap::new()),
    ]);
    let builder = Runtime::builder().resource(locators);
    let runtime = builder.resource(Phones).resource(Bridges).build()?;
    // A replicator would send this to a standby: every transition, in order, with the state to continue.
    let _replicator = runtime.listen_to::<RouteCall>(|heard| {
        println!(
            "{} {} -> {}",
            heard.operation().callee,
            heard.from().unwrap_or("*"),
            heard.to().unwrap_or("failed")
        );
    });
    for (callee, found) in [("+4930123", true), ("+4930999", false), ("+1555", false)] {
        let call = RouteCall {
            caller: "ada".into(),
            callee: callee.into(),
        };
        let ended = runtime.submit(call).await?;
        assert_eq!(
            matches!(ended.end, RouteEnd::Established { bridge: 7 }),
            found
        );
    }
    // The operation manager's view: counts, times and failures.
    println!("{}", runtime.operations());
    println!("{}", RouteCall::GRAPH.drawing());
    Ok(())
}
