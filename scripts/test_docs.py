"""Tests of what the documentation site is made from. They need no Sphinx: `make docs` runs that, and checks the links."""

import pathlib
import re
import unittest

from docs import c_reference, command_reference, header, python_reference

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADER = (ROOT / "include/ucudnn.h").read_text()

SMALL = """\
/* small: a header. Made by hand.
 *
 * It has two paragraphs, about * and b_W.
 */

#ifndef UCUDNN_H_
#define UCUDNN_H_

#include <stddef.h>
#ifndef UCUDNN_WITHOUT_CUDNN_H
#include <cudnn.h>
#else
typedef int cudnnStatus_t;
#endif

/*
 How a handle behaves.
 */
typedef int ucudnnPolicy_t;

/*
 A description.
 */
typedef struct ucudnnRnnThing_t {
  /*
   The sizes.
   */
  const int (*sizes)[2];
  /*
   The text of sizes.
   */
  const char *const *texts;
} ucudnnRnnThing_t;

/*
 Off, with h' * b_W.
 */
#define UCUDNN_POLICY_OFF 2

/*
 Sets it, as ucudnnPolicy_t says. CUDNN_STATUS_BAD_PARAM: it is null. CUDNN_STATUS_NOT_SUPPORTED: it is old. Nothing is
 changed then.
 */
cudnnStatus_t ucudnnSetPolicy(ucudnnPolicy_t policy,
                              size_t *textSizeInBytes);

#endif  /* UCUDNN_H_ */
"""


class Header(unittest.TestCase):
    def test_each_form_is_read(self):
        introduction, declarations = header.read(SMALL)
        self.assertEqual(introduction, "small: a header. Made by hand.\n\nIt has two paragraphs, about * and b_W.")
        self.assertEqual(
            [(each.kind, each.name) for each in declarations],
            [("type", "ucudnnPolicy_t"), ("struct", "ucudnnRnnThing_t"), ("macro", "UCUDNN_POLICY_OFF"),
             ("function", "ucudnnSetPolicy")])  # fmt: skip
        self.assertEqual([(member.name, member.text, member.comment) for member in declarations[1].members],
                         [("sizes", "const int (*sizes)[2]", "The sizes."),
                          ("texts", "const char *const *texts", "The text of sizes.")])  # fmt: skip
        self.assertEqual(declarations[3].text, "cudnnStatus_t ucudnnSetPolicy(ucudnnPolicy_t policy, size_t *textSizeInBytes)")

    def test_what_is_not_understood_is_refused(self):
        for wrong, why in (
            ("/*\n A union.\n */\ntypedef union ucudnnUnion { int x; } ucudnnUnion;\n", "no form of a declaration"),
            ("size_t ucudnnWithoutComment(void);\n", "no comment"),
            ("/*\n A struct.\n */\ntypedef struct ucudnnRnnBare_t {\n  int bare;\n} ucudnnRnnBare_t;\n", "struct ucudnnRnnBare_t"),
        ):
            with self.subTest(why), self.assertRaisesRegex(header.NotUnderstood, why):
                header.read(SMALL.replace("#endif  /*", f"{wrong}\n#endif  /*"))

    def test_all_of_ucudnn_h_is_read(self):
        declarations = header.read(HEADER)[1]
        functions = {each.name for each in declarations if each.kind == "function"}
        self.assertEqual(functions, set(re.findall(r"^\w+ (\w+)\(", HEADER, re.M)))
        values = {each.name for each in declarations if each.kind == "macro"}
        self.assertEqual(values, set(re.findall(r"^#define (\w+) \S", HEADER, re.M)))
        structs = {each.name for each in declarations if each.kind == "struct"}
        self.assertEqual(structs, set(re.findall(r"^\} (\w+);", HEADER, re.M)))


class Reference(unittest.TestCase):
    def test_the_page_of_c(self):
        page = c_reference.page(*header.read(SMALL))
        self.assertIn("about \\* and b\\_W.", page)
        self.assertIn(".. c:function:: cudnnStatus_t ucudnnSetPolicy(", page)
        self.assertIn("Sets it, as :c:type:`ucudnnPolicy_t`\\  says.", page)
        self.assertIn("* ``CUDNN_STATUS_NOT_SUPPORTED``\\ : it is old.\n", page)
        self.assertIn("\n   Nothing is changed then.\n", page)
        self.assertIn(".. c:macro:: UCUDNN_POLICY_OFF\n\n\n      2: Off, with h' \\* b\\_W.", page)

    def test_each_declaration_has_its_place(self):
        declarations = header.read(HEADER)[1]
        page = c_reference.page("", declarations)
        described = re.findall(r"^ *\.\. c:(?:function|struct|type|macro):: (?:[^\n(]*\W)?(\w+)(?:\(.*)?$", page, re.M)
        self.assertEqual(sorted(described), sorted(each.name for each in declarations if each.kind != "opaque"))

    def test_a_name_of_no_section_is_refused(self):
        with self.assertRaisesRegex(ValueError, "ucudnnFly of ucudnn.h is in no section"):
            c_reference.page("", [header.Declaration("function", "ucudnnFly", "void ucudnnFly(void)", "Flies.")])

    def test_the_names_of_python(self):
        page = python_reference.page(ROOT / "python/ucudnn")
        for name in ("Graphs", "VertexNet", "nn.TreeGRU", "NotSupported", "pkgconfig"):
            self.assertRegex(page, rf"\.\. auto\w+:: ucudnn\.{re.escape(name)}\n")

    def test_subcommands(self):
        text = "Does it.\n\nCommands:\n  run     Start a\n          program\n  report  Show\n  help    Print\n\nOptions:\n  -h\n"
        self.assertEqual(command_reference.subcommands(text), ["run", "report"])
        self.assertEqual(command_reference.subcommands("Options:\n  -h\n"), [])


class Gallery(unittest.TestCase):
    def test_each_program_of_examples_is_there(self):
        programs = [path for path in (ROOT / "examples").glob("*.c")]
        for path in (ROOT / "examples").rglob("*.py"):
            if re.search(r"^(if __name__ ==|main\()", path.read_text(), re.M) and not path.name.startswith("test_"):
                programs.append(path)
        self.assertGreater(len(programs), 15)
        gallery = (ROOT / "docs/examples.md").read_text()
        missing = [str(path.relative_to(ROOT)) for path in programs if f"(../{path.relative_to(ROOT)})" not in gallery]
        self.assertEqual(missing, [])


if __name__ == "__main__":
    unittest.main()
