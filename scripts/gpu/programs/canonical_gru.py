"""canonical_gru.py LIBRARY TYPE HIDDEN BATCH STEPS: makes a canonical GRU, whose times the library logs."""

import ctypes
import sys

CANONICAL_GRU = 16


class Description(ctypes.Structure):
    """ucudnnRnnDescription_t."""

    _fields_ = [(name, ctypes.c_int) for name in (
        "cell", "dataType", "allowTf32", "hasBiases", "inputSize", "hiddenSize", "layers", "directions", "maxBatch", "maxSteps",
    )] + [("configuration", ctypes.c_char_p)]  # fmt: skip


def main(library, data_type, hidden, batch, steps):
    library = ctypes.CDLL(library)
    description = Description(CANONICAL_GRU, data_type, 0, 1, hidden, hidden, 1, 1, batch, steps, None)
    rnn = ctypes.c_void_p()
    if library.ucudnnCreateRnn(ctypes.byref(rnn), ctypes.byref(description)) != 0:
        why = ctypes.create_string_buffer(1024)
        library.ucudnnGetRnnErrorString(why, ctypes.c_size_t(len(why)))
        sys.exit(why.value.decode())
    library.ucudnnDestroyRnn(rnn)


main(sys.argv[1], *map(int, sys.argv[2:]))
