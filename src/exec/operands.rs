//! Where a micro-batch's data starts, and the scaling factors of a call.

use std::ffi::c_void;

use cudnn_abi::*;

use crate::cudnn::convolution::{Direction, Operands};
use crate::cudnn::kernel::Kernel;

/// The type of `alpha` and `beta`. cuDNN takes doubles for double data and floats for all other data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scaling {
    Float,
    Double,
}

/// The type of a problem's scaling factors.
pub fn scaling_type(kernel: &Kernel) -> Scaling {
    if kernel.y.data_type == CUDNN_DATA_DOUBLE { Scaling::Double } else { Scaling::Float }
}

impl Scaling {
    /// A constant factor as a pointer for cuDNN.
    pub fn constant(self, value: Constant) -> *const c_void {
        static FLOATS: [f32; 3] = [0.0, 0.5, 1.0];
        static DOUBLES: [f64; 3] = [0.0, 0.5, 1.0];
        match self {
            Self::Float => (&raw const FLOATS[value as usize]).cast(),
            Self::Double => (&raw const DOUBLES[value as usize]).cast(),
        }
    }

    /// Reads the program's factor. Null reads as 0.
    ///
    /// # Safety
    /// `factor` is null or points to a value of this type.
    pub unsafe fn read(self, factor: *const c_void) -> f64 {
        if factor.is_null() {
            return 0.0;
        }
        match self {
            // SAFETY: not null here, so the caller promises a float; `read_unaligned` needs no alignment.
            Self::Float => f64::from(unsafe { factor.cast::<f32>().read_unaligned() }),
            // SAFETY: not null here, so the caller promises a double; `read_unaligned` needs no alignment.
            Self::Double => unsafe { factor.cast::<f64>().read_unaligned() },
        }
    }
}

/// Factors that our own calls use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Constant {
    Zero = 0,
    Half = 1,
    One = 2,
}

impl Operands {
    /// The tensor that the call writes.
    pub fn result(&self, direction: Direction) -> *mut c_void {
        match direction {
            Direction::Forward => self.y,
            Direction::BackwardData => self.x,
            Direction::BackwardFilter => self.w,
        }
    }

    /// The same operands with another result.
    pub fn with_result(mut self, direction: Direction, result: *mut c_void) -> Self {
        match direction {
            Direction::Forward => self.y = result,
            Direction::BackwardData => self.x = result,
            Direction::BackwardFilter => self.w = result,
        }
        self
    }

    /// The operands of the micro-batch that starts at image `first`. The epilogue's z stays unchanged.
    pub fn starting_at(&self, kernel: &Kernel, first: usize) -> Self {
        let at = |data: *mut c_void, stride: usize| data.wrapping_byte_add(first * stride);
        Self { x: at(self.x, kernel.x.image_stride()), y: at(self.y, kernel.y.image_stride()), ..*self }
    }
}
