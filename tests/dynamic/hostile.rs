//! Descriptions and graphs at random, and sound ones with a part changed.

use super::program;

#[test]
fn hostile_descriptions_have_statuses() {
    let ran = program("dynamic_hostile").plain(&["1", "10000"], &[("UCUDNN_LOG", "error")]);
    let number = |word| ran.line(word).parse::<usize>().unwrap();
    // Neither all are refused nor all accepted, and those that are accepted run.
    for word in ["nets", "graphs", "batches", "runs", "refused nets", "refused graphs", "refused batches"] {
        assert!(number(word) >= 500, "{word}: {}", ran.stdout);
    }
    assert_eq!(ran.stderr, "");
}
