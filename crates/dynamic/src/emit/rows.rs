//! The element-wise operations of a pass: code for one element, in straight lines.
//!
//! Pieces of one width share a loop, and compute common values once.

use std::collections::{HashMap, HashSet};

use vertex::function::Op;
use vertex::passes::{Frame, Place, Span, Step};

use super::pieces::{Piece, Pieces, Spans, cut_to, part_of, pieces, stores, written};
use super::{GraphArray, Pointer, Text, in_float, stored};

/// Writes the code of a pass. Returns the elements of its widest loop.
pub fn emit(text: &mut Text, steps: &[Step], is_of_children: bool) -> usize {
    let spans = Spans::new(steps);
    let mut pieces = pieces(steps, &spans);
    if let Some(units) = text.units {
        match cut_to(&pieces, units) {
            Some(cut) => pieces = Pieces::from([(units, cut)]),
            None => text.is_foreign = true,
        }
    }
    for (width, pieces) in &pieces {
        text.open_elements(is_of_children, *width);
        text.numbers(is_of_children);
        text.line("(void)row; (void)of_kind;");
        let mut line = Line::new(&spans, is_of_children);
        for piece in pieces {
            line.write(text, piece);
        }
        line.finish(text);
        text.close_elements(*width);
    }
    pieces.keys().next_back().copied().unwrap_or(1)
}

/// A number of the scratch memory, in the code for element e of a piece.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Number {
    /// Its place for e = 0.
    place: usize,
    /// It is the place plus e; else the same for all.
    varies: bool,
}

/// Where the reads of the code for an element leave their numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Numbers {
    /// In variables.
    OfElement,
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
    reads: Vec<String>,
    lines: Vec<String>,
    stores: Vec<String>,
    /// Where reads leave their numbers.
    pub numbers: Numbers,
    /// Steps of other threads of the block, between which and the reads no barrier stands: what they store is read later.
    pub beside: &'a [Step],
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
            lines: vec![],
            stores: vec![],
            numbers: Numbers::OfElement,
            beside: &[],
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
        let (index, width) = (shifted(piece.first, true), from.width);
        match *piece.step {
            Step::Store { to, .. } if self.shared == Some(to) => {
                let element = text.element(to, self.is_of_children, &index);
                let name = format!("s{}", self.values);
                self.values += 1;
                self.stores.push(format!("const Element {name} = to_element({value});"));
                self.stores.push(format!("x[in_tile * {width} + {index}] = to_float({name});"));
                self.stores.push(format!("if (blockIdx.x == 0) {element} = {name};"));
            }
            Step::Store { to, .. } if self.published == Some(to) => {
                let element = text.element(to, self.is_of_children, &index);
                let place = piece.first / text.units.unwrap_or(1);
                self.stores.push(format!("own[{place} * OWN + u] = {element} = {};", stored(to, &value)));
            }
            Step::Store { to, .. } => {
                let element = text.element(to, self.is_of_children, &index);
                let is_mine = self.if_mine();
                self.stores.push(format!("{is_mine}{element} = {};", stored(to, &value)));
            }
            Step::Hand { op, arguments: [first, second], .. } => {
                let (pointer, row, is_sum) = match op {
                    Op::Scatter => (Pointer::State(first), "row".to_owned(), false),
                    Op::Push => {
                        let vertices = text.pointer(Pointer::Graph(GraphArray::Vertex));
                        (Pointer::Push(first), format!("{vertices}[row]"), false)
                    }
                    Op::PullGradient => (Pointer::PullGradient(first), "row".to_owned(), false),
                    Op::Give => {
                        let edge = format!("({} + {first})", text.first_edge());
                        (Pointer::Given(second), edge, text.given_twice & 1 << second != 0)
                    }
                    Op::GiveChildren => (Pointer::Given(first), "edge".to_owned(), text.given_twice & 1 << first != 0),
                    _ => unreachable!("{} hands nothing on", op.name()),
                };
                let name = text.pointer(pointer);
                let value = match pointer {
                    Pointer::State(_) | Pointer::Push(_) => format!("to_element({value})"),
                    _ => value,
                };
                let is_wanted = match pointer {
                    Pointer::Push(_) | Pointer::PullGradient(_) => format!("if ({name}) "),
                    _ => String::new(),
                };
                let (is_mine, assigns) = (self.if_mine(), if is_sum { "+=" } else { "=" });
                let code = format!("{is_mine}{is_wanted}{name}[{row} * {width} + {index}] {assigns} {value};");
                self.stores.push(code);
            }
            _ => unreachable!("other steps write to the scratch memory"),
        }
    }

    /// The numbers that are read first.
    pub fn read_count(&self) -> usize {
        self.reads.len()
    }

    /// Ends the code of all pieces, for element `e`.
    pub fn finish(&mut self, text: &mut Text) {
        self.of_row.iter().for_each(|line| text.line(line));
        if self.numbers != Numbers::Ahead {
            self.write_reads(text);
        }
        self.lines.iter().chain(&self.stores).for_each(|line| text.line(line));
    }

    /// The reads alone, which go ahead.
    pub fn write_ahead(&self, text: &mut Text) {
        self.of_row.iter().for_each(|line| text.line(line));
        self.write_reads(text);
    }

    fn write_reads(&self, text: &mut Text) {
        let declared = if self.numbers == Numbers::OfElement { "const float " } else { "" };
        for (number, read) in self.reads.iter().enumerate() {
            text.line(&format!("{declared}{} = {read};", self.name_of_read(number)));
        }
    }

    fn name_of_read(&self, number: usize) -> String {
        match self.numbers {
            Numbers::OfElement => format!("r{number}"),
            Numbers::Ahead => format!("r[{number}]"),
        }
    }

    /// Reads a number before anything is computed. Returns its name.
    fn read_first(&mut self, code: String) -> String {
        self.reads.push(code);
        self.name_of_read(self.reads.len() - 1)
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
        let index = shifted(local, number.varies);
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
                let code = in_float(from, &text.element(from, self.is_of_children, &index));
                if stores(self.beside, from) { code } else { self.read_first(code) }
            }
            Step::Read { op: Op::Take, arguments: [state, _], to } => self.take(text, state, to.width, &index),
            Step::Read { op: Op::Zeros, .. } => "0.0f".to_owned(),
            Step::Read { op, arguments, to } => {
                let code = self.read(text, op, arguments, to.width, &index);
                self.read_first(code)
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
            Step::OfVector { op, parameter, x, .. } => {
                let (x, pointer) = (input(self, text, x), text.pointer(Pointer::Parameter(parameter)));
                let sign = if op == Op::Gain { '*' } else { '+' };
                format!("{x} {sign} to_float({pointer}[{index}])")
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

    fn read(&mut self, text: &mut Text, op: Op, [first, second]: [usize; 2], width: usize, index: &str) -> String {
        let of_row = |pointer: String, row: &str| format!("to_float({pointer}[{row} * {width} + {index}])");
        let or_zero = |row: &str, found: String| format!("{row} < 0 ? 0.0f : {found}");
        match op {
            Op::Pull => {
                self.pulled(text);
                or_zero("pulled", of_row(text.pointer(Pointer::Pull(first)), "pulled"))
            }
            Op::Lookup => {
                self.pulled(text);
                let (name, rows) = (format!("index_{first}_{second}"), text.sizes[first].rows);
                self.say(text, &name, |text| {
                    let indices = text.pointer(Pointer::Indices(second));
                    format!("const int {name} = pulled < 0 ? -1 : index_in({rows}, {indices}[pulled]);")
                });
                or_zero(&name, of_row(text.pointer(Pointer::Parameter(first)), &name))
            }
            Op::Gather => {
                self.first_edge(text);
                let name = format!("child_{first}");
                self.say(text, &name, |text| {
                    let children = text.pointer(Pointer::Graph(GraphArray::Child));
                    format!("const int {name} = {children}[first_edge + {first}];")
                });
                or_zero(&name, of_row(text.pointer(Pointer::State(second)), &name))
            }
            Op::Children => {
                self.child(text);
                or_zero("child", of_row(text.pointer(Pointer::State(first)), "child"))
            }
            Op::Own => of_row(text.pointer(Pointer::State(first)), "row"),
            Op::Kept | Op::KeptOfChildren => {
                let is_of_children = op == Op::KeptOfChildren;
                let place = Place { frame: Frame::Kept, is_of_children, offset: first, width };
                in_float(place, &text.element(place, self.is_of_children, index))
            }
            Op::PushGradient => {
                let vertices = text.pointer(Pointer::Graph(GraphArray::Vertex));
                let pointer = text.pointer(Pointer::PushGradient(first));
                format!("!{pointer} ? 0.0f : {}", of_row(pointer.clone(), &format!("{vertices}[row]")))
            }
            _ => unreachable!("{} reads no memory", op.name()),
        }
    }

    /// The sum of what a vertex's parents gave, in their order. The first parent's part is read with all others.
    fn take(&mut self, text: &mut Text, state: usize, width: usize, index: &str) -> String {
        let (parents_of, parents) =
            (text.pointer(Pointer::Graph(GraphArray::ParentsOf)), text.pointer(Pointer::Graph(GraphArray::Parents)));
        self.say(text, "parents", |_| {
            format!("const int first_parent = {parents_of}[2 * row], parents_end = {parents_of}[2 * row + 1];")
        });
        self.say(text, "parent_edge", |_| {
            format!("const int parent_edge = first_parent < parents_end ? {parents}[first_parent] : -1;")
        });
        let given = text.pointer(Pointer::Given(state));
        let first = self.read_first(format!("parent_edge < 0 ? 0.0f : {given}[parent_edge * {width} + {index}]"));
        let name = format!("t{}", self.values);
        self.values += 1;
        self.lines.push(format!("float {name} = {first};"));
        self.lines.push(format!(
            "for (int parent = first_parent + 1; parent < parents_end; ++parent) {name} += {given}[{parents}[parent] * \
             {width} + {index}];"
        ));
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
