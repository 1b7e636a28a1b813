"""deterministic.py algorithms|cudnn: trainings of one seed, where the program asks for deterministic algorithms.

Prints a line for each type: a hash of the weights after each training, all of which are to be equal in all processes.
"""

import hashlib
import os
import sys

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch  # noqa: E402
from torch import nn  # noqa: E402

STEPS, TRAININGS = 60, 3


def networks():
    convolutions = nn.Sequential(
        nn.Conv2d(3, 64, 5, 2, 2), nn.BatchNorm2d(64), nn.ReLU(),
        nn.Conv2d(64, 96, 3, padding=1), nn.BatchNorm2d(96), nn.ReLU(),
        nn.Conv2d(96, 32, 3, stride=2), nn.Flatten(1),
    )  # fmt: skip
    return convolutions.cuda(), nn.LSTM(32, 64, 2, bidirectional=True).cuda()


def train(cast):
    torch.manual_seed(14)
    convolutions, lstm = networks()
    images = torch.randn(32, 3, 32, 32).cuda()
    parameters = [*convolutions.parameters(), *lstm.parameters()]
    optimizer = torch.optim.SGD(parameters, 0.01, momentum=0.9)
    for _ in range(STEPS):
        optimizer.zero_grad()
        with torch.autocast("cuda", cast or torch.half, enabled=cast is not None):
            rows = convolutions(images).view(32, 32, -1).permute(2, 0, 1)
            loss = lstm(rows)[0].float().square().mean()
        loss.backward()
        optimizer.step()
    weights = b"".join(parameter.detach().cpu().numpy().tobytes() for parameter in parameters)
    return hashlib.sha256(weights).hexdigest()[:16]


if sys.argv[1] == "algorithms":
    torch.use_deterministic_algorithms(True)
else:
    torch.backends.cudnn.deterministic = True
for cast in (None, torch.half, torch.bfloat16):
    print(cast or torch.float, *(train(cast) for _ in range(TRAININGS)))
