//! The configuration of a launch, and the resources of a kernel.

/// The configuration of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Blocks: x, y, z. A multiple of the cluster.
    pub grid: [u32; 3],
    /// Threads of a block: x, y, z.
    pub block: [u32; 3],
    /// Blocks of a cluster: x, y, z. All ones without clusters. More than 8 blocks require
    /// [`Function::allow_large_clusters`](super::Function::allow_large_clusters).
    pub cluster: [u32; 3],
    /// Dynamic shared memory of a block, in bytes. More than 48 KiB requires [`Function::allow_shared`](super::Function::allow_shared).
    pub shared_bytes: u32,
    /// All blocks run at once, or the launch fails.
    pub cooperative: bool,
    /// Programmatic dependent launch: the launch may begin once all blocks of its predecessor on the stream have called
    /// `begin_next_launch()` or ended. Its blocks call `wait_for_last_launch()` before they touch the predecessor's
    /// data. The predecessor must not be early too: the wait covers one launch only. Without device support, and under
    /// capture, the launch begins after its predecessor's end.
    pub early: bool,
    /// The caller knows that the stream is not being captured: the launch does not ask, which takes some microseconds.
    pub is_uncaptured: bool,
}

impl Default for Launch {
    fn default() -> Self {
        Self {
            grid: [1; 3],
            block: [1; 3],
            cluster: [1; 3],
            shared_bytes: 0,
            cooperative: false,
            early: false,
            is_uncaptured: false,
        }
    }
}

/// The resources that a compiled kernel needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resources {
    /// Registers of a thread.
    pub registers: u32,
    /// Static shared memory of a block, in bytes.
    pub shared_bytes: u32,
    /// Local memory of a thread, in bytes: arrays outside registers, and spills.
    pub local_bytes: u32,
    /// The most threads that a block may have.
    pub threads: u32,
}
