//! The structure of a machine, its division, and threads that stay where they are bound.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use fom_runtime::topology::{
    Cpu, LocalityPlan, Machine, PlanOptions, Source, allowed_cpus, bind_current_thread, plan,
};

use crate::kit::alone::{again, assert_passed};

fn planned(machine: &Machine, localities: usize) -> Vec<LocalityPlan> {
    plan(machine, &PlanOptions::default().localities(localities))
}

fn cpus(plans: &[LocalityPlan]) -> Vec<Vec<usize>> {
    plans.iter().map(|plan| plan.cpus.clone()).collect()
}

// ---- planning

#[test]
fn two_plain_cores() {
    let machine = Machine::synthetic(1, 1, 2, 1);
    assert_eq!(cpus(&plan(&machine, &PlanOptions::default())), [[0], [1]]);
    assert_eq!(cpus(&planned(&machine, 1)), [[0, 1]]);
    assert_eq!(cpus(&planned(&machine, 0)), [[0, 1]], "none is one");
}

#[test]
fn the_threads_of_a_core_are_one_locality() {
    let machine = Machine::synthetic(1, 1, 2, 2);
    assert_eq!(
        cpus(&plan(&machine, &PlanOptions::default())),
        [[0, 2], [1, 3]]
    );
}

#[test]
fn two_packages_of_four_caches() {
    let machine = Machine::synthetic(2, 4, 8, 2);
    assert_eq!(
        machine.to_string(),
        "packages: 2, nodes: 2, last-level caches: 8, cores: 64, cpus: 128 (from synthetic)"
    );
    let each = plan(&machine, &PlanOptions::default());
    assert_eq!(each.len(), 64);
    assert!(each.iter().all(|plan| plan.cpus.len() == 2 && !plan.shared));

    let by_cache = planned(&machine, 8);
    assert!(by_cache.iter().all(|plan| plan.cpus.len() == 16));
    let caches: Vec<_> = by_cache.iter().map(|plan| plan.cache).collect();
    assert_eq!(caches, (0..8).map(Some).collect::<Vec<_>>());

    let by_node = planned(&machine, 2);
    assert_eq!(by_node[0].node, Some(0));
    assert_eq!(by_node[0].package, Some(0));
    assert_eq!(by_node[0].cache, None);
    assert_eq!(by_node[1].node, Some(1));
    assert_eq!(by_node[1].cpus.len(), 64);

    let one = planned(&machine, 1);
    assert_eq!(
        (one[0].node, one[0].package, one[0].cache),
        (None, None, None)
    );
    assert_eq!(one[0].cpus, (0..128).collect::<Vec<_>>());
}

#[test]
fn chiplets_share_a_node_and_not_a_cache() {
    let machine = Machine::from_cpus((0..24).map(|id| {
        let mut cpu = Cpu::new(id);
        cpu.cache = id / 6;
        cpu
    }));
    let three = planned(&machine, 3);
    assert_eq!(three.len(), 3);
    assert!(three.iter().all(|plan| plan.node == Some(0)));
    let five = planned(&machine, 5);
    assert!(five.iter().all(|plan| plan.cache.is_some()));
    let sizes: Vec<_> = five.iter().map(|plan| plan.cpus.len()).collect();
    assert_eq!(sizes, [3, 3, 6, 6, 6], "only one cache can be halved");
}

#[test]
fn nodes_without_known_caches() {
    let machine = Machine::from_cpus((0..16).map(|id| {
        let mut cpu = Cpu::new(id);
        cpu.node = id / 4;
        cpu
    }));
    assert_eq!(machine.caches(), 1, "one cache number on four nodes");
    for localities in 4..16 {
        for plan in planned(&machine, localities) {
            assert!(plan.node.is_some(), "{localities}: {plan:?}");
        }
    }
    let two = planned(&machine, 2);
    assert_eq!(two[0].cpus, (0..8).collect::<Vec<_>>());
}

#[test]
fn a_small_node_gets_its_own_locality() {
    // A node with one large cache and a node with four small ones: by size alone the large cache would get all
    // localities.
    let machine = Machine::from_cpus((0..36).map(|id| {
        let mut cpu = Cpu::new(id);
        (cpu.node, cpu.cache) = if id < 32 { (0, 0) } else { (1, id) };
        cpu
    }));
    for localities in 2..36 {
        let plans = planned(&machine, localities);
        assert!(plans.iter().all(|plan| plan.node.is_some()), "{localities}");
        assert_eq!(plans.len(), localities);
    }
    assert!(planned(&machine, 5).iter().all(|plan| plan.cache.is_some()));
}

#[test]
fn more_localities_than_cores_share_them_and_say_so() {
    let machine = Machine::synthetic(1, 1, 2, 2);
    let plans = planned(&machine, 3);
    assert_eq!(cpus(&plans), [[0, 2], [1, 3], [0, 2]]);
    assert_eq!(
        plans.iter().map(|plan| plan.shared).collect::<Vec<_>>(),
        [true, false, true]
    );
    assert!(planned(&machine, 7).iter().all(|plan| plan.shared));
    assert!(planned(&machine, 2).iter().all(|plan| !plan.shared));
}

#[test]
fn only_allowed_processors_are_given_out() {
    let machine = Machine::synthetic(2, 2, 4, 2).restricted_to(&[0, 1, 2, 17, 12, 99]);
    // 17 is the second thread of core 1; of core 12 only the first thread may be used.
    assert_eq!(
        cpus(&plan(&machine, &PlanOptions::default())),
        [vec![0], vec![1, 17], vec![2], vec![12]]
    );
    assert_eq!(cpus(&planned(&machine, 2)), [vec![0, 1, 2, 17], vec![12]]);
    assert!(plan(&machine.restricted_to(&[]), &PlanOptions::default()).is_empty());
    assert!(planned(&machine.restricted_to(&[]), 3).is_empty());
}

/// A generator with the same numbers in each run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) as usize % bound
    }
}

#[test]
fn any_machine_is_divided_as_promised() {
    let mut machines = Vec::new();
    for packages in 1..=3 {
        for caches in 1..=4 {
            for cores in 1..=5 {
                for threads in 1..=2 {
                    machines.push(Machine::synthetic(packages, caches, cores, threads));
                }
            }
        }
    }
    let mut dice = Dice(7);
    for _ in 0..300 {
        // Cores of one to four threads, groups that do not nest, ids with gaps.
        let cores = 1 + dice.below(20);
        let mut cpus = Vec::new();
        for core in 0..cores {
            let (package, cache, node) = (dice.below(3), dice.below(5), dice.below(3));
            for _ in 0..=dice.below(4) {
                let mut cpu = Cpu::new(dice.below(200));
                (cpu.core, cpu.package, cpu.cache, cpu.node) = (core, package, cache, node);
                cpus.push(cpu);
            }
        }
        let machine = Machine::from_cpus(cpus);
        let all = machine.cpus().iter().map(|cpu| cpu.id);
        let some: Vec<_> = all.filter(|_| dice.below(3) > 0).collect();
        machines.push(machine.restricted_to(&some));
        machines.push(machine);
    }
    for machine in &machines {
        for localities in 1..=machine.cores() + 2 {
            promises(machine, &planned(machine, localities), localities);
        }
        promises(
            machine,
            &plan(machine, &PlanOptions::default()),
            machine.cores(),
        );
    }
}

fn promises(machine: &Machine, plans: &[LocalityPlan], wanted: usize) {
    if machine.cpus().is_empty() {
        assert!(plans.is_empty());
        return;
    }
    let told = format!("{machine:?}\n{plans:?}");
    assert_eq!(plans.len(), wanted, "{told}");
    let cpu: BTreeMap<usize, &Cpu> = machine.cpus().iter().map(|cpu| (cpu.id, cpu)).collect();
    for (index, plan) in plans.iter().enumerate() {
        assert_eq!(plan.index, index, "{told}");
        assert!(!plan.cpus.is_empty(), "{told}");
        let all = |key: fn(&Cpu) -> usize| {
            plan.cpus
                .iter()
                .map(|id| key(cpu[id]))
                .collect::<BTreeSet<_>>()
        };
        for (says, of) in [
            (plan.node, all(|cpu| cpu.node)),
            (plan.cache, all(|cpu| cpu.cache)),
            (plan.package, all(|cpu| cpu.package)),
        ] {
            assert_eq!(
                says,
                of.first().copied().filter(|_| of.len() == 1),
                "{told}"
            );
        }
        let others = plans.iter().filter(|other| other.index != index);
        let shared = others
            .flat_map(|other| &other.cpus)
            .any(|id| plan.cpus.contains(id));
        assert_eq!(plan.shared, shared, "{told}");
    }
    let cores_of = |plan: &LocalityPlan| {
        plan.cpus
            .iter()
            .map(|id| cpu[id].core)
            .collect::<BTreeSet<_>>()
            .len()
    };
    let given: BTreeSet<usize> = plans
        .iter()
        .flat_map(|plan| plan.cpus.iter().copied())
        .collect();
    assert_eq!(
        given,
        cpu.keys().copied().collect(),
        "all are given out: {told}"
    );
    if wanted > machine.cores() {
        return;
    }
    let total: usize = plans.iter().map(|plan| plan.cpus.len()).sum();
    assert_eq!(total, given.len(), "none is given out twice: {told}");
    let cores: usize = plans.iter().map(cores_of).sum();
    assert_eq!(
        cores,
        machine.cores(),
        "the threads of a core stay together: {told}"
    );

    let mut groups: BTreeMap<(usize, usize), BTreeSet<usize>> = BTreeMap::new();
    for cpu in machine.cpus() {
        groups
            .entry((cpu.node, cpu.cache))
            .or_default()
            .insert(cpu.core);
    }
    if wanted >= machine.nodes() {
        assert!(plans.iter().all(|plan| plan.node.is_some()), "{told}");
    }
    if wanted >= groups.len() {
        assert!(plans.iter().all(|plan| plan.cache.is_some()), "{told}");
        // The largest locality is no larger than necessary, and the localities of one cache have equal sizes.
        let largest = plans.iter().map(cores_of).max().unwrap();
        let needed = (1..)
            .find(|&size| {
                groups
                    .values()
                    .map(|cores| cores.len().div_ceil(size))
                    .sum::<usize>()
                    <= wanted
            })
            .unwrap();
        assert_eq!(largest, needed, "{told}");
        for &(node, cache) in groups.keys() {
            let here = plans
                .iter()
                .filter(|plan| (plan.node, plan.cache) == (Some(node), Some(cache)));
            let sizes: BTreeSet<_> = here.map(cores_of).collect();
            assert!(
                sizes.last().unwrap() - sizes.first().unwrap() <= 1,
                "{told}"
            );
        }
    }
}

// ---- reading /sys

/// A made-up tree of the kernel's files.
struct Tree(PathBuf);

impl Tree {
    fn new(name: &str) -> Self {
        let root = std::env::temp_dir().join(format!("fom-topology-{}-{name}", std::process::id()));
        fs::create_dir_all(&root).unwrap();
        Self(root)
    }

    fn file(&self, path: &str, text: impl AsRef<[u8]>) -> &Self {
        let path = self.0.join("devices/system").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    fn cpu(&self, id: usize, package: usize, siblings: &str, level3: &str) -> &Self {
        let cpu = format!("cpu/cpu{id}");
        self.file(
            &format!("{cpu}/topology/physical_package_id"),
            format!("{package}\n"),
        )
        .file(
            &format!("{cpu}/topology/core_cpus_list"),
            format!("{siblings}\n"),
        );
        for (index, level, kind, shared) in [
            (0, 1, "Data", siblings),
            (1, 1, "Instruction", siblings),
            (2, 2, "Unified", siblings),
            (3, 3, "Unified", level3),
        ] {
            let cache = format!("{cpu}/cache/index{index}");
            self.file(&format!("{cache}/level"), format!("{level}\n"))
                .file(&format!("{cache}/type"), format!("{kind}\n"))
                .file(&format!("{cache}/shared_cpu_list"), format!("{shared}\n"));
        }
        self
    }

    fn machine(&self) -> Machine {
        Machine::from_sysfs(&self.0).unwrap()
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_tree_of_files_is_read() {
    let tree = Tree::new("whole");
    tree.file("cpu/online", "0-7\n")
        .file("node/node0/cpulist", "0-1,4-5\n")
        .file("node/node1/cpulist", "2-3,6-7\n")
        .file("node/node2/cpulist", "\n")
        .file("node/possible", "0-2\n");
    for id in 0..8 {
        let core = id % 4;
        let near = if core < 2 { "0-1,4-5" } else { "2-3,6-7" };
        tree.cpu(id, core / 2, &format!("{core},{}", core + 4), near);
    }
    let machine = tree.machine();
    assert_eq!(machine.source(), Source::Sysfs);
    assert_eq!(machine.cpus(), Machine::synthetic(2, 1, 2, 2).cpus());
}

#[test]
fn a_bare_tree_is_a_flat_machine() {
    let tree = Tree::new("bare");
    tree.file("cpu/online", "0,2-3\n");
    assert_eq!(
        tree.machine().cpus(),
        [Cpu::new(0), Cpu::new(2), Cpu::new(3)]
    );
}

#[test]
fn older_kernels_name_the_siblings_otherwise() {
    let tree = Tree::new("older");
    tree.file("cpu/online", "0-1\n")
        .file("cpu/cpu0/topology/thread_siblings_list", "0-1\n")
        .file("cpu/cpu1/topology/thread_siblings_list", "0-1\n");
    assert_eq!(tree.machine().cores(), 1);
}

#[test]
fn without_caches_a_node_is_a_group() {
    let tree = Tree::new("nocache");
    tree.file("cpu/online", "0-3\n")
        .file("node/node0/cpulist", "0-1\n")
        .file("node/node4/cpulist", "2-3\n");
    let machine = tree.machine();
    assert_eq!((machine.nodes(), machine.caches()), (2, 2));
    assert_eq!(machine.cpus()[3].node, 4);
}

#[test]
fn nonsense_in_any_file_only_loses_a_grouping() {
    let nonsense: [&[u8]; 8] = [
        b"",
        b"\n",
        b"-1",
        b"99999999999999999999999",
        b"0-4294967295",
        b"7-3",
        b"\xff\xfe\0",
        b"0,0,0,,,1-",
    ];
    let files = [
        "cpu/online",
        "cpu/cpu0/topology/physical_package_id",
        "cpu/cpu0/topology/core_cpus_list",
        "cpu/cpu0/cache/index3/level",
        "cpu/cpu0/cache/index3/type",
        "cpu/cpu0/cache/index3/shared_cpu_list",
        "node/node0/cpulist",
        "node/nodeX/cpulist",
        "node/node99999999999999999999/cpulist",
    ];
    for (at, file) in files.iter().enumerate() {
        for (which, text) in nonsense.iter().enumerate() {
            let tree = Tree::new(&format!("nonsense-{at}-{which}"));
            tree.file("cpu/online", "0-1\n")
                .file("node/node0/cpulist", "0-1\n");
            tree.cpu(0, 0, "0", "0-1").cpu(1, 0, "1", "0-1");
            tree.file(file, text);
            match Machine::from_sysfs(&tree.0) {
                Ok(machine) => {
                    assert_eq!(machine.cpus().len(), 2, "{file}: {text:?}");
                    promises(&machine, &planned(&machine, 2), 2);
                }
                Err(error) => assert_eq!(*file, "cpu/online", "{error}"),
            }
        }
    }
    // Directories where files should be, and no tree at all.
    let tree = Tree::new("directories");
    tree.file("cpu/online", "0\n")
        .file("cpu/cpu0/cache/index0/level/x", "");
    assert_eq!(tree.machine().cpus(), [Cpu::new(0)]);
    assert!(Machine::from_sysfs(Path::new("/nowhere")).is_err());
}

// ---- this machine

#[test]
fn this_machine_has_what_the_process_may_use() {
    let machine = Machine::detect();
    let ids: Vec<_> = machine.cpus().iter().map(|cpu| cpu.id).collect();
    if cfg!(target_os = "linux") {
        assert_eq!(ids, allowed_cpus().unwrap());
        assert!(machine.is_bindable());
    }
    assert!(!ids.is_empty());
    let localities = machine
        .quota()
        .map_or(machine.cores(), |quota| quota.min(machine.cores()));
    promises(
        &machine,
        &plan(&machine, &PlanOptions::default()),
        localities,
    );
}

#[cfg(target_os = "linux")]
mod linux {
    use super::*;

    fn own_cpus() -> Vec<usize> {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        let list = status
            .lines()
            .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
            .unwrap();
        let parts = list
            .trim()
            .split(',')
            .map(|part| part.split_once('-').unwrap_or((part, part)));
        parts
            .flat_map(|(first, last)| first.parse().unwrap()..=last.parse().unwrap())
            .collect()
    }

    #[test]
    fn a_bound_thread_stays_and_the_process_is_not_confined() {
        let before = allowed_cpus().unwrap();
        for &cpu in &before {
            let bound = std::thread::spawn(move || {
                bind_current_thread(&[cpu]).unwrap();
                (own_cpus(), Machine::detect())
            });
            assert_eq!(bound.join().unwrap(), (vec![cpu], Machine::detect()));
        }
        assert_eq!(allowed_cpus().unwrap(), before);
    }

    #[test]
    fn what_can_not_be_bound_is_an_error() {
        for cpus in [&[][..], &[usize::MAX], &[65_535]] {
            assert!(bind_current_thread(cpus).is_err(), "{cpus:?}");
        }
        assert_eq!(own_cpus(), allowed_cpus().unwrap());
    }

    /// A process inherits the processors of the thread that starts it, just as under `taskset`.
    #[test]
    fn a_confined_process_sees_only_its_processors() {
        let last = *allowed_cpus().unwrap().last().unwrap();
        let report = std::thread::spawn(move || {
            bind_current_thread(&[last]).unwrap();
            child(&[])
        });
        let report = report.join().unwrap();
        assert!(
            report.contains(&format!("locality 0: cpus [{last}]")),
            "{report}"
        );
        assert!(!report.contains("locality 1"), "{report}");
    }
}

/// Runs the test below alone in its own process.
fn child(variables: &[(&str, &str)]) -> String {
    let output = again("topology::the_plan_covers_the_machine_that_is_found")
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    assert_passed(&output);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Other tests run this test again in its own process, on other machines, and read its output.
#[test]
fn the_plan_covers_the_machine_that_is_found() {
    let machine = Machine::detect();
    println!("machine: {machine}, bindable: {}", machine.is_bindable());
    let plans = plan(&machine, &PlanOptions::default());
    let mut planned: Vec<_> = plans.iter().flat_map(|plan| &plan.cpus).copied().collect();
    planned.sort_unstable();
    let mut found: Vec<_> = machine.cpus().iter().map(|cpu| cpu.id).collect();
    found.sort_unstable();
    assert_eq!(planned, found);
    for LocalityPlan {
        index,
        cpus,
        node,
        cache,
        ..
    } in plans
    {
        println!("locality {index}: cpus {cpus:?} node {node:?} cache {cache:?}");
    }
}

// ---- hwloc

#[cfg(feature = "hwloc")]
mod hwloc {
    use super::*;

    #[test]
    fn hwloc_is_asked_first_and_agrees_with_the_kernel() {
        let machine = Machine::detect();
        assert_eq!(machine.source(), Source::Hwloc);
        let allowed: Vec<_> = machine.cpus().iter().map(|cpu| cpu.id).collect();
        let sysfs = Machine::from_sysfs("/sys").unwrap().restricted_to(&allowed);
        assert_eq!(
            (machine.cores(), machine.packages(), machine.nodes()),
            (sysfs.cores(), sysfs.packages(), sysfs.nodes())
        );
    }

    fn synthetic(layout: &str) -> String {
        child(&[("HWLOC_SYNTHETIC", layout)])
    }

    #[test]
    fn layouts_that_this_machine_does_not_have() {
        for (layout, machine) in [
            (
                "pack:2 [numa] l3:2 l2:4 core:1 pu:2",
                "packages: 2, nodes: 2, last-level caches: 4, cores: 16, cpus: 32",
            ),
            (
                "pack:1 die:2 [numa] l3:4 core:8 pu:2",
                "packages: 1, nodes: 2, last-level caches: 8, cores: 64, cpus: 128",
            ),
            (
                "numa:4 core:4 pu:1",
                "packages: 1, nodes: 4, last-level caches: 4, cores: 16, cpus: 16",
            ),
            (
                "pack:2 core:4 pu:1",
                "packages: 2, nodes: 1, last-level caches: 2, cores: 8, cpus: 8",
            ),
            (
                "pack:8 [numa] core:16 pu:2",
                "packages: 8, nodes: 8, last-level caches: 8, cores: 128, cpus: 256",
            ),
        ] {
            let report = synthetic(layout);
            let told = format!("machine: {machine} (from hwloc), bindable: false");
            assert!(report.contains(&told), "{layout}: {report}");
        }
        let report = synthetic("pack:2 [numa] l3:2 l2:4 core:1 pu:2");
        assert!(
            report.contains("locality 0: cpus [0, 1] node Some(0) cache Some(0)"),
            "{report}"
        );
        assert!(
            report.contains("locality 15: cpus [30, 31] node Some(1) cache Some(3)"),
            "{report}"
        );
    }

    #[test]
    fn a_broken_description_is_survived() {
        for broken in [
            ("HWLOC_SYNTHETIC", "pack:nonsense"),
            ("HWLOC_XMLFILE", "/nowhere"),
            ("HWLOC_COMPONENTS", "x,-"),
        ] {
            let report = child(&[broken]);
            assert!(report.contains("locality 0: cpus"), "{broken:?}: {report}");
        }
    }
}
