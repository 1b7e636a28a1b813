//! A net, graphs and a batch of them, with random numbers.

use std::fmt::{self, Debug, Formatter};
use std::ops::Range;

use proptest::collection::vec;
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use ucudnn_vertex::batch::{Batch, Maxima, Policy};
use ucudnn_vertex::function::{Arity, Declaration, Net};
use ucudnn_vertex::graphs::{Description, Graphs, NONE};
use ucudnn_vertex::oracle;

use super::functions::{Choice, Choices, MOST_CHILDREN, TABLE_ROWS, declaration};

/// The arrays of graphs.
#[derive(Clone, Default)]
pub struct Arrays {
    pub first_vertex: Vec<i64>,
    pub first_child: Vec<i64>,
    pub children: Vec<i32>,
    pub kinds: Option<Vec<u8>>,
    pub rows: Option<Vec<i32>>,
}

impl Arrays {
    pub fn description(&self) -> Description<'_> {
        Description {
            first_vertex: &self.first_vertex,
            first_child: &self.first_child,
            children: &self.children,
            kinds: self.kinds.as_deref(),
            rows: self.rows.as_deref(),
        }
    }

    /// The slots of each vertex of a graph.
    pub fn slots(&self, graph: usize) -> Vec<&[i32]> {
        let slots = |vertex: i64| {
            let [first, end] = [0, 1].map(|next| self.first_child[vertex as usize + next] as usize);
            &self.children[first..end]
        };
        (self.first_vertex[graph]..self.first_vertex[graph + 1]).map(slots).collect()
    }
}

/// Numbers that decide on a vertex: its kind, its slots, and the row that it pulls.
type VertexChoices = (u8, Vec<u16>, u16);

/// Numbers that decide on graphs; of each graph also whether its vertices come before their children.
#[derive(Clone, Debug)]
pub struct GraphChoices {
    graphs: Vec<(bool, Vec<VertexChoices>)>,
    has_kinds: bool,
    has_rows: bool,
}

pub fn graphs(most: usize, vertices: Range<usize>) -> impl Strategy<Value = GraphChoices> {
    let vertex = (any::<u8>(), vec(any::<u16>(), 0..=MOST_CHILDREN), any::<u16>());
    let graphs = vec((any::<bool>(), vec(vertex, vertices)), 1..=most);
    (graphs, any::<bool>(), any::<bool>()).prop_map(|(graphs, has_kinds, has_rows)| GraphChoices {
        graphs,
        has_kinds,
        has_rows,
    })
}

/// Graphs whose vertices functions of these children take.
pub fn arrays(choices: &GraphChoices, arities: &[Arity]) -> Arrays {
    let mut made = Arrays { first_vertex: vec![0], first_child: vec![0], ..Arrays::default() };
    let (mut kinds, mut rows) = (vec![], vec![]);
    for (is_upside_down, vertices) in &choices.graphs {
        let count = vertices.len();
        let mut of_vertices = vec![];
        for (vertex, (kind, slots, row)) in vertices.iter().enumerate() {
            let kind = usize::from(*kind) % arities.len();
            let number = |child: usize| if *is_upside_down { count - 1 - child } else { child } as i32;
            let slot = |place: usize| slots.get(place).map_or(0, |slot| usize::from(*slot));
            let slots: Vec<i32> = match arities[kind] {
                Arity::Any if vertex == 0 => vec![],
                Arity::Any => (0..slots.len()).map(|place| number(slot(place) % vertex)).collect(),
                // As often as a child, none is there.
                Arity::Exactly(count) => (0..count)
                    .map(|place| match slot(place) % (vertex + 1) {
                        0 => NONE,
                        child => number(child - 1),
                    })
                    .collect(),
            };
            of_vertices.push((kind as u8, slots, i32::from(*row) % (count as i32 + 1) - 1));
        }
        if *is_upside_down {
            of_vertices.reverse();
        }
        for (kind, slots, row) in of_vertices {
            made.children.extend(slots);
            made.first_child.push(made.children.len() as i64);
            kinds.push(kind);
            rows.push(row);
        }
        made.first_vertex.push(kinds.len() as i64);
    }
    made.kinds = choices.has_kinds.then_some(kinds);
    made.rows = choices.has_rows.then_some(rows);
    made
}

/// A net and a batch.
#[derive(Clone)]
pub struct Case {
    pub declaration: Declaration,
    pub graphs: Arrays,
    pub ids: Vec<i64>,
    /// The seed of the random numbers.
    pub seed: u64,
}

impl Debug for Case {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        write!(to, "seed {}, graphs {:?} of\n{}", self.seed, self.ids, self.declaration)?;
        for graph in 0..self.graphs.first_vertex.len() - 1 {
            writeln!(to, "graph {graph}: {:?}", self.graphs.slots(graph))?;
        }
        write!(to, "kinds {:?}, rows {:?}", self.graphs.kinds, self.graphs.rows)
    }
}

pub fn cases() -> impl Strategy<Value = Case> {
    let operation = || any::<Choice>();
    let function = (any::<u8>(), vec(operation(), 0..25), vec(operation(), 5));
    let net = (vec(any::<u8>(), 0..3), vec(any::<u8>(), 1..4), vec(any::<u8>(), 1..3), vec(function, 1..=3));
    let net = net.prop_map(|(states, pulls, pushes, functions)| Choices { states, pulls, pushes, functions });
    (net, graphs(3, 1..9), vec(any::<u8>(), 1..5), any::<u64>()).prop_map(|(net, graphs, ids, seed)| {
        let declaration = declaration(&net);
        let arities: Vec<_> = declaration.functions.iter().map(|function| function.children).collect();
        let graphs = arrays(&graphs, &arities);
        let count = graphs.first_vertex.len() as i64 - 1;
        Case { declaration, graphs, ids: ids.iter().map(|id| i64::from(*id) % count).collect(), seed }
    })
}

/// A tree with empty slots, and a function whose operations make no finite numbers of an empty slot's, which
/// are zeros. Children's are at least 1/2.
pub fn not_finite_in_empty_slots() -> Case {
    let declaration = "
        states 3
        parameters 3x3 3
        pulls 3
        pushes 3
        function 2:
        %0 = pull 0
        %1 = children 0
        %2 = log %1
        %3 = matmul P0, %2
        %4 = power %1, -1.5
        %5 = div %3, %1
        %6 = gain P1, %4
        %7 = add %5, %6
        %8 = shift %1, -0.4
        %9 = sqrt %8
        %10 = minimum %9, %0
        %11 = maximum %10, %3
        %12 = scale %1, -2000.0
        %13 = shift %12, 1000.0
        %14 = exp %13
        %15 = matmul P0, %14
        %16 = matmul P0, %9
        %17 = add %7, %11
        %18 = add %17, %15
        %19 = add %18, %16
        %20 = sumChildren %19
        %21 = sigmoid %20
        %22 = shift %21, 0.5
        scatter 0, %22
        push 0, %20";
    let children = vec![NONE, NONE, NONE, NONE, 0, NONE, 2, 1, NONE, 3];
    let graphs = Arrays {
        first_vertex: vec![0, 5],
        first_child: (0..=5).map(|vertex| 2 * vertex).collect(),
        children,
        ..Arrays::default()
    };
    Case { declaration: declaration.parse().unwrap(), graphs, ids: vec![0, 0], seed: 1 }
}

/// The numbers of a case.
pub struct Numbers {
    pub parameters: Vec<Vec<f64>>,
    pub pulls: Vec<oracle::Pull>,
    pub push_gradients: Vec<Vec<f64>>,
}

impl Case {
    pub fn batch(&self, net: &Net, policy: Policy) -> Batch {
        let graphs = Graphs::new(&self.graphs.description()).unwrap();
        let maxima = Maxima { graphs: 1000, vertices: 5000, children: 20_000, levels: 1000 };
        let mut batch = Batch::new(maxima, net, policy).unwrap();
        batch.set(net, &graphs, &self.ids).unwrap();
        batch
    }

    pub fn numbers(&self, batch: &Batch) -> Numbers {
        let mut rng = StdRng::seed_from_u64(self.seed);
        let declaration = &self.declaration;
        let rows = batch.pulled_rows();
        let pull = |rng: &mut StdRng, width: usize| match width {
            0 => oracle::Pull::Indices((0..rows).map(|_| rng.random_range(0..TABLE_ROWS as i64)).collect()),
            width => oracle::Pull::Rows(random(rng, width * rows)),
        };
        Numbers {
            parameters: declaration.parameters.iter().map(|size| random(&mut rng, size.elements())).collect(),
            pulls: declaration.pulls.iter().map(|width| pull(&mut rng, *width)).collect(),
            push_gradients: declaration.pushes.iter().map(|width| random(&mut rng, width * batch.vertices())).collect(),
        }
    }
}

pub fn random(rng: &mut StdRng, count: usize) -> Vec<f64> {
    (0..count).map(|_| rng.random_range(-1.0..1.0)).collect()
}
