"""Sphinx's configuration. docs.py lays out the sources, and hands over the version and the folder of the package."""

import inspect
import re

from sphinx.util.inspect import signature as sphinx_signature
from sphinx.util.inspect import stringify_signature

project = "ucudnn"
author = "The ucudnn authors"
html_title = "ucudnn"
root_doc = "README"
include_patterns = ["README.md", "CHANGELOG.md", "SECURITY.md", "docs/*.md", "examples/pytorch/README.md",
                    "reference/*.rst"]  # fmt: skip

extensions = ["myst_parser", "sphinx.ext.autodoc"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
# Each name and link is looked up, and one that is not found is a warning. These are others' names.
nitpicky = True
nitpick_ignore_regex = [
    ("py:.*", r"(torch|os|collections)\..*|Any|Callable|Sequence|Mapping|PathLike|VertexFunction|optional"),
    ("c:.*", r"cudnn\w+|CUDNN_\w+|ucudnn\w+Struct|size_t|uint\d+_t"),
]
# `name` in a docstring is code.
default_role = "code"
# The headings that links may lead to.
myst_heading_anchors = 4
# Commands are in indented blocks.
highlight_language = "sh"
# A dash stands between a parameter and its text. Quotes stay as they are: h' is a name.
smartquotes_action = "D"

# The package is read without PyTorch.
autodoc_mock_imports = ["torch"]
autodoc_typehints = "signature"
# The text "tanh(x)" says what a function computes.
autodoc_docstring_signature = False
# As many characters as the column has.
python_maximum_signature_line_length = 92
c_maximum_signature_line_length = 76

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False


def named_parameters(app, what, name, obj, options, lines):
    """Makes a list of the parameters from the paragraphs of a docstring that begin with a parameter's name and a colon."""
    try:
        parameters = set(inspect.signature(obj).parameters)
    except (TypeError, ValueError):
        return
    before, inside = "", False
    for place, line in enumerate(lines):
        found = re.match(r"(\w+): ", line)
        if found and found[1] in parameters and not before.strip():
            lines[place], inside = f":param {line}", True
        elif not line.strip():
            inside = False
        elif inside:
            lines[place] = f"    {line}"
        before = line


# The package makes the objects of these classes, and a program makes none.
NOT_CALLED = ("Batch", "StaticBatch", "Loader", "Optimizer", "Vertex", "Value", "vertex.States", "vertex.Index")


def how_it_is_made(app, what, name, obj, options, signature, annotation):
    """The arguments that a program gives to make an object of a class. Without PyTorch, its modules take any."""
    if name.removeprefix("ucudnn.") in NOT_CALLED:
        return "", ""
    if what == "class" and "__init__" in vars(obj):
        return stringify_signature(sphinx_signature(obj.__init__, bound_method=True)), annotation
    return None


def setup(app):
    app.connect("autodoc-process-signature", how_it_is_made)
    app.connect("autodoc-process-docstring", named_parameters)
