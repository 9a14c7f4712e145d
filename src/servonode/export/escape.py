"""Words in LaTeX."""

import re

_SPECIAL = {"\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}"}
_SPECIAL |= {each: f"\\{each}" for each in "%&_#${}"} | {"<": "$<$", ">": "$>$", "|": "$|$"}


def escaped(words: str) -> str:
    """Words with all characters that LaTeX would read as commands made harmless."""
    parts = re.split(r'"([^"]*)"|`([^`]*)`', words)
    texts = ["".join(_SPECIAL.get(character, character) for character in part or "") for part in parts]
    for i in range(1, len(parts), 3):  # what stood in quotes, what stood in backticks
        texts[i] = "" if parts[i] is None else f"``{texts[i]}''"
        texts[i + 1] = "" if parts[i + 1] is None else rf"\texttt{{{texts[i + 1]}}}"
    return "".join(texts)
