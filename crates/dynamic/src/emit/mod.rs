//! Makes CUDA C++ from the passes of a net: a kernel for each pass that no product covers. All operations of a pass that
//! meet element by element are one straight line of code for each element (Cavs, section 3.5: fusion).

mod fused;
mod groups;
mod persistent;
mod pieces;
mod reductions;
mod rows;

pub use fused::{Shape, TILE_ROWS};
pub use groups::{Kernel, WORDS_OF_RANGE, turns};
pub use persistent::{PATH_THREADS, Path, PathShape, Published, emit_path};

use std::fmt::Write;

use gpu::Element;
use gpu::jit::Source;
use vertex::function::{Op, ParameterSize};
use vertex::passes::{Frame, Pass, Passes, Place, Step, Work};
use vertex::stages::Stage;

use groups::Group;

/// The threads of a block.
pub const THREADS: u32 = 256;

/// The blocks for which a multiprocessor has registers. The compiler would make room for more by spilling some.
const MULTIPROCESSOR_BLOCKS: u32 = 2;

/// The most pointers of a kernel, with the ranges of its parts but the first: its parameters have 4 KiB.
pub const MOST_POINTERS: usize = 480;

/// Memory that a kernel reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pointer {
    /// A parameter.
    Parameter(usize),
    /// A parameter as it is, or transposed.
    Matrix(usize, bool),
    /// An input of rows.
    Pull(usize),
    /// An input of indices.
    Indices(usize),
    /// An output, or null.
    Push(usize),
    /// The gradient of an output, or null.
    PushGradient(usize),
    /// The gradients of an input by the batch's rows, or null.
    PullGradient(usize),
    /// A state.
    State(usize),
    /// The gradients of a state that are given along edges.
    Given(usize),
    /// A value in a frame of the kind.
    Frame(Place),
    /// An array of the batch.
    Graph(GraphArray),
    /// The packets of a product on the path.
    Packets(usize),
}

/// The arrays that describe a batch. Rows are sorted by blocks, edges likewise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GraphArray {
    /// The first edge of each row, and behind the last one the number of edges.
    FirstEdge,
    /// The row of the child at each edge, or -1.
    Child,
    /// The number of children of each row.
    Children,
    /// The first place in `Parents` of each row, and its end.
    ParentsOf,
    /// Edges to parents.
    Parents,
    /// The user's number of each row's vertex.
    Vertex,
    /// The row of the inputs that each row pulls, or -1.
    Pulled,
    /// The row of each edge's vertex.
    RowOfEdge,
    /// The place of each row among those of its kind.
    PlaceOfRow,
    /// The place of each edge among those of its kind.
    PlaceOfEdge,
    /// The end of each input row's part of `Readers`.
    ReadersEnd,
    /// Rows that pull.
    Readers,
    /// The rows of each kind.
    RowsByKind,
    /// The edges of each kind.
    EdgesByKind,
}

impl Pointer {
    /// The type of the memory that it points to, in C.
    fn c_type(self) -> &'static str {
        match self {
            Self::Parameter(_) | Self::Matrix(..) | Self::Pull(_) | Self::PushGradient(_) => "const Element *",
            Self::Push(_) | Self::State(_) => "Element *",
            Self::Indices(_) => "const long long *",
            Self::PullGradient(_) | Self::Given(_) | Self::Frame(_) if self.has_floats() => "float *",
            Self::PullGradient(_) | Self::Given(_) | Self::Frame(_) => "Element *",
            Self::Graph(_) => "const int *",
            Self::Packets(_) => "void *",
        }
    }

    /// Its memory has floats, whatever the type of tensors is.
    pub fn has_floats(self) -> bool {
        match self {
            Self::PullGradient(_) | Self::Given(_) => true,
            Self::Frame(place) => is_in_float(place.frame),
            _ => false,
        }
    }
}

/// What products and reductions make is in float, for the sums; all else is in the tensors' type.
pub fn is_in_float(frame: Frame) -> bool {
    matches!(frame, Frame::WholeOut | Frame::BlockOut)
}

/// The kernels of a pass.
#[derive(Clone, Debug, Default)]
pub struct Kernels {
    /// The pass alone; none for a product.
    pub own: Option<Kernel>,
    /// The same by threads that compute four elements at once, for many elements.
    pub fours: Option<Kernel>,
    /// The pass and the next ones, where they fit together, for few rows.
    pub fused: Option<Kernel>,
}

impl Kernels {
    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Kernel> {
        [&self.own, &self.fours, &self.fused].into_iter().flatten()
    }
}

/// The text of a kernel while it is made.
struct Text<'a> {
    /// The sizes of the net's parameters.
    sizes: &'a [ParameterSize],
    pointers: Vec<Pointer>,
    body: String,
    /// A bit for each state whose gradients vertices give to their children in two ways: both add up.
    given_twice: u64,
    /// On a path whose blocks own units: how many units there are.
    units: Option<usize>,
    /// Likewise: groups of blocks run parts of the batch.
    is_grouped: bool,
    /// Likewise: the slots of each vertex of the kind, if that is one number. Its rows and edges then follow each other.
    slots: Option<usize>,
    /// Such code takes, or makes, elements of units that are not its own.
    is_foreign: bool,
    /// Threads compute four elements at once, where four neighbours come about alike.
    by_fours: bool,
    /// The arrays of which they read and write four neighbours at once: there are none where they compute one.
    arrays_of_fours: Vec<Pointer>,
}

impl<'a> Text<'a> {
    /// Begins a kernel for a kind with these passes.
    fn new(sizes: &'a [ParameterSize], passes: &Passes) -> Self {
        let given_twice = given_twice(passes);
        Self {
            sizes,
            pointers: vec![],
            body: String::new(),
            given_twice,
            units: None,
            is_grouped: false,
            slots: None,
            is_foreign: false,
            by_fours: false,
            arrays_of_fours: vec![],
        }
    }

    /// Begins a part of the kernel, which takes over its pointers.
    fn inner(&mut self) -> Self {
        let pointers = std::mem::take(&mut self.pointers);
        Self { pointers, body: String::new(), is_foreign: false, arrays_of_fours: vec![], ..*self }
    }

    /// The name of a pointer in the kernel.
    fn pointer(&mut self, pointer: Pointer) -> String {
        let place = self.pointers.iter().position(|its| *its == pointer).unwrap_or_else(|| {
            self.pointers.push(pointer);
            self.pointers.len() - 1
        });
        format!("it.p{place}")
    }

    fn line(&mut self, line: &str) {
        self.body.push_str("        ");
        self.body.push_str(line);
        self.body.push('\n');
    }

    /// Opens the loop over the elements `e`, up to `width`, of each row or edge of the range. On a path, over those of the
    /// block's own units.
    fn open_elements(&mut self, is_of_children: bool, width: usize) {
        let count = count(is_of_children);
        match self.units {
            None => {
                self.line(&format!("for_all(unsigned({count}) * {width}, [&](unsigned number) {{"));
                self.line(&format!("const unsigned in_range = number / {width}; const int e = int(number % {width});"));
            }
            Some(units) if units == width => {
                self.line(&format!("for_own({count}, [&](unsigned in_range, int e) {{"));
            }
            Some(units) => {
                self.line(&format!("for_own({count}, [&](unsigned in_range, int unit) {{"));
                self.line(&format!("for (int e = unit; e < {width}; e += {units}) {{"));
            }
        }
    }

    /// Opens the loop over the fours of elements, from `e` on, of each row or edge of the range. Of each of these arrays, four
    /// neighbours are read or written at once.
    fn open_fours(&mut self, is_of_children: bool, width: usize, arrays: impl IntoIterator<Item = Pointer>) {
        let (count, fours) = (count(is_of_children), width / 4);
        self.line(&format!("for_all(unsigned({count}) * {fours}, [&](unsigned number) {{"));
        self.line(&format!("const unsigned in_range = number / {fours}; const int e = int(number % {fours}) * 4;"));
        self.arrays_of_fours.extend(arrays);
    }

    fn close_elements(&mut self, width: usize) {
        if self.units.is_some_and(|units| units != width) {
            self.line("}");
        }
        self.line("});");
    }

    /// The beginning of the code for each row or edge: its numbers, from `number_of_range`.
    fn numbers(&mut self, is_of_children: bool) {
        if is_of_children {
            self.line("const int edge = at.edges ? at.edges[in_range] : at.edge + int(in_range);");
            self.line("const int of_kind = at.edge_of_kind + int(in_range);");
            let row = self.pointer(Pointer::Graph(GraphArray::RowOfEdge));
            self.line(&format!("const int row = {row}[edge];"));
        } else {
            self.line("const int row = at.rows ? at.rows[in_range] : at.row + int(in_range);");
            self.line("const int of_kind = at.row_of_kind + int(in_range);");
        }
    }

    /// The first edge of a row.
    fn first_edge(&mut self) -> String {
        match self.slots {
            Some(slots) => format!("(at.edge + int(in_range) * {slots})"),
            None => format!("{}[row]", self.pointer(Pointer::Graph(GraphArray::FirstEdge))),
        }
    }

    /// The number of the row of a place's frame, in the code of a row or an edge.
    fn frame_row(&mut self, place: Place, is_of_children: bool) -> String {
        let of_kind = match is_of_children && !place.is_of_children {
            true => format!("{}[row]", self.pointer(Pointer::Graph(GraphArray::PlaceOfRow))),
            false => "of_kind".to_owned(),
        };
        if place.is_whole() { of_kind } else { format!("({of_kind} - {})", self.first_of_block(place.is_of_children)) }
    }

    /// The first row, or edge, of the kind whose values lie in the frames of one block. Groups are at different blocks at a
    /// time: there, these frames have all rows.
    fn first_of_block(&self, is_of_children: bool) -> &'static str {
        match (self.is_grouped, is_of_children) {
            (true, _) => "0",
            (false, false) => "at.row_of_kind",
            (false, true) => "at.edge_of_kind",
        }
    }

    /// An element of a place, in the code of a row or an edge.
    fn element(&mut self, place: Place, is_of_children: bool, index: &str) -> InMemory {
        let row = self.frame_row(place, is_of_children);
        self.number(Pointer::Frame(place), &row, place.width, index)
    }

    /// A number of a row in memory.
    fn number(&mut self, pointer: Pointer, row: &str, width: usize, index: &str) -> InMemory {
        let place = format!("{row} * {width} + {index}");
        InMemory { pointer: self.pointer(pointer), place, is_float: pointer.has_floats() }
    }
}

/// The rows or edges of the range.
fn count(is_of_children: bool) -> &'static str {
    if is_of_children { "at.edge_count" } else { "at.row_count" }
}

/// A number in memory, in the code of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
struct InMemory {
    /// The memory.
    pointer: String,
    /// The number's place there.
    place: String,
    /// It is a float, else an element.
    is_float: bool,
}

impl InMemory {
    /// The code for it.
    fn itself(&self) -> String {
        format!("{}[{}]", self.pointer, self.place)
    }

    /// The code for where it lies.
    fn address(&self) -> String {
        format!("{} + {}", self.pointer, self.place)
    }

    /// The code for it as a float.
    fn in_float(&self) -> String {
        if self.is_float { self.itself() } else { format!("to_float({})", self.itself()) }
    }

    /// The code that sets it to a float.
    fn set(&self, value: &str) -> String {
        let is_itself = if self.is_float { value.to_owned() } else { format!("to_element({value})") };
        format!("{} = {is_itself}", self.itself())
    }
}

/// The kernels of each pass, and their source.
pub struct Emitted {
    /// For each way, kind and stage: those of each pass.
    pub kernels: Vec<Vec<[Vec<Kernels>; 3]>>,
    /// The text.
    pub source: Source,
}

/// Makes the kernels of the passes forward and backward of all kinds, for a net with parameters of these sizes.
pub fn emit(ways: &[&[Passes]], sizes: &[ParameterSize], element: Element) -> Emitted {
    let mut text = format!(
        "#define THREADS {THREADS}\n#define MULTIPROCESSOR_BLOCKS {MULTIPROCESSOR_BLOCKS}\n\
         #include \"dynamic/level.cuh\"\n#include \"dynamic/fours.cuh\"\n"
    );
    let kernels = ways.iter().enumerate().map(|(way, kinds)| {
        let of_stage = |passes: &Vec<Pass>| vec![Kernels::default(); passes.len()];
        let mut kernels: Vec<_> = kinds.iter().map(|passes| passes.stages.each_ref().map(of_stage)).collect();
        for stage in Stage::ALL {
            for (turn, members) in turns(kinds, stage).into_iter().enumerate() {
                let name =
                    format!("{}_{}_{turn}", ["forward", "backward"][way], ["eager", "path", "lazy"][stage as usize]);
                let [mut own, mut fours, mut fused] =
                    ["", "_fours", "_fused"].map(|ending| Group::new(format!("{name}{ending}")));
                let mut of_fours = vec![];
                for (kind, place) in members {
                    let (all, passes) = (&kinds[kind], &kinds[kind].stages[stage as usize][place..]);
                    let mut code = Text::new(sizes, all);
                    if let Some(shape) = fused::emit(&mut code, all, passes) {
                        fused.add(&mut text, (kind, place), &code, (false, 1), Some(shape));
                    }
                    let mut code = Text::new(sizes, all);
                    if let Some(how) = emit_pass(&mut code, &passes[0]) {
                        own.add(&mut text, (kind, place), &code, how, None);
                    }
                    let mut code = Text { by_fours: true, ..Text::new(sizes, all) };
                    if let Some(how) = emit_pass(&mut code, &passes[0]) {
                        of_fours.push(((kind, place), code, how));
                    }
                }
                if of_fours.iter().any(|(_, code, _)| !code.arrays_of_fours.is_empty()) {
                    of_fours.iter().for_each(|(pass, code, how)| fours.add(&mut text, *pass, code, *how, None));
                }
                for ((kind, place), kernel) in own.finish(&mut text) {
                    kernels[kind][stage as usize][place].own = Some(kernel);
                }
                for ((kind, place), kernel) in fours.finish(&mut text) {
                    kernels[kind][stage as usize][place].fours = Some(kernel);
                }
                for ((kind, place), kernel) in fused.finish(&mut text) {
                    kernels[kind][stage as usize][place].fused = Some(kernel);
                }
            }
        }
        kernels
    });
    let kernels = kernels.collect();
    let headers = kernels::dynamic::NET.headers.iter().map(|&(name, text)| (name.into(), text.into())).collect();
    let source =
        Source { name: "vertex_net.cu".into(), text: text.into(), headers, options: vec![element.option().into()] };
    Emitted { kernels, source }
}

/// Writes the code of a pass. Returns whether it runs for edges, and the threads for a row. `None` for a product.
fn emit_pass(text: &mut Text, pass: &Pass) -> Option<(bool, usize)> {
    match &pass.work {
        Work::Rows { is_of_children, steps, .. } => Some((*is_of_children, rows::emit(text, steps, *is_of_children))),
        Work::Reduce { op, x, y } => Some(reductions::emit(text, *op, *x, *y)),
        Work::MaxGradient { x, dy, dx } => Some(reductions::emit_max_gradient(text, *x, *dy, *dx)),
        _ => None,
    }
}

/// The members of a struct of pointers.
fn members(pointers: &[Pointer]) -> String {
    pointers.iter().enumerate().fold(String::new(), |mut members, (place, pointer)| {
        let _ = write!(members, " {}p{place};", pointer.c_type());
        members
    })
}

/// The states of which both single children and all children are given gradients.
fn given_twice(passes: &Passes) -> u64 {
    let steps = passes.all().flat_map(|pass| match &pass.work {
        Work::Rows { steps, .. } => &steps[..],
        _ => &[],
    });
    let (mut single, mut all) = (0, 0);
    for step in steps {
        match step {
            Step::Hand { op: Op::Give, arguments: [_, state], .. } => single |= 1 << state,
            Step::Hand { op: Op::GiveChildren, arguments: [state, _], .. } => all |= 1 << state,
            _ => {}
        }
    }
    single & all
}
