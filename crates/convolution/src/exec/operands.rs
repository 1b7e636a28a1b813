//! The scaling factors of a convolution.

use std::ffi::c_void;

use cudnn_abi::*;

use crate::problem::Problem;

/// The type of `alpha` and `beta`. cuDNN takes doubles for double data and floats for all other data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scaling {
    Float,
    Double,
}

/// The type of a problem's scaling factors.
pub fn scaling_type(problem: &Problem) -> Scaling {
    if problem.y.data_type == CUDNN_DATA_DOUBLE { Scaling::Double } else { Scaling::Float }
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
