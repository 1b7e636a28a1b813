//! The functions that list and time algorithms.

use crate::operand::Handle;
use cudnn_abi::*;
use hostdnn::abi::*;
use std::ffi::c_int;
use std::ptr::null_mut;

/// A 3×3 convolution without stride: every algorithm of cuDNN runs except DIRECT (and WINOGRAD backwards).
struct Layer {
    x: cudnnTensorDescriptor_t,
    w: cudnnFilterDescriptor_t,
    conv: cudnnConvolutionDescriptor_t,
    y: cudnnTensorDescriptor_t,
    counts: [usize; 3],
}

impl Layer {
    fn new(batch: c_int, math_type: cudnnMathType_t) -> Self {
        let (mut x, mut w, mut conv, mut y) = (null_mut(), null_mut(), null_mut(), null_mut());
        // SAFETY: the arguments are live descriptors and places that are valid for writes.
        let statuses = unsafe {
            [
                cudnnCreateTensorDescriptor(&mut x),
                cudnnCreateTensorDescriptor(&mut y),
                cudnnCreateFilterDescriptor(&mut w),
                cudnnCreateConvolutionDescriptor(&mut conv),
                cudnnSetTensor4dDescriptor(x, 0, 0, batch, 8, 14, 14),
                cudnnSetTensor4dDescriptor(y, 0, 0, batch, 16, 14, 14),
                cudnnSetFilter4dDescriptor(w, 0, 0, 16, 8, 3, 3),
                cudnnSetConvolution2dDescriptor(conv, 1, 1, 1, 1, 1, 1, 1, 0),
                cudnnSetConvolutionMathType(conv, math_type),
            ]
        };
        assert_eq!(statuses, [CUDNN_STATUS_SUCCESS; 9]);
        let batch = batch as usize;
        Self { x, w, conv, y, counts: [batch * 8 * 196, 16 * 8 * 9, batch * 16 * 196] }
    }
}

impl Drop for Layer {
    fn drop(&mut self) {
        // SAFETY: made in `new`, and used no more.
        unsafe {
            cudnnDestroyTensorDescriptor(self.x);
            cudnnDestroyTensorDescriptor(self.y);
            cudnnDestroyFilterDescriptor(self.w);
            cudnnDestroyConvolutionDescriptor(self.conv);
        }
    }
}

/// A result of any direction.
#[derive(Clone, Copy, Debug)]
struct Entry {
    algo: c_int,
    status: cudnnStatus_t,
    time: f32,
    memory: usize,
    math_type: cudnnMathType_t,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Ask {
    Get,
    Find,
    FindEx(usize),
}

/// Asks about one direction with room for `room` entries; returns each entry with the workspace function's answer.
fn ask(handle: &Handle, layer: &Layer, direction: usize, how: Ask, room: usize) -> Vec<(Entry, Option<usize>)> {
    let Layer { x, w, conv, y, counts } = layer;
    let (x, w, conv, y, h) = (*x, *w, *conv, *y, handle.0);
    let [mut px, mut pw, mut py] = counts.map(|count| vec![0.5f32; count]);
    let (dx, dw, dy) = (px.as_mut_ptr().cast(), pw.as_mut_ptr().cast(), py.as_mut_ptr().cast());
    let (sx, sw, sy) = (px.as_ptr().cast(), pw.as_ptr().cast(), py.as_ptr().cast());
    let size = if let Ask::FindEx(size) = how { size } else { 0 };
    let mut workspace = vec![0xa5u8; size + 64];
    let scratch = workspace.as_mut_ptr().cast();
    let (room_c, mut count, mut bytes) = (room as c_int, -1, 0usize);
    macro_rules! entries {
        ($perf:ident, $get:ident, $find:ident, $find_ex:ident, $size:ident, $plain:tt, $full:tt) => {{
            // SAFETY: an entry of zeros is valid; buffers are as long as their descriptors and sizes say.
            unsafe {
                let mut all = vec![std::mem::zeroed::<$perf>(); room + 1];
                all[room].algo = -77;
                let status = match how {
                    Ask::Get => entries!(@call $get, $plain, (room_c, &mut count, all.as_mut_ptr())),
                    Ask::Find => entries!(@call $find, $plain, (room_c, &mut count, all.as_mut_ptr())),
                    Ask::FindEx(_) => {
                        entries!(@call $find_ex, $full, (room_c, &mut count, all.as_mut_ptr(), scratch, size))
                    }
                };
                assert_eq!(status, CUDNN_STATUS_SUCCESS, "{how:?}");
                assert_eq!(all[room].algo, -77, "more entries than there was room for");
                all.truncate(count as usize);
                all.into_iter()
                    .map(|e| {
                        let said = entries!(@call $size, $plain, (e.algo, &mut bytes)) == CUDNN_STATUS_SUCCESS;
                        let $perf { algo, status, time, memory, mathType: math_type, .. } = e;
                        (Entry { algo, status, time, memory, math_type }, said.then_some(bytes))
                    })
                    .collect()
            }
        }};
        (@call $function:ident, ($($plain:expr),*), ($($rest:expr),*)) => { $function(h, $($plain,)* $($rest),*) };
    }
    let result = match direction {
        0 => entries!(
            cudnnConvolutionFwdAlgoPerf_t,
            cudnnGetConvolutionForwardAlgorithm_v7,
            cudnnFindConvolutionForwardAlgorithm,
            cudnnFindConvolutionForwardAlgorithmEx,
            cudnnGetConvolutionForwardWorkspaceSize,
            (x, w, conv, y),
            (x, sx, w, sw, conv, y, dy)
        ),
        1 => entries!(
            cudnnConvolutionBwdDataAlgoPerf_t,
            cudnnGetConvolutionBackwardDataAlgorithm_v7,
            cudnnFindConvolutionBackwardDataAlgorithm,
            cudnnFindConvolutionBackwardDataAlgorithmEx,
            cudnnGetConvolutionBackwardDataWorkspaceSize,
            (w, y, conv, x),
            (w, sw, y, sy, conv, x, dx)
        ),
        _ => entries!(
            cudnnConvolutionBwdFilterAlgoPerf_t,
            cudnnGetConvolutionBackwardFilterAlgorithm_v7,
            cudnnFindConvolutionBackwardFilterAlgorithm,
            cudnnFindConvolutionBackwardFilterAlgorithmEx,
            cudnnGetConvolutionBackwardFilterWorkspaceSize,
            (x, y, conv, w),
            (x, sx, y, sy, conv, w, dw)
        ),
    };
    assert!(workspace[size..].iter().all(|&byte| byte == 0xa5), "written behind the workspace");
    result
}

fn max_count(handle: &Handle, direction: usize) -> usize {
    let mut count = 0;
    // SAFETY: the count is valid for a write.
    let status = unsafe {
        match direction {
            0 => cudnnGetConvolutionForwardAlgorithmMaxCount(handle.0, &mut count),
            1 => cudnnGetConvolutionBackwardDataAlgorithmMaxCount(handle.0, &mut count),
            _ => cudnnGetConvolutionBackwardFilterAlgorithmMaxCount(handle.0, &mut count),
        }
    };
    assert_eq!(status, CUDNN_STATUS_SUCCESS);
    count as usize
}

/// Every list has each algorithm once, the workspace function's sizes, and successes first.
fn check(list: &[(Entry, Option<usize>)], direction: usize, all: usize) {
    assert_eq!(list.len(), all, "direction {direction}");
    let mut ids: Vec<c_int> = list.iter().map(|(entry, _)| entry.algo).collect();
    ids.sort_unstable();
    assert!(ids.iter().copied().eq(0..all as c_int), "{ids:?}");
    for (entry, said) in list {
        match said {
            Some(bytes) => assert_eq!(entry.memory, *bytes, "{entry:?}"),
            None => assert_eq!(entry.status, CUDNN_STATUS_NOT_SUPPORTED, "{entry:?}"),
        }
    }
    let failed_first = list.iter().position(|(entry, _)| entry.status != CUDNN_STATUS_SUCCESS).unwrap_or(all);
    assert!(failed_first > 0, "{list:?}");
    assert!(list[failed_first..].iter().all(|(entry, _)| entry.status != CUDNN_STATUS_SUCCESS), "{list:?}");
}

/// Successes are timed and sorted; no other entry is timed.
fn check_times(list: &[(Entry, Option<usize>)]) {
    let successes: Vec<f32> =
        list.iter().filter(|(e, _)| e.status == CUDNN_STATUS_SUCCESS).map(|(e, _)| e.time).collect();
    assert!(successes.iter().all(|&time| time > 0.0) && successes.is_sorted(), "{successes:?}");
    assert!(list.iter().filter(|(e, _)| e.status != CUDNN_STATUS_SUCCESS).all(|(e, _)| e.time == -1.0), "{list:?}");
}

#[test]
fn lists_are_complete_and_honest() {
    let handle = Handle::new();
    let layer = Layer::new(3, CUDNN_DEFAULT_MATH);
    for direction in 0..3 {
        let all = max_count(&handle, direction);
        let ranked = ask(&handle, &layer, direction, Ask::Get, 10);
        check(&ranked, direction, all);
        assert!(ranked.iter().all(|(entry, _)| entry.time == -1.0), "nothing is timed: {ranked:?}");
        for how in [Ask::Find, Ask::FindEx(64 << 20)] {
            let timed = ask(&handle, &layer, direction, how, 10);
            check(&timed, direction, all);
            check_times(&timed);
        }
        assert_eq!(ask(&handle, &layer, direction, Ask::Get, 2).len(), 2);
        assert_eq!(ask(&handle, &layer, direction, Ask::Find, 1).len(), 1);
    }
}

#[test]
fn the_math_type_is_the_one_used() {
    let handle = Handle::new();
    for (asked, used) in [
        (CUDNN_DEFAULT_MATH, CUDNN_DEFAULT_MATH),
        (CUDNN_TENSOR_OP_MATH, CUDNN_DEFAULT_MATH),
        (CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION, CUDNN_DEFAULT_MATH),
        (CUDNN_FMA_MATH, CUDNN_FMA_MATH),
    ] {
        let list = ask(&handle, &Layer::new(1, asked), 0, Ask::Get, 10);
        assert!(list.iter().all(|(entry, _)| entry.math_type == used), "{asked}: {list:?}");
    }
}

#[test]
fn what_does_not_fit_the_given_workspace_is_listed_as_such() {
    let handle = Handle::new();
    let layer = Layer::new(4, CUDNN_DEFAULT_MATH);
    for direction in 0..3 {
        let sizes: Vec<usize> = ask(&handle, &layer, direction, Ask::Get, 10)
            .iter()
            .filter(|(entry, _)| entry.status == CUDNN_STATUS_SUCCESS)
            .map(|(entry, _)| entry.memory)
            .collect();
        let largest = *sizes.iter().max().unwrap();
        assert!(largest > 0, "no algorithm needs a workspace");
        for given in [0, largest - 1, largest] {
            let list = ask(&handle, &layer, direction, Ask::FindEx(given), 10);
            check(&list, direction, max_count(&handle, direction));
            check_times(&list);
            for (entry, said) in &list {
                let fits = said.is_some_and(|bytes| bytes <= given);
                assert_eq!(entry.status == CUDNN_STATUS_SUCCESS, fits, "{given} bytes: {entry:?}");
                assert!(fits || said.is_none() || entry.status == CUDNN_STATUS_ALLOC_FAILED, "{entry:?}");
            }
        }
    }
}

/// Faults of single algorithms show in their entries. Batch 5 is this test's own.
#[test]
fn an_algorithm_that_fails_is_listed_with_its_status() {
    let handle = Handle::new();
    let layer = Layer::new(5, CUDNN_DEFAULT_MATH);
    // SAFETY: the argument is a C string.
    let armed = unsafe { hostdnnFail(c"cudnnFindConvolutionForwardAlgorithm@algo=1@batch=5:1+".as_ptr()) };
    assert_eq!(armed, CUDNN_STATUS_SUCCESS);
    let list = ask(&handle, &layer, 0, Ask::Find, 10);
    let failed = list.iter().find(|(entry, _)| entry.algo == 1).unwrap().0;
    assert_eq!((failed.status, failed.time), (CUDNN_STATUS_EXECUTION_FAILED, -1.0));
    // SAFETY: null disarms.
    assert_eq!(unsafe { hostdnnFail(std::ptr::null()) }, CUDNN_STATUS_SUCCESS);
    let list = ask(&handle, &layer, 0, Ask::Find, 10);
    assert_eq!(list.iter().find(|(entry, _)| entry.algo == 1).unwrap().0.status, CUDNN_STATUS_SUCCESS);
}
