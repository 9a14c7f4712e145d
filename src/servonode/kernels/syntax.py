"""The syntax tree of a text, made by one thread at a time."""

import ast
import threading
from typing import Any

_ONE_AT_A_TIME = threading.Lock()


def syntax_tree(text: str | bytes, mode: str = "exec") -> Any:
    """The tree of `ast.parse`, which in Python 3.11 and 3.12 may raise SystemError while another thread is in it."""
    with _ONE_AT_A_TIME:
        return ast.parse(text, mode=mode)
