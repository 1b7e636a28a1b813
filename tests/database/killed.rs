//! Processes that are killed while they tune lose no finished measurement, and leave the database sound.

use crate::database as trained;

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rusqlite::Connection;
use trained::hostdnn::seed;
use trained::{Run, Timed, convnet, lines, write_network};
use tuning::database::Database;

const KILLS: usize = 100;
/// The number of rounds that share a database: the first of them are killed while it is made.
const SHARING: usize = 10;
/// The number of rounds that share a network: all but the first go on with its search.
const GOING_ON: usize = 2;

/// The time in milliseconds of each measurement that processes reported before they were killed.
type Finished = HashMap<Timed, f64>;

/// Compares the database with the reported measurements.
fn check(path: &Path, finished: &Finished) {
    let sound: String =
        Connection::open(path).unwrap().query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
    let database = Database::open(path, None).unwrap();
    let contents = database.contents().unwrap();
    assert!(contents.len() <= 1, "one machine");
    let Some(environment) = contents.first().map(|contents| &contents.environment) else {
        assert!(finished.is_empty(), "nothing of it is known");
        return;
    };
    for (timed, time) in finished {
        let known = database.measured(environment, &timed.kernel.with_batch(timed.batch));
        let mut known = known.iter().filter(|known| known.batch == timed.batch);
        let known = known.find(|known| known.algorithm.to_string() == timed.algorithm);
        assert_eq!(known.and_then(|known| known.time), Some(*time), "{timed:?}");
    }
}

#[test]
fn a_hundred_kills_lose_nothing() {
    let program = convnet();
    let seed = seed();
    let mut random = StdRng::seed_from_u64(seed);
    let (mut finished, mut measurements, mut killed, mut in_mid_search) = (Finished::new(), 0, 0, 0);
    for round in 0..KILLS {
        let database = program.file(&format!("tuning-{}.sqlite", round / SHARING));
        let network = program.file("network.csv");
        if round % GOING_ON == 0 {
            let batch = random.random_range(2..24);
            let layers = [1, 2].map(|c| [batch, c, random.random_range(4..9), round + 1]);
            write_network(&network, &layers);
        }
        let run = |report: &str| {
            Run::new(&program, network.to_str().unwrap(), report)
                .with("UCUDNN_DATABASE", &database)
                .with("UCUDNN_BATCH_SIZE_POLICY", "all")
                .with("UCUDNN_TUNE_SECONDS", "60")
                .with("HOSTDNN_DEVICES", "2")
                .with("UCUDNN_BENCHMARK_DEVICES", "all")
        };
        let first = run(&format!("killed-{round}"));
        let mut child = first.command().stdout(Stdio::null()).spawn().unwrap();
        // Kills it after some measurements and a random moment, or while it loads and opens the database.
        let loading = round % SHARING < 3;
        let (after, moment) = if loading { (0, 60_000) } else { (random.random_range(1..40), 2_000) };
        let deadline = Instant::now() + Duration::from_secs(60);
        while lines(&first.report).len() < after && child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "it does not end (UCUDNN_TEST_SEED={seed}, round {round})");
            std::thread::sleep(Duration::from_micros(300));
        }
        std::thread::sleep(Duration::from_micros(random.random_range(0..moment)));
        let alive = child.try_wait().unwrap().is_none();
        child.kill().unwrap();
        child.wait().unwrap();
        let reported = lines(&first.report);
        killed += usize::from(alive);
        in_mid_search += usize::from(alive && !reported.is_empty());
        let time = |line: &serde_json::Value| line["time_ms"].as_f64().unwrap();
        let add = |finished: &mut Finished, lines: Vec<(Timed, serde_json::Value)>| {
            for (timed, line) in lines {
                assert_eq!(finished.insert(timed, time(&line)), None, "measured twice (round {round}): {line}");
            }
        };
        add(&mut finished, reported);

        if round % SHARING == SHARING - 1 {
            check(&database, &finished);
            // The next process measures only the rest.
            let second = run(&format!("goes-on-{round}"));
            assert_eq!(second.preloaded().stderr, "");
            assert_eq!(second.answers().len(), 6, "all problems have a plan");
            add(&mut finished, lines(&second.report));
            check(&database, &finished);
            measurements += finished.drain().count();
        }
    }
    let _ = writeln!(
        std::io::stderr(),
        "{killed} of {KILLS} were killed while they ran, {in_mid_search} of them after they measured; {measurements} \
         measurements in all",
    );
    assert!(killed > KILLS / 2 && in_mid_search > KILLS / 2, "most kills must hit: {killed}, {in_mid_search}");
}
