"""Batch normalization, in training and in inference, by the operators that call cuDNN, on numbers of programs/batch_norm.py."""

import batch_norm
import torch

from . import replace


class Subject:
    def __init__(self, case, device):
        self.case, self.device = case, device
        shape, kind, last = case["shape"], case["precision"], case["layout"] == "last"
        make = lambda seed: batch_norm.Case(shape, kind, "cpu", seed, case["apart"], last)  # noqa: E731
        self.sets = [self._there(make(2 * case["number"] + which)) for which in range(2)]
        self.live = self._there(make(2 * case["number"]))

    def _there(self, made):
        """The case on the device, with the numbers that a CPU made: they are the same for each device."""
        for name in ("x", "dy", "scale", "bias"):
            setattr(made, name, getattr(made, name).detach().to(self.device))
        made.running = [tensor.to(self.device) for tensor in made.running]
        made.given = [tensor.to(self.device) for tensor in made.given]
        return made

    def _tensors(self, made):
        return [made.x, made.dy, made.scale, made.bias, *made.running, *made.given]

    def renew(self, which):
        replace(self._tensors(self.live), self._tensors(self.sets[which]))

    def run(self):
        saved = batch_norm.forward(self.live, self.device.type)()
        gradients = batch_norm.backward(self.live, saved, self.device.type)()
        found = dict(zip(("y", "saved mean", "saved inverse"), saved, strict=False))
        running = dict(zip(("running mean", "running variance"), (t.clone() for t in self.live.running), strict=True))
        found["inference y"] = batch_norm.inference(self.live, self.device.type)()
        return found | dict(zip(("dx", "dscale", "dbias"), gradients, strict=True)) | running

    def exact(self, which):
        return self.sets[which].exact()

    def magnitude(self, name, which):
        """Gradients are differences: of two numbers in a channel, dx is all but 0. Means near 0 are sums that cancel."""
        made, shape = self.sets[which], self.case["shape"]
        count = torch.Size(shape).numel() // shape[1]
        if name in ("dx", "dscale", "dbias"):
            dy = made.dy.double().square().mean().sqrt()
            if name != "dx":
                return dy * count**0.5
            return dy * (made.exact()["saved inverse"] * made.scale.double()).square().mean().sqrt()
        if name in ("saved mean", "running mean"):
            momentum = batch_norm.MOMENTUM if name == "running mean" else 1
            return momentum * made.x.double().square().mean().sqrt() / count**0.5
        return None

    def traits(self, name):
        shape, apart = self.case["shape"], self.case["apart"]
        in_float = name not in ("y", "dx", "inference y")
        # A mean `apart` deviations from 0 loses as many units of the deviation in float.
        chain = (1 + apart) ** 2
        return {"precision": "float" if in_float else self.case["precision"], "depth": torch.Size(shape).numel() // shape[1],
                "chain": chain if self.case["precision"] == "float" else 1, "goes_by_plain": True}
