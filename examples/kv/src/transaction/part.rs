//! One command of a transaction.

use bytes::Bytes;

use crate::command::{Kind, Spec};
use crate::places::Places;
use crate::shard::{Shard, lists};
use crate::wire::{Reply, Request};

/// One command of a transaction.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) spec: &'static Spec,
    pub(crate) request: Request,
    /// The reply, if the command is about the client.
    pub(crate) ready: Option<Reply>,
}

/// A watched key, and its version at that time.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    pub(crate) key: Bytes,
    pub(crate) home: usize,
    pub(crate) version: u64,
}

impl Part {
    /// Returns about how many bytes the part takes.
    pub(crate) fn size(&self) -> usize {
        let ready = self.ready.as_ref().map_or(0, Reply::size);
        size_of::<Part>() + self.request.size() + ready
    }

    /// Returns its keys.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.spec
            .keys(&self.request)
            .map(|at| self.request.word(at))
    }

    /// Returns whether the part is about all keys.
    pub(crate) fn is_about_all(&self) -> bool {
        matches!(self.spec.kind, Kind::All(..))
    }

    /// Runs the part where all its keys are.
    pub(crate) fn run(&self, shard: &mut Shard) -> Reply {
        shard.commands += 1;
        if let Some(ready) = &self.ready {
            return ready.clone();
        }
        let request = &self.request;
        match self.spec.kind {
            Kind::Key(run) => run(shard, request, 1).unwrap_or_else(|error| error),
            Kind::Keys(run, _, together) => {
                let keys = self.spec.keys(request);
                together.put(
                    keys.map(|at| run(shard, request, at).unwrap_or_else(|error| error))
                        .collect(),
                )
            }
            Kind::All(run, together) => together.put(vec![run(shard, request)]),
            // A pop inside a transaction does not wait.
            Kind::Pop(side) => {
                for key in self.keys() {
                    match lists::pop_now(shard, key, side) {
                        Ok(None) => {}
                        Ok(Some(reply)) | Err(reply) => return reply,
                    }
                }
                Reply::NullArray
            }
            Kind::OfClient(_) | Kind::Script(_) => Reply::Null,
        }
    }

    /// Returns the homes of its keys, each with the places of its keys in the request.
    pub(crate) fn homes(&self, places: &Places) -> Vec<(usize, Vec<usize>)> {
        let mut homes: Vec<(usize, Vec<usize>)> = Vec::new();
        for at in self.spec.keys(&self.request) {
            let home = places.home(self.request.word(at));
            match homes.iter_mut().find(|(other, _)| *other == home) {
                Some((_, keys)) => keys.push(at),
                None => homes.push((home, vec![at])),
            }
        }
        homes
    }
}
