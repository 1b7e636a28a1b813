//! The parts that the library would use in a process like this one.

use std::path::Path;

use anstyle::Style;
use cudnn::library;
use gpu::Device;
use gpu::jit::Nvrtc;
use guest::settings::{self, Rnn, Settings, VARIABLES, place};
use libloading::os::unix::{Library, RTLD_LAZY, RTLD_LOCAL};
use tuning::database::{Database, Environment};

use crate::quantity;
use crate::run;
use crate::style::{self, styled};
use trust::Shown as _;

/// The names of parts.
pub const LIBRARY: &str = "libucudnn.so";
pub const CUDNN: &str = "cuDNN";
pub const DRIVER: &str = "driver";
pub const GPU: &str = "GPU";
pub const NVRTC: &str = "NVRTC";
pub const DATABASE: &str = "database";
pub const SOLVER: &str = "solver";

/// One part.
pub struct Fact {
    /// The part's name.
    pub name: &'static str,
    /// The part itself, or why it cannot be used.
    pub text: String,
    /// False if the part is needed and cannot be used.
    pub is_usable: bool,
}

impl Fact {
    fn of(name: &'static str, found: Result<String, String>) -> Self {
        let is_usable = found.is_ok();
        Self { name, text: found.unwrap_or_else(|why| why), is_usable }
    }
}

/// The facts as a list.
pub fn text(facts: &[Fact]) -> String {
    let looks = |fact: &Fact| if fact.is_usable { style::GOOD } else { style::BAD };
    facts.iter().map(|fact| line(fact.name, &fact.text, looks(fact))).collect()
}

/// A name with its looks, and its text, whose further lines stand below the first.
fn line(name: &str, text: &str, looks: Style) -> String {
    let text = text.trim_end().replace('\n', &format!("\n{:14}", ""));
    format!("{}{text}\n", styled(&format!("{name:14}"), looks))
}

/// The settings in effect, and the warnings about them.
pub fn settings() -> String {
    let value = |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    let (_, mut wrong) = Settings::read(value);
    wrong.extend(settings::unknown_warnings(std::env::vars_os().map(|(name, _)| name)));
    let set = VARIABLES.iter().filter_map(|variable| Some((variable.name, value(variable.name)?)));
    let mut lines: Vec<_> =
        set.filter(|(_, value)| !value.is_empty()).map(|(name, value)| format!("{name}={value}")).collect();
    if lines.is_empty() {
        lines.push("none: the defaults hold".to_owned());
    }
    let looks = if wrong.is_empty() { style::GOOD } else { style::WARNING };
    lines.extend(wrong);
    lines.iter().enumerate().map(|(index, text)| line(if index == 0 { "settings" } else { "" }, text, looks)).collect()
}

/// All parts. `cudnn` is the one that a program found; without it, this process looks for one.
pub fn all(library: Option<&Path>, cudnn: Option<&Path>) -> Vec<Fact> {
    let (settings, _) = Settings::read(|name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()));
    // The log would repeat these facts, and the report is a program's.
    // SAFETY: no other thread runs yet, and nothing holds a pointer into the environment.
    unsafe {
        std::env::set_var(settings::LOG, "off");
        std::env::remove_var(settings::REPORT);
        if let Some(cudnn) = cudnn {
            std::env::set_var(settings::CUDNN_LIBRARY, cudnn);
        }
    }
    let own = run::find_library(library).map_err(|failure| failure.told().0);
    let solver = match &own {
        Ok(own) => planner::solver_of(own).map(|path| path.shown().to_string()),
        Err(_) => Err("looked for beside libucudnn.so".to_owned()),
    };
    let without = "(without it, Workspace Division of very large networks is good, but may not be the best)";
    let solver = Ok(solver.unwrap_or_else(|why| format!("{why}\n{without}")));
    let device = library::device();
    let mut facts = vec![Fact::of(LIBRARY, own.and_then(|own| loads(&own))), Fact::of(CUDNN, found_cudnn())];
    facts.extend(gpus(device));
    facts.push(nvrtc(device, settings.rnn));
    facts.push(Fact::of(DATABASE, database(&settings)));
    facts.push(Fact::of(SOLVER, solver));
    facts
}

/// The library's file and version, if it loads.
fn loads(file: &Path) -> Result<String, String> {
    // SAFETY: runs the constructors of our own library, which do little.
    let loaded = unsafe { Library::open(Some(file), RTLD_LAZY | RTLD_LOCAL) };
    let loaded = loaded.map_err(|error| match error {
        libloading::Error::DlOpen { source } => source.to_string(),
        other => other.to_string(),
    })?;
    // SAFETY: every libucudnn.so exports the function with this type.
    let version = unsafe { loaded.get::<extern "C" fn() -> usize>(b"ucudnnGetVersion\0") };
    let version = version.map_err(|_| format!("{}: exports no ucudnnGetVersion", file.shown()))?();
    std::mem::forget(loaded);
    Ok(format!("{}, version {}.{}.{}", file.shown(), version / 10_000, version / 100 % 100, version % 100))
}

fn found_cudnn() -> Result<String, String> {
    let path = library::found().map_err(|tried| format!("none was found. Tried:{tried}"))?;
    let version = tuning::database::cudnn_version().unwrap_or_default();
    match library::older_major() {
        Some(major) => Err(format!("{}, of version {major}: every call is forwarded to it unchanged", path.shown())),
        None => Ok(format!("{}, version {version}", path.shown())),
    }
}

/// The driver and the devices.
fn gpus(device: Device) -> Vec<Fact> {
    let identities: Vec<_> = (0..device.count()).filter_map(|ordinal| device.identity(ordinal)).collect();
    let driver = identities.first().and_then(|first| {
        Environment::of(first.name.clone(), first.multiprocessors, first.driver).map(|environment| environment.driver)
    });
    let names: Vec<_> = identities.iter().enumerate().map(|(ordinal, it)| format!("{ordinal}: {}", it.name)).collect();
    if device == Device::Host {
        let host = |text: String| Ok(text);
        return vec![
            Fact::of(DRIVER, host("none: hostdnn needs none".into())),
            Fact::of(GPU, host(format!("none: hostdnn computes on {}", names.join(", ")))),
        ];
    }
    let none = || "none".to_owned();
    vec![
        Fact::of(DRIVER, driver.ok_or_else(none)),
        Fact::of(GPU, if names.is_empty() { Err(none()) } else { Ok(names.join("\n")) }),
    ]
}

/// The compiler of our kernels. Programs run without it, but for settings that force our kernels.
fn nvrtc(device: Device, rnn: Rnn) -> Fact {
    if device == Device::Host {
        return Fact::of(NVRTC, Ok("none: on hostdnn the machine's C++ compiler makes our kernels".into()));
    }
    let driver = device.identity(0).map_or(0, |identity| identity.driver);
    match Nvrtc::of_process(driver) {
        Ok(nvrtc) => {
            let (major, minor) = nvrtc.version();
            Fact::of(NVRTC, Ok(format!("{}, version {major}.{minor}", nvrtc.path.shown())))
        }
        Err(why) => {
            let text = format!("{why}\n(cuDNN then runs what our kernels would)");
            Fact { name: NVRTC, text, is_usable: rnn != Rnn::Force }
        }
    }
}

fn database(settings: &Settings) -> Result<String, String> {
    let Some(path) = place(&settings.database, |name| std::env::var_os(name))? else {
        return Ok("off: nothing is kept".to_owned());
    };
    let shown = path.shown();
    if !path.exists() {
        let folder = path.ancestors().skip(1).find(|folder| folder.exists()).unwrap_or(Path::new("."));
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        return match is_writable(folder) {
            true => Ok(format!("{shown}: not there yet; the first results make it")),
            false => Err(format!("{shown}: not there, and its folder cannot be written: results are not kept")),
        };
    }
    let contents = Database::read(&path, None)?.contents()?;
    let rows: usize = contents.iter().map(|entry| entry.outcomes + entry.trials + entry.timings).sum();
    let rows = quantity::counted(rows, "result");
    // SQLite writes its log beside the file.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match is_writable(&path) && is_writable(folder) {
        true => Ok(format!("{shown}: {rows}")),
        false => Err(format!("{shown}: {rows}, but it cannot be written: they are used, and no others are kept")),
    }
}

fn is_writable(path: &Path) -> bool {
    run::access(path, libc::W_OK).is_ok()
}
