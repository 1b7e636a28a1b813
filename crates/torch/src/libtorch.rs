//! The functions of libtorch: its stable C ABI, and the kernels that we replace.

use std::ffi::{CStr, OsString, c_char, c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use libloading::os::unix::Library;

use super::dispatcher::Dispatcher;
use gpu::Device;
use guest::loaded::opened;

/// A value on an operator's stack.
pub type Value = u64;

/// A pointer to an `at::Tensor`, which is itself a pointer that counts.
pub type RawTensor = *mut *mut c_void;

/// libstdc++'s `std::optional<at::Tensor>`.
#[repr(C)]
pub struct OptionalTensor {
    pub tensor: *mut c_void,
    pub is_there: bool,
}

/// libstdc++'s `std::tuple` of three `at::Tensor`s. The last one comes first.
#[repr(C)]
pub struct Three(pub [*mut c_void; 3]);

/// `c10::ArrayRef<int64_t>`: sizes that somebody else owns.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Sizes {
    first: *const i64,
    count: usize,
}

impl Sizes {
    /// They are valid as long as `of` is.
    pub fn of(of: &[i64]) -> Self {
        Self { first: of.as_ptr(), count: of.len() }
    }

    /// `AXES` sizes. `None` if there is another number of them.
    ///
    /// # Safety
    /// The sizes live.
    pub unsafe fn of_axes<const AXES: usize>(self) -> Option<[i64; AXES]> {
        // SAFETY: as many numbers as `count` says are there.
        (self.count == AXES).then(|| unsafe { std::array::from_fn(|axis| *self.first.add(axis)) })
    }
}

/// `std::array<bool, N>`: which results are wanted.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Wanted<const N: usize>(pub [bool; N]);

/// 0 if the function succeeded.
pub type Status = i32;
/// A kernel as the dispatcher calls it: its arguments lie on the stack, and its results replace them.
pub type Boxed = unsafe extern "C-unwind" fn(*mut Value, u64, u64);

/// `at::…::native_batch_norm(x, weight, bias, running mean, running variance, is training, momentum, epsilon)`. It may
/// throw.
pub type BatchNorm = unsafe extern "C-unwind" fn(
    RawTensor,
    &OptionalTensor,
    &OptionalTensor,
    &OptionalTensor,
    &OptionalTensor,
    bool,
    f64,
    f64,
) -> Three;

/// `at::…::native_batch_norm_backward(dy, x, weight, running mean, running variance, saved mean, saved inverse, is
/// training, epsilon, which results)`. It may throw.
pub type BatchNormBackward = unsafe extern "C-unwind" fn(
    RawTensor,
    RawTensor,
    &OptionalTensor,
    &OptionalTensor,
    &OptionalTensor,
    &OptionalTensor,
    &OptionalTensor,
    bool,
    f64,
    Wanted<3>,
) -> Three;

/// `at::…::native_group_norm(x, weight, bias, images, channels, plane, groups, epsilon)`. It may throw.
pub type GroupNorm =
    unsafe extern "C-unwind" fn(RawTensor, &OptionalTensor, &OptionalTensor, i64, i64, i64, i64, f64) -> Three;

/// `at::…::native_group_norm_backward(dy, x, saved mean, saved inverse, weight, images, channels, plane, groups, which
/// results)`. It may throw.
pub type GroupNormBackward = unsafe extern "C-unwind" fn(
    RawTensor,
    RawTensor,
    RawTensor,
    RawTensor,
    &OptionalTensor,
    i64,
    i64,
    i64,
    i64,
    Wanted<3>,
) -> Three;

/// PyTorch's own kernels of group normalization.
pub struct GroupNormFunctions {
    pub forward: GroupNorm,
    pub backward: GroupNormBackward,
}

impl GroupNormFunctions {
    /// Looks up the functions by their C++ names. `Err` names one that the library lacks.
    ///
    /// # Safety
    /// The names are of such functions.
    unsafe fn of(library: &Library, [forward, backward]: [&'static CStr; 2]) -> Result<Self, &'static str> {
        // SAFETY: the caller's promise; C++'s names tell the arguments' types.
        unsafe { Ok(Self { forward: symbol(library, forward)?, backward: symbol(library, backward)? }) }
    }
}

/// `at::cuda::_conv_depthwise2d(x, weight, kernel size, bias, stride, padding, dilation)`, with the place of its result, or
/// `conv_depthwise3d`. It may throw.
pub type ConvDepthwise = unsafe extern "C-unwind" fn(
    &mut *mut c_void,
    RawTensor,
    RawTensor,
    Sizes,
    &OptionalTensor,
    Sizes,
    Sizes,
    Sizes,
) -> *mut c_void;

/// `at::native::conv_depthwise2d_backward_cuda(dy, x, weight, kernel size, stride, padding, dilation, which results)`, with
/// the place of its results, or `conv_depthwise3d_backward_cuda`. It may throw. The results are a tuple, the last one first.
pub type ConvDepthwiseBackward<const RESULTS: usize> = unsafe extern "C-unwind" fn(
    &mut [*mut c_void; RESULTS],
    RawTensor,
    RawTensor,
    RawTensor,
    Sizes,
    Sizes,
    Sizes,
    Sizes,
    Wanted<RESULTS>,
) -> *mut [*mut c_void; RESULTS];

/// PyTorch's own kernels of convolutions by channel. Those of images make two gradients, of x and of the weight; those of
/// volumes make the bias's too.
pub struct DepthwiseFunctions<const RESULTS: usize> {
    pub forward: ConvDepthwise,
    pub backward: ConvDepthwiseBackward<RESULTS>,
    /// Where libtorch keeps the address of `backward`, by which it calls it.
    pub place: &'static AtomicPtr<c_void>,
}

impl<const RESULTS: usize> DepthwiseFunctions<RESULTS> {
    /// Looks up the functions by their C++ names: forward, backward, and the place of the latter. `None` if this libtorch
    /// keeps them in another way, or on a processor where a result's place is passed otherwise.
    ///
    /// # Safety
    /// The names are of such functions.
    unsafe fn of(files: &Files, [forward, backward, stub]: [&'static CStr; 3]) -> Option<Self> {
        let cuda = files.cuda.as_ref().filter(|_| cfg!(target_arch = "x86_64"))?;
        // SAFETY: the caller's promise; C++'s names tell the arguments' types. The stub begins with a pointer for each kind
        // of device.
        unsafe {
            let backward: ConvDepthwiseBackward<RESULTS> = symbol(cuda, backward).ok()?;
            let stub: *mut AtomicPtr<c_void> = symbol(&files.cpu, stub).ok()?;
            let mut places = (0..KINDS_OF_DEVICES).map(|kind| &*stub.add(kind));
            let place = places.find(|place| place.load(Ordering::Acquire).addr() == backward as usize)?;
            Some(Self { forward: symbol(cuda, forward).ok()?, backward, place })
        }
    }
}

/// The C++ names of PyTorch's depthwise convolutions of images, and of volumes.
const DEPTHWISE: [&CStr; 3] = [
    c"_ZN2at4cuda17_conv_depthwise2dERKNS_6TensorES3_N3c108ArrayRefIlEERKSt8optionalIS1_ES6_S6_S6_",
    c"_ZN2at6native30conv_depthwise2d_backward_cudaERKNS_6TensorES3_S3_N3c108ArrayRefIlEES6_S6_S6_St5arrayIbLm2EE",
    c"_ZN2at6native30conv_depthwise2d_backward_stubE",
];
const DEPTHWISE_OF_VOLUMES: [&CStr; 3] = [
    c"_ZN2at4cuda16conv_depthwise3dERKNS_6TensorES3_N3c108ArrayRefIlEERKSt8optionalIS1_ES6_S6_S6_",
    c"_ZN2at6native30conv_depthwise3d_backward_cudaERKNS_6TensorES3_S3_N3c108ArrayRefIlEES6_S6_S6_St5arrayIbLm3EE",
    c"_ZN2at6native30conv_depthwise3d_backward_stubE",
];

impl Dispatcher {
    /// `Err` names a function that libtorch lacks.
    fn of(cpu: &Library) -> Result<Self, &'static str> {
        // SAFETY: C++'s names tell the arguments' types.
        unsafe {
            Ok(Self {
                singleton: symbol(cpu, c"_ZN3c1010Dispatcher13realSingletonEv")?,
                find: symbol(cpu, c"_ZN3c1010Dispatcher10findSchemaERKNS_12OperatorNameE")?,
                dump: symbol(cpu, c"_ZNK3c104impl13OperatorEntry9dumpStateB5cxx11Ev")?,
            })
        }
    }
}

/// The fewest kinds of devices that a stub has pointers for.
const KINDS_OF_DEVICES: usize = 4;

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident: $symbol:literal as fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The names of the functions that libtorch_cpu.so must have, in the order in which they are looked up.
        pub const NEEDED: &[&CStr] = &[$($symbol),*];

        /// libtorch's functions, and the operators of C++. They stay: the libraries are never closed.
        pub struct Libtorch {
            $($(#[$doc])* pub $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            /// C++'s `operator new` and `operator delete`.
            pub new: unsafe extern "C" fn(usize) -> *mut c_void,
            pub delete: unsafe extern "C" fn(*mut c_void),
            pub batch_norm: BatchNorm,
            pub batch_norm_backward: BatchNormBackward,
            /// None if this libtorch has other functions.
            pub group_norm: Option<GroupNormFunctions>,
            /// For depthwise convolutions of images, and of volumes. None on the host, and where they cannot be taken over.
            pub depthwise: Option<DepthwiseFunctions<2>>,
            pub depthwise_of_volumes: Option<DepthwiseFunctions<3>>,
            /// None if this libtorch's dispatcher has other functions.
            pub dispatcher: Option<Dispatcher>,
            /// `aoti_torch_get_current_cuda_stream(device, &stream)`. None on the host.
            pub stream: Option<unsafe extern "C" fn(i32, &mut *mut c_void) -> Status>,
            /// `c10::WarningUtils`: the thread's handler of warnings, and a function that sets it.
            pub warning_handler: Option<unsafe extern "C" fn() -> *mut c_void>,
            pub set_warning_handler: Option<unsafe extern "C" fn(*mut c_void)>,
            /// Likewise: a flag. If it is set, a warning of once a process comes each time.
            pub warns_always: Option<unsafe extern "C" fn() -> bool>,
            pub set_warns_always: Option<unsafe extern "C" fn(bool)>,
        }

        impl Libtorch {
            /// `Err` names a function that this version of libtorch lacks.
            fn of(files: &Files) -> Result<Self, &'static str> {
                let is_cuda = files.cuda.is_some();
                let of_kernels = if is_cuda { KERNELS_FOR_CUDA } else { KERNELS_FOR_CPU };
                let of_groups = if is_cuda { GROUP_NORM_FOR_CUDA } else { GROUP_NORM_FOR_CPU };
                // C++'s operators are the process's, where a program has its own; else those that libtorch depends on.
                let process = Library::this();
                // SAFETY: the names are of functions of these types. C++'s names tell their arguments' types.
                unsafe {
                    let kernels = files.cuda.as_ref().unwrap_or(&files.cpu);
                    let stream = files.cuda.as_ref().map(|cuda| symbol(cuda, c"aoti_torch_get_current_cuda_stream"));
                    Ok(Self {
                        $($name: symbol(&files.cpu, $symbol)?,)*
                        new: symbol(&process, NEW).or_else(|_| symbol(&files.cpu, NEW))?,
                        delete: symbol(&process, DELETE).or_else(|_| symbol(&files.cpu, DELETE))?,
                        batch_norm: symbol(kernels, of_kernels[0])?,
                        batch_norm_backward: symbol(kernels, of_kernels[1])?,
                        group_norm: GroupNormFunctions::of(kernels, of_groups).ok(),
                        depthwise: DepthwiseFunctions::of(files, DEPTHWISE),
                        depthwise_of_volumes: DepthwiseFunctions::of(files, DEPTHWISE_OF_VOLUMES),
                        dispatcher: Dispatcher::of(&files.cpu).ok(),
                        stream: stream.transpose()?,
                        warns_always: symbol(&files.cpu, c"_ZN3c1012WarningUtils14get_warnAlwaysEv").ok(),
                        set_warns_always: symbol(&files.cpu, c"_ZN3c1012WarningUtils14set_warnAlwaysEb").ok(),
                        warning_handler: symbol(&files.cpu, c"_ZN3c1012WarningUtils19get_warning_handlerEv").ok(),
                        set_warning_handler: symbol(
                            &files.cpu,
                            c"_ZN3c1012WarningUtils19set_warning_handlerEPNS_14WarningHandlerE",
                        ).ok(),
                    })
                }
            }
        }
    };
}

functions! {
    /// Begins a set of kernels: namespace, dispatch key, file, line.
    begin_library: c"aoti_torch_library_init_impl"
        as fn(*const c_char, *const c_char, *const c_char, u32, &mut *mut c_void) -> Status;
    /// Puts a kernel in an operator's place.
    implement: c"aoti_torch_library_impl" as fn(*mut c_void, *const c_char, Boxed) -> Status;
    is_defined: c"aoti_torch_is_defined" as fn(RawTensor, &mut bool) -> Status;
    data: c"aoti_torch_get_data_ptr" as fn(RawTensor, &mut *mut c_void) -> Status;
    const_data: c"torch_get_const_data_ptr" as fn(RawTensor, &mut *const c_void) -> Status;
    /// The version: 2^56 · major + 2^48 · minor + 2^40 · patch.
    version: c"aoti_torch_abi_version" as fn() -> u64;
    data_type: c"aoti_torch_get_dtype" as fn(RawTensor, &mut i32) -> Status;
    rank: c"aoti_torch_get_dim" as fn(RawTensor, &mut i64) -> Status;
    sizes: c"aoti_torch_get_sizes" as fn(RawTensor, &mut *const i64) -> Status;
    strides: c"aoti_torch_get_strides" as fn(RawTensor, &mut *const i64) -> Status;
    device_type: c"aoti_torch_get_device_type" as fn(RawTensor, &mut i32) -> Status;
    device_index: c"aoti_torch_get_device_index" as fn(RawTensor, &mut i32) -> Status;
    /// A new tensor: rank, sizes, strides, data type, kind and number of the device.
    empty: c"aoti_torch_empty_strided" as fn(i64, *const i64, *const i64, i32, i32, i32, &mut RawTensor) -> Status;
    /// Copies the elements of the second tensor into the first. Between a device and the host, 0 waits for them.
    copy: c"aoti_torch_copy_" as fn(RawTensor, RawTensor, i32) -> Status;
    /// A tensor that is none.
    undefined: c"aoti_torch_new_uninitialized_tensor" as fn(&mut RawTensor) -> Status;
    delete_tensor: c"aoti_torch_delete_tensor_object" as fn(RawTensor) -> Status;
    list_size: c"torch_list_size" as fn(*mut c_void, &mut usize) -> Status;
    list_item: c"torch_list_get_item" as fn(*mut c_void, usize, &mut Value) -> Status;
    delete_list: c"torch_delete_list" as fn(*mut c_void) -> Status;
    byte: c"aoti_torch_dtype_uint8" as fn() -> c_int;
    float: c"aoti_torch_dtype_float32" as fn() -> c_int;
    half: c"aoti_torch_dtype_float16" as fn() -> c_int;
    bfloat16: c"aoti_torch_dtype_bfloat16" as fn() -> c_int;
}

/// C++'s `operator new` and `operator delete`.
const NEW: &CStr = c"_Znwm";
const DELETE: &CStr = c"_ZdlPv";

/// The C++ names of the kernels that we replace.
const KERNELS_FOR_CUDA: [&CStr; 2] = [
    c"_ZN2at4cuda17native_batch_normERKNS_6TensorERKSt8optionalIS1_ES7_S7_S7_bdd",
    c"_ZN2at4cuda26native_batch_norm_backwardERKNS_6TensorES3_RKSt8optionalIS1_ES7_S7_S7_S7_bdSt5arrayIbLm3EE",
];
/// Likewise on the host, where tests run.
const KERNELS_FOR_CPU: [&CStr; 2] = [
    c"_ZN2at3cpu17native_batch_normERKNS_6TensorERKSt8optionalIS1_ES7_S7_S7_bdd",
    c"_ZN2at3cpu26native_batch_norm_backwardERKNS_6TensorES3_RKSt8optionalIS1_ES7_S7_S7_S7_bdSt5arrayIbLm3EE",
];

/// Likewise of group normalization.
const GROUP_NORM_FOR_CUDA: [&CStr; 2] = [
    c"_ZN2at4cuda17native_group_normERKNS_6TensorERKSt8optionalIS1_ES7_lllld",
    c"_ZN2at4cuda26native_group_norm_backwardERKNS_6TensorES3_S3_S3_RKSt8optionalIS1_EllllSt5arrayIbLm3EE",
];
const GROUP_NORM_FOR_CPU: [&CStr; 2] = [
    c"_ZN2at3cpu17native_group_normERKNS_6TensorERKSt8optionalIS1_ES7_lllld",
    c"_ZN2at3cpu26native_group_norm_backwardERKNS_6TensorES3_S3_S3_RKSt8optionalIS1_EllllSt5arrayIbLm3EE",
];

/// libtorch's functions, once libtorch was found; `None` if this version lacks some.
static LIBTORCH: OnceLock<Option<Libtorch>> = OnceLock::new();

/// libtorch's libraries in the process.
struct Files {
    cpu: Library,
    /// None if the device is the host.
    cuda: Option<Library>,
}

/// # Safety
/// The name is of a function of the type.
unsafe fn symbol<F: Copy>(library: &Library, name: &'static CStr) -> Result<F, &'static str> {
    // SAFETY: the caller promises the type.
    let found = unsafe { library.get::<F>(name.to_bytes_with_nul()) };
    found.map(|function| *function).map_err(|_| name.to_str().unwrap_or_default())
}

impl Libtorch {
    /// libtorch's functions, for kernels: these run only once they are registered.
    ///
    /// # Panics
    /// Before that.
    pub fn of_kernels() -> &'static Self {
        LIBTORCH.get().and_then(Option::as_ref).expect("kernels are registered with libtorch's functions")
    }

    /// Returns whether [`Self::found`] has found libtorch.
    pub fn is_found() -> bool {
        LIBTORCH.get().is_some()
    }

    /// The functions of the libtorch among the process's files. `None` if it has none, or one that was found before, or
    /// that lacks a function, which the log names.
    pub fn found(files: &[OsString], device: Device) -> Option<&'static Self> {
        let cpu = opened(files, "libtorch_cpu.so")?;
        let cuda = if device == Device::Cuda { Some(opened(files, "libtorch_cuda.so")?) } else { None };
        let mut is_new = false;
        let found = LIBTORCH.get_or_init(|| {
            is_new = true;
            let files = Files { cpu, cuda };
            let missing = |name: &&str| log::info!("PyTorch's operators stay as they are: its libtorch has no {name}");
            let functions = Self::of(&files).inspect_err(missing).ok();
            if let Some(Self { group_norm: None, .. }) = functions {
                log::info!("PyTorch's group normalization stays as it is: this libtorch has other functions");
            }
            if let Some(Self { depthwise: None, .. } | Self { depthwise_of_volumes: None, .. }) = functions
                && device == Device::Cuda
            {
                log::info!(
                    "PyTorch's depthwise convolutions, or some of them, stay as they are: this libtorch keeps them in \
                     another way"
                );
            }
            // The functions must stay.
            std::mem::forget(files);
            functions
        });
        found.as_ref().filter(|_| is_new)
    }
}
