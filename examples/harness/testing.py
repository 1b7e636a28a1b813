"""What unit tests of several programs need."""

import contextlib
import io
import itertools
import pathlib
import tempfile
import unittest
import xml.etree.ElementTree


class InFolder(unittest.TestCase):
    """Tests with a folder of their own, `path`."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)


def refused(test, parse, cases):
    """Checks that parse(words) ends the program with 2, and says this: `cases` are pairs of words and what is said."""
    for words, named in cases:
        with test.subTest(words), contextlib.redirect_stderr(io.StringIO()) as said:
            with test.assertRaises(SystemExit) as end:
                parse(words)
            test.assertEqual(end.exception.code, 2)
            test.assertIn(named, said.getvalue())


def texts_apart(test, drawn):
    """Checks that a picture's texts lie within it, and none over another. Returns how many there are."""
    root = xml.etree.ElementTree.fromstring(drawn)
    boxes = []
    for text in root.iter("{http://www.w3.org/2000/svg}text"):
        size, x, y = (float(text.get(name)) for name in ("font-size", "x", "y"))
        width = (0.6 if text.get("font-weight") == "bold" else 0.54) * size * len(text.text)
        left = x - {"start": 0, "middle": width / 2, "end": width}[text.get("text-anchor")]
        boxes.append((left, y - 0.8 * size, left + width, y + 0.2 * size, text.text))
        test.assertGreaterEqual(left, 0, text.text)
        test.assertLessEqual(left + width, float(root.get("width")), text.text)
        test.assertLessEqual(y, float(root.get("height")), text.text)
    boxes.sort(key=lambda box: box[1])
    for number, a in enumerate(boxes):
        for b in itertools.takewhile(lambda b: b[1] < a[3], boxes[number + 1 :]):
            test.assertTrue(a[2] <= b[0] or b[2] <= a[0], f"{a} and {b}")
    return len(boxes)
