//! The machine as described by hwloc.
//!
//! Only this file uses the crate `hwloc2`, and only the sound parts of it:
//!
//! - Sets are cloned at once, because the sets that `hwloc2` hands out die with the topology.
//! - Objects are never displayed or named, because both break memory.
//! - NUMA nodes are read from the node sets, because the functions for node objects panic.
//! - Threads are bound elsewhere.

use std::collections::BTreeMap;
use std::ffi::c_uint;

use hwloc2::{Bitmap, ObjectType, Topology, TopologyObject};

use super::{Cpu, Machine, Source};

// SAFETY: the signature is that of hwloc's header in every version. The crate `hwloc2` links the library.
unsafe extern "C" {
    safe fn hwloc_get_api_version() -> c_uint;
}

/// The API versions that `hwloc2` supports. Version 3 renumbers the object types, so `hwloc2` would misread them.
const VERSIONS: std::ops::Range<c_uint> = 0x0002_0000..0x0003_0000;

/// Larger processor numbers make no sense.
const MOST: u32 = 1 << 16;

pub(super) fn machine() -> Option<Machine> {
    if !VERSIONS.contains(&hwloc_get_api_version()) {
        return None;
    }
    let topology = Topology::new()?;
    let packages = places(&topology, ObjectType::Package, TopologyObject::os_index);
    let cores = places(&topology, ObjectType::Core, TopologyObject::logical_index);
    let levels = [
        ObjectType::L5Cache,
        ObjectType::L4Cache,
        ObjectType::L3Cache,
        ObjectType::L2Cache,
        ObjectType::L1Cache,
    ]
    .map(|level| places(&topology, level, TopologyObject::logical_index));

    let mut caches = Vec::new();
    let cpus: Vec<Cpu> = objects(&topology, ObjectType::PU)
        .into_iter()
        .filter(|pu| pu.os_index() < MOST)
        .map(|pu| {
            let id = pu.os_index() as usize;
            let package = packages.get(&id).copied().unwrap_or(0);
            let node = pu
                .nodeset()
                .and_then(|nodes| members(&nodes).into_iter().next())
                .unwrap_or(0);
            // If no cache is known, the processors of one node and one package count as near.
            let cache = levels
                .iter()
                .enumerate()
                .find_map(|(level, places)| Some((level, *places.get(&id)?, 0)))
                .unwrap_or((levels.len(), package, node));
            let cache = caches
                .iter()
                .position(|known| *known == cache)
                .unwrap_or_else(|| {
                    caches.push(cache);
                    caches.len() - 1
                });
            Cpu {
                id,
                core: cores.get(&id).map_or(MOST as usize + id, |core| *core),
                package,
                cache,
                node,
            }
        })
        .collect();
    // True for the machine that this process runs on, but not for one from a file or a text.
    let bindable = topology.support().cpu().set_current_thread();
    (!cpus.is_empty()).then(|| Machine::assemble(cpus, Source::Hwloc, bindable))
}

fn objects(topology: &Topology, kind: ObjectType) -> Vec<&TopologyObject> {
    topology.objects_with_type(&kind).unwrap_or_default()
}

/// Returns, for each processor, the number of the object of this kind that contains it.
fn places(
    topology: &Topology,
    kind: ObjectType,
    number: impl Fn(&TopologyObject) -> u32,
) -> BTreeMap<usize, usize> {
    let mut places = BTreeMap::new();
    for (at, object) in objects(topology, kind).into_iter().enumerate() {
        // If an object has no number, its place in the list is as good.
        let number = Some(number(object))
            .filter(|&number| number < MOST)
            .map_or(at, |number| number as usize);
        for cpu in object.cpuset().iter().flat_map(members) {
            places.insert(cpu, number);
        }
    }
    places
}

/// Returns the members of a set that belongs to the topology.
fn members(set: &Bitmap) -> Vec<usize> {
    let set = set.clone();
    // An infinite set has a negative weight, and no last member to stop at.
    if set.weight() < 0 {
        Vec::new()
    } else {
        set.into_iter().map(|member| member as usize).collect()
    }
}
