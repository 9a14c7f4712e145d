"""Has a part of a run in progress fail on purpose."""

from typing import Any

import click

from servonode.cli import complete, verb

PLACES = ("drive", "sensor", "link", "node")


@click.command(
    cls=verb.Verb,
    logs=False,
    examples=(
        "servonode fault trailer_pursuit drive off U1",
        "servonode fault trailer_pursuit link delayed --size 0.1 --duration 2",
        "servonode fault trailer_pursuit node kill controller",
        "servonode fault my_robot link off --hardware",
    ),
    exits={
        0: "the fault is injected, or planned",
        1: "the plant refused, or did not answer",
        2: "bad usage, no such run, or several runs match",
        **verb.INTERRUPTED,
    },
)
@click.argument("run", metavar="RUN", shell_complete=complete.runs)
@click.argument("place", metavar="drive|sensor|link|node", type=click.Choice(PLACES))
@click.argument("kind", metavar="KIND")
@click.argument("name", metavar="[NAME]", required=False)
@click.option("--at", type=verb.FiniteRange(min=0), metavar="SECONDS", help="Begin at this plant time (default: now).")
@click.option("--duration", type=verb.ABOVE_ZERO, metavar="SECONDS", help="End after this plant time (default: never).")
@click.option("--size", type=verb.ABOVE_ZERO, metavar="SIZE", help="How large it is, where its kind has a size.")
@click.option("--hardware", is_flag=True, help="Allow it in a machine that is no simulation.")
@verb.as_json
def fault(
    run: str, place: str, kind: str, name: str | None, hardware: bool, as_json: bool, **numbers: float | None
) -> None:
    """Inject a fault into a run, to see what finds it.

    KIND is off, stuck, wrong_sign, intermittent, garbage, noise, slow or delayed of a drive or a sensor; off,
    intermittent, delayed, drop or garbage of the link; stall or kill of a node. NAME is one input, state, sensor,
    direction of the link (state or applied), or node. The record tells the fault with the one that was found after it.
    """
    from servonode.closed_loop.launch_error import unknown
    from servonode.operator.operator_requests import order
    from servonode.plants.injection import KINDS

    if kind not in KINDS[place]:
        raise click.UsageError(unknown(f"{kind} is no fault of a {place}", kind, KINDS[place]))
    stated: dict[str, Any] = {"on": place, "kind": kind, "name": name, "hardware": hardware, **numbers}
    stated = {key: value for key, value in stated.items() if value is not None}
    answer = order("fault", run, fault=stated)
    what = " ".join(filter(None, (place, kind, name)))
    said = {"run": answer["run"], **stated, "t": answer["t"]}
    verb.show(said, as_json, f"{answer['run']}: {what} from t = {answer['t']:.3f} s")
