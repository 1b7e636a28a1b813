//! Checks the arrays of a run, before the first of them is touched.

use std::ffi::c_void;
use std::slice;

use cudnn_abi::*;
use guest::refusal::Refusal;
use vertex::function::{Declaration, MOST_PARAMETERS, MOST_PULLS_AND_PUSHES};
use vertex::host::Rule;

use super::given::{check, misaligned, null};
use super::types::{ucudnnOptimizer_t, ucudnnVertexNetArguments_t};

/// What a call runs.
#[derive(Clone, Copy, Debug)]
pub enum Call<'a> {
    Forward,
    Backward,
    /// With the output that has the scores, and an optimizer, whose rule was read.
    Step(usize, Option<(Rule, &'a ucudnnOptimizer_t)>),
}

/// The pointers of a run, checked. Those that a call does not take are empty.
#[derive(Clone, Copy)]
pub struct Pointers<'a> {
    pub parameters: &'a [*const c_void],
    pub pulls: &'a [*const c_void],
    pub pushes: &'a [*mut c_void],
    pub push_gradients: &'a [*const c_void],
    pub pull_gradients: &'a [*mut c_void],
    pub parameter_gradients: &'a [*mut c_void],
    /// An optimizer's first and second moments.
    pub moments: [&'a [*mut c_void]; 2],
}

/// What the arrays of a run are checked for.
#[derive(Clone, Copy)]
pub struct Sizes {
    /// The bytes of a tensor's element, and of a sum's.
    pub element: usize,
    pub sum: usize,
    /// The rows of inputs, and of outputs.
    pub rows: usize,
    pub vertices: usize,
    /// The bytes of workspace and reserve that the run takes, and their alignment.
    pub workspace: usize,
    pub reserve: usize,
    pub alignment: usize,
}

/// An array of the caller's.
#[derive(Clone, Copy)]
struct Array {
    name: &'static str,
    /// Its place among several of the name.
    number: Option<usize>,
    first: usize,
    bytes: usize,
    is_result: bool,
}

impl std::fmt::Display for Array {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.number {
            Some(number) => write!(to, "{}[{number}]", self.name),
            None => to.write_str(self.name),
        }
    }
}

const MOST_ARRAYS: usize = 4 * MOST_PARAMETERS + 4 * MOST_PULLS_AND_PUSHES + 5;

/// The arrays of a run, which are checked before the first of them is touched.
struct Arrays {
    all: [Array; MOST_ARRAYS],
    count: usize,
}

impl Arrays {
    fn new() -> Self {
        let none = Array { name: "", number: None, first: 0, bytes: 0, is_result: false };
        Self { all: [none; MOST_ARRAYS], count: 0 }
    }

    /// Notes an array of `count` elements. An empty one may be null.
    fn add<T>(
        &mut self,
        first: *const T,
        count: usize,
        (name, number): (&'static str, Option<usize>),
        is_result: bool,
    ) -> Result<(), Refusal> {
        let bytes = count * size_of::<T>();
        self.add_bytes(Array { name, number, first: first.addr(), bytes, is_result }, align_of::<T>())
    }

    /// Notes an array that is aligned to `alignment` bytes.
    fn add_bytes(&mut self, array: Array, alignment: usize) -> Result<(), Refusal> {
        if array.bytes == 0 {
            return Ok(());
        }
        if array.first == 0 {
            return Err(null(&array.to_string()));
        }
        if !array.first.is_multiple_of(alignment) {
            return Err(misaligned(&array.to_string(), alignment));
        }
        self.all[self.count] = array;
        self.count += 1;
        Ok(())
    }

    /// Refuses a result that lies in another array.
    fn check(&self) -> Result<(), Refusal> {
        let all = &self.all[..self.count];
        for (place, one) in all.iter().enumerate() {
            for other in &all[..place] {
                let end = |array: &Array| array.first.saturating_add(array.bytes);
                let meet = one.first < end(other) && other.first < end(one);
                if meet && (one.is_result || other.is_result) {
                    return Err(Refusal::new(CUDNN_STATUS_BAD_PARAM, format!("{other} and {one} overlap")));
                }
            }
        }
        Ok(())
    }
}

/// The pointers of an array of pointers; none if it is null and may be.
///
/// # Safety
/// `first` is null or misaligned, or leads to `count` pointers.
unsafe fn pointers<'a, T>(
    first: *const T,
    count: usize,
    name: &'static str,
    may_be_null: bool,
) -> Result<&'a [T], Refusal> {
    if count == 0 || (first.is_null() && may_be_null) {
        return Ok(&[]);
    }
    check(first, name)?;
    // SAFETY: the caller's promise.
    Ok(unsafe { slice::from_raw_parts(first, count) })
}

/// Checks the arrays of a run, before the first of them is touched.
///
/// # Safety
/// The arrays of pointers are null or misaligned, or as long as the net's declaration says.
pub unsafe fn checked<'a>(
    declaration: &Declaration,
    given: &ucudnnVertexNetArguments_t,
    sizes: Sizes,
    call: Call<'_>,
) -> Result<Pointers<'a>, Refusal> {
    let (parameters, pulls, pushes) = (declaration.parameters.len(), declaration.pulls.len(), declaration.pushes.len());
    let (is_backward, is_step) = (matches!(call, Call::Backward), matches!(call, Call::Step(..)));
    let optimizer = if let Call::Step(_, optimizer) = call { optimizer } else { None };
    let moment = |which: usize| optimizer.filter(|(rule, _)| which < rule.moments()).map(|(_, its)| its);
    // SAFETY: the caller promises the arrays of pointers.
    let its = unsafe {
        Pointers {
            parameters: pointers(given.parameters, parameters, "parameters", false)?,
            pulls: pointers(given.pulls, pulls, "pulls", false)?,
            pushes: pointers(given.pushes, if matches!(call, Call::Forward) { pushes } else { 0 }, "pushes", false)?,
            push_gradients: pointers(
                given.pushGradients,
                if is_backward { pushes } else { 0 },
                "pushGradients",
                false,
            )?,
            pull_gradients: pointers(given.pullGradients, if is_backward { pulls } else { 0 }, "pullGradients", true)?,
            parameter_gradients: pointers(
                given.parameterGradients,
                if is_backward { parameters } else { 0 },
                "parameterGradients",
                true,
            )?,
            moments: [
                moment(0).map_or(Ok(&[][..]), |its| pointers(its.firstMoments, parameters, "firstMoments", false))?,
                moment(1).map_or(Ok(&[][..]), |its| pointers(its.secondMoments, parameters, "secondMoments", false))?,
            ],
        }
    };
    let Sizes { rows, vertices, element, sum, .. } = sizes;
    let parameter_size = |number: usize| declaration.parameters[number].elements() * element;
    let pull_size = |number: usize| declaration.pulls[number] * rows * element;
    let push_size = |number: usize| declaration.pushes[number] * vertices * element;
    let mut arrays = Arrays::new();
    let mut add = |name, number, first: usize, bytes, is_result| {
        arrays.add_bytes(Array { name, number: Some(number), first, bytes, is_result }, element)
    };
    for (number, pointer) in its.parameters.iter().enumerate() {
        add("parameters", number, pointer.addr(), parameter_size(number), is_step)?;
    }
    for (number, pointer) in its.pulls.iter().enumerate().filter(|(number, _)| declaration.pulls[*number] > 0) {
        add("pulls", number, pointer.addr(), pull_size(number), false)?;
    }
    for (number, pointer) in its.pushes.iter().enumerate().filter(|(_, pointer)| !pointer.is_null()) {
        add("pushes", number, pointer.addr(), push_size(number), true)?;
    }
    for (number, pointer) in its.pull_gradients.iter().enumerate().filter(|(_, pointer)| !pointer.is_null()) {
        add("pullGradients", number, pointer.addr(), pull_size(number), true)?;
    }
    for (number, pointer) in its.parameter_gradients.iter().enumerate().filter(|(_, pointer)| !pointer.is_null()) {
        add("parameterGradients", number, pointer.addr(), parameter_size(number), true)?;
    }
    for (number, pointer) in its.push_gradients.iter().enumerate().filter(|(_, pointer)| !pointer.is_null()) {
        add("pushGradients", number, pointer.addr(), push_size(number), false)?;
    }
    for (number, pointer) in its.pulls.iter().enumerate().filter(|(number, _)| declaration.pulls[*number] == 0) {
        arrays.add(pointer.cast::<i64>(), rows, ("pulls", Some(number)), false)?;
    }
    if is_step {
        arrays.add(given.labels, vertices, ("labels", None), false)?;
        if !given.loss.is_null() {
            arrays.add(given.loss, 1, ("loss", None), true)?;
        }
    }
    for (name, moments) in ["firstMoments", "secondMoments"].into_iter().zip(its.moments) {
        for (number, pointer) in moments.iter().enumerate() {
            let bytes = declaration.parameters[number].elements() * sum;
            arrays
                .add_bytes(Array { name, number: Some(number), first: pointer.addr(), bytes, is_result: true }, sum)?;
        }
    }
    if let Some(its) = moment(1) {
        arrays.add(its.betaPowers, 2, ("betaPowers", None), true)?;
    }
    let spaces = [
        ("workspace", given.workspace, given.workspaceSizeInBytes, sizes.workspace),
        ("reserve", given.reserve, given.reserveSizeInBytes, sizes.reserve),
    ];
    for (name, pointer, bytes, needed) in spaces {
        if bytes < needed {
            let why = format!("{name}SizeInBytes is {bytes}; the run needs {needed}");
            return Err(Refusal::new(CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT, why));
        }
        let array = Array { name, number: None, first: pointer.addr(), bytes: needed, is_result: true };
        arrays.add_bytes(array, sizes.alignment)?;
    }
    arrays.check()?;
    Ok(its)
}
