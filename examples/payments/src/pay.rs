//! A payment: an operation that waits for the bank, and not for long.

use fom_runtime::prelude::*;
use hyper::StatusCode;

use crate::{
    bank::{Bank, Question},
    http::{self, Answer, Verdict},
};

/// A request to pay.
#[derive(Debug)]
pub(crate) struct Pay {
    pub(crate) cents: u64,
    pub(crate) bank: Bank,
}

#[fom(operation(Pay), event(Verdict), transient)]
#[derive(Debug)]
pub(crate) enum Paying {
    #[phase(start, sync, to(AwaitBank, BankGone))]
    AskBank,
    /// The bank says what it thinks of the payment, or nothing in time.
    #[phase(
        sync,
        on(Agreed, Declined),
        to(Paid, Declined, BankSilent),
        within(http::BANK_LIMIT),
        late
    )]
    AwaitBank,
    #[phase(end)]
    Paid { cents: u64 },
    #[phase(end, failure)]
    Declined,
    #[phase(end, failure)]
    BankSilent,
    #[phase(end, failure)]
    BankGone,
}

impl PayingTransitions for Pay {
    fn ask_bank(&mut self, cx: &mut Cx<'_, Verdict>) -> Result<PayingAfterAskBank, BoxError> {
        let question = Question::Asked {
            cents: self.cents,
            payment: cx.address(),
        };
        Ok(match self.bank.send(question) {
            Ok(()) => PayingAfterAskBank::AwaitBank,
            Err(_) => PayingAfterAskBank::BankGone,
        })
    }

    fn await_bank(
        &mut self,
        _: &mut Cx<'_, Verdict>,
        verdict: Verdict,
    ) -> Result<PayingAfterAwaitBank, BoxError> {
        Ok(match verdict {
            Verdict::Agreed => PayingAfterAwaitBank::Paid {
                cents: http::with_fee(self.cents),
            },
            Verdict::Declined => PayingAfterAwaitBank::Declined,
        })
    }

    fn await_bank_late(
        &mut self,
        _: &mut Cx<'_, Verdict>,
    ) -> Result<PayingAfterAwaitBank, BoxError> {
        Ok(PayingAfterAwaitBank::BankSilent)
    }
}

/// Pays, and returns the answer to the client.
pub(crate) async fn pay(runtime: &Runtime, cents: u64, bank: Bank) -> Answer {
    // Runs in place until it waits for the bank.
    let paid = match runtime.submit(Pay { cents, bank }).now() {
        Ok(payment) => payment.await,
        Err(_) => return http::plain(StatusCode::SERVICE_UNAVAILABLE),
    };
    match paid.map(|paid| paid.end) {
        Ok(PayingEnd::Paid { cents }) => http::sum(cents),
        Ok(PayingEnd::Declined) => http::plain(StatusCode::PAYMENT_REQUIRED),
        Ok(PayingEnd::BankSilent) => http::plain(StatusCode::GATEWAY_TIMEOUT),
        Ok(PayingEnd::BankGone) | Err(_) => http::plain(StatusCode::SERVICE_UNAVAILABLE),
    }
}
