//! A shared library that only gives another library a second name.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

const MACHINE: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
/// A multiple of the page size of every kernel that we run on.
const PAGE: u64 = 0x10000;

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_GNU_STACK: u32 = 0x6474_e551;
const READ_WRITE: u32 = 6;

const DT_NULL: u64 = 0;
const DT_NEEDED: u64 = 1;
const DT_HASH: u64 = 4;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_STRSZ: u64 = 10;
const DT_SYMENT: u64 = 11;
const DT_SONAME: u64 = 14;

const HEADER: u64 = 64;
const PROGRAM_HEADER: u64 = 56;
const SYMBOL: u64 = 24;
const TAG: u64 = 16;

/// The file of a library called `name` without functions that needs `library`. A program that opens the file finds the
/// functions of `library`.
pub fn alias(name: &str, library: &OsStr) -> Vec<u8> {
    // The string table starts with the empty string.
    let strings = [b"\0", name.as_bytes(), b"\0", library.as_bytes(), b"\0"].concat();
    let (name_at, library_at) = (1, name.len() as u64 + 2);

    // The parts that the loader reads, in order: program headers, dynamic section, symbols (only the null symbol),
    // their hash table (one empty bucket), strings.
    let tags = 8;
    let dynamic = HEADER + 3 * PROGRAM_HEADER;
    let symbols = dynamic + tags * TAG;
    let hash = symbols + SYMBOL;
    let string_table = hash + 16;
    let end = string_table + strings.len() as u64;

    let mut file = Vec::with_capacity(end as usize);
    let mut put = |bytes: &[u8]| file.extend_from_slice(bytes);
    // 64 bits, little-endian, a shared object.
    put(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    put(&3_u16.to_le_bytes());
    put(&MACHINE.to_le_bytes());
    put(&1_u32.to_le_bytes());
    for at in [0, HEADER, 0] {
        put(&at.to_le_bytes()); // entry, program headers, no sections
    }
    put(&0_u32.to_le_bytes());
    for size in [HEADER as u16, PROGRAM_HEADER as u16, 3, 64, 0, 0] {
        put(&size.to_le_bytes());
    }
    let segments = [
        (PT_LOAD, 0, end, PAGE),
        (PT_DYNAMIC, dynamic, tags * TAG, 8),
        // Without this segment the loader makes the stack executable.
        (PT_GNU_STACK, 0, 0, 16),
    ];
    for (kind, at, size, alignment) in segments {
        put(&kind.to_le_bytes());
        put(&READ_WRITE.to_le_bytes());
        for value in [at, at, at, size, size, alignment] {
            put(&value.to_le_bytes()); // offset in the file, two addresses in memory, the size in each
        }
    }
    for (tag, value) in [
        (DT_NEEDED, library_at),
        (DT_SONAME, name_at),
        (DT_HASH, hash),
        (DT_STRTAB, string_table),
        (DT_SYMTAB, symbols),
        (DT_STRSZ, strings.len() as u64),
        (DT_SYMENT, SYMBOL),
        (DT_NULL, 0),
    ] {
        put(&tag.to_le_bytes());
        put(&value.to_le_bytes());
    }
    put(&[0; SYMBOL as usize]);
    for word in [1_u32, 1, 0, 0] {
        put(&word.to_le_bytes());
    }
    put(&strings);
    file
}
