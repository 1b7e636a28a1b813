//! Refusals of the graph API: graphs that hostdnn does not compute, executions that do not match their plan, null,
//! garbage, and random attributes. Each gives a status, never a crash, and nothing is written. `real_graph` compares
//! the status of each attribute with cuDNN's.

use crate::backend::*;
use crate::operand::*;
use cudnn_abi::*;
use hostdnn::abi::*;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use std::ffi::c_void;
use std::ptr::{null, null_mut};

/// Tensors of one small convolution, padded by 1.
struct Parts {
    x: Operand,
    w: Operand,
    y: Operand,
    bias: Operand,
}

fn parts(data_type: cudnnDataType_t) -> Parts {
    let mut dice = StdRng::seed_from_u64(3);
    let mut operand = |dims: &[usize]| Operand::random(data_type, dims, packed(dims), &mut dice);
    Parts {
        x: operand(&[2, 4, 6, 6]),
        w: operand(&[8, 4, 3, 3]),
        y: operand(&[2, 8, 6, 6]),
        bias: operand(&[1, 8, 1, 1]),
    }
}

fn geometry() -> Backend {
    convolution(&[1, 1], &[1, 1], &[1, 1], false, CUDNN_DATA_FLOAT)
}

/// `y = relu(x * w + bias)`.
fn fused(parts: &Parts) -> Backend {
    let [x, w, bias, y] = [(1, &parts.x), (2, &parts.w), (4, &parts.bias), (3, &parts.y)].map(|(i, o)| tensor(i, o));
    let [product, sum] = [10, 11].map(|id| virtual_tensor(id, CUDNN_DATA_FLOAT, &parts.y));
    graph(&[
        &convolve(&FORWARD, [&x, &w, &product], &geometry(), 1.0, 0.0),
        &pointwise(CUDNN_POINTWISE_ADD, &product, Some(&bias), &sum, [1.0; 2], CUDNN_DATA_FLOAT),
        &pointwise(CUDNN_POINTWISE_RELU_FWD, &sum, None, &y, [1.0; 2], CUDNN_DATA_FLOAT),
    ])
}

/// Heuristics have no candidates for a graph, and the plan of its first engine is refused with a status of the
/// CUDNN_STATUS_NOT_SUPPORTED family.
fn assert_not_computed(graph: &Backend, what: &str) {
    for mode in [CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK] {
        assert!(heuristics(graph, mode).is_empty(), "{what}");
    }
    let refused = plan(&configuration(&engine(graph, 0), &[]).finalized()).err();
    assert!(refused.is_some_and(|status| (3000..4000).contains(&status)), "{what}: {refused:?}");
    assert!(last_error().contains("supported"), "{what}");
}

#[test]
fn graphs_that_are_not_computed_here() {
    let float = parts(CUDNN_DATA_FLOAT);
    let half = parts(CUDNN_DATA_HALF);
    let conv = |x: &Backend, w: &Backend, y: &Backend| convolve(&FORWARD, [x, w, y], &geometry(), 1.0, 0.0);
    let [x, w, y] = [(1, &float.x), (2, &float.w), (3, &float.y)].map(|(id, operand)| tensor(id, operand));
    assert_not_computed(&graph(&[&conv(&tensor(1, &half.x), &w, &y)]), "mixed types");
    assert_not_computed(&graph(&[&conv(&x, &w, &tensor(3, &half.y))]), "an output of another type");
    assert_not_computed(&graph(&[&conv(&x, &w, &virtual_tensor(3, CUDNN_DATA_FLOAT, &float.y))]), "no output");
    assert_not_computed(&graph(&[&conv(&virtual_tensor(1, CUDNN_DATA_FLOAT, &float.x), &w, &y)]), "no input");
    let of_type = |data_type| {
        [(1, &float.x), (2, &float.w), (3, &float.y)].map(|(id, operand)| {
            let tensor = unfinished_tensor(id, CUDNN_DATA_FLOAT, &operand.dims, &operand.strides);
            tensor.with(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, &[data_type]).finalized()
        })
    };
    let [x8, w8, y8] = of_type(CUDNN_DATA_INT8);
    assert_not_computed(&graph(&[&conv(&x8, &w8, &y8)]), "int8");
    let [bx, _, by] = of_type(CUDNN_DATA_BFLOAT16);
    assert_not_computed(&graph(&[&conv(&bx, &tensor(2, &half.w), &by)]), "bfloat16 and half");
    let repeating = unfinished_tensor(3, CUDNN_DATA_FLOAT, &float.y.dims, &[288, 36, 6, 0]).finalized();
    assert_not_computed(&graph(&[&conv(&x, &w, &repeating)]), "an output that repeats itself");
    let product = virtual_tensor(10, CUDNN_DATA_FLOAT, &float.y);
    let tanh = pointwise(CUDNN_POINTWISE_TANH_FWD, &product, None, &y, [1.0; 2], CUDNN_DATA_FLOAT);
    assert_not_computed(&graph(&[&conv(&x, &w, &product), &tanh]), "another function");
    let second = tensor(4, &float.y);
    let beside = pointwise(CUDNN_POINTWISE_RELU_FWD, &second, None, &tensor(5, &float.y), [1.0; 2], CUDNN_DATA_FLOAT);
    assert_not_computed(&graph(&[&conv(&x, &w, &y), &beside]), "two results");
    let unused = pointwise(CUDNN_POINTWISE_RELU_FWD, &second, None, &y, [1.0; 2], CUDNN_DATA_FLOAT);
    assert_not_computed(&graph(&[&conv(&x, &w, &product), &unused]), "a result that nothing uses");
    let square = Operand::random(CUDNN_DATA_FLOAT, &[4, 4, 3, 3], packed(&[4, 4, 3, 3]), &mut StdRng::seed_from_u64(4));
    assert_not_computed(&graph(&[&conv(&x, &tensor(2, &square), &x)]), "a convolution in place");
    let sum = pointwise(
        CUDNN_POINTWISE_ADD,
        &product,
        Some(&second),
        &virtual_tensor(11, CUDNN_DATA_FLOAT, &float.y),
        [1.0; 2],
        CUDNN_DATA_FLOAT,
    );
    let old = pointwise(
        CUDNN_POINTWISE_ADD,
        &virtual_tensor(11, CUDNN_DATA_FLOAT, &float.y),
        Some(&y),
        &y,
        [1.0; 2],
        CUDNN_DATA_FLOAT,
    );
    assert_not_computed(&graph(&[&conv(&x, &w, &product), &sum, &old]), "the output's old values, later than first");
    let keeping = convolve(&FORWARD, [&x, &w, &product], &geometry(), 1.0, 1.0);
    let relu = pointwise(CUDNN_POINTWISE_RELU_FWD, &product, None, &y, [1.0; 2], CUDNN_DATA_FLOAT);
    assert_not_computed(&graph(&[&keeping, &relu]), "beta on what is not in memory");
}

#[test]
fn descriptors_of_other_kinds_are_not_made() {
    let mut descriptor: cudnnBackendDescriptor_t = null_mut();
    for (kind, want) in [
        (CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, CUDNN_STATUS_NOT_SUPPORTED),
        (CUDNN_BACKEND_INTERMEDIATE_INFO_DESCRIPTOR, CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED),
        (-1, CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED),
        (9999, CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED),
    ] {
        // SAFETY: the place is valid for a write.
        assert_eq!(unsafe { cudnnBackendCreateDescriptor(kind, &mut descriptor) }, want, "kind {kind}");
        assert!(descriptor.is_null());
    }
}

#[test]
fn executions_that_do_not_suit_their_plan() {
    let handle = Handle::new();
    let mut parts = parts(CUDNN_DATA_FLOAT);
    let graph = fused(&parts);
    let winograd = CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED.into();
    let plan = plan(&configuration(&engine(&graph, winograd), &[]).finalized()).unwrap();
    let mut workspace = vec![0u8; workspace_size(&plan)];
    let scratch: *mut c_void = workspace.as_mut_ptr().cast();
    let y = parts.y.pointer_mut().cast_const();
    let before = parts.y.values();
    let sound = [(1, parts.x.pointer()), (2, parts.w.pointer()), (3, y), (4, parts.bias.pointer())];
    let run = |pack: &Backend| {
        // SAFETY: the memory of an execution that is not refused is as long as declared.
        unsafe { cudnnBackendExecute(handle.0, plan.0, pack.0) }
    };
    let with = |place: usize, pointer: *const c_void| {
        let mut tensors = sound;
        tensors[place].1 = pointer;
        pack(&tensors, scratch)
    };
    assert_eq!(run(&pack(&sound, null_mut())), CUDNN_STATUS_BAD_PARAM, "no workspace");
    assert!(last_error().contains("workspace"));
    for place in 0..4 {
        let others: Vec<_> = sound.iter().enumerate().filter(|&(i, _)| i != place).map(|(_, &one)| one).collect();
        assert_eq!(run(&pack(&others, scratch)), CUDNN_STATUS_BAD_PARAM, "no tensor {}", sound[place].0);
        assert!(last_error().contains(&format!("tensor {}", sound[place].0)));
        assert_eq!(run(&with(place, null())), CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "tensor {} null", sound[place].0);
        let odd = sound[place].1.wrapping_byte_add(2);
        assert_eq!(run(&with(place, odd)), CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "tensor {}", sound[place].0);
    }
    for place in [0, 1, 3] {
        assert_eq!(run(&with(place, y)), CUDNN_STATUS_BAD_PARAM, "the output in place of {}", sound[place].0);
    }
    let other_shapes = Backend::new(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
        .with_integers(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, &sound.map(|(id, _)| id))
        .with(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, &sound.map(|(_, pointer)| pointer))
        .with(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, &[scratch])
        .with_integers(CUDNN_ATTR_VARIANT_PACK_OVERRIDE_UNIQUE_IDS, &[1])
        .finalized();
    assert_eq!(run(&other_shapes), CUDNN_STATUS_NOT_SUPPORTED_INVALID_DYNAMIC_SHAPE);
    let unfinished = Backend::new(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    assert_eq!(run(&unfinished), CUDNN_STATUS_BAD_PARAM);
    let sound = pack(&sound, scratch);
    // SAFETY: descriptors are live, and the memory of an execution that is not refused is as long as declared.
    unsafe {
        assert_eq!(cudnnBackendExecute(handle.0, sound.0, plan.0), CUDNN_STATUS_BAD_PARAM, "the wrong way round");
        let mut bytes = usize::MAX;
        for (handle, plan, pack) in [
            (null_mut(), plan.0, sound.0),
            (handle.0, null_mut(), sound.0),
            (handle.0, plan.0, null_mut()),
            (plan.0.cast(), plan.0, sound.0),
            (handle.0, handle.0.cast(), sound.0),
        ] {
            assert_eq!(cudnnBackendExecute(handle, plan, pack), CUDNN_STATUS_BAD_PARAM);
            assert_eq!(cudnnGetExecutionPlanWorkspaceSize(handle, plan, pack, &mut bytes), CUDNN_STATUS_BAD_PARAM);
            let no_graph: cudaGraph_t = null_mut();
            assert_eq!(cudnnBackendPopulateCudaGraph(handle, plan, pack, no_graph), CUDNN_STATUS_BAD_PARAM);
        }
        let no_size = cudnnGetExecutionPlanWorkspaceSize(handle.0, plan.0, sound.0, null_mut());
        assert_eq!((bytes, no_size), (usize::MAX, CUDNN_STATUS_BAD_PARAM));
        let cuda_graph: cudaGraph_t = std::ptr::without_provenance_mut(64);
        let no_cuda = CUDNN_STATUS_NOT_SUPPORTED_CUDA_GRAPH_NATIVE_API;
        assert_eq!(cudnnBackendPopulateCudaGraph(handle.0, plan.0, sound.0, cuda_graph), no_cuda);
        assert_eq!(cudnnBackendUpdateCudaGraph(handle.0, plan.0, sound.0, cuda_graph), no_cuda);
    }
    assert_eq!(parts.y.values(), before, "a refused execution wrote");
    assert_eq!(run(&sound), CUDNN_STATUS_SUCCESS);
    assert_ne!(parts.y.values(), before);
}

#[test]
fn null_and_garbage_descriptors() {
    let handle = Handle::new();
    let part = parts(CUDNN_DATA_FLOAT);
    let (mut count, mut value) = (-7i64, 5i64);
    // SAFETY: pointers are null, live objects of the library, or valid for the data that they stand for.
    unsafe {
        assert_eq!(cudnnBackendCreateDescriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, null_mut()), CUDNN_STATUS_BAD_PARAM);
        let (name, element) = (CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64);
        let array: *mut c_void = (&raw mut value).cast();
        let null_pointer = CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
        assert_eq!(cudnnBackendDestroyDescriptor(null_mut()), null_pointer);
        assert_eq!(cudnnBackendFinalize(null_mut()), null_pointer);
        assert_eq!(cudnnBackendSetAttribute(null_mut(), name, element, 1, array), null_pointer);
        assert_eq!(cudnnBackendInitialize(null_mut()), CUDNN_STATUS_BAD_PARAM);
        let get = cudnnBackendGetAttribute;
        assert_eq!(get(null_mut(), name, element, 1, &mut count, array), CUDNN_STATUS_BAD_PARAM);
        // A handle, or a descriptor of the legacy API, is not a backend descriptor.
        for other in [handle.0.cast::<c_void>(), part.x.desc.cast()] {
            assert_eq!(cudnnBackendDestroyDescriptor(other), CUDNN_STATUS_BAD_PARAM);
            assert_eq!(cudnnBackendFinalize(other), CUDNN_STATUS_BAD_PARAM);
            assert_eq!(cudnnBackendInitialize(other), CUDNN_STATUS_BAD_PARAM);
            assert_eq!(cudnnBackendSetAttribute(other, name, element, 1, array), CUDNN_STATUS_BAD_PARAM);
            assert_eq!(get(other, name, element, 1, &mut count, array), CUDNN_STATUS_BAD_PARAM);
        }
        // Nor is a backend descriptor a descriptor of the legacy API, or a handle.
        let tensor = tensor(5, &part.x);
        assert_eq!(cudnnDestroyTensorDescriptor(tensor.0.cast()), CUDNN_STATUS_BAD_PARAM);
        assert_eq!(cudnnDestroy(tensor.0.cast()), CUDNN_STATUS_BAD_PARAM);
        assert_eq!(get(tensor.0, name, element, 1, null_mut(), null_mut()), CUDNN_STATUS_BAD_PARAM);
        assert_eq!(get(tensor.0, name, element, -1, &mut count, array), CUDNN_STATUS_BAD_PARAM);
        assert_eq!((count, value), (-7, 5), "written by a refused call");
        assert_eq!(get(tensor.0, name, element, 1, &mut count, array), CUDNN_STATUS_SUCCESS);
        assert_eq!((count, value), (1, 5));
        // Elements that are handles and descriptors.
        let nothing: *mut c_void = null_mut();
        let element = CUDNN_TYPE_BACKEND_DESCRIPTOR;
        let operation = Backend::new(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
        for inner in [nothing, handle.0.cast(), part.x.desc.cast()] {
            let status = operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, element, &[inner]);
            assert_eq!(status, CUDNN_STATUS_BAD_PARAM);
        }
        let plan = Backend::new(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        let status = plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, &[tensor.0]);
        assert_eq!(status, CUDNN_STATUS_BAD_PARAM, "a descriptor is no handle");
        let status = plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, element, &[tensor.0]);
        assert_eq!(status, CUDNN_STATUS_BAD_PARAM, "a tensor is no device's properties");
        assert_eq!(plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, &[handle.0]), CUDNN_STATUS_SUCCESS);
    }
}

#[test]
fn random_attributes_are_answered() {
    let part = parts(CUDNN_DATA_FLOAT);
    let graph = fused(&part);
    let configurations = heuristics(&graph, CUDNN_HEUR_MODE_A);
    let plan = plan(&configurations[0]).unwrap();
    let engine = engine(&graph, 5);
    let live = [&graph, &configurations[0], &plan, &engine].map(|descriptor| descriptor.0);
    let names: Vec<i32> = [0..12, 98..110, 198..206, 298..306, 398..410, 498..505, 598..603, 698..720, 748..760]
        .into_iter()
        .chain([798..806, 898..915, 998..1014, 1098..1103, 1198..1205, 1298..1310, 2398..2404, 2698..2705])
        .flatten()
        .collect();
    let mut answers = std::collections::BTreeMap::new();
    for seed in 0..3000 {
        let mut dice = StdRng::seed_from_u64(seed);
        let mut descriptor = null_mut();
        // SAFETY: the place is valid for a write.
        if unsafe { cudnnBackendCreateDescriptor(dice.random_range(-1..45), &mut descriptor) } != CUDNN_STATUS_SUCCESS {
            continue;
        }
        let fresh = Backend(descriptor);
        for _ in 0..40 {
            let target = if dice.random_bool(0.8) { fresh.0 } else { *live.choose(&mut dice).unwrap() };
            let (name, element) = (*names.choose(&mut dice).unwrap(), dice.random_range(-1..32));
            // Room for 64 elements of any type; descriptors among them are live or null.
            let mut array = [0u64; 64];
            let descriptors = element == CUDNN_TYPE_BACKEND_DESCRIPTOR;
            for slot in &mut array {
                *slot = match dice.random_range(0..3) {
                    0 => 0,
                    _ if descriptors => *live.choose(&mut dice).unwrap() as u64,
                    1 if element != CUDNN_TYPE_HANDLE => dice.random(),
                    _ if element != CUDNN_TYPE_HANDLE => dice.random_range(0..5),
                    _ => 0,
                };
            }
            let count = *[-1, 0, 1, 1, 1, 2, 4, 64].choose(&mut dice).unwrap();
            let mut told = 0;
            // SAFETY: the array has room for 64 elements. Its live descriptors are finalized: reading into one is
            // refused, or makes it another finalized descriptor.
            let status = unsafe {
                match dice.random_range(0..5) {
                    0 => cudnnBackendFinalize(target),
                    1 if target == fresh.0 => cudnnBackendInitialize(target),
                    2 if !descriptors => {
                        let to = array.as_mut_ptr().cast();
                        cudnnBackendGetAttribute(target, name, element, count, &mut told, to)
                    }
                    _ => cudnnBackendSetAttribute(target, name, element, count, array.as_ptr().cast()),
                }
            };
            assert!(status == 0 || (1001..1002).contains(&status) || (2000..4000).contains(&status), "{status}");
            assert!((0..=64).contains(&told), "{told}");
            *answers.entry(status).or_insert(0) += 1;
        }
    }
    eprintln!("answers: {answers:?}");
    assert!(answers[&CUDNN_STATUS_SUCCESS] > 1000, "{answers:?}");
    assert!(answers[&CUDNN_STATUS_BAD_PARAM] > 1000, "{answers:?}");
}
