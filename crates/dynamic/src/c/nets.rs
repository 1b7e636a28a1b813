//! Makes, describes and destroys nets.

use std::ffi::c_longlong;
use std::fmt::Display;
use std::ptr;

use cudnn_abi::*;
use gpu::{Device, Element};
use guest::refusal::Refusal;
use guest::settings::Dynamic;
use vertex::batch::Maxima;
use vertex::function;
use vertex::host::{self, Threads};

use super::declaration::declaration;
use super::given::{bad, check, count};
use super::host::Kind;
use super::objects::{NETS, Runs, VertexNet, batch_of, destroy as forget, find};
use super::types::*;
use crate::{Executor, Fours, Net, Options, Warpgroups, Without};

/// The most levels of a static net: each has its launches.
const MOST_STATIC_LEVELS: usize = 1024;

fn unsupported(why: impl Display) -> Refusal {
    Refusal::new(CUDNN_STATUS_NOT_SUPPORTED, why)
}

fn maxima(given: &ucudnnVertexNetDescription_t) -> Result<Maxima, Refusal> {
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
    Ok(maxima)
}

/// How a net is made for a device, by its description and the settings.
fn options(given: &ucudnnVertexNetDescription_t) -> Result<Options, Refusal> {
    let element = Element::of(given.dataType);
    let element = element.ok_or_else(|| unsupported("dataType is double; on a device, nets are of other types"))?;
    let chosen = guest::settings::get().dynamic;
    let without = match chosen {
        Dynamic::Auto | Dynamic::Batched | Dynamic::Persistent(_) => Without::Nothing,
        Dynamic::Unfused => Without::Fusion,
        Dynamic::Unbatched => Without::Batching,
    };
    let executor = match chosen {
        Dynamic::Auto => Executor::Auto,
        Dynamic::Persistent(groups) => Executor::Persistent { groups },
        Dynamic::Batched | Dynamic::Unfused | Dynamic::Unbatched => Executor::Batched,
    };
    let (is_training, is_static) = (given.isTraining != 0, given.isStatic != 0);
    let (tf32, warpgroups, fours) = (given.allowTf32 != 0, Warpgroups::Many, Fours::Many);
    Ok(Options { element, is_training, tf32, warpgroups, fours, is_static, without, executor })
}

/// Makes a net on the calling thread's device of this sort.
fn on_device(net: &function::Net, device: Device, options: Options) -> Result<Net, Refusal> {
    let none = || {
        let why = "the calling thread has no CUDA device: CUDA's driver is missing, or knows of none";
        Refusal::new(CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING, why)
    };
    let _entered = device.enter(device.ordinal()).ok_or_else(none)?;
    Net::new(net, device, options).map_err(unsupported)
}

/// Makes a net, for `ucudnnCreateVertexNet`. Only a net on a device asks for the sort of device, which may load cuDNN.
pub unsafe fn create(
    net: *mut ucudnnVertexNet_t,
    description: *const ucudnnVertexNetDescription_t,
    device: fn() -> Device,
) -> Result<(), Refusal> {
    check(net, "net")?;
    check(description, "description")?;
    // SAFETY: neither null nor misaligned, and the caller promises a description.
    let given = unsafe { &*description };
    if !given.configuration.is_null() {
        return Err(unsupported("configuration is not null; nets have none yet"));
    }
    let kind = Kind::of(given.dataType)
        .ok_or_else(|| bad(format!("dataType is {}; float, double, half and bfloat16 are accepted", given.dataType)))?;
    // SAFETY: the caller promises what the description points to.
    let checked = function::Net::new(unsafe { declaration(given)? }).map_err(bad)?;
    let loss_push = match given.loss {
        UCUDNN_LOSS_NONE => None,
        UCUDNN_LOSS_CROSS_ENTROPY => Some(count(given.lossPush, "lossPush", checked.declaration().pushes.len() - 1)?),
        loss => return Err(bad(format!("loss is {loss}; 0 and 1 are accepted"))),
    };
    if loss_push.is_some() && given.isTraining == 0 {
        return Err(bad("a loss is given, and isTraining is 0; a step trains"));
    }
    let maxima = maxima(given)?;
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
        Runs::OnHost(Box::new(host::Executor::new(&checked, is_training, threads)), kind)
    } else {
        let options = options(given)?;
        Runs::OnDevice(Box::new(on_device(&checked, device(), options)?))
    };
    let made = NETS.keep(VertexNet { runs, maxima, loss_push });
    // SAFETY: not null, and the caller promises a place for the net.
    unsafe { net.write(ptr::without_provenance_mut(made)) };
    Ok(())
}

/// Destroys a net.
pub fn destroy(net: ucudnnVertexNet_t) -> Result<(), Refusal> {
    forget(&NETS, net.addr(), "net", "net")
}

/// Writes the bytes of workspace and reserve that runs need, of a batch or, if it is null, of any.
pub unsafe fn memory_sizes(
    net: ucudnnVertexNet_t,
    batch: ucudnnGraphBatch_t,
    workspace: *mut usize,
    reserve: *mut usize,
) -> Result<(), Refusal> {
    let net = find(&NETS, net.addr(), "net", "net")?;
    check(workspace, "workspaceSizeInBytes")?;
    check(reserve, "reserveSizeInBytes")?;
    let memory = if batch.is_null() {
        net.memory(None)
    } else {
        let batch = batch_of(&net, batch)?;
        net.memory(Some(&batch.batch.lock().batch))
    };
    // SAFETY: not null, and the caller promises places for the sizes.
    unsafe {
        workspace.write(memory[0]);
        reserve.write(memory[1]);
    }
    Ok(())
}

/// The canonical text of a net: its sizes and its functions.
pub fn text(net: ucudnnVertexNet_t) -> Result<String, Refusal> {
    Ok(find(&NETS, net.addr(), "net", "net")?.net().declaration().to_string())
}

/// The executor of a net, for `ucudnnGetVertexNetConfiguration`.
pub fn configuration(net: ucudnnVertexNet_t) -> Result<String, Refusal> {
    Ok(match &find(&NETS, net.addr(), "net", "net")?.runs {
        Runs::OnHost(executor, _) => format!("host, {} threads", executor.threads()),
        Runs::OnDevice(net) => net.configuration(),
    })
}
