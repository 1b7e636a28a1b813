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
    begin(text, x.width);
    let element = of_child(text, x).in_float();
    match op {
        Op::SoftmaxChildren => {
            let to = of_child(text, y);
            each_child(text, &format!("const float x = {element}; if (count++ == 0 || x > result) result = x;"));
            text.line("float sum = 0;");
            each_child(text, &format!("sum += expf({element} - result);"));
            text.line(&format!("for (int edge = first_edge; edge < end; ++edge) {};", to.set("0.0f")));
            each_child(text, &format!("{};", to.set(&format!("expf({element} - result) / sum"))));
        }
        Op::MaxChildren => {
            each_child(text, &format!("const float x = {element}; if (count++ == 0 || x > result) result = x;"));
        }
        _ => each_child(text, &format!("result += {element}; ++count;")),
    }
    if op != Op::SoftmaxChildren {
        if op == Op::MeanChildren {
            text.line("if (count > 0) result /= float(count);");
        }
        let to = text.element(y, false, "e");
        text.line(&format!("{};", to.set("result")));
    }
    text.close_elements(x.width);
    (false, x.width)
}

/// The gradient of the greatest over the children: the first child that has it gets all.
pub fn emit_max_gradient(text: &mut Text, x: Place, dy: Place, dx: Place) -> (bool, usize) {
    begin(text, x.width);
    let (from, to) = (of_child(text, x).in_float(), of_child(text, dx));
    let dy_element = text.element(dy, false, "e");
    text.line("int best = -1;");
    each_child(text, &format!("const float x = {from}; if (best < 0 || x > result) {{ result = x; best = edge; }}"));
    let its = format!("edge == best ? {} : 0.0f", dy_element.in_float());
    text.line(&format!("for (int edge = first_edge; edge < end; ++edge) {};", to.set(&its)));
    text.close_elements(x.width);
    (false, x.width)
}

/// Opens the loop over the elements of the vertices of a range.
fn begin(text: &mut Text, width: usize) {
    text.open_elements(false, width);
    text.numbers(false);
    let edges = text.pointer(Pointer::Graph(GraphArray::FirstEdge));
    let of_edge = text.pointer(Pointer::Graph(GraphArray::PlaceOfEdge));
    text.line(&format!("const int first_edge = {edges}[row], end = {edges}[row + 1];"));
    // A vertex without slots has no edge whose place could be read.
    text.line(&format!("const int first_of_kind = first_edge < end ? {of_edge}[first_edge] : 0;"));
    text.line("float result = 0; int count = 0;");
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
