//! The RNN API against the real cuDNN, without a GPU: the same calls on both libraries give the same statuses and read
//! back the same values, and both refuse the same calls that would compute: forward, backward and single dropout.
//!
//! Runs if `UCUDNN_TEST_REAL_CUDNN` names the folder of the real `libcudnn.so.9`. Omitted, because cuDNN crashes there:
//! null descriptors and null results of `cudnnGetRNNWeightParams`. Omitted because hostdnn differs: weight spaces whose
//! sizes overflow cuDNN's integers, and persistent algorithms that cuDNN's device does not have.

mod api;
mod calls;
mod computing;
mod dropout;
mod session;

use crate::libraries::both;
use api::{Api, Desc};
use calls::{Dice, call};
use rand::SeedableRng;
use rand::rngs::StdRng;
use session::Session;
use std::ptr::{null, null_mut};

#[test]
fn descriptors_are_set_and_read_back_alike() {
    let Some(libraries) = both(Api::open) else { return };
    let mut compared = 0;
    for seed in 0..3000 {
        let transcripts = libraries.each_ref().map(|api| {
            let session = Session::new(api);
            let mut dice = Dice(StdRng::seed_from_u64(seed));
            let unset = [session.read_rnn(), session.read_data(0, 3), session.read_dropout()].concat();
            let mut lines = vec![("unset".to_owned(), unset)];
            lines.extend((0..20).map(|_| call(&session, &mut dice)));
            lines
        });
        let [ours, real] = transcripts;
        for (i, (ours, real)) in ours.iter().zip(&real).enumerate() {
            assert_eq!(ours, real, "seed {seed}, call {i}: hostdnn on the left");
            compared += 1;
        }
    }
    eprintln!("{compared} calls compared");
}

#[test]
fn null_is_refused_alike() {
    let Some(libraries) = both(Api::open) else { return };
    let [ours, real] = libraries.each_ref().map(|api| {
        let session = Session::new(api);
        let (rnn, data, dropout, handle) = (session.rnn, session.data[0], session.dropout, api.handle);
        let (mut size, none) = (77, null_mut());
        let data_gradients = |[handle, rnn, x, y]: [Desc; 4]| {
            // SAFETY: cuDNN checks for null, and these calls have null spaces at least.
            unsafe {
                let (nothing, run) = (null(), api.cudnnRNNBackwardData_v8);
                run(
                    handle,
                    rnn,
                    null(),
                    y,
                    nothing,
                    nothing,
                    x,
                    none,
                    none,
                    nothing,
                    nothing,
                    none,
                    none,
                    nothing,
                    nothing,
                    none,
                    0,
                    nothing,
                    0,
                    none,
                    0,
                    none,
                )
            }
        };
        let weight_gradients = |[handle, rnn, x, y]: [Desc; 4], add| {
            let (nothing, run) = (null(), api.cudnnRNNBackwardWeights_v8);
            // SAFETY: see above.
            unsafe { run(handle, rnn, add, null(), x, nothing, none, nothing, y, nothing, 0, none, 0, none, 0, none) }
        };
        let all = [handle, rnn, data, data];
        let without = |missing: usize| {
            let mut some = all;
            some[missing] = none;
            some
        };
        let gradients = (0..4).flat_map(|missing| {
            let weights = [0, 1, 2].map(|add| weight_gradients(without(missing), add));
            [vec![data_gradients(without(missing))], weights.to_vec()].concat()
        });
        let mut statuses: Vec<_> = gradients.chain([data_gradients(all), weight_gradients(all, 0)]).collect();
        let tensor = session.tensors[0];
        // SAFETY: cuDNN checks for the null that each of these calls passes.
        statuses.extend(unsafe {
            vec![
                (api.cudnnDropoutGetReserveSpaceSize)(none, &mut size),
                (api.cudnnDropoutForward)(none, dropout, tensor, none, tensor, none, none, 0),
                (api.cudnnDropoutForward)(handle, none, tensor, none, tensor, none, none, 0),
                (api.cudnnDropoutBackward)(none, dropout, tensor, none, tensor, none, none, 0),
                (api.cudnnDropoutBackward)(handle, none, tensor, none, tensor, none, none, 0),
                (api.cudnnCreateRNNDescriptor)(null_mut()),
                (api.cudnnCreateRNNDataDescriptor)(null_mut()),
                (api.cudnnCreateDropoutDescriptor)(null_mut()),
                (api.cudnnDestroyRNNDescriptor)(none),
                (api.cudnnDestroyRNNDataDescriptor)(none),
                (api.cudnnDestroyDropoutDescriptor)(none),
                (api.cudnnSetRNNDescriptor_v8)(none, 0, 2, 2, 0, 0, 0, 0, 0, 5, 7, 7, 2, none, 0),
                (api.cudnnRNNSetClip_v8)(none, 1, 1, -1.0, 1.0),
                (api.cudnnRNNSetClip_v9)(none, 1, -1.0, 1.0),
                (api.cudnnRNNGetClip_v8)(none, null_mut(), null_mut(), null_mut(), null_mut()),
                (api.cudnnRNNGetClip_v9)(none, null_mut(), null_mut(), null_mut()),
                (api.cudnnRNNGetClip_v8)(rnn, null_mut(), null_mut(), null_mut(), null_mut()),
                (api.cudnnRNNGetClip_v9)(rnn, null_mut(), null_mut(), null_mut()),
                (api.cudnnSetRNNDataDescriptor)(none, 0, 0, 1, 1, 1, [1].as_ptr(), none),
                (api.cudnnSetRNNDataDescriptor)(data, 0, 0, 1, 1, 1, null(), none),
                (api.cudnnGetRNNWeightSpaceSize)(none, rnn, &mut size),
                (api.cudnnGetRNNWeightSpaceSize)(handle, none, &mut size),
                (api.cudnnGetRNNWeightSpaceSize)(handle, rnn, null_mut()),
                (api.cudnnGetRNNTempSpaceSizes)(none, rnn, 0, data, &mut size, null_mut()),
                (api.cudnnGetRNNTempSpaceSizes)(handle, none, 0, data, &mut size, null_mut()),
                (api.cudnnGetRNNTempSpaceSizes)(handle, rnn, 0, none, &mut size, null_mut()),
                (api.cudnnSetDropoutDescriptor)(dropout, none, 0.0, none, 0, 0),
                (api.cudnnSetDropoutDescriptor)(none, handle, 0.0, none, 0, 0),
                (api.cudnnRestoreDropoutDescriptor)(dropout, none, 0.0, none, 0, 0),
                (api.cudnnDropoutGetStatesSize)(none, &mut size),
                size as i32,
            ]
        });
        statuses
    });
    assert_eq!(ours, real);
}
