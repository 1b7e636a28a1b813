//! Dropout of single tensors: the reserve's size, and refusals of both calls.
//!
//! Omitted, because cuDNN crashes there: null descriptors of tensors. Omitted, because hostdnn differs: probabilities
//! outside 0 to 1, which cuDNN takes, and CUDNN_DATA_INT8, for which it has other statuses. Omitted too: bfloat16, which
//! a missing device does not support.

use super::api::{Api, Desc};
use super::calls::Dice;
use super::computing::{SOUND, both_in_a_child, status};
use super::session::Session;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::ffi::c_int;
use std::ptr::null_mut;

/// Bytes of each tensor; more than any call here reads or writes.
const BYTES: usize = 1 << 16;

/// The statuses of both calls, after the reserve's size.
fn calls(api: &Api, dice: &mut Dice) -> (String, Vec<i64>) {
    let session = Session::new(api);
    let memory = vec![0u64; 4 * BYTES / 8];
    let mut at = (0..4).map(|i| -> Desc { memory.as_ptr().cast_mut().cast::<u8>().wrapping_add(i * BYTES).cast() });
    let [x, y, reserve, states] = [(); 4].map(|()| at.next().unwrap());
    let dims = [0; 4].map(|_| dice.0.random_range(1..5));
    let (rank, data_type) = (dice.pick([3, 4]), dice.pick([0, 1, 2, 0, 1, 2, 4]));
    let mut words = format!("{dims:?} {rank} {data_type}");
    // SAFETY: descriptors are live, and arrays and memory are longer than the part that is used.
    unsafe {
        for tensor in session.tensors {
            let mut dims = dims;
            if dice.one_in(8) {
                dims.swap(0, 1);
            }
            if dice.one_in(8) {
                dims[2] += 1;
            }
            let mut strides = [1; 4];
            for axis in (0..rank as usize - 1).rev() {
                strides[axis] = strides[axis + 1] * dims[axis + 1] + c_int::from(dice.one_in(12));
            }
            if dice.one_in(12) {
                strides[0] = dice.pick([1, -200]);
            }
            let data_type = if dice.one_in(12) { 0 } else { data_type };
            if !dice.one_in(20) {
                let (set, dims) = (api.cudnnSetTensorNdDescriptor, dims.as_ptr());
                assert_eq!(set(tensor, data_type, rank, dims, strides.as_ptr()), 0);
            }
            words += &format!(" {dims:?} {strides:?} {data_type}");
        }
        let (with_states, set) = (!dice.one_in(8), !dice.one_in(12));
        if set {
            let states = if with_states { states } else { null_mut() };
            let set = (api.cudnnRestoreDropoutDescriptor)(session.dropout, api.handle, 0.5, states, 1 << 30, 1);
            assert_eq!(set, 0);
        }
        let mut size = 77;
        let told = (api.cudnnDropoutGetReserveSpaceSize)(session.tensors[0], &mut size);
        let given = if dice.one_in(8) { size - 1 } else { size };
        let mut null = |pointer: Desc| if dice.one_in(25) { null_mut() } else { pointer };
        let (handle, dropout, [xs, ys]) = (null(api.handle), null(session.dropout), session.tensors);
        let (from, to, reserve) = (null(x), null(y), null(reserve));
        let to = if dice.one_in(4) { from } else { to };
        words += &format!(" {:?} {with_states} {set}", [handle, dropout, from, to, reserve].map(|p| p.is_null()));
        let statuses = [api.cudnnDropoutForward, api.cudnnDropoutBackward]
            .map(|run| status(api, &mut || run(handle, dropout, xs, from, ys, to, reserve, given)));
        (words, [vec![told.into(), size as i64], statuses.map(i64::from).to_vec()].concat())
    }
}

#[test]
fn single_dropout_refuses_alike() {
    let Some(libraries) = both_in_a_child("real_rnn::dropout::single_dropout_refuses_alike") else { return };
    let mut taken = [0; 2];
    for seed in 0..1500 {
        let [ours, real] = libraries.each_ref().map(|api| calls(api, &mut Dice(StdRng::seed_from_u64(seed))));
        assert_eq!(ours, real, "seed {seed}: hostdnn on the left");
        for (taken, status) in taken.iter_mut().zip(&ours.1[2..]) {
            *taken += usize::from(*status == i64::from(SOUND));
        }
    }
    eprintln!("1500 calls each of forward and backward compared, of which {taken:?} were sound");
    assert!(taken.iter().all(|taken| (200..1300).contains(taken)), "calls are neither all sound nor all refused");
}
