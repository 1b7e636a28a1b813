//! Products of the rows of a level: by tiles for few, some and many rows, and by blocks that share out the depth.

use std::cell::Cell;

use gpu::Element;
use gpu::jit::Source;
use gpu::testing::emulated;
use ucudnn_dynamic::{Options, Warpgroups, Without};

use super::case::{Arrays, Case};
use super::nets::{check, check_changed, options};

/// A product of a matrix [width][width] with the states of as many leaves as there are rows, in one level.
pub fn product_case(width: usize, rows: usize) -> Case {
    tall_product_case(width, width, rows)
}

/// Likewise of a matrix [height][width], of whose product the first numbers are added to the last ones.
fn tall_product_case(height: usize, width: usize, rows: usize) -> Case {
    let sum = match height - width {
        0 => String::new(),
        rest => format!("%2 = slice %1, 0, {width}\n%3 = slice %1, {rest}, {width}\n%4 = add %2, %3\n"),
    };
    let last = if sum.is_empty() { 1 } else { 4 };
    let declaration = format!(
        "states {width}\nparameters {height}x{width}\npulls {width}\npushes {width}\nfunction 0:\n%0 = pull 0\n\
         scatter 0, %0\npush 0, %0\nfunction 1:\n%0 = gather 0, 0\n%1 = matmul P0, %0\n{sum}scatter 0, %{last}\n\
         push 0, %{last}"
    );
    let graphs =
        Arrays { first_vertex: vec![0, 2], first_child: vec![0, 0, 1], children: vec![0], ..Arrays::default() };
    Case { declaration: declaration.parse().unwrap(), graphs, ids: vec![0; rows], seed: (width + rows) as u64 }
}

/// The types of numbers, each with whether products are rounded to TF32.
const TYPES: [(Element, bool); 4] =
    [(Element::Float, false), (Element::Float, true), (Element::Half, false), (Element::Bfloat16, false)];

/// Checks products of these widths and numbers of rows; those with an odd number were made for a quarter of the rows.
fn levels(test: &str, types: &[(Element, bool)], sizes: &[(usize, usize)], warpgroups: Warpgroups) {
    if !emulated::is_child(test) {
        return;
    }
    for &(element, tf32) in types {
        for (number, &(width, rows)) in sizes.iter().enumerate() {
            // Fused kernels would compute few rows.
            let options = Options { tf32, warpgroups, without: Without::Fusion, ..options(element, true) };
            if check(&product_case(width, rows), number, options).is_none() {
                return;
            }
        }
    }
}

#[test]
fn a_product_of_a_level_emulated_as_the_oracle() {
    levels("levels::a_product_of_a_level_emulated_as_the_oracle", &TYPES[..1], &[(200, 5)], Warpgroups::Many);
}

/// Outer products, too. Blocks of a cluster share out the depth.
#[test]
fn a_product_of_a_level_by_warpgroups_emulated_as_the_oracle() {
    let test = "levels::a_product_of_a_level_by_warpgroups_emulated_as_the_oracle";
    levels(test, &TYPES[..1], &[(72, 6)], Warpgroups::Always);
}

/// Backward, products read these matrices by their depth, which is more than their columns. Rows of one, or of both, begin
/// where numbers may be read together.
#[test]
#[ignore = "long: make test-kernels runs it"]
fn products_of_tall_matrices_emulated_as_the_oracle() {
    if !emulated::is_child("levels::products_of_tall_matrices_emulated_as_the_oracle") {
        return;
    }
    for (element, tf32) in TYPES {
        for (warpgroups, height, width, rows) in [
            (Warpgroups::Never, 100, 64, 9),
            (Warpgroups::Never, 203, 136, 33),
            (Warpgroups::Never, 72, 65, 70),
            (Warpgroups::Always, 200, 136, 66),
            (Warpgroups::Always, 72, 67, 5),
        ] {
            let options = Options { tf32, warpgroups, without: Without::Fusion, ..options(element, true) };
            if check(&tall_product_case(height, width, rows), 0, options).is_none() {
                return;
            }
        }
    }
}

/// Kernels that do not load leave their work to others.
#[test]
fn products_without_warpgroups_emulated_as_the_oracle() {
    if !emulated::is_child("levels::products_without_warpgroups_emulated_as_the_oracle") {
        return;
    }
    let is_changed = Cell::new(false);
    let change = |source: Source| match &*source.name {
        "dynamic/warpgroup_products.cu" => {
            is_changed.set(true);
            Source { text: "#error no such kernels".into(), ..source }
        }
        _ => source,
    };
    let options = Options { without: Without::Fusion, ..options(Element::Float, true) };
    if check_changed(&product_case(33, 70), 0, options, &change).is_some() {
        assert!(is_changed.get(), "there is such a source");
    }
}

/// Numbers of rows around the sizes of tiles; widths of odd numbers, and parts of the depth.
#[test]
#[ignore = "long: make test-kernels runs it"]
fn products_of_levels_emulated_as_the_oracle() {
    let rows = [1, 8, 9, 40, 64, 65, 130].map(|rows| (36, rows));
    let parts = [(200, 100), (203, 7), (322, 9), (193, 70)];
    let sizes = [&rows[..], &parts].concat();
    levels("levels::products_of_levels_emulated_as_the_oracle", &TYPES, &sizes, Warpgroups::Never);
}

/// Numbers of rows, and widths, around the sizes of tiles and of stages; odd numbers. Each type has some.
#[test]
#[ignore = "long: make test-kernels runs it"]
fn products_of_levels_by_warpgroups_emulated_as_the_oracle() {
    let sizes =
        [(1, 1), (31, 64), (32, 65), (33, 127), (36, 128), (64, 129), (127, 7), (129, 66), (200, 130), (260, 3)];
    let test = "levels::products_of_levels_by_warpgroups_emulated_as_the_oracle";
    if !emulated::is_child(test) {
        return;
    }
    for (number, its) in TYPES.chunks(1).enumerate() {
        let some: Vec<_> = sizes.into_iter().skip(number % 2).step_by(2).collect();
        levels(test, its, &some, Warpgroups::Always);
    }
}

/// Of a large matrix, a batch that is not static multiplies few rows in the same way.
#[test]
#[ignore = "long: make test-kernels runs it"]
fn a_product_of_a_large_matrix_emulated_as_the_oracle() {
    if emulated::is_child("levels::a_product_of_a_large_matrix_emulated_as_the_oracle") {
        check(&product_case(1024, 3), 0, options(Element::Float, false));
    }
}
