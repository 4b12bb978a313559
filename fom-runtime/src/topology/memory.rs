//! Memory of a locality on the NUMA node of its processors, as in Motr's memory partitions. On a machine with one node
//! nothing here is called.

use std::{io, ptr::NonNull};

/// The start of bound memory must be a multiple of this number of bytes, which no system page exceeds.
pub(crate) const BOUND_ALIGN: usize = 64 << 10;

/// Asks the kernel to take the physical pages of this memory from the node, if the node has any left. Pages that were
/// touched before stay where they are. The memory must start at a multiple of [`BOUND_ALIGN`]. A rest at its end that
/// is shorter than that is not bound.
///
/// # Errors
///
/// Returns the error of the operating system: the node does not exist, or the process may not bind memory. On systems
/// other than Linux it is always [`io::ErrorKind::Unsupported`].
pub(crate) fn bind_memory(memory: NonNull<u8>, size: usize, node: usize) -> io::Result<()> {
    sys::bind(memory, size, Some(node))
}

/// Undoes [`bind_memory`], for the next user of memory that an allocator keeps.
pub(crate) fn unbind_memory(memory: NonNull<u8>, size: usize) {
    // The kernel forgets the binding of memory that it gets back, so an error changes nothing.
    let _ = sys::bind(memory, size, None);
}

#[cfg(target_os = "linux")]
mod sys {
    use std::{io, ptr::NonNull};

    use super::BOUND_ALIGN;

    type Word = libc::c_ulong;

    const BITS: usize = Word::BITS as usize;

    pub(super) fn bind(memory: NonNull<u8>, size: usize, node: Option<usize>) -> io::Result<()> {
        let mut mask: Vec<Word> = Vec::new();
        if let Some(node) = node {
            mask.resize(node / BITS, 0);
            mask.push(1 << (node % BITS));
        }
        let mode = match node {
            Some(_) => libc::MPOL_PREFERRED,
            None => libc::MPOL_DEFAULT,
        };
        let whole = size / BOUND_ALIGN * BOUND_ALIGN;
        // The kernel reads one bit less than it is told.
        let bits = mask.len() * BITS + 1;
        // SAFETY: the call changes where pages come from, and never the contents of memory. The kernel checks the
        // address, and reads the given number of bits, which are the mask's own.
        let result = unsafe {
            libc::syscall(
                libc::SYS_mbind,
                memory.as_ptr(),
                whole,
                mode,
                mask.as_ptr(),
                bits,
                0,
            )
        };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod sys {
    use std::{io, ptr::NonNull};

    pub(super) fn bind(_: NonNull<u8>, _: usize, _: Option<usize>) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
