//! Databases with random contents harm no program: it ends as usual, with right results.

use crate::database as trained;

use std::path::Path;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rusqlite::Connection;
use trained::hostdnn::seed;
use trained::{Run, convnet, network_norms, write_network};

/// How many databases; `UCUDNN_TEST_FUZZ` names more, for a run by hand.
const DATABASES: usize = 40;

/// Values for a column of texts: those of the file itself with a change, and others.
fn text(random: &mut StdRng, old: &str) -> String {
    let mut text = old.to_owned();
    match random.random_range(0..5) {
        0 => text.truncate(text.char_indices().map(|(at, _)| at).nth(random.random_range(0..=text.len())).unwrap_or(0)),
        1 => text += &text.clone(),
        2 => text = "9".repeat(random.random_range(0..200)),
        3 => {
            let digits: Vec<_> = text.match_indices(|c: char| c.is_ascii_digit()).map(|(at, _)| at).collect();
            if !digits.is_empty() {
                let at = digits[random.random_range(0..digits.len())];
                text.replace_range(at..=at, ["0", "9", "-", "99999999999999999999"][random.random_range(0..4)]);
            }
        }
        _ => text = ["", "\u{0}", "💥", "deterministic", "3x2 1:0:deterministic + "][random.random_range(0..5)].into(),
    }
    text
}

/// Changes random values of random rows. A change that breaks a rule of the tables is left out.
fn change(random: &mut StdRng, database: &Connection) {
    const COLUMNS: [(&str, &str); 10] = [
        ("outcomes", "batch"),
        ("outcomes", "workspace"),
        ("outcomes", "time_ms"),
        ("outcomes", "algorithm"),
        ("outcomes", "summed_in_float"),
        ("trials", "division"),
        ("trials", "time_ms"),
        ("searches", "question"),
        ("kernels", "spec"),
        ("environments", "cudnn"),
    ];
    for _ in 0..random.random_range(1..30) {
        let (table, column) = COLUMNS[random.random_range(0..COLUMNS.len())];
        let some = format!("(abs(random()) % 3 = 0 OR {})", random.random_bool(0.3));
        if ["algorithm", "division", "question", "spec", "cudnn"].contains(&column) {
            let old = database
                .query_row(&format!("SELECT {column} FROM {table} ORDER BY random() LIMIT 1"), [], |row| row.get(0))
                .unwrap_or_else(|_| String::new());
            let _ = database
                .execute(&format!("UPDATE OR IGNORE {table} SET {column} = ?1 WHERE {some}"), [text(random, &old)]);
        } else {
            let number = [
                "0",
                "1",
                "-1",
                "7",
                "3",
                "9223372036854775807",
                "-9223372036854775808",
                "NULL",
                "1e308",
                "-1e308",
                "1e-300",
                "9e999",
                "4294967297",
                "2147483648",
            ][random.random_range(0..14)];
            let _ = database.execute(&format!("UPDATE OR IGNORE {table} SET {column} = {number} WHERE {some}"), []);
        }
    }
}

/// Changes random bytes of the file after SQLite's first page, which says that it is a database at all.
fn damage(random: &mut StdRng, path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    for _ in 0..random.random_range(1..20) {
        let at = random.random_range(4096..bytes.len());
        bytes[at] = random.random_range(0..=255);
    }
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn random_contents_harm_no_program() {
    let program = convnet();
    let (network, figures) = (program.file("small.csv"), program.file("figures.json"));
    write_network(&network, &[[16, 4, 9, 6], [12, 6, 7, 5]]);
    let (filled, database) = (program.file("filled.sqlite"), program.file("tuning.sqlite"));
    let run = |database: &Path, query: &str| {
        Run::new(&program, network.to_str().unwrap(), "report")
            .with("UCUDNN_DATABASE", database)
            .with("UCUDNN_TUNE_SECONDS", "0.05")
            .and(&["--query", query, "--iterations", "30", "--json", figures.to_str().unwrap()])
    };
    run(&filled, "get").with("UCUDNN_TUNE_SECONDS", "20").preloaded();
    run(&filled, "none").preloaded();
    let expected = network_norms(&figures);
    Connection::open(&filled).unwrap().execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    let seed = seed();
    let count = std::env::var("UCUDNN_TEST_FUZZ").map_or(DATABASES, |count| count.parse().expect("a number"));
    for number in 0..count {
        let mut random = StdRng::seed_from_u64(seed.wrapping_add(number as u64));
        std::fs::copy(&filled, &database).unwrap();
        for left in ["-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{left}", database.display()));
        }
        if number % 4 == 3 {
            damage(&mut random, &database);
        } else {
            change(&mut random, &Connection::open(&database).unwrap());
        }
        let query = ["get", "find", "findex", "none"][random.random_range(0..4)];
        run(&database, query).preloaded();
        for ((name, expected), (_, found)) in expected.iter().zip(network_norms(&figures)) {
            assert!(
                (found - expected).abs() < 1e-4 * expected,
                "seed {seed}, {number}: {name}: {found}, not {expected}"
            );
        }
    }
}
