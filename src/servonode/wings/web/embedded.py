"""Data inside an HTML file: numbers as base64, JSON that cannot end its script, one file out of many parts."""

import base64
import hashlib
import html
import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import numpy.typing as npt

from servonode.wings.web.colours import colours_css

SCRIPTS = ("uPlot.iife.min.js", "theme.js", "scene.js", "plots.js", "live.js", "report.js", "sliders.js")
STYLES = ("uPlot.min.css", "theme.css", "page.css", "report.css")
HARMFUL = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})


def numbers(values: npt.NDArray[Any], kind: str = "f4") -> str:
    """Numbers as base64 of their bytes, lowest first: "f4" of 32 bits each, "f8" of 64."""
    with np.errstate(over="ignore"):
        return base64.b64encode(np.ascontiguousarray(values, dtype=f"<{kind}").tobytes()).decode()


def json_text(value: Any) -> str:
    """JSON that may stand in a script element: nothing in it is HTML, and what is not a number is null."""
    return json.dumps(_plain(value), ensure_ascii=False, allow_nan=False, separators=(",", ":")).translate(HARMFUL)


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    return list(map(_plain, value)) if isinstance(value, list | tuple) else value


def escaped(value: object) -> str:
    """A text as HTML shows it, in elements and attributes alike."""
    return html.escape(str(value), quote=True)


def page(title: str, body: str, data: Mapping[str, Any]) -> str:
    """One HTML file that needs no other: nothing is fetched, and no script runs but servonode's own.

    body: HTML, whatever of it came from a user escaped.
    """
    computes = "module" in data.get("live", {})
    script, style = _asset_text(SCRIPTS), colours_css() + _asset_text(STYLES)
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{escaped(policy(computes))}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escaped(title)}</title>",
            f"<style>{style}</style>",
            "</head>",
            "<body>",
            body,
            f'<script type="application/json" id="data">{json_text(data)}</script>',
            f"<script>{script}</script>",
            "</body>",
            "</html>",
            "",
        ]
    )


def policy(computes: bool = False) -> str:
    """What such a file may do: nothing is fetched, and one script runs.

    computes: which may compile WebAssembly, in a worker whose text stands in it.
    """
    allowed = base64.b64encode(hashlib.sha256(_asset_text(SCRIPTS).encode()).digest()).decode()
    more = " 'wasm-unsafe-eval'; worker-src blob:" if computes else ""
    return f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{allowed}'{more}"


@cache
def _asset_text(names: Sequence[str]) -> str:
    assets = files("servonode.wings.web") / "assets"
    texts = [(assets / name).read_text(encoding="utf-8") for name in names]
    return "\n" + "\n".join(text.strip() for text in texts) + "\n"
