//! Sound scripts: random operation graphs around a convolution, and the descriptors that do not need a graph.

use super::attributes::attributes;
use super::script::{Elements, Slot, Step};
use cudnn_abi::*;
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

/// Writes a script.
pub struct Builder<'a> {
    pub dice: &'a mut StdRng,
    pub script: Vec<Step>,
    slots: Slot,
    ids: i64,
}

/// A tensor of a graph under construction.
#[derive(Clone)]
pub struct Tensor {
    pub id: i64,
    pub data_type: cudnnDataType_t,
    pub dims: Vec<i64>,
    pub strides: Vec<i64>,
    pub is_virtual: bool,
    pub is_by_value: bool,
}

/// A filter's movement over images, one number for each spatial dimension.
pub struct Window {
    pub pre: Vec<i64>,
    pub post: Vec<i64>,
    pub stride: Vec<i64>,
    pub dilation: Vec<i64>,
}

/// The kinds of operations that are convolutions. [`attributes`] lists each one's alpha, beta, convolution, x, w and y,
/// in this order.
const CONVOLUTIONS: [cudnnBackendDescriptorType_t; 3] = [
    CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
    CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
    CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
];

impl<'a> Builder<'a> {
    pub fn new(dice: &'a mut StdRng) -> Self {
        Self { dice, script: Vec::new(), slots: 0, ids: 0 }
    }

    pub fn create(&mut self, kind: cudnnBackendDescriptorType_t) -> Slot {
        let slot = self.slots;
        self.slots += 1;
        self.script.push(Step::Create(slot, kind));
        slot
    }

    pub fn set(
        &mut self,
        slot: Slot,
        name: cudnnBackendAttributeName_t,
        of: cudnnBackendAttributeType_t,
        elements: Elements,
    ) {
        let count = match &elements {
            Elements::Null => 0,
            Elements::Bytes(values) => values.len(),
            Elements::Ints(values) => values.len(),
            Elements::Longs(values) => values.len(),
            Elements::Floats(values) => values.len(),
            Elements::Doubles(values) => values.len(),
            Elements::Slots(values) => values.len(),
        };
        self.script.push(Step::Set { slot, name, of, count: count as i64, elements });
    }

    pub fn longs(&mut self, slot: Slot, name: cudnnBackendAttributeName_t, values: &[i64]) {
        self.set(slot, name, CUDNN_TYPE_INT64, Elements::Longs(values.to_vec()));
    }

    pub fn slot(&mut self, slot: Slot, name: cudnnBackendAttributeName_t, inner: Slot) {
        self.set(slot, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, Elements::Slots(vec![inner]));
    }

    /// A factor, as either of the types that it may have.
    fn factor(&mut self, slot: Slot, name: cudnnBackendAttributeName_t, value: f64) {
        if self.dice.random_bool(0.5) {
            self.set(slot, name, CUDNN_TYPE_FLOAT, Elements::Floats(vec![value as f32]));
        } else {
            self.set(slot, name, CUDNN_TYPE_DOUBLE, Elements::Doubles(vec![value]));
        }
    }

    pub fn finalize(&mut self, slot: Slot) {
        self.script.push(Step::Finalize(slot));
    }

    fn flag(&mut self, slot: Slot, name: cudnnBackendAttributeName_t, value: bool) {
        // Defaults are sometimes left to the library.
        if value || self.dice.random_bool(0.5) {
            self.set(slot, name, CUDNN_TYPE_BOOLEAN, Elements::Bytes(vec![value.into()]));
        }
    }

    /// A tensor of these dimensions, packed with channels second or last.
    pub fn shaped(&mut self, dims: &[i64], data_type: cudnnDataType_t, channels_last: bool) -> Tensor {
        let mut order: Vec<usize> = (0..dims.len()).collect();
        if channels_last {
            order[1..].rotate_left(1);
        }
        let (mut strides, mut next) = (vec![0; dims.len()], 1);
        for &place in order.iter().rev() {
            strides[place] = next;
            next *= dims[place];
        }
        self.ids += 1;
        Tensor { id: self.ids, data_type, dims: dims.to_vec(), strides, is_virtual: false, is_by_value: false }
    }

    pub fn tensor(&mut self, tensor: &Tensor) -> Slot {
        let slot = self.create(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
        let data_type = Elements::Ints(vec![tensor.data_type]);
        self.set(slot, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, data_type);
        self.longs(slot, CUDNN_ATTR_TENSOR_DIMENSIONS, &tensor.dims);
        self.longs(slot, CUDNN_ATTR_TENSOR_STRIDES, &tensor.strides);
        self.longs(slot, CUDNN_ATTR_TENSOR_UNIQUE_ID, &[tensor.id]);
        self.longs(slot, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, &[16]);
        self.flag(slot, CUDNN_ATTR_TENSOR_IS_VIRTUAL, tensor.is_virtual);
        self.flag(slot, CUDNN_ATTR_TENSOR_IS_BY_VALUE, tensor.is_by_value);
        self.finalize(slot);
        slot
    }

    /// The slot of a convolution's operation graph in any direction, alone or followed by pointwise operations.
    ///
    /// A `usual` graph has two dimensions, a square filter in the middle of its padding, no dilation, one group, a
    /// multiple of eight channels, and no pointwise operations: cuDNN compiles nothing at run time for any of these.
    pub fn convolution_graph(&mut self, data_type: cudnnDataType_t, usual: bool) -> Slot {
        let mut operations = Vec::new();
        let spatial = if usual { 2 } else { *[1, 2, 2, 2, 3].choose(self.dice).unwrap() };
        let groups = if usual { 1 } else { *[1, 1, 1, 2, 3].choose(self.dice).unwrap() };
        let channels_last = self.dice.random_bool(0.4);
        let mut numbers = |range: std::ops::Range<i64>| -> Vec<i64> {
            (0..spatial).map(|_| self.dice.random_range(range.clone())).collect()
        };
        let (pre, stride, dilation) = (numbers(0..3), numbers(1..3), numbers(1..3));
        let (post, filter, image) = (numbers(0..3), numbers(1..4), numbers(5..9));
        let square = 2 * self.dice.random_range(0..2) + 1;
        let usual_window = [vec![square / 2; 2], vec![self.dice.random_range(1..3); 2], vec![1; 2], vec![square; 2]];
        let [pre, stride, dilation, filter] = if usual { usual_window } else { [pre, stride, dilation, filter] };
        let post = if usual || self.dice.random_bool(0.8) { pre.clone() } else { post };
        let [n, mut c, mut k] = [1..4, 1..5, 1..5].map(|range| self.dice.random_range(range));
        if usual {
            (c, k) = (8 * c, 8 * k);
        }
        let sizes = (0..spatial)
            .map(|i| (image[i] + pre[i] + post[i] - dilation[i] * (filter[i] - 1) - 1).div_euclid(stride[i]) + 1);
        let y_dims = [vec![n, k * groups], sizes.collect()].concat();
        let x = self.shaped(&[vec![n, c * groups], image].concat(), data_type, channels_last);
        let w = self.shaped(&[vec![k * groups, c], filter].concat(), data_type, channels_last);
        let mut y = self.shaped(&y_dims, data_type, channels_last);
        let kind = *CONVOLUTIONS.choose(self.dice).unwrap();
        let forward = kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
        let behind = if forward && !usual { self.dice.random_range(0..4) } else { 0 };
        y.is_virtual = behind > 0;

        let window = Window { pre, post, stride, dilation };
        operations.push(self.convolution(kind, [&x, &w, &y], &window));
        let mut x = y;
        for place in 0..behind {
            let (operation, y) = self.pointwise(&x, channels_last, place + 1 < behind);
            operations.push(operation);
            x = y;
        }
        self.graph(&operations)
    }

    /// The operation of a convolution of x, w and y. Returns its slot.
    pub fn convolution(&mut self, kind: cudnnBackendDescriptorType_t, tensors: [&Tensor; 3], window: &Window) -> Slot {
        let [alpha, beta, description, x, w, y] = attributes(kind) else { panic!("{kind} is no convolution") };
        let convolution = self.create(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
        let compute_type = Elements::Ints(vec![CUDNN_DATA_FLOAT]);
        self.set(convolution, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, compute_type);
        let mode = Elements::Ints(vec![CUDNN_CROSS_CORRELATION]);
        self.set(convolution, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, mode);
        self.longs(convolution, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, &[window.pre.len() as i64]);
        self.longs(convolution, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, &window.pre);
        self.longs(convolution, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, &window.post);
        self.longs(convolution, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, &window.stride);
        self.longs(convolution, CUDNN_ATTR_CONVOLUTION_DILATIONS, &window.dilation);
        self.finalize(convolution);
        let tensors = tensors.map(|tensor| self.tensor(tensor));
        let operation = self.create(kind);
        self.slot(operation, description.name, convolution);
        for (attribute, tensor) in [x, w, y].into_iter().zip(tensors) {
            self.slot(operation, attribute.name, tensor);
        }
        if self.dice.random_bool(0.7) {
            self.factor(operation, alpha.name, 1.0);
            self.factor(operation, beta.name, 0.0);
        }
        self.finalize(operation);
        operation
    }

    /// Adds another tensor, or a bias, or applies an activation. Returns the operation and its output.
    fn pointwise(&mut self, x: &Tensor, channels_last: bool, is_virtual: bool) -> (Slot, Tensor) {
        let add = self.dice.random_bool(0.6);
        let unary = [CUDNN_POINTWISE_RELU_FWD, CUDNN_POINTWISE_SIGMOID_FWD, CUDNN_POINTWISE_TANH_FWD];
        let mode = if add { CUDNN_POINTWISE_ADD } else { *unary.choose(self.dice).unwrap() };
        let description = self.create(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
        self.set(description, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, Elements::Ints(vec![mode]));
        let precision = Elements::Ints(vec![CUDNN_DATA_FLOAT]);
        self.set(description, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, precision);
        if mode == CUDNN_POINTWISE_RELU_FWD && self.dice.random_bool(0.5) {
            self.factor(description, CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, 6.0);
        }
        self.finalize(description);
        let mut y = self.shaped(&x.dims, x.data_type, channels_last);
        y.is_virtual = is_virtual;
        let input = self.tensor(x);
        let operand = add.then(|| {
            let mut dims = x.dims.clone();
            if self.dice.random_bool(0.5) {
                dims.iter_mut().enumerate().filter(|(place, _)| *place != 1).for_each(|(_, size)| *size = 1);
            }
            let operand = self.shaped(&dims, x.data_type, channels_last);
            self.tensor(&operand)
        });
        let output = self.tensor(&y);
        let operation = self.create(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
        self.slot(operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, description);
        self.slot(operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, input);
        if let Some(operand) = operand {
            self.slot(operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, operand);
        }
        self.slot(operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, output);
        self.finalize(operation);
        (operation, y)
    }

    pub fn graph(&mut self, operations: &[Slot]) -> Slot {
        let graph = self.create(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
        let elements = Elements::Slots(operations.to_vec());
        self.set(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, elements);
        self.finalize(graph);
        graph
    }

    /// A device that need not be present, from cuDNN's text of its properties.
    pub fn device(&mut self, properties: &str) -> Slot {
        let device = self.create(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
        let text = Elements::Bytes([properties.as_bytes(), &[0]].concat());
        self.set(device, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, text);
        self.finalize(device);
        device
    }

    /// Execution plans for a graph, from the first `count` candidates of heuristics. Returns their slots.
    pub fn plans(&mut self, graph: Slot, device: Slot, mode: cudnnBackendHeurMode_t, count: usize) -> Vec<Slot> {
        let heuristics = self.create(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
        self.slot(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
        self.set(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, Elements::Ints(vec![mode]));
        self.slot(heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device);
        self.finalize(heuristics);
        let configurations: Vec<Slot> = (0..count).map(|_| self.create(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)).collect();
        let (name, into) = (CUDNN_ATTR_ENGINEHEUR_RESULTS, configurations.clone());
        self.script.push(Step::GetDescriptors { slot: heuristics, name, into });
        configurations.into_iter().map(|configuration| self.plan(configuration, device)).collect()
    }

    /// The execution plan of the engine of this number, without knobs.
    pub fn plan_of_engine(&mut self, graph: Slot, device: Slot, index: i64) -> Slot {
        let engine = self.create(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
        self.slot(engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph);
        self.longs(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, &[index]);
        self.slot(engine, CUDNN_ATTR_ENGINE_DEVICEPROP, device);
        self.finalize(engine);
        let configuration = self.create(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
        self.slot(configuration, CUDNN_ATTR_ENGINECFG_ENGINE, engine);
        self.finalize(configuration);
        self.plan(configuration, device)
    }

    /// The execution plan of an engine configuration, and the engine read out of it.
    fn plan(&mut self, configuration: Slot, device: Slot) -> Slot {
        let engine = self.create(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
        let (name, into) = (CUDNN_ATTR_ENGINECFG_ENGINE, vec![engine]);
        self.script.push(Step::GetDescriptors { slot: configuration, name, into });
        let plan = self.create(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        self.slot(plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, device);
        self.slot(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
        self.finalize(plan);
        plan
    }

    /// Descriptors that need a graph but get no suitable one: finalizing them is refused whatever engines exist.
    pub fn refused(&mut self, graph: Slot) {
        let engine = self.create(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
        self.slot(engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph);
        let index = *[-1, 1 << 40, i64::MIN].choose(self.dice).unwrap();
        self.longs(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, &[index]);
        self.finalize(engine);
        let configuration = self.create(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
        self.slot(configuration, CUDNN_ATTR_ENGINECFG_ENGINE, engine);
        self.finalize(configuration);
        let plan = self.create(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        self.slot(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
        self.finalize(plan);
        let heuristics = self.create(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
        let mode = Elements::Ints(vec![CUDNN_HEUR_MODE_A]);
        self.set(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
        self.finalize(heuristics);
    }

    pub fn variant_pack(&mut self) -> Slot {
        let pack = self.create(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
        let count = self.dice.random_range(1..7);
        let ids: Vec<i64> = (0..count).map(|_| self.dice.random_range(-2..9)).collect();
        let pointers = ids.iter().map(|id| (id + 2) * 256).collect();
        self.longs(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, &ids);
        self.set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, Elements::Longs(pointers));
        if self.dice.random_bool(0.7) {
            self.set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, Elements::Longs(vec![4096]));
        }
        self.finalize(pack);
        pack
    }

    pub fn knob_choice(&mut self) {
        let choice = self.create(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
        let knob = Elements::Ints(vec![self.dice.random_range(-1..36)]);
        self.set(choice, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, knob);
        let value = self.dice.random_range(-2..30);
        self.longs(choice, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, &[value]);
        self.finalize(choice);
    }
}
