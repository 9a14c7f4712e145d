"""The syntax tree of a text, made by one thread at a time."""

import ast
import os
import threading
from typing import Any

_ONE_AT_A_TIME = threading.Lock()
if hasattr(os, "register_at_fork"):  # a forked process must not wait for a thread that it does not have
    release = _ONE_AT_A_TIME.release
    os.register_at_fork(before=_ONE_AT_A_TIME.acquire, after_in_parent=release, after_in_child=release)


def syntax_tree(text: str | bytes, mode: str = "exec") -> Any:
    """The tree of `ast.parse`, which before Python 3.11.8 and 3.12.2 may raise SystemError where threads are in it."""
    with _ONE_AT_A_TIME:
        return ast.parse(text, mode=mode)
