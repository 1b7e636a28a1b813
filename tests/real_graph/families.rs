//! Operation graphs that libucudnn.so does not split, as programs build them: matrix products, softmax, normalization,
//! attention.

use super::graphs::{Builder, Tensor};
use super::script::{Elements, Slot};
use cudnn_abi::*;
use rand::Rng;
use rand::seq::IndexedRandom;

// Attributes and enumerators of operations that only these tests make.
const MATMUL_COMP_TYPE: cudnnBackendAttributeName_t = 1500;
const MATMUL_A: cudnnBackendAttributeName_t = 1520;
const MATMUL_B: cudnnBackendAttributeName_t = 1521;
const MATMUL_C: cudnnBackendAttributeName_t = 1522;
const MATMUL_DESCRIPTION: cudnnBackendAttributeName_t = 1523;
const REDUCTION_OPERATOR: cudnnBackendAttributeName_t = 1600;
const REDUCTION_COMP_TYPE: cudnnBackendAttributeName_t = 1601;
const REDUCTION_X: cudnnBackendAttributeName_t = 1610;
const REDUCTION_Y: cudnnBackendAttributeName_t = 1611;
const REDUCTION_DESCRIPTION: cudnnBackendAttributeName_t = 1612;
const REDUCE_ADD: i32 = 0;
const REDUCE_MAX: i32 = 3;

/// Writes graphs, each of one family. Its methods return the slots of a graph's operations.
pub struct Family<'a, 'b> {
    pub builder: &'a mut Builder<'b>,
    data_type: cudnnDataType_t,
}

impl<'a, 'b> Family<'a, 'b> {
    pub fn new(builder: &'a mut Builder<'b>) -> Self {
        let types = [CUDNN_DATA_HALF, CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16, CUDNN_DATA_FLOAT];
        let data_type = *types.choose(builder.dice).unwrap();
        Self::of_type(builder, data_type)
    }

    pub fn of_type(builder: &'a mut Builder<'b>, data_type: cudnnDataType_t) -> Self {
        Self { builder, data_type }
    }

    /// A graph of a random family.
    pub fn graph(mut self) -> Slot {
        let operations = match self.builder.dice.random_range(0..6) {
            0 => self.matmul(),
            1 => self.softmax_alone(),
            2 => self.layer_norm(),
            3 => self.attention(),
            4 => self.batch_norm(),
            _ => self.pointwise_chain(),
        };
        self.builder.graph(&operations)
    }

    fn tensor(&mut self, dims: &[i64], data_type: cudnnDataType_t, is_virtual: bool) -> Tensor {
        let mut tensor = self.builder.shaped(dims, data_type, false);
        tensor.is_virtual = is_virtual;
        tensor
    }

    /// The description of an operation: its attributes and their enumerators.
    fn description(
        &mut self,
        kind: cudnnBackendDescriptorType_t,
        enumerators: &[(cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, i32)],
    ) -> Slot {
        let slot = self.builder.create(kind);
        for &(name, of, value) in enumerators {
            self.builder.set(slot, name, of, Elements::Ints(vec![value]));
        }
        self.builder.finalize(slot);
        slot
    }

    fn operation(
        &mut self,
        kind: cudnnBackendDescriptorType_t,
        description: Option<(cudnnBackendAttributeName_t, Slot)>,
        tensors: &[(cudnnBackendAttributeName_t, &Tensor)],
    ) -> Slot {
        let inner: Vec<_> = tensors.iter().map(|&(name, tensor)| (name, self.builder.tensor(tensor))).collect();
        let slot = self.builder.create(kind);
        for (name, inner) in description.into_iter().chain(inner) {
            self.builder.slot(slot, name, inner);
        }
        self.builder.finalize(slot);
        slot
    }

    fn product(&mut self, a: &Tensor, b: &Tensor, c: &Tensor) -> Slot {
        let types = [(MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT)];
        let description = self.description(CUDNN_BACKEND_MATMUL_DESCRIPTOR, &types);
        let kind = CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR;
        self.operation(kind, Some((MATMUL_DESCRIPTION, description)), &[(MATMUL_A, a), (MATMUL_B, b), (MATMUL_C, c)])
    }

    fn reduction(&mut self, operator: i32, x: &Tensor, y: &Tensor) -> Slot {
        let what = [
            (REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, operator),
            (REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT),
        ];
        let description = self.description(CUDNN_BACKEND_REDUCTION_DESCRIPTOR, &what);
        let kind = CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR;
        self.operation(kind, Some((REDUCTION_DESCRIPTION, description)), &[(REDUCTION_X, x), (REDUCTION_Y, y)])
    }

    fn pointwise(&mut self, mode: cudnnPointwiseMode_t, x: &Tensor, b: Option<&Tensor>, y: &Tensor) -> Slot {
        let what = [
            (CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode),
            (CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT),
        ];
        let description = self.description(CUDNN_BACKEND_POINTWISE_DESCRIPTOR, &what);
        let mut tensors = vec![(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x), (CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y)];
        tensors.extend(b.map(|b| (CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b)));
        let description = Some((CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, description));
        self.operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, description, &tensors)
    }

    fn eights(&mut self) -> i64 {
        8 * self.builder.dice.random_range(1..9)
    }

    /// A matrix product, alone or followed by an activation.
    fn matmul(&mut self) -> Vec<Slot> {
        let (batch, data_type) = (self.builder.dice.random_range(1..4), self.data_type);
        let [m, k, n] = [(); 3].map(|()| self.eights());
        let a = self.tensor(&[batch, m, k], data_type, false);
        let b = self.tensor(&[batch, k, n], data_type, false);
        let fused = self.builder.dice.random_bool(0.5);
        let c = self.tensor(&[batch, m, n], if fused { CUDNN_DATA_FLOAT } else { data_type }, fused);
        let mut operations = vec![self.product(&a, &b, &c)];
        if fused {
            let y = self.tensor(&[batch, m, n], data_type, false);
            operations.push(self.pointwise(CUDNN_POINTWISE_RELU_FWD, &c, None, &y));
        }
        operations
    }

    /// exp(x − max) / sum, along the last dimension.
    fn softmax(&mut self, x: &Tensor, y: &Tensor) -> Vec<Slot> {
        let float = CUDNN_DATA_FLOAT;
        let row = [&x.dims[..x.dims.len() - 1], &[1]].concat();
        let [most, sum] = [(); 2].map(|()| self.tensor(&row, float, true));
        let [centred, powers] = [(); 2].map(|()| self.tensor(&x.dims, float, true));
        vec![
            self.reduction(REDUCE_MAX, x, &most),
            self.pointwise(CUDNN_POINTWISE_SUB, x, Some(&most), &centred),
            self.pointwise(CUDNN_POINTWISE_EXP, &centred, None, &powers),
            self.reduction(REDUCE_ADD, &powers, &sum),
            self.pointwise(CUDNN_POINTWISE_DIV, &powers, Some(&sum), y),
        ]
    }

    fn softmax_alone(&mut self) -> Vec<Slot> {
        let dims = [2, self.builder.dice.random_range(1..5), self.eights(), self.eights()];
        let [x, y] = [(); 2].map(|()| self.tensor(&dims, self.data_type, false));
        self.softmax(&x, &y)
    }

    fn layer_norm(&mut self) -> Vec<Slot> {
        let (rows, columns, float) = (self.eights(), self.eights(), CUDNN_DATA_FLOAT);
        let [x, y] = [(); 2].map(|()| self.tensor(&[rows, columns, 1, 1], self.data_type, false));
        let [scale, bias] = [(); 2].map(|()| self.tensor(&[1, columns, 1, 1], float, false));
        let [mean, inverse] = [(); 2].map(|()| self.tensor(&[rows, 1, 1, 1], float, false));
        let epsilon = self.number();
        let training = self.builder.dice.random_bool(0.5);
        let mut tensors = vec![
            (CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, &x),
            (CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, &scale),
            (CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, &bias),
            (CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC, &epsilon),
            (CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, &y),
        ];
        if training {
            tensors.extend([
                (CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, &mean),
                (CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, &inverse),
            ]);
        }
        vec![self.norm_forward(CUDNN_LAYER_NORM, training, &tensors)]
    }

    /// Forward in training or inference, or backward, with channels last.
    fn batch_norm(&mut self) -> Vec<Slot> {
        let dims = [2, self.eights(), 8, 8];
        match self.builder.dice.random_range(0..3) {
            0 => vec![self.batch_norm_backward(&dims)],
            phase => vec![self.batch_norm_forward(&dims, phase == 1)],
        }
    }

    pub fn batch_norm_forward(&mut self, dims: &[i64; 4], training: bool) -> Slot {
        let [x, y] = [(); 2].map(|()| self.builder.shaped(dims, self.data_type, true));
        let [scale, bias, mean, inverse, mean_in, variance_in, mean_out, variance_out] =
            [(); 8].map(|()| self.builder.shaped(&[1, dims[1], 1, 1], CUDNN_DATA_FLOAT, true));
        let [epsilon, factor] = [(); 2].map(|()| self.number());
        let mut tensors = vec![
            (CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, &x),
            (CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, &mean),
            (CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, &inverse),
            (CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, &scale),
            (CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, &bias),
            (CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, &y),
        ];
        if training {
            tensors.extend([
                (CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC, &epsilon),
                (CUDNN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC, &factor),
                (CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC, &mean_in),
                (CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC, &variance_in),
                (CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC, &mean_out),
                (CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC, &variance_out),
            ]);
        }
        self.norm_forward(CUDNN_BATCH_NORM, training, &tensors)
    }

    pub fn batch_norm_backward(&mut self, dims: &[i64; 4]) -> Slot {
        let [x, dy, dx] = [(); 3].map(|()| self.builder.shaped(dims, self.data_type, true));
        let [scale, mean, inverse, dscale, dbias] =
            [(); 5].map(|()| self.builder.shaped(&[1, dims[1], 1, 1], CUDNN_DATA_FLOAT, true));
        let tensors = [
            (CUDNN_ATTR_OPERATION_NORM_BWD_XDESC, &x),
            (CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC, &mean),
            (CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC, &inverse),
            (CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC, &dy),
            (CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC, &scale),
            (CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC, &dscale),
            (CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC, &dbias),
            (CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC, &dx),
        ];
        let mode = (CUDNN_ATTR_OPERATION_NORM_BWD_MODE, CUDNN_TYPE_NORM_MODE, CUDNN_BATCH_NORM);
        self.norm(CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR, &[mode], &tensors)
    }

    /// A number that the program hands over by value.
    fn number(&mut self) -> Tensor {
        let mut number = self.builder.shaped(&[1, 1, 1, 1], CUDNN_DATA_FLOAT, false);
        number.is_by_value = true;
        number
    }

    fn norm_forward(
        &mut self,
        mode: cudnnBackendNormMode_t,
        training: bool,
        tensors: &[(cudnnBackendAttributeName_t, &Tensor)],
    ) -> Slot {
        let phase = if training { CUDNN_NORM_FWD_TRAINING } else { CUDNN_NORM_FWD_INFERENCE };
        let enumerators = [
            (CUDNN_ATTR_OPERATION_NORM_FWD_MODE, CUDNN_TYPE_NORM_MODE, mode),
            (CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, CUDNN_TYPE_NORM_FWD_PHASE, phase),
        ];
        self.norm(CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR, &enumerators, tensors)
    }

    fn norm(
        &mut self,
        kind: cudnnBackendDescriptorType_t,
        enumerators: &[(cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, i32)],
        tensors: &[(cudnnBackendAttributeName_t, &Tensor)],
    ) -> Slot {
        let inner: Vec<_> = tensors.iter().map(|&(name, tensor)| (name, self.builder.tensor(tensor))).collect();
        let slot = self.builder.create(kind);
        for &(name, of, value) in enumerators {
            self.builder.set(slot, name, of, Elements::Ints(vec![value]));
        }
        for (name, inner) in inner {
            self.builder.slot(slot, name, inner);
        }
        self.builder.finalize(slot);
        slot
    }

    /// softmax(q k) v
    fn attention(&mut self) -> Vec<Slot> {
        let (float, data_type) = (CUDNN_DATA_FLOAT, self.data_type);
        let [batch, heads] = [(); 2].map(|()| self.builder.dice.random_range(1..4));
        let [length, width] = [64 * self.builder.dice.random_range(1..4), 64];
        let q = self.tensor(&[batch, heads, length, width], data_type, false);
        let k = self.tensor(&[batch, heads, width, length], data_type, false);
        let v = self.tensor(&[batch, heads, length, width], data_type, false);
        let scores = self.tensor(&[batch, heads, length, length], float, true);
        let weights = self.tensor(&[batch, heads, length, length], data_type, true);
        let o = self.tensor(&[batch, heads, length, width], data_type, false);
        let mut operations = vec![self.product(&q, &k, &scores)];
        operations.extend(self.softmax(&scores, &weights));
        operations.push(self.product(&weights, &v, &o));
        operations
    }

    fn pointwise_chain(&mut self) -> Vec<Slot> {
        let dims = [2, self.eights(), 4, 4];
        let [x, b, y] = [(); 3].map(|()| self.tensor(&dims, self.data_type, false));
        let sum = self.tensor(&dims, CUDNN_DATA_FLOAT, true);
        let add = self.pointwise(CUDNN_POINTWISE_ADD, &x, Some(&b), &sum);
        vec![add, self.pointwise(CUDNN_POINTWISE_SIGMOID_FWD, &sum, None, &y)]
    }
}
