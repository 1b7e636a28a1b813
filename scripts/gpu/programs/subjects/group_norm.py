"""Group normalization by PyTorch's own operators, on numbers of programs/group_norm.py."""

import batch_norm
import group_norm

from . import replace


class Subject:
    def __init__(self, case, device):
        self.case, self.device = case, device
        make = lambda seed: group_norm.Case(  # noqa: E731
            case["shape"], case["groups"], case["precision"], "cpu", seed, case["apart"], case["affine"])  # fmt: skip
        batch_norm.begin(device.type)
        self.sets = [self._there(make(2 * case["number"] + which)) for which in range(2)]
        self.live = self._there(make(2 * case["number"]))

    def _there(self, made):
        """The case on the device, with the numbers that a CPU made: they are the same for each device."""
        for name in ("x", "dy", "weight", "bias"):
            tensor = getattr(made, name)
            setattr(made, name, tensor if tensor is None else tensor.to(self.device))
        return made

    def _tensors(self, made):
        return [tensor for tensor in (made.x, made.dy, made.weight, made.bias) if tensor is not None]

    def renew(self, which):
        replace(self._tensors(self.live), self._tensors(self.sets[which]))

    def run(self):
        return group_norm.named(self.live.step())

    def exact(self, which):
        return self.sets[which].exact()

    def magnitude(self, name, which):
        """Gradients are differences: of two numbers in a group, dx is all but 0. Means near 0 are sums that cancel."""
        made = self.sets[which]
        images, channels, plane, groups = made.sizes
        if name in ("dx", "dweight", "dbias"):
            dy = made.dy.double().square().mean().sqrt()
            if name != "dx":
                return dy * (images * plane) ** 0.5
            weight = 1 if made.weight is None else made.weight.double().square().mean().sqrt()
            return dy * made.exact()["inverse"].square().mean().sqrt() * weight
        if name == "mean":
            return made.x.double().square().mean().sqrt() / (channels // groups * plane) ** 0.5
        return None

    def traits(self, name):
        images, channels, plane, groups = self.sets[0].sizes
        depth = images * plane if name in ("dweight", "dbias") else channels // groups * plane
        # A mean `apart` deviations from 0 loses as many units of the deviation in float.
        chain = (1 + self.case["apart"]) ** 2
        return {"precision": self.case["precision"], "depth": depth,
                "chain": chain if self.case["precision"] == "float" else 1, "goes_by_plain": True}  # fmt: skip
