//! One descriptor of each kind, and everything that can be read back from them.

use super::api::{Api, Desc, Out};
use std::ffi::c_int;
use std::ptr::null_mut;

/// The results' contents before a call, which show the unwritten ones.
pub const UNWRITTEN: c_int = -77;

/// An address for arithmetic only.
pub const SPACE: usize = 0x10_0000;

pub struct Session<'a> {
    pub api: &'a Api,
    pub rnn: Desc,
    pub dropout: Desc,
    /// The input's and the output's descriptor.
    pub data: [Desc; 2],
    /// A matrix and a bias, or the states h and c.
    pub tensors: [Desc; 2],
}

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
            api,
            rnn: make(api.cudnnCreateRNNDescriptor),
            dropout: make(api.cudnnCreateDropoutDescriptor),
            data: [0, 1].map(|_| make(api.cudnnCreateRNNDataDescriptor)),
            tensors: [0, 1].map(|_| make(api.cudnnCreateTensorDescriptor)),
        }
    }

    pub fn read_rnn(&self) -> Vec<i64> {
        let (mut values, mut flags, mut dropout) = ([UNWRITTEN; 12], 77u32, null_mut());
        let [algo, cell, bias, dir, input, ty, prec, math, i, h, p, l] = values.each_mut().map(|v| v as Out);
        let (mut mode, mut nan, mut range) = ([UNWRITTEN; 2], UNWRITTEN, [-77.0f64; 4]);
        let [mode8, mode9] = mode.each_mut().map(|v| v as Out);
        let [low8, high8, low9, high9] = range.each_mut().map(|v| v as *mut f64);
        let (rnn, dropout_out) = (self.rnn, &raw mut dropout);
        let mut size = 77;
        // SAFETY: see above.
        let statuses = unsafe {
            [
                (self.api.cudnnGetRNNDescriptor_v8)(
                    rnn,
                    algo,
                    cell,
                    bias,
                    dir,
                    input,
                    ty,
                    prec,
                    math,
                    i,
                    h,
                    p,
                    l,
                    dropout_out,
                    &mut flags,
                ),
                (self.api.cudnnRNNGetClip_v8)(rnn, mode8, &mut nan, low8, high8),
                (self.api.cudnnRNNGetClip_v9)(rnn, mode9, low9, high9),
                (self.api.cudnnGetRNNWeightSpaceSize)(self.api.handle, rnn, &mut size),
            ]
        };
        let which = i64::from(dropout == self.dropout) - i64::from(dropout.is_null());
        let rest = [i64::from(flags), which, i64::from(nan), size as i64];
        [wide(&statuses), wide(&values), rest.into(), wide(&mode), range.map(|v| v.to_bits() as i64).into()].concat()
    }

    pub fn read_data(&self, which: usize, requested: c_int) -> Vec<i64> {
        let (mut head, mut lengths, mut fill) = ([UNWRITTEN; 5], [UNWRITTEN; 16], [0xAAu8; 16]);
        let [ty, layout, steps, batch, vector] = head.each_mut().map(|v| v as Out);
        // SAFETY: see above.
        let status = unsafe {
            (self.api.cudnnGetRNNDataDescriptor)(
                self.data[which],
                ty,
                layout,
                steps,
                batch,
                vector,
                requested,
                lengths.as_mut_ptr(),
                fill.as_mut_ptr().cast(),
            )
        };
        // After the last length, cuDNN writes zeros or leaves the old values.
        let count = head[3].clamp(0, 16) as usize;
        let fill: Vec<_> = fill.iter().copied().map(i64::from).collect();
        [vec![status.into()], wide(&head), wide(&lengths[..count]), fill].concat()
    }

    pub fn read_dropout(&self) -> Vec<i64> {
        let (mut probability, mut states, mut seed) = (-77.0, null_mut(), 77);
        // SAFETY: see above.
        let status = unsafe {
            let handle = self.api.handle;
            (self.api.cudnnGetDropoutDescriptor)(self.dropout, handle, &mut probability, &mut states, &mut seed)
        };
        vec![status.into(), i64::from(probability.to_bits()), states.addr() as i64, seed as i64]
    }

    pub fn read_tensor(&self, which: usize) -> Vec<i64> {
        let (mut head, mut dims, mut strides) = ([UNWRITTEN; 2], [UNWRITTEN; 10], [UNWRITTEN; 10]);
        let [ty, rank] = head.each_mut().map(|v| v as Out);
        // SAFETY: see above.
        let status = unsafe {
            let (dims, strides) = (dims.as_mut_ptr(), strides.as_mut_ptr());
            (self.api.cudnnGetTensorNdDescriptor)(self.tensors[which], 8, ty, rank, dims, strides)
        };
        [vec![status.into()], wide(&head), wide(&dims), wide(&strides)].concat()
    }

    /// The offsets of a pseudo layer's matrix and bias in bytes; -1 if there is none.
    pub fn read_weights(&self, pseudo_layer: c_int, id: c_int, size: usize, space: usize) -> Vec<i64> {
        let (mut matrix, mut bias) = (5 as Desc, 5 as Desc);
        let ones = [1; 4];
        // SAFETY: see above.
        let status = unsafe {
            for tensor in self.tensors {
                assert_eq!((self.api.cudnnSetTensorNdDescriptor)(tensor, 1, 4, ones.as_ptr(), ones.as_ptr()), 0);
            }
            (self.api.cudnnGetRNNWeightParams)(
                self.api.handle,
                self.rnn,
                pseudo_layer,
                size,
                space as *const _,
                id,
                self.tensors[0],
                &mut matrix,
                self.tensors[1],
                &mut bias,
            )
        };
        let places = [matrix, bias].map(|place| place.addr() as i64).to_vec();
        [vec![status.into()], places, self.read_tensor(0), self.read_tensor(1)].concat()
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        // SAFETY: made in `new`, and used no more.
        unsafe {
            (self.api.cudnnDestroyRNNDescriptor)(self.rnn);
            (self.api.cudnnDestroyDropoutDescriptor)(self.dropout);
            for data in self.data {
                (self.api.cudnnDestroyRNNDataDescriptor)(data);
            }
            for tensor in self.tensors {
                (self.api.cudnnDestroyTensorDescriptor)(tensor);
            }
        }
    }
}
