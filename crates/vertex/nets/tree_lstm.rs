//! The Tree-LSTM that tests, benches and examples share.

use std::fmt::Write;

/// The canonical text of a binary Tree-LSTM with words at the leaves (Tai et al., ACL 2015, equations 9 to 14). Output 0
/// is a vertex's hidden state, `[vertices][h]`. With classes, output 1 is their scores, `[vertices][classes]`.
/// Parameters: leaves' gates 3h x, their bias, inner vertices' gates 5h 2h, their bias; the scores' matrix and bias.
pub fn tree_lstm(x: usize, h: usize, classes: Option<usize>) -> String {
    let (of_leaf, of_node) = (3 * h, 5 * h);
    let mut text = format!("states {h} {h}\nparameters {of_leaf}x{x} {of_leaf} {of_node}x{} {of_node}", 2 * h);
    text += &classes.map(|classes| format!(" {classes}x{h} {classes}")).unwrap_or_default();
    text += &format!("\npulls {x}\npushes {h}");
    text += &classes.map(|classes| format!(" {classes}")).unwrap_or_default();
    let mut function = |children: usize, operations: &[&str]| {
        write!(text, "\nfunction {children}:").expect("a text grows");
        for (number, operation) in operations.iter().enumerate() {
            write!(text, "\n%{number} = {operation}").expect("a text grows");
        }
        // The last three: the cell state, its tanh, and the hidden state.
        let last = operations.len() - 1;
        write!(text, "\nscatter 0, %{last}\nscatter 1, %{}\npush 0, %{last}", last - 2).expect("a text grows");
        if classes.is_some() {
            let next = operations.len() + 3;
            write!(text, "\n%{next} = matmul P4, %{last}\n%{} = bias P5, %{next}\npush 1, %{}", next + 1, next + 1)
                .expect("a text grows");
        }
    };
    let gate = |of: usize, number: usize| format!("slice %{of}, {}, {h}", number * h);
    let leaf = ["pull 0", "matmul P0, %0", "bias P1, %1", &gate(2, 0), &gate(2, 1), &gate(2, 2)];
    let leaf_cell = ["sigmoid %3", "sigmoid %4", "tanh %5", "mul %6, %8", "tanh %9", "mul %7, %10"];
    function(0, &[leaf, leaf_cell].concat());
    let gates: Vec<_> = (0..5).map(|number| gate(4, number)).collect();
    let gates: Vec<_> = gates.iter().map(String::as_str).collect();
    let node = ["gather 0, 0", "gather 1, 0", "concat %0, %1", "matmul P2, %2", "bias P3, %3"];
    let activations = ["sigmoid %5", "sigmoid %6", "tanh %7", "sigmoid %8", "sigmoid %9", "gather 0, 1"];
    let cell = ["gather 1, 1", "mul %10, %12", "mul %13, %15", "mul %14, %16", "add %17, %18", "add %20, %19"];
    function(2, &[&node[..], &gates, &activations, &cell, &["tanh %21", "mul %11, %22"]].concat());
    text
}
