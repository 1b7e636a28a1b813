"""deterministic.py algorithms|cudnn: trainings of one seed, where the program asks for deterministic algorithms.

Prints a line for each type: a hash of the weights after each training, all of which are to be equal in all processes.
"""

import hashlib
import sys

import torch
from subjects.determinism import CAST, Subject

CASE = {"channels": (64, 96, 32), "padding": 0, "hidden": 64, "batch": 32, "side": 32, "steps": 60, "seed": 14}
TRAININGS = 3


def train(cast, asked):
    subject = Subject(CASE | {"cast": cast, "asked": asked}, torch.device("cuda"))
    [weights] = subject.run().values()
    return hashlib.sha256(weights.cpu().numpy().tobytes()).hexdigest()[:16]


for cast, kind in CAST.items():
    print(kind or torch.float, *(train(cast, sys.argv[1]) for _ in range(TRAININGS)))
