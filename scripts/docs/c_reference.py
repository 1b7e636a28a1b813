"""The reference page of the C interface, in reStructuredText, from what header.py reads."""

import re

# The sections of the page: a title, what it is about, and the names of its declarations as a regular expression. A name
# belongs to the first section that matches it.
SECTIONS = (
    ("Nets over graphs", "Vertex functions over batches of graphs: :doc:`/docs/dynamic-nets` explains them, and "
     "``examples/tree_lstm.c`` is a complete program.", r"ucudnn\w*(Vertex|Graph|Loss|Optimizer)|UCUDNN_(VERTEX|LOSS|OPTIMIZER)_"),
    ("Recurrent networks", "Recurrent networks without cuDNN: :doc:`/docs/rnn` explains the kernels, and "
     "``examples/gru.c`` is a complete program.", r"ucudnn\w*Rnn|UCUDNN_RNN_"),
    ("Limits and policies of a handle", "They decide how much workspace the convolutions of a handle take. "
     ":doc:`/docs/tuning` explains them.",
     r"ucudnn(Set|Get)(Default)?WorkspaceLimit|ucudnn\w*Policy|UCUDNN_(POLICY|BATCH_SIZE|NO_LIMIT)"),
    ("One total for a network", "Workspace Division: :doc:`/docs/tuning` explains it.",
     r"ucudnn\w*(TotalWorkspace|FinishCollection|SetLayerId|SetOneStream|GetDivisionDescription)|UCUDNN_NO_LAYER_ID"),
    ("What was planned", "Texts about single convolutions.", r"ucudnnGetConvolution\w+PlanDescription"),
    ("Queries of cuDNN 7", "cuDNN 8 took them away, and older programs need them.", r"cudnn|CUDNN_CONVOLUTION_"),
    ("The library", "", r"ucudnnGetVersion|ucudnnReplaceTorchOperators"),
)  # fmt: skip

# The macros that are the values of a type.
VALUES = {
    "ucudnnPolicy_t": "UCUDNN_POLICY_",
    "ucudnnBatchSizePolicy_t": "UCUDNN_BATCH_SIZE_",
    "ucudnnRnnCell_t": "UCUDNN_RNN_",
    "ucudnnVertexOp_t": "UCUDNN_VERTEX_",
    "ucudnnLoss_t": "UCUDNN_LOSS_",
    "ucudnnOptimizerRule_t": "UCUDNN_OPTIMIZER_",
    "cudnnConvolutionFwdPreference_t": "CUDNN_CONVOLUTION_FWD_",
    "cudnnConvolutionBwdDataPreference_t": "CUDNN_CONVOLUTION_BWD_DATA_",
    "cudnnConvolutionBwdFilterPreference_t": "CUDNN_CONVOLUTION_BWD_FILTER_",
}

ROLES = {"function": "func", "struct": "struct", "type": "type", "macro": "macro"}
NAME = re.compile(r"\b(?:ucudnn|UCUDNN_|cudnn|CUDNN_)\w+|\bUCUDNN_\.\.\.|\b[a-z]+[A-Z]\w*")
# The beginning of a sentence that says what a status means.
STATUS = re.compile(r"(?<![\w,;] )(?=CUDNN_STATUS_\w+: )")

HEAD = """\
C
=

The header ``ucudnn.h``, with all that a program can call besides cuDNN's own functions. It is written for C99, and for
C++.

"""


class Page:
    """The page's lines, and the names that it may link to."""

    def __init__(self, declarations):
        self.roles = {each.name: ROLES[each.kind] for each in declarations if each.kind in ROLES}
        self.fields = {member.name for each in declarations for member in each.members}
        self.fields |= {name for each in declarations if each.kind == "function" for name in re.findall(r"\w+", each.text)}
        self.lines = []

    def inline(self, text):
        """Text without markup. Names of the header become links, and other names of C are set as code."""

        def name(found):
            if role := self.roles.get(found[0]):
                return f":c:{role}:`{found[0]}`"
            is_code = found[0] in self.fields or found[0].lower().startswith(("ucudnn", "cudnn")) and found[0] != "cuDNN"
            return f"``{found[0]}``" if is_code else found[0]

        parts, at = [], 0
        for found in NAME.finditer(text):
            # Markup ends before a letter only behind a backslash and a space.
            parts += [re.sub(r"([\\*`|_])", r"\\\1", text[at : found.start()]), name(found), "\\ "]
            at = found.end()
        return "".join([*parts, re.sub(r"([\\*`|_])", r"\\\1", text[at:])])

    def paragraphs(self, comment, indent=""):
        """A comment's paragraphs. What a status means is an item of a list."""
        for paragraph in re.split(r"\n\s*\n", comment):
            for sentence in filter(None, map(str.strip, STATUS.split(" ".join(paragraph.split())))):
                said, rest = sentence, ""
                if sentence.startswith("CUDNN_STATUS_") and ": " in sentence:
                    said, stop, rest = sentence.partition(". ")
                    said = f"* {said}{'.' if stop else ''}"
                if said.startswith("* "):
                    self.lines += [f"{indent}* {self.inline(said[2:])}"]
                else:
                    self.lines += ["", f"{indent}{self.inline(said)}", ""]
                if rest:
                    self.lines += ["", f"{indent}{self.inline(rest)}", ""]
        self.lines.append("")

    def directive(self, kind, code, comment, indent=""):
        self.lines += [f"{indent}.. c:{kind}:: {code}", ""]
        self.paragraphs(comment, f"{indent}   ")

    def declaration(self, each, macros):
        if each.kind == "struct":
            self.directive("struct", each.name, each.comment)
            for member in each.members:
                self.directive("member", member.text, member.comment, "   ")
        elif each.kind == "type":
            self.directive("type", each.text.removeprefix("typedef "), each.comment)
            if each.name in VALUES:
                # Their names are the whole header's, and not parts of the type's.
                self.lines += ["   .. c:namespace:: NULL", ""]
                for macro in macros:
                    if macro.name.startswith(VALUES[each.name]):
                        self.value(macro, "   ")
        elif each.kind == "function":
            self.directive("function", each.text, each.comment)

    def value(self, macro, indent=""):
        value = macro.text.split(" ", 2)[2]
        self.directive("macro", macro.name, f"{value}: {macro.comment}", indent)

    def section(self, title, about, declarations):
        self.lines += [title, "-" * len(title), "", about, ""]
        macros = [each for each in declarations if each.kind == "macro"]
        of_types = tuple(VALUES[each.name] for each in declarations if each.name in VALUES)
        functions = [each for each in declarations if each.kind == "function"]
        types = [each for each in declarations if each.kind in ("type", "struct")]
        alone = [macro for macro in macros if not (of_types and macro.name.startswith(of_types))]
        if functions:
            self.lines += [f"Here are {', '.join(f':c:func:`{each.name}`' for each in functions)}.", ""]
        for heading, some in (("Functions", functions), ("Types", types)):
            if some and types:
                self.lines += [heading, "~" * len(heading), ""]
            for each in some:
                self.declaration(each, macros)
        for macro in alone:
            self.value(macro)


def page(introduction, declarations):
    """The text of the page."""
    made = Page(declarations)
    # The first line says what the file is.
    made.paragraphs(introduction.partition("\n\n")[2])
    sections = {title: [] for title, _, _ in SECTIONS}
    for each in declarations:
        title = next((title for title, _, names in SECTIONS if re.match(names, each.name)), None)
        if title is None:
            raise ValueError(f"{each.name} of ucudnn.h is in no section of scripts/docs/c_reference.py: add it to SECTIONS")
        sections[title].append(each)
    for title, about, _ in SECTIONS:
        made.section(title, about, sections[title])
    return HEAD + "\n".join(made.lines) + "\n"
