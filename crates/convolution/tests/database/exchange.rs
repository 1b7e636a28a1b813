//! The text form: an export and import loses nothing, and lines that are not understood are named.

use proptest::prelude::*;

use super::*;
use planner::Configuration;

fn export(database: &Database) -> String {
    let mut text = Vec::new();
    let count = database.export(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert_eq!(text.lines().count(), count);
    text
}

fn import(database: &Database, text: &str) -> (usize, usize, Vec<String>) {
    let imported = database.import(text.as_bytes(), "some.jsonl", &TEXTS).unwrap();
    (imported.merged, imported.kept, imported.refused)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, ..ProptestConfig::default() })]
    #[test]
    fn nothing_is_lost(
        outcomes in proptest::collection::vec(
            (0..3_usize, 1..200_usize, 0..8, any::<Option<u64>>(), any::<u32>(), ".*"), 1..30)
    ) {
        let folder = Folder::new();
        let (from, to) = (open(&folder.file("from")), open(&folder.file("to")));
        for (kernel, batch, id, time, workspace, text) in outcomes {
            let kernel = [forward(300), half_filter(300), half_filter(batch)][kernel];
            // Every bit pattern that can be a time.
            let time = time.map(|bits| f64::from_bits(bits).abs()).filter(|time| time.is_finite());
            let outcome = Outcome { workspace: workspace as usize * 9, ..outcome(&kernel, batch, id, time) };
            let here = environment(&text.replace('\0', ""));
            from.store_measured(&here, &kernel, &[outcome]);
            if let Some(micro) = outcome.micro_configuration().filter(|micro| micro.batch == kernel.batch()) {
                from.store_trial(&here, &kernel, &Configuration::undivided(micro), time);
            }
            from.store_search_ended(&here, &kernel, &text.replace('\0', ""));
        }
        let text = export(&from);
        let lines = text.lines().count();
        prop_assert_eq!(import(&to, &text), (lines, 0, vec![]));
        let sorted = |text: &str| { let mut lines: Vec<_> = text.lines().map(str::to_owned).collect(); lines.sort(); lines };
        prop_assert_eq!(sorted(&export(&to)), sorted(&text));
        prop_assert_eq!(import(&to, &text), (0, lines, vec![]));
    }
}

#[test]
fn the_newer_of_two_stays() {
    let folder = Folder::new();
    let (database, here, kernel) = (open(&folder.file("d")), environment("A"), forward(8));
    database.store_measured(&here, &kernel, &[outcome(&kernel, 8, 1, 1.0)]);
    let text = export(&database);
    let (_, now) = text.rsplit_once("\"measured_at\":").unwrap();
    let now: i64 = now.split('}').next().unwrap().parse().unwrap();
    let at = |moment: i64, time: &str| {
        text.replace(&format!("\"measured_at\":{now}"), &format!("\"measured_at\":{moment}"))
            .replace("\"time_ms\":1.0", &format!("\"time_ms\":{time}"))
    };
    assert_eq!(import(&database, &at(now - 1, "5.0")), (0, 1, vec![]));
    assert_eq!(database.measured(&here, &kernel), [outcome(&kernel, 8, 1, 1.0)]);
    assert_eq!(import(&database, &at(now + 1, "null")), (1, 0, vec![]));
    assert_eq!(database.measured(&here, &kernel), [outcome(&kernel, 8, 1, None)]);
}

#[test]
fn what_is_not_understood_is_named_and_the_rest_merged() {
    let folder = Folder::new();
    let (from, to) = (open(&folder.file("from")), open(&folder.file("to")));
    let (here, kernel) = (environment("A"), forward(8));
    let stored = outcome(&kernel, 8, 1, 1.5);
    from.store_measured(&here, &kernel, &[stored]);
    let whole = Configuration::undivided(stored.micro_configuration().unwrap());
    from.store_trial(&here, &kernel, &whole, Some(1.5));
    let text = export(&from);
    let (outcome, trial) = text.trim_end().split_once('\n').unwrap();
    let wrong = [
        ("{".to_owned(), "it is no JSON"),
        ("[1]".to_owned(), "it names no schema"),
        (outcome.replace("\"schema\":5", "\"schema\":1"), "its schema is 1: this ucudnn reads 5 alone"),
        (outcome.replace("\"driver\"", "\"drover\""), "drover"),
        (outcome.replace("\"workspace\"", "\"more\":1,\"workspace\""), "more"),
        (outcome.replace("\"workspace\":8000", "\"workspace\":-1"), "-1"),
        (outcome.replace("\"workspace\":8000", "\"workspace\":9999999999999999999"), "more than there can be"),
        (outcome.replace("1.5", "-1.5"), "its time is -1.5 ms"),
        (outcome.replace("F x=", "G x="), "its kernel: the direction is \"G\""),
        (outcome.replace("float:1x", "float:2x"), "is not over one image"),
        (outcome.replace("\"batch\":8", "\"batch\":0"), "its batch is 0"),
        (outcome.replace("\"outcome\"", "\"outcame\""), "outcame"),
        (outcome.replace("1:0:det", "1:a:det"), "its algorithm is \"1:a:deterministic\""),
        (trial.replace("1x8 1:0", "1y8 1:0"), "its division is \"1y8 1:0:deterministic\""),
        (trial.replace("1x8 1:0", "1x8 1:a"), "its division is \"1x8 1:a:deterministic\""),
    ];
    let mut all = String::new();
    for (line, _) in &wrong {
        assert!(line != outcome && line != trial, "the replacement must replace: {line}");
        all += &format!("{line}\n\n");
    }
    all += &text;
    let (merged, kept, refused) = import(&to, &all);
    assert_eq!((merged, kept, refused.len()), (2, 0, wrong.len()), "{refused:#?}");
    for (number, ((line, why), refused)) in wrong.iter().zip(&refused).enumerate() {
        let place = format!("some.jsonl:{}: ", 2 * number + 1);
        assert!(refused.starts_with(&place) && refused.contains(why), "{line}\n{refused}");
    }
    assert_eq!(to.measured(&here, &kernel), [stored]);
    assert_eq!(to.trials(&here, &kernel), [(whole, Some(1.5))]);
}
