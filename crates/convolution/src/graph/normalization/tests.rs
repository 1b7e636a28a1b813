use std::ffi::c_void;
use std::ptr::without_provenance_mut;
use std::sync::Arc;

use super::super::shadow;
use super::*;

/// Records descriptors as if cuDNN had made them. They are addresses only, and no other test uses these.
struct Descriptors(usize);

impl Descriptors {
    fn create(&mut self, kind: cudnnBackendDescriptorType_t) -> cudnnBackendDescriptor_t {
        self.0 += 64;
        let descriptor = without_provenance_mut(self.0);
        shadow::created(kind, descriptor);
        descriptor
    }

    fn tensor(&mut self, data_type: cudnnDataType_t, dims: &[i64]) -> cudnnBackendDescriptor_t {
        let tensor = self.create(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
        set(tensor, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, &[data_type]);
        set(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, dims);
        finalized(tensor)
    }

    fn forward(&mut self, mode: i32, phase: i32, x: cudnnBackendDescriptor_t) -> cudnnBackendDescriptor_t {
        let forward = self.create(CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR);
        set(forward, CUDNN_ATTR_OPERATION_NORM_FWD_MODE, CUDNN_TYPE_NORM_MODE, &[mode]);
        set(forward, CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, CUDNN_TYPE_NORM_FWD_PHASE, &[phase]);
        set(forward, CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, &[x]);
        finalized(forward)
    }

    fn graph(&mut self, operations: &[cudnnBackendDescriptor_t]) -> Arc<Shadow> {
        let graph = self.create(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
        set(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, operations);
        shadow::of(finalized(graph)).unwrap()
    }
}

fn set<T>(
    descriptor: cudnnBackendDescriptor_t,
    name: cudnnBackendAttributeName_t,
    element: cudnnBackendAttributeType_t,
    elements: &[T],
) {
    // SAFETY: the slice has this number of elements of this type.
    unsafe { shadow::was_set(descriptor, name, element, elements.len() as i64, elements.as_ptr().cast::<c_void>()) };
}

fn finalized(descriptor: cudnnBackendDescriptor_t) -> cudnnBackendDescriptor_t {
    shadow::of(descriptor).unwrap().was_finalized();
    descriptor
}

#[test]
fn graphs_have_the_names_of_their_normalizations() {
    let mut descriptors = Descriptors(1 << 40);
    let x = descriptors.tensor(CUDNN_DATA_HALF, &[32, 64, 56, 56]);
    let training = descriptors.forward(CUDNN_BATCH_NORM, CUDNN_NORM_FWD_TRAINING, x);
    let inference = descriptors.forward(CUDNN_LAYER_NORM, CUDNN_NORM_FWD_INFERENCE, x);
    let unknown = descriptors.forward(99, CUDNN_NORM_FWD_INFERENCE, x);
    let float = descriptors.tensor(CUDNN_DATA_FLOAT, &[2, 8, 1, 1]);
    let backward = descriptors.create(CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR);
    set(backward, CUDNN_ATTR_OPERATION_NORM_BWD_MODE, CUDNN_TYPE_NORM_MODE, &[CUDNN_BATCH_NORM]);
    set(backward, CUDNN_ATTR_OPERATION_NORM_BWD_XDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, &[float]);
    finalized(backward);
    let pointwise = descriptors.create(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    finalized(pointwise);
    let half = "half 32x64x56x56";
    for (operations, expected) in [
        (&[training][..], Some(format!("batch normalization in training of {half}"))),
        (&[inference], Some(format!("layer normalization in inference of {half}"))),
        (&[unknown], Some(format!("normalization in inference of {half}"))),
        (&[backward], Some("batch normalization backward of float 2x8x1x1".into())),
        (&[training, pointwise], Some(format!("batch normalization in training of {half}, and 1 more operation"))),
        (
            &[pointwise, training, pointwise],
            Some(format!("batch normalization in training of {half}, and 2 more operations")),
        ),
        (&[pointwise], None),
        (&[], None),
    ] {
        let graph = descriptors.graph(operations);
        assert_eq!(name(&graph), expected);
        assert!(super::super::reading::graph(&graph).is_none(), "it is planned");
    }
}
