//! What the three calls of a training pass have in common: the network, the order of rows, the reserve's layout, and the
//! workspace.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use cudnn_abi::*;

use crate::configuration::Cell;
use crate::input::Preparation;
use crate::network::eligible::takes;
use crate::network::parts::{ALIGNMENT, Parts};
use crate::network::temporary::Temporary;
use crate::steps::Steps;
use crate::training::compute::back_steps::Scratch;
use crate::training::compute::copies;
use crate::training::compute::kernels::{ColumnSums, Rows, split_bytes};
use crate::training::compute::known::{self, Engine, KnownNetwork};
use crate::training::compute::packing::Packing;
use crate::training::compute::projection_places::{DataProjection, ForwardProjection};
use crate::training::compute::shape::{self, Shape};
use crate::training::owner::reserve::{HEADER, Layout, State, saved_gates};
use cudnn::calls;
use cudnn::rnn::{Data, Dropout, Masked, Network};
use gpu::{Element, Stream};

/// Why a pass has no layout of its memory.
pub const TOO_LARGE: &str = "sizes exceed the address space";

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
    pub network: Network,
    pub cell: Cell,
    pub element: Element,
    pub data: Data,
    /// The dropout of the layers above the first, and the tensor that it masks: a layer's output.
    pub dropout: Option<(Dropout, Masked)>,
    pub packing: Packing,
    pub layout: Layout,
    pub known: Arc<KnownNetwork>,
    /// The recurrences, forward and back.
    pub shapes: [Arc<Shape>; 2],
    /// Bytes of workspace that each of the three calls can run in.
    pub workspace_bytes: usize,
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
        let cell = Cell::of(network.cell).ok_or("the cell is not known here")?;
        let element = Element::of(network.data_type).ok_or("the type is not known here")?;
        let packing = Packing::of(&data);
        if packing.rows == 0 {
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
                let masked = Masked::new(data_type, packing.rows, network.output());
                Some((dropout, masked.map_err(|_| "cuDNN refuses dropout of a layer's output")?))
            }
            Some(_) => return Err("the probability of dropout is not from 0 to below 1"),
        };
        let mask = dropout.as_ref().map_or(0, |(_, masked)| masked.bytes);
        let layout = Layout::of(&network, &data, mask).ok_or(TOO_LARGE)?;
        Temporary::of(&network, &data, 0).ok_or(TOO_LARGE)?;
        // SAFETY: the handle is null or live.
        let stream = unsafe { calls::stream_of(handle) }.ok_or("its stream is not told")?;
        let known = known::of(&network);
        let shapes = shape::of(&network, packing.batch()).ok_or("the device tells too little")?;
        if network.projects() && !shapes.iter().all(|shape| shape.fits) {
            // A step would multiply H numbers, where cuDNN multiplies P, and R W_p take memory.
            return Err("R W_p does not fit on the chip");
        }
        let mut pass = Self {
            handle,
            descriptor,
            x_descriptor,
            stream,
            network,
            cell,
            element,
            data,
            dropout,
            packing,
            layout,
            known,
            shapes,
            workspace_bytes: 0,
        };
        pass.workspace_bytes = pass.most_workspace().ok_or(TOO_LARGE)?;
        Ok(pass)
    }

    /// Bytes of workspace for the call that needs the most. `None` if they exceed the address space.
    fn most_workspace(&self) -> Option<usize> {
        let bytes = [ForwardPlaces::of(self)?.bytes, DataPlaces::of(self)?.bytes, WeightPlaces::of(self)?.bytes];
        bytes.into_iter().max()?.checked_add(ALIGNMENT)
    }

    /// D·P, the width of a layer's output.
    pub fn output(&self) -> usize {
        self.network.output()
    }

    /// The widths of h and of c.
    pub fn state_widths(&self) -> [usize; 2] {
        [self.network.projection, self.network.hidden]
    }

    /// The elements of all h states, and of all c states: [layers · D, B, width].
    pub fn states(&self) -> [usize; 2] {
        self.state_widths().map(|width| self.network.pseudo_layers() * self.packing.batch() * width)
    }

    /// The columns of a row of saved gates, or of their gradients.
    pub fn saved_columns(&self) -> usize {
        saved_gates(&self.network) * self.network.hidden
    }

    /// The most bytes of a product's copies, whose numbers have at most `most` bytes.
    fn copied_bytes(&self, most: usize) -> Option<usize> {
        let Self { network, packing, .. } = self;
        let columns = network.gates().checked_mul(network.hidden)?;
        let above = (network.layers > 1).then(|| self.output());
        let widths = [Some(network.input), above, Some(network.projection)].into_iter().flatten();
        let sizes = widths.map(|width| [packing.rows, columns, width]);
        sizes.map(|sizes| copies::bytes(cudnn::device(), self.element, most, sizes)).try_fold(0, |a, b| Some(a.max(b?)))
    }

    /// True if floats may be rounded to TF32.
    pub fn allows_tf32(&self) -> bool {
        self.network.math_type != CUDNN_FMA_MATH
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

/// The parts of a workspace that describe the packed order, and packed copies of the program's states.
#[derive(Clone, Copy, Debug)]
pub struct OrderPlaces {
    lengths: usize,
    starts: usize,
    order: usize,
    /// The header was wrong: one int.
    pub is_wrong: usize,
}

impl OrderPlaces {
    fn of(pass: &Pass, parts: &mut Parts) -> Option<Self> {
        let int = size_of::<i32>();
        Some(Self {
            lengths: parts.add(&[pass.packing.batch(), int])?,
            starts: parts.add(&[pass.packing.steps, int])?,
            order: parts.add(&[pass.packing.batch(), int])?,
            is_wrong: parts.add(&[int])?,
        })
    }
}

/// The parts of forward's workspace, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct ForwardPlaces {
    pub order: OrderPlaces,
    pub x: Option<usize>,
    pub y: Option<usize>,
    /// hx, cx, hy and cy.
    pub states: [Option<usize>; 4],
    /// A layer's input behind dropout: [R, D·P].
    pub dropped: Option<usize>,
    pub projection: Option<ForwardProjection>,
    /// A layer's products W x in each direction, float: [D, R, G·H].
    pub products: usize,
    /// Copies of x and W.
    pub copies: usize,
    /// The exchange of each direction.
    pub exchange: usize,
    /// The most bytes of one direction's exchange.
    pub exchange_bytes: usize,
    pub bytes: usize,
}

/// The parts of the workspace of gradients of data, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct DataPlaces {
    pub order: OrderPlaces,
    pub y: Option<usize>,
    pub dy: Option<usize>,
    pub dx: Option<usize>,
    /// hx, cx, dhy, dcy, dhx and dcx.
    pub states: [Option<usize>; 6],
    /// The gradient of a layer's output: [R, D·P].
    pub gradient: Option<usize>,
    /// With two directions, the sum of the gradients of a layer's input, float: [R, width].
    pub sum: Option<usize>,
    /// With dropout, the gradients of a layer's input before it, and those of a second direction: [R, D·P] each.
    pub through: Option<usize>,
    pub second: Option<usize>,
    pub projection: Option<DataProjection>,
    /// Copies of W and of the gradient of x.
    pub copies: usize,
    pub scratch: usize,
    /// R by its columns, of each direction, as a persistent kernel's blocks take it; and the bytes of one direction.
    pub dealt: usize,
    pub dealt_bytes: usize,
    /// The exchanges of all directions.
    pub exchange: usize,
    pub bytes: usize,
}

/// The parts of the workspace of gradients of weights, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct WeightPlaces {
    pub order: OrderPlaces,
    pub x: Option<usize>,
    pub y: Option<usize>,
    pub hx: Option<usize>,
    /// The states before the steps: [R, P].
    pub previous: usize,
    /// A layer's input behind dropout: [R, D·P].
    pub dropped: Option<usize>,
    /// Float, of parts of rows.
    pub sums: usize,
    /// The products' own workspace, and its bytes.
    pub split: (usize, usize),
    /// Copies of x and the gradient of W, or of the states before and the gradient of R.
    pub copies: usize,
    pub bytes: usize,
}

impl ForwardPlaces {
    pub fn of(pass: &Pass) -> Option<Self> {
        let (rows, element, network, packing) =
            (pass.packing.rows, pass.network.element(), &pass.network, &pass.packing);
        let mut parts = Parts::default();
        let order = OrderPlaces::of(pass, &mut parts)?;
        let mut state = |which: usize| parts.add_if(!packing.is_ordered, &[pass.states()[which], element]);
        let states = [state(0)?, state(1)?, state(0)?, state(1)?];
        let by_steps = Steps::exchange_bytes_of(pass.cell, pass.element, network.hidden, packing.batch());
        let exchange_bytes = by_steps.max(pass.shapes[0].exchange_bytes).checked_next_multiple_of(ALIGNMENT)?;
        Some(Self {
            order,
            states,
            x: parts.add_if(!packing.is_packed, &[rows, network.input, element])?,
            y: parts.add_if(!packing.is_packed, &[rows, pass.output(), element])?,
            dropped: parts.add_if(pass.dropout.is_some(), &[rows, pass.output(), element])?,
            projection: ForwardProjection::of(network, packing.batch(), &mut parts)?,
            products: parts.add(&[network.directions(), rows, network.gates(), network.hidden, size_of::<f32>()])?,
            copies: parts.add(&[pass.copied_bytes(element)?])?,
            exchange: parts.add(&[network.directions(), exchange_bytes])?,
            exchange_bytes,
            bytes: parts.bytes,
        })
    }
}

impl DataPlaces {
    pub fn of(pass: &Pass) -> Option<Self> {
        let (rows, element, network, packing) =
            (pass.packing.rows, pass.network.element(), &pass.network, &pass.packing);
        let (has_both, drops) = (network.directions() > 1, pass.dropout.is_some());
        let mut parts = Parts::default();
        let order = OrderPlaces::of(pass, &mut parts)?;
        let mut state = |which: usize| parts.add_if(!packing.is_ordered, &[pass.states()[which], element]);
        let states = [state(0)?, state(1)?, state(0)?, state(1)?, state(0)?, state(1)?];
        let scratch = Scratch::of(pass.cell, pass.element, network.hidden, packing.batch())?.bytes;
        let exchange_bytes = pass.shapes[1].exchange_bytes.checked_next_multiple_of(ALIGNMENT)?;
        let a_unit = network.gates().checked_mul(network.hidden)?.checked_mul(element)?;
        let dealt_bytes = a_unit.checked_mul(pass.shapes[1].dealt_units)?.checked_next_multiple_of(ALIGNMENT)?;
        let widest = network.input.max(if network.layers > 1 { pass.output() } else { 0 });
        Some(Self {
            order,
            states,
            y: parts.add_if(!packing.is_packed, &[rows, pass.output(), element])?,
            dy: parts.add_if(!packing.is_packed, &[rows, pass.output(), element])?,
            dx: parts.add_if(!packing.is_packed, &[rows, network.input, element])?,
            gradient: parts.add_if(network.layers > 1, &[rows, pass.output(), element])?,
            sum: parts.add_if(has_both, &[rows, widest, size_of::<f32>()])?,
            through: parts.add_if(drops, &[rows, pass.output(), element])?,
            second: parts.add_if(drops && has_both, &[rows, pass.output(), element])?,
            projection: DataProjection::of(network, [rows, packing.batch()], &mut parts)?,
            copies: parts.add(&[pass.copied_bytes(if has_both { size_of::<f32>() } else { element })?])?,
            scratch: parts.add(&[scratch])?,
            dealt: parts.add(&[network.directions(), dealt_bytes])?,
            dealt_bytes,
            exchange: parts.add(&[network.directions(), exchange_bytes])?,
            bytes: parts.bytes,
        })
    }
}

impl WeightPlaces {
    pub fn of(pass: &Pass) -> Option<Self> {
        let (rows, element, network, packing) =
            (pass.packing.rows, pass.network.element(), &pass.network, &pass.packing);
        let widest = network.input.max(if network.layers > 1 { pass.output() } else { network.hidden });
        let split = split_bytes(widest.checked_mul(network.gates())?.checked_mul(network.hidden)?);
        let mut parts = Parts::default();
        Some(Self {
            order: OrderPlaces::of(pass, &mut parts)?,
            x: parts.add_if(!packing.is_packed, &[rows, network.input, element])?,
            y: parts.add_if(!packing.is_packed, &[rows, pass.output(), element])?,
            hx: parts.add_if(!packing.is_ordered, &[pass.states()[0], element])?,
            previous: parts.add(&[rows, network.projection, element])?,
            dropped: parts.add_if(pass.dropout.is_some(), &[rows, pass.output(), element])?,
            sums: parts.add(&[ColumnSums::parts(rows), pass.saved_columns(), size_of::<f32>()])?,
            split: (parts.add(&[split])?, split),
            copies: parts.add(&[pass.copied_bytes(element)?])?,
            bytes: parts.bytes,
        })
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
        let Pass { packing, stream, .. } = pass;
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
            engine.around.input.prepare(*stream, &lengthwise).map_err(text)?;
            engine.around.input.prepare(*stream, &ordering).map_err(text)?;
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
        let Pass { packing, data, .. } = self.pass;
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
        let Pass { packing, network, .. } = self.pass;
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
