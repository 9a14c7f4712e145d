"""The colours of all pictures (views/palette.py) as CSS variables; on a dark ground lighter ones of the same hue."""

from functools import cache

from servonode.views.palette import ARROWS, GOAL, GUIDE, INK, SOURCES

SEEN = 0.25  # relative luminance that a colour has at least on a dark ground: 4.5 times as bright as that
STEP = 0.05  # of white that is mixed in at a time


@cache
def colours_css() -> str:
    """--ink, --guide, --goal, --curve-N (of an axis, then of a comparison) and --arrow-N; theme.css has the rest."""
    own = {f"curve-{i}": each for i, each in enumerate(SOURCES)} | {f"arrow-{i}": each for i, each in enumerate(ARROWS)}
    light = {"ink": INK, "guide": GUIDE, "goal": GOAL} | own
    dark = {"goal": GOAL} | own
    return "\n".join(
        [
            _rule({name: "var(--ink)" if name != "ink" and each == INK else each for name, each in light.items()}),
            "@media (prefers-color-scheme: dark) {",
            _rule({name: lighter(each) for name, each in dark.items() if each != INK}),
            "}",
            "",
        ]
    )


def _rule(colours: dict[str, str]) -> str:
    return ":root {" + "".join(f" --{name}: {value};" for name, value in colours.items()) + " }"


def lighter(colour: str) -> str:
    """The colour "#rrggbb" with so much white that it is seen on a dark ground."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    while luminance(parts) < SEEN:
        parts = [each + STEP * (1 - each) for each in parts]
    return "#" + "".join(f"{round(255 * each):02x}" for each in parts)


def luminance(parts: list[float]) -> float:
    """The relative luminance of red, green and blue between 0 and 1 (WCAG 2)."""
    red, green, blue = (each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
