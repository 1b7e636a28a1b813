//! The resources of kernels compiled by NVRTC, for tests without a GPU. These run where `UCUDNN_TEST_REAL_CUDNN` names
//! the folder of the real cuDNN, which has NVRTC beside it.

use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSection};

use crate::jit::{Nvrtc, Source};
use guest::testing::skip;

/// The resources of a compiled kernel.
pub struct Resources {
    /// Registers of a thread; the last kernel's if there are several.
    pub registers: usize,
    /// Bytes of a thread's local memory, where registers spill to.
    pub frame: usize,
    /// The operation of each instruction.
    operations: Vec<u16>,
}

/// The low bits of instructions on all architectures from 8.0 on: a fence; an invalidation of the first cache, as for
/// an acquire from other blocks; stores and loads of local memory.
pub const MEMBAR: u16 = 0x992;
pub const CCTL: u16 = 0x98f;
pub const STL: u16 = 0x387;
pub const LDL: u16 = 0x983;
/// The wait for the previous launch, from 9.0 on.
pub const ACQBULK: u16 = 0x82e;
const INSTRUCTION: usize = 16;
const OPERATION: u16 = 0xfff;

/// A cubin's `.nv.info` is a list of entries: a format, an attribute and a value. In this format the value's size in
/// bytes precedes it; for these attributes the value is a function's symbol and a number.
const SIZED: u8 = 4;
const REGISTERS: u8 = 0x2f;
const FRAME: u8 = 0x11;

impl Resources {
    fn of(cubin: &[u8]) -> Self {
        let file = ElfFile64::<Endianness>::parse(cubin).expect("a cubin is an ELF file");
        let section = |name: &str| file.section_by_name(name).expect(name).data().expect(name);
        let mut info = section(".nv.info");
        let (mut registers, mut frame) = (None, None);
        while let [format, attribute, low, high, rest @ ..] = info {
            let size = if *format == SIZED { usize::from(u16::from_le_bytes([*low, *high])) } else { 0 };
            let number = || u32::from_le_bytes(rest[4..8].try_into().unwrap()) as usize;
            match *attribute {
                REGISTERS => registers = Some(number()),
                FRAME => frame = Some(number()),
                _ => {}
            }
            info = &rest[size..];
        }
        let code = file.sections().filter(|section| section.name().is_ok_and(|name| name.starts_with(".text.")));
        let code: Vec<u8> = code.flat_map(|section| section.data().unwrap().to_vec()).collect();
        let operation = |instruction: &[u8]| u16::from_le_bytes([instruction[0], instruction[1]]) & OPERATION;
        let operations = code.chunks_exact(INSTRUCTION).map(operation).collect();
        Self { registers: registers.expect("registers"), frame: frame.expect("a frame"), operations }
    }

    /// The number of instructions with this operation.
    pub fn count(&self, operation: u16) -> usize {
        self.operations.iter().filter(|one| **one == operation).count()
    }

    /// Returns whether any instruction has this operation.
    pub fn has(&self, operation: u16) -> bool {
        self.count(operation) > 0
    }
}

/// The compiler. `None`, with a skip message, if the environment does not name the real cuDNN.
pub fn nvrtc() -> Option<&'static Nvrtc> {
    if std::env::var_os("UCUDNN_TEST_REAL_CUDNN").is_none() {
        skip("UCUDNN_TEST_REAL_CUDNN names no folder of the real cuDNN");
        return None;
    }
    Some(Nvrtc::of_process(0).expect("the loader's search path leads to NVRTC"))
}

/// The kernels that a test compiles of `all`: every `step`th, or each where `UCUDNN_TEST_COMPILED` is `all`. In an order
/// in which types, architectures and sizes take turns, a step that divides none of their numbers meets all of them.
pub fn share<T>(all: impl IntoIterator<Item = T>, step: usize) -> impl Iterator<Item = T> {
    let whole = std::env::var_os("UCUDNN_TEST_COMPILED").is_some_and(|value| value == "all");
    all.into_iter().step_by(if whole { 1 } else { step })
}

/// Compiles for a compute capability that the compiler knows.
pub fn compile(nvrtc: &Nvrtc, source: &Source, capability: u32) -> Resources {
    let architecture = nvrtc.architecture(capability).unwrap();
    assert!(!architecture.is_virtual);
    Resources::of(&nvrtc.compile(source, &architecture).unwrap_or_else(|error| panic!("{error}")))
}
