"""The words, sentences and links of the project: prints what is wrong with them, and ends with 1 where something is.

    python -m tools.words

No private term stands in pages, code, comments, names, help or errors: the texts use the words of the field. Each
pattern finds a term in its private meaning; beside it stands what to write instead. In pages, comments and docstrings,
quotations, names in backquotes and blocks of code are not judged.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from tests.helpers.commands import helps
from tests.helpers.links import broken_links, links_of

ROOT = Path(__file__).parents[1]
LONGEST = 30  # words of a sentence in a page of the reference
MADE = ("launch_files.md",)  # pages of the reference that are made from the code

OLD_FILES = (
    "words", "place", "locate", "tidy", "momenta", "faces", "plumbing", "maps", "folder", "assembly", "examine",
    "prospect", "child", "outcome", "grants", "ladder", "statistics", "moving_picture", "moving_parts",
    "moving_ink", "moving_fields", "thinning", "ring",
)  # fmt: skip
WORDS = {  # a term in its private meaning: what to write instead
    r"(?<!relative )\bdegree [12]\b|\bdegrees? of (?:a|the|each|its) residual": "relative degree",
    r"(?<!convergence )\brates? of (?:a|the|each|its) residual": "convergence rate",
    r"\brungs?\b": "execution mode, of a run; safe state, of the fault ladder",
    r"(?<!zero-order )\b(?:the|a|every|each) hold\b(?! of)|\bheld law\b": "zero-order hold",
    r"\bstart states?\b|\bthe start's\b": "initial condition, or start-up",
    r"\bfree motions?\b": "zero dynamics, with a word on what the goal leaves free",
    r"\b(?:machines?|plants?) outside\b|\boutside machines?\b": "external plant",
    r"\bmend(?:s|ed|ing)?\b": "fix, remedy",
    r"\bverdicts? of (?:no|yes)\b|\b(?:is|are|was) a (?:no|yes)\b|\bthe yeses\b|\bsays (?:no|yes)\b": (
        "the check failed, passed"
    ),
    r"\bdoors?\b": "request socket",
    r"\bhear(?:s|d|ing)?\b": "receive, subscribe, poll requests",
    r"\baskers?\b": "client",
    r"\blet(?:s|ting)? go\b": "clear, of a fault; close, of a link",
    r"\bend(?:s|ed)? well\b": "completed",
    r"\bwall s\b|\bwall seconds?\b": "s (wall clock)",
    r"\bthe source(?:'s\b| (?:has|gives|prints|says|takes|computes|states|means)\b)": "the paper",
    r"\bfault machine\b": "the name of what happened: tilt, fallen, contact_lost",
    r"\bown_time\b|\bpatience\b|\bexcuses?\b|\bblind\b|\bin trouble\b": (
        "interactive, timeout, no_answer_reason, state_unknown, fault"
    ),
    r"\b(?:" + "|".join(OLD_FILES) + r")\.py\b": "the file's present name",
    r"\bmoving (?:pictures?|ink|fields)\b": "animation",
    r"\bplumbing\b": "zmq_io",
    r"\b(?:is|are|was|were|be|not) going on\b": "in progress",
    r"\brings? of bytes\b|\bthinned\b": "ring buffer; decimated",
    r"\bforetold\b|\btruth values?\b": "predicted; boolean",
    r"\bshall\b": "will, must, or a plain present",
    r"\b(?:is|are|was|were|be) (?-i:none)\b(?! of\b)": "there is no ..., or name what is missing",
    r"\bstate a machine\b": "define a mechanical system",
    r"\blive(?:s|d)? (?:its|their) li(?:fe|ves)\b|\bdie(?:s|d)? into\b": "runs; decays",
    r"\bwanted places?\b|\bplaces? and (?:attitude|heading|orientation|speed)\b"
    r"|(?<!in )(?<!n the )(?<!s the )\bplaces? of (?:a|an|the|its|each) (?:axle|ball|bead|blade|body|carriage|cart"
    r"|frame|load|robot|target|tip|tool|trolley)s?\b": "position",
    r"\bdeaf to\b|\bgo(?:es)? limp\b": "ignores; gets zero input",
}  # fmt: skip
NAMES = {  # the same in names of the product, `note_start` read as "begin life"
    r"\bpatien(?:t|ce)\b": "timeout, notice_after, slow_reader",
    r"\bnot mine\b|\bdanger\b|\bwhy not\b": "foreign_owner, untrusted_reason, unknown_reason",
    r"\blistened\b|\bspoken\b|\bshaken\b": "has_subscriber, frames_received, handshake_done",
    r"\bstanding\b|^asked (?:for|word)$": "status, handle_request",
    r"\bgo on\b|\bshut out\b|\bworth\b": "resume, persistent_rejection, quality",
    r"\bbegin life\b|\bat hand\b|\bworded\b": "note_start, reference_to, naming_file",
    r"\bmost (?:lives|told)\b": "max_restarts, max_warnings",
    r"\bspeak\b|\bneat\b|\bfacts\b|\bleg\b": "update_caption, simplify, summary, segment",
}  # fmt: skip
SOCKETS = (  # written by hand, and what has their interface: their names change with them
    "src/servonode/bus/", "tests/bus/", "src/servonode/plants/drivers/simulated_device.py",
    "src/servonode/plants/drivers/packet_link.py", "src/servonode/record/recorder.py",
    "src/servonode/operator/record_live.py",
)  # fmt: skip
PATTERNS = {re.compile(term, re.IGNORECASE): instead for term, instead in WORDS.items()}
PICTURES = ("https://raw.githubusercontent.com/servonode/servonode/main/", "https://img.shields.io/badge/")
ANY = re.compile(r"\b(?:" + "|".join(WORDS) + ")")  # in small letters
NAME_PATTERNS = {re.compile(term, re.IGNORECASE): instead for term, instead in NAMES.items()}
PYTHON_COMMENT = re.compile(r"(?:^|  )#(.*)$", re.MULTILINE)
C_TEXT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.DOTALL)


def tracked(*patterns: str) -> list[Path]:
    """The files of the repository that match, by path."""
    listed = subprocess.run(["git", "ls-files", "--", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    return [path for line in listed.stdout.splitlines() if (path := ROOT / line).is_file()]


def blank(hit: re.Match[str]) -> str:
    """As many line breaks as were found, or a space."""
    return "\n" * hit[0].count("\n") or " "


def prose(markdown: str) -> str:
    """A page without code, formulas, comments and quotations; line breaks stay."""
    text = re.sub(r"^( *)```.*?^\1```$|<!--.*?-->|\$\$.*?\$\$", blank, markdown, flags=re.S | re.M)
    text = re.sub(r"`[^`\n]*(?:\n[^`\n]*)?`", blank, text)
    text = re.sub(r"\]\([^)]*\)", "]", re.sub(r"^[ \t]+", "", text, flags=re.MULTILINE))
    return re.sub(r'"(?:[^"\n]|\n(?!\n)){1,200}"|^ *>.*$', blank, text, flags=re.MULTILINE)


def found(text: str, where: str, first: int = 1) -> list[str]:
    """Each private term in a text that begins in line `first`, with its place and what to write."""
    flat = text.replace("\n", " ")
    if not ANY.search(flat.lower()):
        return []
    return [
        f"{where}:{text.count(chr(10), 0, hit.start()) + first}: {hit[0]!r}: {instead}"
        for term, instead in PATTERNS.items()
        for hit in term.finditer(flat)
    ]


def python_texts(source: str, nodes: Sequence[ast.AST]) -> Iterator[tuple[int, str]]:
    """Comments, docstrings and strings of a Python source, each with its first line."""
    comments = [hit[1] if (hit := PYTHON_COMMENT.search(line)) else "" for line in source.splitlines()]
    yield 1, prose("\n".join(comments))
    docstrings = {id(each.value) for each in nodes if isinstance(each, ast.Expr)}
    for each in nodes:
        if not isinstance(each, ast.Constant) or not isinstance(each.value, str):
            continue
        if id(each) in docstrings:
            yield each.lineno, prose(each.value)
        elif " " in each.value:
            yield each.lineno, each.value


def identifiers(nodes: Sequence[ast.AST]) -> Iterator[tuple[int, str]]:
    """The names that a Python source defines, each with its line: functions, classes, arguments, variables."""
    for each in nodes:
        match each:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield each.lineno, name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield each.lineno, name


def read_aloud(name: str) -> str:
    """The words of a name: `EndsWell` is "Ends Well", `test_the_source_s_run` is "test the source's run"."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).strip("_")
    if not name.startswith("test_"):
        return words.removesuffix("_s").replace("_", " ")  # s is a unit: seconds
    return re.sub(r" s\b", "'s", words.replace("_", " "))


@cache
def private_words(name: str, product: bool) -> tuple[str, ...]:
    """What to write instead of the private terms in a name."""
    words = read_aloud(name)
    hits = (instead for term, instead in NAME_PATTERNS.items() if product and term.search(words))
    return (*(hit.partition(":1: ")[2] for hit in found(words, "")), *hits)


def found_in_python(source: str, where: str) -> list[str]:
    """Each private term in the texts of a Python source and in the names that it defines."""
    nodes = list(ast.walk(ast.parse(source)))
    hits = [hit for line, text in python_texts(source, nodes) for hit in found(text, where, line)]
    if where.startswith(SOCKETS):
        return hits
    product = where.startswith("src/")
    named = [(line, name, text) for line, name in identifiers(nodes) for text in private_words(name, product)]
    return hits + [f"{where}:{line}: {name}: {text}" for line, name, text in named]


def c_texts(source: str) -> Iterator[tuple[int, str]]:
    """Comments and strings of a C source, each with its first line."""
    for hit in C_TEXT.finditer(source):
        text = hit[0] if hit[0].startswith('"') else prose(re.sub(r"^[ \t]*(?:/?\*|//)", "", hit[0], flags=re.M))
        yield source.count("\n", 0, hit.start()) + 1, text


def uncommented(text: str) -> str:
    """A text whose lines have lost what makes a comment of them."""
    return re.sub(r"^[ \t]*(?:#+|//|/?\*+)?[ \t]*", "", text, flags=re.MULTILINE)


def found_in_page(source: str, where: str) -> list[str]:
    return found(prose(source), where)


def found_in_c(source: str, where: str) -> list[str]:
    return [hit for line, text in c_texts(source) for hit in found(text, where, line)]


def found_in_others(source: str, where: str) -> list[str]:
    return found(uncommented(source), where)


FILES = {  # what searches the files that match, three of which are known
    found_in_page: ("*.md", "CHANGELOG.md firmware/README.md docs/explanation/safety.md"),
    found_in_python: (
        "*.py :!tools/words.py :!tests/test_words.py",
        "src/servonode/nodes/guard.py docs/notebooks/arm.py src/servonode/api.py",
    ),
    found_in_c: ("*.c *.h", "firmware/device.c firmware/machine.h"),
    found_in_others: (
        "*.toml *.html *.js *.css *.yaml *.yml *.cff *.service *Makefile *Dockerfile src/servonode/cli/templates/*"
        " :!*.min.* :!*.py",
        "src/servonode/launch/ball_circle.toml src/servonode/wings/web/assets/page.html",
    ),
}  # fmt: skip


# sentences of the reference


def sentences(markdown: str) -> Iterator[str]:
    """The sentences of a page: of paragraphs and list items, without headings and rows of tables."""
    text = prose(re.sub(r"(?<!`)`[^`\n]+`(?!`)|\$[^$\n]+\$", "_", markdown))
    lines = [each for each in text.splitlines() if not each.startswith(("#", "|"))]
    for part in re.split(r"\n\s*\n|\n(?=(?:[*-]|\d+\.) )", "\n".join(lines)):
        yield from re.split(r"(?<=[.?!])[)*]*\s+(?=[^a-z\s]|servonode|libzmq)|:\s*$", " ".join(part.split()))


def long_sentences(markdown: str) -> list[str]:
    """The sentences of more words than a reader holds at once."""
    return [each for each in sentences(markdown) if len(re.findall(r"[^\W\d_][\w'-]*", each)) > LONGEST]


# links


def wrong_links() -> Iterator[str]:
    """Links of pages that lead nowhere, and those of the README that a package index could not follow."""
    for page in tracked("*.md"):
        yield from (f"{page.relative_to(ROOT)}: {link} leads nowhere" for link in broken_links(page))
    readme = ROOT / "README.md"
    no_address = (link for link in links_of(readme) if not link.startswith(("https://", "#")))
    yield from (f"README.md: {link} is no address: a package index has no files beside it" for link in no_address)
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", readme.read_text("utf-8"))
    elsewhere = (each for each in pictures if not each.startswith(PICTURES))
    yield from (
        f"README.md: {each}: a package index shows pictures of these addresses: {PICTURES}" for each in elsewhere
    )


def main() -> int:
    """Print each finding; 1 where there is one."""
    texts = [hit for name, text in helps().items() for hit in found(text, name)]
    for search, (patterns, known) in FILES.items():
        files = {str(file.relative_to(ROOT)): file for file in tracked(*patterns.split())}
        assert files.keys() >= {*known.split()}, f"{patterns} do not find {known}"
        texts += [hit for name, file in files.items() for hit in search(file.read_text("utf-8"), name)]
    for file in tracked("docs/reference/*.md"):
        long = long_sentences(file.read_text("utf-8")) if file.name not in MADE else []
        texts += [f"{file.relative_to(ROOT)}: has more than {LONGEST} words: {each}" for each in long]
    texts += wrong_links()
    sys.stdout.writelines(f"{text}\n" for text in texts)
    return int(bool(texts))


if __name__ == "__main__":
    sys.exit(main())
