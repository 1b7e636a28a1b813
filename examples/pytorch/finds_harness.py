"""Puts the folder above on the path: `harness` lies there."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
