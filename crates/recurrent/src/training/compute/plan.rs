//! What a network and its batch alone decide: the order of rows, the layouts of the reserve and the workspaces.

use std::sync::Arc;

use cudnn_abi::*;

use crate::configuration::Cell;
use crate::network::parts::{ALIGNMENT, Parts};
use crate::network::temporary::Temporary;
use crate::steps::Steps;
use crate::training::compute::back_steps::Scratch;
use crate::training::compute::copies;
use crate::training::compute::kernels::{ColumnSums, split_bytes};
use crate::training::compute::packing::Packing;
use crate::training::compute::projection_places::{DataProjection, ForwardProjection};
use crate::training::compute::shape::{self, Shape};
use crate::training::owner::reserve::{Layout, saved_gates};
use cudnn::rnn::{Data, Network};
use gpu::Element;

/// Why a pass has no layout of its memory.
pub const TOO_LARGE: &str = "sizes exceed the address space";

/// The cell and the type of a network that our kernels know.
pub fn cell_and_element(network: &Network) -> Result<(Cell, Element), &'static str> {
    let cell = Cell::of(network.cell).ok_or("the cell is not known here")?;
    let element = Element::of(network.data_type).ok_or("the type is not known here")?;
    Ok((cell, element))
}

/// What the network and its batch alone decide: the calls of a pass share it, and so do passes like the last one.
pub struct Plan {
    /// With the standard algorithm: our kernels have no such choice.
    network: Network,
    pub cell: Cell,
    pub element: Element,
    pub data: Data,
    /// With dropout, the bytes of a layer's mask.
    mask: Option<usize>,
    pub packing: Packing,
    pub layout: Layout,
    /// The recurrences, forward and back.
    pub shapes: [Arc<Shape>; 2],
    pub forward: ForwardPlaces,
    pub back: DataPlaces,
    pub weights: WeightPlaces,
    /// Bytes of workspace that each of the three calls can run in.
    pub workspace_bytes: usize,
}

impl Plan {
    /// The plan of a network that our kernels take. `Err` says why they cannot run it after all.
    pub fn of(network: &Network, data: Data, mask: Option<usize>) -> Result<Self, &'static str> {
        let network = Network { algorithm: CUDNN_RNN_ALGO_STANDARD, ..*network };
        let (cell, element) = cell_and_element(&network)?;
        let packing = Packing::of(&data);
        let layout = Layout::of(&network, &data, mask.unwrap_or(0)).ok_or(TOO_LARGE)?;
        Temporary::of(&network, &data, 0).ok_or(TOO_LARGE)?;
        let shapes = shape::of(&network, packing.batch()).ok_or("the device tells too little")?;
        if network.projects() && !shapes.iter().all(|shape| shape.fits) {
            // A step would multiply H numbers, where cuDNN multiplies P, and R W_p take memory.
            return Err("R W_p does not fit on the chip");
        }
        let mut plan = Self {
            network,
            cell,
            element,
            data,
            mask,
            packing,
            layout,
            shapes,
            forward: ForwardPlaces::default(),
            back: DataPlaces::default(),
            weights: WeightPlaces::default(),
            workspace_bytes: 0,
        };
        plan.forward = ForwardPlaces::of(&plan).ok_or(TOO_LARGE)?;
        plan.back = DataPlaces::of(&plan).ok_or(TOO_LARGE)?;
        plan.weights = WeightPlaces::of(&plan).ok_or(TOO_LARGE)?;
        let most = plan.forward.bytes.max(plan.back.bytes).max(plan.weights.bytes);
        plan.workspace_bytes = most.checked_add(ALIGNMENT).ok_or(TOO_LARGE)?;
        Ok(plan)
    }

    /// The plan is this network's on these data, with a mask of so many bytes.
    pub fn is_of(&self, network: &Network, data: &Data, mask: Option<usize>) -> bool {
        let network = &Network { algorithm: CUDNN_RNN_ALGO_STANDARD, ..*network };
        (&self.network, &self.data, self.mask) == (network, data, mask)
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
}

/// The parts of a workspace that describe the packed order, and packed copies of the program's states.
#[derive(Clone, Copy, Debug, Default)]
pub struct OrderPlaces {
    pub lengths: usize,
    pub starts: usize,
    pub order: usize,
    /// The header was wrong: one int.
    pub is_wrong: usize,
}

impl OrderPlaces {
    fn of(plan: &Plan, parts: &mut Parts) -> Option<Self> {
        let int = size_of::<i32>();
        Some(Self {
            lengths: parts.add(&[plan.packing.batch(), int])?,
            starts: parts.add(&[plan.packing.steps, int])?,
            order: parts.add(&[plan.packing.batch(), int])?,
            is_wrong: parts.add(&[int])?,
        })
    }
}

/// The parts of forward's workspace, in bytes.
#[derive(Clone, Copy, Debug, Default)]
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
#[derive(Clone, Copy, Debug, Default)]
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
#[derive(Clone, Copy, Debug, Default)]
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
    fn of(plan: &Plan) -> Option<Self> {
        let (rows, element, network, packing) =
            (plan.packing.rows, plan.network.element(), &plan.network, &plan.packing);
        let mut parts = Parts::default();
        let order = OrderPlaces::of(plan, &mut parts)?;
        let mut state = |which: usize| parts.add_if(!packing.is_ordered, &[plan.states()[which], element]);
        let states = [state(0)?, state(1)?, state(0)?, state(1)?];
        let by_steps = Steps::exchange_bytes_of(plan.cell, plan.element, network.hidden, packing.batch());
        let exchange_bytes = by_steps.max(plan.shapes[0].exchange_bytes).checked_next_multiple_of(ALIGNMENT)?;
        Some(Self {
            order,
            states,
            x: parts.add_if(!packing.is_packed, &[rows, network.input, element])?,
            y: parts.add_if(!packing.is_packed, &[rows, plan.output(), element])?,
            dropped: parts.add_if(plan.mask.is_some(), &[rows, plan.output(), element])?,
            projection: ForwardProjection::of(network, packing.batch(), &mut parts)?,
            products: parts.add(&[network.directions(), rows, network.gates(), network.hidden, size_of::<f32>()])?,
            copies: parts.add(&[plan.copied_bytes(element)?])?,
            exchange: parts.add(&[network.directions(), exchange_bytes])?,
            exchange_bytes,
            bytes: parts.bytes,
        })
    }
}

impl DataPlaces {
    fn of(plan: &Plan) -> Option<Self> {
        let (rows, element, network, packing) =
            (plan.packing.rows, plan.network.element(), &plan.network, &plan.packing);
        let (has_both, drops) = (network.directions() > 1, plan.mask.is_some());
        let mut parts = Parts::default();
        let order = OrderPlaces::of(plan, &mut parts)?;
        let mut state = |which: usize| parts.add_if(!packing.is_ordered, &[plan.states()[which], element]);
        let states = [state(0)?, state(1)?, state(0)?, state(1)?, state(0)?, state(1)?];
        let scratch = Scratch::of(plan.cell, plan.element, network.hidden, packing.batch())?.bytes;
        let exchange_bytes = plan.shapes[1].exchange_bytes.checked_next_multiple_of(ALIGNMENT)?;
        let a_unit = network.gates().checked_mul(network.hidden)?.checked_mul(element)?;
        let dealt_bytes = a_unit.checked_mul(plan.shapes[1].dealt_units)?.checked_next_multiple_of(ALIGNMENT)?;
        let widest = network.input.max(if network.layers > 1 { plan.output() } else { 0 });
        Some(Self {
            order,
            states,
            y: parts.add_if(!packing.is_packed, &[rows, plan.output(), element])?,
            dy: parts.add_if(!packing.is_packed, &[rows, plan.output(), element])?,
            dx: parts.add_if(!packing.is_packed, &[rows, network.input, element])?,
            gradient: parts.add_if(network.layers > 1, &[rows, plan.output(), element])?,
            sum: parts.add_if(has_both, &[rows, widest, size_of::<f32>()])?,
            through: parts.add_if(drops, &[rows, plan.output(), element])?,
            second: parts.add_if(drops && has_both, &[rows, plan.output(), element])?,
            projection: DataProjection::of(network, [rows, packing.batch()], &mut parts)?,
            copies: parts.add(&[plan.copied_bytes(if has_both { size_of::<f32>() } else { element })?])?,
            scratch: parts.add(&[scratch])?,
            dealt: parts.add(&[network.directions(), dealt_bytes])?,
            dealt_bytes,
            exchange: parts.add(&[network.directions(), exchange_bytes])?,
            bytes: parts.bytes,
        })
    }
}

impl WeightPlaces {
    fn of(plan: &Plan) -> Option<Self> {
        let (rows, element, network, packing) =
            (plan.packing.rows, plan.network.element(), &plan.network, &plan.packing);
        let widest = network.input.max(if network.layers > 1 { plan.output() } else { network.hidden });
        let split = split_bytes(widest.checked_mul(network.gates())?.checked_mul(network.hidden)?);
        let mut parts = Parts::default();
        Some(Self {
            order: OrderPlaces::of(plan, &mut parts)?,
            x: parts.add_if(!packing.is_packed, &[rows, network.input, element])?,
            y: parts.add_if(!packing.is_packed, &[rows, plan.output(), element])?,
            hx: parts.add_if(!packing.is_ordered, &[plan.states()[0], element])?,
            previous: parts.add(&[rows, network.projection, element])?,
            dropped: parts.add_if(plan.mask.is_some(), &[rows, plan.output(), element])?,
            sums: parts.add(&[ColumnSums::parts(rows), plan.saved_columns(), size_of::<f32>()])?,
            split: (parts.add(&[split])?, split),
            copies: parts.add(&[plan.copied_bytes(element)?])?,
            bytes: parts.bytes,
        })
    }
}
