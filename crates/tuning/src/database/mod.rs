//! The database of tuning results: what was measured once is measured never again, by no process of this
//! user on this machine.
//!
//! SQLite in WAL mode, so that any number of processes read and write it at once. A result is valid for its
//! [`Environment`] (device, driver and cuDNN), this version's [`SCHEMA`], and its kernel at one micro-batch
//! size. A file of an older schema is brought up to date, with all that it knows, when it is opened. Results of
//! other environments and schemas are passed over and never deleted, unless `ucudnn db prune` is asked to. What is
//! tuned, and what an algorithm is, does not matter here: both are kept as the texts that a
//! [`Subject`](super::subject::Subject) gives. Of recurrent networks the steps' times are kept, beside the version of the
//! kernels that took them.
//!
//! Behind the user's database there may be a seed that a site ships: it is only read, and where both know
//! something the user's wins. `ucudnn db export` and `import` make one; a mere copy of a file lacks what still lies
//! in the log beside it.
//!
//! **A cache, never a condition.** Whatever is wrong with a database — another process holds it, its disk is
//! full, it is corrupt, a newer ucudnn wrote it — costs one warning, a wait of [`PATIENCE`] at most, and what
//! it would have saved. Its file is left as it is.
//!
//! **What survives.** A result is stored when the call that stores it returns: killing the process afterwards
//! loses nothing. Losing the machine's power may lose the newest results, and corrupts nothing.
//!
//! **Where not to put it.** WAL needs memory that all its processes share: on a network file system
//! (NFS, Lustre) it is unsafe with processes on several machines. Name a file on a local disk there with
//! `UCUDNN_DATABASE`, and ship what is shared as a seed.
//!
//! **Fork.** SQLite's connections, and its notes of the file locks that this process holds, do not survive a
//! fork: a child whose parent had a database open has none.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `file` | opening the file: its schema, versions, what may be wrong with it |
//! | `upgrade` | bringing a file of an older schema up to date |
//! | `environment` | what results are valid for |
//! | `results` | storing and finding results |
//! | `networks` | the same of recurrent networks |
//! | `tuning` | one tuner of a kernel at a time |
//! | `contents` | what is in it: listing, pruning |
//! | `exchange` | its text form: export and import |
//!
//! Uses `plan` and `cudnn` for what results speak of, and `settings` for the place.

mod contents;
mod environment;
mod exchange;
mod file;
mod networks;
mod results;
mod texts;

mod tuning;
mod upgrade;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use once_cell::sync::OnceCell;
use parking_lot::Mutex;
use rusqlite::Connection;

pub use contents::{Contents, KernelContents, NetworkContents, Prune};
pub use environment::Environment;
pub use exchange::Imported;
pub use file::SCHEMA;
pub use networks::StepTime;
pub use results::Outcome;
pub use tuning::{Tuning, TuningLock};

use guest::settings;
pub use guest::settings::place;
pub use texts::{AnySubject, Texts};

/// How long a call waits for another process that holds the database, once: then it is given up.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// An open database, with the seed behind it if there is one. Any thread may use it.
pub struct Database {
    path: PathBuf,
    /// The process that opened it.
    process: u32,
    /// Something failed: nothing more is asked of it.
    given_up: AtomicBool,
    connections: Mutex<Connections>,
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
    /// The database that the settings name. `None` where they say `off`, where there is no place for one, and
    /// where it cannot be used, which is one warning.
    pub fn of_process() -> Option<&'static Self> {
        static DATABASE: OnceCell<Option<Database>> = OnceCell::new();
        let open = || {
            let settings = settings::get();
            let path = match place(&settings.database, |name| std::env::var_os(name)) {
                Ok(path) => path?,
                Err(why) => {
                    log::info!("{why}: tuning results are not kept");
                    return None;
                }
            };
            if settings.database == settings::Database::User
                && let Some(folder) = path.parent()
            {
                // Whether that went well shows when the file is opened.
                let _ = std::fs::create_dir_all(folder);
            }
            let seed = settings.seed_database.as_ref().map(Path::new);
            let opened = Self::open(&path, seed);
            opened.map_err(|why| log::warn!("{why}; tuning results are neither read nor kept")).ok()
        };
        DATABASE.get_or_init(open).as_ref().filter(|database| database.is_usable())
    }

    /// Opens a database, a new one if there is no such file, and the seed behind it. `Err` names the file and
    /// what is wrong with it. A seed that cannot be used is one warning, and no seed.
    pub fn open(path: &Path, seed: Option<&Path>) -> Result<Self, String> {
        let user = file::open(path)?;
        let seed = seed.and_then(|seed| {
            let opened = file::open_seed(seed);
            opened.map_err(|why| log::warn!("UCUDNN_SEED_DATABASE: {why}; it is not used")).ok()
        });
        Ok(Self {
            path: path.to_owned(),
            process: std::process::id(),
            given_up: AtomicBool::new(false),
            connections: Mutex::new(Connections { user, seed }),
        })
    }

    /// The user's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn is_usable(&self) -> bool {
        let ours = self.process == std::process::id();
        if !ours && !self.given_up.swap(true, Ordering::Relaxed) {
            log::info!("a forked process does not use the tuning database that its parent had open");
        }
        ours && !self.given_up.load(Ordering::Relaxed)
    }

    /// Asks something of the connections; nothing if that fails, now and from then on.
    fn ask<T: Default>(&self, act: impl FnOnce(&mut Connections) -> rusqlite::Result<T>) -> T {
        if !self.is_usable() {
            return T::default();
        }
        // A process that was given up while this thread waited is not asked, and waited for, again.
        let mut connections = self.connections.lock();
        if !self.is_usable() {
            return T::default();
        }
        act(&mut connections).unwrap_or_else(|error| {
            if !self.given_up.swap(true, Ordering::Relaxed) {
                let why = file::explain(&self.path, &error);
                log::warn!("{why}; tuning results are neither read nor kept from here on");
            }
            T::default()
        })
    }

    /// What the user's file knows, and behind it what only the seed knows.
    fn find<T>(
        &self,
        query: impl Fn(&Connection) -> rusqlite::Result<Vec<T>>,
        same: impl Fn(&T, &T) -> bool,
    ) -> Vec<T> {
        self.ask(|connections| {
            let mut found = query(&connections.user)?;
            match connections.seed.as_ref().map(query) {
                None => {}
                Some(Ok(more)) => {
                    for one in more {
                        if !found.iter().any(|known| same(known, &one)) {
                            found.push(one);
                        }
                    }
                }
                Some(Err(error)) => {
                    log::warn!("UCUDNN_SEED_DATABASE: {error}; it is not used from here on");
                    connections.seed = None;
                }
            }
            Ok(found)
        })
    }
}
