//! `include/ucudnn.h` stands without cuDNN's header.

use std::path::Path;

use crate::programs;

/// Compilers take the header where there is no `cudnn.h`, and its constants are cuDNN's.
#[test]
fn the_header_stands_without_cudnns() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = programs::Folder::new("without_cudnn_h");
    let source = folder.join("without.c");
    std::fs::write(&source, "#include <ucudnn.h>\nint status(void) { return CUDNN_STATUS_SUCCESS; }\n").unwrap();
    for (compiler, options) in [
        (programs::c_compiler(), ["-std=c99", "-xc"]),
        (programs::c_compiler(), ["-std=gnu17", "-xc"]),
        (programs::cxx_compiler(), ["-std=c++11", "-xc++"]),
    ] {
        let without = ["-DUCUDNN_WITHOUT_CUDNN_H", "-Werror", "-pedantic", "-c", "-I"];
        let arguments = options.iter().chain(&without).map(AsRef::as_ref);
        let paths = [root.join("include").into_os_string(), source.clone().into_os_string()];
        let arguments = arguments.chain(paths.iter().map(AsRef::as_ref));
        programs::compile_with(&compiler, &folder.join("without.o"), arguments.collect::<Vec<&std::ffi::OsStr>>());
    }
    let read = |path| std::fs::read_to_string(root.join(path)).unwrap();
    let (ours, cudnns) = (read("include/ucudnn.h"), read("hostdnn/include/cudnn.h"));
    let block = ours.split("UCUDNN_WITHOUT_CUDNN_H\n#include <cudnn.h>\n#else").nth(1).unwrap();
    let block = block.split("#endif").next().unwrap().replace(['{', '}', ';', ','], "\n");
    let constants: Vec<_> = block.lines().filter_map(|line| line.trim().split_once(" = ")).collect();
    assert!(constants.len() >= 20, "{constants:?}");
    for (name, value) in constants {
        assert!(cudnns.contains(&format!("#define {name} {value}\n")), "{name} is not {value}");
    }
}
