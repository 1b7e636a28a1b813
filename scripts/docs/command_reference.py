"""The reference page of the command `ucudnn`, in reStructuredText, from its own help."""

import re
import subprocess

HEAD = """\
The command
===========

``ucudnn --help`` and the help of each subcommand, as this version prints them. ``man ucudnn`` has the same.

"""
SUBCOMMANDS = re.compile(r"^Commands:\n((?:  .*\n)+)", re.M)


def help_of(command, words):
    called = subprocess.run([command, *words, "--help"], stdout=subprocess.PIPE, text=True, check=True)
    return called.stdout


def subcommands(text):
    """The names of the subcommands in a help text."""
    found = SUBCOMMANDS.search(text)
    # The descriptions may go on in the next line, further right.
    names = re.findall(r"^  (\S+)", found[1], re.M) if found else []
    return [name for name in names if name != "help"]


def sections(command, words=()):
    """The help of the command with these words, and of its subcommands."""
    text = help_of(command, words)
    title = " ".join(["ucudnn", *words])
    block = "\n".join(f"   {line}".rstrip() for line in text.splitlines())
    under = "-" if len(words) < 2 else "~"
    yield f"{title}\n{under * len(title)}\n\n.. code-block:: text\n\n{block}\n"
    for name in subcommands(text):
        yield from sections(command, (*words, name))


def page(command):
    """The text of the page, from the built command."""
    return HEAD + "\n".join(sections(command))
