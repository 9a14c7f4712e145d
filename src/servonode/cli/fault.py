"""Has a part of a run in progress fail on purpose."""

from typing import Annotated, Any

import click

from servonode.cli import complete, verb
from servonode.cli.command import argument, command, option
from servonode.cli.operate import EXITS
from servonode.cli.options import ABOVE_ZERO, AsJson, FiniteRange

PLACES = click.Choice(("drive", "sensor", "link", "node"))


@command(
    (
        "servonode fault trailer_pursuit drive off U1",
        "servonode fault trailer_pursuit link delayed --size 0.1 --duration 2",
        "servonode fault trailer_pursuit node kill controller",
        "servonode fault my_robot link off --hardware",
    ),
    EXITS | {0: "the fault is injected, or planned"},
    logs=False,
)
def fault(
    run: Annotated[str, argument("RUN", shell_complete=complete.runs)],
    place: Annotated[str, argument("|".join(PLACES.choices), PLACES)],
    kind: Annotated[str, argument("KIND")],
    name: Annotated[str | None, argument("[NAME]", required=False)],
    at: Annotated[float | None, option("Begin at this plant time (default: now).", "SECONDS", FiniteRange(min=0))],
    duration: Annotated[float | None, option("End after this plant time (default: never).", "SECONDS", ABOVE_ZERO)],
    size: Annotated[float | None, option("How large it is, where its kind has a size.", "SIZE", ABOVE_ZERO)],
    hardware: Annotated[bool, option("Allow it in a machine that is no simulation.")],
    as_json: AsJson,
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
    stated: dict[str, Any] = {"on": place, "kind": kind, "name": name, "hardware": hardware}
    stated |= {"at": at, "duration": duration, "size": size}
    stated = {key: value for key, value in stated.items() if value is not None}
    answer = order("fault", run, fault=stated)
    what = " ".join(filter(None, (place, kind, name)))
    said = {"run": answer["run"], **stated, "t": answer["t"]}
    verb.show(said, as_json, f"{answer['run']}: {what} from t = {answer['t']:.3f} s")
