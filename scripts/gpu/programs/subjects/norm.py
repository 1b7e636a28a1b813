"""Batch normalization, in training and in inference, by the operators that call cuDNN or kernels of PyTorch's own, on
numbers of programs/batch_norm.py."""

import batch_norm
import torch

from . import replace


class Subject:
    def __init__(self, case, device):
        self.case, self.device = case, device
        shape, kind, last = case["shape"], case["precision"], case["layout"] == "last"
        more = {name: case[name] for name in ("own", "affine", "tracks")}
        make = lambda seed: batch_norm.Case(shape, kind, "cpu", seed, case["apart"], last, **more)  # noqa: E731
        batch_norm.begin(device.type)
        self.sets = [self._there(make(2 * case["number"] + which)) for which in range(2)]
        self.live = self._there(make(2 * case["number"]))

    def _there(self, made):
        """The case on the device, with the numbers that a CPU made: they are the same for each device."""
        for name in ("x", "dy", "scale", "bias"):
            setattr(made, name, self._moved(getattr(made, name)))
        made.running = [self._moved(tensor) for tensor in made.running]
        made.given = [self._moved(tensor) for tensor in made.given]
        made.is_native = self.device.type == "cpu" or self.case["is_native"]
        return made

    def _moved(self, tensor):
        return tensor if tensor is None else tensor.detach().to(self.device)

    def _tensors(self, made):
        all_ = [made.x, made.dy, made.scale, made.bias, *made.running, *made.given]
        return [tensor for tensor in all_ if tensor is not None]

    def renew(self, which):
        replace(self._tensors(self.live), self._tensors(self.sets[which]))

    def run(self):
        saved = batch_norm.forward(self.live)()
        gradients = batch_norm.backward(self.live, saved)()
        found = dict(zip(("y", "saved mean", "saved inverse"), saved, strict=False))
        tracked = zip(("running mean", "running variance"), self.live.running, strict=True)
        running = {name: tensor.clone() for name, tensor in tracked if tensor is not None}
        found["inference y"] = batch_norm.inference(self.live)()
        return found | dict(zip(("dx", "dscale", "dbias"), gradients, strict=False)) | running

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
            scale = 1 if made.scale is None else made.scale.double()
            return dy * (made.exact()["saved inverse"] * scale).square().mean().sqrt()
        if name in ("saved mean", "running mean"):
            momentum = batch_norm.MOMENTUM if name == "running mean" else 1
            return momentum * made.x.double().square().mean().sqrt() / count**0.5
        return None

    def traits(self, name):
        shape, apart = self.case["shape"], self.case["apart"]
        in_float = name.startswith("saved") or (name not in ("y", "dx", "inference y") and not self.case["own"])
        # A mean `apart` deviations from 0 loses as many units of the deviation in float.
        chain = (1 + apart) ** 2
        return {"precision": "float" if in_float else self.case["precision"], "depth": torch.Size(shape).numel() // shape[1],
                "chain": chain if self.case["precision"] == "float" else 1, "goes_by_plain": True}
