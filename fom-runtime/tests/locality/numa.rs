//! LO-18: the memory of a locality lies on the NUMA node of its processors, also for foms submitted from elsewhere.
//!
//! The topology is made up: processor 0 on node 0, and processor 1 on the next. So the test runs on machines with one
//! node, too. It asks the kernel for the policy of the memory that a fom lies in.

use fom_runtime::{Builder, Cx, prelude::*, topology::Machine};
use serde_json::json;

use crate::kit::task::limit;

/// Tells the memory policy of the place where it lies.
struct Look {
    found: Option<(libc::c_int, libc::c_ulong)>,
}

#[fom(operation(Look), transient)]
enum Looking {
    #[phase(start, sync, to(Seen))]
    Look,
    #[phase(end)]
    Seen,
}

impl LookingTransitions for Look {
    fn look(&mut self, _: &mut Cx<'_>) -> Result<(), BoxError> {
        self.found = policy(self);
        Ok(())
    }
}

/// Returns the mode and the nodes of the policy of this memory, or `None` if the kernel has no NUMA policies.
fn policy<T>(of: &T) -> Option<(libc::c_int, libc::c_ulong)> {
    /// The nodes that this test can tell apart, and the bits that the kernel asks for.
    const WORDS: usize = 16;
    /// `MPOL_F_ADDR` of the kernel: asks for the policy at an address.
    const F_ADDR: libc::c_int = 2;
    let (mut mode, mut nodes) = (0, [0; WORDS]);
    // SAFETY: the kernel writes the mode and at most the given number of bits, all in variables of this function.
    let result = unsafe {
        libc::syscall(
            libc::SYS_get_mempolicy,
            &raw mut mode,
            nodes.as_mut_ptr(),
            WORDS * libc::c_ulong::BITS as usize,
            std::ptr::from_ref(of),
            F_ADDR,
        )
    };
    (result == 0).then_some((mode, nodes[0]))
}

/// Whether this process may bind memory at all: some containers forbid it.
fn may_bind() -> bool {
    // SAFETY: the call binds no memory, because the length is zero.
    let result = unsafe {
        let mask: libc::c_ulong = 1;
        let start = std::ptr::null::<u8>();
        let (mode, bits, flags) = (libc::MPOL_PREFERRED, 65, 0);
        libc::syscall(
            libc::SYS_mbind,
            start,
            0,
            mode,
            &raw const mask,
            bits,
            flags,
        )
    };
    result == 0
}

/// A machine whose processors 0 and 1 are on these nodes. Threads are bound.
fn machine(nodes: [usize; 2]) -> Machine {
    let cpu =
        |id: usize| json!({"id": id, "core": id, "package": 0, "cache": id, "node": nodes[id]});
    let parts =
        json!({"cpus": [cpu(0), cpu(1)], "source": "Synthetic", "quota": null, "bindable": true});
    serde_json::from_value(parts).unwrap()
}

/// Returns the policy of the memory of a fom in this locality, submitted from this thread.
async fn found(builder: Builder, locality: usize) -> Option<(libc::c_int, libc::c_ulong)> {
    let runtime = builder.localities(2).build().unwrap();
    let look = runtime
        .submit(Look { found: None })
        .place(Placement::Locality(locality));
    look.await.unwrap().operation.found
}

#[tokio::test]
async fn lo_18_foms_lie_on_the_node_of_their_locality() {
    let _limit = limit();
    if !may_bind() {
        eprintln!("skipped: the kernel, or this container, binds no memory");
        return;
    }
    let default = Some((libc::MPOL_DEFAULT, 0));
    let builder = |nodes| Runtime::builder().machine(machine(nodes));
    assert_eq!(
        found(builder([0, 9000]), 0).await,
        Some((libc::MPOL_PREFERRED, 1))
    );
    // A node that the machine lacks: the fom runs, in memory that is not bound.
    assert_eq!(found(builder([0, 9000]), 1).await, default);
    // Nothing is bound where there is one node, or where the program binds no threads.
    assert_eq!(found(builder([0, 0]), 0).await, default);
    assert_eq!(found(builder([0, 9000]).pin(false), 0).await, default);
}
