//! Checks the kernels that NVRTC compiles, with no GPU: no local memory, and registers for two blocks. Needs
//! `UCUDNN_TEST_REAL_CUDNN`, the folder of the real cuDNN: NVRTC is beside it.

use crate::kernels::source;
use crate::pass::Pass;
use crate::subject::Types;
use gpu::Element;
use gpu::testing::resources::{LDL, STL, compile, nvrtc, share};

/// Two blocks of 512 threads share the 65,536 registers of a multiprocessor.
const MOST_REGISTERS: usize = 64;

#[test]
fn kernels_have_no_spills() {
    let Some(nvrtc) = nvrtc() else { return };
    let types = Element::ALL.map(Types::of);
    let short = types.map(|types| Types { has_parameters_as_elements: true, ..types });
    let all = [90, 100].into_iter().flat_map(|capability| {
        let all = [types, short].into_iter().flat_map(|types| Pass::ALL.map(|pass| types.map(|types| (pass, types))));
        all.flatten().map(move |(pass, types)| (capability, pass, types))
    });
    for (capability, pass, types) in share(all, 7) {
        let resources = compile(nvrtc, &source(pass, types), capability);
        let what = format!("{pass:?} {types:?} sm_{capability}");
        assert!(resources.registers <= MOST_REGISTERS, "{what}: {} registers", resources.registers);
        assert!(resources.frame == 0 && !resources.has(STL) && !resources.has(LDL), "{what}: local memory is used");
    }
}
