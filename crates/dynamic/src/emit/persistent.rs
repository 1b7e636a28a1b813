//! The path of all kinds in one kernel, whose blocks own units (Khorasani et al., MICRO 2018; see
//! `kernels/dynamic/persistent.cuh`).

use std::fmt::Write;

use gpu::Element;
use gpu::jit::Source;
use vertex::function::{Arity, Declaration, Op};
use vertex::passes::{Pass, Passes, Place, Step, Work};
use vertex::stages::Stage;

use super::fused::readers;
use super::pieces::{Spans, cut_to, pieces, stores};
use super::rows::{self, Line, Numbers};
use super::{MOST_POINTERS, Pointer, Text, is_in_float, reductions};

/// The threads of a block. The second number is for kernels that spill registers with the first one. Tree-LSTMs took 2 to
/// 20% longer with it on an H100: passes wait for memory.
pub const PATH_THREADS: [usize; 2] = [512, 256];

/// The rows of a tile: the first number that fits. With 32, Tree-LSTMs took up to 25% longer on an H100, and with 16
/// those in one group, whose levels have few rows, up to 15%.
fn tiles(groups: usize) -> &'static [usize] {
    if groups == 1 { &[8] } else { &[16, 8] }
}

/// What tensor cores multiply at once. Twin of the number in `kernels/dynamic/persistent.cuh`.
const CHUNK_BYTES: usize = 32;

/// The rows whose products lie in shared memory at once. Twin of the number in `kernels/dynamic/persistent.cuh`.
const SPAN: usize = 64;

/// Parts of shared memory begin at multiples of this.
const SHARED_APART: usize = 16;
const PACKET_BYTES: usize = 16;
/// The bytes of a packet that hold elements.
const PACKET_ELEMENTS: usize = 12;

/// The pointers in front of those of the kinds: the steps, the epochs, and the numbers of a group's steps.
const OWN_POINTERS: usize = 3;

/// A kernel for the path of all kinds one way.
#[derive(Clone, Debug)]
pub struct Path {
    /// Its name in the source.
    pub name: &'static str,
    /// The groups of blocks.
    pub groups: usize,
    /// The blocks of a group. Those of all groups run at once.
    pub blocks: usize,
    /// The threads of a block.
    pub threads: usize,
    /// The units that a block owns.
    pub own_units: usize,
    /// Dynamic shared memory of a block, in bytes.
    pub shared_bytes: usize,
    /// The bytes of weights that the blocks of a group load.
    pub weights: usize,
    /// The pointers behind the steps and the epochs, each of a kind.
    pub pointers: Vec<(usize, Pointer)>,
    /// The products whose factors are published.
    pub published: Vec<Published>,
    /// The text.
    pub source: Source,
}

/// The factor of a product, which blocks publish.
#[derive(Clone, Copy, Debug)]
pub struct Published {
    /// The kind whose rows, or edges, it has.
    pub kind: usize,
    /// Rows are edges.
    pub is_of_children: bool,
    /// The bytes of all packets of a row.
    pub bytes_of_row: usize,
}

/// The units of a way, and how blocks share them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Units {
    /// All.
    all: usize,
    /// Those of a block.
    own: usize,
}

impl Units {
    fn blocks(self) -> usize {
        self.all.div_ceil(self.own)
    }
}

/// How a kernel of the path is made.
#[derive(Clone, Copy, Debug)]
pub struct PathShape {
    /// It goes from parents to children.
    pub is_backward: bool,
    /// The groups of blocks.
    pub groups: usize,
    /// The threads of a block.
    pub threads: usize,
    /// The type of tensors.
    pub element: Element,
    /// Floats may be rounded to TF32.
    pub tf32: bool,
    /// The device's multiprocessors.
    pub multiprocessors: usize,
    /// The bytes of shared memory that a block may have.
    pub shared_bytes: usize,
}

impl PathShape {
    /// Products are of floats that are not rounded.
    fn is_exact(&self) -> bool {
        self.element == Element::Float && !self.tf32
    }
}

/// Writes the kernel of the path one way. `None` if units of some value depend on others without a product between, there
/// is no product, or the weights do not fit.
pub fn emit_path(name: &'static str, shape: &PathShape, kinds: &[Passes], declaration: &Declaration) -> Option<Path> {
    let all = units(kinds)?;
    let units = Units { all, own: all.div_ceil((shape.multiprocessors / shape.groups.max(1)).max(1)) };
    let (products, weights) = products(kinds, units, shape.element);
    let (tile_rows, shared_bytes) = tile(&products, weights, units, shape)?;
    let mut parts = Parts::new(shape, units, weights, &products);
    for (kind, (passes, function)) in kinds.iter().zip(&declaration.functions).enumerate() {
        let slots = match function.children {
            Arity::Exactly(slots) => Some(slots),
            Arity::Any => None,
        };
        let sizes = &declaration.parameters;
        let is_grouped = shape.groups > 1;
        parts.emit_kind(kind, passes, Text { units: Some(all), is_grouped, slots, ..Text::new(sizes, passes) })?;
    }
    if parts.pointers.len() + OWN_POINTERS > MOST_POINTERS {
        return None;
    }
    let text = head(shape, units, tile_rows) + &parts.functions + &parts.kernel(name);
    let headers = kernels::dynamic::PATH.headers.iter().map(|&(name, text)| (name.into(), text.into())).collect();
    let options = vec![shape.element.option().into()];
    Some(Path {
        name,
        groups: shape.groups,
        blocks: units.blocks(),
        threads: shape.threads,
        own_units: units.own,
        shared_bytes,
        weights: products.iter().map(|product| product.height * product.depth * shape.element.bytes()).sum(),
        pointers: parts.pointers,
        published: parts.published,
        source: Source { name: "vertex_path.cu".into(), text: text.into(), headers, options },
    })
}

/// The products of all kinds, in the order of their passes, and the bytes of their weights in shared memory.
fn products(kinds: &[Passes], units: Units, element: Element) -> (Vec<Product>, usize) {
    let (mut products, mut weights) = (vec![], 0);
    for pass in kinds.iter().flat_map(|passes| &passes.stages[Stage::Path as usize]) {
        if let Work::Product { parameter, is_transposed, x, y } = pass.work {
            let matrix = Pointer::Matrix(parameter, is_transposed);
            let product = Product { matrix, place: weights, height: y.width, depth: x.width };
            weights = (weights + product.weight_bytes(units, element)).next_multiple_of(SHARED_APART);
            products.push(product);
        }
    }
    (products, weights)
}

/// The rows of the tile that products share, and the bytes of shared memory. `None` if that is too much, or there is no
/// product.
fn tile(products: &[Product], weights: usize, units: Units, shape: &PathShape) -> Option<(usize, usize)> {
    tiles(shape.groups).iter().find_map(|&rows| {
        let tile = products.iter().map(|product| product.tile_bytes(units, shape, rows)).max()?;
        (weights + tile <= shape.shared_bytes).then_some((rows, weights + tile))
    })
}

/// The parts of the kernel while they are made.
struct Parts<'a> {
    shape: &'a PathShape,
    units: Units,
    /// Where the tile lies in shared memory: after the weights.
    tile: usize,
    /// The products that no pass has taken yet.
    products: std::slice::Iter<'a, Product>,
    /// The code that loads weights.
    loads: String,
    /// A struct of pointers and a function for each kind.
    functions: String,
    /// The kinds with a part on the path.
    kinds: Vec<usize>,
    pointers: Vec<(usize, Pointer)>,
    published: Vec<Published>,
}

impl<'a> Parts<'a> {
    fn new(shape: &'a PathShape, units: Units, tile: usize, products: &'a [Product]) -> Self {
        let (loads, functions) = (String::new(), String::new());
        let (kinds, pointers, published) = (vec![], vec![], vec![]);
        Self { shape, units, tile, products: products.iter(), loads, functions, kinds, pointers, published }
    }

    /// Writes the passes of a kind.
    fn emit_kind(&mut self, kind: usize, passes: &Passes, mut text: Text) -> Option<()> {
        let mut passes_left = &passes.stages[Stage::Path as usize][..];
        while let [pass, others @ ..] = passes_left {
            let around = Around::beginning(passes, pass, others);
            passes_left = if around.is_some() { &others[2..] } else { others };
            match (&around, &pass.work) {
                (Some(Around { x, y, .. }), _) | (None, Work::Product { x, y, .. }) => {
                    self.emit_product(kind, &mut text, *x, *y, around.as_ref())?;
                }
                (None, Work::Rows { is_of_children, steps, .. }) => {
                    rows::emit(&mut text, steps, *is_of_children);
                }
                (None, Work::Reduce { op, x, y }) => {
                    reductions::emit(&mut text, *op, *x, *y);
                }
                (None, Work::MaxGradient { x, dy, dx }) => {
                    reductions::emit_max_gradient(&mut text, *x, *dy, *dx);
                }
                _ => return None,
            }
        }
        if text.is_foreign {
            return None;
        }
        if !text.pointers.is_empty() {
            self.add_kind(kind, &text);
        }
        Some(())
    }

    /// Writes the next product, and the passes around it.
    fn emit_product(
        &mut self,
        kind: usize,
        text: &mut Text,
        x: Place,
        y: Place,
        around: Option<&Around>,
    ) -> Option<()> {
        let (product, number) = (self.products.next()?, self.published.len());
        let matrix = text.pointer(product.matrix);
        let _ = writeln!(
            self.loads,
            "    {}::load(memory_at<Element>(memory, {}), parameters.k{kind}.{});",
            product.class(),
            product.place,
            matrix.trim_start_matches("it.")
        );
        if is_in_float(x.frame) || !is_in_float(y.frame) {
            return None;
        }
        match around {
            Some(around) => around.emit(text, product, number, self.tile, self.units),
            None => emit_product(text, product, x, y, number, self.tile),
        }
        self.published.push(Published {
            kind,
            is_of_children: x.is_of_children,
            bytes_of_row: product.packets(self.units, self.shape.element) * PACKET_BYTES,
        });
        Some(())
    }

    /// Adds the finished text of a kind.
    fn add_kind(&mut self, kind: usize, text: &Text) {
        self.kinds.push(kind);
        self.pointers.extend(text.pointers.iter().map(|pointer| (kind, *pointer)));
        let members = super::members(&text.pointers);
        let _ = write!(
            self.functions,
            "\nstruct of_{kind} {{{members} }};\n\n__device__ __forceinline__ void run_{kind}(const of_{kind} &it, const Range &at, \
             char *memory, unsigned epoch) {{\n{}}}\n",
            text.body
        );
    }

    /// The kernel, which runs the steps.
    fn kernel(&self, name: &str) -> String {
        let structs: String = self.kinds.iter().map(|kind| format!(" of_{kind} k{kind};")).collect();
        let run = |kind| {
            format!("        if (step.kind == {kind}) run_{kind}(parameters.k{kind}, step.range(), memory, epoch);\n")
        };
        let (loads, runs) = (&self.loads, self.kinds.iter().map(run).collect::<String>());
        // The next step is on its way while one runs.
        let (first, number) =
            if self.shape.is_backward { ("count - 1", "count - 2 - number") } else { ("0", "number + 1") };
        format!(
            "\nstruct {name}_parameters {{ Path path;{structs} }};\n\nKERNEL({name}, {name}_parameters) {{\n    \
             SHARED(char, memory);\n{loads}    const unsigned epoch = *parameters.path.epoch() + 1;\n    barrier();\n    \
             const int count = parameters.path.count();\n    Step next = parameters.path.step({first});\n    \
             for (int number = 0; number < count; ++number) {{\n        const Step step = next;\n        \
             if (number + 1 < count) next = parameters.path.step({number});\n{runs}    }}\n    barrier();\n    \
             if (threadIdx.x == 0) *parameters.path.epoch() = epoch;\n}}\n"
        )
    }
}

/// The kernel's definitions.
fn head(shape: &PathShape, units: Units, tile_rows: usize) -> String {
    format!(
        "#define THREADS {}\n#define UNITS {}\n#define OWN {}\n#define BLOCKS {}\n#define PATH_ROWS {tile_rows}\n\
         #define IS_EXACT {}\n#define MULTIPROCESSOR_BLOCKS 1\n#include \"dynamic/persistent.cuh\"\n\n\
         template <typename T> __device__ __forceinline__ T *memory_at(char *memory, int bytes) \
         {{\n    return reinterpret_cast<T *>(memory + bytes);\n}}\n",
        shape.threads,
        units.all,
        units.own,
        units.blocks(),
        u8::from(shape.is_exact())
    )
}

/// A product on the path.
struct Product {
    matrix: Pointer,
    /// Where its weights lie in shared memory.
    place: usize,
    height: usize,
    depth: usize,
}

impl Product {
    fn class(&self) -> String {
        format!("PathProduct<{}, {}>", self.height, self.depth)
    }

    fn columns(&self, units: Units) -> usize {
        self.height / units.all * units.own
    }

    fn own_elements(&self, units: Units) -> usize {
        self.depth / units.all * units.own
    }

    /// The elements of a row of the weights or of the tile.
    fn padded(&self, units: Units, element: Element) -> usize {
        (units.blocks() * self.own_elements(units)).next_multiple_of(CHUNK_BYTES / element.bytes())
    }

    /// The elements from such a row to the next.
    fn pitch(&self, units: Units, element: Element) -> usize {
        self.padded(units, element) + CHUNK_BYTES / 2 / element.bytes()
    }

    fn weight_bytes(&self, units: Units, element: Element) -> usize {
        self.columns(units) * self.pitch(units, element) * element.bytes()
    }

    /// The most parts that sums are added up of.
    fn parts(&self, units: Units, shape: &PathShape) -> usize {
        let padded = self.padded(units, shape.element);
        let warps = |parts: usize, most: usize| 1 << parts.min(most).min(shape.threads / 32).ilog2();
        let chunks = padded * shape.element.bytes() / CHUNK_BYTES;
        match shape.is_exact() {
            true => warps(chunks, (640 / self.columns(units)).clamp(1, 16)).max(warps(padded.div_ceil(128), 8)),
            false => warps(chunks, 8),
        }
    }

    /// The tile, or in its place the own elements of a span; the parts; the products of a span.
    fn tile_bytes(&self, units: Units, shape: &PathShape, rows: usize) -> usize {
        let (bytes, columns) = (shape.element.bytes(), self.columns(units));
        let elements = (rows * self.pitch(units, shape.element)).max(SPAN * self.own_elements(units));
        let floats = (rows * self.parts(units, shape) + SPAN) * columns;
        elements * bytes + floats * size_of::<f32>()
    }

    /// The packets of all blocks for a row.
    fn packets(&self, units: Units, element: Element) -> usize {
        units.blocks() * self.own_elements(units).div_ceil(PACKET_ELEMENTS / element.bytes())
    }
}

/// Writes a product of rows that lie in frames.
fn emit_product(text: &mut Text, product: &Product, x: Place, y: Place, number: usize, tile: usize) {
    let (count, of_kind) = match x.is_of_children {
        true => ("at.edge_count", "at.edge_of_kind"),
        false => ("at.row_count", "at.row_of_kind"),
    };
    let mut first = |place: Place| {
        let pointer = text.pointer(Pointer::Frame(place));
        let first = text.first_of_block(x.is_of_children);
        let row = if place.is_whole() { of_kind.to_owned() } else { format!("{of_kind} - {first}") };
        format!("{pointer} + size_t({row}) * {}", place.width)
    };
    let (from, to, class) = (first(x), first(y), product.class());
    let packets = packets(text, product, number, of_kind);
    text.line(&format!(
        "{class}::multiply(memory_at<Element>(memory, {}), memory_at<Element>(memory, {tile}), {from}, {to}, {packets}, \
         {count}, epoch);",
        product.place
    ));
}

/// The packets of a product, from the range's first row on.
fn packets(text: &mut Text, product: &Product, number: usize, of_kind: &str) -> String {
    let (pointer, class) = (text.pointer(Pointer::Packets(number)), product.class());
    format!("static_cast<Packet<Element> *>({pointer}) + size_t({of_kind}) * {class}::PACKETS")
}

/// The passes around a product of vertices' rows: the factor goes from the first one into packets, and the product from
/// shared memory into the second one, without frames between.
struct Around<'a> {
    before: &'a [Step],
    behind: &'a [Step],
    x: Place,
    y: Place,
}

impl<'a> Around<'a> {
    /// The pass and the two that follow it, if they are such passes and their product.
    fn beginning(all: &Passes, before: &'a Pass, others: &'a [Pass]) -> Option<Self> {
        let [product, behind, ..] = others else { return None };
        let Work::Product { x, y, .. } = product.work else { return None };
        let steps = |pass: &'a Pass| match &pass.work {
            Work::Rows { is_of_children: false, steps, .. } => Some(&steps[..]),
            _ => None,
        };
        let (before, behind) = (steps(before)?, steps(behind)?);
        let is_fit = !x.is_of_children && stores(before, x) && readers(all, y) == 1;
        is_fit.then_some(Self { before, behind, x, y })
    }

    fn emit(&self, text: &mut Text, product: &Product, number: usize, tile: usize, units: Units) {
        let (class, packets) = (product.class(), packets(text, product, number, "at.row_of_kind"));
        text.line(&format!("Packet<Element> *const packets_{number} = {packets};"));
        let tile = format!("memory_at<Element>(memory, {tile})");
        text.line(&format!("Element *const staged = {tile};"));
        text.line("for (int first = 0; first < at.row_count; first += SPAN) {");
        text.line("const int count = min(SPAN, at.row_count - first);");
        text.line("for_own(count, [&](unsigned in_span, int e) {");
        text.line("const unsigned in_range = first + in_span; const int u = e - first_unit();");
        text.line(&format!("Element *const own = staged + in_span * {class}::OWN_ELEMENTS;"));
        text.numbers(false);
        let spans = Spans::new(self.before);
        let mut line = Line::new(&spans, false);
        line.published = Some(self.x);
        write(text, &mut line, self.before, units);
        line.finish(text);
        text.line("});");
        text.line(&format!(
            "{class}::publish_staged(staged, packets_{number} + size_t(first) * {class}::PACKETS, count, epoch);"
        ));
        text.line("}");
        let spans = Spans::new(self.behind);
        let mut line = Line::new(&spans, false);
        (line.products, line.beside) = (Some(self.y), self.before);
        // In one group, levels have few rows: then a thread waits for packets longer than it computes.
        let reads_ahead = !text.is_grouped;
        if reads_ahead {
            line.numbers = Numbers::Ahead;
        }
        write(text, &mut line, self.behind, units);
        text.line("for (int first = 0; first < at.row_count; first += SPAN) {");
        text.line("const int count = min(SPAN, at.row_count - first);");
        if reads_ahead {
            text.line(&format!("float ahead[{}] = {{}};", line.read_count().max(1)));
            text.line("const auto read = [&](unsigned in_span, int e, auto &r) {");
            text.line("const unsigned in_range = first + in_span;");
            text.numbers(false);
            text.line("(void)row; (void)of_kind; (void)e; (void)r;");
            line.write_ahead(text);
            text.line("};");
            text.line("read_ahead(count, ahead, read);");
        }
        text.line(&format!(
            "{class}::multiply_span(memory_at<Element>(memory, {}), {tile}, packets_{number} + size_t(first) * \
             {class}::PACKETS, count, epoch);",
            product.place
        ));
        text.line(&format!("const float *const products = {class}::products({tile});"));
        text.line(match reads_ahead {
            true => "for_own(count, ahead, read, [&](unsigned in_span, int e, const auto &r) {",
            false => "for_own(count, [&](unsigned in_span, int e) {",
        });
        text.line("const unsigned in_range = first + in_span;");
        text.numbers(false);
        text.line("(void)row; (void)of_kind;");
        if reads_ahead {
            text.line("(void)r;");
        }
        for (place, shift) in line.shifts.iter().enumerate() {
            let column = shift / units.all * units.own;
            text.line(&format!(
                "const float product_{place} = products[in_span * {class}::COLUMNS + {column} + e - first_unit()];"
            ));
        }
        line.finish(text);
        text.line("});");
        text.line("}");
    }
}

/// Writes the steps into the code for unit `e`.
fn write(text: &mut Text, line: &mut Line, steps: &[Step], units: Units) {
    let Some(cut) = cut_to(&pieces(steps, line.spans), units.all) else {
        text.is_foreign = true;
        return;
    };
    cut.iter().for_each(|piece| line.write(text, piece));
}

/// The units of a way: the width of its narrowest values. `None` if that does not divide others, or is too little to be
/// shared.
fn units(kinds: &[Passes]) -> Option<usize> {
    let path = || kinds.iter().flat_map(|passes| &passes.stages[Stage::Path as usize]);
    let mut widths = vec![];
    for pass in path() {
        match &pass.work {
            Work::Rows { steps, .. } => widths.extend(pieces(steps, &Spans::new(steps)).keys().copied()),
            Work::Product { x, y, .. } => widths.extend([x.width, y.width]),
            Work::Reduce { op: Op::Sum | Op::Softmax, .. } => return None,
            Work::Reduce { x, .. } => widths.push(x.width),
            Work::MaxGradient { x, .. } => widths.push(x.width),
            _ => return None,
        }
    }
    let units = *widths.iter().min()?;
    (units > 1 && widths.iter().all(|width| width.is_multiple_of(units))).then_some(units)
}
