//! The folders of a question's files, and the cost of their use.

use std::{
    env,
    ffi::CString,
    fs::{self, File},
    mem::MaybeUninit,
    os::{
        fd::AsRawFd,
        unix::{ffi::OsStrExt, fs::MetadataExt},
    },
    path::{Path, PathBuf},
};

/// The variable that names another place than the one of the build.
const PLACE: &str = "FOM_BENCH_DIR";

/// Makes an empty folder of this name on the disk: beside the folder of this program, or in `$FOM_BENCH_DIR`.
///
/// # Panics
///
/// Panics if the folder cannot be made, or lies in memory: then there would be nothing to measure.
pub fn folder(name: &str) -> PathBuf {
    let place = match env::var_os(PLACE) {
        Some(place) => PathBuf::from(place),
        None => {
            let program = env::current_exe().expect("a program has a path");
            let target = program.parent().and_then(Path::parent);
            target.expect("it lies in target/PROFILE").to_owned()
        }
    };
    let folder = place.join("files").join(name);
    remove(&folder);
    fs::create_dir_all(&folder).expect("a folder for the files");
    assert!(
        !in_memory(&folder),
        "{} lies in memory; name a folder on a disk by {PLACE}",
        folder.display()
    );
    folder
}

/// Removes a folder of [`folder`], even while a thread still writes there.
pub fn remove(folder: &Path) {
    // The folder may be missing. The next user of the name removes what is left.
    let _ = fs::remove_dir_all(folder);
}

fn in_memory(folder: &Path) -> bool {
    let path = CString::new(folder.as_os_str().as_bytes()).expect("a path without a zero");
    // SAFETY: the call fills in the struct that it is given, and reads the path up to its zero.
    let stat = unsafe {
        let mut stat: libc::statfs = MaybeUninit::zeroed().assume_init();
        libc::statfs(path.as_ptr(), &raw mut stat);
        stat
    };
    [libc::TMPFS_MAGIC, 0x8584_58f6].contains(&stat.f_type)
}

/// Returns the bytes that this process has passed to `write` and similar calls so far. The kernel's count of bytes
/// written to the disk is no use: it counts whole folios.
pub fn written_bytes() -> u64 {
    counted("wchar: ")
}

/// Returns the bytes that were read from the disk for this process.
pub fn read_bytes() -> u64 {
    counted("read_bytes: ")
}

fn counted(name: &str) -> u64 {
    let io = fs::read_to_string("/proc/self/io").unwrap_or_default();
    let count = io.lines().find_map(|line| line.strip_prefix(name));
    count.and_then(|n| n.trim().parse().ok()).unwrap_or(0)
}

/// Returns the bytes of the files in a folder and its subfolders.
pub fn size_of_files(folder: &Path) -> u64 {
    let mut size = 0;
    each_file(folder, &mut |file| {
        size += file.metadata().map_or(0, |data| data.blocks() * 512);
    });
    size
}

/// Makes the kernel drop its cache of the files in a folder, so that they are read from the disk.
pub fn forget_files(folder: &Path) {
    each_file(folder, &mut |file| {
        // The kernel can drop only what is on the disk.
        let _ = file.sync_all();
        // SAFETY: the file is open, and no memory is involved.
        unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    });
}

fn each_file(folder: &Path, with: &mut dyn FnMut(&File)) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            each_file(&path, with);
        } else if let Ok(file) = File::open(&path) {
            with(&file);
        }
    }
}
