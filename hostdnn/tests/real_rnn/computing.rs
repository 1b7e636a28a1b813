//! Refusals of forward, of both backward calls, and of `cudnnGetRNNTempSpaceSizes`. Without a GPU, cuDNN makes all its
//! checks and then fails for lack of a device; at that point hostdnn computes.

use super::api::{Api, Desc};
use super::calls::Dice;
use super::session::Session;
use crate::built;
use crate::child::is_child;
use crate::libraries::both;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::ffi::c_int;
use std::ptr::null_mut;

/// CUDNN_STATUS_EXECUTION_FAILED_CUDART
const NO_DEVICE: c_int = 5003;
/// Recorded for both statuses.
pub const SOUND: c_int = -1;
/// Bytes of each tensor and space; more than any call here reads or writes.
const BYTES: usize = 1 << 20;

/// The statuses of setup and of the calls; a call that found no error is [`SOUND`].
fn calls(api: &Api, dice: &mut Dice) -> (String, Vec<c_int>) {
    let session = Session::new(api);
    let cell = dice.0.random_range(0..4);
    let (bias, direction) = (dice.0.random_range(0..4), dice.0.random_range(0..2));
    let [input, hidden, layers, batch] = [0; 4].map(|_| dice.0.random_range(1..4));
    let input_mode = c_int::from(dice.one_in(4));
    let input = if input_mode == 1 && !dice.one_in(6) { hidden } else { input };
    let projection = if cell == 2 && hidden > 1 && dice.one_in(3) { hidden - 1 } else { hidden };
    // A missing device does not support bfloat16.
    let (data_type, flags) = (dice.pick([0, 1, 2]), dice.pick([0, 1, 1]));
    let (precision, directions) = (c_int::from(data_type == 1), direction + 1);
    let layout = dice.0.random_range(0..3);
    let steps = dice.0.random_range(1..5);
    let mut lengths = [0; 8].map(|_| if flags == 0 { steps } else { dice.0.random_range(1..=steps) });
    lengths.sort_unstable_by(|a, b| b.cmp(a));
    lengths[0] = steps;
    let changed = |dice: &mut Dice, value: c_int| if dice.one_in(30) { value % 3 + 1 } else { value };
    // At most one of the two: if both have the same error, cuDNN's status varies.
    let mistyped = dice.0.random_range(0..60);
    let data = [(0, input), (1, directions * projection)].map(|(which, vector)| {
        let mut lengths = lengths;
        lengths[batch as usize - 1] = changed(dice, lengths[batch as usize - 1]).min(steps).min(lengths[0]);
        let data_type = if which == mistyped { 2 } else { data_type };
        (
            data_type,
            changed(dice, layout + 1) - 1,
            changed(dice, steps),
            changed(dice, batch),
            changed(dice, vector),
            lengths,
        )
    });
    let states = [projection, hidden].map(|size| {
        let dims = [changed(dice, layers * directions), changed(dice, batch), changed(dice, size), 1];
        let row = if dice.one_in(30) { dims[2] + 1 } else { dims[2] };
        (dice.pick([3, 3, 4]), dims, [dims[1] * row, row, 1, 1], if dice.one_in(30) { 2 } else { data_type })
    });
    // SAFETY: descriptors are live, and the arrays are longer than the part that is read; for the tensors, see BYTES.
    unsafe {
        let mut statuses = vec![(api.cudnnSetRNNDescriptor_v8)(
            session.rnn,
            0,
            cell,
            bias,
            direction,
            input_mode,
            data_type,
            precision,
            0,
            input,
            hidden,
            projection,
            layers,
            null_mut(),
            flags,
        )];
        let words = format!(
            "{:?} {data:?} {states:?}",
            [cell, bias, direction, input_mode, data_type, input, hidden, projection, layers, flags as c_int]
        );
        for (&desc, (ty, layout, steps, batch, vector, lengths)) in session.data.iter().zip(&data) {
            let (lengths, fill) = (lengths.as_ptr(), null_mut());
            statuses.push((api.cudnnSetRNNDataDescriptor)(desc, *ty, *layout, *steps, *batch, *vector, lengths, fill));
        }
        for (&desc, (rank, dims, strides, ty)) in session.tensors.iter().zip(&states) {
            statuses.push((api.cudnnSetTensorNdDescriptor)(desc, *ty, *rank, dims.as_ptr(), strides.as_ptr()));
        }
        let memory = vec![0u64; 16 * BYTES / 8];
        let mut at = (0..16).map(|i| memory.as_ptr().cast_mut().byte_add(i * BYTES).cast());
        let mut given = |dice: &mut Dice, rarely: u32| -> Desc {
            let memory = at.next().unwrap();
            if dice.one_in(rarely) { null_mut() } else { memory }
        };
        let [x, y, dx, dy] = [0; 4].map(|_| given(dice, u32::MAX)); // cuDNN does not check these
        let [hx, hy, cx, cy, dhx, dhy, dcx, dcy] = [0; 8].map(|_| given(dice, 3));
        let [weights, workspace, reserve, dweights] = [0; 4].map(|_| given(dice, 40));
        let [h, c] = session.tensors.map(|desc| if dice.one_in(30) { null_mut() } else { desc });
        // cuDNN's own workspace is larger than this memory, but the call fails before it uses it.
        let [weight_size, workspace_size, reserve_size] = [0; 3].map(|_| if dice.one_in(40) { 3 } else { 1 << 32 });
        let (mode, add) = (dice.0.random_range(0..2), if dice.one_in(8) { dice.pick([-1, 1, 2]) } else { 0 });
        let (mut sizes, handle) = ([77; 2], api.handle);
        let [size, reserve_out] = sizes.each_mut().map(|size| &raw mut *size);
        let [xs, ys] = session.data;
        let temp = (api.cudnnGetRNNTempSpaceSizes)(handle, session.rnn, mode, xs, size, reserve_out);
        let mut forward = || {
            (api.cudnnRNNForward)(
                handle,
                session.rnn,
                mode,
                null_mut(),
                xs,
                x,
                ys,
                y,
                h,
                hx,
                hy,
                c,
                cx,
                cy,
                weight_size,
                weights,
                workspace_size,
                workspace,
                reserve_size,
                reserve,
            )
        };
        let mut data = || {
            (api.cudnnRNNBackwardData_v8)(
                handle,
                session.rnn,
                null_mut(),
                ys,
                y,
                dy,
                xs,
                dx,
                h,
                hx,
                dhy,
                dhx,
                c,
                cx,
                dcy,
                dcx,
                weight_size,
                weights,
                workspace_size,
                workspace,
                reserve_size,
                reserve,
            )
        };
        let mut wgrad = || {
            (api.cudnnRNNBackwardWeights_v8)(
                handle,
                session.rnn,
                add,
                null_mut(),
                xs,
                x,
                h,
                hx,
                ys,
                y,
                weight_size,
                dweights,
                workspace_size,
                workspace,
                reserve_size,
                reserve,
            )
        };
        statuses.extend([sound_or(api, temp), status(api, &mut forward)]);
        // A skipped input of another size than hiddenSize: cuDNN refuses it in forward alone.
        let known_to_differ = input_mode == 1 && input != hidden;
        let backward: [&mut dyn FnMut() -> c_int; 2] = [&mut data, &mut wgrad];
        statuses.extend(backward.map(|call| if known_to_differ { 0 } else { status(api, call) }));
        statuses.push(c_int::from(sizes[1] == 0));
        let rest = [hx, hy, cx, cy, dhx, dhy, dcx, dcy, weights, workspace, reserve, dweights];
        let rest = rest.map(|given| !given.is_null());
        let sizes = [weight_size, workspace_size, reserve_size];
        (format!("{words} {rest:?} {sizes:?} {mode} {add}"), statuses)
    }
}

/// The status of a call that would compute, or [`SOUND`].
pub fn status(api: &Api, call: &mut dyn FnMut() -> c_int) -> c_int {
    sound_or(api, if api.computes { call() } else { in_a_child(call) })
}

fn sound_or(api: &Api, status: c_int) -> c_int {
    let sound = if api.computes { 0 } else { NO_DEVICE };
    if status == sound { SOUND } else { status }
}

/// The status of a call that may end its process: after its checks, cuDNN divides by the number of processors of a
/// missing device, or finds that the device is missing.
fn in_a_child(call: &mut dyn FnMut() -> c_int) -> c_int {
    // Statuses do not fit into a process's exit status.
    const STATUSES: [c_int; 4] = [NO_DEVICE, 0, 2000, 3000];
    let mut ended = 0;
    // SAFETY: the child calls only cuDNN and `_exit`, which runs no code of this process; the parent waits for it.
    unsafe {
        let child = libc::fork();
        assert!(child >= 0, "{}", std::io::Error::last_os_error());
        if child == 0 {
            let status = call();
            libc::_exit(STATUSES.iter().position(|&known| known == status).map_or(255, |at| at as c_int));
        }
        assert_eq!(libc::waitpid(child, &mut ended, 0), child);
    }
    match ended {
        _ if libc::WIFEXITED(ended) => {
            *STATUSES.get(libc::WEXITSTATUS(ended) as usize).expect("a status that is known")
        }
        _ if libc::WTERMSIG(ended) == libc::SIGFPE => NO_DEVICE,
        _ => panic!("cuDNN ended by signal {}", libc::WTERMSIG(ended)),
    }
}

/// Both libraries for calls in children; `None`, and a skipped test, where they cannot be compared. A process forks
/// safely only if no other test is at work in it, so this is one of its own.
pub fn both_in_a_child(test: &str) -> Option<[Api; 2]> {
    let libraries = both(Api::open)?;
    if libraries[1].computes {
        built::skip("there is a GPU: cuDNN would compute what is only to be checked");
        return None;
    }
    is_child(test, &[]).then_some(libraries)
}

#[test]
fn computing_calls_refuse_alike() {
    let Some(libraries) = both_in_a_child("real_rnn::computing::computing_calls_refuse_alike") else { return };
    let mut taken = [0; 3];
    for seed in 0..750 {
        let [ours, real] = libraries.each_ref().map(|api| calls(api, &mut Dice(StdRng::seed_from_u64(seed))));
        assert_eq!(ours, real, "seed {seed}: hostdnn on the left");
        for (taken, status) in taken.iter_mut().zip(&ours.1[6..9]) {
            *taken += usize::from(*status == SOUND);
        }
    }
    eprintln!("750 calls each of forward, data and weights compared, of which {taken:?} were sound");
    assert!(taken.iter().all(|taken| (150..675).contains(taken)), "calls are neither all sound nor all refused");
}
