//! The machine as hwloc describes it.
//!
//! All use of the crate `hwloc2` is in this file, and only of what is sound in it: sets are cloned at once (the
//! ones it hands out die with the topology), objects are never displayed or named (both break memory), NUMA nodes
//! are read from the node sets (asking for the node objects panics), and threads are bound elsewhere.

use std::collections::BTreeMap;
use std::ffi::c_uint;

use hwloc2::{Bitmap, ObjectType, Topology, TopologyObject};

use super::{Cpu, Machine, Source};

// SAFETY: the signature is that of hwloc's header in every version. The crate hwloc2 links the library.
unsafe extern "C" {
    safe fn hwloc_get_api_version() -> c_uint;
}

/// What hwloc2 is written for. Version 3 numbers the object types anew, which hwloc2 would read as others.
const VERSIONS: std::ops::Range<c_uint> = 0x0002_0000..0x0003_0000;

/// More processors than this is nonsense.
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
            // Where no cache is known, what is on one node of one package counts as near.
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
    // Set for the machine that this process runs on, not for one from a file or a text.
    let bindable = topology.support().cpu().set_current_thread();
    (!cpus.is_empty()).then(|| Machine::assemble(cpus, Source::Hwloc, bindable))
}

fn objects(topology: &Topology, kind: ObjectType) -> Vec<&TopologyObject> {
    topology.objects_with_type(&kind).unwrap_or_default()
}

/// For each processor the number of the object of this kind that it is in.
fn places(
    topology: &Topology,
    kind: ObjectType,
    number: impl Fn(&TopologyObject) -> u32,
) -> BTreeMap<usize, usize> {
    let mut places = BTreeMap::new();
    for (at, object) in objects(topology, kind).into_iter().enumerate() {
        // An object may have no number; then its place in the list is as good.
        let number = Some(number(object))
            .filter(|&number| number < MOST)
            .map_or(at, |number| number as usize);
        for cpu in object.cpuset().iter().flat_map(members) {
            places.insert(cpu, number);
        }
    }
    places
}

/// The members of a set that belongs to the topology.
fn members(set: &Bitmap) -> Vec<usize> {
    let set = set.clone();
    // An infinite set has a negative weight, and no last member to stop at.
    if set.weight() < 0 {
        Vec::new()
    } else {
        set.into_iter().map(|member| member as usize).collect()
    }
}
