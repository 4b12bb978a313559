//! Calls go to the owner of a key.

use std::sync::Arc;

use fom_cluster::{Cluster, ClusterError};
use fom_patterns::active::{Carrier, Carrying, NotCarried};
use fom_runtime::Key;

/// Carries the calls of one object.
pub(crate) struct ToKey {
    pub(crate) cluster: Cluster,
    /// The type of the object.
    pub(crate) object: &'static str,
    pub(crate) key: Key,
}

impl Carrier for ToKey {
    fn carry(&self, call: Vec<u8>) -> Carrying {
        let (cluster, object, key) = (self.cluster.clone(), self.object, self.key.clone());
        Box::pin(async move {
            let answered = cluster.call(object, key, call).await;
            answered.map_err(|error| match error {
                ClusterError::Busy => NotCarried::Full,
                error => NotCarried::Failed(Arc::new(error)),
            })
        })
    }
}
