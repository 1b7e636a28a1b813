"""Removes what `make install` put in place, by the list that it left there, and nothing else.

The list has a line for each file or link. A line with a slash at its end is a folder that was not there before; it goes
too if nothing else lies in it.
"""

import argparse
import pathlib
import sys

LIST = pathlib.PurePath("share/ucudnn/installed.txt")


def leave_list(layout):
    """Writes the list of a finished layout. Files that only an earlier list has are removed: no list names them now."""
    files, folders = read(layout.into)
    remove(layout.into, files - layout.files - {LIST})
    layout.write("", LIST)
    lines = [str(file) for file in layout.files] + [f"{folder}/" for folder in folders | layout.folders]
    layout.write("\n".join(sorted(lines)) + "\n", LIST)


def read(prefix):
    """The listed files and the listed folders; nothing if there is no list."""
    try:
        lines = (prefix / LIST).read_text().splitlines()
    except FileNotFoundError:
        return set(), set()
    for line in lines:
        if line.startswith("/") or ".." in pathlib.PurePath(line).parts:
            sys.exit(f"uninstall: {prefix / LIST} names {line!r}, which is not below {prefix}: nothing is removed")
    files = {pathlib.PurePath(line) for line in lines if not line.endswith("/")}
    return files, {pathlib.PurePath(line) for line in lines if line.endswith("/")}


def remove(prefix, files):
    for file in files:
        place = prefix / file
        if place.is_dir() and not place.is_symlink():
            sys.exit(f"uninstall: {place} was installed as a file and is a folder now: remove it by hand, then try again")
        try:
            place.unlink(missing_ok=True)
        except OSError as error:
            sys.exit(f"uninstall: {place} cannot be removed: {error.strerror}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prefix", type=pathlib.Path, help="the folder that `make install` filled")
    prefix = parser.parse_args().prefix
    files, folders = read(prefix)
    if not files:
        sys.exit(f"uninstall: no list {prefix / LIST}: nothing was installed here, or by a version that left no list")
    # The list goes last: files that could not be removed are still listed.
    remove(prefix, files - {LIST})
    remove(prefix, {LIST})
    for folder in sorted(folders, key=lambda folder: len(folder.parts), reverse=True):
        place = prefix / folder
        if place.is_dir() and not place.is_symlink() and not any(place.iterdir()):
            place.rmdir()
    print(f"uninstall: {len(files)} files removed from {prefix}")


if __name__ == "__main__":
    main()
