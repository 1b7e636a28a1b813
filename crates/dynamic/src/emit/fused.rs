//! A level of few rows in one kernel: a pass over rows, the product of its result, and the pass over rows that takes the
//! product (Cavs has four launches: a gather, a product, element-wise operations, a scatter). Or the last two.
//!
//! A block has a tile of rows, and then the next one that no other block has. It computes the first pass of the tile into
//! shared memory; blocks of other columns do the same. A warp then has a unit, an element of the second pass: the products
//! of all columns that the unit needs, for all rows of the tile. At the end a lane computes the unit of one row.

use std::fmt::Write;

use vertex::function::Op;
use vertex::passes::{Pass, Passes, Place, Step, Work};

use super::pieces::{Spans, cut_to, pieces, stores};
use super::rows::Line;
use super::{Pointer, THREADS, Text};

/// The rows of a tile. Twin of the number in `kernels/dynamic/level.cuh`.
pub const TILE_ROWS: usize = 8;
/// The most products of a unit: each has a register for each row.
const MOST_PRODUCTS: usize = 8;
/// The most bytes of shared memory.
const MOST_SHARED: usize = 96 << 10;

/// The most rows for which a fused kernel takes less time than its parts: the weights are read for each tile. A first
/// pass that follows edges to parents waits for memory several times over, so that blocks had better not repeat it.
const MOST_ROWS: usize = 32;
const MOST_ROWS_BEHIND_PARENTS: usize = TILE_ROWS;
/// The fewest numbers of a matrix that the cache does not keep, beside all else, for several tiles of rows: a product of its
/// own reads it once.
const LARGE: usize = 1 << 22;
/// So few units are one block's: each row is read once, and the weights stay in the cache, however many rows there are.
const UNITS_OF_BLOCK: usize = THREADS as usize / 32;

/// How a fused kernel is launched.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// The passes whose work it does.
    pub passes: usize,
    /// The most rows for which it is worth while.
    pub most_rows: usize,
    /// Its first pass follows edges to parents.
    pub is_behind_parents: bool,
    /// The units, a warp each.
    pub units: usize,
    /// The bytes of shared memory.
    pub shared_bytes: usize,
    /// The matrix, which is aligned for quads.
    pub parameter: usize,
    /// It is transposed before.
    pub is_transposed: bool,
}

/// Writes the code of a product and the pass behind it, and of the pass before it if the first one is such. `None` if
/// they do not fit together.
pub fn emit(text: &mut Text, all: &Passes, passes: &[Pass]) -> Option<Shape> {
    let before = match &passes.first()?.work {
        Work::Rows { is_of_children: false, steps, .. } => Some(&steps[..]),
        _ => None,
    };
    let rest = &passes[usize::from(before.is_some())..];
    let [product, last] = rest.get(..2)? else { return None };
    let (Work::Product { parameter, is_transposed, x, y }, Work::Rows { is_of_children: false, steps: behind, .. }) =
        (&product.work, &last.work)
    else {
        return None;
    };
    let (parameter, is_transposed, x, y) = (*parameter, *is_transposed, *x, *y);
    let shared_bytes = TILE_ROWS * x.width * size_of::<f32>();
    // Blocks do not wait for each other: what one stores, others cannot read.
    let is_stored = |place: Place| before.is_some_and(|steps| stores(steps, place));
    let reads_stored =
        behind.iter().any(|step| matches!(step, Step::Load { from, .. } if *from != y && is_stored(*from)));
    let is_fit = !reads_stored
        && before.is_none_or(|steps| stores(steps, x))
        && x.width % 4 == 0
        && shared_bytes <= MOST_SHARED
        && !x.is_of_children;
    if !is_fit || readers(all, y) != 1 {
        return None;
    }
    let follows_parents = |step: &Step| matches!(step, Step::Read { op: Op::Take, .. });
    let is_behind_parents = before.is_some_and(|steps| steps.iter().any(follows_parents));
    // The units: elements of the last pass, in the narrowest pieces.
    let spans = Spans::new(behind);
    let its = pieces(behind, &spans);
    let units = *its.keys().next()?;
    let its = cut_to(&its, units)?;
    let most_rows = match is_behind_parents {
        _ if units <= UNITS_OF_BLOCK => usize::MAX,
        true => MOST_ROWS_BEHIND_PARENTS,
        false if x.width * y.width >= LARGE => TILE_ROWS,
        false => MOST_ROWS,
    };
    let mut unit = text.inner();
    let mut line = Line::new(&spans, false);
    line.products = Some(y);
    unit.line("const unsigned in_range = first_row + LANE_ROW; const int e = unit;");
    unit.numbers(false);
    for piece in &its {
        line.write(&mut unit, piece);
    }
    line.finish(&mut unit);
    let (shifts, needs_others) = (std::mem::take(&mut line.shifts), line.needs_others);
    text.pointers = unit.pointers;
    if needs_others || shifts.is_empty() || shifts.len() > MOST_PRODUCTS {
        return None;
    }

    let (warps, depth, count) = (THREADS / 32, x.width, shifts.len());
    let matrix = text.pointer(Pointer::Matrix(parameter, is_transposed));
    let columns = shifts.iter().fold(String::new(), |mut columns, shift| {
        let _ = write!(columns, "{shift}, ");
        columns
    });
    text.line("SHARED(float, x);");
    text.line(&format!("const int unit = blockIdx.x * {warps} + WARP;"));
    text.line(&format!("const int columns[{count}] = {{{columns}}};"));
    text.line(
        "for (int first_row = blockIdx.y * TILE_ROWS; first_row < at.row_count; first_row += gridDim.y * TILE_ROWS) {",
    );
    text.line("const int rows = min(TILE_ROWS, at.row_count - first_row);");
    match before {
        Some(steps) => compute_tile(text, steps, x),
        None => load_tile(text, x),
    }
    text.line("barrier();");
    text.line(&format!("if (unit < {units}) {{"));
    text.line(&format!("float products[{count}];"));
    text.line(&format!("multiply_tile<{depth}>(products, x, rows, {matrix}, columns, unit);"));
    text.line("if (IS_FIRST_OF_ROW && int(LANE_ROW) < rows) {");
    for product in 0..count {
        text.line(&format!("const float product_{product} = products[{product}];"));
    }
    text.body.push_str(&unit.body);
    text.line("}");
    text.line("}");
    text.line("barrier();");
    text.line("}");
    let passes = if before.is_some() { 3 } else { 2 };
    Some(Shape { passes, most_rows, is_behind_parents, units, shared_bytes, parameter, is_transposed })
}

/// Loads the rows of the tile.
fn load_tile(text: &mut Text, x: Place) {
    text.line(&format!("for (int number = threadIdx.x; number < rows * {}; number += THREADS) {{", x.width));
    text.line(&format!("const int in_tile = number / {0}, e = number % {0};", x.width));
    text.line("const unsigned in_range = first_row + in_tile;");
    text.numbers(false);
    text.line("(void)row; (void)of_kind;");
    let element = text.element(x, false, "e").in_float();
    text.line(&format!("x[number] = {element};"));
    text.line("}");
}

/// The first pass, for the rows of the tile.
fn compute_tile(text: &mut Text, steps: &[Step], x: Place) {
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
        line.finish(text);
        text.line("}");
    }
}

/// The number of passes that read a place.
pub fn readers(all: &Passes, place: Place) -> usize {
    let reads = |pass: &&Pass| match &pass.work {
        Work::Rows { steps, .. } => steps.iter().any(|step| matches!(step, Step::Load { from, .. } if *from == place)),
        Work::Product { x, .. } | Work::Reduce { x, .. } => *x == place,
        Work::MaxGradient { x, dy, .. } | Work::Accumulate { dy, x, .. } => *x == place || *dy == place,
        Work::AccumulateBias { dy, .. } | Work::AccumulateRow { dy, .. } => *dy == place,
    };
    all.all().filter(reads).count()
}
