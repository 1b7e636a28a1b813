//! Sizes of temporary memory, and the derived descriptor.

use super::call::*;
use crate::operand::*;
use cudnn_abi::*;
use hostdnn::abi::*;
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::ffi::c_int;

/// The statuses and sizes of forward and backward workspace and of the reserve; -1 if nothing is written.
pub fn sizes(p: &Problem) -> [(cudnnStatus_t, i64); 3] {
    let mut sizes = [usize::MAX; 3];
    let [forward, backward, reserve] = sizes.each_mut().map(|size| size as *mut usize);
    let (handle, mode, ops, activation, parameters) = (p.handle.0, p.mode, p.ops, p.activation.0, p.scale.desc);
    let (x, z, y) = (p.x.desc, p.z.desc, p.y.desc);
    let (dy, dz, dx) = (p.dy.desc, p.dz.desc, p.dx.desc);
    // SAFETY: descriptors are live, and results are valid for a write.
    let statuses = unsafe {
        [
            cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
                handle, mode, ops, x, z, y, parameters, activation, forward,
            ),
            cudnnGetBatchNormalizationBackwardExWorkspaceSize(
                handle, mode, ops, x, y, dy, dz, dx, parameters, activation, backward,
            ),
            cudnnGetBatchNormalizationTrainingExReserveSpaceSize(handle, mode, ops, activation, x, reserve),
        ]
    };
    std::array::from_fn(|i| (statuses[i], sizes[i] as i64))
}

fn problem(
    ty: cudnnDataType_t,
    mode: cudnnBatchNormMode_t,
    ops: cudnnBatchNormOps_t,
    dims: &[usize],
    last: bool,
) -> Problem {
    let layout = |dims: &[usize], _: &mut StdRng| if last { channels_last(dims) } else { packed(dims) };
    Problem::new(ty, mode, ops, dims, layout, &mut StdRng::seed_from_u64(1))
}

/// cuDNN 9 on an H100 gives these statuses, these reserves, and workspaces for the same cases.
#[test]
fn sizes_are_asked_for_where_cudnn_does() {
    let unsupported = (CUDNN_STATUS_NOT_SUPPORTED, -1);
    let fine = |size: i64| (CUDNN_STATUS_SUCCESS, size);
    for mode in 0..3 {
        for ops in 0..3 {
            for last in [false, true] {
                for ty in [CUDNN_DATA_FLOAT, CUDNN_DATA_DOUBLE, CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16] {
                    for channels in [3, 4, 8] {
                        let got = sizes(&problem(ty, mode, ops, &[2, channels, 3, 4], last));
                        let persistent = mode == CUDNN_BATCHNORM_SPATIAL_PERSISTENT;
                        let fast = persistent && last && ty != CUDNN_DATA_DOUBLE;
                        let workspace = fine(if fast { 16 * channels as i64 } else { 0 });
                        let refused = persistent && ops > 0 && !fast;
                        let sums = persistent && ops == CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION;
                        let want = [
                            if refused || (sums && channels == 3) { unsupported } else { workspace },
                            if refused { unsupported } else { workspace },
                            if !sums {
                                fine(0)
                            } else if last {
                                fine(1280)
                            } else {
                                unsupported
                            },
                        ];
                        assert_eq!(got, want, "mode {mode} ops {ops} last {last} type {ty} channels {channels}");
                    }
                }
            }
        }
    }
}

/// A bit for each element in pieces of 256 bytes, and 1024 bytes: cuDNN 9's sizes.
#[test]
fn the_reserve_has_cudnns_size() {
    let p = problem(CUDNN_DATA_HALF, CUDNN_BATCHNORM_SPATIAL_PERSISTENT, 2, &[2, 8, 3, 4], true);
    for (dims, bytes) in [
        (&[8, 64, 56, 56][..], 201_728),
        (&[2, 64, 4, 8, 8], 5120),
        (&[32, 256, 14, 14], 201_728),
        (&[1, 64, 1, 1], 1280),
    ] {
        let (rank, ty) = (dims.len() as c_int, CUDNN_DATA_HALF);
        // SAFETY: the descriptor is live, and the array is as long as the rank.
        let set = unsafe { cudnnSetTensorNdDescriptorEx(p.x.desc, CUDNN_TENSOR_NHWC, ty, rank, dims.as_ptr()) };
        assert_eq!(set, CUDNN_STATUS_SUCCESS);
        assert_eq!(sizes(&p)[2], (CUDNN_STATUS_SUCCESS, bytes), "{dims:?}");
    }
    // A single place is packed in both orders.
    let p = problem(CUDNN_DATA_HALF, CUDNN_BATCHNORM_SPATIAL_PERSISTENT, 2, &[1, 64, 1, 1], false);
    assert_eq!(sizes(&p)[2], (CUDNN_STATUS_SUCCESS, 1280));
}

/// The sizes that cuDNN's functions report are enough, and one byte less is refused.
#[test]
fn temporary_memory_is_checked() {
    let mut dice = StdRng::seed_from_u64(2);
    for ops in [CUDNN_BATCHNORM_OPS_BN_ACTIVATION, CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION] {
        let sums = ops == CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION;
        for (short_of_workspace, short_of_reserve) in [(0, 0), (1, 0), (0, 1)] {
            let mut p = Problem::fused(ops, &[2, 8, 3, 4], &mut dice);
            let [(_, forward), (_, backward), (_, reserve)] = sizes(&p);
            assert!(forward > 0 && backward > 0 && (reserve > 0) == sums);
            p.reserve.truncate(reserve.saturating_sub(short_of_reserve) as usize);
            let want = match short_of_workspace == 1 || (sums && short_of_reserve == 1) {
                true => CUDNN_STATUS_NOT_SUPPORTED,
                false => CUDNN_STATUS_SUCCESS,
            };
            p.workspace.truncate((forward - short_of_workspace) as usize);
            assert_eq!(p.train_ex(), want);
            p.workspace.truncate((backward - short_of_workspace) as usize);
            assert_eq!(p.differentiate_ex(), want);
        }
    }
}

/// Arguments of no use have no size.
#[test]
fn sizes_of_bad_arguments_are_refused() {
    let expect = |what: &str, change: &dyn Fn(&mut Problem), want: [cudnnStatus_t; 3]| {
        let mut p = Problem::fused(CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION, &[2, 8, 3, 4], &mut StdRng::seed_from_u64(1));
        change(&mut p);
        let got = sizes(&p);
        assert_eq!(got.map(|(status, _)| status), want, "{what}");
        assert!(got.iter().all(|&(status, size)| status == CUDNN_STATUS_SUCCESS || size == -1), "{what}: {got:?}");
    };
    const FINE: cudnnStatus_t = CUDNN_STATUS_SUCCESS;
    const BAD: cudnnStatus_t = CUDNN_STATUS_BAD_PARAM;
    const UNSUPPORTED: cudnnStatus_t = CUDNN_STATUS_NOT_SUPPORTED;
    let operand = |dims: &[usize]| Operand::poisoned(CUDNN_DATA_HALF, dims, channels_last(dims));
    expect("nothing", &|_| (), [FINE; 3]);
    for bad in [-1, 3] {
        expect("mode", &|p| p.mode = bad, [BAD; 3]);
        expect("operations", &|p| p.ops = bad, [BAD; 3]);
    }
    expect(
        "x of three dimensions",
        &|p| [&mut p.x, &mut p.y].into_iter().for_each(|t| *t = operand(&[2, 8, 3])),
        [BAD; 3],
    );
    expect("nine channels", &|p| p.scale = operand(&[1, 9, 1, 1]), [BAD, BAD, FINE]);
    expect("z of nine channels", &|p| p.z = operand(&[2, 9, 3, 4]), [BAD, FINE, FINE]);
    expect("dz of nine channels", &|p| p.dz = operand(&[2, 9, 3, 4]), [FINE, BAD, FINE]);
    let sigmoid = |p: &mut Problem| p.activation = Activation::new(CUDNN_ACTIVATION_SIGMOID);
    expect("sigmoid", &sigmoid, [UNSUPPORTED, UNSUPPORTED, FINE]);
}
