//! The hash of versions: FNV-1a, of Fowler, Noll and Vo. It is the same with each compiler, unlike Rust's own.

/// The hash of no bytes.
pub const NOTHING: u64 = 0xCBF2_9CE4_8422_2325;

/// The hash of bytes behind those of another hash.
pub fn add(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3))
}
