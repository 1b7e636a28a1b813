//! The graph API of a library, through its own functions. Any failure ends the benchmark.
#![allow(dead_code)] // each benchmark uses a part

use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;

use cudnn_abi::*;
use libloading::os::unix::{Library, RTLD_NOW};

/// A descriptor.
pub type Backend = cudnnBackendDescriptor_t;

/// The tensors' ids in variant packs.
const IDS: [i64; 3] = [1, 2, 3];

type Create = unsafe extern "C" fn(cudnnBackendDescriptorType_t, *mut Backend) -> cudnnStatus_t;
type Set = unsafe extern "C" fn(
    Backend,
    cudnnBackendAttributeName_t,
    cudnnBackendAttributeType_t,
    i64,
    *const c_void,
) -> cudnnStatus_t;
type Get = unsafe extern "C" fn(
    Backend,
    cudnnBackendAttributeName_t,
    cudnnBackendAttributeType_t,
    i64,
    *mut i64,
    *mut c_void,
) -> cudnnStatus_t;
type Of = unsafe extern "C" fn(Backend) -> cudnnStatus_t;
type Execute = unsafe extern "C" fn(cudnnHandle_t, Backend, Backend) -> cudnnStatus_t;

/// `libucudnn.so`, which cargo builds beside the benchmarks' executables.
pub fn shim() -> PathBuf {
    std::env::current_exe().unwrap().with_file_name("libucudnn.so")
}

/// A library's functions.
pub struct Api {
    /// The library itself.
    pub library: Library,
    create: Create,
    set: Set,
    get: Get,
    finalize: Of,
    destroy: Of,
    execute: Execute,
}

fn check(status: cudnnStatus_t) {
    assert_eq!(status, CUDNN_STATUS_SUCCESS);
}

impl Api {
    /// Opens a cuDNN, or a library in front of one.
    pub fn open(file: &Path) -> Self {
        // SAFETY: the file is a cuDNN, or a library in front of one, whose functions have these types.
        unsafe {
            let library = Library::open(Some(file), RTLD_NOW).unwrap();
            Self {
                create: *library.get(b"cudnnBackendCreateDescriptor\0").unwrap(),
                set: *library.get(b"cudnnBackendSetAttribute\0").unwrap(),
                get: *library.get(b"cudnnBackendGetAttribute\0").unwrap(),
                finalize: *library.get(b"cudnnBackendFinalize\0").unwrap(),
                destroy: *library.get(b"cudnnBackendDestroyDescriptor\0").unwrap(),
                execute: *library.get(b"cudnnBackendExecute\0").unwrap(),
                library,
            }
        }
    }

    /// A new handle.
    pub fn handle(&self) -> cudnnHandle_t {
        let mut handle = null_mut();
        // SAFETY: cudnnCreate has this type, and `handle` is a valid place for the result.
        check(unsafe {
            let create =
                self.library.get::<unsafe extern "C" fn(*mut cudnnHandle_t) -> cudnnStatus_t>(b"cudnnCreate\0");
            create.unwrap()(&mut handle)
        });
        handle
    }

    fn created(&self, kind: cudnnBackendDescriptorType_t) -> Backend {
        let mut descriptor = null_mut();
        // SAFETY: `descriptor` is a valid place for the result.
        check(unsafe { (self.create)(kind, &mut descriptor) });
        descriptor
    }

    fn set<T>(
        &self,
        descriptor: Backend,
        name: cudnnBackendAttributeName_t,
        element: cudnnBackendAttributeType_t,
        values: &[T],
    ) {
        // SAFETY: `descriptor` is live, and `values` has `values.len()` elements.
        check(unsafe { (self.set)(descriptor, name, element, values.len() as i64, values.as_ptr().cast()) });
    }

    fn set_descriptor(&self, descriptor: Backend, name: cudnnBackendAttributeName_t, value: Backend) {
        self.set(descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, &[value]);
    }

    fn finalized(&self, descriptor: Backend) -> Backend {
        // SAFETY: created() made `descriptor`, and nobody has destroyed it.
        check(unsafe { (self.finalize)(descriptor) });
        descriptor
    }

    /// Ends a descriptor.
    pub fn destroy(&self, descriptor: Backend) {
        // SAFETY: `descriptor` is live, and the benchmark does not use it again.
        check(unsafe { (self.destroy)(descriptor) });
    }

    fn tensor(&self, id: i64, dims: &[i64; 4], data_type: cudnnDataType_t, alignment: i64) -> Backend {
        let tensor = self.created(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
        let strides = [dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1];
        self.set(tensor, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, &[data_type]);
        self.set(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, dims);
        self.set(tensor, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, &strides);
        self.set(tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, &[id]);
        self.set(tensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, &[alignment]);
        self.finalized(tensor)
    }

    /// The operation graph of a padded 3×3 convolution with as many inputs as outputs, packed as NCHW and aligned to
    /// `alignment` bytes.
    pub fn convolution(
        &self,
        x: &[i64; 4],
        data_type: cudnnDataType_t,
        alignment: i64,
        handle: Option<cudnnHandle_t>,
    ) -> Backend {
        let ones = [1_i64, 1];
        let what = self.created(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
        self.set(what, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, &[CUDNN_DATA_FLOAT]);
        let mode = [CUDNN_CROSS_CORRELATION];
        self.set(what, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, &mode);
        self.set(what, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, &[2_i64]);
        for name in [
            CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS,
            CUDNN_ATTR_CONVOLUTION_POST_PADDINGS,
            CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES,
            CUDNN_ATTR_CONVOLUTION_DILATIONS,
        ] {
            self.set(what, name, CUDNN_TYPE_INT64, &ones);
        }
        self.finalized(what);
        let tensors = [
            (CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, self.tensor(IDS[0], x, data_type, alignment)),
            (
                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                self.tensor(IDS[1], &[x[1], x[1], 3, 3], data_type, alignment),
            ),
            (CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, self.tensor(IDS[2], x, data_type, alignment)),
        ];
        let operation = self.created(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
        self.set_descriptor(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, what);
        for (name, tensor) in tensors {
            self.set_descriptor(operation, name, tensor);
        }
        self.set(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, &[1.0_f32]);
        self.set(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, &[0.0_f32]);
        self.finalized(operation);
        let graph = self.created(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
        if let Some(handle) = handle {
            self.set(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, &[handle]);
        }
        self.set_descriptor(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, operation);
        self.finalized(graph)
    }

    /// A device's properties, from JSON.
    pub fn properties(&self, json: &str) -> Backend {
        let properties = self.created(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
        self.set(properties, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, json.as_bytes());
        self.finalized(properties)
    }

    /// The engine configurations that heuristics of mode A list, best first.
    pub fn offers(&self, graph: Backend, properties: Option<Backend>) -> Vec<Backend> {
        const MOST: usize = 64;
        let heuristics = self.created(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
        self.set_descriptor(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
        self.set(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, &[CUDNN_HEUR_MODE_A]);
        if let Some(properties) = properties {
            self.set_descriptor(heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, properties);
        }
        self.finalized(heuristics);
        let mut offers: Vec<_> = (0..MOST).map(|_| self.created(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)).collect();
        let mut count = 0;
        // SAFETY: `heuristics` is live, and `offers` has MOST live descriptors to fill.
        check(unsafe {
            (self.get)(
                heuristics,
                CUDNN_ATTR_ENGINEHEUR_RESULTS,
                CUDNN_TYPE_BACKEND_DESCRIPTOR,
                MOST as i64,
                &mut count,
                offers.as_mut_ptr().cast(),
            )
        });
        offers.truncate(count as usize);
        offers
    }

    /// A plan with all attributes set, to be finalized.
    pub fn unfinalized_plan(
        &self,
        configuration: Backend,
        handle: Option<cudnnHandle_t>,
        properties: Option<Backend>,
    ) -> Backend {
        let plan = self.created(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        self.set_descriptor(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
        if let Some(handle) = handle {
            self.set(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, &[handle]);
        }
        if let Some(properties) = properties {
            self.set_descriptor(plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, properties);
        }
        plan
    }

    /// Finalizes a descriptor, and returns whether that succeeded: heuristics also list configurations that do not run.
    pub fn try_finalize(&self, descriptor: Backend) -> bool {
        // SAFETY: created() made `descriptor`, and nobody has destroyed it.
        unsafe { (self.finalize)(descriptor) == CUDNN_STATUS_SUCCESS }
    }

    /// A finalized plan.
    pub fn plan(&self, configuration: Backend, handle: Option<cudnnHandle_t>, properties: Option<Backend>) -> Backend {
        self.finalized(self.unfinalized_plan(configuration, handle, properties))
    }

    /// A variant pack of memory that nothing touches.
    pub fn pack(&self, workspace: *mut c_void) -> Backend {
        let pack = self.created(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
        // Far apart: convolutions whose result shares memory with an operand are not divided.
        let memory = [1 << 40, 2 << 40, 3 << 40].map(|address: usize| address as *mut c_void);
        self.set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, &IDS);
        self.set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, &memory);
        self.set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, &[workspace]);
        self.finalized(pack)
    }

    /// Executes a plan.
    #[inline]
    pub fn execute(&self, handle: cudnnHandle_t, plan: Backend, pack: Backend) {
        // SAFETY: the plan and the pack are live, and nothing touches the pack's memory.
        check(unsafe { (self.execute)(handle, plan, pack) });
    }
}
