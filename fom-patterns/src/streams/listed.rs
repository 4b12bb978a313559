//! A stream among the parts of its runtime.

use std::sync::Arc;

use fom_runtime::{Operation, Runtime, extension::Listed, observe::PartInfo};

use crate::streams::{Common, StreamKey};

impl<O: Operation, K: StreamKey> Listed for Common<O, K> {
    fn parts(self: Arc<Self>, _: &Runtime) -> Vec<PartInfo> {
        let (mut in_flight, mut refused, mut full_keys) = (0, 0, 0);
        for inlet in &self.inlets {
            full_keys += inlet.full_keys().len();
            let state = inlet.lock();
            in_flight += state.in_flight();
            refused += state.refused.len();
        }
        let operation = O::GRAPH.operation();
        let info = PartInfo::new("stream", self.options.name.unwrap_or(operation))
            .queued(in_flight)
            .with("operation", operation)
            .with("localities", self.inlets.len())
            .with("bound", self.options.bound)
            .with("full_keys", full_keys)
            .with("refused", refused);
        vec![info]
    }
}
