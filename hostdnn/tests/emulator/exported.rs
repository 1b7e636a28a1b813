//! The emulator's exported functions in the finished library, each use in its own process.

use std::ffi::{CStr, CString, c_char, c_uint, c_void};
use std::path::Path;
use std::process::{Command, Output};
use std::ptr::{null, null_mut};

use cudnn_abi::hostdnnKernelSource_t;
use libloading::os::unix::Library;

use super::{HEADERS, Parameters, TURN, built};

type Load = unsafe extern "C" fn(*const hostdnnKernelSource_t, *mut *mut c_void, *mut c_char, usize) -> i32;
type Get = unsafe extern "C" fn(*mut c_void, *const c_char, *mut *mut c_void) -> i32;
type Launch =
    unsafe extern "C" fn(*mut c_void, *const c_uint, *const c_uint, *const c_uint, usize, *mut *mut c_void) -> i32;
type Unload = unsafe extern "C" fn(*mut c_void) -> i32;

/// The child process: one launch through the exported functions, whose results it prints.
#[test]
#[ignore = "a part of the tests below, which run it in processes of their own"]
fn child() {
    // SAFETY: this is our own library, whose functions have these types. Its arguments are valid, or refused.
    unsafe {
        let library = Library::new(built::library()).unwrap();
        let load = library.get::<Load>(b"hostdnnLoadKernels\0").unwrap();
        let get = library.get::<Get>(b"hostdnnGetKernel\0").unwrap();
        let launch = library.get::<Launch>(b"hostdnnLaunchKernel\0").unwrap();
        let unload = library.get::<Unload>(b"hostdnnUnloadKernels\0").unwrap();
        let why = library.get::<unsafe extern "C" fn(*mut c_char, usize)>(b"cudnnGetLastErrorString\0").unwrap();
        let (text, header) = (CString::new(TURN).unwrap(), CString::new(HEADERS[0].1).unwrap());
        let (names, headers, options) =
            ([c"common/device.cuh".as_ptr()], [header.as_ptr()], [c"--use_fast_math".as_ptr(), c"-DUNUSED=1".as_ptr()]);
        let (mut module, mut kernel, mut log) = (null_mut(), null_mut(), [0; 400]);
        let source = hostdnnKernelSource_t {
            name: c"turn.cu".as_ptr(),
            text: text.as_ptr(),
            headerNames: names.as_ptr(),
            headerTexts: headers.as_ptr(),
            headerCount: 1,
            options: options.as_ptr(),
            optionCount: 2,
        };
        let status = load(&source, &mut module, log.as_mut_ptr(), log.len());
        println!("load {status} {}", CStr::from_ptr(log.as_ptr()).to_string_lossy());
        if status != 0 {
            return;
        }
        assert_ne!(get(module, c"no_kernel".as_ptr(), &mut kernel), 0);
        assert_ne!(get(null_mut(), c"kernel".as_ptr(), &mut kernel), 0);
        assert_ne!(get(module, null(), &mut kernel), 0);
        assert_eq!(get(module, c"kernel".as_ptr(), &mut kernel), 0);
        let mut data: Vec<i32> = (0..64).collect();
        let mut parameters = Parameters { data: data.as_mut_ptr(), count: 1 };
        let mut arguments = [(&raw mut parameters).cast::<c_void>()];
        let (grid, block, pair) = ([1, 1, 1], [64, 1, 1], [2, 1, 1]);
        let arguments = arguments.as_mut_ptr();
        let refusals = [
            launch(null_mut(), grid.as_ptr(), block.as_ptr(), null(), 256, arguments),
            launch(kernel, null(), block.as_ptr(), null(), 256, arguments),
            launch(kernel, grid.as_ptr(), null(), null(), 256, arguments),
            launch(kernel, grid.as_ptr(), block.as_ptr(), null(), 256, null_mut()),
        ];
        assert!(refusals.iter().all(|&status| status == 2000), "{refusals:?}");
        // One block cannot form a cluster of two.
        assert_eq!(launch(kernel, grid.as_ptr(), block.as_ptr(), pair.as_ptr(), 256, arguments), 5000);
        let status = launch(kernel, grid.as_ptr(), block.as_ptr(), grid.as_ptr(), 256, arguments);
        assert_eq!((status, data[0], data[63]), (0, 64, 1));
        let status = launch(kernel, grid.as_ptr(), [96, 1, 1].as_ptr(), null(), 256, arguments);
        why(log.as_mut_ptr(), log.len());
        println!("launch {status} {}", CStr::from_ptr(log.as_ptr()).to_string_lossy());
        assert_eq!(unload(module), 0);
    }
}

/// Null, and pointers to anything but a module or kernel, are refused.
#[test]
fn arguments_that_are_none_are_refused() {
    use hostdnn::abi::{
        hostdnnFindKernels, hostdnnGetKernel, hostdnnLaunchKernel, hostdnnLoadKernels, hostdnnUnloadKernels,
    };
    let (name, mut module, mut kernel) = (c"none.cu".as_ptr(), null_mut(), null_mut());
    let mut other = [0_u64; 16];
    let other = other.as_mut_ptr().cast::<c_void>();
    // SAFETY: the pointers are null, C strings, or memory that is large enough for the checks that refuse it.
    unsafe {
        let load = |name, text, header_count, option_count, module: *mut *mut c_void| {
            let source = hostdnnKernelSource_t {
                name,
                text,
                headerNames: null(),
                headerTexts: null(),
                headerCount: header_count,
                options: null(),
                optionCount: option_count,
            };
            // A refused source is never found either.
            assert_eq!(hostdnnFindKernels(&source) == 2000, !module.is_null());
            hostdnnLoadKernels(&source, module, null_mut(), 0)
        };
        assert_eq!(hostdnnLoadKernels(null(), &mut module, null_mut(), 0), 2000);
        assert_eq!(hostdnnFindKernels(null()), 2000);
        assert_eq!(load(null(), name, 0, 0, &mut module), 2000);
        assert_eq!(load(name, null(), 0, 0, &mut module), 2000);
        assert_eq!(load(name, name, 1, 0, &mut module), 2000);
        assert_eq!(load(name, name, 0, 1, &mut module), 2000);
        assert_eq!(load(name, name, 0, 0, null_mut()), 2000);
        assert!(module.is_null());
        for module in [null_mut(), other] {
            assert_eq!(hostdnnGetKernel(module, name, &mut kernel), 2000);
        }
        let one = [1, 1, 1];
        for kernel in [null_mut(), other] {
            let status = hostdnnLaunchKernel(kernel, one.as_ptr(), one.as_ptr(), null(), 0, &mut module);
            assert_eq!(status, 2000);
        }
        assert_eq!(hostdnnUnloadKernels(other), 2000);
        assert_eq!(hostdnnUnloadKernels(null_mut()), 0);
    }
}

/// A child process that keeps its objects in a folder.
fn command(cache: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "exported::child", "--ignored", "--nocapture"]);
    command.env_clear().env("HOSTDNN_KERNEL_CACHE", cache);
    if let Some(compiler) = std::env::var_os("HOSTDNN_CXX") {
        command.env("HOSTDNN_CXX", compiler);
    }
    command
}

fn output(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{text}");
    text
}

fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn there_is_a_compiler() -> bool {
    super::load(TURN, &[]).is_some()
}

#[test]
fn processes_compile_at_once_and_later_ones_not_at_all() {
    if !there_is_a_compiler() {
        return;
    }
    let cache = built::scratch("emulator_processes");
    let children: Vec<_> =
        (0..3).map(|_| command(&cache).stdout(std::process::Stdio::piped()).spawn().unwrap()).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            text.contains("load 0") && text.contains("launch 5000 hostdnnLaunchKernel: kernel: its blocks"),
            "{text}"
        );
    }
    let kept = files(&cache);
    let of = |ending| kept.iter().filter(move |name| name.ends_with(ending)).collect::<Vec<_>>();
    let (kernels, emulators) = (of(".so"), of(".o"));
    assert_eq!([kernels.len(), emulators.len(), kept.len()], [1, 1, 2], "and nothing unfinished: {kept:?}");
    // A damaged object is compiled again; an intact one is not.
    let object = cache.join(kernels[0]);
    let made = std::fs::metadata(&object).unwrap().len();
    std::fs::remove_file(&object).unwrap();
    std::fs::write(&object, "no object").unwrap();
    output(&mut command(&cache));
    assert_eq!(std::fs::metadata(&object).unwrap().len(), made);
    use std::os::unix::fs::MetadataExt;
    let before = std::fs::metadata(&object).unwrap().ino();
    output(&mut command(&cache));
    assert_eq!(std::fs::metadata(&object).unwrap().ino(), before);
}

#[test]
fn without_a_compiler_it_says_so() {
    let cache = built::scratch("emulator_no_compiler");
    for compiler in ["/nowhere/c++", "/bin/false"] {
        let text = output(command(&cache).env("HOSTDNN_CXX", compiler));
        let said = ["load 3008", "only where there is a C++ compiler", compiler];
        assert!(said.iter().all(|word| text.contains(word)), "{text}");
    }
}

#[test]
fn objects_are_not_taken_from_where_others_write() {
    if !there_is_a_compiler() {
        return;
    }
    use std::os::unix::fs::PermissionsExt;
    let shared = built::scratch("emulator_open_folder");
    let cache = shared.join("of-this-user/cache");
    std::fs::create_dir_all(&cache).unwrap();
    // Others could exchange a folder further up, too.
    for open in [&shared, &cache] {
        std::fs::set_permissions(open, std::fs::Permissions::from_mode(0o777)).unwrap();
        let text = output(&mut command(&cache));
        let why = format!("other users can write to {} (mode 777)", open.display());
        assert!(text.contains(&why) && text.contains("nobody else writes to") && files(&cache).is_empty(), "{text}");
        std::fs::set_permissions(open, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn a_seed_that_is_none_is_told() {
    if !there_is_a_compiler() {
        return;
    }
    let cache = built::scratch("emulator_seed");
    assert!(output(command(&cache).env("HOSTDNN_SCHEDULE_SEED", "many")).contains("it takes a number"));
    assert!(!output(command(&cache).env("HOSTDNN_SCHEDULE_SEED", "17")).contains("it takes a number"));
}
