//! Numbers as the kernels store them.

use half::{bf16, f16};

use ucudnn_recurrent::configuration::Element;

/// Numbers in memory, of 2 or 4 bytes each.
#[derive(Clone, Debug, PartialEq)]
pub struct Numbers {
    element: Element,
    bytes: Vec<u8>,
}

impl Numbers {
    /// Rounds numbers to the type.
    pub fn of(element: Element, values: impl IntoIterator<Item = f64>) -> Self {
        let bytes = values.into_iter().flat_map(|value| bits(element, value)).collect();
        Self { element, bytes }
    }

    /// Numbers that are all NaN.
    pub fn poison(element: Element, count: usize) -> Self {
        Self::of(element, std::iter::repeat_n(f64::NAN, count))
    }

    pub fn len(&self) -> usize {
        self.bytes.len() / self.element.bytes()
    }

    pub fn get(&self, index: usize) -> f64 {
        let size = self.element.bytes();
        let bytes = &self.bytes[index * size..][..size];
        match self.element {
            Element::Float => f32::from_ne_bytes(bytes.try_into().unwrap()).into(),
            Element::Half => f16::from_ne_bytes(bytes.try_into().unwrap()).into(),
            Element::Bfloat16 => bf16::from_ne_bytes(bytes.try_into().unwrap()).into(),
        }
    }

    pub fn as_ptr(&self) -> *const u8 {
        self.bytes.as_ptr()
    }

    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.bytes.as_mut_ptr()
    }
}

/// A number's bytes.
pub fn bits(element: Element, value: f64) -> Vec<u8> {
    match element {
        Element::Float => (value as f32).to_ne_bytes().into(),
        Element::Half => f16::from_f64(value).to_ne_bytes().into(),
        Element::Bfloat16 => bf16::from_f64(value).to_ne_bytes().into(),
    }
}
