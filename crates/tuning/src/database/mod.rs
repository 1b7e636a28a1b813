//! The database of tuning results. A measurement is never repeated by any process of this user on this machine.
//!
//! SQLite in WAL mode: any number of processes read and write at once. A result is valid for its [`Environment`]
//! (device, driver and cuDNN), this version's [`SCHEMA`], and its convolution problem at one micro-batch size. A file
//! of another schema is refused. Results of other environments are ignored, and deleted only by `ucudnn db prune`. The
//! database stores problems and algorithms as the texts of a [`Subject`](super::subject::Subject), whatever they mean.
//! Other subjects, such as recurrent networks, are texts of a family; their times carry the version of the GPU kernels
//! that ran them.
//!
//! A site may ship a seed, a second database that is only read. If both know a result, the user's wins. `ucudnn db
//! export` and `import` make a seed; a copied file would lack results that are still in the log beside it.
//!
//! **A cache, never a condition.** Any problem with a database (another process holds it, its disk is full, it is
//! corrupt, an older or newer ucudnn wrote it) costs one warning, a wait of [`PATIENCE`] at most, and the time it would have
//! saved. The file stays as it is.
//!
//! **Durability.** A result is stored when the call that stores it returns: killing the process afterwards loses
//! nothing. A power failure may lose the newest results, and corrupts nothing.
//!
//! **Where not to put it.** WAL needs memory that all its processes share, so on a network file system (NFS, Lustre)
//! processes on several machines make it unsafe. There, set `UCUDNN_DATABASE` to a file on a local disk, and ship
//! shared results as a seed.
//!
//! **Fork.** SQLite's connections, and its records of this process's file locks, do not survive a fork. A child process
//! whose parent had a database open therefore has none.
//!
//! | file | contents |
//! | --- | --- |
//! | `file` | opening the file |
//! | `schema` | its tables and their version, and whether a file has these alone |
//! | `refusal` | why a file is not used, in words |
//! | `rows` | reading rows, without those that make no sense |
//! | `environment` | the machine and libraries that results are valid for |
//! | `results` | storing and finding results of convolution problems |
//! | `timings` | storing and finding times of other subjects |
//! | `texts` | the texts that an import reads |
//! | `tuning` | only one tuner of a problem at a time |
//! | `contents` | listing and pruning results |
//! | `exchange` | the text form: export and import |

mod contents;
mod environment;
mod exchange;
mod file;
mod refusal;
mod results;
mod rows;
mod schema;
mod texts;
mod timings;
mod tuning;

use std::collections::HashSet;
use std::hash::Hash;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use once_cell::sync::OnceCell;
use parking_lot::Mutex;
use rusqlite::Connection;

pub use contents::{Contents, ProblemContents, Prune, TimedContents};
pub use environment::{Environment, cudnn_version};
pub use exchange::Imported;
pub use results::Outcome;
pub use schema::SCHEMA;
pub use timings::Timing;
pub use tuning::{Tuning, TuningLock};

use guest::settings;
pub use guest::settings::place;
use guest::writes::FailingWrites;
use refusal::Refusal;
pub use texts::{AnySubject, Texts};

/// How long a call waits for another process that holds the database. After that, this process gives the database up.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// The remedy for a file that cannot be used.
const ADVICE: &str = "UCUDNN_DATABASE names another file, or is off";

/// An open database, with its seed if there is one. Any thread may use it.
pub struct Database {
    path: PathBuf,
    /// The process that opened it.
    process: u32,
    /// An operation failed: the database is not used any more.
    given_up: AtomicBool,
    /// The file is only read: nothing is stored.
    is_read_only: bool,
    connections: Mutex<Connections>,
    steps: file::Steps,
    /// The lock's file, for the problems that running programs explore; `None` if it cannot be opened.
    explored: OnceCell<Option<Arc<tuning::Explored>>>,
}

/// One connection to each file.
struct Connections {
    user: Connection,
    seed: Option<Connection>,
}

/// For tests alone.
impl Database {
    /// From now on the file is as if the disk had room for no more than this many pages.
    #[doc(hidden)]
    pub fn limit_pages(&self, most: u32) -> rusqlite::Result<()> {
        self.connections.lock().user.pragma_update_and_check(None, "max_page_count", most, |_| Ok(()))
    }
}

impl Database {
    /// The database that the settings name. `None` if they say `off`, if it has no place, and, with one warning, if it
    /// cannot be used.
    pub fn of_process() -> Option<&'static Self> {
        static DATABASE: OnceCell<Option<Database>> = OnceCell::new();
        let open = || {
            let settings = settings::get();
            let path = match place(&settings.database, |name| std::env::var_os(name)) {
                Ok(path) => path?,
                Err(why) => {
                    log::warn!(
                        "{why}: tuning results are neither read nor kept; UCUDNN_DATABASE names a file for them, or is off"
                    );
                    return None;
                }
            };
            if settings.database == settings::Database::User
                && let Some(folder) = path.parent()
            {
                // If this fails, opening the file reports why.
                let _ = std::fs::create_dir_all(folder);
            }
            let opened = Self::open_as_far_as_possible(&path, settings.seed_database.as_deref());
            let opened = opened.map_err(|why| log::warn!("{why}; tuning results are neither read nor kept: {ADVICE}"));
            opened.ok().inspect(|database| {
                if database.keeps() {
                    guest::summary::times_are_kept(database.path());
                }
            })
        };
        DATABASE.get_or_init(open).as_ref().filter(|database| database.is_usable())
    }

    /// Opens a database and its seed; creates the database if there is no such file. `Err` names the file and the
    /// problem. A seed that cannot be used costs one warning and is left out.
    pub fn open(path: &Path, seed: Option<&Path>) -> Result<Self, String> {
        Self::with(path, seed, file::open).map_err(|refusal| refusal.of(path))
    }

    /// As [`Self::open`]. A file that cannot be written is read, with one warning.
    pub fn open_as_far_as_possible(path: &Path, seed: Option<&Path>) -> Result<Self, String> {
        let refusal = match Self::with(path, seed, file::open) {
            Ok(database) => return Ok(database),
            Err(refusal) => refusal,
        };
        let read = if refusal.is_of_writing() { Self::read(path, seed).ok() } else { None };
        let why = refusal.of(path);
        match read {
            Some(database) => {
                log::warn!("{why}; the results in it are used, and no others are kept: {ADVICE}");
                Ok(database)
            }
            None => Err(why),
        }
    }

    /// Opens a database and its seed for reading alone, for the commands that show results. Nothing is created or
    /// changed, and the file's folder may be read-only. `Err` as of [`Self::open`], and if there is no such file.
    pub fn read(path: &Path, seed: Option<&Path>) -> Result<Self, String> {
        let read = Self::with(path, seed, file::open_to_read).map_err(|refusal| refusal.of(path))?;
        Ok(Self { is_read_only: true, ..read })
    }

    fn with(
        path: &Path,
        seed: Option<&Path>,
        open: impl FnOnce(&Path, &file::Steps) -> Result<Connection, Refusal>,
    ) -> Result<Self, Refusal> {
        let _writes = FailingWrites::without_signals();
        let steps = file::Steps::default();
        let user = open(path, &steps)?;
        let seed = seed.and_then(|seed| {
            let opened = file::open_to_read(seed, &steps).map_err(|refusal| refusal.of(seed));
            opened.map_err(|why| log::warn!("UCUDNN_SEED_DATABASE: {why}; it is not used")).ok()
        });
        Ok(Self {
            path: path.to_owned(),
            process: std::process::id(),
            given_up: AtomicBool::new(false),
            is_read_only: false,
            connections: Mutex::new(Connections { user, seed }),
            steps,
            explored: OnceCell::new(),
        })
    }

    /// The path of the user's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether results are stored. False for a file that is only read, and once an operation has failed.
    pub fn keeps(&self) -> bool {
        !self.is_read_only && self.is_usable()
    }

    fn is_usable(&self) -> bool {
        let ours = self.process == std::process::id();
        if !ours && !self.given_up.swap(true, Ordering::Relaxed) {
            log::info!("a forked process does not use the tuning database that its parent had open");
        }
        ours && !self.given_up.load(Ordering::Relaxed)
    }

    /// Runs `act` on the connections. If that fails, this call and all later ones return the default.
    fn ask<T: Default>(&self, act: impl FnOnce(&mut Connections) -> rusqlite::Result<T>) -> T {
        if !self.is_usable() {
            return T::default();
        }
        // Another thread may have given the database up meanwhile; then do not wait for its process again.
        let mut connections = self.connections.lock();
        if !self.is_usable() {
            return T::default();
        }
        let _writes = FailingWrites::without_signals();
        self.steps.begin();
        act(&mut connections).unwrap_or_else(|error| {
            if !self.given_up.swap(true, Ordering::Relaxed) {
                let why = refusal::explain(&self.path, &error);
                log::warn!("{why}; tuning results are neither read nor kept from here on: {ADVICE}");
            }
            T::default()
        })
    }

    /// Runs `write` as [`Self::ask`] does, unless the file is only read.
    fn keep(&self, write: impl FnOnce(&mut Connection) -> rusqlite::Result<()>) {
        if !self.is_read_only {
            self.ask(|connections| write(&mut connections.user));
        }
    }

    /// Returns the results in the user's file, then those whose keys only the seed has.
    fn find<T, K: Hash + Eq>(
        &self,
        query: impl Fn(&Connection) -> rusqlite::Result<Vec<T>>,
        key: impl Fn(&T) -> K,
    ) -> Vec<T> {
        self.ask(|connections| {
            let mut found = query(&connections.user)?;
            match connections.seed.as_ref().map(query) {
                None => {}
                Some(Ok(more)) => {
                    let own: HashSet<_> = found.iter().map(&key).collect();
                    let more: Vec<_> = more.into_iter().filter(|one| !own.contains(&key(one))).collect();
                    found.extend(more);
                }
                Some(Err(error)) => {
                    let path = connections.seed.as_ref().and_then(Connection::path).unwrap_or_default();
                    let why = refusal::explain(Path::new(path), &error);
                    log::warn!("UCUDNN_SEED_DATABASE: {why}; it is not used from here on");
                    connections.seed = None;
                }
            }
            Ok(found)
        })
    }
}
