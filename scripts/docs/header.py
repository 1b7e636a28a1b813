"""Reads include/ucudnn.h: its declarations, in their order, each with the text of the comment before it.

The reader knows the forms that cbindgen writes. It refuses any other form, and a declaration without a comment, so that
nothing is left out of the page silently.
"""

import re
import typing


class Declaration(typing.NamedTuple):
    """`kind` is one of `function`, `struct`, `type`, `opaque` and `macro`; `text` is the C code, without its semicolon."""

    kind: str
    name: str
    text: str
    comment: str
    members: tuple = ()


class NotUnderstood(ValueError):
    """The header has something that the reader does not know. The text names the line."""


COMMENT = re.compile(r"/\*(.*?)\*/", re.S)
# The types of cuDNN, for programs without its header.
CUDNN = re.compile(r"#ifndef UCUDNN_WITHOUT_CUDNN_H\n.*?\n#endif\n", re.S)
PASSED_OVER = re.compile(r"""\s+|extern "C" \{|\}  // extern "C"|\#(?:if|ifdef|ifndef|else|endif|include)\b.*""")
GUARD = re.compile(r"#define (UCUDNN_H_|UCUDNN_WITHOUT_CUDNN_H)\n")
# Each form of a declaration; the first group is the code that the page shows.
FORMS = (
    ("macro", re.compile(r"(#define (?P<name>\w+) [^\n]+)\n")),
    ("opaque", re.compile(r"(typedef struct (?P<name>\w+) (?P=name));")),
    ("struct", re.compile(r"(typedef struct (?P<name>\w+)) \{\n(?P<members>.*?)\n\} (?P=name);", re.S)),
    ("type", re.compile(r"(typedef [\w ]+?[ *]+(?P<name>\w+));")),
    ("function", re.compile(r"([\w ]+?[ *]+(?P<name>\w+)\([^;]*\));")),
)
MEMBER = re.compile(r"\s*/\*(?P<comment>.*?)\*/\s*(?P<text>[^;/]+?);", re.S)
# In a pointer to an array, parentheses are around the name.
MEMBER_NAME = re.compile(r"\(\*(\w+)\)|(\w+)(?:\[\w+\])?$")


def plain(comment):
    """A comment's text, without the stars and the spaces at the beginnings of lines; paragraphs are apart by an empty line."""
    lines = [re.sub(r"^\s*\*? ?", "", line).rstrip() for line in comment.strip().splitlines()]
    return "\n".join(lines).strip()


def members_of(name, text):
    """The members of a struct. They are all of its text, or something was not understood."""
    members, at = [], 0
    while text[at:].strip():
        found = MEMBER.match(text, at)
        if not found:
            raise NotUnderstood(f"struct {name}: a member and the comment before it are expected at: {text[at:].strip()[:80]!r}")
        code = " ".join(found["text"].split())
        names = MEMBER_NAME.search(code)
        members.append(Declaration("member", names[1] or names[2], code, plain(found["comment"])))
        at = found.end()
    return tuple(members)


def read(text):
    """The header's introduction, and its declarations."""
    first = COMMENT.match(text)
    if not first:
        raise NotUnderstood("the header begins with no comment")
    introduction, declarations = plain(first[1]), []
    at, comment = first.end(), None

    def refuse(what):
        raise NotUnderstood(f"line {text.count(chr(10), 0, at) + 1}: {what}: {text[at:].lstrip()[:80]!r}")

    while at < len(text):
        if skipped := CUDNN.match(text, at) or GUARD.match(text, at) or PASSED_OVER.match(text, at):
            at = skipped.end()
            if skipped[0].strip():
                comment = None
        elif found := COMMENT.match(text, at):
            comment, at = plain(found[1]), found.end()
        else:
            kind, found = next(((kind, found) for kind, form in FORMS if (found := form.match(text, at))), (None, None))
            if not found:
                refuse("no form of a declaration that scripts/docs/header.py knows")
            if not comment:
                refuse("no comment stands before the declaration")
            members = members_of(found["name"], found["members"]) if kind == "struct" else ()
            code = " ".join(found[1].split())
            declarations.append(Declaration(kind, found["name"], code, comment, members))
            comment, at = None, found.end()
    return introduction, declarations
