"""solve.py SOLVER: solves a small programme with libucudnn_solver.so, and fails if the answer is wrong.

Three layers; each takes 2 ms, or 1 ms and one byte of two. The solver's ABI is in crates/planner/src/solver/abi.rs.
"""

import ctypes
import sys
from ctypes import POINTER, c_char, c_double, c_size_t, pointer


class Programme(ctypes.Structure):
    _fields_ = [("groups", c_size_t), ("group_choices", POINTER(c_size_t)), ("layers", POINTER(c_double)),
                ("choices", c_size_t), ("costs", POINTER(c_double)), ("most", POINTER(c_double)),
                ("resources", c_size_t), ("needs", POINTER(c_double)), ("capacities", POINTER(c_double)),
                ("seconds", c_double)]


class Answer(ctypes.Structure):
    _fields_ = [("counts", POINTER(c_double)), ("bound", c_double), ("reason", c_char * 160)]


def numbers(*values):
    return (c_double * len(values))(*values)


counts = numbers(3, 0)
answer = Answer(counts, 0, b"")
programme = Programme(1, pointer(c_size_t(2)), numbers(3), 2, numbers(2, 1), numbers(3, 3), 1, numbers(0, 1), numbers(2), 9)
status = ctypes.CDLL(sys.argv[1]).ucudnn_solver_solve(ctypes.byref(programme), ctypes.byref(answer))
if (status, list(counts), answer.bound) != (0, [1, 2], 4):
    sys.exit(f"status {status}, {list(counts)}, bound {answer.bound}, {answer.reason}")
