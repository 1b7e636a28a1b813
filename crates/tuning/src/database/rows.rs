//! Reading rows. A row with an impossible value is left out and named in a warning; the rest of the database is used.

use std::collections::HashSet;

use parking_lot::Mutex;
use rusqlite::types::{Type, ValueRef};
use rusqlite::{Error, Params, Row, RowIndex, Statement};
use trust::Shown as _;

/// The most rows that a process names in warnings. The others are named at level `debug`.
const MOST_NAMED: usize = 8;
/// The most characters of a value in a row's name.
const MOST_SHOWN: usize = 80;

/// Reads all rows of a statement by `read`.
pub fn all<T>(
    statement: &mut Statement,
    params: impl Params,
    read: impl Fn(&Row) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    let mut rows = statement.query(params)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        match read(row) {
            Ok(one) => found.push(one),
            Err(error) => leave_out(row, error)?,
        }
    }
    Ok(found)
}

/// True if the number can be a time in milliseconds: finite, and not negative.
pub(super) fn is_time(time: f64) -> bool {
    time.is_finite() && time >= 0.0
}

/// A time in milliseconds, or null.
pub fn time(row: &Row, column: impl RowIndex) -> rusqlite::Result<Option<f64>> {
    let time: Option<f64> = row.get(column)?;
    match time {
        Some(wrong) if !is_time(wrong) => {
            let why = format!("{wrong} ms is no time");
            Err(Error::FromSqlConversionFailure(column.idx(row.as_ref())?, Type::Real, why.into()))
        }
        time => Ok(time),
    }
}

/// A count of images, which is 1 or more.
pub fn batch<T: TryFrom<i64>>(row: &Row, column: impl RowIndex) -> rusqlite::Result<T> {
    let batch: i64 = row.get(column)?;
    let number = (batch >= 1).then(|| T::try_from(batch).ok()).flatten();
    number.ok_or(Error::IntegralValueOutOfRange(column.idx(row.as_ref())?, batch))
}

/// Names a row that `error` is about. `Err` if the error is about more than the row.
fn leave_out(row: &Row, error: Error) -> rusqlite::Result<()> {
    let name = |column| row.as_ref().column_name(column).unwrap_or("value").to_owned();
    let why = match &error {
        Error::IntegralValueOutOfRange(column, value) => format!("its {} is {value}", name(*column)),
        Error::FromSqlConversionFailure(column, _, why) => format!("its {}: {why}", name(*column)),
        Error::InvalidColumnType(_, column, kind) => format!("its {column} is of type {kind}"),
        Error::Utf8Error(column, why) => format!("its {}: {why}", name(*column)),
        _ => return Err(error),
    };
    let values = (0..row.as_ref().column_count()).map(|column| format!("{} {}", name(column), value(row, column)));
    static NAMED: Mutex<Option<HashSet<String>>> = Mutex::new(None);
    let text = format!("a row is left out, {why}: {}", values.collect::<Vec<_>>().join(", "));
    let mut named = NAMED.lock();
    let named = named.get_or_insert_default();
    if named.len() < MOST_NAMED && named.insert(text.clone()) {
        log::warn!("the tuning database: {text}");
    } else {
        log::debug!("the tuning database: {text}");
    }
    Ok(())
}

fn value(row: &Row, column: usize) -> String {
    match row.get_ref(column) {
        Ok(ValueRef::Null) => "null".into(),
        Ok(ValueRef::Integer(value)) => value.to_string(),
        Ok(ValueRef::Real(value)) => value.to_string(),
        Ok(ValueRef::Text(text) | ValueRef::Blob(text)) => {
            let text: String = String::from_utf8_lossy(text).chars().take(MOST_SHOWN).collect();
            format!("\"{}\"", text.shown())
        }
        Err(error) => error.to_string(),
    }
}
