"""Optimizers for :meth:`VertexNet.step`: rules with moments, which are tensors beside each parameter."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from . import _library
from ._library import Refused
from .net import VertexNet

# ucudnnOptimizerRule_t.
_MOMENTUM, _NESTEROV, _ADAM, _ADAMW = range(4)


class Optimizer:
    """What :class:`Momentum`, :class:`Adam` and :class:`AdamW` have in common. It is made for a net with its parameters where
    they stay: their types, sizes and device are those of the moments. Moments are of float32, in a net of doubles of float64,
    and zeros at first.

    One optimizer serves one net. All elements of all parameters change in a step, those of an embedding's rows that the batch
    does not read too, as with PyTorch's optimizers and dense gradients. A captured step has the numbers that it was captured
    with, and counts each replay.
    """

    def __init__(self, net: VertexNet, rule: int, moments: int, **numbers: float):
        if not isinstance(net, VertexNet):
            raise Refused(f"optimizer: a VertexNet is accepted, not {type(net).__name__}")
        self._rule, self._numbers = rule, numbers
        parameters = net._named_parameters()
        for name, its in parameters.items():
            if not isinstance(its, torch.Tensor):
                raise Refused(f"optimizer: parameter {name!r}: a tensor is accepted, not {type(its).__name__}")
        kind = {torch.float64: torch.float64}
        self._moments = [{name: torch.zeros(its.shape, dtype=kind.get(its.dtype, torch.float32), device=its.device)
                          for name, its in parameters.items()} for _ in range(moments)]  # fmt: skip
        device = next((its.device for its in parameters.values()), None)
        self._powers = torch.ones(2, dtype=torch.float64, device=device)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in self._numbers.items())})"

    def state_dict(self) -> dict[str, Any]:
        """The moments by the parameters' names, and the powers of betas: the tensors themselves, as a module's."""
        return {"moments": [dict(each) for each in self._moments], "powers": self._powers}

    @torch.no_grad()
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Copies a state into the tensors that are there. Raises :class:`ucudnn.Refused`, and changes nothing, if it is of
        other parameters."""
        try:
            pairs = [(to, state["moments"][place][name]) for place, each in enumerate(self._moments) for name, to in each.items()]
            counts = [len(each) for each in state["moments"]]
            pairs.append((self._powers, state["powers"]))
        except (KeyError, IndexError, TypeError) as error:
            raise Refused(f"load_state_dict: the state is of another optimizer or net: {error!r}") from None
        strange = next((its for _, its in pairs if not isinstance(its, torch.Tensor) or its.is_meta or its.is_complex()), None)
        if strange is not None:
            what = f"{strange.dtype} on {strange.device}" if isinstance(strange, torch.Tensor) else type(strange).__name__
            raise Refused(f"load_state_dict: tensors of real numbers are accepted, not {what}")
        if counts != [len(each) for each in self._moments] or any(to.shape != its.shape for to, its in pairs):
            raise Refused("load_state_dict: the state is of another optimizer or net: its parameters have other names or sizes")
        for to, its in pairs:
            to.copy_(its)

    def _of_step(self, parameters, dtype, device):
        """The struct for a step of parameters, by name; and what it points to."""
        of_sums = torch.float64 if dtype == torch.float64 else torch.float32
        first = self._moments[0]
        if list(first) != list(parameters) or any(first[name].shape != its.shape for name, its in parameters.items()):
            raise Refused("step: the optimizer is of another net: its parameters have other names or sizes")
        for name, its in first.items():
            if its.dtype != of_sums or its.device != device:
                raise Refused(f"step: the optimizer's moments of {name!r} are of {its.dtype} on {its.device}; {of_sums} on "
                              f"{device} is accepted here: make the optimizer when the net is there")  # fmt: skip
        pointers = [_library.array(ctypes.c_void_p, [its.data_ptr() for its in each.values()]) for each in self._moments]
        both = dict(zip(("firstMoments", "secondMoments"), pointers, strict=False))
        struct = _library.Optimizer(rule=self._rule, betaPowers=self._powers.data_ptr(), **both, **self._numbers)
        return struct, pointers


class Momentum(Optimizer):
    """Gradient descent with momentum, as `torch.optim.SGD(momentum=…)` without dampening.

    momentum: what a step leaves of the moment, 0 and more, below 1.

    nesterov: Nesterov's.
    """

    def __init__(self, net: VertexNet, momentum: float = 0.9, nesterov: bool = False):
        super().__init__(net, _NESTEROV if nesterov else _MOMENTUM, 1, momentum=_below_one("momentum", momentum))


class Adam(Optimizer):
    """Adam (Kingma and Ba, ICLR 2015, algorithm 1), as `torch.optim.Adam`.

    betas: what a step leaves of both moments, 0 and more, below 1.

    eps: the number that is added to the root of the second one, from 0 on.
    """

    _RULE = _ADAM

    def __init__(self, net: VertexNet, betas: Sequence[float] = (0.9, 0.999), eps: float = 1e-8):
        if not isinstance(betas, Sequence) or len(betas) != 2:
            raise Refused(f"betas: two numbers are accepted, not {betas!r}")
        beta1, beta2 = (_below_one("betas", beta) for beta in betas)
        super().__init__(net, self._RULE, 2, beta1=beta1, beta2=beta2, epsilon=_number("eps", eps, float("inf")))


class AdamW(Adam):
    """AdamW (Loshchilov and Hutter, ICLR 2019, algorithm 2), as `torch.optim.AdamW`: a step's weight decay is not added to
    the gradient, and takes its part of each parameter by itself."""

    _RULE = _ADAMW


def _number(what, number, end):
    """A number from 0 on, below an end."""
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not 0 <= number < end:
        raise Refused(f"{what}: a number from 0 on{'' if end == float('inf') else f', below {end}'} is accepted, not {number!r}")
    try:
        return float(number)
    except OverflowError:  # an integer, whose digits may be too many to show
        raise Refused(f"{what}: a number that float64 holds is accepted, and this one is greater") from None


def _below_one(what, number):
    return _number(what, number, 1)
