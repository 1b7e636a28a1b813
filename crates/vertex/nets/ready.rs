//! The ready nets of the Python package that tests share, beside the N-ary Tree-LSTM. Its tests hold these texts against
//! the modules' own.

/// The name and the canonical text of each, for inputs of x and states of h numbers.
pub fn ready(x: usize, h: usize) -> [(&'static str, String); 3] {
    [
        ("child-sum Tree-LSTM", include_str!("child_sum_tree_lstm.txt")),
        ("TreeGRU", include_str!("tree_gru.txt")),
        ("DagGRU", include_str!("dag_gru.txt")),
    ]
    .map(|(name, text)| {
        let numbers = [("{x}", x), ("{h}", h), ("{2h}", 2 * h), ("{3h}", 3 * h)];
        let text = numbers.iter().fold(text.to_owned(), |text, (word, number)| text.replace(word, &number.to_string()));
        (name, text)
    })
}
