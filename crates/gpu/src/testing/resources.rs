//! What kernels take as NVRTC compiles them, with no GPU, for tests. They run where `UCUDNN_TEST_REAL_CUDNN` names the folder
//! of the real cuDNN, beside which NVRTC is.

use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSection};

use crate::jit::{Nvrtc, Source};
use guest::testing::skip;

/// What a compiled kernel takes.
pub struct Resources {
    /// Registers of a thread; of several kernels the last one's.
    pub registers: usize,
    /// Bytes of a thread's local memory, where registers spill to.
    pub frame: usize,
    /// Operations of each instruction.
    operations: Vec<u16>,
}

/// The low bits of instructions of all architectures from 8.0 on: a fence; what throws the first cache's contents away, as
/// what is acquired from other blocks does; stores and loads of local memory.
pub const MEMBAR: u16 = 0x992;
pub const CCTL: u16 = 0x98f;
pub const STL: u16 = 0x387;
pub const LDL: u16 = 0x983;
/// The wait for the launch before, from 9.0 on.
pub const ACQBULK: u16 = 0x82e;
const INSTRUCTION: usize = 16;
const OPERATION: u16 = 0xfff;

/// A cubin's `.nv.info` is a list of these: a format, an attribute and, of this format, the bytes of the value, which for
/// these attributes is a function's symbol and a number.
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

    /// How many instructions are this.
    pub fn count(&self, operation: u16) -> usize {
        self.operations.iter().filter(|one| **one == operation).count()
    }

    /// Whether any is.
    pub fn has(&self, operation: u16) -> bool {
        self.count(operation) > 0
    }
}

/// The compiler; `None`, and said aloud, where it is not asked for.
pub fn nvrtc() -> Option<&'static Nvrtc> {
    if std::env::var_os("UCUDNN_TEST_REAL_CUDNN").is_none() {
        skip("UCUDNN_TEST_REAL_CUDNN names no folder of the real cuDNN");
        return None;
    }
    Some(Nvrtc::of_process(0).expect("the loader's search path leads to NVRTC"))
}

/// Compiles for a compute capability that the compiler knows.
pub fn compile(nvrtc: &Nvrtc, source: &Source, capability: u32) -> Resources {
    let architecture = nvrtc.architecture(capability).unwrap();
    assert!(!architecture.is_virtual);
    Resources::of(&nvrtc.compile(source, &architecture).unwrap_or_else(|error| panic!("{error}")))
}
