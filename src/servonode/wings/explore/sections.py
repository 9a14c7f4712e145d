"""The section [sweep] of launch files: many runs with other numbers."""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct

from servonode.closed_loop.launch_file import joined_key
from servonode.closed_loop.launch_keys import Count, Text, Whole
from servonode.plants.keys import AddedSection, key


class Vary(Struct, frozen=True, forbid_unknown_fields=True):
    """[sweep.vary.KEY]: the range of a key that a sweep varies, or its values one by one."""

    low: Annotated[float | None, key("the lower end", "unit of the key")] = None
    high: Annotated[float | None, key("the upper end", "unit of the key")] = None
    points: Annotated[
        Count | None, key("the number of values of a grid, with both ends (absent, of whole numbers: each)")
    ] = None
    scale: Annotated[Literal["linear", "log"], key("whether the values, or their logarithms, are evenly spaced")] = (
        "linear"
    )
    values: Annotated[
        Annotated[list[float], Meta(min_length=1)] | None,
        key("the values one by one; a random method takes each as often", "unit of the key"),
    ] = None


class Sweep(AddedSection, frozen=True):
    """[sweep]: many runs of the launch file with other numbers (`servonode sweep`); a single run ignores it."""

    fixed: ClassVar[str] = "it belongs to a sweep, and to no run"
    unvaried: ClassVar[str] = "belongs to the sweep itself and to none of its runs; vary a key of another section"
    alone: ClassVar[str] = "varies one machine; sweep the launch file that the robot includes"

    vary: Annotated[
        dict[str, list[float] | Vary],
        key("the keys that vary, each with `[low, high]`, `{low, high, points}` or `{values}`"),
    ] = {}
    method: Annotated[
        Literal["grid", "random", "latin_hypercube", "sobol"],
        key("how values are chosen: all combinations, or points of the space between the ends"),
    ] = "grid"
    runs: Annotated[Count | None, key("the number of runs (a grid has its own)")] = None
    seed: Annotated[Whole, key("the seed of a random method")] = 0
    chunk: Annotated[
        Count | None, key("the runs computed, and kept, at once (absent: some 10 million plant steps)")
    ] = None
    measures: Annotated[
        dict[str, Text],
        key("what is kept of each run beside the usual: expressions of columns with max, min, final, mean, integral"),
    ] = {}

    @classmethod
    def stated(cls, table: dict[str, Any]) -> dict[str, Any]:
        """The table, the keys in `vary` dotted: TOML takes plant.parameters.m1 without quotes for three tables."""
        vary = table.get("vary")
        if not isinstance(vary, dict):
            return table
        return {**table, "vary": {joined_key(key): value for key, value in _dotted(vary)}}


def _dotted(table: dict[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """The entries of nested tables by dotted keys, down to what says how a key varies."""
    for name, value in table.items():
        key = f"{before}{name}"
        if isinstance(value, dict) and value and not ("." in key and value.keys() & set(Vary.__struct_fields__)):
            yield from _dotted(value, f"{key}.")
        else:
            yield key, value
