//! A level of few rows in one kernel: a pass over rows, the product that takes what it makes, and the pass over rows that
//! takes the product (Cavs has four launches: a gather, a product, element-wise operations, a scatter).
//!
//! A block has a tile of rows, whose first pass it computes into shared memory; blocks of other columns do the same. A
//! warp then has a unit, an element of the second pass: the products of all columns that the unit needs, for all rows of
//! the tile. At the end a lane computes the unit of one row.

use std::fmt::Write;

use vertex::passes::{Pass, Passes, Place, Step, Work};

use super::rows::{Line, Spans, cut_to, pieces};
use super::{Pointer, THREADS, Text};

/// The rows of a tile.
pub const ROWS: usize = 8;
/// The most products of a unit: each has a register for each row.
const MOST_PRODUCTS: usize = 8;
/// The most bytes of shared memory.
const MOST_SHARED: usize = 96 << 10;

/// How a fused kernel is launched.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// The units, a warp each.
    pub units: usize,
    /// The bytes of shared memory.
    pub shared_bytes: usize,
    /// The matrix, which is aligned for quads.
    pub parameter: usize,
    /// It is transposed before.
    pub is_transposed: bool,
}

/// Writes the code of three passes that follow each other. `None` if they do not fit together.
pub fn emit(text: &mut Text, all: &Passes, passes: &[Pass]) -> Option<Shape> {
    let [first, product, last] = passes else { return None };
    let (
        Work::Rows { is_of_children: false, steps: before, .. },
        Work::Rows { is_of_children: false, steps: behind, .. },
    ) = (&first.work, &last.work)
    else {
        return None;
    };
    let Work::Product { parameter, is_transposed, x, y } = product.work else { return None };
    let makes_x = before.iter().any(|step| matches!(step, Step::Store { to, .. } if *to == x));
    let shared_bytes = ROWS * x.width * size_of::<f32>();
    let is_fit = makes_x && x.width % 4 == 0 && shared_bytes <= MOST_SHARED && !x.is_of_children;
    if !is_fit || readers(all, y) != 1 {
        return None;
    }

    // The units: elements of the last pass, in the narrowest pieces.
    let spans = Spans::new(behind);
    let its = pieces(behind, &spans);
    let units = *its.keys().next()?;
    let its = cut_to(&its, units)?;
    let mut unit = Text { pointers: std::mem::take(&mut text.pointers), body: String::new() };
    let mut line = Line::new(&spans, false);
    line.products = Some(y);
    unit.line("const unsigned in_range = first_row + LANE; const int e = unit;");
    unit.numbers(false);
    for piece in &its {
        line.write(&mut unit, piece);
    }
    let (shifts, needs_others) = (std::mem::take(&mut line.shifts), line.needs_others);
    text.pointers = unit.pointers;
    if needs_others || shifts.is_empty() || shifts.len() > MOST_PRODUCTS {
        return None;
    }

    text.line("SHARED(float, x);");
    text.line(&format!("const int first_row = blockIdx.y * {ROWS}, rows = min({ROWS}, at.row_count - first_row);"));
    tile(text, before, x);
    text.line("barrier();");
    let (warps, depth, count) = (THREADS / 32, x.width, shifts.len());
    text.line(&format!("const int unit = blockIdx.x * {warps} + WARP;"));
    text.line(&format!("if (unit >= {units}) return;"));
    let matrix = text.pointer(Pointer::Matrix(parameter, is_transposed));
    let columns = shifts.iter().fold(String::new(), |mut columns, shift| {
        let _ = write!(columns, "{shift}, ");
        columns
    });
    text.line(&format!("const int columns[{count}] = {{{columns}}};"));
    text.line(&format!("float sums[{ROWS}][{count}];"));
    text.line(&format!("multiply_tile<{depth}>(sums, x, rows, {matrix}, columns, unit);"));
    text.line("if (int(LANE) >= rows) return;");
    for product in 0..count {
        text.line(&format!("const float product_{product} = of_lane<{count}>(sums, {product});"));
    }
    text.body.push_str(&unit.body);
    Some(Shape { units, shared_bytes, parameter, is_transposed })
}

/// The first pass, for the rows of the tile.
fn tile(text: &mut Text, steps: &[Step], x: Place) {
    let spans = Spans::new(steps);
    for (width, pieces) in &pieces(steps, &spans) {
        text.line(&format!("for (int number = threadIdx.x; number < rows * {width}; number += THREADS) {{"));
        text.line(&format!("const int in_tile = number / {width}, e = number % {width};"));
        text.line("const unsigned in_range = first_row + in_tile;");
        text.numbers(false);
        let mut line = Line::new(&spans, false);
        line.shared = Some(x);
        for piece in pieces {
            line.write(text, piece);
        }
        text.line("}");
    }
}

/// The number of passes that read a place.
fn readers(all: &Passes, place: Place) -> usize {
    let reads = |pass: &&Pass| match &pass.work {
        Work::Rows { steps, .. } => steps.iter().any(|step| matches!(step, Step::Load { from, .. } if *from == place)),
        Work::Product { x, .. } | Work::Reduce { x, .. } => *x == place,
        Work::MaxGradient { x, dy, .. } | Work::Accumulate { dy, x, .. } => *x == place || *dy == place,
        Work::AccumulateBias { dy, .. } | Work::AccumulateRow { dy, .. } => *dy == place,
    };
    all.stages.iter().flatten().filter(reads).count()
}
