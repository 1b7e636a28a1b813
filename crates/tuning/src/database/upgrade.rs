//! Brings a file of an older schema up to date, with all that it knows: measuring it took hours.

use rusqlite::{OptionalExtension, Transaction, params};

/// From schema 1, where an algorithm was cuDNN's numbers of a convolution's algorithm and math type, to schema 2, where
/// it is its subject's text; `outcomes` is how the table is made.
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

/// From schema 2, where an engine that ran on copies with channels last had a convolution's own channels, to schema 3, where
/// few are filled up with zeros: what copies took is forgotten, and that searches which knew of them have ended.
pub fn from_2(transaction: &Transaction) -> rusqlite::Result<()> {
    transaction.execute_batch(
        "DELETE FROM searches WHERE kernel IN (SELECT kernel FROM outcomes WHERE algorithm GLOB 'NHWC_*');
         DELETE FROM trials WHERE division GLOB '*NHWC_*';
         DELETE FROM outcomes WHERE algorithm GLOB 'NHWC_*';
         UPDATE OR IGNORE environments SET schema = 3 WHERE schema = 2;",
    )
}

/// From schema 3 to schema 4, where there is an engine of ours for gradients of filters: searches for these that have ended go
/// on with it.
pub fn from_3(transaction: &Transaction) -> rusqlite::Result<()> {
    transaction.execute_batch(
        "DELETE FROM searches WHERE kernel IN (SELECT id FROM kernels WHERE spec GLOB 'graph *| BF *');
         UPDATE OR IGNORE environments SET schema = 4 WHERE schema = 3;",
    )
}

/// `3x32:1:0+1x4:0:0` as `3x32 1:0:deterministic + 1x4 0:0:deterministic`. `None` if nothing is known of a part: then
/// the division says nothing.
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
