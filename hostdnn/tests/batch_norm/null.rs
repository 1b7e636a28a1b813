//! Null in place of each pointer, and descriptors of a wrong kind.

use super::call::*;
use super::sizes::sizes;
use crate::null_and_hostile::each_null;
use crate::operand::*;
use cudnn_abi::*;
use hostdnn::abi::*;
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::ffi::c_void;
use std::ptr::null_mut;

const DIMS: [usize; 4] = [2, 8, 3, 4];

// SAFETY of all unsafe blocks in this file: pointers are null, live descriptors, or buffers of the size they stand for.

#[test]
fn null_is_a_bad_parameter() {
    let mut dice = StdRng::seed_from_u64(1);
    let mut p = Problem::fused(CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION, &DIMS, &mut dice);
    p.running[1].fill(&[0.5; 8]);
    p.saved.iter_mut().for_each(|saved| saved.fill(&[0.5; 8]));
    let (one, zero) = (Scale::new(1.0, CUDNN_DATA_FLOAT), Scale::new(0.0, CUDNN_DATA_FLOAT));
    let (one, zero) = (one.pointer(), zero.pointer());
    let (h, mode, eps, a, b) = (p.handle.0, p.mode, p.epsilon, p.activation.0, p.scale.desc);
    // All tensors have one layout.
    let t = p.x.desc;
    let (x, z, dy) = (p.x.pointer(), p.z.pointer(), p.dy.pointer());
    let (y, dz, dx) = (p.y.pointer_mut(), p.dz.pointer_mut(), p.dx.pointer_mut());
    let (scale, bias) = (p.scale.pointer(), p.bias.pointer());
    let [mean, variance] = p.running.each_mut().map(Operand::pointer_mut);
    let (c_mean, c_variance) = (mean.cast_const(), variance.cast_const());
    let [s_mean, s_deviation] = p.saved.each_mut().map(Operand::pointer_mut);
    let (cs_mean, cs_deviation) = (s_mean.cast_const(), s_deviation.cast_const());
    let [d_scale, d_bias] = p.gradients.each_mut().map(Operand::pointer_mut);
    let (w, wn): (*mut c_void, usize) = (p.workspace.as_mut_ptr().cast(), p.workspace.len());
    let (r, rn): (*mut c_void, usize) = (p.reserve.as_mut_ptr().cast(), p.reserve.len());
    let (mut size, n) = (0, null_mut::<c_void>());
    let (size, no): (*mut usize, _) = (&mut size, null_mut::<cudnnActivationStruct>());

    let mut derived = null_mut();
    // SAFETY: see above.
    assert_eq!(unsafe { cudnnCreateTensorDescriptor(&mut derived) }, CUDNN_STATUS_SUCCESS);
    each_null!(cudnnDeriveBNTensorDescriptor(derived, t, mode), null at [0, 1]);
    // SAFETY: see above.
    unsafe { cudnnDestroyTensorDescriptor(derived) };

    const ADDS: cudnnBatchNormOps_t = CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION;
    const ACTS: cudnnBatchNormOps_t = CUDNN_BATCHNORM_OPS_BN_ACTIVATION;
    each_null!(
        cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(h, mode, ADDS, t, t, t, b, a, size),
        null at [0, 3, 4, 5, 6, 7, 8]
    );
    each_null!(
        cudnnGetBatchNormalizationBackwardExWorkspaceSize(h, mode, ADDS, t, t, t, t, t, b, a, size),
        null at [0, 3, 5, 6, 7, 8, 9, 10]
    );
    each_null!(cudnnGetBatchNormalizationTrainingExReserveSpaceSize(h, mode, ADDS, a, t, size), null at [0, 3, 4, 5]);
    each_null!(
        cudnnBatchNormalizationForwardTraining(
            h, mode, one, zero, t, x, t, y, b, scale, bias, 1.0, mean, variance, eps, s_mean, s_deviation
        ),
        null at [0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 15, 16]
    );
    each_null!(
        cudnnBatchNormalizationForwardTrainingEx(
            h, mode, ADDS, one, zero, t, x, t, z, t, y, b, scale, bias, 1.0, mean, variance, eps, s_mean, s_deviation,
            a, w, wn, r, rn
        ),
        null at [0, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 18, 19, 20]
    );
    each_null!(
        cudnnBatchNormalizationForwardInference(
            h, mode, one, zero, t, x, t, y, b, scale, bias, c_mean, c_variance, eps
        ),
        null at [0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
    );
    each_null!(
        cudnnBatchNormalizationBackward(
            h, mode, one, zero, one, zero, t, x, t, dy, t, dx, b, scale, d_scale, d_bias, eps, cs_mean, cs_deviation
        ),
        null at [0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 17, 18]
    );
    each_null!(
        cudnnBatchNormalizationBackwardEx(
            h, mode, ADDS, one, zero, one, zero, t, x, t, x, t, dy, t, dz, t, dx, b, scale, bias, d_scale, d_bias,
            eps, cs_mean, cs_deviation, a, w, wn, r, rn
        ),
        null at [0, 3, 4, 5, 6, 7, 8, 11, 12, 13, 14, 15, 16, 17, 18, 20, 21, 23, 24, 25]
    );
    // Without a sum the bias is read, and neither dz nor the reserve.
    each_null!(
        cudnnBatchNormalizationBackwardEx(
            h, mode, ACTS, one, zero, one, zero, t, x, null_mut(), n.cast_const(), t, dy, null_mut(), n, t, dx, b,
            scale, bias, d_scale, d_bias, eps, cs_mean, cs_deviation, a, w, wn, n, 0
        ),
        null at [0, 7, 8, 11, 12, 15, 16, 17, 18, 19, 20, 21, 23, 24, 25]
    );
    // Plain normalization needs none of the other operations' arguments.
    each_null!(
        cudnnBatchNormalizationForwardTrainingEx(
            h, mode, 0, one, zero, t, x, null_mut(), n.cast_const(), t, y, b, scale, bias, 1.0, n, n, eps, n, n, no, n,
            0, n, 0
        ),
        null at [0, 3, 4, 5, 6, 9, 10, 11, 12, 13]
    );
}

/// Missing temporary memory is not supported; a wrong kind of descriptor is a bad parameter.
#[test]
fn hostile_arguments_are_refused() {
    let mut dice = StdRng::seed_from_u64(1);
    for ops in [CUDNN_BATCHNORM_OPS_BN_ACTIVATION, CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION] {
        let mut p = Problem::fused(ops, &DIMS, &mut dice);
        let activation = std::mem::replace(&mut p.activation.0, p.x.desc.cast());
        assert_eq!([p.train_ex(), p.differentiate_ex()], [CUDNN_STATUS_BAD_PARAM; 2]);
        assert_eq!(sizes(&p).map(|(status, _)| status), [CUDNN_STATUS_BAD_PARAM; 3]);
        let x = std::mem::replace(&mut p.x.desc, activation.cast());
        p.activation.0 = activation;
        let calls =
            [Problem::train, Problem::train_ex, Problem::infer, Problem::differentiate, Problem::differentiate_ex];
        assert_eq!(calls.map(|call| call(&mut p)), [CUDNN_STATUS_BAD_PARAM; 5]);
        assert_eq!(sizes(&p), [(CUDNN_STATUS_BAD_PARAM, -1); 3]);
        assert!(p.is_untouched());
        p.x.desc = x;
        assert_eq!([p.train_ex(), p.differentiate_ex()], [CUDNN_STATUS_SUCCESS; 2]);
    }
}
