//! Batch normalization without a GPU: the derived descriptor, and calls without a handle.

use super::api::Api;
use super::session::Session;
use crate::libraries::both;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::ffi::c_int;
use std::ptr::null_mut;

#[test]
fn descriptors_are_derived_alike() {
    let Some(libraries) = both(Api::open) else { return };
    let mut derived = 0;
    for seed in 0..3000 {
        let mut dice = StdRng::seed_from_u64(seed);
        let (data_type, rank, mode) = (dice.random_range(0..10), dice.random_range(2..9), dice.random_range(-1..4));
        let dims: [c_int; 8] = std::array::from_fn(|_| dice.random_range(1..9));
        let strides: [c_int; 8] = std::array::from_fn(|_| dice.random_range(-300..300) * 2 + 1);
        // Unset, packed, strided, or derived into itself.
        let way = dice.random_range(0..20);
        let transcripts = libraries.each_ref().map(|api| {
            let (from, to) = (Session::new(api), Session::new(api));
            let (x, d, s) = (from.tensor, dims.as_ptr(), strides.as_ptr());
            // SAFETY: descriptors are live, and the arrays are longer than the rank.
            unsafe {
                let set = match way {
                    0 => 0,
                    1..10 => (api.cudnnSetTensorNdDescriptorEx)(x, 0, data_type, rank, d),
                    _ => (api.cudnnSetTensorNdDescriptor)(x, data_type, rank, d, s),
                };
                let earlier = (api.cudnnSetTensor4dDescriptor)(to.tensor, 0, 2, 5, 6, 7, 8);
                let into = if way % 5 == 4 { &from } else { &to };
                let status = (api.cudnnDeriveBNTensorDescriptor)(into.tensor, x, mode);
                (set, earlier, status, from.read_tensor(8), to.read_tensor(8))
            }
        });
        let [ours, real] = transcripts;
        derived += usize::from(real.2 == 0);
        assert_eq!(ours, real, "seed {seed}, type {data_type}, {:?}, mode {mode}", &dims[..rank as usize]);
    }
    assert!(derived > 1000, "{derived} descriptors derived");
}

#[test]
fn null_handles_are_refused_alike() {
    let Some([ours, real]) = both(Api::open) else { return };
    let statuses = |api: &Api| {
        let session = Session::new(api);
        let (t, n, mode, mut size) = (session.tensor, null_mut(), 1, 77);
        // SAFETY: cuDNN checks for the null handle, or the null descriptor, that each of these calls passes.
        let statuses = unsafe {
            assert_eq!((api.cudnnSetTensor4dDescriptor)(t, 0, 0, 2, 3, 4, 5), 0);
            vec![
                (api.cudnnDeriveBNTensorDescriptor)(n, t, mode),
                (api.cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize)(n, mode, 0, t, t, t, t, n, &mut size),
                (api.cudnnGetBatchNormalizationBackwardExWorkspaceSize)(n, mode, 0, t, t, t, t, t, t, n, &mut size),
                (api.cudnnGetBatchNormalizationTrainingExReserveSpaceSize)(n, mode, 0, n, t, &mut size),
                (api.cudnnBatchNormalizationForwardTraining)(n, mode, n, n, t, n, t, n, t, n, n, 1., n, n, 1., n, n),
                (api.cudnnBatchNormalizationForwardTrainingEx)(
                    n, mode, 0, n, n, t, n, t, n, t, n, t, n, n, 1., n, n, 1., n, n, n, n, 0, n, 0,
                ),
                (api.cudnnBatchNormalizationForwardInference)(n, mode, n, n, t, n, t, n, t, n, n, n, n, 1.),
                (api.cudnnBatchNormalizationBackward)(n, mode, n, n, n, n, t, n, t, n, t, n, t, n, n, n, 1., n, n),
                (api.cudnnBatchNormalizationBackwardEx)(
                    n, mode, 0, n, n, n, n, t, n, t, n, t, n, t, n, t, n, t, n, n, n, n, 1., n, n, n, n, 0, n, 0,
                ),
            ]
        };
        (statuses, size)
    };
    assert_eq!(statuses(&ours), statuses(&real));
}
