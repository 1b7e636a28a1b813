//! The graph (backend) API.

use super::boundary::{self, Opaque, context, create_of, destroy, read_array, refer, refer_mut};
use super::entries::*;
use crate::error::{Error, Result, require};
use crate::graph::{self, Attribute, Descriptor, Listing, Null, Value};
use cudnn_abi::*;
use std::ffi::c_void;
use std::sync::Arc;

/// The object behind a program's descriptor. Descriptors that are set to others share the value, until it changes.
pub(super) struct Backend(Arc<Descriptor>);

impl Opaque for Backend {
    type Handle = c_void;
    const KIND: u32 = u32::from_ne_bytes(*b"hbkd");
}

impl Answer for cudnnBackendCreateDescriptor {
    unsafe fn answer(self) -> Result {
        let Self { kind, descriptor } = self;
        let new = Backend(Arc::new(Descriptor::new(kind)?));
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { create_of(new, descriptor) }
    }
}

impl Answer for cudnnBackendDestroyDescriptor {
    unsafe fn answer(self) -> Result {
        let Self { descriptor } = self;
        check_not_null(descriptor)?;
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { destroy::<Backend>(descriptor) }
    }
}

/// Resets a descriptor to its state at creation.
impl Answer for cudnnBackendInitialize {
    unsafe fn answer(self) -> Result {
        let Self { descriptor } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        let backend = unsafe { refer_mut::<Backend>(descriptor) }?;
        backend.0 = Arc::new(Descriptor::new(backend.0.kind())?);
        Ok(())
    }
}

impl Answer for cudnnBackendFinalize {
    unsafe fn answer(self) -> Result {
        let Self { descriptor } = self;
        check_not_null(descriptor)?;
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        Arc::make_mut(&mut unsafe { refer_mut::<Backend>(descriptor) }?.0).finalize()
    }
}

impl Answer for cudnnBackendSetAttribute {
    unsafe fn answer(self) -> Result {
        let Self { descriptor, name, element, count, elements } = self;
        check_not_null(descriptor)?;
        // SAFETY: each pointer is null or valid by cuDNN's contract; the array has `count` elements of its type.
        unsafe {
            let backend = refer_mut::<Backend>(descriptor)?;
            require(!elements.is_null() || count <= 0, "arrays are not null")?;
            let (attribute, count) = backend.0.settable(name, element, count)?;
            let element = attribute.taken_as(element);
            let (value, refused) = match attribute.unread(element, count) {
                Some(value) => (value, None),
                None => read(attribute, element, count, elements)?,
            };
            match refused {
                Some(error) if !attribute.appends() => return Err(error),
                _ => Arc::make_mut(&mut backend.0).set(attribute, element, value)?,
            }
            refused.map_or(Ok(()), Err)
        }
    }
}

/// Without an array, `count` becomes the number of elements. Descriptors in the array are filled if they have
/// the attribute's kind.
impl Answer for cudnnBackendGetAttribute {
    unsafe fn answer(self) -> Result {
        let Self { descriptor, name, element, requested, count, elements } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract; the array has room for the requested elements.
        unsafe {
            let descriptor = &refer::<Backend>(descriptor)?.0;
            descriptor.check_readable()?;
            let has_array = !elements.is_null();
            require(has_array || !count.is_null(), "somewhere to write to")?;
            require(!has_array || requested >= 0, "the count is not negative")?;
            let (attribute, value) = descriptor.get(name, element, requested, has_array)?;
            let (mut told, written) = attribute.count(value.map_or(0, Value::len), requested, has_array)?;
            if let Some(value) = value
                && written > 0
            {
                let element = attribute.written(element);
                let left_out = write(element, value, attribute.listing, written, elements)?;
                told -= left_out;
            }
            if !count.is_null() {
                count.write(told as i64);
            }
        }
        Ok(())
    }
}

impl Answer for cudnnBackendExecute {
    unsafe fn answer(self) -> Result {
        let Self { handle, plan, pack } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract; the pack's addresses are its tensors' and workspace's.
        unsafe {
            context(handle)?;
            let (plan, pack) = (&refer::<Backend>(plan)?.0, &refer::<Backend>(pack)?.0);
            graph::execute("cudnnBackendExecute", plan, pack)
        }
    }
}

/// The bytes of workspace that an execution of the plan with the pack needs. cuDNN has this function since 9.23.
impl Answer for cudnnGetExecutionPlanWorkspaceSize {
    unsafe fn answer(self) -> Result {
        let Self { handle, plan, pack, size } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe {
            context(handle)?;
            let (plan, pack) = (&refer::<Backend>(plan)?.0, &refer::<Backend>(pack)?.0);
            boundary::write(size, graph::workspace(plan, pack)?)
        }
    }
}

/// CUDNN_STATUS_NOT_SUPPORTED_CUDA_GRAPH_NATIVE_API: there are no CUDA graphs on a CPU.
impl Answer for cudnnBackendPopulateCudaGraph {
    unsafe fn answer(self) -> Result {
        let Self { handle, plan, pack, graph } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { no_cuda_graphs(handle, plan, pack, graph) }
    }
}

/// CUDNN_STATUS_NOT_SUPPORTED_CUDA_GRAPH_NATIVE_API: there are no CUDA graphs on a CPU.
impl Answer for cudnnBackendUpdateCudaGraph {
    unsafe fn answer(self) -> Result {
        let Self { handle, plan, pack, graph } = self;
        // SAFETY: each pointer is null or valid by cuDNN's contract.
        unsafe { no_cuda_graphs(handle, plan, pack, graph) }
    }
}

/// # Safety
/// Handle and descriptors are null or live.
unsafe fn no_cuda_graphs(
    handle: cudnnHandle_t,
    plan: cudnnBackendDescriptor_t,
    pack: cudnnBackendDescriptor_t,
    graph: cudaGraph_t,
) -> Result {
    // SAFETY: the caller's promise.
    unsafe {
        context(handle)?;
        refer::<Backend>(plan)?;
        refer::<Backend>(pack)?;
    }
    require(!graph.is_null(), "a CUDA graph")?;
    Err(Error::new(CUDNN_STATUS_NOT_SUPPORTED_CUDA_GRAPH_NATIVE_API, "there are no CUDA graphs on a CPU"))
}

fn check_not_null(descriptor: cudnnBackendDescriptor_t) -> Result {
    let null = || Error::new(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "descriptors are not null");
    if descriptor.is_null() { Err(null()) } else { Ok(()) }
}

/// The elements of an array from C, up to the first refused one, and the reason. Later changes to a descriptor among
/// them do not affect the result.
///
/// # Safety
/// `array` is null or has `count` elements of the type; handles and descriptors among them are null or live.
unsafe fn read(
    attribute: &Attribute,
    element: cudnnBackendAttributeType_t,
    count: usize,
    array: *const c_void,
) -> Result<(Value, Option<Error>)> {
    let on_null = || match attribute.null {
        Null::Refused(status) => Err(Error::new(status, "handles and descriptors are not null")),
        Null::Unset => Ok(()),
    };
    // SAFETY: the caller's promise.
    let value = unsafe {
        match element {
            CUDNN_TYPE_INT64 => Value::Integers(integers::<i64>(array, count)?),
            CUDNN_TYPE_BOOLEAN | CUDNN_TYPE_CHAR => Value::Integers(integers::<u8>(array, count)?),
            CUDNN_TYPE_FLOAT => Value::Reals(elements::<f32>(array, count)?.into_iter().map(f64::from).collect()),
            CUDNN_TYPE_DOUBLE => Value::Reals(elements(array, count)?),
            CUDNN_TYPE_VOID_PTR => Value::Pointers(elements(array, count)?),
            CUDNN_TYPE_HANDLE => {
                let handles = elements::<cudnnHandle_t>(array, count)?;
                for &handle in &handles {
                    if handle.is_null() { on_null()? } else { context(handle).map(drop)? }
                }
                Value::Pointers(handles.into_iter().map(|handle| handle as usize).collect())
            }
            CUDNN_TYPE_BACKEND_DESCRIPTOR => {
                let mut shared = Vec::new();
                for descriptor in elements::<cudnnBackendDescriptor_t>(array, count)? {
                    let admitted = if descriptor.is_null() {
                        on_null().map(|()| None)
                    } else {
                        refer::<Backend>(descriptor).and_then(|one| {
                            attribute.check_descriptor(&one.0)?;
                            Ok(Some(one.0.clone()))
                        })
                    };
                    match admitted {
                        Ok(one) => shared.extend(one),
                        Err(error) => return Ok((Value::Descriptors(shared), Some(error))),
                    }
                }
                Value::Descriptors(shared)
            }
            _ => Value::Integers(integers::<i32>(array, count)?),
        }
    };
    Ok((value, None))
}

/// # Safety
/// `array` is null or has `count` elements, aligned or not.
unsafe fn elements<T: Copy>(array: *const c_void, count: usize) -> Result<Vec<T>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    // SAFETY: the caller's promise.
    let bytes = unsafe { read_array(array.cast::<u8>(), count * size_of::<T>()) }?;
    // SAFETY: each chunk has an element's bytes.
    Ok(bytes.chunks_exact(size_of::<T>()).map(|one| unsafe { one.as_ptr().cast::<T>().read_unaligned() }).collect())
}

/// # Safety
/// As for [`elements`].
unsafe fn integers<T: Copy + Into<i64>>(array: *const c_void, count: usize) -> Result<Vec<i64>> {
    // SAFETY: the caller's promise.
    Ok(unsafe { elements::<T>(array, count) }?.into_iter().map(T::into).collect())
}

/// Writes the first `count` elements. Skips descriptors in the array that cannot be filled because they are null, of
/// another kind, or (in a list of heuristics' results) finalized; returns the number of skipped ones.
///
/// # Safety
/// `array` has room for `count` elements of the type, which the value has; descriptors in it are null or live.
unsafe fn write(
    element: cudnnBackendAttributeType_t,
    value: &Value,
    listing: Listing,
    count: usize,
    array: *mut c_void,
) -> Result<usize> {
    // SAFETY: the caller's promise.
    unsafe {
        match value {
            Value::Integers(all) => match element {
                CUDNN_TYPE_INT64 => write_elements(array, all[..count].iter().copied()),
                CUDNN_TYPE_BOOLEAN | CUDNN_TYPE_CHAR => {
                    write_elements(array, all[..count].iter().map(|&one| one as u8))
                }
                _ => write_elements(array, all[..count].iter().map(|&one| one as i32)),
            },
            Value::Reals(all) => match element {
                CUDNN_TYPE_FLOAT => write_elements(array, all[..count].iter().map(|&one| one as f32)),
                _ => write_elements(array, all[..count].iter().copied()),
            },
            Value::Pointers(all) => write_elements(array, all[..count].iter().copied()),
            Value::Descriptors(all) => {
                let mut left_out = 0;
                for (i, source) in all[..count].iter().enumerate() {
                    let target = array.cast::<cudnnBackendDescriptor_t>().add(i).read_unaligned();
                    let filled = fill(target, source, listing);
                    match listing {
                        Listing::Single | Listing::Asked(..) => filled?,
                        _ => left_out += usize::from(filled.is_err()),
                    }
                }
                return Ok(left_out);
            }
        }
    }
    Ok(0)
}

/// # Safety
/// `array` has room for the elements, aligned or not.
unsafe fn write_elements<T>(array: *mut c_void, elements: impl Iterator<Item = T>) {
    for (i, element) in elements.enumerate() {
        // SAFETY: the caller's promise.
        unsafe { array.cast::<T>().add(i).write_unaligned(element) };
    }
}

/// Makes a program's descriptor a copy of `source`.
///
/// # Safety
/// `target` is null or live.
unsafe fn fill(target: cudnnBackendDescriptor_t, source: &Arc<Descriptor>, listing: Listing) -> Result {
    // SAFETY: the caller's promise.
    let target = unsafe { refer_mut::<Backend>(target) }?;
    require(target.0.kind() == source.kind(), "a descriptor of the attribute's kind")?;
    require(listing != Listing::Fresh || !target.0.is_finalized(), "a descriptor that is not finalized")?;
    target.0 = source.clone();
    Ok(())
}
