//! RNN data descriptors.

use super::boundary::{read_array, refer, refer_mut, write_all, write_array};
use super::entries::*;
use crate::descriptor::RnnDataDescriptor;
use crate::error::{Result, require};

/// `padding_fill` points to an element of the type; null is 0.
impl Answer for cudnnSetRNNDataDescriptor {
    unsafe fn answer(self) -> Result {
        let Self { descriptor, data_type, layout, steps, batch, vector, lengths, padding_fill } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract; the array holds `batch` values.
        unsafe {
            let descriptor = refer_mut::<RnnDataDescriptor>(descriptor)?;
            require(!lengths.is_null(), "arrays are not null")?;
            let extents = [steps, batch, vector];
            RnnDataDescriptor::check(data_type, layout, extents)?;
            let lengths = read_array(lengths, batch as usize)?;
            let mut fill = [0; 8];
            if !padding_fill.is_null() {
                let size = RnnDataDescriptor::element_size(data_type).unwrap_or(0);
                fill.as_mut_ptr().copy_from_nonoverlapping(padding_fill.cast(), size);
            }
            descriptor.set(data_type, layout, extents, lengths, fill)
        }
    }
}

/// Writes the first `requested` lengths, or all if there are fewer, and the padding fill, an element.
impl Answer for cudnnGetRNNDataDescriptor {
    unsafe fn answer(self) -> Result {
        let Self { descriptor, data_type, layout, steps, batch, vector, requested, lengths, padding_fill } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract; the array takes as many values as are asked for.
        unsafe {
            let descriptor = refer::<RnnDataDescriptor>(descriptor)?;
            require(!padding_fill.is_null(), "pointers to results are not null")?;
            require(requested >= 0, "arrayLengthRequested is not negative")?;
            let requested = requested as usize;
            require(!lengths.is_null() || requested == 0, "arrays are not null")?;
            let extents = descriptor.extents();
            write_all(
                [data_type, layout, steps, batch, vector],
                [descriptor.data_type(), descriptor.layout(), extents[0], extents[1], extents[2]],
            )?;
            write_array(lengths, &descriptor.lengths()[..requested.min(descriptor.lengths().len())])?;
            let size = RnnDataDescriptor::element_size(descriptor.data_type()).unwrap_or(0);
            write_array(padding_fill.cast(), &descriptor.padding_fill()[..size])
        }
    }
}
