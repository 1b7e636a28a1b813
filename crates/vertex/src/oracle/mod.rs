//! Runs nets vertex by vertex, in double precision, from the arrays that users give: what executors are held against.
//!
//! Nothing here is shared with them but the declaration. Gradients come from a tape of single numbers over the unrolled
//! graph, not from the rules of [`derivative`](crate::derivative).

mod tape;
mod vertex;

pub use vertex::function;

use crate::function::{Arity, Declaration};
use crate::graphs::Description;
use tape::{Number, Tape};

/// What a run reads.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// `[rows][columns]` of each parameter.
    pub parameters: &'a [Vec<f64>],
    /// Each input.
    pub pulls: &'a [Pull],
    /// `[vertices][width]` of each output: the gradient of the loss by it.
    pub push_gradients: &'a [Vec<f64>],
}

/// An input.
#[derive(Clone, Debug, PartialEq)]
pub enum Pull {
    /// `[rows][width]`
    Rows(Vec<f64>),
    /// `[rows]`
    Indices(Vec<i64>),
}

/// What a run makes.
#[derive(Clone, Debug, PartialEq)]
pub struct Outputs {
    /// `[vertices][width]` of each output.
    pub pushes: Vec<Vec<f64>>,
    /// `[rows][width]` of the gradient of each input; empty for one of indices.
    pub pull_gradients: Vec<Vec<f64>>,
    /// `[rows][columns]` of the gradient of each parameter.
    pub parameter_gradients: Vec<Vec<f64>>,
}

/// An input on the tape.
enum Pulled<'a> {
    Rows(Vec<Number>),
    Indices(&'a [i64]),
}

/// Runs a batch of graphs forward and backward. The net and the graphs are right: it panics where they are not.
pub fn run(declaration: &Declaration, graphs: &Description, ids: &[usize], inputs: Inputs) -> Outputs {
    let mut tape = Tape::default();
    let mut on_tape = |numbers: &Vec<f64>| numbers.iter().map(|number| tape.constant(*number)).collect::<Vec<Number>>();
    let parameters: Vec<_> = inputs.parameters.iter().map(&mut on_tape).collect();
    let pulls = inputs.pulls.iter().map(|pull| match pull {
        Pull::Rows(rows) => Pulled::Rows(on_tape(rows)),
        Pull::Indices(indices) => Pulled::Indices(indices),
    });
    let mut run = Run { declaration, parameters, pulls: pulls.collect(), pushes: vec![], tape };
    let mut first_row = 0;
    for id in ids {
        let graph = Graph::of(graphs, *id, first_row);
        run.graph(&graph);
        first_row += graph.row_count();
    }
    run.outputs(inputs.push_gradients)
}

/// One graph of a batch.
struct Graph<'a> {
    description: &'a Description<'a>,
    first_vertex: usize,
    vertices: usize,
    /// The graph's first row of the inputs, in the batch.
    first_row: usize,
}

impl<'a> Graph<'a> {
    fn of(description: &'a Description<'a>, id: usize, first_row: usize) -> Self {
        let [first_vertex, end] = [id, id + 1].map(|place| description.first_vertex[place] as usize);
        Self { description, first_vertex, vertices: end - first_vertex, first_row }
    }

    fn slots(&self, vertex: usize) -> &'a [i32] {
        let [first, end] = [0, 1].map(|next| self.description.first_child[self.first_vertex + vertex + next] as usize);
        &self.description.children[first..end]
    }

    fn kind(&self, vertex: usize, declaration: &Declaration) -> usize {
        if let Some(kinds) = self.description.kinds {
            return usize::from(kinds[self.first_vertex + vertex]);
        }
        let slots = self.slots(vertex).len();
        let find = |arity| declaration.functions.iter().position(|function| function.children == arity);
        find(Arity::Exactly(slots)).or_else(|| find(Arity::Any)).expect("a function takes the vertex")
    }

    /// The row that a vertex pulls, counted from the graph's first.
    fn row_of_graph(&self, vertex: usize) -> Option<usize> {
        match self.description.rows {
            Some(rows) => usize::try_from(rows[self.first_vertex + vertex]).ok(),
            None => Some(vertex),
        }
    }

    /// The row that it pulls, in the batch.
    fn row(&self, vertex: usize) -> Option<usize> {
        self.row_of_graph(vertex).map(|row| self.first_row + row)
    }

    fn row_count(&self) -> usize {
        (0..self.vertices).filter_map(|vertex| self.row_of_graph(vertex)).max().map_or(0, |last| last + 1)
    }
}

/// The states and outputs of a vertex, by their numbers.
#[derive(Clone, Default)]
struct Handed {
    states: Vec<Vec<Number>>,
    pushes: Vec<Option<Vec<Number>>>,
}

struct Run<'a> {
    declaration: &'a Declaration,
    parameters: Vec<Vec<Number>>,
    pulls: Vec<Pulled<'a>>,
    /// The outputs of each vertex of the batch.
    pushes: Vec<Vec<Option<Vec<Number>>>>,
    tape: Tape,
}

impl Run<'_> {
    fn graph(&mut self, graph: &Graph) {
        let mut done: Vec<Option<Handed>> = vec![None; graph.vertices];
        for root in 0..graph.vertices {
            // A vertex waits on the stack until its children are done.
            let mut open = vec![root];
            while let Some(vertex) = open.last().copied() {
                let children = graph.slots(vertex).iter().filter_map(|child| usize::try_from(*child).ok());
                let missing: Vec<_> = children.filter(|child| done[*child].is_none()).collect();
                if !missing.is_empty() {
                    open.extend(missing);
                    continue;
                }
                open.pop();
                if done[vertex].is_none() {
                    done[vertex] = Some(self.vertex(graph, vertex, &done));
                }
            }
        }
        self.pushes.extend(done.into_iter().map(|handed| handed.expect("every vertex is done").pushes));
    }

    /// The outputs, and the gradients of a loss with these gradients by them.
    fn outputs(&self, push_gradients: &[Vec<f64>]) -> Outputs {
        let (mut pushes, mut weighted) = (vec![], vec![]);
        for (output, width) in self.declaration.pushes.iter().enumerate() {
            let mut values = vec![0.0; self.pushes.len() * width];
            for (vertex, of_vertex) in self.pushes.iter().enumerate() {
                for (place, number) in of_vertex[output].iter().flatten().enumerate() {
                    values[vertex * width + place] = self.tape.value(*number);
                    weighted.push((*number, push_gradients[output][vertex * width + place]));
                }
            }
            pushes.push(values);
        }
        let derivatives = self.tape.derivatives(weighted);
        let by = |numbers: &Vec<Number>| numbers.iter().map(|number| derivatives.by(*number)).collect();
        let pull_gradients = self.pulls.iter().map(|pull| match pull {
            Pulled::Rows(rows) => by(rows),
            Pulled::Indices(_) => vec![],
        });
        Outputs {
            pushes,
            pull_gradients: pull_gradients.collect(),
            parameter_gradients: self.parameters.iter().map(by).collect(),
        }
    }
}
