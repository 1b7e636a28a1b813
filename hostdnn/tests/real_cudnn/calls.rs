//! Random calls of the functions that set descriptors, each with the values that are read back after it.

use super::session::{Session, wide};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use std::ffi::c_int;

/// A call in words, with all its results: comparing transcripts compares libraries.
pub type Line = (String, Vec<i64>);

/// Values as a program passes them: mostly sound, some not.
pub struct Dice(pub StdRng);

impl Dice {
    fn pick<const N: usize>(&mut self, of: [c_int; N]) -> c_int {
        *of.choose(&mut self.0).unwrap()
    }
    fn dim(&mut self) -> c_int {
        if self.0.random_bool(0.9) {
            self.0.random_range(1..12)
        } else {
            self.pick([-3, -1, 0, 0, 1000, 65536, 1 << 20, c_int::MAX])
        }
    }
    fn stride(&mut self) -> c_int {
        if self.0.random_bool(0.9) {
            self.0.random_range(1..400)
        } else {
            self.pick([-7, -1, 0, 0, 1 << 20, c_int::MAX])
        }
    }
    fn step(&mut self) -> c_int {
        if self.0.random_bool(0.95) { self.0.random_range(1..4) } else { self.pick([-1, 0, 1 << 20, c_int::MAX]) }
    }
    fn pad(&mut self) -> c_int {
        if self.0.random_bool(0.95) { self.0.random_range(0..4) } else { self.pick([-1, 1 << 20, 1 << 30, c_int::MAX]) }
    }
    fn data_type(&mut self) -> c_int {
        if self.0.random_bool(0.8) { self.0.random_range(0..3) } else { self.0.random_range(-1..24) }
    }
    fn rank(&mut self, usual: c_int) -> c_int {
        if self.0.random_bool(0.7) { usual } else { self.0.random_range(-1..11) }
    }
    fn array(&mut self, mut value: impl FnMut(&mut Self) -> c_int) -> [c_int; 12] {
        std::array::from_fn(|_| value(self))
    }
    fn enumerator(&mut self, count: c_int) -> c_int {
        if self.0.random_bool(0.85) { self.0.random_range(0..count) } else { self.0.random_range(-2..count + 3) }
    }
}

/// Makes one random call, and reads the descriptor back.
pub fn call(session: &Session, dice: &mut Dice) -> Line {
    let Session { api, tensor, filter, convolution, activation, op } = *session;
    let (data_type, format) = (dice.data_type(), dice.enumerator(2));
    // The one pair that hostdnn refuses and cuDNN accepts.
    let format = if format == 2 && matches!(data_type, 5 | 7 | 8) { 3 } else { format };
    let (dims, strides) = (dice.array(Dice::dim), dice.array(Dice::stride));
    let (pads, steps, dilations) = (dice.array(Dice::pad), dice.array(Dice::step), dice.array(Dice::step));
    let mode = dice.enumerator(2);
    let which = dice.0.random_range(0..14);
    // SAFETY: descriptors are live, and the arrays are longer than any rank that is read.
    unsafe {
        match which {
            0 => {
                let [n, c, h, w, ..] = dims;
                let status = (api.cudnnSetTensor4dDescriptor)(tensor, format, data_type, n, c, h, w);
                line(format!("SetTensor4d {format} {data_type} {:?}", [n, c, h, w]), status, session.read_tensor(4))
            }
            1 => {
                let ([n, c, h, w, ..], [sn, sc, sh, sw, ..]) = (dims, strides);
                let status = (api.cudnnSetTensor4dDescriptorEx)(tensor, data_type, n, c, h, w, sn, sc, sh, sw);
                let words = format!("SetTensor4dEx {data_type} {:?} {:?}", [n, c, h, w], [sn, sc, sh, sw]);
                line(words, status, session.read_tensor(9))
            }
            2 => {
                let (rank, requested) = (dice.rank(5), dice.rank(5));
                let status = (api.cudnnSetTensorNdDescriptor)(tensor, data_type, rank, dims.as_ptr(), strides.as_ptr());
                line(
                    format!("SetTensorNd {data_type} {rank} {dims:?} {strides:?}"),
                    status,
                    session.read_tensor(requested),
                )
            }
            3 => {
                let (rank, requested) = (dice.rank(4), dice.rank(5));
                // cuDNN keeps half of a vector format that it refuses here, and then cannot read it back.
                let format = if format == 2 { 3 } else { format };
                let rank = if rank == 2 && format == 1 { 3 } else { rank };
                let status = (api.cudnnSetTensorNdDescriptorEx)(tensor, format, data_type, rank, dims.as_ptr());
                let words = format!("SetTensorNdEx {format} {data_type} {rank} {dims:?}");
                line(words, status, session.read_tensor(requested))
            }
            4 => {
                let [k, c, h, w, ..] = dims;
                let status = (api.cudnnSetFilter4dDescriptor)(filter, data_type, format, k, c, h, w);
                line(format!("SetFilter4d {data_type} {format} {:?}", [k, c, h, w]), status, session.read_filter(4))
            }
            5 => {
                let (rank, requested) = (dice.rank(4), dice.rank(5));
                let status = (api.cudnnSetFilterNdDescriptor)(filter, data_type, format, rank, dims.as_ptr());
                let words = format!("SetFilterNd {data_type} {format} {rank} {dims:?} ask {requested}");
                line(words, status, session.read_filter(requested))
            }
            6 => {
                let ([ph, pw, ..], [u, v, ..], [dh, dw, ..]) = (pads, steps, dilations);
                let status = (api.cudnnSetConvolution2dDescriptor)(convolution, ph, pw, u, v, dh, dw, mode, data_type);
                let words = format!("SetConvolution2d {:?} {mode} {data_type}", [ph, pw, u, v, dh, dw]);
                line(words, status, session.read_convolution(6))
            }
            7 => {
                let (rank, requested) = (dice.rank(2), dice.rank(3));
                let status = (api.cudnnSetConvolutionNdDescriptor)(
                    convolution,
                    rank,
                    pads.as_ptr(),
                    steps.as_ptr(),
                    dilations.as_ptr(),
                    mode,
                    data_type,
                );
                let words = format!("SetConvolutionNd {rank} {pads:?} {steps:?} {dilations:?} ask {requested}");
                line(words, status, session.read_convolution(requested))
            }
            8 => {
                let groups = dice.pick([-1, 0, 1, 1, 1, 2, 3]);
                let (math, reorder) = (dice.enumerator(4), dice.enumerator(2));
                let statuses = [
                    (api.cudnnSetConvolutionGroupCount)(convolution, groups),
                    (api.cudnnSetConvolutionMathType)(convolution, math),
                    (api.cudnnSetConvolutionReorderType)(convolution, reorder),
                ];
                let back = [wide(&statuses), session.read_convolution(2)].concat();
                (format!("groups {groups} math {math} reorder {reorder}"), back)
            }
            9 => {
                let (mode, nan) = (dice.enumerator(7), dice.enumerator(2));
                let coef: f64 = dice.0.random_range(-2.0..2.0);
                let beta: f64 = dice.0.random_range(-2.0..2.0);
                // cuDNN leaves unset operations uninitialized: both descriptors are set before they are read.
                let statuses = [
                    (api.cudnnSetActivationDescriptor)(activation, 1, 0, 1.0),
                    (api.cudnnSetOpTensorDescriptor)(op, 0, 0, 0),
                    (api.cudnnSetActivationDescriptor)(activation, mode, nan, coef),
                    (api.cudnnSetActivationDescriptorSwishBeta)(activation, beta),
                    (api.cudnnSetOpTensorDescriptor)(op, mode, data_type, nan),
                ];
                let words = format!("activation {mode} {nan} {coef} {beta}, op {mode} {data_type} {nan}");
                (words, [wide(&statuses), session.read_pointwise()].concat())
            }
            _ => {
                // Shapes that often match: channels follow the filter's, ranks agree.
                let rank = dice.pick([3, 4, 4, 5, 6]);
                let [mut x, mut w] = [dims, dice.array(|dice| dice.0.random_range(1..5))];
                let groups = dice.pick([1, 1, 2, 3]);
                x[1] = w[1].saturating_mul(groups);
                if dice.0.random_bool(0.2) {
                    w[1] += 1;
                }
                let (off, count) = (dice.pick([0, 0, 0, 0, 1]), dice.0.random_range(2..9));
                let statuses = [
                    (api.cudnnSetTensorNdDescriptorEx)(tensor, 0, 0, rank, x.as_ptr()),
                    (api.cudnnSetFilterNdDescriptor)(filter, 0, 0, rank, w.as_ptr()),
                    (api.cudnnSetConvolutionGroupCount)(convolution, groups),
                    (api.cudnnSetConvolutionNdDescriptor)(
                        convolution,
                        rank - 2 + off,
                        pads.as_ptr(),
                        steps.as_ptr(),
                        dilations.as_ptr(),
                        1,
                        0,
                    ),
                ];
                let words = format!("outputs {rank} {x:?} {w:?} {pads:?} {steps:?} {dilations:?} {groups} {count}");
                // After a partly refused convolution, cuDNN would divide by the refused value.
                let output = if statuses == [0; 4] { session.read_output(count) } else { Vec::new() };
                (words, [wide(&statuses), output].concat())
            }
        }
    }
}

fn line(words: String, status: c_int, back: Vec<i64>) -> Line {
    (words, [vec![status.into()], back].concat())
}
