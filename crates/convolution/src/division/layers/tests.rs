use cudnn_abi::*;

use super::*;
use cudnn::tensor::Tensor;

const LANE: Lane = Lane { stream: 0, thread: 0 };

fn problem(direction: Direction, channels: c_int) -> Problem {
    let tensor = Tensor { data_type: CUDNN_DATA_FLOAT, dims: [8, channels, 9, 9, 0], strides: [1, 1, 1, 1, 0] };
    Problem {
        direction,
        rank: 4,
        x: tensor,
        w_type: CUDNN_DATA_FLOAT,
        w_format: CUDNN_TENSOR_NCHW,
        w_dims: [4, channels, 3, 3, 0],
        y: tensor,
        pad: [1, 1, 0],
        stride: [1, 1, 0],
        dilation: [1, 1, 0],
        mode: CUDNN_CROSS_CORRELATION,
        compute_type: CUDNN_DATA_FLOAT,
        math_type: CUDNN_DEFAULT_MATH,
        groups: 1,
    }
}

fn chosen(algo: c_int, math_type: c_int) -> AlgoPerf {
    let (status, determinism) = (CUDNN_STATUS_SUCCESS, CUDNN_DETERMINISTIC);
    AlgoPerf { algo, status, time: -1.0, memory: 0, determinism, mathType: math_type, reserved: [0; 3] }
}

fn key(problem: Problem, filter: usize) -> Key {
    let problem = LayerProblem::Convolution(problem);
    Key { problem, algorithm: Some(1), only: false, filter, lane: LANE, name: None }
}

fn run(layers: &mut Layers, key: &Key) -> Seen {
    layers.call(key, [0; 4]).unwrap_or_else(|| layers.add(key, Some(chosen(1, CUDNN_DEFAULT_MATH))))
}

#[test]
fn equal_kernels_of_different_filters_are_different_layers() {
    let mut layers = Layers::default();
    let forward = problem(Direction::Forward, 3);
    let backward = problem(Direction::BackwardFilter, 3);
    let iteration = [key(forward, 10), key(forward, 20), key(backward, 21), key(backward, 11)];
    let first: Vec<Seen> = iteration.iter().map(|key| run(&mut layers, key)).collect();
    let second: Vec<Seen> = iteration.iter().map(|key| run(&mut layers, key)).collect();
    let ids = |seen: &[Seen]| seen.iter().map(|seen| seen.layer).collect::<Vec<_>>();
    assert_eq!((ids(&first), ids(&second)), (vec![0, 1, 2, 3], vec![0, 1, 2, 3]));
    let begins: Vec<bool> = second.iter().map(|seen| seen.begins_iteration).collect();
    assert_eq!(begins, [true, false, false, false]);
    assert_eq!(layers.lasting(false).count(), 0, "the iteration in which they come back is under way");
    run(&mut layers, &iteration[0]);
    assert_eq!(layers.lasting(false).count(), 4);
}

#[test]
fn new_addresses_for_old_layers_add_none() {
    let mut layers = Layers::default();
    for iteration in 0..5 {
        for filter in [10, 20] {
            run(&mut layers, &key(problem(Direction::Forward, 3), filter));
        }
        for filter in [20, 10] {
            // the program allocates gradients anew in each iteration
            run(&mut layers, &key(problem(Direction::BackwardFilter, 3), 1000 * (iteration + 1) + filter));
        }
    }
    assert_eq!(layers.lasting(true).count(), 4);
}

#[test]
fn a_layer_that_comes_back_begins_an_iteration() {
    let mut layers = Layers::default();
    let keys = [3, 4, 5].map(|channels| key(problem(Direction::Forward, channels), 10));
    let begins: Vec<bool> = keys.iter().chain(&keys).map(|key| run(&mut layers, key).begins_iteration).collect();
    assert_eq!(begins, [false, false, false, true, false, false]);
}

#[test]
fn another_lane_is_another_layer() {
    let mut layers = Layers::default();
    let here = key(problem(Direction::Forward, 3), 10);
    let there = Key { lane: Lane { stream: 7, ..LANE }, ..here.clone() };
    for _ in 0..3 {
        assert_ne!(run(&mut layers, &here).layer, run(&mut layers, &there).layer);
    }
    assert_eq!(layers.lasting(false).count(), 2);
}

#[test]
fn calls_find_the_layers_that_queries_told_of() {
    let mut layers = Layers::default();
    let forward = problem(Direction::Forward, 3);
    for descriptors in [[1; 4], [2; 4], [1; 4]] {
        layers.collect(&forward, chosen(1, CUDNN_DEFAULT_MATH), descriptors, None);
    }
    assert_eq!(layers.lasting(true).count(), 2);
    let second = layers.call(&key(forward, 20), [2; 4]).unwrap().layer;
    let first = layers.call(&key(forward, 10), [9; 4]).unwrap().layer;
    assert_eq!((first, second), (0, 1));
    assert_eq!(layers.call(&key(forward, 30), [9; 4]), None, "a third filter is a third layer");
}

#[test]
fn names_tell_layers_apart() {
    let mut layers = Layers::default();
    let forward = problem(Direction::Forward, 3);
    let named = |name, filter| Key { name: Some(name), ..key(forward, filter) };
    let seen: Vec<LayerId> =
        [(1, 10), (2, 10), (1, 30), (2, 40)].map(|(name, filter)| run(&mut layers, &named(name, filter)).layer).into();
    assert_eq!(seen, [0, 1, 0, 1]);
}

#[test]
fn a_program_may_set_the_math_type_that_it_is_told_or_not() {
    for follows in [true, false] {
        let mut layers = Layers::default();
        for channels in [3, 4] {
            let reported = chosen(1, CUDNN_TENSOR_OP_MATH);
            layers.collect(&problem(Direction::Forward, channels), reported, [channels as usize; 4], None);
        }
        let math_type = if follows { CUDNN_TENSOR_OP_MATH } else { CUDNN_DEFAULT_MATH };
        let called = Problem { math_type, ..problem(Direction::Forward, 3) };
        layers.call(&key(called, 10), [3; 4]).unwrap();
        assert!(layers.lasting(true).all(|(_, layer)| layer.problem.math_type() == Some(math_type)));
    }
}

#[test]
fn shapes_that_never_come_back_are_forgotten() {
    let mut layers = Layers::default();
    for channels in 1..=3 * MOST_LAYERS as c_int {
        run(&mut layers, &key(problem(Direction::Forward, channels), 10));
    }
    assert!(layers.layers.len() <= MOST_LAYERS && layers.known.len() <= ADDRESSES_A_LAYER * MOST_LAYERS);
    assert_eq!(layers.lasting(true).count(), 0);
}
