//! The element-wise operations of a pass: code for one element, or for four at once, in straight lines.
//!
//! Pieces of one width share a loop, and compute common values once.

use std::collections::{HashMap, HashSet};

use vertex::function::Op;
use vertex::passes::{Frame, Place, Span, Step};

use super::pieces::{Piece, Pieces, Spans, cut_to, part_of, pieces, stores, written};
use super::{GraphArray, InMemory, Pointer, Text};

/// The most reads and stores of code for four elements at once: each has four registers.
const MOST_OF_FOUR: usize = 24;

/// Writes the code of a pass. Returns the turns of its widest loop, for each row.
pub fn emit(text: &mut Text, steps: &[Step], is_of_children: bool) -> usize {
    let spans = Spans::new(steps);
    let mut pieces = pieces(steps, &spans);
    if let Some(units) = text.units {
        match cut_to(&pieces, units) {
            Some(cut) => pieces = Pieces::from([(units, cut)]),
            None => text.is_foreign = true,
        }
    }
    let mut turns = 1;
    for (&width, pieces) in &pieces {
        if text.by_fours && by_fours(text, &spans, pieces, is_of_children, width) {
            turns = turns.max(width / 4);
            continue;
        }
        text.open_elements(is_of_children, width);
        write_line(text, &spans, pieces, is_of_children, Numbers::OfElement);
        text.close_elements(width);
        turns = turns.max(width);
    }
    turns
}

/// Writes the loop for pieces four elements at once: it finds the numbers of a row once for the four, and its reads are wide.
/// Returns false, and writes no loop, if four neighbours do not come about alike.
fn by_fours(text: &mut Text, spans: &Spans, pieces: &[Piece], is_of_children: bool, width: usize) -> bool {
    if !width.is_multiple_of(4) {
        return false;
    }
    let mut code = text.inner();
    let line = write_line(&mut code, spans, pieces, is_of_children, Numbers::OfFour);
    text.pointers = std::mem::take(&mut code.pointers);
    let is_fit = !line.splits_fours && line.reads.len() + line.stores.len() <= MOST_OF_FOUR;
    if is_fit {
        text.open_fours(is_of_children, width, line.arrays);
        text.body.push_str(&code.body);
        text.line("});");
    }
    is_fit
}

/// Writes what a loop does for pieces of one width.
fn write_line<'a>(
    text: &mut Text,
    spans: &'a Spans<'a>,
    pieces: &[Piece],
    is_of_children: bool,
    numbers: Numbers,
) -> Line<'a> {
    text.numbers(is_of_children);
    text.line("(void)row; (void)of_kind;");
    let mut line = Line::new(spans, is_of_children);
    line.numbers = numbers;
    for piece in pieces {
        line.write(text, piece);
    }
    line.finish(text);
    line
}

/// A number of the scratch memory, in the code for element e of a piece.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Number {
    /// Its place for e = 0.
    place: usize,
    /// It is the place plus e; else the same for all.
    varies: bool,
}

/// A read of memory that comes before all computations.
struct Read {
    from: InMemory,
    /// Zero is read in its place where this holds.
    unless: Option<String>,
    /// Each element has its own number.
    varies: bool,
}

/// Where the reads of the code for an element leave their numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Numbers {
    /// In variables.
    OfElement,
    /// In variables for four elements: the code of element `k` of these computes.
    OfFour,
    /// In an array `r` that is filled elsewhere.
    Ahead,
}

/// The code for an element of the pieces of one width.
pub struct Line<'a> {
    pub spans: &'a Spans<'a>,
    is_of_children: bool,
    /// A place whose elements the code has in variables: `product_0` and so on.
    pub products: Option<Place>,
    /// The first elements of the place that these variables hold, for e = 0.
    pub shifts: Vec<usize>,
    /// The code needs an element of the place that does not go along with e.
    pub needs_others: bool,
    /// A place that the block has in shared memory too.
    pub shared: Option<Place>,
    /// A place whose elements go to `own` too, to be published.
    pub published: Option<Place>,
    /// What a thread does for an element, in this order: numbers of the row, reads, computations, and stores. A read would
    /// wait for a store that may be to the same memory, and for a loop before it: so all are on their way together.
    of_row: Vec<String>,
    reads: Vec<Read>,
    /// Of four elements: what adds the parts of further parents, which it reads.
    sums: Vec<String>,
    lines: Vec<String>,
    stores: Vec<String>,
    /// Where reads leave their numbers.
    pub numbers: Numbers,
    /// Steps of other threads of the block, between which and the reads no barrier stands: what they store is read later.
    pub beside: &'a [Step],
    /// The arrays that are read or written along the elements.
    arrays: Vec<Pointer>,
    /// Four neighbours of such an array may begin elsewhere than at a multiple of four.
    splits_fours: bool,
    /// The variables that hold numbers.
    known: HashMap<Number, String>,
    /// The variables that were declared, besides those of numbers.
    said: HashSet<String>,
    values: usize,
}

impl<'a> Line<'a> {
    /// Begins the code for a row, or an edge.
    pub fn new(spans: &'a Spans<'a>, is_of_children: bool) -> Self {
        Self {
            spans,
            is_of_children,
            products: None,
            shifts: vec![],
            needs_others: false,
            shared: None,
            published: None,
            of_row: vec![],
            reads: vec![],
            sums: vec![],
            lines: vec![],
            stores: vec![],
            numbers: Numbers::OfElement,
            beside: &[],
            arrays: vec![],
            splits_fours: false,
            known: HashMap::new(),
            said: HashSet::new(),
            values: 0,
        }
    }

    /// Writes the code of a piece.
    pub fn write(&mut self, text: &mut Text, piece: &Piece) {
        let from = written(piece.step).expect("it writes");
        let value = self.value(text, Number { place: from.first + piece.first, varies: true });
        text.is_foreign |= text.units.is_some_and(|units| !piece.first.is_multiple_of(units));
        let (first, width) = (piece.first, from.width);
        match *piece.step {
            Step::Store { to, .. } if self.shared == Some(to) => {
                let element = self.of_frame(text, to, (first, true)).itself();
                let name = format!("s{}", self.values);
                self.values += 1;
                self.stores.push(format!("const Element {name} = to_element({value});"));
                self.stores.push(format!("x[in_tile * {width} + {}] = to_float({name});", shifted(first, true)));
                self.stores.push(format!("if (blockIdx.x == 0) {element} = {name};"));
            }
            Step::Store { to, .. } if self.published == Some(to) => {
                let assignment = self.of_frame(text, to, (first, true)).set(&value);
                let place = first / text.units.unwrap_or(1);
                self.stores.push(format!("own[{place} * OWN + u] = {assignment};"));
            }
            Step::Store { to, .. } => {
                let element = self.of_frame(text, to, (first, true));
                self.store(&element, &value, "", false);
            }
            Step::Hand { op, arguments: [one, two], .. } => {
                let (pointer, row, is_sum) = match op {
                    Op::Scatter => (Pointer::State(one), "row".to_owned(), false),
                    Op::Push => {
                        let vertices = text.pointer(Pointer::Graph(GraphArray::Vertex));
                        (Pointer::Push(one), format!("{vertices}[row]"), false)
                    }
                    Op::PullGradient => (Pointer::PullGradient(one), "row".to_owned(), false),
                    Op::Give => {
                        let edge = format!("({} + {one})", text.first_edge());
                        (Pointer::Given(two), edge, text.given_twice & 1 << two != 0)
                    }
                    Op::GiveChildren => (Pointer::Given(one), "edge".to_owned(), text.given_twice & 1 << one != 0),
                    _ => unreachable!("{} hands nothing on", op.name()),
                };
                let number = self.in_memory(text, pointer, &row, width, (first, true));
                let is_wanted = match pointer {
                    Pointer::Push(_) | Pointer::PullGradient(_) => format!("if ({}) ", number.pointer),
                    _ => String::new(),
                };
                self.store(&number, &value, &is_wanted, is_sum);
            }
            _ => unreachable!("other steps write to the scratch memory"),
        }
    }

    /// Stores a value, or adds it to what is there. `is_wanted` is code that asks whether to.
    fn store(&mut self, to: &InMemory, value: &str, is_wanted: &str, is_sum: bool) {
        let code = match (self.numbers, is_sum) {
            (Numbers::OfFour, _) => {
                let name = format!("o{}", self.stores.len());
                self.lines.push(format!("{name}[k] = {value};"));
                format!("{}_four({}, {name})", if is_sum { "add" } else { "set" }, to.address())
            }
            (_, false) => to.set(value),
            (_, true) => format!("{} += {value}", to.itself()),
        };
        let is_mine = self.if_mine();
        self.stores.push(format!("{is_mine}{is_wanted}{code};"));
    }

    /// A number of a row in memory, which is `local` elements behind the code's element, or the element `local` itself.
    fn in_memory(
        &mut self,
        text: &mut Text,
        pointer: Pointer,
        row: &str,
        width: usize,
        (local, varies): (usize, bool),
    ) -> InMemory {
        let number = text.number(pointer, row, width, &shifted(local, varies));
        self.note_array(pointer, width, (local, varies));
        number
    }

    /// The same in a place.
    fn of_frame(&mut self, text: &mut Text, place: Place, (local, varies): (usize, bool)) -> InMemory {
        let number = text.element(place, self.is_of_children, &shifted(local, varies));
        self.note_array(Pointer::Frame(place), place.width, (local, varies));
        number
    }

    /// Notes an array whose numbers go along with the elements, in rows of this width.
    fn note_array(&mut self, pointer: Pointer, width: usize, (local, varies): (usize, bool)) {
        if varies {
            self.splits_fours |= !width.is_multiple_of(4) || !local.is_multiple_of(4);
            self.arrays.push(pointer);
        }
    }

    /// The numbers that are read first.
    pub fn read_count(&self) -> usize {
        self.reads.len()
    }

    /// Ends the code of all pieces, for element `e`, or for the four from `e` on.
    pub fn finish(&mut self, text: &mut Text) {
        self.of_row.iter().for_each(|line| text.line(line));
        if self.numbers != Numbers::Ahead {
            self.write_reads(text);
        }
        if self.numbers == Numbers::OfFour {
            self.sums.iter().for_each(|line| text.line(line));
            (0..self.stores.len()).for_each(|number| text.line(&format!("Four o{number};")));
            text.line("for_each_of_four([&](int k) {");
            self.lines.iter().for_each(|line| text.line(line));
            text.line("});");
            self.stores.iter().for_each(|line| text.line(line));
            return;
        }
        self.lines.iter().chain(&self.stores).for_each(|line| text.line(line));
    }

    /// The reads alone, which go ahead.
    pub fn write_ahead(&self, text: &mut Text) {
        self.of_row.iter().for_each(|line| text.line(line));
        self.write_reads(text);
    }

    fn write_reads(&self, text: &mut Text) {
        for (number, Read { from, unless, varies }) in self.reads.iter().enumerate() {
            let of_four = self.numbers == Numbers::OfFour && *varies;
            let (code, zero) = match of_four {
                true => (format!("four_at({})", from.address()), "Four{}"),
                false => (from.in_float(), "0.0f"),
            };
            let code = unless.as_ref().map_or(code.clone(), |unless| format!("{unless} ? {zero} : {code}"));
            let declared = match self.numbers {
                Numbers::Ahead => format!("r[{number}]"),
                _ if of_four => format!("const Four r{number}"),
                _ => format!("const float r{number}"),
            };
            text.line(&format!("{declared} = {code};"));
        }
    }

    /// Reads a number before anything is computed. Returns its name.
    fn read_first(&mut self, read: Read) -> String {
        let number = self.reads.len();
        let name = match self.numbers {
            Numbers::Ahead => format!("r[{number}]"),
            Numbers::OfFour if read.varies => format!("r{number}[k]"),
            _ => format!("r{number}"),
        };
        self.reads.push(read);
        name
    }

    /// Several blocks compute the rows of a pass that fills shared memory; one of them writes.
    fn if_mine(&self) -> &'static str {
        if self.shared.is_some() { "if (blockIdx.x == 0) " } else { "" }
    }

    /// The name of the variable that holds a number.
    fn value(&mut self, text: &mut Text, number: Number) -> String {
        if let Some(known) = self.known.get(&number) {
            return known.clone();
        }
        let (first, _, step) = self.spans.of(number.place);
        let local = number.place - first;
        let index = (local, number.varies);
        if is_of_the_path(step) {
            text.is_foreign |= text.units.is_some_and(|units| !number.varies || !local.is_multiple_of(units));
        }
        let input = |line: &mut Self, text: &mut Text, input: Span| {
            let is_only = part_of(input, step, local, 1).is_none();
            let place = if is_only { input.first } else { input.first + local };
            line.value(text, Number { place, varies: number.varies && !is_only })
        };
        let code = match *step {
            Step::Load { from, .. } if self.products == Some(from) => {
                self.needs_others |= !number.varies;
                let place = self.shifts.iter().position(|shift| *shift == local).unwrap_or_else(|| {
                    self.shifts.push(local);
                    self.shifts.len() - 1
                });
                format!("product_{place}")
            }
            Step::Load { from, .. } => {
                let read = Read { from: self.of_frame(text, from, index), unless: None, varies: number.varies };
                if stores(self.beside, from) { read.from.in_float() } else { self.read_first(read) }
            }
            Step::Read { op: Op::Take, arguments: [state, _], to } => self.take(text, state, to.width, index),
            Step::Read { op: Op::Zeros, .. } => "0.0f".to_owned(),
            Step::Read { op, arguments, to } => {
                let (from, unless) = self.read(text, op, arguments, to.width, index);
                self.read_first(Read { from, unless, varies: number.varies })
            }
            Step::Unary { op, x, constant, .. } => {
                let x = input(self, text, x);
                let code = self.unary(text, op, &x, constant);
                self.or_zero_in_an_empty_slot(text, op, code)
            }
            Step::Binary { op, x, y, .. } => {
                let (x, y) = (input(self, text, x), input(self, text, y));
                self.or_zero_in_an_empty_slot(text, op, binary(op, &x, &y))
            }
            Step::OfVector { op, parameter, x, to } => {
                let (x, pointer) = (input(self, text, x), text.pointer(Pointer::Parameter(parameter)));
                let sign = if op == Op::Gain { '*' } else { '+' };
                let from = InMemory { pointer, place: shifted(local, number.varies), is_float: false };
                self.note_array(Pointer::Parameter(parameter), to.width, index);
                let y = match self.numbers {
                    Numbers::OfFour => self.read_first(Read { from, unless: None, varies: number.varies }),
                    _ => from.in_float(),
                };
                format!("{x} {sign} {y}")
            }
            Step::Copy { from, .. } => {
                let copied = input(self, text, from);
                self.known.insert(number, copied.clone());
                return copied;
            }
            Step::Store { .. } | Step::Hand { .. } => unreachable!("they make no number"),
        };
        let name = format!("v{}", self.values);
        self.values += 1;
        self.lines.push(format!("const float {name} = {code};"));
        self.known.insert(number, name.clone());
        name
    }

    /// Declares a variable once.
    fn say(&mut self, text: &mut Text, name: &str, declaration: impl FnOnce(&mut Text) -> String) {
        if self.said.insert(name.to_owned()) {
            let declaration = declaration(text);
            self.of_row.push(declaration);
        }
    }

    fn pulled(&mut self, text: &mut Text) {
        self.say(text, "pulled", |text| {
            let pulled = text.pointer(Pointer::Graph(GraphArray::Pulled));
            format!("const int pulled = {pulled}[row];")
        });
    }

    fn first_edge(&mut self, text: &mut Text) {
        self.say(text, "first_edge", |text| format!("const int first_edge = {};", text.first_edge()));
    }

    fn child(&mut self, text: &mut Text) {
        self.say(text, "child", |text| {
            let children = text.pointer(Pointer::Graph(GraphArray::Child));
            format!("const int child = {children}[edge];")
        });
    }

    /// Where an operation reads a number, and what makes it zero.
    fn read(
        &mut self,
        text: &mut Text,
        op: Op,
        [first, second]: [usize; 2],
        width: usize,
        index: (usize, bool),
    ) -> (InMemory, Option<String>) {
        let (pointer, row, unless) = match op {
            Op::Pull => {
                self.pulled(text);
                (Pointer::Pull(first), "pulled".to_owned(), Some("pulled < 0".to_owned()))
            }
            Op::Lookup => {
                self.pulled(text);
                let (name, rows) = (format!("index_{first}_{second}"), text.sizes[first].rows);
                self.say(text, &name, |text| {
                    let indices = text.pointer(Pointer::Indices(second));
                    format!("const int {name} = pulled < 0 ? -1 : index_in({rows}, {indices}[pulled]);")
                });
                let unless = format!("{name} < 0");
                (Pointer::Parameter(first), name, Some(unless))
            }
            Op::Gather => {
                self.first_edge(text);
                let name = format!("child_{first}");
                self.say(text, &name, |text| {
                    let children = text.pointer(Pointer::Graph(GraphArray::Child));
                    format!("const int {name} = {children}[first_edge + {first}];")
                });
                let unless = format!("{name} < 0");
                (Pointer::State(second), name, Some(unless))
            }
            Op::Children => {
                self.child(text);
                (Pointer::State(first), "child".to_owned(), Some("child < 0".to_owned()))
            }
            Op::Own => (Pointer::State(first), "row".to_owned(), None),
            Op::Kept | Op::KeptOfChildren => {
                let is_of_children = op == Op::KeptOfChildren;
                let place = Place { frame: Frame::Kept, is_of_children, offset: first, width };
                return (self.of_frame(text, place, index), None);
            }
            Op::PushGradient => {
                let vertices = text.pointer(Pointer::Graph(GraphArray::Vertex));
                let unless = format!("!{}", text.pointer(Pointer::PushGradient(first)));
                (Pointer::PushGradient(first), format!("{vertices}[row]"), Some(unless))
            }
            _ => unreachable!("{} reads no memory", op.name()),
        };
        (self.in_memory(text, pointer, &row, width, index), unless)
    }

    /// The sum of what a vertex's parents gave, in their order. The first parent's part is read with all others.
    fn take(&mut self, text: &mut Text, state: usize, width: usize, index: (usize, bool)) -> String {
        let (parents_of, parents) =
            (text.pointer(Pointer::Graph(GraphArray::ParentsOf)), text.pointer(Pointer::Graph(GraphArray::Parents)));
        self.say(text, "parents", |_| {
            format!("const int first_parent = {parents_of}[2 * row], parents_end = {parents_of}[2 * row + 1];")
        });
        self.say(text, "parent_edge", |_| {
            format!("const int parent_edge = first_parent < parents_end ? {parents}[first_parent] : -1;")
        });
        let mut given = |line: &mut Self, edge: &str| line.in_memory(text, Pointer::Given(state), edge, width, index);
        let (from, next) = (given(self, "parent_edge"), given(self, &format!("{parents}[parent]")));
        let read = self.reads.len();
        let first = self.read_first(Read { from, unless: Some("parent_edge < 0".to_owned()), varies: index.1 });
        let name = format!("t{}", self.values);
        self.values += 1;
        let others = "for (int parent = first_parent + 1; parent < parents_end; ++parent)";
        if self.numbers == Numbers::OfFour && index.1 {
            self.sums.push(format!("Four {name} = r{read};"));
            // Most vertices have one parent: reads for several at once would take registers.
            self.sums.push("#pragma unroll 1".to_owned());
            self.sums.push(format!("{others} {name} += four_at({});", next.address()));
            return format!("{name}[k]");
        }
        self.lines.push(format!("float {name} = {first};"));
        self.lines.push(format!("{others} {name} += {};", next.itself()));
        name
    }

    /// See [`Op::may_not_be_finite`].
    fn or_zero_in_an_empty_slot(&mut self, text: &mut Text, op: Op, code: String) -> String {
        if !self.is_of_children || !op.may_not_be_finite() {
            return code;
        }
        self.child(text);
        format!("child < 0 ? 0.0f : {code}")
    }

    fn unary(&mut self, text: &mut Text, op: Op, x: &str, constant: f64) -> String {
        if matches!(op, Op::Spread | Op::MeanGradient) {
            self.child(text);
            self.say(text, "share", |text| {
                let children = text.pointer(Pointer::Graph(GraphArray::Children));
                format!("const float share = child < 0 ? 0.0f : 1.0f / float({children}[row]);")
            });
        }
        match op {
            Op::Scale => format!("{x} * {}", literal(constant)),
            Op::Shift => format!("{x} + {}", literal(constant)),
            Op::Sigmoid => format!("logistic({x})"),
            Op::Tanh => format!("hyperbolic_tangent({x})"),
            Op::Relu => format!("{x} < 0 ? 0.0f : {x}"),
            Op::Exp => format!("expf({x})"),
            Op::Log => format!("logf({x})"),
            Op::Sqrt => format!("sqrtf({x})"),
            Op::Power if constant == -1.0 => format!("1 / {x}"),
            Op::Power => format!("powf({x}, {})", literal(constant)),
            Op::Spread => format!("share == 0 ? 0.0f : {x}"),
            Op::MeanGradient => format!("{x} * share"),
            Op::Widen => x.to_owned(),
            _ => unreachable!("{} is not element-wise", op.name()),
        }
    }
}

fn binary(op: Op, x: &str, y: &str) -> String {
    match op {
        Op::Add => format!("{x} + {y}"),
        Op::Sub => format!("{x} - {y}"),
        Op::Mul => format!("{x} * {y}"),
        Op::Div => format!("{x} / {y}"),
        Op::Maximum => format!("{x} > {y} || isnan({x}) ? {x} : {y}"),
        Op::Minimum => format!("{x} < {y} || isnan({x}) ? {x} : {y}"),
        Op::SigmoidGradient => format!("{y} * {x} * (1 - {x})"),
        Op::TanhGradient => format!("{y} * (1 - {x} * {x})"),
        Op::ReluGradient => format!("{x} > 0 ? {y} : 0.0f"),
        Op::SqrtGradient => format!("{y} / ({x} + {x})"),
        Op::MaximumShare => format!("{x} > {y} ? 1.0f : {x} == {y} ? 0.5f : 0.0f"),
        _ => unreachable!("{} is not element-wise", op.name()),
    }
}

/// A step reads what the path makes.
fn is_of_the_path(step: &Step) -> bool {
    match step {
        Step::Load { .. } => true,
        Step::Read { op, .. } => !matches!(op, Op::Pull | Op::Lookup | Op::PushGradient | Op::Zeros),
        _ => false,
    }
}

/// The code for an index.
fn shifted(first: usize, varies: bool) -> String {
    match (first, varies) {
        (0, true) => "e".to_owned(),
        (_, true) => format!("(e + {first})"),
        (_, false) => first.to_string(),
    }
}

/// The code for a constant.
fn literal(constant: f64) -> String {
    let nearest = constant as f32;
    if nearest.is_finite() {
        format!("{nearest:e}f")
    } else {
        format!("({}1.0f / 0.0f)", if nearest < 0.0 { "-" } else { "" })
    }
}
