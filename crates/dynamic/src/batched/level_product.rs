//! A product of a level's rows, as kernels take it.

use std::ffi::c_void;

use gpu::products::Products;

/// A product of the rows that a script counts, or of `count` rows. Twin of the struct in `kernels/dynamic/level_products.cuh`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LevelProduct {
    pub x: *const c_void,
    pub weights: *const c_void,
    pub products: *mut f32,
    pub script: *const c_void,
    pub columns: i32,
    pub depth: i32,
    /// x has all rows of the kind, not those of the level alone.
    pub has_all_x: i32,
    /// Likewise the products.
    pub has_all_products: i32,
    /// Rows are edges.
    pub is_of_children: i32,
    /// The first rows, which are left out.
    pub skipped: i32,
    /// The rows, without a script.
    pub count: i32,
    /// The weights are [depth][columns], not [columns][depth].
    pub is_by_depth: i32,
}

impl LevelProduct {
    /// A product of all rows.
    pub fn of(its: &Products) -> Self {
        let Products { x, weights, products, rows: count, columns, depth } = *its;
        Self {
            x,
            weights,
            products,
            script: std::ptr::null(),
            columns,
            depth,
            has_all_x: 0,
            has_all_products: 0,
            is_of_children: 0,
            skipped: 0,
            count,
            is_by_depth: 0,
        }
    }
}
