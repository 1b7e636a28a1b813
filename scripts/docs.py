"""Builds the documentation site: README, the pages of docs/, and reference pages for Python, C and the command.

Sphinx reads a folder of links to the repository's files, so that links of the pages to them hold. A warning of Sphinx's
is an error: a link to a page, a heading or a file that is not there, a page that no list has, a name that is not found.
Links to the network are not fetched. Neither PyTorch nor a GPU is needed.
"""

import argparse
import os
import pathlib
import re
import shutil
import sys

from docs import c_reference, command_reference, header, python_reference
from sphinx.cmd.build import main as sphinx_build

ROOT = pathlib.Path(__file__).resolve().parent.parent
PARTS = ROOT / "scripts/docs"
NOT_LINKED = ("build", "target", "README.md")

# The lists of pages beside each page. A page of docs/ that none of them has is an error.
LISTS = {
    "To begin": ["docs/install", "docs/pytorch", "docs/examples", "examples/pytorch/README", "docs/troubleshooting"],
    "To use": ["docs/tuning", "docs/settings", "docs/database", "docs/dynamic-nets", "docs/rnn", "docs/how-it-works"],
    "Reference": ["reference/python", "reference/c", "reference/command"],
    "Figures": ["docs/results-gpu", "docs/results-cpu", "docs/papers"],
    "To develop": ["docs/CONTRIBUTING", "docs/architecture", "docs/glossary", "docs/kernels", "docs/testing"],
    "The project": ["CHANGELOG", "SECURITY"],
}


def lists(pages):
    """README's end: the lists, with those of their pages that there are."""
    parts = []
    for caption, names in LISTS.items():
        names = [name for name in names if not name.startswith("reference/") or name in pages]
        parts.append("\n".join(["", "```{toctree}", ":hidden:", f":caption: {caption}", "", *names, "```", ""]))
    return "".join(parts)


def references(command):
    """The texts of the reference pages, by name."""
    pages = {
        "reference/python": python_reference.page(ROOT / "python/ucudnn"),
        "reference/c": c_reference.page(*header.read((ROOT / "include/ucudnn.h").read_text())),
    }
    if os.access(command, os.X_OK):
        pages["reference/command"] = command_reference.page(command)
    else:
        print(f"docs: {command} is not built, so the page of the command is left out (make build)", file=sys.stderr)
    return pages


def lay_out(source, command):
    """Makes Sphinx's folder of sources: links to the repository's files, README with its lists, and the references."""
    shutil.rmtree(source, ignore_errors=True)
    (source / "reference").mkdir(parents=True)
    for entry in ROOT.iterdir():
        if not entry.name.startswith(".") and entry.name not in NOT_LINKED:
            (source / entry.name).symlink_to(entry)
    pages = references(command)
    for name, text in pages.items():
        (source / f"{name}.rst").write_text(text)
    (source / "README.md").write_text((ROOT / "README.md").read_text() + lists(pages))


def version():
    return re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.M)[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", type=pathlib.Path, required=True, help="the built command, for its page")
    parser.add_argument("--into", type=pathlib.Path, required=True, help="the folder for the site, which is made anew")
    options = parser.parse_args()
    into = options.into.resolve()
    source, trees = into.with_name(f"{into.name}.source"), into.with_name(f"{into.name}.trees")
    for folder in (into, trees):
        shutil.rmtree(folder, ignore_errors=True)
    try:
        lay_out(source, options.command.resolve())
    except (ValueError, header.NotUnderstood) as error:
        sys.exit(f"docs: {error}")
    sys.path.insert(0, str(ROOT / "python"))
    status = sphinx_build(["--quiet", "--fail-on-warning", "--keep-going", "-b", "html", "-c", str(PARTS), "-d", str(trees),
                           "-D", f"version={version()}", "-D", f"release={version()}", str(source), str(into)])  # fmt: skip
    if status:
        sys.exit(status)
    shutil.copyfile(into / "README.html", into / "index.html")
    print(into / "index.html")


if __name__ == "__main__":
    main()
