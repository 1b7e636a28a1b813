//! Dynamic nets: vertex functions over batches of input graphs.

use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_longlong, c_void};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ptr;
use std::slice;
use std::sync::Arc;

use cudnn_abi::*;
use parking_lot::Mutex;

use super::descriptions::write_text;
use super::handles::Handles;
use super::refusals::{Refusals, check, null};
use super::vertex_arguments::{self, Call, Kind, Sizes, ucudnnVertexNetArguments_t};
use dynamic::{Bytes, DeviceBatch, Gradients, Inputs, Options, Without};
use gpu::{Element, Entered};
use guest::refusal::Refusal;
use guest::settings::Dynamic;
use vertex::batch::{Batch, Maxima, Policy};
use vertex::function::{
    Arity, Declaration, Function, MOST_FUNCTIONS, MOST_OPERATIONS, MOST_PARAMETERS, MOST_PULLS_AND_PUSHES, MOST_STATES,
    Net, Op, Operation, ParameterSize,
};
use vertex::graphs::{self, Graphs};
use vertex::host::{Executor, Memory, Threads};

/// What an operation of a vertex function does. x and y are inputs[0] and inputs[1], the numbers of earlier operations
/// in the list; m and n are arguments[0] and arguments[1]; c is constant. What an operation does not take is 0.
///
/// A value is the vertex's, or each child's. Where both meet in one operation, the vertex's is used for every child.
/// Widths are equal where they meet, or one of them is 1 and is used for every element.
pub type ucudnnVertexOp_t = c_int;
/// The vertex's row of input m; zeros where it has none.
pub const UCUDNN_VERTEX_PULL: ucudnnVertexOp_t = 0;
/// The vertex's index in input m; only UCUDNN_VERTEX_LOOKUP takes it.
pub const UCUDNN_VERTEX_PULL_INDEX: ucudnnVertexOp_t = 1;
/// The row of parameter m that the index x names.
pub const UCUDNN_VERTEX_LOOKUP: ucudnnVertexOp_t = 2;
/// State n of the child in slot m; zeros where there is none.
pub const UCUDNN_VERTEX_GATHER: ucudnnVertexOp_t = 3;
/// State m of each child.
pub const UCUDNN_VERTEX_CHILDREN: ucudnnVertexOp_t = 4;
/// Parameter m, a matrix, times x.
pub const UCUDNN_VERTEX_MATMUL: ucudnnVertexOp_t = 5;
/// x plus parameter m, a vector.
pub const UCUDNN_VERTEX_BIAS: ucudnnVertexOp_t = 6;
/// x + y.
pub const UCUDNN_VERTEX_ADD: ucudnnVertexOp_t = 7;
/// x - y.
pub const UCUDNN_VERTEX_SUB: ucudnnVertexOp_t = 8;
/// x times y, element by element.
pub const UCUDNN_VERTEX_MUL: ucudnnVertexOp_t = 9;
/// c x.
pub const UCUDNN_VERTEX_SCALE: ucudnnVertexOp_t = 10;
/// x + c.
pub const UCUDNN_VERTEX_SHIFT: ucudnnVertexOp_t = 11;
/// 1 / (1 + exp(-x)).
pub const UCUDNN_VERTEX_SIGMOID: ucudnnVertexOp_t = 12;
/// tanh(x).
pub const UCUDNN_VERTEX_TANH: ucudnnVertexOp_t = 13;
/// max(x, 0).
pub const UCUDNN_VERTEX_RELU: ucudnnVertexOp_t = 14;
/// exp(x).
pub const UCUDNN_VERTEX_EXP: ucudnnVertexOp_t = 15;
/// The sum of x over the children; zeros without children, as for the next two.
pub const UCUDNN_VERTEX_SUM_CHILDREN: ucudnnVertexOp_t = 16;
/// The mean of x over the children.
pub const UCUDNN_VERTEX_MEAN_CHILDREN: ucudnnVertexOp_t = 17;
/// The greatest of x over the children, element by element. The first child that has it gets the gradient.
pub const UCUDNN_VERTEX_MAX_CHILDREN: ucudnnVertexOp_t = 18;
/// exp(x) over its sum over the children, element by element: a value of each child.
pub const UCUDNN_VERTEX_SOFTMAX_CHILDREN: ucudnnVertexOp_t = 19;
/// exp(x) over its sum over x's elements.
pub const UCUDNN_VERTEX_SOFTMAX: ucudnnVertexOp_t = 20;
/// The sum of x's elements, a value of width 1.
pub const UCUDNN_VERTEX_SUM: ucudnnVertexOp_t = 21;
/// x, then y.
pub const UCUDNN_VERTEX_CONCAT: ucudnnVertexOp_t = 22;
/// n elements of x from element m on.
pub const UCUDNN_VERTEX_SLICE: ucudnnVertexOp_t = 23;
/// Hands x on to the parents as state m. Makes no value.
pub const UCUDNN_VERTEX_SCATTER: ucudnnVertexOp_t = 24;
/// The vertex's row of output m is x. Makes no value.
pub const UCUDNN_VERTEX_PUSH: ucudnnVertexOp_t = 25;

/// The loss of ucudnnRunVertexNetStep.
pub type ucudnnLoss_t = c_int;
/// None: the net takes no steps.
pub const UCUDNN_LOSS_NONE: ucudnnLoss_t = 0;
/// The mean, over the vertices with a label, of the cross-entropy of softmax(output) and label.
pub const UCUDNN_LOSS_CROSS_ENTROPY: ucudnnLoss_t = 1;

/// An operation of a vertex function. Its value has the operation's number in the list.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucudnnVertexOperation_t {
    /// A ucudnnVertexOp_t.
    pub op: ucudnnVertexOp_t,
    /// The numbers of earlier operations.
    pub inputs: [c_int; 3],
    /// Numbers of parameters, states, inputs, outputs, slots or elements.
    pub arguments: [c_longlong; 2],
    /// The constant of UCUDNN_VERTEX_SCALE and UCUDNN_VERTEX_SHIFT.
    pub constant: f64,
}

/// The computation of the vertices of a kind.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucudnnVertexFunction_t {
    /// The slots for children of its vertices, some of which may be empty; -1 for any number of children.
    pub children: c_int,
    /// The number of operations, at most 512.
    pub operationCount: c_int,
    /// The operations, each behind those that it takes from.
    pub operations: *const ucudnnVertexOperation_t,
}

/// The description of a net. Unused fields are 0. Nothing in it is read after ucudnnCreateVertexNet.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucudnnVertexNetDescription_t {
    /// The type of parameters, inputs and outputs: CUDNN_DATA_FLOAT, CUDNN_DATA_DOUBLE, CUDNN_DATA_HALF or
    /// CUDNN_DATA_BFLOAT16. Sums of the last two are float, and states are rounded to the type.
    pub dataType: cudnnDataType_t,
    /// Not 0: products of floats may be rounded to TF32 first. The host does not.
    pub allowTf32: c_int,
    /// Not 0: runs forward keep the values that runs backward need.
    pub isTraining: c_int,
    /// Not 0: the net runs on the host, and all memory is the host's. 0: on the calling thread's device.
    pub isOnHost: c_int,
    /// The threads of a run on the host; 0 for one a core.
    pub hostThreads: c_int,
    /// Not 0, on a device: runs may be captured into a CUDA graph, whose replays run whatever batch is set when they
    /// run. All runs of the net, captured or not, then launch what the largest batch needs, so that maxima should be
    /// close to what batches have; inputs and outputs have maxVertices rows, results those behind the batch's as zeros;
    /// and maxLevels is at most 1,024. The graphs that a batch is set to first decide which kernels its levels run on:
    /// any others run too, and those of like size run fastest.
    pub isStatic: c_int,
    /// The number of states, at most 8.
    pub stateCount: c_int,
    /// The number of parameters, at most 64.
    pub parameterCount: c_int,
    /// The number of inputs, at most 64.
    pub pullCount: c_int,
    /// The number of outputs, 1 to 64.
    pub pushCount: c_int,
    /// The number of functions, 1 to 16: one for each kind of vertex.
    pub functionCount: c_int,
    /// The width of each state, 1 to 65,536.
    pub stateWidths: *const c_int,
    /// The width of each input; 0 for one of indices, which are long long.
    pub pullWidths: *const c_int,
    /// The width of each output.
    pub pushWidths: *const c_int,
    /// The rows and columns of each parameter; 0 columns for a vector.
    pub parameterSizes: *const [c_int; 2],
    /// The functions.
    pub functions: *const ucudnnVertexFunction_t,
    /// A ucudnnLoss_t.
    pub loss: ucudnnLoss_t,
    /// The output with the scores of the classes.
    pub lossPush: c_int,
    /// The most graphs of a batch.
    pub maxGraphs: c_longlong,
    /// The most vertices of a batch.
    pub maxVertices: c_longlong,
    /// The most slots for children of a batch.
    pub maxChildren: c_longlong,
    /// The most levels of a graph.
    pub maxLevels: c_longlong,
    /// Null.
    pub configuration: *const c_char,
}

/// The description of input graphs. Nothing in it is read after ucudnnCreateGraphs.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucudnnGraphsDescription_t {
    /// The number of graphs.
    pub graphs: c_longlong,
    /// [graphs + 1] The first vertex of each graph, and behind the last one the number of all vertices.
    pub firstVertex: *const c_longlong,
    /// [vertices + 1] The first slot of each vertex, and behind the last one the number of all slots.
    pub firstChild: *const c_longlong,
    /// [slots] The child in each slot, as the number of a vertex in its graph; -1 for none.
    pub children: *const c_int,
    /// [vertices] The kind of each vertex, the number of its function. Null: the number of slots decides; the function
    /// for that number, else the first for any number.
    pub kinds: *const u8,
    /// [vertices] The row of the graph's inputs that each vertex pulls; -1 for none. A graph has one row of each
    /// input more than the largest number, and no more than vertices. Null: each vertex pulls the row of its number.
    pub rows: *const c_int,
}

/// What a batch has, or a set of graphs.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ucudnnGraphBatchSizes_t {
    /// Graphs.
    pub graphs: c_longlong,
    /// Vertices: the rows of each output. They are those of the first graph, then those of the next.
    pub vertices: c_longlong,
    /// Slots for children.
    pub children: c_longlong,
    /// Levels of the highest graph.
    pub levels: c_longlong,
    /// The rows of each input: those of the first graph, then those of the next.
    pub rows: c_longlong,
}

/// A net.
pub struct ucudnnVertexNetStruct(());
/// A net from ucudnnCreateVertexNet, valid until ucudnnDestroyVertexNet.
pub type ucudnnVertexNet_t = *mut ucudnnVertexNetStruct;
/// Input graphs.
pub struct ucudnnGraphsStruct(());
/// Graphs from ucudnnCreateGraphs, valid until ucudnnDestroyGraphs. Any net may use them.
pub type ucudnnGraphs_t = *mut ucudnnGraphsStruct;
/// A batch of graphs.
pub struct ucudnnGraphBatchStruct(());
/// A batch from ucudnnCreateGraphBatch, valid until ucudnnDestroyGraphBatch.
pub type ucudnnGraphBatch_t = *mut ucudnnGraphBatchStruct;

thread_local! {
    /// The reason of the thread's last failure here.
    static WHY: RefCell<String> = const { RefCell::new(String::new()) };
}

static REFUSALS: Refusals = Refusals::new(&WHY);
static NETS: Handles<VertexNet> = Handles::new();
static GRAPHS: Handles<Graphs> = Handles::new();
static BATCHES: Handles<GraphBatch> = Handles::new();

/// The most levels of a static net: each has its launches.
const MOST_STATIC_LEVELS: usize = 1024;

/// A net, and what its batches may have.
struct VertexNet {
    runs: Runs,
    maxima: Maxima,
    /// The output with the scores, if the net takes steps.
    loss_push: Option<usize>,
}

/// Where a net runs.
enum Runs {
    OnHost(Box<Executor>, Kind),
    OnDevice(Box<dynamic::Net>),
}

/// A batch, and the net that it was made for. Runs of it follow each other.
struct GraphBatch {
    net: Arc<VertexNet>,
    batch: Mutex<Batches>,
}

/// A batch on the host, and on the net's device.
struct Batches {
    batch: Batch,
    on_device: Option<DeviceBatch>,
    /// [`number_of_graphs`] that it was set to last; 0 before. A reserve on the host has it too.
    graphs: u64,
}

/// A number, not 0, that tells these graphs in a batch from others. Handles have no more than one object.
fn number_of_graphs(batch: usize, graphs: usize, ids: &[c_longlong]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (batch, graphs, ids).hash(&mut hasher);
    hasher.finish() | 1
}

impl VertexNet {
    fn net(&self) -> &Net {
        match &self.runs {
            Runs::OnHost(executor, _) => executor.net(),
            Runs::OnDevice(net) => net.net(),
        }
    }

    fn is_training(&self) -> bool {
        match &self.runs {
            Runs::OnHost(executor, _) => executor.is_training(),
            Runs::OnDevice(net) => net.is_training(),
        }
    }

    /// Its runs may be captured.
    fn is_static(&self) -> bool {
        matches!(&self.runs, Runs::OnDevice(net) if net.is_static())
    }

    /// The bytes of workspace and reserve that all runs of a batch take, or of any batch within the maxima.
    fn memory(&self, batch: Option<&Batch>) -> [usize; 2] {
        match &self.runs {
            Runs::OnHost(executor, kind) => {
                let memory = self.memory_on_host(executor, *kind, batch, self.loss_push);
                vertex_arguments::bytes(*kind, executor, memory)
            }
            Runs::OnDevice(net) => {
                let bytes = self.memory_on_device(net, batch, self.loss_push);
                [bytes.workspace, bytes.reserve]
            }
        }
    }

    fn memory_on_host(&self, executor: &Executor, kind: Kind, batch: Option<&Batch>, step: Option<usize>) -> Memory {
        let vertices = batch.map_or(self.maxima.vertices, Batch::vertices);
        let memory = kind.memory(executor, batch, &self.maxima);
        step.map_or(memory, |push| executor.with_step(memory, push, vertices))
    }

    fn memory_on_device(&self, net: &dynamic::Net, batch: Option<&Batch>, step: Option<usize>) -> Bytes {
        let bytes = batch.map_or_else(|| net.most_memory(&self.maxima), |batch| net.memory(batch));
        let vertices = batch.filter(|_| !net.is_static()).map_or(self.maxima.vertices, Batch::vertices);
        step.map_or(bytes, |push| net.with_step(bytes, push, vertices))
    }

    /// Makes the net's device the calling thread's while the result lives. `None` on the host.
    fn enter(&self) -> Result<Option<Entered>, Refusal> {
        let Runs::OnDevice(net) = &self.runs else { return Ok(None) };
        let ordinal = net.device().ordinal();
        let mismatch = || {
            let why = format!("the net is for device {}, and the calling thread's is {ordinal}", net.ordinal());
            Refusal::new(CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH, why)
        };
        net.device().enter(ordinal).filter(|_| ordinal == net.ordinal()).map(Some).ok_or_else(mismatch)
    }
}

fn bad(why: impl std::fmt::Display) -> Refusal {
    Refusal::new(CUDNN_STATUS_BAD_PARAM, why)
}

fn find<T>(all: &Handles<T>, handle: usize, name: &str, what: &str) -> Result<Arc<T>, Refusal> {
    if handle == 0 {
        return Err(null(name));
    }
    all.find(handle).ok_or_else(|| unknown(name, what))
}

fn unknown(name: &str, what: &str) -> Refusal {
    bad(format!("{name} is no {what}, or was destroyed"))
}

/// Forgets a handle. Of several calls with the same handle, one succeeds.
fn destroy<T>(all: &Handles<T>, handle: usize, name: &str, what: &str) -> Result<(), Refusal> {
    find(all, handle, name, what)?;
    all.remove(handle).map(drop).ok_or_else(|| unknown(name, what))
}

/// The numbers at an address that the caller gave.
///
/// # Safety
/// `first` is null, or `count` numbers lie there.
unsafe fn numbers<'a, T>(first: *const T, count: usize, name: &str) -> Result<&'a [T], Refusal> {
    if count == 0 {
        return Ok(&[]);
    }
    check(first, name)?;
    // SAFETY: neither null nor misaligned, and the caller promises the numbers.
    Ok(unsafe { slice::from_raw_parts(first, count) })
}

fn count(number: c_int, name: &str, most: usize) -> Result<usize, Refusal> {
    let count = usize::try_from(number).ok().filter(|count| *count <= most);
    count.ok_or_else(|| bad(format!("{name} is {number}; 0 to {most} are accepted")))
}

fn widths(given: &[c_int], name: &str) -> Result<Vec<usize>, Refusal> {
    let width = |(place, width): (usize, &c_int)| {
        usize::try_from(*width).map_err(|_| bad(format!("{name}[{place}] is {width}; it is not negative")))
    };
    given.iter().enumerate().map(width).collect()
}

/// Reads a description into a declaration.
///
/// # Safety
/// Its pointers are null, or to as many numbers as its counts say.
unsafe fn declaration(given: &ucudnnVertexNetDescription_t) -> Result<Declaration, Refusal> {
    let states = count(given.stateCount, "stateCount", MOST_STATES)?;
    let parameters = count(given.parameterCount, "parameterCount", MOST_PARAMETERS)?;
    let pulls = count(given.pullCount, "pullCount", MOST_PULLS_AND_PUSHES)?;
    let pushes = count(given.pushCount, "pushCount", MOST_PULLS_AND_PUSHES)?;
    let functions = count(given.functionCount, "functionCount", MOST_FUNCTIONS)?;
    // SAFETY: the caller promises the arrays.
    let (states, pulls, pushes, sizes, functions) = unsafe {
        (
            numbers(given.stateWidths, states, "stateWidths")?,
            numbers(given.pullWidths, pulls, "pullWidths")?,
            numbers(given.pushWidths, pushes, "pushWidths")?,
            numbers(given.parameterSizes, parameters, "parameterSizes")?,
            numbers(given.functions, functions, "functions")?,
        )
    };
    let rows: Vec<_> = sizes.iter().map(|size| size[0]).collect();
    let columns: Vec<_> = sizes.iter().map(|size| size[1]).collect();
    let sizes = widths(&rows, "the rows of parameterSizes")?.into_iter();
    let sizes = sizes.zip(widths(&columns, "the columns of parameterSizes")?);
    let mut declaration = Declaration {
        states: widths(states, "stateWidths")?,
        parameters: sizes.map(|(rows, columns)| ParameterSize { rows, columns }).collect(),
        pulls: widths(pulls, "pullWidths")?,
        pushes: widths(pushes, "pushWidths")?,
        functions: vec![],
    };
    for (place, function) in functions.iter().enumerate() {
        let children = match function.children {
            -1 => Arity::Any,
            slots => Arity::Exactly(
                usize::try_from(slots)
                    .map_err(|_| bad(format!("function {place}: children is {slots}; -1, 0 or more are accepted")))?,
            ),
        };
        let name = |field| format!("function {place}: {field}");
        let operations = count(function.operationCount, &name("operationCount"), MOST_OPERATIONS)?;
        // SAFETY: the caller promises the operations.
        let operations = unsafe { numbers(function.operations, operations, &name("operations"))? };
        let read = |(number, given): (usize, &ucudnnVertexOperation_t)| {
            operation(given).map_err(|why| bad(format!("function {place}, operation {number}: {why}")))
        };
        let operations = operations.iter().enumerate().map(read).collect::<Result<_, _>>()?;
        declaration.functions.push(Function { children, operations });
    }
    Ok(declaration)
}

fn operation(given: &ucudnnVertexOperation_t) -> Result<Operation, String> {
    let op = usize::try_from(given.op).ok().and_then(Op::of_user);
    let op =
        op.ok_or_else(|| format!("op is {}; {} to {} are accepted", given.op, UCUDNN_VERTEX_PULL, UCUDNN_VERTEX_PUSH))?;
    let mut read = Operation::with_constant(op, 0, given.constant);
    for (input, given) in read.inputs.iter_mut().zip(given.inputs) {
        *input = usize::try_from(given).map_err(|_| format!("`{}`: input {given}; it is not negative", op.name()))?;
    }
    for (argument, given) in read.arguments.iter_mut().zip(given.arguments) {
        *argument =
            usize::try_from(given).map_err(|_| format!("`{}`: argument {given}; it is not negative", op.name()))?;
    }
    let (inputs, arguments) = (read.inputs().len(), read.arguments().len());
    let is_free = read.inputs[inputs..].iter().chain(&read.arguments[arguments..]).all(|unused| *unused == 0);
    if !is_free || !(matches!(op, Op::Scale | Op::Shift) || given.constant == 0.0) {
        let constant = if matches!(op, Op::Scale | Op::Shift) { "its constant" } else { "no constant" };
        let takes = format!("it takes {inputs} inputs, {arguments} arguments and {constant}");
        return Err(format!("`{}`: {takes}; the other fields are 0", op.name()));
    }
    Ok(read)
}

/// Makes a net on the calling thread's device.
fn on_device(net: &Net, options: Options) -> Result<dynamic::Net, Refusal> {
    let device = cudnn::device();
    let none = || {
        let why = "the calling thread has no CUDA device: CUDA's driver is missing, or knows of none";
        Refusal::new(CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING, why)
    };
    let _entered = device.enter(device.ordinal()).ok_or_else(none)?;
    dynamic::Net::new(net, device, options).map_err(|why| Refusal::new(CUDNN_STATUS_NOT_SUPPORTED, why))
}

/// Makes a net. With isOnHost 0 it is made for the calling thread's current device, where compiling its kernels takes a
/// second or two for the first time; needs CUDA's driver and NVRTC, but not cuDNN, and uses cublasLt if it finds it. The
/// calling thread must not be capturing a stream.
///
/// CUDNN_STATUS_BAD_PARAM: the description is not accepted. CUDNN_STATUS_NOT_SUPPORTED: configuration is not null; or,
/// on a device, the type is double, or the kernels do not compile.
/// CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING: there is no device. An error makes no net, and
/// ucudnnGetVertexNetErrorString gives the details: the function, the operation, and the values that are accepted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnCreateVertexNet(
    net: *mut ucudnnVertexNet_t,
    description: *const ucudnnVertexNetDescription_t,
) -> cudnnStatus_t {
    REFUSALS.answered(|| {
        check(net, "net")?;
        check(description, "description")?;
        // SAFETY: neither null nor misaligned, and the caller promises a description.
        let given = unsafe { &*description };
        let unsupported = |why: &str| Refusal::new(CUDNN_STATUS_NOT_SUPPORTED, why);
        if !given.configuration.is_null() {
            return Err(unsupported("configuration is not null; nets have none yet"));
        }
        let kind = Kind::of(given.dataType).ok_or_else(|| {
            bad(format!("dataType is {}; float, double, half and bfloat16 are accepted", given.dataType))
        })?;
        // SAFETY: the caller promises what the description points to.
        let checked = Net::new(unsafe { declaration(given)? }).map_err(bad)?;
        let loss_push = match given.loss {
            UCUDNN_LOSS_NONE => None,
            UCUDNN_LOSS_CROSS_ENTROPY => {
                Some(count(given.lossPush, "lossPush", checked.declaration().pushes.len() - 1)?)
            }
            loss => return Err(bad(format!("loss is {loss}; 0 and 1 are accepted"))),
        };
        if loss_push.is_some() && given.isTraining == 0 {
            return Err(bad("a loss is given, and isTraining is 0; a step trains"));
        }
        let most = |number: c_longlong, name: &str| {
            usize::try_from(number).map_err(|_| bad(format!("{name} is {number}; it is not negative")))
        };
        let maxima = Maxima {
            graphs: most(given.maxGraphs, "maxGraphs")?,
            vertices: most(given.maxVertices, "maxVertices")?,
            children: most(given.maxChildren, "maxChildren")?,
            levels: most(given.maxLevels, "maxLevels")?,
        };
        maxima.check().map_err(bad)?;
        let threads = Threads::new(count(given.hostThreads, "hostThreads", 4096)?);
        for warning in checked.warnings() {
            log::warn!("vertex net: {warning}");
        }
        let (is_training, is_static) = (given.isTraining != 0, given.isStatic != 0);
        if is_static && given.isOnHost != 0 {
            return Err(bad("isStatic and isOnHost are not 0; only runs on a device are captured"));
        }
        if is_static && maxima.levels > MOST_STATIC_LEVELS {
            let most = maxima.levels;
            return Err(bad(format!("maxLevels is {most}; a static net has at most {MOST_STATIC_LEVELS}")));
        }
        let runs = if given.isOnHost != 0 {
            Runs::OnHost(Box::new(Executor::new(&checked, is_training, threads)), kind)
        } else {
            let element = Element::of(given.dataType);
            let element =
                element.ok_or_else(|| unsupported("dataType is double; on a device, nets are of other types"))?;
            let chosen = guest::settings::get().dynamic;
            let without = match chosen {
                Dynamic::Auto | Dynamic::Batched | Dynamic::Persistent(_) => Without::Nothing,
                Dynamic::Unfused => Without::Fusion,
                Dynamic::Unbatched => Without::Batching,
            };
            let executor = match chosen {
                Dynamic::Auto => dynamic::Executor::Auto,
                Dynamic::Persistent(groups) => dynamic::Executor::Persistent { groups },
                Dynamic::Batched | Dynamic::Unfused | Dynamic::Unbatched => dynamic::Executor::Batched,
            };
            let tf32 = given.allowTf32 != 0;
            let options = Options { element, is_training, tf32, is_static, without, executor };
            Runs::OnDevice(Box::new(on_device(&checked, options)?))
        };
        let made = NETS.keep(VertexNet { runs, maxima, loss_push });
        // SAFETY: not null, and the caller promises a place for the net.
        unsafe { net.write(ptr::without_provenance_mut(made)) };
        Ok(())
    })
}

/// Destroys a net. Its batches run no more; they are destroyed as ever, before or behind it.
///
/// CUDNN_STATUS_BAD_PARAM: net is no net, or was destroyed before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnDestroyVertexNet(net: ucudnnVertexNet_t) -> cudnnStatus_t {
    REFUSALS.answered(|| destroy(&NETS, net.addr(), "net", "net"))
}

/// Makes input graphs: copies, checks and levels them.
///
/// CUDNN_STATUS_BAD_PARAM: a number is out of range, or a vertex is its own descendant. An error makes no graphs, and
/// ucudnnGetVertexNetErrorString names the graph and the vertex.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnCreateGraphs(
    graphs: *mut ucudnnGraphs_t,
    description: *const ucudnnGraphsDescription_t,
) -> cudnnStatus_t {
    REFUSALS.answered(|| {
        check(graphs, "graphs")?;
        check(description, "description")?;
        // SAFETY: neither null nor misaligned, and the caller promises a description.
        let given = unsafe { &*description };
        let size = |number: c_longlong, name: &str, most: usize| match usize::try_from(number) {
            Ok(size) if size <= most => Ok(size),
            _ => Err(bad(format!("{name} is {number}; 0 to {most} are accepted"))),
        };
        let count = size(given.graphs, "graphs", i32::MAX as usize)?;
        // SAFETY: the caller promises the arrays, whose lengths are in them.
        let made = unsafe {
            let first_vertex = numbers(given.firstVertex, count + 1, "firstVertex")?;
            let vertices = size(first_vertex[count], "the end of firstVertex", i32::MAX as usize)?;
            let first_child = numbers(given.firstChild, vertices + 1, "firstChild")?;
            let slots = size(first_child[vertices], "the end of firstChild", i32::MAX as usize)?;
            let children = numbers(given.children, slots, "children")?;
            let kinds = match given.kinds.is_null() {
                true => None,
                false => Some(numbers(given.kinds, vertices, "kinds")?),
            };
            let rows = match given.rows.is_null() {
                true => None,
                false => Some(numbers(given.rows, vertices, "rows")?),
            };
            Graphs::new(&graphs::Description { first_vertex, first_child, children, kinds, rows }).map_err(bad)?
        };
        // SAFETY: not null, and the caller promises a place for the graphs.
        unsafe { graphs.write(ptr::without_provenance_mut(GRAPHS.keep(made))) };
        Ok(())
    })
}

/// Gets what a set of graphs has: graphs, vertices, slots, the levels of the highest graph, and rows of inputs.
///
/// CUDNN_STATUS_BAD_PARAM: graphs is none, or was destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnGetGraphsSizes(
    graphs: ucudnnGraphs_t,
    sizes: *mut ucudnnGraphBatchSizes_t,
) -> cudnnStatus_t {
    REFUSALS.answered(|| {
        let graphs = find(&GRAPHS, graphs.addr(), "graphs", "set of graphs")?;
        check(sizes, "sizes")?;
        let sum = |of: fn(&Graphs, usize) -> usize| (0..graphs.count()).map(|graph| of(&graphs, graph)).sum::<usize>();
        let (vertices, children, rows) = (sum(Graphs::vertices), sum(Graphs::slots), sum(Graphs::rows));
        let [graphs, vertices, children, levels, rows] =
            [graphs.count(), vertices, children, graphs.levels(), rows].map(|size| size as c_longlong);
        // SAFETY: not null, and the caller promises a place for the sizes.
        unsafe { sizes.write(ucudnnGraphBatchSizes_t { graphs, vertices, children, levels, rows }) };
        Ok(())
    })
}

/// Destroys graphs. Batches that were set from them stay as they are.
///
/// CUDNN_STATUS_BAD_PARAM: graphs is none, or was destroyed before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnDestroyGraphs(graphs: ucudnnGraphs_t) -> cudnnStatus_t {
    REFUSALS.answered(|| destroy(&GRAPHS, graphs.addr(), "graphs", "set of graphs"))
}

/// Makes memory for batches up to the net's maxima.
///
/// CUDNN_STATUS_BAD_PARAM: net is none. CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED: there is not so much
/// memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnCreateGraphBatch(
    batch: *mut ucudnnGraphBatch_t,
    net: ucudnnVertexNet_t,
) -> cudnnStatus_t {
    REFUSALS.answered(|| {
        check(batch, "batch")?;
        let net = find(&NETS, net.addr(), "net", "net")?;
        let refused = |why| Refusal::new(CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED, why);
        // A static net's launches are those of levels.
        let policy = if net.is_static() { Policy::Height } else { Policy::of(net.net()) };
        let mut made = Batch::new(net.maxima, net.net(), policy).map_err(refused)?;
        if let Runs::OnDevice(its) = &net.runs {
            made.deal_to(its.most_groups()).map_err(refused)?;
        }
        let _entered = net.enter()?;
        let on_device = match &net.runs {
            Runs::OnHost(..) => None,
            Runs::OnDevice(its) => Some(DeviceBatch::new(its, &net.maxima).ok_or_else(|| {
                let why = "no memory on the device for the arrays of a batch";
                Refusal::new(CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED, why)
            })?),
        };
        let made = GraphBatch { batch: Mutex::new(Batches { batch: made, on_device, graphs: 0 }), net };
        // SAFETY: not null, and the caller promises a place for the batch.
        unsafe { batch.write(ptr::without_provenance_mut(BATCHES.keep(made))) };
        Ok(())
    })
}

/// Destroys a batch. None of its runs may be under way any more.
///
/// CUDNN_STATUS_BAD_PARAM: batch is none, or was destroyed before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnDestroyGraphBatch(batch: ucudnnGraphBatch_t) -> cudnnStatus_t {
    REFUSALS.answered(|| destroy(&BATCHES, batch.addr(), "batch", "batch"))
}

/// Makes a batch of these graphs, ids[0 ... count - 1], in this order; one may stand there several times. Allocates
/// nothing once each of the graphs was in the batch. On a device, the batch is copied in the stream's order: runs on the
/// stream before it still have the old batch. The first batch of its size may compile the kernels that run it, for a second
/// or two. stream is unused for a net on the host.
///
/// CUDNN_STATUS_BAD_PARAM: the count or an id is out of range, the net has no function for a vertex, or the batch
/// exceeds the net's maxima. CUDNN_STATUS_NOT_SUPPORTED: the stream is being captured. The batch then is as it was.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnSetGraphBatch(
    batch: ucudnnGraphBatch_t,
    graphs: ucudnnGraphs_t,
    ids: *const c_longlong,
    count: c_longlong,
    stream: *mut c_void,
) -> cudnnStatus_t {
    REFUSALS.answered(|| {
        let handles = (batch.addr(), graphs.addr());
        let batch = find(&BATCHES, handles.0, "batch", "batch")?;
        let graphs = find(&GRAPHS, handles.1, "graphs", "set of graphs")?;
        let most = batch.net.maxima.graphs;
        let size = usize::try_from(count).ok().filter(|size| (1..=most).contains(size));
        let count =
            size.ok_or_else(|| bad(format!("count is {count}; 1 to {most}, the net's maxGraphs, are accepted")))?;
        // SAFETY: the caller promises the ids.
        let ids = unsafe { numbers(ids, count, "ids")? };
        let _entered = batch.net.enter()?;
        if let Runs::OnDevice(net) = &batch.net.runs
            && net.device().is_capturing(stream)
        {
            let why = "the stream is being captured; a batch is set before";
            return Err(Refusal::new(CUDNN_STATUS_NOT_SUPPORTED, why));
        }
        let mut set = batch.batch.lock();
        let Batches { batch: on_host, on_device, graphs: number } = &mut *set;
        on_host.set(batch.net.net(), &graphs, ids).map_err(bad)?;
        *number = number_of_graphs(handles.0, handles.1, ids);
        let (Runs::OnDevice(net), Some(on_device)) = (&batch.net.runs, on_device) else { return Ok(()) };
        let groups = on_device.choose(net, on_host);
        if on_host.groups() != groups {
            on_host.deal_to(groups).and_then(|()| on_host.set(net.net(), &graphs, ids)).map_err(bad)?;
        }
        let not_copied = || Refusal::new(CUDNN_STATUS_EXECUTION_FAILED, "the batch was not copied to the device");
        on_device.set(net, on_host, stream).then_some(()).ok_or_else(not_copied)
    })
}

/// Gets what a batch has. All is 0 before it was set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnGetGraphBatchSizes(
    batch: ucudnnGraphBatch_t,
    sizes: *mut ucudnnGraphBatchSizes_t,
) -> cudnnStatus_t {
    REFUSALS.answered(|| {
        let batch = find(&BATCHES, batch.addr(), "batch", "batch")?;
        check(sizes, "sizes")?;
        let its = &batch.batch.lock().batch;
        let [graphs, vertices, children, levels, rows] =
            [its.graphs(), its.vertices(), its.edges(), its.levels(), its.pulled_rows()].map(|size| size as c_longlong);
        // SAFETY: not null, and the caller promises a place for the sizes.
        unsafe { sizes.write(ucudnnGraphBatchSizes_t { graphs, vertices, children, levels, rows }) };
        Ok(())
    })
}

/// Gets the sizes of workspace and reserve in bytes that runs of a batch need; with a null batch, those of any batch
/// within the net's maxima.
///
/// CUDNN_STATUS_BAD_PARAM: net or batch is none, or the batch is another net's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnGetVertexNetMemorySize(
    net: ucudnnVertexNet_t,
    batch: ucudnnGraphBatch_t,
    workspaceSizeInBytes: *mut usize,
    reserveSizeInBytes: *mut usize,
) -> cudnnStatus_t {
    REFUSALS.answered(|| {
        let net = find(&NETS, net.addr(), "net", "net")?;
        check(workspaceSizeInBytes, "workspaceSizeInBytes")?;
        check(reserveSizeInBytes, "reserveSizeInBytes")?;
        let memory = if batch.is_null() {
            net.memory(None)
        } else {
            let batch = batch_of(&net, batch)?;
            net.memory(Some(&batch.batch.lock().batch))
        };
        // SAFETY: not null, and the caller promises places for the sizes.
        unsafe {
            workspaceSizeInBytes.write(memory[0]);
            reserveSizeInBytes.write(memory[1]);
        }
        Ok(())
    })
}

fn batch_of(net: &Arc<VertexNet>, batch: ucudnnGraphBatch_t) -> Result<Arc<GraphBatch>, Refusal> {
    let batch = find(&BATCHES, batch.addr(), "batch", "batch")?;
    if Arc::ptr_eq(&batch.net, net) { Ok(batch) } else { Err(bad("batch was made for another net")) }
}

/// What a caller asks to be run.
enum Asked {
    Forward,
    Backward,
    Step,
}

unsafe fn run(
    net: ucudnnVertexNet_t,
    batch: ucudnnGraphBatch_t,
    arguments: *const ucudnnVertexNetArguments_t,
    asked: Asked,
    stream: *mut c_void,
) -> cudnnStatus_t {
    REFUSALS.answered(|| {
        let net = find(&NETS, net.addr(), "net", "net")?;
        let batch = batch_of(&net, batch)?;
        check(arguments, "arguments")?;
        // SAFETY: neither null nor misaligned, and the caller promises the arguments.
        let given = unsafe { &*arguments };
        let call = match (asked, net.loss_push) {
            (Asked::Forward, _) => Call::Forward,
            (Asked::Backward, _) if !net.is_training() => {
                return Err(bad("the net was made without isTraining"));
            }
            (Asked::Backward, _) => Call::Backward,
            (Asked::Step, Some(push)) => Call::Step(push),
            (Asked::Step, None) => return Err(bad("the net was made without a loss")),
        };
        let of_batch = batch.batch.lock();
        let Batches { batch, on_device, graphs } = &*of_batch;
        match (&net.runs, on_device) {
            (Runs::OnDevice(its), Some(arrays)) => {
                let _entered = net.enter()?;
                let step = if let Call::Step(push) = call { Some(push) } else { None };
                let bytes = net.memory_on_device(its, Some(batch), step);
                // SAFETY: the caller promises the memory that the arguments name.
                unsafe { run_on_device(its, batch, arrays, given, bytes, call, stream) }
            }
            (Runs::OnHost(executor, kind), _) => {
                let step = if let Call::Step(push) = call { Some(push) } else { None };
                let memory = net.memory_on_host(executor, *kind, Some(batch), step);
                // SAFETY: the caller promises the memory that the arguments name.
                unsafe { vertex_arguments::run(*kind, executor, (batch, *graphs), given, memory, call) }
            }
            (Runs::OnDevice(_), None) => Err(Refusal::new(CUDNN_STATUS_INTERNAL_ERROR, "a batch without a device")),
        }
    })
}

/// Launches a run.
///
/// # Safety
/// As for [`vertex_arguments::run`], until the run has ended on the stream, in memory of the net's device.
unsafe fn run_on_device(
    net: &dynamic::Net,
    batch: &Batch,
    arrays: &DeviceBatch,
    given: &ucudnnVertexNetArguments_t,
    bytes: Bytes,
    call: Call,
    stream: *mut c_void,
) -> Result<(), Refusal> {
    let (element, workspace, reserve) = (net.element().bytes(), bytes.workspace, bytes.reserve);
    let (rows, vertices) = match net.is_static() {
        true => (batch.maxima().vertices, batch.maxima().vertices),
        false => (batch.pulled_rows(), batch.vertices()),
    };
    let sizes = Sizes { element, rows, vertices, workspace, reserve, alignment: 256 };
    // SAFETY: the caller promises the arrays of pointers.
    let its = unsafe { vertex_arguments::checked(net.net().declaration(), batch, given, sizes, call) }?;
    if matches!(call, Call::Step(_)) {
        vertex::host::check_rates(given.learningRate.into(), given.weightDecay.into()).map_err(bad)?;
    }
    let is_captured = net.device().is_capturing(stream);
    if is_captured && !net.is_static() {
        let why = "the stream is being captured, and the net was made without isStatic: the run would have this batch's \
                   structure at each replay";
        return Err(Refusal::new(CUDNN_STATUS_NOT_SUPPORTED, why));
    }
    let failed = |why: String| Refusal::new(CUDNN_STATUS_EXECUTION_FAILED, why);
    if !is_captured && !arrays.is_there_on(stream) {
        return Err(failed("the batch was not copied to the device".into()));
    }
    let inputs = Inputs {
        parameters: its.parameters,
        pulls: its.pulls,
        pushes: its.pushes,
        workspace: given.workspace,
        reserve: given.reserve,
    };
    let gradients = Gradients {
        pushes: its.push_gradients,
        pulls: its.pull_gradients,
        parameters: its.parameter_gradients,
        accumulates: given.accumulatesGradients != 0,
        are_in_float: false,
    };
    // SAFETY: the caller's promise.
    let launched = unsafe {
        match call {
            Call::Forward => net.forward(batch, arrays, inputs, stream),
            Call::Backward => net.backward(batch, arrays, inputs, gradients, stream),
            Call::Step(push) => {
                let (labels, loss) = (given.labels, given.loss);
                let (learning_rate, weight_decay) = (given.learningRate, given.weightDecay);
                let step = dynamic::Step { push, labels, loss, learning_rate, weight_decay };
                net.step(batch, arrays, inputs, step, stream)
            }
        }
    };
    launched.map_err(|why| failed(why.to_string()))
}

/// Runs a batch forward. Allocates nothing of its own: the library of matrix products allocates memory to pack matrices
/// into, and with several hostThreads their queue allocates now and then. Runs of different batches may be under way at
/// once, each with its own workspace, reserve and results; those of one batch follow each other. stream is unused for a
/// net on the host.
///
/// On a device, the run is launched on the stream, allocates nothing and waits for nothing. The memory of parameters,
/// inputs and results is the device's. An index that is out of range reads zeros, and adds to nothing. On a stream that
/// is being captured, the net is one with isStatic (else CUDNN_STATUS_NOT_SUPPORTED) that ran before in the same way.
/// Replays read the batch where ucudnnSetGraphBatch copied it, in their stream's order.
///
/// CUDNN_STATUS_BAD_PARAM: the batch is another net's, or was not set; an index or a label is out of range; the net was
/// made without what the run needs; or a result overlaps other data. CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT: the
/// workspace or the reserve is too small. After an error nothing has been written, except into the workspace.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnRunVertexNetForward(
    net: ucudnnVertexNet_t,
    batch: ucudnnGraphBatch_t,
    arguments: *const ucudnnVertexNetArguments_t,
    stream: *mut c_void,
) -> cudnnStatus_t {
    // SAFETY: the caller's promise.
    unsafe { run(net, batch, arguments, Asked::Forward, stream) }
}

/// Runs a batch backward, behind its run forward with the same parameters, inputs and reserve, and the same graphs in the
/// batch. The net was made with isTraining. The reserve may lie elsewhere by then, byte for byte the same. On the host, a
/// reserve of no such run is CUDNN_STATUS_BAD_PARAM; on a device nothing waits to look at it, and gradients are wrong. For
/// the rest see ucudnnRunVertexNetForward.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnRunVertexNetBackward(
    net: ucudnnVertexNet_t,
    batch: ucudnnGraphBatch_t,
    arguments: *const ucudnnVertexNetArguments_t,
    stream: *mut c_void,
) -> cudnnStatus_t {
    // SAFETY: the caller's promise.
    unsafe { run(net, batch, arguments, Asked::Backward, stream) }
}

/// Runs a step of training: forward, the loss, backward, and gradient descent, which writes the parameters. The net was
/// made with a loss. On a device, the labels and the place for the loss are the device's, and labels that are no classes
/// are not in the loss. For the rest see ucudnnRunVertexNetForward.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnRunVertexNetStep(
    net: ucudnnVertexNet_t,
    batch: ucudnnGraphBatch_t,
    arguments: *const ucudnnVertexNetArguments_t,
    stream: *mut c_void,
) -> cudnnStatus_t {
    // SAFETY: the caller's promise.
    unsafe { run(net, batch, arguments, Asked::Step, stream) }
}

/// Gets the canonical text of a net: its sizes and its functions. Writes at most textSizeInBytes bytes to text, the
/// last of them 0, and the number of bytes that the whole text needs to neededSizeInBytes; text may be null if
/// textSizeInBytes is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnGetVertexNetText(
    net: ucudnnVertexNet_t,
    text: *mut c_char,
    textSizeInBytes: usize,
    neededSizeInBytes: *mut usize,
) -> cudnnStatus_t {
    REFUSALS.answered(|| {
        let its = find(&NETS, net.addr(), "net", "net")?.net().declaration().to_string();
        // SAFETY: the program promises the buffer and the place for its size.
        let is_written = unsafe { write_text((text, textSizeInBytes, neededSizeInBytes), &its) };
        if is_written { Ok(()) } else { Err(null("text or neededSizeInBytes")) }
    })
}

/// Gets the executor of a net as text: "host" and its threads; or "batched", and how many groups of passes are one kernel
/// for few rows; before that "persistent" and its blocks forward and backward, if one launch each way may run all levels.
/// For the buffer see ucudnnGetVertexNetText.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnGetVertexNetConfiguration(
    net: ucudnnVertexNet_t,
    text: *mut c_char,
    textSizeInBytes: usize,
    neededSizeInBytes: *mut usize,
) -> cudnnStatus_t {
    REFUSALS.answered(|| {
        let net = find(&NETS, net.addr(), "net", "net")?;
        let its = match &net.runs {
            Runs::OnHost(executor, _) => format!("host, {} threads", executor.threads()),
            Runs::OnDevice(net) => net.configuration(),
        };
        // SAFETY: the program promises the buffer and the place for its size.
        let is_written = unsafe { write_text((text, textSizeInBytes, neededSizeInBytes), &its) };
        if is_written { Ok(()) } else { Err(null("text or neededSizeInBytes")) }
    })
}

/// Gets the reason of the calling thread's last failure in a function for vertex nets, graphs and batches. Writes at
/// most textSizeInBytes bytes to text, the last of them 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucudnnGetVertexNetErrorString(text: *mut c_char, textSizeInBytes: usize) {
    // SAFETY: the program promises the buffer.
    unsafe { REFUSALS.write_last(text, textSizeInBytes) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_operations_are_in_the_order_of_the_net_s() {
        let numbers = [
            (UCUDNN_VERTEX_PULL, "pull"),
            (UCUDNN_VERTEX_PULL_INDEX, "pullIndex"),
            (UCUDNN_VERTEX_LOOKUP, "lookup"),
            (UCUDNN_VERTEX_GATHER, "gather"),
            (UCUDNN_VERTEX_CHILDREN, "children"),
            (UCUDNN_VERTEX_MATMUL, "matmul"),
            (UCUDNN_VERTEX_BIAS, "bias"),
            (UCUDNN_VERTEX_ADD, "add"),
            (UCUDNN_VERTEX_SUB, "sub"),
            (UCUDNN_VERTEX_MUL, "mul"),
            (UCUDNN_VERTEX_SCALE, "scale"),
            (UCUDNN_VERTEX_SHIFT, "shift"),
            (UCUDNN_VERTEX_SIGMOID, "sigmoid"),
            (UCUDNN_VERTEX_TANH, "tanh"),
            (UCUDNN_VERTEX_RELU, "relu"),
            (UCUDNN_VERTEX_EXP, "exp"),
            (UCUDNN_VERTEX_SUM_CHILDREN, "sumChildren"),
            (UCUDNN_VERTEX_MEAN_CHILDREN, "meanChildren"),
            (UCUDNN_VERTEX_MAX_CHILDREN, "maxChildren"),
            (UCUDNN_VERTEX_SOFTMAX_CHILDREN, "softmaxChildren"),
            (UCUDNN_VERTEX_SOFTMAX, "softmax"),
            (UCUDNN_VERTEX_SUM, "sum"),
            (UCUDNN_VERTEX_CONCAT, "concat"),
            (UCUDNN_VERTEX_SLICE, "slice"),
            (UCUDNN_VERTEX_SCATTER, "scatter"),
            (UCUDNN_VERTEX_PUSH, "push"),
        ];
        for (place, (number, name)) in numbers.into_iter().enumerate() {
            assert_eq!((number as usize, Op::of_user(place).unwrap().name()), (place, name));
        }
        assert!(Op::of_user(numbers.len()).is_none());
    }
}
