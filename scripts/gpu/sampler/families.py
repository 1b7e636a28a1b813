"""The families: how each one's cases are drawn, in which settings they run, and with what they are compared."""

from dataclasses import dataclass, field
from typing import Any, Callable

from . import convolution, determinism, group_norm, norm, recurrent, vertex

# The third call of a case has other bits than the first only where nothing promises equal ones.
ALWAYS, WHERE_OURS, WHERE_ASKED = "always", "where ours runs", "where the program asks"
# The rival of a case's results, beside double precision: a process without the library, eager PyTorch in the same
# process, or a second process with the library, whose bits must be the same.
PLAIN, EAGER, AGAIN = "plain", "eager", "again"

# The most work of a case on a CPU, as a part of that on a GPU.
ON_CPU = 1 / 256

EXPLORING = {"UCUDNN_EXPLORE": "unbounded"}
LEGACY = {"TORCH_CUDNN_V8_API_DISABLED": "1"}


@dataclass
class Family:
    # Its arguments: the seed, the family's name, the case's number, the number of settings, a factor of the most work.
    draw: Callable[[int, str, int, int, float], dict[str, Any]]
    # The program's module with the case's calls.
    subject: str
    # The family of kernels/families.rs whose kernels these are; None where there are none to look at.
    kernels: str | None
    # The variables of each setting, which is a process: case n runs in setting n modulo their number.
    settings: tuple[dict[str, str], ...]
    rival: str = PLAIN
    bits: str = WHERE_OURS
    # The variables of all processes, plain ones too.
    common: dict[str, str] = field(default_factory=dict)
    # The report's event about a case: its name, then the fields that name the implementation.
    event: tuple[str, ...] = ()
    # The settings that must run on our kernels.
    forced: tuple[int, ...] = ()
    # The most cases of a setting, where they are short.
    most: int | None = None

    def case(self, name, seed, number, device="cuda"):
        """The case of a number. On a CPU cases are small."""
        return {"number": number} | self.draw(seed, name, number, len(self.settings), 1.0 if device == "cuda" else ON_CPU)


RNN, TRAINING = ({name: "force", "UCUDNN_RNN_TOP_K": "1"} for name in ("UCUDNN_RNN", "UCUDNN_RNN_TRAINING"))
EXECUTORS = ("auto", "batched", "persistent", "persistent:2", "persistent:4", "persistent:8")

FAMILIES = {
    "convolution": Family(convolution.draw, "convolution", "convolution", (EXPLORING, EXPLORING, {}), bits=WHERE_ASKED),
    "convolution-legacy": Family(convolution.draw, "convolution", "convolution", (EXPLORING, {}), bits=WHERE_ASKED,
                                 common=LEGACY),
    "transposes": Family(convolution.draw_copied, "convolution", "convolution", (EXPLORING,), bits=WHERE_ASKED),
    "norm": Family(norm.draw, "norm", "norm", ({"UCUDNN_NORM": "force", "UCUDNN_TORCH": "force"}, EXPLORING), event=("norm", "chosen"),
                   forced=(0,)),
    "group-norm": Family(group_norm.draw, "group_norm", "norm", ({"UCUDNN_TORCH": "force"}, EXPLORING), event=("norm", "chosen"),
                         forced=(0,)),
    "rnn": Family(recurrent.draw_inference, "recurrent", "recurrent", (RNN, EXPLORING), event=("rnn", "chosen"),
                  forced=(0,)),
    "rnn-training": Family(recurrent.draw_training, "recurrent", "recurrent", (TRAINING, TRAINING, EXPLORING),
                           event=("rnn-training", "forward", "backward"), forced=(0, 1)),
    "sizes": Family(recurrent.draw_sizes, "sizes", None, (TRAINING, EXPLORING), rival=AGAIN, bits=ALWAYS, most=60),
    "vertex": Family(vertex.draw, "vertex", "dynamic", tuple({"UCUDNN_DYNAMIC": executor} for executor in EXECUTORS),
                     rival=EAGER, bits=ALWAYS, event=("dynamic", "chosen")),
    "products": Family(vertex.draw_products, "vertex", "dynamic", ({"UCUDNN_DYNAMIC": "batched"},), rival=EAGER,
                       bits=ALWAYS),
    "determinism": Family(determinism.draw, "determinism", None, (EXPLORING, {}), rival=AGAIN, bits=ALWAYS),
}  # fmt: skip


def is_ours(name):
    """Whether what a report calls so is our kernel."""
    return bool(name) and not name.startswith(("cuDNN", "PyTorch"))
