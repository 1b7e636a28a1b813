//! Products of floats that are no numbers, or infinite, where a sum of products in their order is. Tensor cores have exact
//! products of finite floats alone, so kernels compute such products again.

use gpu::Element;
use gpu::testing::emulated;
use ucudnn_dynamic::{Options, Warpgroups};
use vertex::oracle::Pull;

use super::case::{Arrays, Case, Numbers};
use super::levels::product_case;
use super::nets::{check, check_of, options, persistent};

#[test]
fn infinite_factors_emulated_as_the_oracle() {
    if !emulated::is_child("not_finite::infinite_factors_emulated_as_the_oracle") {
        return;
    }
    let declaration = "
        states 2
        parameters 2x2
        pulls 2
        pushes 2
        function 0:
        %0 = pull 0
        scatter 0, %0
        push 0, %0
        function 1:
        %0 = gather 0, 0
        %1 = shift %0, 2000.0
        %2 = exp %1
        %3 = matmul P0, %2
        %4 = sigmoid %3
        scatter 0, %4
        push 0, %4";
    let children = (0..3).collect();
    let graphs = Arrays { first_vertex: vec![0, 4], first_child: vec![0, 0, 1, 2, 3], children, ..Arrays::default() };
    for seed in 1..4 {
        let case = Case { declaration: declaration.parse().unwrap(), graphs: graphs.clone(), ids: vec![0; 40], seed };
        check(&case, 0, options(Element::Float, true));
        check(&case, 0, persistent(Element::Float, false));
    }
}

/// Numbers that poison some rows of factors, each at a place counted from the row's end.
const POISONS: [&[(usize, f64)]; 6] = [
    &[(1, f64::NAN)],
    &[(1, f64::INFINITY)],
    // A sum that is infinite, or of infinities of both signs: no number, as the matrix has it.
    &[(2, f64::INFINITY), (1, f64::NEG_INFINITY)],
    &[(3, f64::NEG_INFINITY), (1, f64::NAN)],
    &[(usize::MAX, f64::INFINITY), (1, f64::INFINITY)],
    &[(usize::MAX, f64::NAN)],
];

/// Poisons every `each`th row from the second one on, each row otherwise.
fn poison_rows(numbers: &mut [f64], width: usize, each: usize) {
    for (number, row) in numbers.chunks_exact_mut(width).skip(1).step_by(each).enumerate() {
        for &(from_end, poison) in POISONS[number % POISONS.len()] {
            row[width.saturating_sub(from_end)] = poison;
        }
    }
}

/// Checks products of these widths and numbers of rows, all poisoned in three ways: in the rows, in the gradients, and in
/// the matrix. About half of the sizes have a static net.
fn products(test: &str, sizes: &[(usize, usize)], warpgroups: Warpgroups) {
    if !emulated::is_child(test) {
        return;
    }
    for (number, &(width, rows)) in sizes.iter().enumerate() {
        let case = product_case(width, rows);
        let of_rows = |its: &mut Numbers| {
            let Pull::Rows(rows) = &mut its.pulls[0] else { unreachable!("the input has rows") };
            poison_rows(rows, width, 2);
            its.parameters[0].iter_mut().step_by(5).for_each(|number| *number = 0.0);
        };
        let of_gradients = |its: &mut Numbers| poison_rows(&mut its.push_gradients[0], width, 4);
        let of_matrix = |its: &mut Numbers| poison_rows(&mut its.parameters[0], width, 3);
        // The largest floats have no parts, but products with numbers below 1 are finite.
        let large = |its: &mut Numbers| {
            let Pull::Rows(rows) = &mut its.pulls[0] else { unreachable!("the input has rows") };
            rows.iter_mut().skip(width / 2).step_by(width).for_each(|number| *number = f64::from(f32::MAX));
            its.parameters[0].iter_mut().for_each(|number| *number = f64::from((*number / 8.0) as f32));
            its.push_gradients[0].iter_mut().for_each(|number| *number = f64::from((*number / 1024.0) as f32));
        };
        let all: [&dyn Fn(&mut Numbers); 4] = [&of_rows, &of_gradients, &of_matrix, &large];
        let is_static = (number + number / 4) % 2 == 1;
        // Blocks of many threads take their time here: of several sizes each has one poison on the path.
        let on_the_path = all.into_iter().skip(number % 4).step_by(sizes.len().min(4));
        let batched = Options { warpgroups, ..options(Element::Float, is_static) };
        let runs = all.map(|poison| (batched, poison)).into_iter();
        for (options, poison) in runs.chain(on_the_path.map(|poison| (persistent(Element::Float, is_static), poison))) {
            if check_of(&case, 0, options, &|source| source, poison).is_none() {
                return;
            }
        }
    }
}

#[test]
fn a_product_that_is_no_number_emulated_as_the_oracle() {
    products("not_finite::a_product_that_is_no_number_emulated_as_the_oracle", &[(17, 35)], Warpgroups::Many);
}

/// Numbers of rows around those of a product of few rows, of a tile, of a wide level, of a span and of a slice; and widths
/// around the depth that is added up at once, and a strip.
#[test]
#[ignore = "long: make test-kernels runs it"]
fn products_that_are_no_numbers_emulated_as_the_oracle() {
    let rows = [1, 2, 3, 8, 9, 33, 65].map(|rows| (12, rows));
    let widths = [4, 15, 16, 64, 68].map(|width| (width, 34));
    // Blocks share out the depth.
    let shared = [(200, 5), (203, 9)];
    let sizes = [&rows[..], &widths, &shared].concat();
    products("not_finite::products_that_are_no_numbers_emulated_as_the_oracle", &sizes, Warpgroups::Never);
}

/// Numbers of rows, and widths, around those of a tile and of a stage; blocks share out the depth.
#[test]
#[ignore = "long: make test-kernels runs it"]
fn products_by_warpgroups_that_are_no_numbers_emulated_as_the_oracle() {
    let test = "not_finite::products_by_warpgroups_that_are_no_numbers_emulated_as_the_oracle";
    products(test, &[(12, 1), (33, 34), (36, 129), (130, 4)], Warpgroups::Always);
}
