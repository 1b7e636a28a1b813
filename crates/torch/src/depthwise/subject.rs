//! The text that identifies a convolution by channel in the tuning database and in reports.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use convolution::engines::Convolution;
use cudnn::Direction;
use gpu::Element;

const DIRECTIONS: [Direction; 3] = [Direction::Forward, Direction::BackwardData, Direction::BackwardFilter];
const EXPECTED: &str = "F half images=128 channels=96 filters=96 x=1x56x56 y=1x56x56 filter=1x7x7 stride=1x1x1 \
                        padding=0x3x3 dilation=1x1x1";

/// A convolution by channel, by the operator for images or by that for volumes: PyTorch has a kernel for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Subject {
    pub of: Convolution,
    pub is_of_volumes: bool,
}

/// The last word of the text of a convolution of volumes.
const OF_VOLUMES: &str = "volumes";

impl Display for Subject {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        let Convolution {
            element, direction, images, inputs, outputs, x, y, filter, stride, padding, dilation, ..
        } = self.of;
        write!(f, "{direction} {} images={images} channels={inputs} filters={outputs}", element.name())?;
        let axes =
            [("x", x), ("y", y), ("filter", filter), ("stride", stride), ("padding", padding), ("dilation", dilation)];
        for (name, [a, b, c]) in axes {
            write!(f, " {name}={a}x{b}x{c}")?;
        }
        if self.is_of_volumes { write!(f, " {OF_VOLUMES}") } else { Ok(()) }
    }
}

impl FromStr for Subject {
    type Err = String;

    /// `Err` shows the expected form.
    fn from_str(text: &str) -> Result<Self, String> {
        read(text).ok_or_else(|| format!("{text:?} is no `{EXPECTED}`, nor one with the word {OF_VOLUMES} at its end"))
    }
}

fn read(text: &str) -> Option<Subject> {
    let words: Vec<_> = text.split(' ').collect();
    let (words, is_of_volumes) = match &words[..] {
        [words @ .., OF_VOLUMES] => (words, true),
        words => (words, false),
    };
    let &[direction, element, images, inputs, outputs, x, y, filter, stride, padding, dilation] = words else {
        return None;
    };
    let number = |word: &str, name: &str| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok();
    let axes = |word: &str, name: &str| {
        let numbers = word.strip_prefix(name)?.strip_prefix('=')?.split('x').map(|number| number.parse().ok());
        numbers.collect::<Option<Vec<usize>>>()?.try_into().ok()
    };
    let element = Element::ALL.into_iter().find(|known| known.name() == element)?;
    let inputs = number(inputs, "channels")?;
    let of = Convolution {
        element,
        is_exact: element == Element::Float,
        direction: DIRECTIONS.into_iter().find(|known| known.to_string() == direction)?,
        images: number(images, "images")?,
        inputs,
        outputs: number(outputs, "filters")?,
        groups: inputs,
        x: axes(x, "x")?,
        y: axes(y, "y")?,
        filter: axes(filter, "filter")?,
        stride: axes(stride, "stride")?,
        padding: axes(padding, "padding")?,
        dilation: axes(dilation, "dilation")?,
    };
    Some(Subject { of, is_of_volumes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_identify() {
        let Subject { of, is_of_volumes } = EXPECTED.parse().unwrap();
        assert_eq!((of.images, of.groups, of.filter, of.padding), (128, 96, [1, 7, 7], [0, 3, 3]));
        assert!(!is_of_volumes);
        for direction in DIRECTIONS {
            for element in Element::ALL {
                let is_exact = element == Element::Float;
                let of = Convolution { direction, element, is_exact, y: [1, 5, 6], ..of };
                for subject in [false, true].map(|is_of_volumes| Subject { of, is_of_volumes }) {
                    assert_eq!(subject.to_string().parse(), Ok(subject));
                }
            }
        }
        let replaced = |from: &str, to: &str| EXPECTED.replace(from, to);
        for wrong in ["", "F half", OF_VOLUMES, &replaced("1x7x7", "7x7"), &replaced("images", "pictures")] {
            assert!(wrong.parse::<Subject>().unwrap_err().contains(EXPECTED), "{wrong}");
        }
    }
}
