//! A quote: an operation that never waits.

use fom_runtime::prelude::*;
use hyper::StatusCode;

use crate::http::{self, Answer};

/// A request for a sum with its fee.
#[derive(Debug)]
struct Quote {
    cents: u64,
}

#[fom(operation(Quote), transient)]
#[derive(Debug)]
enum Quoting {
    #[phase(start, sync, to(Quoted))]
    Compute,
    #[phase(end)]
    Quoted { cents: u64 },
}

impl QuotingTransitions for Quote {
    fn compute(&mut self, _: &mut Cx<'_>) -> Result<QuotingAfterCompute, BoxError> {
        let cents = http::with_fee(self.cents);
        Ok(QuotingAfterCompute::Quoted { cents })
    }
}

/// Returns the answer to a client that wants a quote.
pub(crate) async fn quote(runtime: &Runtime, cents: u64) -> Answer {
    let quoted = match runtime.submit(Quote { cents }).now() {
        Ok(quote) => quote.await,
        Err(_) => return http::plain(StatusCode::SERVICE_UNAVAILABLE),
    };
    match quoted.map(|quoted| quoted.end) {
        Ok(QuotingEnd::Quoted { cents }) => http::sum(cents),
        Err(_) => http::plain(StatusCode::SERVICE_UNAVAILABLE),
    }
}
