//! C and C++ compilers accept `include/cudnn.h`.

use crate::built;
use std::process::Command;

#[test]
fn compilers_take_the_header() {
    let directory = built::scratch("header");
    for (compiler, source, standards) in
        [("gcc", "header.c", ["c99", "c11", "gnu17"]), ("g++", "header.cpp", ["c++11", "c++17", "gnu++20"])]
    {
        let source = directory.join(source);
        let text = "#include <cudnn.h>\n#include <cudnn.h>\nint main(void) { return CUDNN_VERSION != 91900; }\n";
        std::fs::write(&source, text).unwrap();
        for standard in standards {
            let mut command = Command::new(compiler);
            command.arg(format!("-std={standard}")).args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only"]);
            command.arg("-I").arg(built::include()).arg(&source);
            built::succeed(&mut command);
        }
    }
}
