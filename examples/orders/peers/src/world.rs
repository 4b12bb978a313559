//! What is around the orders, and the same for each peer: the shop, a payment provider that is busy now and then, and the
//! ledger in which both write down what they did. The ledger survives `kill -9`.

use std::{
    collections::HashSet,
    fs::{File, OpenOptions},
    io::Write,
    path::Path,
    sync::{Arc, Mutex, MutexGuard},
};

use fom_runtime::prelude::BoxError;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    pub reference: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum News {
    Paid,
    Declined,
    GivenUp,
}

/// The provider's answer to a charge. The provider repeats it until it is taken.
#[derive(Clone, Debug)]
pub struct Webhook {
    pub id: String,
    pub reference: String,
    pub news: News,
}

/// The shop and the provider. Each request has the reference of its order, and a repeated one changes nothing.
pub struct World {
    books: Mutex<Books>,
    webhooks: UnboundedSender<Webhook>,
    ended: UnboundedSender<String>,
}

struct Books {
    ledger: File,
    done: HashSet<(String, String)>,
    charges: u64,
    repeated: u64,
}

/// A world, and what it tells.
pub struct Opened {
    pub world: Arc<World>,
    pub webhooks: UnboundedReceiver<Webhook>,
    pub ended: UnboundedReceiver<String>,
}

impl World {
    /// Opens the world of a directory. The provider calls back again for each charge whose order has not ended.
    pub fn open(directory: &Path) -> Result<Opened, BoxError> {
        std::fs::create_dir_all(directory)?;
        let path = directory.join("ledger");
        let mut ledger = OpenOptions::new();
        let ledger = ledger.create(true).append(true).open(&path)?;
        let written = std::fs::read_to_string(&path)?;
        let entries = written.lines().filter_map(|line| line.split_once(' '));
        let done = entries.map(|(what, reference)| (what.to_owned(), reference.to_owned()));
        let (webhooks, to_send) = unbounded_channel();
        let (ended, to_count) = unbounded_channel();
        let world = Self {
            books: Mutex::new(Books {
                ledger,
                done: done.collect(),
                charges: 0,
                repeated: 0,
            }),
            webhooks,
            ended,
        };
        let open = world.open_orders();
        for reference in open {
            if world.books().has("charge", &reference) {
                world.call_back(&reference);
            }
        }
        Ok(Opened {
            world: Arc::new(world),
            webhooks: to_send,
            ended: to_count,
        })
    }

    pub fn reserve(&self, order: &Order) -> Result<(), BoxError> {
        self.books().note("reserve", &order.reference).map(drop)
    }

    /// Fails in one of five requests. The answer to a charge comes as a webhook.
    pub fn charge(&self, order: &Order) -> Result<(), BoxError> {
        let is_new = {
            let mut books = self.books();
            books.charges += 1;
            if books.charges.is_multiple_of(5) {
                return Err("the provider is busy".into());
            }
            books.note("charge", &order.reference)?
        };
        if is_new {
            self.call_back(&order.reference);
        }
        Ok(())
    }

    pub fn ship(&self, order: &Order) -> Result<(), BoxError> {
        self.end("ship", order)
    }

    pub fn refund(&self, order: &Order) -> Result<(), BoxError> {
        self.books().note("refund", &order.reference).map(drop)
    }

    pub fn release(&self, order: &Order) -> Result<(), BoxError> {
        self.end("release", order)
    }

    fn end(&self, how: &str, order: &Order) -> Result<(), BoxError> {
        if self.books().note(how, &order.reference)? {
            // The driver may have heard of the last one.
            let _ = self.ended.send(order.reference.clone());
        }
        Ok(())
    }

    fn call_back(&self, reference: &str) {
        let paid = is_paid(reference);
        let _ = self.webhooks.send(Webhook {
            id: format!("answer to {reference}"),
            reference: reference.to_owned(),
            news: if paid { News::Paid } else { News::Declined },
        });
    }

    /// Lists the orders that have begun and not ended.
    pub fn open_orders(&self) -> HashSet<String> {
        let books = self.books();
        let begun = books.done.iter().filter(|(what, _)| what == "reserve");
        let open = begun.filter(|(_, reference)| !books.has_ended(reference));
        open.map(|(_, reference)| reference.clone()).collect()
    }

    pub fn has_ended(&self, reference: &str) -> bool {
        self.books().has_ended(reference)
    }

    /// Compares the books: each order has one end, the right one. Returns how many requests were repeated.
    pub fn check(&self, references: impl Iterator<Item = String>) -> Result<u64, BoxError> {
        let books = self.books();
        for reference in references {
            let did = |what| books.has(what, &reference);
            let ends = (did("ship"), did("release"));
            let is_right = match is_paid(&reference) {
                // A charge that failed for good is refunded.
                true => ends == (true, false) || (ends == (false, true) && did("refund")),
                false => ends == (false, true),
            };
            if !is_right {
                return Err(format!("order {reference} ended wrongly").into());
            }
        }
        Ok(books.repeated)
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap()
    }
}

/// One customer in ten has no money.
fn is_paid(reference: &str) -> bool {
    !reference.ends_with('9')
}

impl Books {
    /// Writes down what was done for an order, unless it was done before.
    fn note(&mut self, what: &str, reference: &str) -> Result<bool, BoxError> {
        let is_new = self.done.insert((what.to_owned(), reference.to_owned()));
        match is_new {
            true => self
                .ledger
                .write_all(format!("{what} {reference}\n").as_bytes())?,
            false => self.repeated += 1,
        }
        Ok(is_new)
    }

    fn has(&self, what: &str, reference: &str) -> bool {
        self.done.contains(&(what.to_owned(), reference.to_owned()))
    }

    fn has_ended(&self, reference: &str) -> bool {
        self.has("ship", reference) || self.has("release", reference)
    }
}

/// What an order needs of a peer.
pub trait Peer: Clone + Send + Sync + 'static {
    /// Opens what is stored in the directory, and goes on with it.
    fn open(
        world: Arc<World>,
        directory: &Path,
    ) -> impl Future<Output = Result<Self, BoxError>> + Send;

    /// Takes an order in, once for each reference. It is stored when this returns.
    fn order(&self, order: Order) -> impl Future<Output = Result<(), BoxError>> + Send;

    /// Tells an order the news, once for each id. They are stored when this returns.
    fn news(&self, webhook: Webhook) -> impl Future<Output = Result<(), BoxError>> + Send;
}
