//! Checks the kernels that NVRTC compiles, with no GPU: no local memory, and registers for two blocks. Needs
//! `UCUDNN_TEST_REAL_CUDNN`, the folder of the real cuDNN: NVRTC is beside it.

use crate::kernels::source;
use crate::pass::Pass;
use crate::subject::Types;
use gpu::Element;
use gpu::testing::resources::{LDL, STL, compile, nvrtc};

/// Two blocks of 512 threads share the 65,536 registers of a multiprocessor.
const MOST_REGISTERS: usize = 64;

#[test]
fn kernels_have_no_spills() {
    let Some(nvrtc) = nvrtc() else { return };
    for capability in [90, 100] {
        let all = Pass::ALL.into_iter().flat_map(|pass| Element::ALL.map(|element| (pass, Types::of(element))));
        let short = |(pass, types): (Pass, Types)| (pass, Types { has_parameters_as_elements: true, ..types });
        for (pass, types) in all.clone().chain(all.map(short)) {
            let resources = compile(nvrtc, &source(pass, types), capability);
            let what = format!("{pass:?} {types:?} sm_{capability}");
            assert!(resources.registers <= MOST_REGISTERS, "{what}: {} registers", resources.registers);
            assert!(resources.frame == 0 && !resources.has(STL) && !resources.has(LDL), "{what}: local memory is used");
        }
    }
}
