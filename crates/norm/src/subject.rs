//! A pass over a tensor. The library times it, and the database keeps the times.

use std::fmt;

use once_cell::sync::OnceCell;

use super::pass::Pass;
use super::shape::Planes;
use gpu::Element;
use tuning::contest::CUDNN;

/// The implementation that a program has without us. Our kernels are the same for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Plain {
    /// cuDNN, in its mode `CUDNN_BATCHNORM_SPATIAL`.
    Spatial,
    /// cuDNN, in its mode `CUDNN_BATCHNORM_SPATIAL_PERSISTENT`, for which it has other kernels.
    Persistent,
    /// PyTorch's own kernels, of its operators such as `native_batch_norm`.
    Native,
}

impl Plain {
    const ALL: [Self; 3] = [Self::Spatial, Self::Persistent, Self::Native];

    /// The word for it in texts that identify a subject.
    fn word(self) -> &'static str {
        match self {
            Self::Spatial => "spatial",
            Self::Persistent => "persistent",
            Self::Native => "native",
        }
    }

    /// Its name in the database and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Spatial | Self::Persistent => CUDNN,
            Self::Native => pytorch(),
        }
    }
}

/// A pass of batch or group normalization.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Normalization {
    pub pass: Pass,
    pub plain: Plain,
    pub planes: Planes,
    /// Of group normalization, the groups that an image's channels are in.
    pub groups: Option<usize>,
    /// As in [`Types`].
    pub has_parameters_as_elements: bool,
}

/// The types that a pass's kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Types {
    /// That of tensors.
    pub element: Element,
    /// The numbers for each channel that a program owns have the tensors' type. Otherwise they are floats.
    pub has_parameters_as_elements: bool,
}

impl Types {
    /// Tensors with floats for each channel, as cuDNN has them.
    pub fn of(element: Element) -> Self {
        Self { element, has_parameters_as_elements: false }
    }
}

/// The end of the text of a subject whose numbers for each channel have the tensor's type.
const PARAMETERS: &str = " parameters=short";
/// The name of PyTorch's own kernels. Its version follows, once that is known: times of one version say nothing of another.
pub const PYTORCH: &str = "PyTorch";
static PYTORCH_WITH_VERSION: OnceCell<String> = OnceCell::new();

/// Notes the version of the process's PyTorch, once.
pub fn note_pytorch(version: &str) {
    PYTORCH_WITH_VERSION.get_or_init(|| format!("{PYTORCH} {version}"));
}

/// The name of the process's PyTorch in the database and in reports.
pub fn pytorch() -> &'static str {
    PYTORCH_WITH_VERSION.get().map_or(PYTORCH, |name| name)
}

impl fmt::Display for Normalization {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        let parameters = if self.has_parameters_as_elements { ", with parameters of this type" } else { "" };
        let how = match self.plain {
            Plain::Spatial => "",
            Plain::Persistent => ", persistent",
            Plain::Native => ", of PyTorch's own",
        };
        let groups = self.groups.map_or_else(String::new, |groups| format!(", in {groups} groups"));
        write!(formatter, "{} of {}{groups}{parameters}{how}", self.pass.row().what, self.planes)
    }
}

impl Normalization {
    /// A pass that cuDNN has a function for, with floats for each channel.
    pub fn of_cudnn(pass: Pass, plain: Plain, planes: Planes) -> Self {
        Self { pass, plain, planes, groups: None, has_parameters_as_elements: false }
    }

    /// The types that its kernels are compiled for.
    pub fn types(&self) -> Types {
        Types { element: self.planes.element, has_parameters_as_elements: self.has_parameters_as_elements }
    }

    /// The tensor whose channels it reduces.
    pub fn reduced(&self) -> Planes {
        self.groups.map_or(self.planes, |groups| self.planes.of_groups(groups))
    }

    /// The text that identifies it, such as `forward spatial half images=128 channels=64 plane=3136`.
    pub fn spec(&self) -> String {
        let Planes { element, images, channels, plane } = self.planes;
        let [pass, plain, element] = [self.pass.row().name, self.plain.word(), element.name()];
        let parameters = if self.has_parameters_as_elements { PARAMETERS } else { "" };
        let groups = self.groups.map_or_else(String::new, |groups| format!(" groups={groups}"));
        format!("{pass} {plain} {element} images={images} channels={channels} plane={plane}{groups}{parameters}")
    }

    /// Reads a text of [`Self::spec`]. `Err` shows the expected form.
    pub fn from_spec(text: &str) -> Result<Self, String> {
        let expected = || format!("{text:?} is no `forward spatial half images=128 channels=64 plane=3136`");
        let short = text.strip_suffix(PARAMETERS);
        let words: Vec<_> = short.unwrap_or(text).split(' ').collect();
        let [pass, plain, element, images, channels, plane, ref groups @ ..] = words[..] else {
            return Err(expected());
        };
        let size = |word: &str, name: &str| {
            let number = word.strip_prefix(name).and_then(|rest| rest.strip_prefix('='));
            number.and_then(|number| number.parse().ok()).ok_or_else(expected)
        };
        let pass = Pass::ALL.into_iter().find(|known| known.row().name == pass).ok_or_else(expected)?;
        let groups = match groups[..] {
            [] if !pass.has_groups() => None,
            [groups] if pass.has_groups() => Some(size(groups, "groups")?),
            _ => return Err(expected()),
        };
        Ok(Self {
            pass,
            plain: Plain::ALL.into_iter().find(|known| known.word() == plain).ok_or_else(expected)?,
            planes: Planes {
                element: Element::ALL.into_iter().find(|known| known.name() == element).ok_or_else(expected)?,
                images: size(images, "images")?,
                channels: size(channels, "channels")?,
                plane: size(plane, "plane")?,
            },
            groups,
            has_parameters_as_elements: short.is_some(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_identify() {
        let planes = Planes { element: Element::Bfloat16, images: 2, channels: 16, plane: 49 };
        let plains = Plain::ALL.into_iter().chain([Plain::Native; 2]);
        for (pass, plain) in Pass::ALL.into_iter().zip(plains) {
            let has_parameters_as_elements = plain == Plain::Native;
            let groups = pass.has_groups().then_some(4);
            let subject = Normalization { pass, plain, planes, groups, has_parameters_as_elements };
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
            "forward spatial half images=1 channels=8 plane=8 groups=2",
            "group_forward native half images=1 channels=8 plane=8",
            "group_forward native half images=1 channels=8 plane=8 groups=2 groups=2",
        ] {
            assert!(Normalization::from_spec(wrong).unwrap_err().contains(wrong));
        }
    }
}
