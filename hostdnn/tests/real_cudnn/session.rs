//! One descriptor of each kind, and everything that can be read back from them.

use super::api::{Api, Desc, Out};
use std::ffi::c_int;
use std::ptr::null_mut;

/// Descriptors of one library that calls set and read back. Results start at -77, which shows the unwritten ones.
pub struct Session<'a> {
    pub api: &'a Api,
    pub tensor: Desc,
    pub filter: Desc,
    pub convolution: Desc,
    pub activation: Desc,
    pub op: Desc,
}

/// The results' contents before a call.
pub const UNWRITTEN: c_int = -77;

pub fn wide(values: &[c_int]) -> Vec<i64> {
    values.iter().copied().map(i64::from).collect()
}

// SAFETY of all unsafe blocks below: descriptors are live, and the arrays are longer than anything written to them.
impl<'a> Session<'a> {
    pub fn new(api: &'a Api) -> Self {
        let make = |create: unsafe extern "C" fn(*mut Desc) -> c_int| {
            let mut desc = null_mut();
            // SAFETY: see above.
            assert_eq!(unsafe { create(&mut desc) }, 0);
            desc
        };
        Self {
            tensor: make(api.cudnnCreateTensorDescriptor),
            filter: make(api.cudnnCreateFilterDescriptor),
            convolution: make(api.cudnnCreateConvolutionDescriptor),
            activation: make(api.cudnnCreateActivationDescriptor),
            op: make(api.cudnnCreateOpTensorDescriptor),
            api,
        }
    }

    pub fn read_tensor(&self, requested: c_int) -> Vec<i64> {
        let (mut four, mut head, mut dims, mut strides, mut size) =
            ([UNWRITTEN; 9], [UNWRITTEN; 2], [UNWRITTEN; 10], [UNWRITTEN; 10], 77);
        let [ty, n, c, h, w, sn, sc, sh, sw] = four.each_mut().map(|v| v as Out);
        let [nd_ty, rank] = head.each_mut().map(|v| v as Out);
        // SAFETY: see above.
        let statuses = unsafe {
            [
                (self.api.cudnnGetTensor4dDescriptor)(self.tensor, ty, n, c, h, w, sn, sc, sh, sw),
                (self.api.cudnnGetTensorNdDescriptor)(
                    self.tensor,
                    requested,
                    nd_ty,
                    rank,
                    dims.as_mut_ptr(),
                    strides.as_mut_ptr(),
                ),
                (self.api.cudnnGetTensorSizeInBytes)(self.tensor, &mut size),
            ]
        };
        [wide(&statuses), wide(&four), wide(&head), wide(&dims), wide(&strides), vec![size as i64]].concat()
    }

    pub fn read_filter(&self, requested: c_int) -> Vec<i64> {
        let (mut four, mut head, mut dims, mut size) = ([UNWRITTEN; 6], [UNWRITTEN; 3], [UNWRITTEN; 10], 77);
        let [ty, format, k, c, h, w] = four.each_mut().map(|v| v as Out);
        let [nd_ty, nd_format, rank] = head.each_mut().map(|v| v as Out);
        // SAFETY: see above.
        let statuses = unsafe {
            [
                (self.api.cudnnGetFilter4dDescriptor)(self.filter, ty, format, k, c, h, w),
                (self.api.cudnnGetFilterNdDescriptor)(
                    self.filter,
                    requested,
                    nd_ty,
                    nd_format,
                    rank,
                    dims.as_mut_ptr(),
                ),
                (self.api.cudnnGetFilterSizeInBytes)(self.filter, &mut size),
            ]
        };
        [wide(&statuses), wide(&four), wide(&head), wide(&dims), vec![size as i64]].concat()
    }

    pub fn read_convolution(&self, requested: c_int) -> Vec<i64> {
        let (mut two, mut head, mut arrays, mut rest) =
            ([UNWRITTEN; 8], [UNWRITTEN; 3], [[UNWRITTEN; 8]; 3], [UNWRITTEN; 3]);
        let [ph, pw, u, v, dh, dw, mode, ty] = two.each_mut().map(|v| v as Out);
        let [length, nd_mode, nd_ty] = head.each_mut().map(|v| v as Out);
        let [pad, stride, dilation] = arrays.each_mut().map(|a| a.as_mut_ptr());
        let [math, groups, reorder] = rest.each_mut().map(|v| v as Out);
        let conv = self.convolution;
        // SAFETY: see above.
        let statuses = unsafe {
            [
                (self.api.cudnnGetConvolution2dDescriptor)(conv, ph, pw, u, v, dh, dw, mode, ty),
                (self.api.cudnnGetConvolutionNdDescriptor)(
                    conv, requested, length, pad, stride, dilation, nd_mode, nd_ty,
                ),
                (self.api.cudnnGetConvolutionMathType)(conv, math),
                (self.api.cudnnGetConvolutionGroupCount)(conv, groups),
                (self.api.cudnnGetConvolutionReorderType)(conv, reorder),
            ]
        };
        [wide(&statuses), wide(&two), wide(&head), wide(&arrays.concat()), wide(&rest)].concat()
    }

    pub fn read_output(&self, count: c_int) -> Vec<i64> {
        let (mut four, mut dims) = ([UNWRITTEN; 4], [UNWRITTEN; 10]);
        let [n, c, h, w] = four.each_mut().map(|v| v as Out);
        let (conv, x, filter) = (self.convolution, self.tensor, self.filter);
        // SAFETY: see above.
        let statuses = unsafe {
            [
                (self.api.cudnnGetConvolution2dForwardOutputDim)(conv, x, filter, n, c, h, w),
                (self.api.cudnnGetConvolutionNdForwardOutputDim)(conv, x, filter, count, dims.as_mut_ptr()),
            ]
        };
        [wide(&statuses), wide(&four), wide(&dims)].concat()
    }

    pub fn read_pointwise(&self) -> Vec<i64> {
        let (mut values, mut numbers) = ([UNWRITTEN; 5], [-77.0f64; 2]);
        let [mode, relu_nan, op, ty, nan] = values.each_mut().map(|v| v as Out);
        let [coef, beta] = numbers.each_mut().map(|v| v as *mut f64);
        // SAFETY: see above.
        let statuses = unsafe {
            [
                (self.api.cudnnGetActivationDescriptor)(self.activation, mode, relu_nan, coef),
                (self.api.cudnnGetActivationDescriptorSwishBeta)(self.activation, beta),
                (self.api.cudnnGetOpTensorDescriptor)(self.op, op, ty, nan),
            ]
        };
        [wide(&statuses), wide(&values), numbers.map(|v| v.to_bits() as i64).to_vec()].concat()
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        // SAFETY: made in `new`, and used no more.
        unsafe {
            (self.api.cudnnDestroyTensorDescriptor)(self.tensor);
            (self.api.cudnnDestroyFilterDescriptor)(self.filter);
            (self.api.cudnnDestroyConvolutionDescriptor)(self.convolution);
            (self.api.cudnnDestroyActivationDescriptor)(self.activation);
            (self.api.cudnnDestroyOpTensorDescriptor)(self.op);
        }
    }
}
