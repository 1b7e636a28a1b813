//! Upgrades a file of an older schema and keeps its results, which took hours to measure.

use rusqlite::{OptionalExtension, Transaction, params};

/// Upgrades schema 1, where an algorithm was cuDNN's numbers of the algorithm and the math type, to schema 2, where it
/// is its subject's text. `outcomes` is the SQL that creates the table.
pub fn from_1(transaction: &Transaction, outcomes: &str) -> rusqlite::Result<()> {
    transaction.execute_batch(&format!(
        "ALTER TABLE outcomes RENAME TO outcomes_1;
         {outcomes};
         INSERT INTO outcomes SELECT kernel, batch, summed_in_float,
             algorithm || ':' || math_type || ':' || iif(deterministic, 'deterministic', 'nondeterministic'),
             workspace, time_ms, measured_at FROM outcomes_1;
         DROP TABLE outcomes_1;"
    ))?;
    let mut statement = transaction.prepare(
        "SELECT kernel, batch, division FROM trials JOIN kernels ON kernels.id = trials.kernel
         JOIN environments ON environments.id = kernels.environment WHERE schema = 1",
    )?;
    let trials = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    for (kernel, batch, division) in trials.collect::<rusqlite::Result<Vec<(i64, i64, String)>>>()? {
        match division_from_1(transaction, kernel, &division)? {
            Some(new) => transaction.execute(
                "UPDATE trials SET division = ?4 WHERE kernel = ?1 AND batch = ?2 AND division = ?3",
                params![kernel, batch, division, new],
            )?,
            None => transaction.execute(
                "DELETE FROM trials WHERE kernel = ?1 AND batch = ?2 AND division = ?3",
                params![kernel, batch, division],
            )?,
        };
    }
    transaction.execute("UPDATE OR IGNORE environments SET schema = 2 WHERE schema = 1", [])?;
    Ok(())
}

/// Upgrades schema 2 to schema 3. An engine on copies with channels last now pads few channels with zeros, so this
/// deletes the times of copies, and the ends of searches that knew such times.
pub fn from_2(transaction: &Transaction) -> rusqlite::Result<()> {
    transaction.execute_batch(
        "DELETE FROM searches WHERE kernel IN (SELECT kernel FROM outcomes WHERE algorithm GLOB 'NHWC_*');
         DELETE FROM trials WHERE division GLOB '*NHWC_*';
         DELETE FROM outcomes WHERE algorithm GLOB 'NHWC_*';
         UPDATE OR IGNORE environments SET schema = 3 WHERE schema = 2;",
    )
}

/// Upgrades schema 3 to schema 4, which has our own engine for filter gradients. Ended searches for such gradients
/// continue with that engine.
pub fn from_3(transaction: &Transaction) -> rusqlite::Result<()> {
    transaction.execute_batch(
        "DELETE FROM searches WHERE kernel IN (SELECT id FROM kernels WHERE spec GLOB 'graph *| BF *');
         UPDATE OR IGNORE environments SET schema = 4 WHERE schema = 3;",
    )
}

/// Converts `3x32:1:0+1x4:0:0` to `3x32 1:0:deterministic + 1x4 0:0:deterministic`. `None` if a part has no stored
/// outcome: the division is then useless.
fn division_from_1(transaction: &Transaction, kernel: i64, division: &str) -> rusqlite::Result<Option<String>> {
    let mut statement = transaction.prepare_cached(
        "SELECT algorithm FROM outcomes WHERE kernel = ?1 AND batch = ?2
         AND algorithm IN (?3 || ':deterministic', ?3 || ':nondeterministic')",
    )?;
    let mut parts = Vec::new();
    for part in division.split('+') {
        let Some((size, numbers)) = part.split_once(':') else { return Ok(None) };
        let images = size.split_once('x').and_then(|(_, images)| images.parse::<i64>().ok());
        let known = statement.query_row(params![kernel, images, numbers], |row| row.get::<_, String>(0));
        let Some(algorithm) = known.optional()? else { return Ok(None) };
        parts.push(format!("{size} {algorithm}"));
    }
    Ok(Some(parts.join(" + ")))
}
