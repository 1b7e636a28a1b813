"""The reference page of the Python package, in reStructuredText: Sphinx fills in the docstrings."""

import ast

# The sections of the page: a title and the names below `ucudnn`.
SECTIONS = (
    ("Graphs and batches", ("Graphs", "Batch", "StaticBatch", "Loader")),
    ("Nets", ("VertexNet",)),
    ("Optimizers of steps", ("Momentum", "Adam", "AdamW", "Optimizer")),
    ("Vertex functions", ("Vertex", "Value", "vertex.States", "vertex.Index")),
    ("Ready nets", ("nn.NaryTreeLSTM", "nn.ChildSumTreeLSTM", "nn.TreeGRU", "nn.DagGRU")),
    ("Errors", ("Refused", "NotSupported")),
    ("Files of the package", ("library", "command", "include", "pkgconfig")),
)
# A module, whose names are public themselves; and a name that says all.
PASSED_OVER = ("nn", "__version__")
# The classes whose base the page names.
OF_OURS = ("StaticBatch", "Momentum", "Adam", "AdamW", "Refused", "NotSupported")

HEAD = """\
Python
======

.. highlight:: none

.. automodule:: ucudnn

:doc:`/docs/dynamic-nets` explains nets over graphs with examples. This page describes each public name.

"""


def public(file):
    """The names in a module's `__all__`."""
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == "__all__":
            return ast.literal_eval(node.value)
    raise ValueError(f"{file} has no __all__")


def check(package):
    """Refuses a public name that the page lacks, and one of the page that is not public."""
    names = {name for name in public(package / "__init__.py") if name not in PASSED_OVER}
    names |= {f"nn.{name}" for name in public(package / "nn.py")}
    listed = [name for _, some in SECTIONS for name in some]
    if lacking := sorted(names - set(listed)):
        raise ValueError(f"public, and in no section of scripts/docs/python_reference.py: {', '.join(lacking)}")
    if gone := sorted(name for name in set(listed) - names if not name.startswith("vertex.")):
        raise ValueError(f"in a section of scripts/docs/python_reference.py, and not public: {', '.join(gone)}")


def directive(name):
    last = name.rsplit(".")[-1]
    if not last[0].isupper():
        return f".. autofunction:: ucudnn.{name}\n"
    kind = "exception" if name in ("Refused", "NotSupported") else "class"
    more = "" if kind == "exception" else "   :members:\n   :member-order: bysource\n"
    if name in OF_OURS:
        more += "   :show-inheritance:\n"
    return f".. auto{kind}:: ucudnn.{name}\n{more}"


def page(package):
    """The text of the page, for the package in this folder."""
    check(package)
    parts = [HEAD]
    for title, names in SECTIONS:
        parts += [f"{title}\n{'-' * len(title)}\n", *map(directive, names)]
    return "\n".join(parts)
