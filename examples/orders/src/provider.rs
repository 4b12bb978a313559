//! What the service knows of its payment provider: two requests over HTTP.

use std::time::Duration;

use fom_runtime::{context::StepKey, prelude::BoxError};
use reqwest::Client;
use serde::{Deserialize, Serialize};

/// The provider's address, and the connections to it.
#[derive(Clone, Debug)]
pub struct Provider {
    url: String,
    client: Client,
}

/// A request to charge a customer. The provider answers later, at `webhook`.
#[derive(Debug, Serialize, Deserialize)]
pub struct Charge {
    /// The shop's name for the order.
    pub reference: String,
    /// The amount.
    pub cents: u32,
    /// Where the provider sends its answer.
    pub webhook: String,
}

/// The provider's answer to a charge. It may come twice.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Webhook {
    /// The same in each repetition.
    pub id: String,
    /// The shop's name for the order.
    pub reference: String,
    /// Whether the customer has paid.
    pub paid: bool,
}

impl Provider {
    /// A provider at this address.
    pub fn new(url: impl Into<String>) -> Result<Self, BoxError> {
        let client = Client::builder().timeout(Duration::from_secs(2)).build()?;
        let url = url.into();
        Ok(Self { url, client })
    }

    /// Asks for a charge. The provider knows the step key: a repeated request charges no customer twice.
    pub async fn charge(&self, step: StepKey, charge: &Charge) -> Result<(), BoxError> {
        self.post("charges", &step.to_string(), charge).await
    }

    /// Gives back what was charged for an order, if anything was. The provider does this once for an order, and refuses
    /// a charge that arrives later.
    pub async fn refund(&self, reference: &str) -> Result<(), BoxError> {
        self.post("refunds", reference, &reference).await
    }

    async fn post(
        &self,
        path: &str,
        key: &str,
        body: &(impl Serialize + ?Sized),
    ) -> Result<(), BoxError> {
        let request = self.client.post(format!("{}/{path}", self.url));
        let answer = request.header("idempotency-key", key).json(body).send();
        answer.await?.error_for_status()?;
        Ok(())
    }
}
