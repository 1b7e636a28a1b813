//! Faults on demand in the graph API, in a process of their own: a process has one list of armed faults.

use crate::backend::*;
use crate::child::is_child;
use crate::operand::*;
use cudnn_abi::*;
use hostdnn::abi::*;
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::ffi::CString;

fn arm(faults: &str) {
    let faults = CString::new(faults).unwrap();
    // SAFETY: the argument is a C string.
    assert_eq!(unsafe { hostdnnFail(faults.as_ptr()) }, CUDNN_STATUS_SUCCESS);
}

#[test]
fn graph_calls_fail_as_they_are_told() {
    if !is_child("graph_faults::graph_calls_fail_as_they_are_told", &[]) {
        return;
    }
    let handle = Handle::new();
    let mut dice = StdRng::seed_from_u64(1);
    let mut operand = |dims: &[usize]| Operand::random(CUDNN_DATA_FLOAT, dims, packed(dims), &mut dice);
    let (x, w, mut y) = (operand(&[5, 4, 6, 6]), operand(&[8, 4, 3, 3]), operand(&[5, 8, 6, 6]));
    let geometry = convolution(&[1, 1], &[1, 1], &[1, 1], false, CUDNN_DATA_FLOAT);
    let tensors = [tensor(1, &x), tensor(2, &w), tensor(3, &y)];
    let [x_tensor, w_tensor, y_tensor] = &tensors;
    let graph = graph(&[&convolve(&FORWARD, [x_tensor, w_tensor, y_tensor], &geometry, 1.0, 0.0)]);
    let [gemm, fft] = [CUDNN_CONVOLUTION_FWD_ALGO_GEMM, CUDNN_CONVOLUTION_FWD_ALGO_FFT]
        .map(|engine_index| plan(&configuration(&engine(&graph, engine_index.into()), &[]).finalized()).unwrap());
    let pointers = [(1, x.pointer()), (2, w.pointer()), (3, y.pointer_mut().cast_const())];
    let run = |plan: &Backend| execute(handle.0, plan, &pointers);
    let failed = CUDNN_STATUS_EXECUTION_FAILED;

    arm("cudnnBackendExecute:2");
    assert_eq!([run(&gemm), run(&gemm), run(&gemm)], [0, failed, 0]);
    // An engine's global index is the algorithm's id.
    arm("cudnnBackendExecute@algo=4@batch=5:1+");
    assert_eq!([run(&gemm), run(&fft), run(&fft)], [0, failed, failed]);
    arm("cudnnBackendExecute@batch=4:1+");
    assert_eq!([run(&gemm), run(&fft)], [0, 0]);
    arm("cudnnBackendExecute=panic");
    assert_eq!([run(&gemm), run(&gemm)], [CUDNN_STATUS_INTERNAL_ERROR, 0]);
    let configuration = heuristics(&graph, CUDNN_HEUR_MODE_FALLBACK).remove(0);
    arm("cudnnBackendFinalize=3000");
    assert_eq!(plan(&configuration).err(), Some(CUDNN_STATUS_NOT_SUPPORTED));
    assert!(plan(&configuration).is_ok());
}
