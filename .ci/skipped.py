"""The ids of the tests that a JUnit report of pytest calls skipped, one a line: `python .ci/skipped.py REPORT.xml`."""

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path


def node_id(classname: str, name: str) -> str:
    """The id of a test by its dotted class name, which begins with that of its file."""
    parts = classname.split(".")
    end = next(i for i in range(len(parts), 0, -1) if Path(*parts[:i]).with_suffix(".py").is_file())
    return "::".join([str(Path(*parts[:end]).with_suffix(".py")), *parts[end:], name])


for case in ElementTree.parse(sys.argv[1]).iter("testcase"):
    if case.find("skipped") is None or not (name := case.get("name")):
        continue
    classname = case.get("classname")  # a module that is skipped as a whole has none; its own name is a dotted path
    sys.stdout.write(f"{node_id(classname, name) if classname else name.replace('.', '/') + '.py'}\n")
