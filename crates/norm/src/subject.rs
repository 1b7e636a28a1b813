//! A pass over a tensor. The library times it, and the database keeps the times.

use std::fmt;

use super::pass::Pass;
use super::shape::Planes;
use gpu::Element;

/// A pass of batch normalization.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Normalization {
    pub pass: Pass,
    /// The program asks for `CUDNN_BATCHNORM_SPATIAL_PERSISTENT`, for which cuDNN has other kernels. Our kernels are
    /// the same for both modes.
    pub is_persistent: bool,
    pub planes: Planes,
}

/// The names of cuDNN's modes.
const SPATIAL: &str = "spatial";
const PERSISTENT: &str = "persistent";

impl fmt::Display for Normalization {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        let how = if self.is_persistent { ", persistent" } else { "" };
        write!(formatter, "{} of {}{how}", self.pass.row().what, self.planes)
    }
}

impl Normalization {
    fn mode(&self) -> &'static str {
        if self.is_persistent { PERSISTENT } else { SPATIAL }
    }

    /// The text that identifies it, such as `forward spatial half images=128 channels=64 plane=3136`.
    pub fn spec(&self) -> String {
        let Planes { element, images, channels, plane } = self.planes;
        let [pass, mode, element] = [self.pass.row().name, self.mode(), element.name()];
        format!("{pass} {mode} {element} images={images} channels={channels} plane={plane}")
    }

    /// Reads a text of [`Self::spec`]. `Err` shows the expected form.
    pub fn from_spec(text: &str) -> Result<Self, String> {
        let expected = || format!("{text:?} is no `forward spatial half images=128 channels=64 plane=3136`");
        let words: Vec<_> = text.split(' ').collect();
        let [pass, mode, element, images, channels, plane] = words[..] else { return Err(expected()) };
        let size = |word: &str, name: &str| {
            let number = word.strip_prefix(name).and_then(|rest| rest.strip_prefix('='));
            number.and_then(|number| number.parse().ok()).ok_or_else(expected)
        };
        Ok(Self {
            pass: Pass::ALL.into_iter().find(|known| known.row().name == pass).ok_or_else(expected)?,
            is_persistent: match mode {
                SPATIAL => false,
                PERSISTENT => true,
                _ => return Err(expected()),
            },
            planes: Planes {
                element: Element::ALL.into_iter().find(|known| known.name() == element).ok_or_else(expected)?,
                images: size(images, "images")?,
                channels: size(channels, "channels")?,
                plane: size(plane, "plane")?,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_identify() {
        let planes = Planes { element: Element::Bfloat16, images: 2, channels: 16, plane: 49 };
        for (pass, is_persistent) in Pass::ALL.into_iter().zip([false, true, false]) {
            let subject = Normalization { pass, is_persistent, planes };
            assert_eq!(Normalization::from_spec(&subject.spec()), Ok(subject));
        }
        for wrong in [
            "",
            "forward spatial half",
            "forward half images=1 channels=8 plane=8",
            "sideways spatial half images=1 channels=8 plane=8",
            "forward sparse half images=1 channels=8 plane=8",
            "forward spatial int8 images=1 channels=8 plane=8",
            "forward spatial half images=1 channels=8 plane=x",
            "forward spatial half images=1 plane=8 channels=8",
            "forward spatial half images=1 channels=8 plane=8 more=1",
        ] {
            assert!(Normalization::from_spec(wrong).unwrap_err().contains(wrong));
        }
    }
}
