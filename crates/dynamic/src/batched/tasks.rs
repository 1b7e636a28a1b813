//! The tasks of a run that need nothing of each other go together in one launch. Twins of the structs in
//! `kernels/dynamic/tasks.cuh` and the files that it includes.

use std::ffi::c_void;

use gpu::products::Transposed;

/// A task. Twin of the struct in `kernels/dynamic/tasks.cuh`.
#[repr(C, u32)]
#[derive(Clone, Copy)]
pub enum Task {
    /// Writes zeros.
    Zeros(Zeros),
    /// Transposes a matrix.
    Transposed(Transposed),
    /// Finds the rows of a table that rows of a kind name.
    TableIndices(TableIndices),
    /// Turns scores into the gradient of the sum of all vertices' cross-entropies, and computes these.
    Scores(Scores),
    /// Adds up outer products of rows.
    OuterProducts(OuterProducts),
    /// Adds up rows.
    RowSums(RowSums),
    /// Computes the mean of the labelled vertices' losses, and the share that each has in it.
    Losses(Losses),
    /// Adds rows to those of a table that indices name.
    AddedRows(AddedRows),
    /// Adds up the sums of slices.
    PartsSum(PartsSum),
    /// Adds up rows that read the same one.
    ReadersSums(ReadersSums),
    /// Takes a parameter's step of gradient descent.
    Descent(Descent),
    /// Takes a table's.
    DescentOfRows(DescentOfRows),
    /// Makes the rule of a step.
    RuleOfStep(RuleOfStep),
    /// Changes a parameter by a rule.
    Update(Update),
}

/// Rows dy and x whose outer products are added up: `count`, or as many as a script says.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OuterProducts {
    pub dy: *const c_void,
    pub x: *const c_void,
    /// `[slices][rows][columns]`
    pub sums: *mut f32,
    pub script: *const c_void,
    pub count: i32,
    /// The numbers of a row of dy, and of x.
    pub rows: i32,
    pub columns: i32,
    pub slices: i32,
    /// The sums are added to the numbers that are there.
    pub adds: i32,
    /// Rows are edges.
    pub is_of_children: i32,
}

/// Rows to add up: `count`, or as many as a script says.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RowSums {
    pub rows: *const c_void,
    /// `[slices][columns]`
    pub sums: *mut f32,
    pub script: *const c_void,
    pub count: i32,
    pub columns: i32,
    pub slices: i32,
    /// The sums are added to the numbers that are there.
    pub adds: i32,
    /// Rows are edges.
    pub is_of_children: i32,
}

/// Sums of slices, which lie one behind the other.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Parts {
    /// `[part_count][count]`
    pub sums: *const f32,
    pub count: usize,
    pub part_count: i32,
}

/// Numbers that are floats, or elements.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Numbers {
    pub first: *mut c_void,
    pub are_floats: i32,
}

/// The sum of slices' sums.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PartsSum {
    pub parts: Parts,
    pub to: Numbers,
    /// It is added to the numbers that are there.
    pub adds: i32,
}

/// Rows of a kind that name rows of a table.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TableIndices {
    pub indices: *mut i32,
    pub rows_of_kind: *const c_void,
    /// Where the rows are; null for `count` rows of `rows_of_kind`.
    pub script: *const c_void,
    pub pulled: *const c_void,
    pub indices_of_input: *const c_void,
    pub count: i32,
    pub table: i32,
}

/// Rows for those of a table, which their indices name.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RowsOfTable {
    pub rows: Numbers,
    pub indices: *const i32,
    /// Where the number of rows is; null for `count`.
    pub script: *const c_void,
    pub count: i32,
    pub columns: i32,
}

/// Rows to add to those of a table.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct AddedRows {
    pub its: RowsOfTable,
    pub sums: *mut f32,
}

/// The rows that read each row of an input.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ReadersSums {
    pub from: *const f32,
    pub to: *mut c_void,
    pub readers: *const c_void,
    pub readers_end: *const c_void,
    /// Where the number of rows is, behind which zeros are written up to `count`; null for `count`.
    pub script: *const c_void,
    pub count: i32,
    pub columns: i32,
}

/// Memory for zeros.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Zeros {
    pub to: *mut c_void,
    pub bytes: usize,
}

/// The scores of vertices, which become their gradients.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Scores {
    pub scores: *mut c_void,
    pub labels: *const i32,
    pub losses: *mut f32,
    /// Where a static batch's rows of each kind are; null for `rows`.
    pub kinds: *const c_void,
    pub kind_count: i32,
    pub rows: i32,
    pub columns: i32,
}

/// The losses of vertices.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Losses {
    pub losses: *const f32,
    pub labels: *const i32,
    pub kinds: *const c_void,
    /// The place for the mean, or null.
    pub loss: *mut f32,
    /// The place for 1 over the number of labelled vertices.
    pub share: *mut f32,
    pub kind_count: i32,
    pub rows: i32,
    pub columns: i32,
}

/// A parameter's step of gradient descent.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Descent {
    pub gradient: Parts,
    pub to: *mut c_void,
    pub share: *const f32,
    pub rate: f32,
    pub decay: f32,
}

/// A table's step of gradient descent.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DescentOfRows {
    pub its: RowsOfTable,
    pub to: *mut c_void,
    pub share: *const f32,
    pub rate: f32,
}

/// The rules of optimizers. Twin of the enum in `kernels/dynamic/updates.cuh`.
#[repr(u32)]
#[derive(Clone, Copy)]
pub enum RuleSort {
    Momentum,
    Nesterov,
    Adam,
    AdamW,
}

/// The numbers of a rule for a step. Their place has [`RULE_BYTES`].
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RuleOfStep {
    /// The parts of moments that a step keeps: the momentum, or Adam's betas.
    pub first_left: f64,
    pub second_left: f64,
    /// `[2]` The powers of Adam's betas; null for other rules.
    pub powers: *mut f64,
    pub rule: *mut c_void,
    pub rate: f32,
    pub decay: f32,
    pub epsilon: f32,
    pub sort: RuleSort,
}

/// The bytes of the kernels' struct `Rule`.
pub const RULE_BYTES: usize = 10 * size_of::<f32>();

/// A parameter's change by a rule.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Update {
    pub gradient: Parts,
    pub to: *mut c_void,
    /// The moments, in float; the second one is Adam's.
    pub first: *mut f32,
    pub second: *mut f32,
    pub share: *const f32,
    pub rule: *const c_void,
}
