//! The numbers of the operations in the C API.

use vertex::function::{Op, USER_OPERATIONS};

/// `softmaxChildren` of `SOFTMAX_CHILDREN`.
fn in_camel_case(name: &str) -> String {
    let mut words = name.split('_').map(str::to_lowercase);
    let first = words.next().unwrap_or_default();
    words.fold(first, |name, word| name + &word[..1].to_uppercase() + &word[1..])
}

#[test]
fn each_operation_has_its_number_in_the_header() {
    let constants = include_str!("../../src/c/types.rs").lines().filter_map(|line| {
        let (name, number) = line.strip_prefix("pub const UCUDNN_VERTEX_")?.split_once(": ucudnnVertexOp_t = ")?;
        Some((in_camel_case(name), number.strip_suffix(';')?.parse::<usize>().ok()?))
    });
    let of_net = (0..USER_OPERATIONS).map(|number| (Op::of_user(number).unwrap().name().to_owned(), number));
    assert_eq!(constants.collect::<Vec<_>>(), of_net.collect::<Vec<_>>());
}
