//! Checks the kernels that NVRTC compiles, with no GPU: no local memory, and registers for two blocks. Needs
//! `UCUDNN_TEST_REAL_CUDNN`, the folder of the real cuDNN: NVRTC is beside it.

use crate::kernels::source;
use crate::pass::Pass;
use gpu::Element;
use gpu::testing::resources::{LDL, STL, compile, nvrtc};

/// Two blocks of 512 threads share the 65,536 registers of a multiprocessor.
const MOST_REGISTERS: usize = 64;

#[test]
fn kernels_have_no_spills() {
    let Some(nvrtc) = nvrtc() else { return };
    for capability in [90, 100] {
        for (pass, element) in Pass::ALL.into_iter().flat_map(|p| Element::ALL.map(|e| (p, e))) {
            let resources = compile(nvrtc, &source(pass, element), capability);
            let what = format!("{pass:?} {} sm_{capability}", element.name());
            assert!(resources.registers <= MOST_REGISTERS, "{what}: {} registers", resources.registers);
            assert!(resources.frame == 0 && !resources.has(STL) && !resources.has(LDL), "{what}: local memory is used");
        }
    }
}
