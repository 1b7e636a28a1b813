#!/usr/bin/env python3
"""Checks that the arrows of the workspace go one way: between its crates, and between the files of each crate.

A file has an arrow to the file that defines a name which it takes by a `use` or a path, through re-exports, and to one
that adds methods to its type which it calls on self; tests draw no arrows, nor does a module that only re-exports from
its own child. A module and the children that nobody else can name are one file, for others see only the module. But the
children among themselves, and all children of lib.rs and main.rs, are files of their own.
"""
import json
import os
import re
import subprocess
import sys
from pathlib import Path

# From the bottom up: a crate may use those that stand above it in this list.
CRATES = {
    "cudnn-abi": "types",
    "ucudnn-kernels": "sources",
    "ucudnn-trust": "files",
    "ucudnn-planner": "arithmetic",
    "ucudnn-guest": "manners",
    "ucudnn-gpu": "devices",
    "ucudnn-loops": "references",
    "ucudnn-cudnn": "calls",
    "ucudnn-tuning": "measurements",
    "ucudnn-vertex": "layers",
    "ucudnn-convolution": "convolutions",
    "ucudnn-recurrent": "networks",
    "ucudnn-norm": "statistics",
    "ucudnn-torch": "operators",
    "ucudnn-dynamic": "shapes",
    "ucudnn-command": "tools",
    "ucudnn": "entry",
}
# These may use BOTTOM and those above them here, and only tests may use them.
ASIDE = {
    "hostdnn-fft": "transforms",
    "hostdnn-arithmetic": "numbers",
    "hostdnn": "imitation",
    "ucudnn-solver": "programmes",
    "ucudnn-benches": "benchmarks",
    "ucudnn-headers": "headers",
}
BOTTOM = ["cudnn-abi", "ucudnn-trust"]
# The circles that are natural: the set of their files, and the reason.
ALLOWED = {}

ROOT = Path(__file__).resolve().parent.parent
TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|\s+|[bc]?r(#*)".*?"\1|[bc]?"(?:\\.|[^"\\])*"|b?'(?:\\.[^']*|[^\\'])'|'\w+|\w+|::|.""", re.S
)
WORD = re.compile(r"[A-Za-z_]\w*")
TEST = re.compile(r"#!?\[(cfg\((all\()?test\b|test\])")
OWN_METHODS = re.compile(r"impl (?:<.*?> )?([\w: ]+?) (?:<.*> )?(?:where .*)?{")
DEFINES = {"fn", "struct", "enum", "union", "trait", "type", "const", "static"}


def crate_faults(packages):
    """What is wrong with the arrows between crates."""
    order, aside = list(CRATES), list(ASIDE)
    for package in packages:
        name = package["name"]
        if name not in CRATES and name not in ASIDE:
            yield f"{name} is not in scripts/check_layers.py: add it to CRATES, between what it uses and what uses it"
            continue
        below = order[: order.index(name)] if name in CRATES else [*BOTTOM, *aside[: aside.index(name)]]
        for used in package["dependencies"]:
            if used.get("path") and used["kind"] != "dev" and used["name"] not in below:
                yield f"{name} depends on {used['name']}, which does not stand below it"
            if used["kind"] != "dev" and "testing" in used["features"]:
                yield f"{name} takes the tests' code of {used['name']} for more than tests"


class Module:
    """A module: what it defines and imports, and the paths and words of its code."""

    def __init__(self, file, parent=None):
        self.file, self.parent = file, parent
        self.children, self.definitions, self.imports, self.handed_on, self.globs = {}, set(), {}, set(), []
        self.paths, self.words, self.expanded, self.called, self.added = [], set(), set(), set(), []

    def find(self, name, seen=()):
        """The module, or the file of the definition, that `name` means here; None if that is not in the crate."""
        if name in self.children or name in self.definitions:
            return self.children.get(name, self.file)
        if (self, name) in seen:
            return None
        seen = (*seen, (self, name))
        if name in self.imports:
            return self.follow(self.imports[name], seen)
        targets = (self.follow(glob, seen) for glob in self.globs)
        return next(filter(None, (t.find(name, seen) for t in targets if isinstance(t, Module))), None)

    def follow(self, path, seen=()):
        """What `path` means here, as `find` says it."""
        at = self
        for i, name in enumerate(path):
            if name == "crate":
                while at.parent:
                    at = at.parent
            elif name == "super":
                at = at.parent
            elif name != "self":
                # A macro defines a name that no line of its module defines.
                at = at.find(name, seen) or (at.file if i else None)
            if not isinstance(at, Module):
                break
        return at

    def taken(self):
        """The other files that names come from, each with the name."""
        idle = self.handed_on - self.words
        paths = [path for name, path in self.imports.items() if name not in idle or path[0] not in self.children]
        paths += self.paths + self.globs + ([[word] for word in self.words] if self.globs else [])
        for path in paths:
            file = self.follow(path)
            if isinstance(file, str) and file != self.file:
                while self.follow(path[:-1]) == file:
                    path = path[:-1]
                yield file, path[-1]

    def use(self, tokens, i, path, handed_on):
        """Reads the `use` tree at tokens[i] under `path`, and says where it ends."""
        path, name = list(path), None
        while tokens[i] not in ",;}":
            if tokens[i] == "{":
                while tokens[i] != "}":
                    i = self.use(tokens, i + 1, path, handed_on)
                return i + 1
            if tokens[i] == "*":
                self.globs.append(path)
                return i + 1
            if tokens[i] == "as":
                i += 1
                name = tokens[i]
            elif tokens[i] != "::" or not path:
                path.append(tokens[i])
            i += 1
        if path:
            path = path[:-1] if path[-1] == "self" else path
            self.imports[name or path[-1]] = path
            self.handed_on.update([name or path[-1]] if handed_on else [])
        return i


class Crate:
    """The arrows between the files of a crate, read from its root file on."""

    def __init__(self, root):
        self.modules, self.macros, self.parents, self.private = [], {}, {}, set()
        self.read(root, Module(named(root)), root.parent)
        self.arrows = {module.file: {} for module in self.modules}
        called = {file: set() for file in self.arrows}
        for module in self.modules:
            called[module.file] |= module.called
        for module in self.modules:
            for file, name in module.taken():
                self.arrows[module.file].setdefault(file, set()).add(name)
            for name in module.expanded & set(self.macros):
                if module.file not in self.macros[name]:
                    self.arrows[module.file].setdefault(self.macros[name][0], set()).add(name + "!")
            for path, methods in module.added:
                file = module.follow(path)
                if isinstance(file, str) and file != module.file and methods & called[file]:
                    self.arrows[file].setdefault(module.file, set()).update(methods & called[file])

    def read(self, path, module, folder):
        """Reads the file that is all of `module`, whose children lie in `folder`."""
        tokens = [t[0] for t in TOKEN.finditer(path.read_text()) if not re.match(r"//|/\*|\s", t[0])]
        self.scan(tokens + [""] * 3, 0, module, folder)

    def scan(self, tokens, i, module, folder):
        """Reads `module` from tokens[i] to its end, and says where that is."""
        self.modules.append(module)
        depth, attributes, before = 0, "", ""
        while tokens[i]:
            token, after = tokens[i], tokens[i + 1]
            if token == "#" and (after == "[" or after == "!" and tokens[i + 2] == "["):
                end = closing(tokens, i + 1 + (after == "!")) + 1
                attributes += "".join(tokens[i:end])
                i = end
                if TEST.search(attributes):
                    i, attributes = item_end(tokens, i) if after == "[" else len(tokens) - 1, ""
                continue
            if token in "{};":
                depth += (token == "{") - (token == "}")
                attributes = ""
                if depth < 0:
                    break
            elif token == "mod" and depth == 0 and WORD.match(after):
                child = module.children[after] = Module(module.file, module)
                if tokens[i + 2] == "{":
                    i = self.scan(tokens, i + 3, child, folder / after)
                else:
                    given = re.search(r'path="(.*?)"', attributes)
                    places = [folder / f"{after}.rs", folder / after / "mod.rs"]
                    path = (ROOT / module.file).parent / given[1] if given else next(p for p in places if p.exists())
                    child.file = named(path)
                    if module.parent:
                        self.parents[child.file] = module.file
                    if before not in ("pub", ")"):
                        self.private.add(child.file)
                    self.read(path, child, folder / after)
            elif token == "use" and after != "<":
                i = module.use(tokens, i + 1, [], before in ("pub", ")"))
            elif token == "macro_rules":
                self.macros.setdefault(tokens[i + 2], []).append(module.file)
                if depth == 0:
                    module.definitions.add(tokens[i + 2])
            elif token in DEFINES and depth == 0 and before not in ("*", "<", ",") and after not in DEFINES:
                module.definitions.add(tokens[i + 2] if after == "mut" else after)
            elif token == "impl" and depth == 0:
                start = tokens.index("{", i)
                found = OWN_METHODS.fullmatch(" ".join(tokens[i : start + 1]))
                if found and " for " not in found[1]:
                    body = tokens[start : closing(tokens, start)]
                    methods = {name for word, name in zip(body, body[1:]) if word == "fn"}
                    module.added.append((found[1].split(" :: "), methods))
            elif WORD.fullmatch(token) and before in (".", "::"):
                if tokens[i - 2] in ("self", "Self"):
                    module.called.add(token)
            elif WORD.fullmatch(token):
                end = i + 1
                while tokens[end] == "::" and WORD.match(tokens[end + 1]):
                    end += 2
                if end > i + 1:
                    module.paths.append(tokens[i:end:2])
                if after == "!":
                    module.expanded.add(token)
                if before not in DEFINES | {"mod", "let"} and after != ":":
                    module.words.add(token)
            before = tokens[i]
            i += 1
        return i

    def circles(self, files):
        """The circles among `files`."""
        for circle in loops({file: files & set(self.arrows[file]) for file in files}):
            module = next((file for file in circle if self.is_all_inside(circle - {file}, file)), None)
            if module:
                yield from self.circles(circle - {module})
            else:
                yield circle

    def is_all_inside(self, files, module):
        """Whether only `module`, and what stands in it, can name these files."""
        for file in files:
            private = False
            while file in self.parents and file != module:
                private |= file in self.private
                file = self.parents[file]
            if file != module or not private:
                return False
        return True


def loops(arrows):
    """The sets of more than one file that all reach each other."""
    reached = {}
    for file in arrows:
        found, todo = set(), [file]
        while todo:
            new = arrows[todo.pop()] - found
            found |= new
            todo += new
        reached[file] = found
    return {frozenset(f for f in found if file in reached[f]) for file, found in reached.items() if file in found}


def named(path):
    return os.path.relpath(path.resolve(), ROOT)


def closing(tokens, i):
    """Where the bracket closes that opens at tokens[i]."""
    depth = 0
    while True:
        depth += (tokens[i] in "([{") - (tokens[i] in ")]}")
        if depth == 0:
            return i
        i += 1


def item_end(tokens, i):
    """Where the item ends that begins at tokens[i]."""
    while tokens[i] != ";" and tokens[i] not in ")]}":
        start = i
        if tokens[i] in "([{":
            i = closing(tokens, i)
        i += 1
        if tokens[start] == "{" and tokens[i] != ";":
            return i
    return i + (tokens[i] == ";")


def circle_faults(packages):
    """The circles within each crate, and the allowed circles that are no more."""
    met = set()
    for package in packages:
        for target in package["targets"]:
            if not {"lib", "rlib", "cdylib", "bin"} & set(target["kind"]):
                continue
            crate = Crate(Path(target["src_path"]))
            arrows = crate.arrows
            for circle in sorted(crate.circles(set(arrows)), key=sorted):
                met.add(circle)
                if circle not in ALLOWED:
                    pairs = [(file, other) for file in sorted(circle) for other in sorted(circle & set(arrows[file]))]
                    lines = [f"  {file} -> {other}: {', '.join(sorted(arrows[file][other]))}" for file, other in pairs]
                    yield "\n".join([f"{package['name']}: a circle of {len(circle)} files", *lines])
    for circle in set(ALLOWED) - met:
        yield f"a circle in ALLOWED is no more: {', '.join(sorted(circle))}"


def main():
    command = [os.environ.get("CARGO", "cargo"), "metadata", "--format-version", "1", "--no-deps", "--locked"]
    packages = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)["packages"]
    faults = [*crate_faults(packages), *circle_faults(packages)]
    print("\n".join(faults) or "All arrows go one way.")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
