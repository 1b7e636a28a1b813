//! `examples/gru.c` compiles by its own command's options without cuDNN's header, and computes the right results.

use crate::hostdnn::{Build, Program, has_emulator};
use crate::programs;

#[test]
fn the_gru_computes() {
    let strict = ["-std=c99", "-O2", "-Werror", "-pedantic", "-DUCUDNN_WITHOUT_CUDNN_H"];
    let sources = ["../../examples/gru.c", "../../examples/convnet/memory.c"];
    // The program calls nothing of cuDNN: only this keeps hostdnn in the process, in a GPU's place.
    let build = Build { sources: &sources, options: &["-Wl,--no-as-needed"], with_ucudnn: true };
    let program = Program::build_by(&programs::c_compiler(), &strict, "gru", build);
    if has_emulator() {
        // The program fails if its own loops differ.
        let outcome = program.plain(&[], &[("UCUDNN_RNN_TOP_K", "1")]);
        assert!(outcome.stdout.starts_with("30 steps of 2 sequences on "), "{}", outcome.stdout);
    }
}
