//! Nets that people use, run on the host and held against central differences.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use ucudnn_vertex::batch::{Batch, Maxima, Policy};
use ucudnn_vertex::function::{Declaration, Net};
use ucudnn_vertex::graphs::{Description, Graphs};
use ucudnn_vertex::host::{Element, Executor, Gradients, Inputs, Pull, Real, Threads};

#[path = "../../nets/tree_lstm.rs"]
mod nets;

/// A child-sum Tree-LSTM (the same, equations 2 to 8).
fn child_sum(x: usize, h: usize) -> Declaration {
    let text = format!(
        "states {h} {h}\nparameters {}x{x} {} {}x{h} {h}x{h}\npulls {x}\npushes {h}\n\
         function any:\n%0 = pull 0\n%1 = matmul P0, %0\n%2 = bias P1, %1\n%3 = children 0\n%4 = sumChildren %3\n\
         %5 = matmul P2, %4\n%6 = slice %2, 0, {}\n%7 = add %6, %5\n%8 = slice %7, 0, {h}\n%9 = sigmoid %8\n\
         %10 = slice %7, {h}, {h}\n%11 = sigmoid %10\n%12 = slice %7, {}, {h}\n%13 = tanh %12\n\
         %14 = matmul P3, %3\n%15 = slice %2, {}, {h}\n%16 = add %14, %15\n%17 = sigmoid %16\n%18 = children 1\n\
         %19 = mul %17, %18\n%20 = sumChildren %19\n%21 = mul %9, %13\n%22 = add %21, %20\n%23 = tanh %22\n\
         %24 = mul %11, %23\nscatter 0, %24\nscatter 1, %22\npush 0, %24\n",
        4 * h,
        4 * h,
        3 * h,
        3 * h,
        2 * h,
        3 * h
    ); // fmt: skip
    text.parse().unwrap()
}

struct Problem {
    net: Net,
    batch: Batch,
    parameters: Vec<Vec<f64>>,
    pulls: Vec<Vec<f64>>,
    /// The loss is their product with the outputs.
    weights: Vec<Vec<f64>>,
}

impl Problem {
    fn new(declaration: Declaration, graphs: &Graphs, seed: u64) -> Self {
        let net = Net::new(declaration).unwrap();
        let maxima = Maxima { graphs: 8, vertices: 100, children: 200, levels: 20 };
        let mut batch = Batch::new(maxima, &net, Policy::of(&net)).unwrap();
        let ids: Vec<_> = (0..graphs.count() as i64).chain([0]).collect();
        batch.set(&net, graphs, &ids).unwrap();
        let mut rng = StdRng::seed_from_u64(seed);
        let mut random = |count: usize| (0..count).map(|_| rng.random_range(-1.0..1.0)).collect::<Vec<f64>>();
        let declaration = net.declaration().clone();
        Self {
            parameters: declaration.parameters.iter().map(|size| random(size.elements())).collect(),
            pulls: declaration.pulls.iter().map(|width| random(width * batch.pulled_rows())).collect(),
            weights: declaration.pushes.iter().map(|width| random(width * batch.vertices())).collect(),
            net,
            batch,
        }
    }

    fn run<C: Real + Element<Real = C>>(&self, threads: usize) -> (f64, Vec<Vec<f64>>) {
        let executor = Executor::new(&self.net, true, Threads::new(threads));
        let cast = |from: &[Vec<f64>]| -> Vec<Vec<C>> {
            from.iter().map(|from| from.iter().map(|number| C::of(*number)).collect()).collect()
        };
        let (parameters, pulls, weights) = (cast(&self.parameters), cast(&self.pulls), cast(&self.weights));
        let parameters: Vec<_> = parameters.iter().map(Vec::as_slice).collect();
        let pulls: Vec<_> = pulls.iter().map(|pull| Pull::Rows(pull)).collect();
        let inputs = Inputs { parameters: &parameters, pulls: &pulls };
        let memory = executor.memory::<C>(&self.batch);
        let poison = C::of(f64::NAN);
        let mut reserve = vec![poison; memory.reserve];
        let mut pushes: Vec<_> = weights.iter().map(|weights| vec![poison; weights.len()]).collect();
        let mut to: Vec<_> = pushes.iter_mut().map(|push| Some(push.as_mut_slice())).collect();
        let mut workspace = vec![poison; memory.workspace];
        executor.forward(&self.batch, inputs, &mut to, (&mut workspace, &mut reserve)).unwrap();
        let mut workspace = vec![poison; memory.workspace];
        let mut gradients: Vec<_> = parameters.iter().map(|its| vec![poison; its.len()]).collect();
        let mut of_pulls: Vec<_> = self.pulls.iter().map(|its| vec![poison; its.len()]).collect();
        let weights: Vec<_> = weights.iter().map(Vec::as_slice).collect();
        let mut gradients_to: Vec<_> = gradients.iter_mut().map(|its| Some(its.as_mut_slice())).collect();
        let mut pulls_to: Vec<_> = of_pulls.iter_mut().map(|its| Some(its.as_mut_slice())).collect();
        let all =
            Gradients { pushes: &weights, pulls: &mut pulls_to, parameters: &mut gradients_to, accumulates: false };
        executor.backward(&self.batch, inputs, all, (&mut workspace, &mut reserve)).unwrap();
        let number = |number: &C| number.to_f64();
        let loss = pushes.iter().zip(&weights).flat_map(|(push, weights)| push.iter().zip(*weights));
        let loss = loss.map(|(push, weight)| number(push) * number(weight)).sum();
        (loss, gradients.iter().chain(&of_pulls).map(|its| its.iter().map(number).collect()).collect())
    }

    fn loss_with(&mut self, tensor: usize, place: usize, change: f64) -> f64 {
        let count = self.parameters.len();
        let tensors = if tensor < count { &mut self.parameters[tensor] } else { &mut self.pulls[tensor - count] };
        let before = tensors[place];
        tensors[place] += change;
        let (loss, _) = self.run::<f64>(1);
        let count = self.parameters.len();
        let tensors = if tensor < count { &mut self.parameters[tensor] } else { &mut self.pulls[tensor - count] };
        tensors[place] = before;
        loss
    }
}

/// Two trees, a chain with an empty slot, and a single vertex.
fn graphs() -> Graphs {
    let trees: [&[&[i32]]; 4] = [
        &[&[], &[], &[0, 1], &[], &[2, 3], &[], &[], &[5, 6], &[4, 7]],
        &[&[2, 1], &[], &[]],
        &[&[], &[0, -1], &[-1, 1], &[2, -1]],
        &[&[]],
    ];
    let (mut first_vertex, mut first_child, mut children) = (vec![0], vec![0], vec![]);
    for tree in trees {
        for slots in tree {
            children.extend(*slots);
            first_child.push(children.len() as i64);
        }
        first_vertex.push(first_child.len() as i64 - 1);
    }
    let (first_vertex, first_child, children) = (&first_vertex[..], &first_child[..], &children[..]);
    Graphs::new(&Description { first_vertex, first_child, children, kinds: None, rows: None }).unwrap()
}

fn without_empty_slots() -> Graphs {
    let (first_vertex, first_child, children) = ([0, 5, 6], [0, 0, 0, 2, 4, 6, 6], [0, 1, 2, 1, 3, 0]);
    let description = Description {
        first_vertex: &first_vertex,
        first_child: &first_child,
        children: &children,
        kinds: None,
        rows: None,
    };
    Graphs::new(&description).unwrap()
}

fn check(mut problem: Problem) {
    let (_, gradients) = problem.run::<f64>(1);
    let step = 1e-5;
    for (tensor, gradient) in gradients.iter().enumerate() {
        for (place, found) in gradient.iter().enumerate().step_by(gradient.len().div_ceil(40)) {
            let slope =
                (problem.loss_with(tensor, place, step) - problem.loss_with(tensor, place, -step)) / (2.0 * step);
            assert!(
                (found - slope).abs() < 1e-6 * (1.0 + slope.abs()),
                "tensor {tensor}, {place}: {found}, not {slope}"
            );
        }
    }
    let same = |one: &[Vec<f64>], other: &[Vec<f64>]| {
        let all = one.iter().flatten().zip(other.iter().flatten());
        all.fold(0.0_f64, |worst, (one, other)| worst.max((one - other).abs() / (1.0 + other.abs())))
    };
    assert!(same(&problem.run::<f64>(2).1, &gradients) < 1e-12, "two threads");
    assert!(same(&problem.run::<f32>(2).1, &gradients) < 1e-4, "float");
}

#[test]
fn tree_lstms_have_the_gradients_of_central_differences() {
    check(Problem::new(nets::tree_lstm(5, 6, Some(3)).parse().unwrap(), &graphs(), 1));
    check(Problem::new(child_sum(3, 4), &without_empty_slots(), 2));
}
