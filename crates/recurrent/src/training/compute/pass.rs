//! The three calls of a training pass are read alike, and begin and end alike: that is here.

use std::ffi::c_void;
use std::ops::Deref;
use std::ptr;
use std::sync::Arc;

use cudnn_abi::*;

use crate::input::Preparation;
use crate::network::eligible::takes;
use crate::network::temporary::Temporary;
use crate::steps::Steps;
use crate::training::compute::kernels::Rows;
use crate::training::compute::known::{self, Engine, KnownNetwork};
use crate::training::compute::plan::{OrderPlaces, Plan};
use crate::training::owner::reserve::{HEADER, State};
use cudnn::calls;
use cudnn::rnn::{Data, Dropout, Masked, Network};
use gpu::{Element, Stream};

/// The weights (or their gradients), the workspace and the reserve of a call, with their sizes.
#[derive(Clone, Copy)]
pub struct Spaces {
    pub weights: *const c_void,
    pub weights_size: usize,
    pub workspace: *mut c_void,
    pub workspace_size: usize,
    pub reserve: *mut c_void,
    pub reserve_size: usize,
}

/// A network on a batch, for one call, whose handle and descriptors are live.
pub struct Pass {
    pub handle: cudnnHandle_t,
    pub descriptor: cudnnRNNDescriptor_t,
    pub x_descriptor: cudnnRNNDataDescriptor_t,
    pub stream: Stream,
    /// As the descriptor says.
    pub network: Network,
    /// The dropout of the layers above the first, and the tensor that it masks: a layer's output.
    pub dropout: Option<(Dropout, Masked)>,
    pub known: Arc<KnownNetwork>,
    plan: Arc<Plan>,
}

impl Deref for Pass {
    type Target = Plan;

    fn deref(&self) -> &Plan {
        &self.plan
    }
}

impl Pass {
    /// Reads a pass of cuDNN's API. The answer is the same in all three calls. `Err` says why our kernels cannot run it.
    ///
    /// # Safety
    /// The handle and the descriptors are null or live, and stay so as long as the pass is used.
    pub unsafe fn of(
        handle: cudnnHandle_t,
        descriptor: cudnnRNNDescriptor_t,
        x_descriptor: cudnnRNNDataDescriptor_t,
    ) -> Result<Self, &'static str> {
        // SAFETY: the descriptor is null or live.
        let (network, dropout) =
            unsafe { Network::read_with_dropout(descriptor) }.ok_or("its RNN descriptor is not readable")?;
        // SAFETY: the descriptor is null or live.
        let data = unsafe { Data::read(x_descriptor) }.ok_or("x's descriptor is not readable")?;
        takes(&network, &data)?;
        let element = Element::of(network.data_type).ok_or("the type is not known here")?;
        let rows = data.lengths.iter().map(|&length| length as usize).sum();
        if rows == 0 {
            return Err("all sequences are empty");
        }
        let dropout = match network.layers {
            1 => None,
            // SAFETY: cuDNN requires of an RNN descriptor that its dropout descriptor lives.
            _ => unsafe { Dropout::read(handle, dropout) }.map_err(|_| "its dropout descriptor is not readable")?,
        };
        let dropout = match dropout {
            None => None,
            Some(dropout) if dropout.probability > 0.0 && dropout.probability < 1.0 => {
                // See dropout::apply.
                let data_type = if element == Element::Bfloat16 { CUDNN_DATA_HALF } else { network.data_type };
                let masked = Masked::new(data_type, rows, network.output());
                Some((dropout, masked.map_err(|_| "cuDNN refuses dropout of a layer's output")?))
            }
            Some(_) => return Err("the probability of dropout is not from 0 to below 1"),
        };
        // SAFETY: the handle is null or live.
        let stream = unsafe { calls::stream_of(handle) }.ok_or("its stream is not told")?;
        let known = known::of(&network);
        let plan = known.plan(&network, data, dropout.as_ref().map(|(_, masked)| masked.bytes))?;
        Ok(Self { handle, descriptor, x_descriptor, stream, network, dropout, known, plan })
    }

    /// The forward recurrences, which save.
    pub fn steps(&self, engine: &Engine) -> Steps {
        Steps {
            cell: self.cell,
            element: self.element,
            hidden: self.network.hidden,
            batch: self.packing.batch(),
            allows_tf32: self.allows_tf32(),
            input: engine.around.input.clone(),
            kernels: engine.steps.clone(),
        }
    }
}

/// A call that runs on our kernels: the pass, its kernels, and the program's workspace and reserve.
pub struct Running<'a> {
    pub pass: &'a Pass,
    pub engine: &'a Engine,
    workspace: *mut c_void,
    reserve: *mut c_void,
    lengths: *const i32,
    starts: *const i32,
    order: *const i32,
    pub is_wrong: *mut i32,
}

impl<'a> Running<'a> {
    /// Writes the packed order to the workspace, and zeroes a part of it.
    ///
    /// # Safety
    /// The workspace and the reserve are memory of the stream's device, as large as the pass needs.
    pub unsafe fn begin(
        pass: &'a Pass,
        engine: &'a Engine,
        workspace: *mut c_void,
        reserve: *mut c_void,
        places: &OrderPlaces,
        (zeroed, zeroed_bytes): (usize, usize),
    ) -> Result<Self, String> {
        let workspace: *mut c_void = Temporary::first(workspace.cast()).cast();
        let part = |place: usize| workspace.wrapping_byte_add(place).cast::<i32>();
        let (packing, stream) = (&pass.packing, pass.stream);
        let (lengths, starts, order) = (part(places.lengths), part(places.starts), part(places.order));
        let lengthwise = Preparation {
            zeroed: (part(zeroed).cast(), zeroed_bytes),
            lengths: (!packing.is_full).then_some((&packing.lengths, lengths)),
            starts: (!packing.is_full).then_some((starts, packing.steps)),
        };
        let ordering = Preparation {
            zeroed: (ptr::null_mut(), 0),
            lengths: (!packing.is_ordered).then_some((&packing.order, order)),
            starts: None,
        };
        // SAFETY: the caller promises the workspace, which has room for the three arrays.
        unsafe {
            let text = |error: gpu::jit::Error| error.to_string();
            engine.around.input.prepare(stream, &lengthwise).map_err(text)?;
            engine.around.input.prepare(stream, &ordering).map_err(text)?;
        }
        let or_null = |is_there: bool, array: *mut i32| if is_there { array.cast_const() } else { ptr::null() };
        Ok(Self {
            pass,
            engine,
            workspace,
            reserve,
            lengths: or_null(!packing.is_full, lengths),
            starts: or_null(!packing.is_full, starts),
            order: or_null(!packing.is_ordered, order),
            is_wrong: part(places.is_wrong),
        })
    }

    /// The sequences' lengths by rank, and the packed rows before each step; null where all are equally long.
    pub fn lengths(&self) -> (*const i32, *const i32) {
        (self.lengths, self.starts)
    }

    /// Looks at the reserve's header, which is to be of an `expected` state and comes to the `next`.
    ///
    /// # Safety
    /// The memory is as large as the pass says.
    pub unsafe fn claim(&self, expected: State, next: State) -> Result<(), String> {
        let Self { pass, engine, reserve, is_wrong, .. } = *self;
        let header = pass.layout.header(expected);
        // SAFETY: the caller promises the reserve; the workspace has room for `is_wrong`.
        let looked = unsafe { engine.around.claim(pass.stream, reserve, header, next as u32, is_wrong) };
        looked.map_err(|error| error.to_string())
    }

    /// A part of the workspace.
    pub fn part(&self, place: usize) -> *mut c_void {
        self.workspace.wrapping_byte_add(place)
    }

    /// A part of the reserve.
    pub fn saved(&self, place: usize) -> *mut c_void {
        self.reserve.wrapping_byte_add(place)
    }

    /// A layer's output in the reserve, or `last`.
    pub fn layer_output(&self, layer: usize, last: *mut c_void) -> *mut c_void {
        self.pass.layout.outputs.get(layer).map_or(last, |&place| self.saved(place))
    }

    /// The states of a pseudo layer among all of this width; null where all are.
    pub fn state_of(&self, all: *const c_void, width: usize, pseudo_layer: usize) -> *const c_void {
        let bytes = self.pass.packing.batch() * width * self.pass.element.bytes();
        if all.is_null() { all } else { all.wrapping_byte_add(pseudo_layer * bytes) }
    }

    fn rows(&self, memory: *mut c_void, packed: *mut c_void, width: usize) -> Rows {
        let (packing, data) = (&self.pass.packing, &self.pass.data);
        let [time_stride, batch_stride] = packing.strides.map(|stride| stride as i32);
        Rows {
            memory,
            packed,
            lengths: self.lengths,
            starts: self.starts,
            order: self.order,
            width: width as i32,
            steps: data.steps as i32,
            batch: packing.batch() as i32,
            time_stride,
            batch_stride,
            fill: 0,
        }
    }

    fn state_rows(&self, memory: *mut c_void, packed: *mut c_void, width: usize) -> Rows {
        let (packing, network) = (&self.pass.packing, &self.pass.network);
        Rows {
            lengths: ptr::null(),
            starts: ptr::null(),
            steps: network.pseudo_layers() as i32,
            time_stride: packing.batch() as i32,
            batch_stride: 1,
            ..self.rows(memory, packed, width)
        }
    }

    /// The packed rows of data in the program's layout: a copy at `place`, or the program's own.
    ///
    /// # Safety
    /// The memory is as large as the pass says.
    pub unsafe fn packed(
        &self,
        memory: *const c_void,
        place: Option<usize>,
        width: usize,
    ) -> Result<*const c_void, String> {
        let Some(place) = place else { return Ok(memory) };
        let steps = self.pass.packing.steps as i32;
        // After the longest sequence there is nothing to copy.
        let rows = Rows { steps, ..self.rows(memory.cast_mut(), self.part(place), width) };
        // SAFETY: the caller promises the memory; the workspace has room at `place`.
        unsafe { self.engine.around.pack(self.pass.stream, &rows) }.map_err(|error| error.to_string())?;
        Ok(rows.packed)
    }

    /// Copies packed results to the program's layout, and fills its padding; does nothing where they are there already.
    ///
    /// # Safety
    /// As for [`Self::packed`].
    pub unsafe fn unpack(
        &self,
        memory: *mut c_void,
        place: Option<usize>,
        width: usize,
        fill: [u8; 4],
    ) -> Result<(), String> {
        let Some(place) = place else { return Ok(()) };
        let rows = Rows { fill: u32::from_ne_bytes(fill), ..self.rows(memory, self.part(place), width) };
        // SAFETY: the caller promises the memory; the workspace has room at `place`.
        unsafe { self.engine.around.unpack(self.pass.stream, &rows) }.map_err(|error| error.to_string())
    }

    /// States of this width by rank: a copy at `place`, or the program's own; null where the program's are.
    ///
    /// # Safety
    /// As for [`Self::packed`].
    pub unsafe fn ranked(
        &self,
        states: *const c_void,
        place: Option<usize>,
        width: usize,
    ) -> Result<*const c_void, String> {
        let Some(place) = place.filter(|_| !states.is_null()) else { return Ok(states) };
        let rows = self.state_rows(states.cast_mut(), self.part(place), width);
        // SAFETY: the caller promises the memory; the workspace has room at `place`.
        unsafe { self.engine.around.pack(self.pass.stream, &rows) }.map_err(|error| error.to_string())?;
        Ok(rows.packed)
    }

    /// Where states by rank are to be written: at `place`, or the program's own; null where those are not wanted.
    pub fn to_rank(&self, states: *mut c_void, place: Option<usize>) -> *mut c_void {
        place.filter(|_| !states.is_null()).map_or(states, |place| self.part(place))
    }

    /// Copies states of this width from `place` to the program's order; does nothing where they are there already.
    ///
    /// # Safety
    /// As for [`Self::packed`].
    pub unsafe fn unrank(&self, states: *mut c_void, place: Option<usize>, width: usize) -> Result<(), String> {
        let Some(place) = place.filter(|_| !states.is_null()) else { return Ok(()) };
        let rows = self.state_rows(states, self.part(place), width);
        // SAFETY: the caller promises the memory; the workspace has room at `place`.
        unsafe { self.engine.around.unpack(self.pass.stream, &rows) }.map_err(|error| error.to_string())
    }
}

const _: () = assert!(HEADER == 16, "the kernels' struct");
