//! The text that identifies a convolution by channel in the tuning database and in reports.

use convolution::engines::Convolution;
use cudnn::Direction;
use gpu::Element;

const DIRECTIONS: [Direction; 3] = [Direction::Forward, Direction::BackwardData, Direction::BackwardFilter];
const EXPECTED: &str = "F half images=128 channels=96 filters=96 x=1x56x56 y=1x56x56 filter=1x7x7 stride=1x1x1 \
                        padding=0x3x3 dilation=1x1x1";

/// The text of a convolution.
pub fn spec(of: &Convolution) -> String {
    let Convolution { element, direction, images, inputs, outputs, x, y, filter, stride, padding, dilation, .. } = *of;
    let axes =
        [("x", x), ("y", y), ("filter", filter), ("stride", stride), ("padding", padding), ("dilation", dilation)];
    let axes = axes.map(|(name, [a, b, c])| format!("{name}={a}x{b}x{c}")).join(" ");
    format!("{direction} {} images={images} channels={inputs} filters={outputs} {axes}", element.name())
}

/// Reads a text of [`spec`]. `Err` shows the expected form.
pub fn from_spec(text: &str) -> Result<Convolution, String> {
    read(text).ok_or_else(|| format!("{text:?} is no `{EXPECTED}`"))
}

fn read(text: &str) -> Option<Convolution> {
    let words: Vec<_> = text.split(' ').collect();
    let [direction, element, images, inputs, outputs, x, y, filter, stride, padding, dilation] = words[..] else {
        return None;
    };
    let number = |word: &str, name: &str| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok();
    let axes = |word: &str, name: &str| {
        let numbers = word.strip_prefix(name)?.strip_prefix('=')?.split('x').map(|number| number.parse().ok());
        numbers.collect::<Option<Vec<usize>>>()?.try_into().ok()
    };
    let element = Element::ALL.into_iter().find(|known| known.name() == element)?;
    let inputs = number(inputs, "channels")?;
    Some(Convolution {
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
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_identify() {
        let of = from_spec(EXPECTED).unwrap();
        assert_eq!((of.images, of.groups, of.filter, of.padding), (128, 96, [1, 7, 7], [0, 3, 3]));
        for direction in DIRECTIONS {
            for element in Element::ALL {
                let other = Convolution { direction, element, is_exact: element == Element::Float, y: [1, 5, 6], ..of };
                assert_eq!(from_spec(&spec(&other)), Ok(other));
            }
        }
        for wrong in ["", "F half", &EXPECTED.replace("1x7x7", "7x7"), &EXPECTED.replace("images", "pictures")] {
            assert!(from_spec(wrong).unwrap_err().contains(EXPECTED), "{wrong}");
        }
    }
}
