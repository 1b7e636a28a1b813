//! Reductions over the children of each vertex, and over the width.

use vertex::function::Op;
use vertex::passes::Place;

use super::{GraphArray, InMemory, Pointer, Text};

/// Writes the code of a reduction. Returns whether it runs for edges, and the threads for a row.
pub fn emit(text: &mut Text, op: Op, x: Place, y: Place) -> (bool, usize) {
    if matches!(op, Op::Sum | Op::Softmax) {
        over_width(text, op, x, y);
        return (x.is_of_children, 32);
    }
    let turns = for_elements(text, &[x, y], |text, by| {
        let (read, number) = (by.read(&of_child(text, x)), by.number());
        let greatest = by.each("if (count == 0 || x[k] > result[k]) result[k] = x[k];");
        match op {
            Op::SoftmaxChildren => {
                let to = of_child(text, y);
                each_child(text, &format!("const {number} x = {read}; {greatest} ++count;"));
                text.line(&format!("{number} sum = {};", by.zero()));
                let adds = by.each("sum[k] += expf(x[k] - result[k]);");
                each_child(text, &format!("const {number} x = {read}; {adds}"));
                text.line(&format!("for (int edge = first_edge; edge < end; ++edge) {}", by.set(&to, by.zero())));
                let divides = by.each("x[k] = expf(x[k] - result[k]) / sum[k];");
                each_child(text, &format!("{number} x = {read}; {divides} {}", by.set(&to, "x")));
                return;
            }
            Op::MaxChildren => each_child(text, &format!("const {number} x = {read}; {greatest} ++count;")),
            _ => {
                let adds = by.each("result[k] += x[k];");
                each_child(text, &format!("const {number} x = {read}; {adds} ++count;"));
            }
        }
        if op == Op::MeanChildren {
            text.line(&format!("if (count > 0) {{ {} }}", by.each("result[k] /= float(count);")));
        }
        let to = text.element(y, false, "e");
        text.line(&by.set(&to, "result"));
    });
    (false, turns)
}

/// The gradient of the greatest over the children: the first child that has it gets all.
pub fn emit_max_gradient(text: &mut Text, x: Place, dy: Place, dx: Place) -> (bool, usize) {
    let turns = for_elements(text, &[x, dy, dx], |text, by| {
        let (read, number) = (by.read(&of_child(text, x)), by.number());
        let (dy, to) = (by.read(&text.element(dy, false, "e")), of_child(text, dx));
        // The best child's edge and one more; zero if there is none.
        text.line(&format!("int best{} = {{}};", if by == By::Four { "[4]" } else { "" }));
        let chooses = by.each("if (best[k] == 0 || x[k] > result[k]) { result[k] = x[k]; best[k] = edge + 1; }");
        each_child(text, &format!("const {number} x = {read}; {chooses}"));
        text.line(&format!("const {number} dy = {dy};"));
        let its = by.each("its[k] = edge + 1 == best[k] ? dy[k] : 0.0f;");
        let sets = by.set(&to, "its");
        text.line(&format!("for (int edge = first_edge; edge < end; ++edge) {{ {number} its; {its} {sets} }}"));
    });
    (false, turns)
}

/// The elements that code computes at once.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    One,
    Four,
}

impl By {
    /// The type of numbers.
    fn number(self) -> &'static str {
        if self == Self::Four { "Four" } else { "float" }
    }

    fn zero(self) -> &'static str {
        if self == Self::Four { "Four{}" } else { "0.0f" }
    }

    /// The code that reads numbers.
    fn read(self, from: &InMemory) -> String {
        if self == Self::Four { format!("four_at({})", from.address()) } else { from.in_float() }
    }

    /// The code that sets numbers in memory.
    fn set(self, to: &InMemory, value: &str) -> String {
        if self == Self::Four { format!("set_four({}, {value});", to.address()) } else { format!("{};", to.set(value)) }
    }

    /// Code for each element, in which `[k]` stands behind each of its numbers.
    fn each(self, code: &str) -> String {
        match self {
            Self::One => code.replace("[k]", ""),
            Self::Four => format!("for_each_of_four([&](int k) {{ {code} }});"),
        }
    }
}

/// Writes the loop over the elements of the vertices of a range; `write` writes what it does. `places` are read and written by
/// edges, or by rows. Returns the turns of the loop, for each row.
fn for_elements(text: &mut Text, places: &[Place], write: impl Fn(&mut Text, By)) -> usize {
    let width = places[0].width;
    if text.by_fours && width.is_multiple_of(4) {
        text.open_fours(false, width, places.iter().map(|place| Pointer::Frame(*place)));
        begin(text, By::Four);
        write(text, By::Four);
        text.line("});");
        return width / 4;
    }
    text.open_elements(false, width);
    begin(text, By::One);
    write(text, By::One);
    text.close_elements(width);
    width
}

/// The beginning of the code for an element of a vertex.
fn begin(text: &mut Text, by: By) {
    text.numbers(false);
    let edges = text.pointer(Pointer::Graph(GraphArray::FirstEdge));
    let of_edge = text.pointer(Pointer::Graph(GraphArray::PlaceOfEdge));
    text.line(&format!("const int first_edge = {edges}[row], end = {edges}[row + 1];"));
    // A vertex without slots has no edge whose place could be read.
    text.line(&format!("const int first_of_kind = first_edge < end ? {of_edge}[first_edge] : 0;"));
    text.line(&format!("{} result = {}; int count = 0;", by.number(), by.zero()));
    text.line("(void)count; (void)of_kind;");
}

/// An element of a place by edges, in a loop over the edges of a vertex.
fn of_child(text: &mut Text, place: Place) -> InMemory {
    let first = if place.is_whole() { String::new() } else { format!(" - {}", text.first_of_block(true)) };
    text.number(Pointer::Frame(place), &format!("(first_of_kind + edge - first_edge{first})"), place.width, "e")
}

/// Runs code for each child that is there.
fn each_child(text: &mut Text, code: &str) {
    let children = text.pointer(Pointer::Graph(GraphArray::Child));
    text.line(&format!("for (int edge = first_edge; edge < end; ++edge) if ({children}[edge] >= 0) {{ {code} }}"));
}

/// A sum over the elements of a row or a softmax over them, by a warp.
fn over_width(text: &mut Text, op: Op, x: Place, y: Place) {
    let is_of_children = x.is_of_children;
    let count = super::count(is_of_children);
    text.line(&format!("for_all_by_warps({count}, [&](unsigned in_range) {{"));
    text.numbers(is_of_children);
    text.line("(void)row; (void)of_kind;");
    let from = text.element(x, is_of_children, "e").in_float();
    let each = format!("for (int e = LANE; e < {}; e += 32)", x.width);
    if op == Op::Sum {
        text.line(&format!("float sum = 0; {each} sum += {from};"));
        text.line("sum = warp_sum(sum);");
        let to = text.element(y, is_of_children, "0");
        text.line(&format!("if (LANE == 0) {};", to.set("sum")));
    } else {
        let first = text.element(x, is_of_children, "0").in_float();
        text.line(&format!(
            "float greatest = {first}; {each} {{ const float x = {from}; if (x > greatest) greatest = x; }}"
        ));
        text.line("greatest = warp_max(greatest);");
        text.line(&format!("float sum = 0; {each} sum += expf({from} - greatest);"));
        text.line("sum = warp_sum(sum);");
        let to = text.element(y, is_of_children, "e");
        text.line(&format!("{each} {};", to.set(&format!("expf({from} - greatest) / sum"))));
    }
    text.line("});");
}
