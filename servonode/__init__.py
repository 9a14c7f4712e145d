"""servonode: from equations to a running control system.

The rooms stand at the top of a checkout and are subpackages of `servonode` everywhere: import `servonode.mechanics`,
never `mechanics`.
"""

from pathlib import Path as _Path
from typing import TYPE_CHECKING
from typing import Any as _Any

from servonode.errors import ServonodeError
from servonode.version import VERSION as _VERSION

if TYPE_CHECKING:
    from servonode.api import check, load, simulate
    from servonode.nodes.operator_requests import arm, disarm, estop, reset, status

__version__ = _VERSION
__all__ = ["ServonodeError", "arm", "check", "disarm", "estop", "load", "reset", "simulate", "status"]

_OPERATOR = ("arm", "disarm", "estop", "reset", "status")

_root = _Path(__file__).resolve().parent.parent
if (_root / "pyproject.toml").is_file() and (_root / "plants").is_dir():  # a checkout, never a wheel
    __path__.insert(0, str(_root))


def __getattr__(name: str) -> _Any:
    """Load the public functions on first use, so that `import servonode` stays instant."""
    if name in _OPERATOR:
        from servonode.nodes import operator_requests as operate

        return getattr(operate, name)
    if name in __all__:
        from servonode import api

        return getattr(api, name)
    raise AttributeError(f"module 'servonode' has no attribute {name!r}")
