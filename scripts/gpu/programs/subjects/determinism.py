"""A small network that asks for determinism trains three times from one seed: its parameters have equal bits."""

import os

import torch
from torch import nn

from . import Sized

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
CAST = {"float": None, "half": torch.half, "bfloat16": torch.bfloat16}


class Subject(Sized):
    """Each run is a whole training. There is nothing to renew, and the first training is what is exact."""

    def __init__(self, case, device):
        self.case, self.device, self.first = case, device, None
        torch.use_deterministic_algorithms(case["asked"] == "algorithms")
        torch.backends.cudnn.deterministic = case["asked"] == "cudnn"
        torch.backends.cudnn.benchmark = False

    def renew(self, which):
        pass

    def run(self):
        case, device = self.case, self.device
        torch.manual_seed(case["seed"])
        one, two, three = case["channels"]
        last = nn.Conv2d(two, three, 3, stride=2, padding=case.get("padding", 1))
        net = nn.Sequential(nn.Conv2d(3, one, 5, 2, 2), nn.BatchNorm2d(one), nn.ReLU(), nn.Conv2d(one, two, 3, padding=1),
                            nn.BatchNorm2d(two), nn.ReLU(), last).to(device)  # fmt: skip
        rnn = nn.LSTM(three, case["hidden"], 2, bidirectional=True).to(device)
        x = torch.randn(case["batch"], 3, case["side"], case["side"]).to(device)
        parameters = [*net.parameters(), *rnn.parameters()]
        optimizer, cast = torch.optim.SGD(parameters, 0.01, momentum=0.9), CAST[case["cast"]]
        for _ in range(case["steps"] if device.type == "cuda" else 3):
            optimizer.zero_grad()
            with torch.autocast(device.type, cast or torch.half, enabled=cast is not None and device.type == "cuda"):
                y = net(x).flatten(2).permute(2, 0, 1)
                loss = rnn(y)[0].float().square().mean()
            loss.backward()
            optimizer.step()
        return {"parameters": torch.cat([its.detach().flatten().float() for its in parameters])}

    def close(self):
        # Each case of the process asks for determinism itself.
        torch.use_deterministic_algorithms(False)
        torch.backends.cudnn.deterministic = False

    def exact(self, which):
        if self.first is None:
            self.first = {name: its.double() for name, its in self.run().items()}
        return self.first

    def traits(self, name):
        return {"precision": "float", "depth": 1, "chain": 1, "goes_by_plain": True}
