//! Parts of memory, one behind the other.

/// Each part begins at a multiple of this many bytes.
pub const ALIGNMENT: usize = 256;

/// The parts of memory so far. Results are `None` where sizes exceed the address space.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parts {
    /// The bytes of all parts, a multiple of [`ALIGNMENT`].
    pub bytes: usize,
}

impl Parts {
    /// Adds a part whose bytes are the product of the sizes. Returns where it begins.
    pub fn add(&mut self, sizes: &[usize]) -> Option<usize> {
        let begin = self.bytes;
        let bytes = sizes.iter().try_fold(1_usize, |product, &size| product.checked_mul(size))?;
        self.bytes = begin.checked_add(bytes)?.checked_next_multiple_of(ALIGNMENT)?;
        Some(begin)
    }

    /// Likewise, of a part that is not needed always: `Some(None)` if it is not.
    pub fn add_if(&mut self, is_needed: bool, sizes: &[usize]) -> Option<Option<usize>> {
        if is_needed { self.add(sizes).map(Some) } else { Some(None) }
    }
}

/// Parts of equal sizes, one for each direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Each {
    first: usize,
    /// The bytes of one.
    bytes: usize,
}

impl Each {
    /// Adds `count` parts whose bytes are the product of the sizes.
    pub fn add(parts: &mut Parts, count: usize, sizes: &[usize]) -> Option<Self> {
        let first = parts.bytes;
        (0..count).try_for_each(|_| parts.add(sizes).map(drop))?;
        Some(Self { first, bytes: (parts.bytes - first) / count.max(1) })
    }

    /// Where a direction's begins.
    pub fn of(&self, direction: usize) -> usize {
        self.first + direction * self.bytes
    }
}
