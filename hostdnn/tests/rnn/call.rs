//! A network's descriptors and memory, and the calls on them: forward, and backward for data and for weights.

use cudnn_abi::*;
use hostdnn::abi::*;
use std::ffi::{c_int, c_void};
use std::ptr::{null, null_mut};

/// The arguments of `cudnnSetRNNDescriptor_v8`, without those that tests here leave unchanged.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub cell: cudnnRNNMode_t,
    pub bias: cudnnRNNBiasMode_t,
    pub direction: cudnnDirectionMode_t,
    pub data_type: cudnnDataType_t,
    /// Input, hidden and projected size, and layers.
    pub sizes: [i32; 4],
    pub layout: cudnnRNNDataLayout_t,
    pub steps: i32,
    pub input_mode: cudnnRNNInputMode_t,
    pub dropout: cudnnDropoutDescriptor_t,
}

/// The arguments of `cudnnRNNForward`, in its order, and then those that only backward has.
#[derive(Clone, Copy)]
pub struct Call {
    pub handle: cudnnHandle_t,
    pub rnn: cudnnRNNDescriptor_t,
    pub mode: cudnnForwardMode_t,
    pub x_data: cudnnRNNDataDescriptor_t,
    pub x: *const c_void,
    pub y_data: cudnnRNNDataDescriptor_t,
    pub y: *mut c_void,
    pub h: cudnnTensorDescriptor_t,
    pub hx: *const c_void,
    pub hy: *mut c_void,
    pub c: cudnnTensorDescriptor_t,
    pub cx: *const c_void,
    pub cy: *mut c_void,
    pub weight_bytes: usize,
    pub weights: *const c_void,
    pub workspace_bytes: usize,
    pub workspace: *mut c_void,
    pub reserve_bytes: usize,
    pub reserve: *mut c_void,
    pub dy: *const c_void,
    pub dx: *mut c_void,
    pub dhy: *const c_void,
    pub dhx: *mut c_void,
    pub dcy: *const c_void,
    pub dcx: *mut c_void,
    pub add: cudnnWgradMode_t,
    pub dweights: *mut c_void,
}

// SAFETY of all unsafe blocks below: descriptors are live, and each pointer is null or valid for its data.
impl Call {
    pub fn run(&self) -> cudnnStatus_t {
        let c = *self;
        // SAFETY: see above.
        unsafe {
            cudnnRNNForward(
                c.handle,
                c.rnn,
                c.mode,
                null(),
                c.x_data,
                c.x,
                c.y_data,
                c.y,
                c.h,
                c.hx,
                c.hy,
                c.c,
                c.cx,
                c.cy,
                c.weight_bytes,
                c.weights,
                c.workspace_bytes,
                c.workspace,
                c.reserve_bytes,
                c.reserve,
            )
        }
    }
}

impl Call {
    pub fn backward_data(&self) -> cudnnStatus_t {
        let c = *self;
        // SAFETY: see above.
        unsafe {
            cudnnRNNBackwardData_v8(
                c.handle,
                c.rnn,
                null(),
                c.y_data,
                c.y,
                c.dy,
                c.x_data,
                c.dx,
                c.h,
                c.hx,
                c.dhy,
                c.dhx,
                c.c,
                c.cx,
                c.dcy,
                c.dcx,
                c.weight_bytes,
                c.weights,
                c.workspace_bytes,
                c.workspace,
                c.reserve_bytes,
                c.reserve,
            )
        }
    }

    pub fn backward_weights(&self) -> cudnnStatus_t {
        let c = *self;
        // SAFETY: see above.
        unsafe {
            cudnnRNNBackwardWeights_v8(
                c.handle,
                c.rnn,
                c.add,
                null(),
                c.x_data,
                c.x,
                c.h,
                c.hx,
                c.y_data,
                c.y,
                c.weight_bytes,
                c.dweights,
                c.workspace_bytes,
                c.workspace,
                c.reserve_bytes,
                c.reserve,
            )
        }
    }
}

pub fn sound(status: cudnnStatus_t) {
    assert_eq!(status, CUDNN_STATUS_SUCCESS);
}

pub fn made<T>(create: unsafe extern "C" fn(*mut *mut T) -> cudnnStatus_t) -> *mut T {
    let mut made = null_mut();
    // SAFETY: see above.
    sound(unsafe { create(&mut made) });
    made
}

/// A call with descriptors only: all memory is null, and sizes are the library's. Nothing is freed: a test's process is
/// short.
pub fn describe(shape: &Shape, lengths: &[c_int], mode: cudnnForwardMode_t, padding_fill: &mut f64) -> Call {
    let Shape { cell, bias, direction, data_type, sizes: [input, hidden, projection, layers], layout, steps, .. } =
        *shape;
    let (directions, batch) = (direction + 1, lengths.len() as c_int);
    let precision = if data_type == CUDNN_DATA_DOUBLE { CUDNN_DATA_DOUBLE } else { CUDNN_DATA_FLOAT };
    let (handle, rnn) = (made(cudnnCreate), made(cudnnCreateRNNDescriptor));
    let [x_data, y_data] = [0; 2].map(|_| made(cudnnCreateRNNDataDescriptor));
    let [h, c] = [0; 2].map(|_| made(cudnnCreateTensorDescriptor));
    let (mut weight_bytes, mut workspace_bytes, mut reserve_bytes) = (0, 0, 0);
    let fill = std::ptr::from_mut(padding_fill).cast();
    // SAFETY: see above.
    unsafe {
        sound(cudnnSetRNNDescriptor_v8(
            rnn,
            0,
            cell,
            bias,
            direction,
            shape.input_mode,
            data_type,
            precision,
            0,
            input,
            hidden,
            projection,
            layers,
            shape.dropout,
            1,
        ));
        for (data, vector) in [(x_data, input), (y_data, directions * projection)] {
            sound(cudnnSetRNNDataDescriptor(data, data_type, layout, steps, batch, vector, lengths.as_ptr(), fill));
        }
        for (tensor, size) in [(h, projection), (c, hidden)] {
            let dims = [layers * directions, batch, size];
            sound(cudnnSetTensorNdDescriptorEx(tensor, CUDNN_TENSOR_NCHW, data_type, 3, dims.as_ptr()));
        }
        sound(cudnnGetRNNWeightSpaceSize(handle, rnn, &mut weight_bytes));
        sound(cudnnGetRNNTempSpaceSizes(handle, rnn, mode, x_data, &mut workspace_bytes, &mut reserve_bytes));
    }
    Call {
        handle,
        rnn,
        mode,
        x_data,
        x: null(),
        y_data,
        y: null_mut(),
        h,
        hx: null(),
        hy: null_mut(),
        c,
        cx: null(),
        cy: null_mut(),
        weight_bytes,
        weights: null(),
        workspace_bytes,
        workspace: null_mut(),
        reserve_bytes,
        reserve: null_mut(),
        dy: null(),
        dx: null_mut(),
        dhy: null(),
        dhx: null_mut(),
        dcy: null(),
        dcx: null_mut(),
        add: CUDNN_WGRAD_MODE_ADD,
        dweights: null_mut(),
    }
}
