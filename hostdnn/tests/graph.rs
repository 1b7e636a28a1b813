//! Convolutions by the graph API, against loops in double precision: every engine of every direction, types, layouts,
//! groups, dilation, both modes, alpha and beta, two and three dimensions. The workspace lies between canaries; outputs
//! start as NaN.

use crate::backend::*;
use crate::case::{Case, Direction, tolerance};
use crate::operand::*;
use cudnn_abi::*;
use hostdnn::abi::*;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;

const DIRECTIONS: [(Direction, Names, i64); 3] = [
    (Direction::Forward, FORWARD, CUDNN_CONVOLUTION_FWD_ALGO_COUNT as i64),
    (Direction::BackwardData, BACKWARD_DATA, CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT as i64),
    (Direction::BackwardFilter, BACKWARD_FILTER, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT as i64),
];

/// Unique ids of x, w and y.
const IDS: [i64; 3] = [7, -3, 1 << 40];

/// The graph of one convolution. Its parts are destroyed when this returns: the graph keeps its own copies.
fn single(case: &Case, names: &Names, alpha: f64, beta: f64) -> Backend {
    single_between(case, &case.pad, names, alpha, beta)
}

/// The same with `behind` zeros after each dimension.
fn single_between(case: &Case, behind: &[i32], names: &Names, alpha: f64, beta: f64) -> Backend {
    let [x, w, y] = [(IDS[0], &case.x), (IDS[1], &case.w), (IDS[2], &case.y)].map(|(id, operand)| tensor(id, operand));
    let padding = [&case.pad[..], behind];
    let geometry = convolution_between(padding, &case.stride, &case.dilation, case.flip, case.data_type);
    graph(&[&convolve(names, [&x, &w, &y], &geometry, alpha, beta)])
}

/// Makes each output longer or shorter by a step or two; returns the zeros that this needs after each dimension.
fn pad_behind(case: &mut Case, dice: &mut StdRng) -> Vec<i32> {
    let mut dims = case.y.dims.clone();
    let mut behind = case.pad.clone();
    for (i, zeros) in behind.iter_mut().enumerate() {
        let steps = dice.random_range(-1..=2);
        let (extent, padding) = (dims[i + 2] as i32 + steps, *zeros + steps * case.stride[i]);
        if extent > 0 && padding >= 0 {
            (dims[i + 2], *zeros) = (extent as usize, padding);
        }
    }
    let strides = if dice.random() { packed(&dims) } else { channels_last(&dims) };
    case.y = Operand::random(case.data_type, &dims, strides, dice);
    behind
}

/// Executes a plan of a single convolution into `out`.
fn run(handle: &Handle, plan: &Backend, case: &Case, direction: Direction, out: &mut Operand) -> cudnnStatus_t {
    let mut pointers = [case.x.pointer(), case.w.pointer(), case.y.pointer()];
    pointers[match direction {
        Direction::Forward => 2,
        Direction::BackwardData => 0,
        Direction::BackwardFilter => 1,
    }] = out.pointer_mut();
    execute(handle.0, plan, &[(IDS[0], pointers[0]), (IDS[1], pointers[1]), (IDS[2], pointers[2])])
}

/// The legacy API's workspace size; `None` if it does not support the algorithm.
fn legacy_size(handle: &Handle, case: &Case, direction: Direction, algo: i32) -> Option<usize> {
    let (Case { x, y, filter: w, conv, .. }, h) = (case, handle.0);
    let mut size = 0;
    // SAFETY: descriptors are live.
    let status = unsafe {
        match direction {
            Direction::Forward => {
                cudnnGetConvolutionForwardWorkspaceSize(h, x.desc, *w, *conv, y.desc, algo, &mut size)
            }
            Direction::BackwardData => {
                cudnnGetConvolutionBackwardDataWorkspaceSize(h, *w, y.desc, *conv, x.desc, algo, &mut size)
            }
            Direction::BackwardFilter => {
                cudnnGetConvolutionBackwardFilterWorkspaceSize(h, x.desc, y.desc, *conv, *w, algo, &mut size)
            }
        }
    };
    (status == CUDNN_STATUS_SUCCESS).then_some(size)
}

#[test]
fn every_engine_agrees_with_double_precision() {
    let handle = Handle::new();
    let (mut runs, mut uneven) = (BTreeMap::new(), 0);
    for seed in 0..240 {
        let mut dice = StdRng::seed_from_u64(seed);
        let types = [CUDNN_DATA_FLOAT, CUDNN_DATA_DOUBLE, CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16];
        let data_type = types[seed as usize % 4];
        let Some(mut case) = Case::random(data_type, &mut dice) else { continue };
        // Filters may have any layout here, but not in the legacy API.
        let plain_filter = dice.random_bool(0.7);
        if !plain_filter {
            let dims = case.w.dims.clone();
            let strides = (0..dims.len()).map(|i| dims[..i].iter().product()).collect();
            case.w = Operand::random(data_type, &dims, strides, &mut dice);
        }
        // Nor can the legacy API have different numbers of zeros before and after.
        let behind = if dice.random_bool(0.7) { case.pad.clone() } else { pad_behind(&mut case, &mut dice) };
        let in_legacy = plain_filter && behind == case.pad;
        uneven += usize::from(behind != case.pad);
        let alpha = *[1.0, 0.5, -2.0].choose(&mut dice).unwrap();
        let beta = *[0.0, 0.0, 1.0, -0.5].choose(&mut dice).unwrap();
        for (direction, names, engines) in &DIRECTIONS {
            let direction = *direction;
            let graph = single_between(&case, &behind, names, alpha, beta);
            assert_eq!(graph.integer(CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT), *engines);
            let (before, want) = (case.output(direction).values(), case.expected(direction, alpha, beta));
            let offered = heuristics(&graph, CUDNN_HEUR_MODE_A);
            let every = (0..*engines).map(|index| configuration(&engine(&graph, index), &[]).finalized());
            for configuration in offered.into_iter().chain(every) {
                let (index, knobs) = choice(&configuration);
                let what = format!(
                    "seed {seed}: {direction:?} {index} {knobs:?}, alpha {alpha} beta {beta}, {} behind {behind:?}",
                    case.label()
                );
                // With default knobs, an engine is the legacy API's algorithm of that number, in the same workspace.
                let size = legacy_size(&handle, &case, direction, index as i32).filter(|_| in_legacy);
                let plan = match plan(&configuration) {
                    Ok(plan) => plan,
                    Err(status) => {
                        assert_eq!(status, CUDNN_STATUS_NOT_SUPPORTED, "{what}");
                        assert!(size.is_none() && knobs.is_empty(), "{what}: refused");
                        continue;
                    }
                };
                if knobs.is_empty() && in_legacy {
                    assert_eq!(Some(workspace_size(&plan)), size, "{what}");
                }
                let out = case.output(direction);
                let mut got = Operand::poisoned(data_type, &out.dims, out.strides.clone());
                if beta != 0.0 {
                    got.fill(&before);
                }
                let status = run(&handle, &plan, &case, direction, &mut got);
                assert_eq!(status, CUDNN_STATUS_SUCCESS, "{what}: {}", last_error());
                let error = relative_error(&got.values(), &want);
                assert!(error <= tolerance(data_type), "{what}: error {error:e}");
                got.check_gaps();
                *runs.entry((direction as i32, index, knobs)).or_insert(0) += 1;
            }
        }
    }
    eprintln!("runs of each (direction, engine, knobs): {runs:?}");
    assert!(uneven > 20, "{uneven} convolutions with other zeros behind");
    let forward = [0, 1, 2, 4, 5, 6, 7].map(|engine| (0, engine));
    let backward_data = [0, 1, 2, 3, 4, 5].map(|engine| (1, engine));
    let backward_filter = [0, 1, 2, 3, 5, 6].map(|engine| (2, engine));
    for (direction, engine) in [&forward[..], &backward_data[..], &backward_filter[..]].concat() {
        let count = runs.get(&(direction, engine, vec![]));
        assert!(count.is_some_and(|&count| count > 15), "{direction} {engine}: {runs:?}");
    }
    for (direction, engine) in [(0, 5), (1, 3), (2, 6)] {
        for tile in 0..3 {
            let count = runs.get(&(direction, engine, vec![(CUDNN_KNOB_TYPE_TILE_SIZE, tile)]));
            assert!(count.is_some_and(|&count| count > 15), "{direction} {engine} {tile}: {runs:?}");
        }
    }
}

/// A plain convolution of three by three, padded by one, for which all engines exist.
fn plain(batch: usize) -> Case {
    let mut dice = StdRng::seed_from_u64(1);
    let mut case = loop {
        let case = Case::random(CUDNN_DATA_FLOAT, &mut dice);
        if let Some(case) = case.filter(|case| case.spatial == 2 && case.groups == 1) {
            break case;
        }
    };
    (case.pad, case.stride, case.dilation, case.flip) = (vec![1; 2], vec![1; 2], vec![1; 2], false);
    for (operand, dims) in
        [(&mut case.x, [batch, 3, 20, 18]), (&mut case.w, [4, 3, 3, 3]), (&mut case.y, [batch, 4, 20, 18])]
    {
        *operand = Operand::random(CUDNN_DATA_FLOAT, &dims, packed(&dims), &mut dice);
    }
    case
}

#[test]
fn knobs_are_told_and_change_what_runs() {
    let (handle, case) = (Handle::new(), plain(2));
    let graph = single(&case, &FORWARD, 1.0, 0.0);
    let tiling = engine(&graph, CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING.into());
    let infos = tiling.get_descriptors(CUDNN_ATTR_ENGINE_KNOB_INFO, CUDNN_BACKEND_KNOB_INFO_DESCRIPTOR, 8);
    let told: Vec<_> = infos
        .iter()
        .map(|info| {
            let kind: i32 = info.get(CUDNN_ATTR_KNOB_INFO_TYPE, CUDNN_TYPE_KNOB_TYPE, 1)[0];
            let bounds = [CUDNN_ATTR_KNOB_INFO_MINIMUM_VALUE, CUDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE];
            (kind, bounds.map(|name| info.integer(name)), info.integer(CUDNN_ATTR_KNOB_INFO_STRIDE))
        })
        .collect();
    assert_eq!(told, [(CUDNN_KNOB_TYPE_TILE_SIZE, [0, 2], 1)]);
    let size = |knobs: &[(i32, i64)]| workspace_size(&plan(&configuration(&tiling, knobs).finalized()).unwrap());
    let sizes = [0, 1, 2].map(|tile| size(&[(CUDNN_KNOB_TYPE_TILE_SIZE, tile)]));
    assert!(sizes[0] != sizes[1] && sizes[1] != sizes[2], "{sizes:?}");
    // -1 leaves a knob at its default.
    assert_eq!([size(&[]), size(&[(CUDNN_KNOB_TYPE_TILE_SIZE, -1)])], [sizes[1]; 2]);
    for knobs in [&[(CUDNN_KNOB_TYPE_TILE_SIZE, 3)][..], &[(CUDNN_KNOB_TYPE_SPLIT_K, 0)]] {
        assert_eq!(configuration(&tiling, knobs).finalize(), CUDNN_STATUS_NOT_SUPPORTED, "{knobs:?}");
    }
    let gemm = engine(&graph, CUDNN_CONVOLUTION_FWD_ALGO_GEMM.into());
    assert!(gemm.get_descriptors(CUDNN_ATTR_ENGINE_KNOB_INFO, CUDNN_BACKEND_KNOB_INFO_DESCRIPTOR, 8).is_empty());
    // A choice does not affect other configurations of the engine.
    let mut out = Operand::poisoned(CUDNN_DATA_FLOAT, &case.y.dims, case.y.strides.clone());
    let tiles = plan(&configuration(&tiling, &[(CUDNN_KNOB_TYPE_TILE_SIZE, 0)]).finalized()).unwrap();
    assert_eq!(run(&handle, &tiles, &case, Direction::Forward, &mut out), CUDNN_STATUS_SUCCESS);
    let error = relative_error(&out.values(), &case.expected(Direction::Forward, 1.0, 0.0));
    assert!(error < tolerance(CUDNN_DATA_FLOAT), "{error:e}");
}

#[test]
fn heuristics_rank_as_the_legacy_api_does() {
    let (handle, case) = (Handle::new(), plain(8));
    let graph = single(&case, &FORWARD, 1.0, 0.0);
    let unwritten = cudnnConvolutionFwdAlgoPerf_t { status: -1, ..Default::default() };
    let (mut results, mut count) = ([unwritten; 8], 0);
    let (mut w, mut conv) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: descriptors are live, and there is room for eight results.
    unsafe {
        assert_eq!(cudnnCreateFilterDescriptor(&mut w), 0);
        assert_eq!(cudnnCreateConvolutionDescriptor(&mut conv), 0);
        assert_eq!(cudnnSetFilter4dDescriptor(w, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 4, 3, 3, 3), 0);
        assert_eq!(cudnnSetConvolution2dDescriptor(conv, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, 0), 0);
        let (x, y, to) = (case.x.desc, case.y.desc, results.as_mut_ptr());
        assert_eq!(cudnnGetConvolutionForwardAlgorithm_v7(handle.0, x, w, conv, y, 8, &mut count, to), 0);
        cudnnDestroyFilterDescriptor(w);
        cudnnDestroyConvolutionDescriptor(conv);
    }
    let ranked: Vec<i64> = results
        .iter()
        .filter(|result| result.status == CUDNN_STATUS_SUCCESS)
        .map(|result| result.algo.into())
        .collect();
    for mode in [CUDNN_HEUR_MODE_INSTANT, CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B] {
        let choices: Vec<_> = heuristics(&graph, mode).iter().map(choice).collect();
        let other_tiles = |knobs: &[(i32, i64)]| knobs.iter().any(|&(_, tile)| tile != 1);
        let engines: Vec<i64> =
            choices.iter().filter(|(_, knobs)| !other_tiles(knobs)).map(|(engine, _)| *engine).collect();
        assert_eq!(engines, ranked, "mode {mode}");
        assert_eq!(choices.len(), ranked.len() + 2, "each other tile once: {choices:?}");
    }
    for (_, names, _) in &DIRECTIONS {
        let fallback = heuristics(&single(&case, names, 1.0, 0.0), CUDNN_HEUR_MODE_FALLBACK);
        let plans: Vec<_> =
            fallback.iter().map(|configuration| workspace_size(&plan(configuration).unwrap())).collect();
        assert_eq!(plans, [0]);
    }
}

#[test]
fn workspaces_grow_with_the_batch() {
    let sizes = |batch| {
        let graph = single(&plain(batch), &FORWARD, 1.0, 0.0);
        [CUDNN_CONVOLUTION_FWD_ALGO_FFT, CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED]
            .map(|algo| workspace_size(&plan(&configuration(&engine(&graph, algo.into()), &[]).finalized()).unwrap()))
    };
    let (few, many) = (sizes(8), sizes(64));
    assert!(few.iter().zip(many).all(|(&few, many)| many > 4 * few), "{few:?} {many:?}");
}

#[test]
fn notes_say_what_engines_do_to_numbers() {
    let case = plain(2);
    let transforms = [CUDNN_NUMERICAL_NOTE_FFT];
    let [small, large] = [CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6]
        .map(|tile| [CUDNN_NUMERICAL_NOTE_WINOGRAD, tile]);
    let any_order = [CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC];
    let want: [&[&[i32]]; 3] = [
        &[&[], &[], &[], &[], &transforms, &transforms, &small, &large],
        &[&any_order, &[], &transforms, &transforms, &small, &large],
        &[&any_order, &[], &transforms, &any_order, &small, &large, &transforms],
    ];
    for ((_, names, engines), want) in DIRECTIONS.iter().zip(want) {
        let graph = single(&case, names, 1.0, 0.0);
        for index in 0..*engines {
            let engine = engine(&graph, index);
            let notes: Vec<i32> = engine.get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, 16);
            assert_eq!(notes, want[index as usize], "engine {index} of {names:?}");
            let behaviour: Vec<i32> = engine.get(CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE, 16);
            assert!(behaviour.is_empty(), "{behaviour:?}");
        }
    }
}

#[test]
fn everything_can_be_read_back() {
    let case = plain(2);
    let graph = single(&case, &BACKWARD_FILTER, 1.0, 0.0);
    let configuration = &heuristics(&graph, CUDNN_HEUR_MODE_A)[0];
    let plan = plan(configuration).unwrap();
    let read = plan.get_descriptor(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    assert_eq!(choice(&read), choice(configuration));
    let engine = read.get_descriptor(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    let read = engine.get_descriptor(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    let count = CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT;
    assert_eq!(read.integer(count), graph.integer(count));
    let properties = Backend::new(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR).finalized();
    let text: Vec<u8> = properties.get(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, 4096);
    let same = Backend::new(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR)
        .with(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, &text)
        .finalized();
    let again: Vec<u8> = same.get(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, 4096);
    assert_eq!(again, text);
    assert!(String::from_utf8(text).unwrap().contains("deviceName"));
}

#[test]
fn a_plan_runs_on_several_threads_at_once() {
    let case = plain(3);
    let graph = single(&case, &FORWARD, 1.0, 0.0);
    let plan = plan(&heuristics(&graph, CUDNN_HEUR_MODE_A)[0]).unwrap();
    let want = case.expected(Direction::Forward, 1.0, 0.0);
    let (raw, size) = (plan.0 as usize, workspace_size(&plan));
    let pointers = [case.x.pointer() as usize, case.w.pointer() as usize];
    let (dims, strides) = (&case.y.dims, &case.y.strides);
    let outputs: Vec<Vec<f64>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(move || {
                    let handle = Handle::new();
                    let mut out = Operand::poisoned(CUDNN_DATA_FLOAT, dims, strides.clone());
                    let mut workspace = vec![0u8; size];
                    let tensors = [pointers[0] as *const _, pointers[1] as *const _, out.pointer_mut().cast_const()];
                    let tensors = [(IDS[0], tensors[0]), (IDS[1], tensors[1]), (IDS[2], tensors[2])];
                    let pack = pack(&tensors, workspace.as_mut_ptr().cast());
                    for _ in 0..5 {
                        // SAFETY: the tensors and the workspace are as long as declared.
                        let status = unsafe { cudnnBackendExecute(handle.0, raw as *mut _, pack.0) };
                        assert_eq!(status, CUDNN_STATUS_SUCCESS, "{}", last_error());
                    }
                    out.values()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for output in outputs {
        assert!(relative_error(&output, &want) < tolerance(CUDNN_DATA_FLOAT));
    }
}
