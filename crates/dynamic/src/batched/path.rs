//! The path of a way in one launch: its kernel, and the memory in which its blocks publish.

use std::ffi::{CString, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use gpu::jit::{Function, Launch};
use gpu::{Device, Stream};
use guest::settings::{self, Fault};
use vertex::passes::Extent;

use crate::emit::{self, MOST_POINTERS};
use crate::memory::APART;
use crate::report;

/// A kernel for the path of all kinds one way.
pub struct Path {
    /// The kernel's pointers and products.
    pub emitted: emit::Path,
    /// The same for fewer threads, which have more registers.
    others: Vec<emit::Path>,
    /// `None` if it cannot run.
    loaded: OnceLock<Option<(Function, Launch)>>,
    /// The device did not take a launch: it may hold fewer blocks at once than it says, as beside other programs.
    has_failed: AtomicBool,
}

/// Where a way's part of the memory lies that blocks share, in bytes from its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The epochs of all blocks. Packets follow.
    pub epochs: usize,
    /// The end.
    pub end: usize,
}

impl Path {
    /// The kernels of a path, that for the most threads first. They are loaded when a batch needs them. `None` if there are
    /// none.
    pub fn new(by_threads: Vec<emit::Path>) -> Option<Self> {
        let mut by_threads = by_threads.into_iter();
        let emitted = by_threads.next()?;
        let others = by_threads.collect();
        Some(Self { emitted, others, loaded: OnceLock::new(), has_failed: AtomicBool::new(false) })
    }

    /// Loads the kernel, where compiling it takes a second or two for the first time. Returns false if it cannot run.
    pub fn load(&self, device: Device) -> bool {
        self.loaded.get_or_init(|| {
            let begin = Instant::now();
            let (name, groups, blocks) = (self.emitted.name, self.emitted.groups, self.emitted.blocks);
            let mut loaded = try_load(device, &self.emitted);
            for other in &self.others {
                loaded = loaded.or_else(|_| try_load(device, other));
            }
            let seconds = begin.elapsed().as_secs_f64();
            report::path(&self.emitted, loaded.is_ok(), begin.elapsed());
            match &loaded {
                Ok(_) => log::info!("{name}: {groups} groups of {blocks} blocks, loaded in {seconds:.2} s"),
                Err(why) => log::warn!("{name}: {groups} groups of {blocks} blocks: {why}; they are not used"),
            }
            loaded.ok()
        });
        self.is_ready()
    }

    /// The kernel, if it is loaded.
    fn loaded(&self) -> Option<&(Function, Launch)> {
        self.loaded.get()?.as_ref()
    }

    /// The kernel is loaded, and no launch of it has failed.
    pub fn is_ready(&self) -> bool {
        self.loaded().is_some() && !self.has_failed.load(Ordering::Relaxed)
    }

    /// Keeps the kernel loaded for good.
    pub fn keep_loaded(&self) {
        if let Some((function, _)) = self.loaded() {
            function.keep_loaded();
        }
    }

    /// Launches the kernel, which was loaded. Returns false if it cannot be launched; from then on it is not tried again.
    ///
    /// # Safety
    /// The pointers are the kernel's parameters, and lead to its memory.
    pub unsafe fn launch(&self, stream: Stream, mut pointers: [*const c_void; MOST_POINTERS]) -> bool {
        let Some((function, launch)) = self.loaded().filter(|_| self.is_ready()) else {
            return false;
        };
        let launched = match settings::get().fault {
            Some(Fault::Launch) => Err("UCUDNN_FAULT asked for no launch".to_owned()),
            // SAFETY: the caller's promise.
            _ => unsafe { function.launch(stream, launch, &mut [(&raw mut pointers).cast()]) }
                .map_err(|error| error.to_string()),
        };
        if let Err(why) = &launched {
            self.has_failed.store(true, Ordering::Relaxed);
            log::warn!("{}: {why}; levels have launches", self.emitted.name);
        }
        launched.is_ok()
    }

    /// The way's part of the memory, from `first` on, for batches of these extents.
    pub fn place(&self, first: usize, extents: &[Extent]) -> Place {
        let packets = (0..self.emitted.published.len()).map(|product| self.bytes(product, extents));
        let all = packets.fold(self.epoch_bytes(), |all, bytes| all.saturating_add(bytes));
        Place { epochs: first, end: first.saturating_add(all) }
    }

    /// Where the packets of a product begin.
    pub fn packets(&self, place: Place, product: usize, extents: &[Extent]) -> usize {
        let before = (0..product).map(|product| self.bytes(product, extents)).sum::<usize>();
        place.epochs + self.epoch_bytes() + before
    }

    fn epoch_bytes(&self) -> usize {
        (self.emitted.groups * self.emitted.blocks * size_of::<u32>()).next_multiple_of(APART)
    }

    /// The bytes of all packets of a product.
    fn bytes(&self, product: usize, extents: &[Extent]) -> usize {
        let published = &self.emitted.published[product];
        let extent = &extents[published.kind];
        let rows = if published.is_of_children { extent.edges } else { extent.rows };
        rows.saturating_mul(published.bytes_of_row).checked_next_multiple_of(APART).unwrap_or(usize::MAX)
    }
}

/// `Err` says why it cannot run.
fn try_load(device: Device, emitted: &emit::Path) -> Result<(Function, Launch), String> {
    let text = |error: gpu::jit::Error| error.to_string();
    let module = device.load(&emitted.source).map_err(text)?;
    let function = module.function(&CString::new(emitted.name).expect("names have no zeros")).map_err(text)?;
    let spilled = function.resources().map_err(text)?.local_bytes;
    if spilled > 0 {
        return Err(format!("{spilled} bytes of each of {} threads do not fit into registers", emitted.threads));
    }
    let (threads, shared_bytes) = (emitted.threads as u32, emitted.shared_bytes as u32);
    function.allow_shared(shared_bytes).map_err(text)?;
    let multiprocessors = device.multiprocessors(device.ordinal()).unwrap_or(0);
    let resident = function.resident_blocks(threads, shared_bytes).map_err(text)? as usize;
    if resident * multiprocessors < emitted.blocks * emitted.groups {
        return Err(format!("the device holds {resident} on each of {multiprocessors} multiprocessors"));
    }
    let launch = Launch {
        grid: [emitted.blocks as u32, emitted.groups as u32, 1],
        block: [threads, 1, 1],
        shared_bytes,
        cooperative: true,
        is_uncaptured: true,
        ..Launch::default()
    };
    Ok((function, launch))
}
