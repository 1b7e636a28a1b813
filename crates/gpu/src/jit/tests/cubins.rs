//! Compiled code on disk.

use std::borrow::Cow;

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::super::cubins::{Cubins, Key};
use super::super::nvrtc::Architecture;
use super::super::{Source, image};
use super::{Folder, TWICE, child, is_child, real_cudnn};

const LIMIT: u64 = 1 << 20;

fn key(option: &str) -> Key {
    let architecture = Architecture { name: "sm_90a".into(), is_virtual: false };
    Key::new(&Source { options: vec![option.into()], ..TWICE }, (13, 0), &architecture)
}

/// Bytes that identify their key.
fn code(option: &str) -> Vec<u8> {
    option.bytes().cycle().take(1000).collect()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn what_was_kept_is_found() {
    let root = Folder::new();
    let cubins = Cubins::new(root.0.join("cubins"), LIMIT);
    assert_eq!(cubins.find(&key("a")), None);
    cubins.keep(&key("a"), &code("a"));
    cubins.keep(&key("b"), &code("b"));
    // The same folder as seen by another process.
    let cubins = Cubins::new(root.0.join("cubins"), LIMIT);
    assert_eq!(cubins.find(&key("a")), Some(code("a")));
    assert_eq!(cubins.find(&key("b")), Some(code("b")));
    assert_eq!(cubins.find(&key("c")), None);
    assert_eq!(files(&root.0.join("cubins")).len(), 2);
    assert_eq!(fs::metadata(root.0.join("cubins")).unwrap().permissions().mode() & 0o777, 0o700);
}

/// Each input of the compiler changes the key.
#[test]
fn keys_tell_apart() {
    let root = Folder::new();
    let cubins = Cubins::new(root.0.join("cubins"), LIMIT);
    let architecture = |name: &str, is_virtual| Architecture { name: name.into(), is_virtual };
    let hopper = || architecture("sm_90a", false);
    let options = |options: &[&str]| Source { options: options.iter().map(|&one| one.into()).collect(), ..TWICE };
    let keys = [
        Key::new(&TWICE, (13, 0), &hopper()),
        Key::new(&TWICE, (12, 9), &hopper()),
        Key::new(&TWICE, (13, 0), &architecture("sm_80", false)),
        Key::new(&Source { name: Cow::Borrowed("thrice.cu"), ..TWICE }, (13, 0), &hopper()),
        Key::new(&Source { text: Cow::Borrowed(""), ..TWICE }, (13, 0), &hopper()),
        Key::new(&Source { headers: Cow::Borrowed(&[]), ..TWICE }, (13, 0), &hopper()),
        Key::new(
            &Source { headers: Cow::Borrowed(&[(Cow::Borrowed("bias.h"), Cow::Borrowed(""))]), ..TWICE },
            (13, 0),
            &hopper(),
        ),
        Key::new(
            &Source { headers: Cow::Borrowed(&[(Cow::Borrowed("bias"), Cow::Borrowed(".h"))]), ..TWICE },
            (13, 0),
            &hopper(),
        ),
        Key::new(&options(&["-DA"]), (13, 0), &hopper()),
        Key::new(&options(&["-DA", "-DB"]), (13, 0), &hopper()),
        Key::new(&options(&["-DA-DB"]), (13, 0), &hopper()),
    ];
    for (index, key) in keys.iter().enumerate() {
        assert_eq!(cubins.find(key), None, "key {index} is one of those before");
        cubins.keep(key, &[index as u8]);
    }
    for (index, key) in keys.iter().enumerate() {
        assert_eq!(cubins.find(key), Some(vec![index as u8]));
    }
}

#[test]
fn damage_is_noticed_and_mended() {
    let root = Folder::new();
    let cubins = Cubins::new(root.0.join("cubins"), LIMIT);
    cubins.keep(&key("a"), &code("a"));
    let [file] = &files(&root.0.join("cubins"))[..] else { panic!("one file") };
    let whole = fs::read(file).unwrap();
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        fs::write(file, &damaged).unwrap();
        assert_eq!(cubins.find(&key("a")), None, "byte {at}");
    }
    for length in 0..whole.len() {
        fs::write(file, &whole[..length]).unwrap();
        assert_eq!(cubins.find(&key("a")), None, "cut to {length}");
    }
    fs::write(file, [&whole[..], b"more"].concat()).unwrap();
    assert_eq!(cubins.find(&key("a")), None);
    cubins.keep(&key("a"), &code("a"));
    assert_eq!(cubins.find(&key("a")), Some(code("a")));
    // One key's file under another key's name.
    cubins.keep(&key("b"), &code("b"));
    let b = files(&root.0.join("cubins")).into_iter().find(|other| other != file).unwrap();
    fs::copy(b, file).unwrap();
    assert_eq!(cubins.find(&key("a")), None);
}

/// All threads write and evict all the time; every file found is intact.
#[test]
fn many_write_and_read_at_once() {
    let root = Folder::new();
    let options: Vec<_> = (0..8).map(|number| format!("-D{number}")).collect();
    let found = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let (options, found) = (&options, &found);
            let cubins = Cubins::new(root.0.join("cubins"), 4 * 1040);
            scope.spawn(move || {
                for turn in 0..200 {
                    let option = &options[(turn * 5 + thread) % options.len()];
                    if let Some(image) = cubins.find(&key(option)) {
                        assert_eq!(image, code(option));
                        found.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    }
                    cubins.keep(&key(option), &code(option));
                }
            });
        }
    });
    assert_ne!(found.into_inner(), 0);
    let files = files(&root.0.join("cubins"));
    assert!(files.iter().all(|file| file.extension().is_some_and(|suffix| suffix == "cubin")), "{files:?}");
}

#[test]
fn the_least_recently_used_go() {
    let root = Folder::new();
    let folder = root.0.join("cubins");
    let cubins = Cubins::new(folder.clone(), 3 * 1040);
    let age = |option: &str, seconds| {
        let file = File::open(folder.join(key(option).file_name())).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
    };
    for (option, seconds) in [("a", 400), ("b", 300), ("c", 200)] {
        cubins.keep(&key(option), &code(option));
        age(option, seconds);
    }
    assert!(cubins.find(&key("a")).is_some()); // finding "a" marks it as used
    cubins.keep(&key("d"), &code("d"));
    let left = ["a", "b", "c", "d"].map(|option| cubins.find(&key(option)).is_some());
    assert_eq!(left, [true, false, true, true]);
    // Code larger than the limit is not kept, and files of other kinds stay.
    fs::write(folder.join("notes.txt"), vec![0; 10_000]).unwrap();
    cubins.keep(&key("e"), &[0; 4000]);
    let left = ["a", "c", "d", "e"].map(|option| cubins.find(&key(option)).is_some());
    assert_eq!(left, [true, true, true, false]);
    assert!(folder.join("notes.txt").exists());
}

/// A file of a killed writer is removed when it is old.
#[test]
fn what_dead_writers_left_goes() {
    let root = Folder::new();
    let folder = root.0.join("cubins");
    let cubins = Cubins::new(folder.clone(), LIMIT);
    cubins.keep(&key("a"), &code("a"));
    let [old, new] = ["0.1.0.unfinished", "0.2.0.unfinished"].map(|name| folder.join(name));
    fs::write(&new, "half").unwrap();
    fs::write(&old, "half").unwrap();
    File::open(&old).unwrap().set_modified(SystemTime::now() - Duration::from_secs(7200)).unwrap();
    cubins.keep(&key("b"), &code("b"));
    assert_eq!((old.exists(), new.exists()), (false, true));
}

#[test]
fn folders_that_cannot_be_used_keep_nothing() {
    let root = Folder::new();
    let file = root.0.join("file");
    fs::write(&file, "").unwrap();
    // The last folder exists, and nobody may write to it, not even root.
    for folder in [file.clone(), file.join("below"), root.0.join("no/parent"), "/proc/self/fdinfo".into()] {
        let cubins = Cubins::new(folder, LIMIT);
        cubins.keep(&key("a"), &code("a"));
        assert_eq!(cubins.find(&key("a")), None);
    }
    assert_eq!(files(&root.0), [file]);
}

/// A read-only folder still returns its files.
#[test]
fn read_only_folders_are_read() {
    let root = Folder::new();
    let folder = root.0.join("cubins");
    let cubins = Cubins::new(folder.clone(), LIMIT);
    cubins.keep(&key("a"), &code("a"));
    fs::set_permissions(&folder, Permissions::from_mode(0o500)).unwrap();
    cubins.keep(&key("b"), &code("b")); // root keeps it all the same
    assert_eq!(cubins.find(&key("a")), Some(code("a")));
    fs::set_permissions(&folder, Permissions::from_mode(0o700)).unwrap();
}

/// Anyone who may write to the folder could make us run their code.
#[test]
fn folders_of_others_are_not_used() {
    let root = Folder::new();
    let folder = root.0.join("cubins");
    let cubins = Cubins::new(folder.clone(), LIMIT);
    cubins.keep(&key("a"), &code("a"));
    let file = folder.join(key("a").file_name());
    for (changed, mode, usual) in [(&folder, 0o702, 0o700), (&root.0, 0o757, 0o755), (&file, 0o606, 0o600)] {
        fs::set_permissions(changed, Permissions::from_mode(mode)).unwrap();
        assert_eq!(cubins.find(&key("a")), None, "{} {mode:o}", changed.display());
        if *changed != file {
            cubins.keep(&key("b"), &code("b"));
        }
        fs::set_permissions(changed, Permissions::from_mode(usual)).unwrap();
        assert_eq!(cubins.find(&key("a")), Some(code("a")));
    }
    assert_eq!(cubins.find(&key("b")), None);
    // A link may lead to a file of others.
    fs::rename(&file, root.0.join("elsewhere")).unwrap();
    std::os::unix::fs::symlink(root.0.join("elsewhere"), &file).unwrap();
    assert_eq!(cubins.find(&key("a")), None);
}

/// The folder is beside the database, and does not exist with the database off. Tested through the compiler, in child
/// processes.
#[test]
fn beside_the_database() {
    let test = "jit::tests::cubins::beside_the_database";
    let Some(cudnn) = real_cudnn() else { return };
    if is_child() {
        assert!(!image(&TWICE, 90, 0).unwrap().is_empty());
        return;
    }
    let root = Folder::new();
    let search = std::env::var("LD_LIBRARY_PATH").expect("the loader's search path leads to NVRTC");
    let (home, cudnn) = (root.0.to_str().unwrap(), cudnn.to_str().unwrap());
    let always = [("HOME", home), ("UCUDNN_TEST_REAL_CUDNN", cudnn), ("LD_LIBRARY_PATH", &search)];
    child(test, &[&always[..], &[("UCUDNN_DATABASE", "off")]].concat());
    assert!(!root.0.join(".cache").exists());
    let own = root.0.join("own.sqlite");
    child(test, &[&always[..], &[("UCUDNN_DATABASE", own.to_str().unwrap())]].concat());
    child(test, &always);
    let kept = |folder: &str| fs::read(&files(&root.0.join(folder))[..][0]).unwrap();
    let (by_path, user) = (kept("own.sqlite-cubins"), kept(".cache/ucudnn/tuning.sqlite-cubins"));
    assert_eq!(by_path, user);
    // Later processes load the file and compile nothing. A damaged file is compiled anew.
    let here = [&always[..], &[("UCUDNN_DATABASE", own.to_str().unwrap())]].concat();
    child(test, &[&here[..], &[("UCUDNN_FAULT", "compilation")]].concat());
    let file = files(&root.0.join("own.sqlite-cubins")).remove(0);
    fs::write(&file, &by_path[..100]).unwrap();
    child(test, &here);
    assert_eq!(fs::read(&file).unwrap(), by_path);
}
