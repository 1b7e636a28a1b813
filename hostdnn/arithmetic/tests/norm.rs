//! Batch normalization against the formulas on lists of numbers: random shapes, strides, types, factors and operations,
//! with poisoned outputs; gradients against central differences; means far from 0.

use half::{bf16, f16};
use hostdnn_arithmetic::Element;
use hostdnn_arithmetic::norm::*;
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// A tensor's memory. Places between elements hold NaN, and must keep it.
#[derive(Clone)]
struct Memory<T> {
    dims: [usize; 5],
    strides: [usize; 5],
    values: Vec<T>,
}

impl<T: Element> Memory<T> {
    /// Packed in a random order of dimensions, with a gap behind each if asked.
    fn new(dims: [usize; 5], gaps: bool, dice: &mut StdRng) -> Self {
        let mut order = [0, 1, 2, 3, 4];
        (1..5).for_each(|i| order.swap(i, dice.random_range(0..=i)));
        let (mut strides, mut step) = ([0; 5], if gaps { 2 } else { 1 });
        for i in order {
            strides[i] = step;
            step *= dims[i] + usize::from(gaps);
        }
        Self { dims, strides, values: vec![T::from_f64(f64::NAN); step] }
    }

    fn random(dims: [usize; 5], gaps: bool, dice: &mut StdRng) -> Self {
        let mut memory = Self::new(dims, gaps, dice);
        let values: Vec<f64> = (0..dims.iter().product()).map(|_| dice.random_range(-2.0..2.0)).collect();
        memory.fill(&values);
        memory
    }

    /// Offsets of all elements, w fastest.
    fn offsets(&self) -> Vec<usize> {
        let extend = |all: Vec<usize>, i: usize| {
            all.iter().flat_map(|&at| (0..self.dims[i]).map(move |j| at + j * self.strides[i])).collect()
        };
        (0..5).fold(vec![0], extend)
    }

    fn fill(&mut self, values: &[f64]) {
        for (at, &value) in self.offsets().into_iter().zip(values) {
            self.values[at] = T::from_f64(value);
        }
    }

    fn read(&self) -> Vec<f64> {
        self.offsets().into_iter().map(|at| self.values[at].to_f64()).collect()
    }

    fn tensor(&mut self) -> Tensor<T> {
        Tensor { data: self.values.as_mut_ptr(), strides: self.strides }
    }

    fn check_gaps(&self) {
        let mut between = vec![true; self.values.len()];
        self.offsets().into_iter().for_each(|at| between[at] = false);
        let kept = between.iter().zip(&self.values).all(|(&gap, value)| !gap || value.to_f64().is_nan());
        assert!(kept, "written outside of the tensor");
    }
}

/// The group of each element, in the order of `Memory::read`.
fn groups_of(shape: &Shape) -> Vec<usize> {
    let volume: usize = shape.dims[2..].iter().product();
    let image = shape.dims[1] * volume;
    let group = |i: usize| match shape.mode {
        Mode::PerActivation => i % image,
        Mode::Spatial => i % image / volume,
    };
    (0..shape.dims[0] * image).map(group).collect()
}

fn members(groups: &[usize], values: &[f64], group: usize) -> Vec<f64> {
    groups.iter().zip(values).filter(|&(&of, _)| of == group).map(|(_, &value)| value).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn random(count: usize, dice: &mut StdRng) -> Vec<f64> {
    (0..count).map(|_| dice.random_range(-2.0..2.0)).collect()
}

fn close(got: &[f64], want: &[f64], tolerance: f64, what: &str) {
    let largest = want.iter().fold(1.0, |most: f64, value| most.max(value.abs()));
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        let error = (got - want).abs();
        assert!(error <= tolerance * largest, "{what} {i}: {got} in place of {want}");
    }
}

#[derive(Clone, Debug)]
struct Case {
    shape: Shape,
    gaps: bool,
    beta: f64,
    relu: bool,
    sum: bool,
    in_place: bool,
    seed: u64,
}

fn cases() -> impl Strategy<Value = Case> {
    let dims = (1usize..5, 1usize..6, 1usize..3, 1usize..6, 1usize..6);
    let mode = prop_oneof![Just(Mode::PerActivation), Just(Mode::Spatial)];
    let beta = prop_oneof![Just(0.0), Just(-0.5)];
    (dims, mode, beta, any::<[bool; 4]>(), any::<u64>()).prop_map(|((n, c, d, h, w), mode, beta, flags, seed)| {
        let [gaps, relu, sum, in_place] = flags;
        let shape = Shape { mode, dims: [n, c, d, h, w] };
        Case { shape, gaps, beta, relu, sum, in_place, seed }
    })
}

/// Runs `forward` on x's own moments, and compares y and the moments with the formulas.
fn check_forward<T: Element>(case: &Case, precision: f64) {
    let Case { shape, gaps, beta, relu, sum, in_place, seed } = *case;
    let mut dice = StdRng::seed_from_u64(seed);
    let epsilon = 1e-3;
    let mut x = Memory::<T>::random(shape.dims, gaps, &mut dice);
    let mut z = Memory::<T>::random(shape.dims, gaps, &mut dice);
    let mut y = match beta == 0.0 {
        true => Memory::<T>::new(shape.dims, gaps, &mut dice),
        false => Memory::<T>::random(shape.dims, gaps, &mut dice),
    };
    let (inputs, sums, before) = (x.read(), z.read(), if in_place { x.read() } else { y.read() });
    let (scale, bias) = (random(shape.groups(), &mut dice), random(shape.groups(), &mut dice));
    let input = x.tensor();
    // SAFETY: the tensors are as long as their dimensions and strides say.
    let found = unsafe {
        let found = moments(&shape, input);
        let centres: Vec<Centre> = found.iter().map(|moments| moments.centre(epsilon)).collect();
        let operands = Forward {
            x: input,
            z: sum.then(|| z.tensor()),
            y: if in_place { input } else { y.tensor() },
            blend: Blend { alpha: 1.5, beta },
            centres: &centres,
            scale: &scale,
            bias: &bias,
            relu: relu.then_some(Relu { keeps_nan: true }),
            mask: None,
        };
        forward(&shape, &operands);
        found
    };

    let groups = groups_of(&shape);
    for (group, found) in found.iter().enumerate() {
        let of_group = members(&groups, &inputs, group);
        let centre = mean(&of_group);
        let squares: Vec<f64> = of_group.iter().map(|x| (x - centre) * (x - centre)).collect();
        close(&[found.mean, found.variance], &[centre, mean(&squares)], 1e-14, "moment");
        let m = of_group.len();
        let unbiased = squares.iter().sum::<f64>() / (m as f64 - 1.0);
        let got = found.unbiased_variance(m);
        assert!(if m == 1 { got.is_nan() } else { (got - unbiased).abs() < 1e-13 }, "{got} in place of {unbiased}");
    }
    let want: Vec<f64> = (0..inputs.len())
        .map(|i| {
            let Moments { mean, variance } = found[groups[i]];
            let normal = (inputs[i] - mean) / (variance + epsilon).sqrt();
            let value = scale[groups[i]] * normal + bias[groups[i]] + if sum { sums[i] } else { 0.0 };
            let value = if relu { value.max(0.0) } else { value };
            1.5 * value + if beta == 0.0 { 0.0 } else { beta * before[i] }
        })
        .collect();
    let result = if in_place { &x } else { &y };
    close(&result.read(), &want, precision, "y");
    result.check_gaps();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn forward_follows_the_formula(case in cases()) {
        check_forward::<f64>(&case, 1e-13);
        check_forward::<f32>(&case, f64::powi(2.0, -24));
        check_forward::<f16>(&case, f64::powi(2.0, -11));
        check_forward::<bf16>(&case, f64::powi(2.0, -8));
    }
}

/// What follows the normalization in the test of gradients.
#[derive(Clone, Copy, Debug, PartialEq)]
enum After {
    Nothing,
    Relu,
    Sum,
}

/// The inputs of a loss, in doubles.
#[derive(Clone)]
struct Inputs {
    shape: Shape,
    after: After,
    x: Memory<f64>,
    z: Memory<f64>,
    scale: Vec<f64>,
    bias: Vec<f64>,
}

const EPSILON: f64 = 1e-2;

impl Inputs {
    /// y, by `forward`. Fills the mask.
    fn run(&mut self, mask: &mut [u8]) -> (Vec<f64>, Vec<Centre>) {
        let mut y = self.x.clone();
        let x = self.x.tensor();
        // SAFETY: the tensors are as long as their dimensions and strides say, and so is the mask.
        unsafe {
            let centres: Vec<Centre> = moments(&self.shape, x).iter().map(|m| m.centre(EPSILON)).collect();
            let operands = Forward {
                x,
                z: (self.after == After::Sum).then(|| self.z.tensor()),
                y: y.tensor(),
                blend: Blend { alpha: 1.0, beta: 0.0 },
                centres: &centres,
                scale: &self.scale,
                bias: &self.bias,
                relu: (self.after != After::Nothing).then_some(Relu { keeps_nan: false }),
                mask: (self.after == After::Sum).then_some(Mask(mask.as_mut_ptr())),
            };
            forward(&self.shape, &operands);
            (y.read(), centres)
        }
    }

    fn loss(mut self, weights: &[f64]) -> f64 {
        let mut mask = vec![0; mask_bytes(&self.shape)];
        self.run(&mut mask).0.iter().zip(weights).map(|(y, weight)| y * weight).sum()
    }
}

/// The slope of the loss along one input, by central differences; `None` where the ReLU bends between the two.
fn slope(inputs: &Inputs, weights: &[f64], change: impl Fn(&mut Inputs, f64)) -> Option<f64> {
    let at = |step: f64| {
        let mut moved = inputs.clone();
        change(&mut moved, step);
        moved.loss(weights)
    };
    let by = |step: f64| (at(step) - at(-step)) / (2.0 * step);
    let (fine, coarse) = (by(1e-5), by(2e-5));
    ((fine - coarse).abs() < 1e-6).then_some(fine)
}

#[test]
fn gradients_are_central_differences() {
    let (mut compared, mut left_out) = (0, 0);
    for seed in 0..60 {
        let mut dice = StdRng::seed_from_u64(seed);
        let dims: [usize; 5] = std::array::from_fn(|_| dice.random_range(1..4));
        let mode = if dice.random_bool(0.5) { Mode::Spatial } else { Mode::PerActivation };
        let shape = Shape { mode, dims };
        let after = [After::Nothing, After::Relu, After::Sum][seed as usize % 3];
        let gaps = dice.random_bool(0.5);
        let mut inputs = Inputs {
            shape,
            after,
            x: Memory::random(dims, gaps, &mut dice),
            z: Memory::random(dims, gaps, &mut dice),
            scale: random(shape.groups(), &mut dice),
            bias: random(shape.groups(), &mut dice),
        };
        let weights = random(dims.iter().product(), &mut dice);
        // The forward call clears bits that nobody set.
        let mut mask = vec![0xff; mask_bytes(&shape)];
        let (_, centres) = inputs.run(&mut mask);
        let mut dy = Memory::<f64>::random(dims, gaps, &mut dice);
        dy.fill(&weights);
        let (mut dx, mut dz) = (Memory::<f64>::new(dims, gaps, &mut dice), Memory::<f64>::new(dims, gaps, &mut dice));
        let relu = Relu { keeps_nan: false };
        // SAFETY: the tensors are as long as their dimensions and strides say, and so is the mask.
        let gradients = unsafe {
            let operands = Backward {
                x: inputs.x.tensor(),
                dy: dy.tensor(),
                dx: dx.tensor(),
                blend: Blend { alpha: 1.0, beta: 0.0 },
                dz: (after == After::Sum).then(|| dz.tensor()),
                centres: &centres,
                scale: &inputs.scale,
                gate: match after {
                    After::Nothing => Gate::Open,
                    After::Relu => Gate::Recomputed(relu, &inputs.bias),
                    After::Sum => Gate::Kept(Mask(mask.as_mut_ptr())),
                },
            };
            backward(&shape, &operands)
        };
        dx.check_gaps();
        dz.check_gaps();
        let mut compare = |got: f64, want: Option<f64>, what: &str| match want {
            Some(want) => {
                let error = (got - want).abs();
                assert!(error < 1e-6 * want.abs().max(1.0), "seed {seed} {after:?} {what}: {got} for {want}");
                compared += 1;
            }
            None => left_out += 1,
        };
        assert_eq!(gradients.len(), shape.groups());
        for (group, got) in gradients.iter().enumerate() {
            let want = slope(&inputs, &weights, |inputs, step| inputs.scale[group] += step);
            compare(got.scale, want, "scale");
            let want = slope(&inputs, &weights, |inputs, step| inputs.bias[group] += step);
            compare(got.bias, want, "bias");
        }
        let offsets = inputs.x.offsets();
        for (i, got) in dx.read().into_iter().enumerate() {
            compare(got, slope(&inputs, &weights, |inputs, step| inputs.x.values[offsets[i]] += step), "x");
        }
        let offsets = inputs.z.offsets();
        for (i, got) in dz.read().into_iter().enumerate().filter(|_| after == After::Sum) {
            compare(got, slope(&inputs, &weights, |inputs, step| inputs.z.values[offsets[i]] += step), "z");
        }
    }
    assert!(compared > 2000 && left_out * 100 < compared, "{compared} compared, {left_out} left out");
}

/// The sums of numbers on a grid of 1/1024 are exact, and so the wanted moments are.
#[test]
fn variances_are_exact_however_far_the_mean_is() {
    let mut dice = StdRng::seed_from_u64(7);
    let shape = Shape { mode: Mode::Spatial, dims: [4, 2, 1, 16, 16] };
    for deviations in [0.0, 1000.0, 1e5] {
        let mut x = Memory::<f64>::random(shape.dims, true, &mut dice);
        let grid: Vec<f64> = x.read().iter().map(|x| (x * 1024.0).round() / 1024.0 + deviations).collect();
        x.fill(&grid);
        // SAFETY: the tensor is as long as its dimensions and strides say.
        let found = unsafe { moments(&shape, x.tensor()) };
        let groups = groups_of(&shape);
        for (group, found) in found.iter().enumerate() {
            let near: Vec<f64> = members(&groups, &grid, group).iter().map(|x| x - deviations).collect();
            let squares: Vec<f64> = near.iter().map(|x| x * x).collect();
            let variance = mean(&squares) - mean(&near) * mean(&near);
            assert!((found.mean - deviations - mean(&near)).abs() < 1e-10, "mean at {deviations}");
            assert!((found.variance - variance).abs() < 1e-10, "variance at {deviations}");
        }
    }
}

#[test]
fn relu_and_its_mask_take_nan_as_told() {
    let shape = Shape { mode: Mode::Spatial, dims: [1, 1, 1, 1, 3] };
    for keeps_nan in [false, true] {
        let mut values = [f64::NAN, -1.0, 1.0];
        let tensor = Tensor { data: values.as_mut_ptr(), strides: [1; 5] };
        let centres = [Centre { mean: 0.0, inverse_deviation: 1.0 }];
        let mut mask = [0xffu8];
        let operands = Forward {
            x: tensor,
            z: None,
            y: tensor,
            blend: Blend { alpha: 1.0, beta: 0.0 },
            centres: &centres,
            scale: &[1.0],
            bias: &[0.0],
            relu: Some(Relu { keeps_nan }),
            mask: Some(Mask(mask.as_mut_ptr())),
        };
        // SAFETY: the tensor has three elements, and the mask three bits.
        unsafe { forward(&shape, &operands) };
        assert_eq!(values[0].is_nan(), keeps_nan);
        assert_eq!((&values[1..], mask[0]), (&[0.0, 1.0][..], 0xfc | u8::from(keeps_nan)));
    }
}
