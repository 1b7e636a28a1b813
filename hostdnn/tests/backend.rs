//! Backend descriptors for the tests of the graph API, and the graphs that they make.

use crate::operand::Operand;
use cudnn_abi::*;
use hostdnn::abi::*;
use std::ffi::c_void;
use std::ptr::null_mut;

/// One descriptor, destroyed when dropped.
pub struct Backend(pub cudnnBackendDescriptor_t);

impl Drop for Backend {
    fn drop(&mut self) {
        // SAFETY: made in `new`, and used no more.
        assert_eq!(unsafe { cudnnBackendDestroyDescriptor(self.0) }, CUDNN_STATUS_SUCCESS);
    }
}

// SAFETY of all unsafe blocks below: descriptors are live, and arrays are as long as their counts say.
impl Backend {
    pub fn new(kind: cudnnBackendDescriptorType_t) -> Self {
        let mut descriptor = null_mut();
        // SAFETY: see above.
        assert_eq!(unsafe { cudnnBackendCreateDescriptor(kind, &mut descriptor) }, CUDNN_STATUS_SUCCESS, "kind {kind}");
        Self(descriptor)
    }

    pub fn set<T: Copy>(&self, name: i32, element: i32, values: &[T]) -> cudnnStatus_t {
        // SAFETY: see above.
        unsafe { cudnnBackendSetAttribute(self.0, name, element, values.len() as i64, values.as_ptr().cast()) }
    }

    pub fn with<T: Copy>(self, name: i32, element: i32, values: &[T]) -> Self {
        assert_eq!(self.set(name, element, values), CUDNN_STATUS_SUCCESS, "attribute {name}");
        self
    }

    pub fn with_integers(self, name: i32, values: &[i64]) -> Self {
        self.with(name, CUDNN_TYPE_INT64, values)
    }

    pub fn with_descriptors(self, name: i32, descriptors: &[&Self]) -> Self {
        let raw: Vec<_> = descriptors.iter().map(|descriptor| descriptor.0).collect();
        self.with(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, &raw)
    }

    pub fn finalize(&self) -> cudnnStatus_t {
        // SAFETY: see above.
        unsafe { cudnnBackendFinalize(self.0) }
    }

    pub fn finalized(self) -> Self {
        assert_eq!(self.finalize(), CUDNN_STATUS_SUCCESS, "{}", last_error());
        self
    }

    /// The elements of an attribute that has at most `room` elements.
    pub fn get<T: Copy + Default>(&self, name: i32, element: i32, room: usize) -> Vec<T> {
        let (mut values, mut count) = (vec![T::default(); room], -1);
        // SAFETY: see above.
        let status = unsafe {
            cudnnBackendGetAttribute(self.0, name, element, room as i64, &mut count, values.as_mut_ptr().cast())
        };
        assert_eq!(status, CUDNN_STATUS_SUCCESS, "attribute {name}: {}", last_error());
        values.truncate(usize::try_from(count).unwrap());
        values
    }

    pub fn integer(&self, name: i32) -> i64 {
        self.get(name, CUDNN_TYPE_INT64, 1)[0]
    }

    /// The descriptors of an attribute that has at most `room` of them.
    pub fn get_descriptors(&self, name: i32, kind: cudnnBackendDescriptorType_t, room: usize) -> Vec<Self> {
        let mut all: Vec<_> = (0..room).map(|_| Self::new(kind)).collect();
        let mut raw: Vec<_> = all.iter().map(|descriptor| descriptor.0).collect();
        let (element, mut count) = (CUDNN_TYPE_BACKEND_DESCRIPTOR, -1);
        // SAFETY: see above.
        let status = unsafe {
            cudnnBackendGetAttribute(self.0, name, element, room as i64, &mut count, raw.as_mut_ptr().cast())
        };
        assert_eq!(status, CUDNN_STATUS_SUCCESS, "attribute {name}: {}", last_error());
        all.truncate(usize::try_from(count).unwrap());
        all
    }

    pub fn get_descriptor(&self, name: i32, kind: cudnnBackendDescriptorType_t) -> Self {
        self.get_descriptors(name, kind, 1).pop().unwrap()
    }
}

pub fn last_error() -> String {
    let mut text = [0u8; 512];
    // SAFETY: `text` has room for 512 bytes.
    unsafe { cudnnGetLastErrorString(text.as_mut_ptr().cast(), text.len()) };
    String::from_utf8_lossy(&text).trim_end_matches('\0').to_owned()
}

fn wide(values: &[usize]) -> Vec<i64> {
    values.iter().map(|&value| value as i64).collect()
}

/// An unfinalized tensor that is aligned to its elements.
pub fn unfinished_tensor(uid: i64, data_type: cudnnDataType_t, dims: &[usize], strides: &[usize]) -> Backend {
    Backend::new(CUDNN_BACKEND_TENSOR_DESCRIPTOR)
        .with(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, &[data_type])
        .with_integers(CUDNN_ATTR_TENSOR_DIMENSIONS, &wide(dims))
        .with_integers(CUDNN_ATTR_TENSOR_STRIDES, &wide(strides))
        .with_integers(CUDNN_ATTR_TENSOR_UNIQUE_ID, &[uid])
        .with_integers(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, &[super::operand::element_size(data_type) as i64])
}

pub fn tensor(uid: i64, operand: &Operand) -> Backend {
    unfinished_tensor(uid, operand.data_type, &operand.dims, &operand.strides).finalized()
}

/// A tensor without memory, of `like`'s size and layout.
pub fn virtual_tensor(uid: i64, data_type: cudnnDataType_t, like: &Operand) -> Backend {
    let tensor = unfinished_tensor(uid, data_type, &like.dims, &like.strides);
    tensor.with(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, &[true]).finalized()
}

/// Padding before and after, strides and dilation.
pub fn convolution(pad: &[i32], stride: &[i32], dilation: &[i32], flip: bool, data_type: cudnnDataType_t) -> Backend {
    convolution_between([pad, pad], stride, dilation, flip, data_type)
}

/// The same with different padding before and after.
pub fn convolution_between(
    [before, behind]: [&[i32]; 2],
    stride: &[i32],
    dilation: &[i32],
    flip: bool,
    data_type: cudnnDataType_t,
) -> Backend {
    let wide = |values: &[i32]| values.iter().map(|&value| value.into()).collect::<Vec<i64>>();
    let compute = if data_type == CUDNN_DATA_DOUBLE { CUDNN_DATA_DOUBLE } else { CUDNN_DATA_FLOAT };
    let mode = if flip { CUDNN_CONVOLUTION } else { CUDNN_CROSS_CORRELATION };
    Backend::new(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)
        .with(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, &[compute])
        .with(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, &[mode])
        .with_integers(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, &[before.len() as i64])
        .with_integers(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, &wide(before))
        .with_integers(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, &wide(behind))
        .with_integers(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, &wide(stride))
        .with_integers(CUDNN_ATTR_CONVOLUTION_DILATIONS, &wide(dilation))
        .finalized()
}

/// The names of a direction's operation and of its x, w, y, convolution, alpha and beta.
pub type Names = [i32; 7];
pub const FORWARD: Names = [
    CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
];
pub const BACKWARD_DATA: Names = [
    CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
];
pub const BACKWARD_FILTER: Names = [
    CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
];

pub fn convolve(names: &Names, [x, w, y]: [&Backend; 3], convolution: &Backend, alpha: f64, beta: f64) -> Backend {
    let &[kind, x_name, w_name, y_name, convolution_name, alpha_name, beta_name] = names;
    Backend::new(kind)
        .with_descriptors(x_name, &[x])
        .with_descriptors(w_name, &[w])
        .with_descriptors(y_name, &[y])
        .with_descriptors(convolution_name, &[convolution])
        .with(alpha_name, CUDNN_TYPE_DOUBLE, &[alpha])
        .with(beta_name, CUDNN_TYPE_FLOAT, &[beta as f32])
        .finalized()
}

/// `y = mode(factors[0]·x, factors[1]·b)`, computed in float, or in double for doubles.
pub fn pointwise(
    mode: cudnnPointwiseMode_t,
    x: &Backend,
    b: Option<&Backend>,
    y: &Backend,
    factors: [f32; 2],
    compute: cudnnDataType_t,
) -> Backend {
    let function = Backend::new(CUDNN_BACKEND_POINTWISE_DESCRIPTOR)
        .with(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, &[mode])
        .with(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, &[compute])
        .finalized();
    let operation = Backend::new(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
        .with_descriptors(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, &[&function])
        .with_descriptors(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, &[x])
        .with_descriptors(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, &[y])
        .with(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, CUDNN_TYPE_FLOAT, &[factors[0]])
        .with(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, CUDNN_TYPE_FLOAT, &[factors[1]]);
    let b = b.map(|b| operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, &[b.0]));
    assert!(b.is_none_or(|status| status == CUDNN_STATUS_SUCCESS));
    operation.finalized()
}

pub fn graph(operations: &[&Backend]) -> Backend {
    let graph = Backend::new(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    graph.with_descriptors(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations).finalized()
}

/// The graph's engine configurations, best first.
pub fn heuristics(graph: &Backend, mode: cudnnBackendHeurMode_t) -> Vec<Backend> {
    let heuristics = Backend::new(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)
        .with_descriptors(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, &[graph])
        .with(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, &[mode])
        .finalized();
    heuristics.get_descriptors(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, 64)
}

pub fn engine(graph: &Backend, index: i64) -> Backend {
    Backend::new(CUDNN_BACKEND_ENGINE_DESCRIPTOR)
        .with_descriptors(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, &[graph])
        .with_integers(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, &[index])
        .finalized()
}

/// An engine with each knob at a value.
pub fn configuration(engine: &Backend, knobs: &[(cudnnBackendKnobType_t, i64)]) -> Backend {
    let choices: Vec<_> = knobs
        .iter()
        .map(|&(knob, value)| {
            Backend::new(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR)
                .with(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, &[knob])
                .with_integers(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, &[value])
                .finalized()
        })
        .collect();
    Backend::new(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)
        .with_descriptors(CUDNN_ATTR_ENGINECFG_ENGINE, &[engine])
        .with_descriptors(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, &choices.iter().collect::<Vec<_>>())
}

/// The engine's index and the knobs of a configuration.
pub fn choice(configuration: &Backend) -> (i64, Vec<(cudnnBackendKnobType_t, i64)>) {
    let engine = configuration.get_descriptor(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    let choices = configuration.get_descriptors(
        CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
        CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR,
        CUDNN_KNOB_TYPE_COUNTS as usize,
    );
    let knobs = choices.iter().map(|choice| {
        let kind = choice.get(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1)[0];
        (kind, choice.integer(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE))
    });
    (engine.integer(CUDNN_ATTR_ENGINE_GLOBAL_INDEX), knobs.collect())
}

/// A finalized plan, or the status of the refusal.
pub fn plan(configuration: &Backend) -> Result<Backend, cudnnStatus_t> {
    let plan = Backend::new(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    let plan = plan.with_descriptors(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, &[configuration]);
    match plan.finalize() {
        CUDNN_STATUS_SUCCESS => Ok(plan),
        status => Err(status),
    }
}

pub fn workspace_size(plan: &Backend) -> usize {
    plan.integer(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) as usize
}

/// A pack of tensors by their unique ids, and a workspace.
pub fn pack(tensors: &[(i64, *const c_void)], workspace: *mut c_void) -> Backend {
    let (ids, pointers): (Vec<i64>, Vec<*const c_void>) = tensors.iter().copied().unzip();
    Backend::new(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
        .with_integers(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, &ids)
        .with(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, &pointers)
        .with(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, &[workspace])
        .finalized()
}

/// Executes a plan in a workspace of exactly its size, at an odd address, between canaries that must not change.
pub fn execute(handle: cudnnHandle_t, plan: &Backend, tensors: &[(i64, *const c_void)]) -> cudnnStatus_t {
    const CANARY: u8 = 0xa5;
    const BEFORE: usize = 257;
    let size = workspace_size(plan);
    let mut memory = vec![CANARY; BEFORE + size + 256];
    let pack = pack(tensors, memory[BEFORE..].as_mut_ptr().cast());
    // SAFETY: the tensors are as long as their descriptors say, and the workspace has the plan's size.
    let status = unsafe { cudnnBackendExecute(handle, plan.0, pack.0) };
    let around = memory[..BEFORE].iter().chain(&memory[BEFORE + size..]);
    assert!(around.into_iter().all(|&byte| byte == CANARY), "written outside of the workspace");
    status
}
