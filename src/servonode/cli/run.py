"""`servonode run`: run the nodes of a launch file as processes."""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from servonode.cli import complete, verb
from servonode.cli.command import command, option
from servonode.cli.options import Address, AsJson, Every, Key, Launch, Open, Out, Page, Reports, Window
from servonode.cli.terminal import opened

if TYPE_CHECKING:
    from servonode.cli.deliver import Signals
    from servonode.closed_loop.closed_loop import ClosedLoop
    from servonode.closed_loop.fleet import Fleet
    from servonode.nodes.recording import Outcome, Recording
    from servonode.views.display import Options as WindowOptions

VIEWERS = "tcp://127.0.0.1:9872"  # where PlotJuggler looks
RECORD = "Record all messages (default: NAME.mcap)."
TELEMETRY = f"Publish all topics at a tcp address of this computer, for viewers ({VIEWERS}); overrides run.telemetry."
VIEW = "Show the run by this view of an installed package (repeatable)."
Record = Annotated[str | None, option(RECORD, "[FILE.mcap]", is_flag=False, flag_value="")]
Telemetry = Annotated[str | None, option(TELEMETRY, "[ADDRESS]", Address(), is_flag=False, flag_value=VIEWERS)]


@dataclass(frozen=True)
class Options:
    """What the options of the command choose, by their names: one attribute for each of its many options."""

    as_json: AsJson
    out: Out
    every: Every
    name: Annotated[str | None, option("Name of the run (default: the file name without its ending).", "NAME")]
    reports: Reports
    show: Open
    no_report: Annotated[bool, option("Write no report (the default is the picture NAME.png).")]
    record: Record
    plot: Annotated[bool, option("Show the run in a window (servonode plot).")]
    telemetry: Telemetry
    page: Page
    views: Annotated[tuple[str, ...], option(VIEW, "NAME", flag="--view", shell_complete=complete.views)]
    arm: Annotated[bool, option("Arm hardware at once; without it the run waits for servonode arm.")]
    readonly: Annotated[bool, option("Never command the machine, only compute; servonode status shows the inputs.")]
    key: Key
    insecure: Annotated[bool, option("Meet machine and other computer without keys, on a closed bench network.")]
    on: Annotated[str | None, option("Run the nodes that [hosts] gives to this computer, HOST, and listen.", "HOST")]

    @property
    def shown(self) -> dict[str, int]:
        """The views that show the run, each with its port; 0: any."""
        from servonode.views.run_view import PAGE

        return dict.fromkeys(self.views, 0) | ({} if self.page is None else {PAGE: self.page})


@command(
    (
        "servonode run trailer_pursuit",
        "servonode run trailer_pursuit --set run.speed=1 --report pursuit.html",
        "servonode run trailer_pursuit --plot",
        "servonode run trailer_pursuit --page",
        "servonode run trailer_pursuit --record",
        "servonode run trailer_pursuit --telemetry",
        "servonode run my_robot.toml --arm",
        "servonode run my_robot.toml --readonly",
        "servonode run my_robot.toml --key desk",
        "servonode run my_robot.toml --on robot.local",
        "servonode run my_robot.toml --json --output my_robot.csv",
    ),
    {
        0: "completed",
        1: "a fault, a plant that was stopped, or an output that could not be written",
        **verb.BAD_USAGE,
        **verb.BROKEN_OFF,
    },
)
def run(launch: Launch, chosen: Options, shown: Window) -> None:
    """Run FILE: start its nodes as processes, connected by ZeroMQ."""
    from servonode.cli.start_checks import check_descriptors, window_options
    from servonode.views.display import check_display
    from servonode.views.run_view import showing

    if chosen.arm and chosen.readonly:
        raise click.UsageError(
            "--readonly never commands a machine, so the run cannot be armed; leave out --readonly or --arm."
        )
    check_descriptors(click.get_current_context().obj or [], chosen.as_json)
    window = window_options(chosen.plot, shown)
    if window:
        check_display()
    if chosen.telemetry is not None:
        launch = launch.but(f"run.telemetry={json.dumps(chosen.telemetry, ensure_ascii=False)}")
    for name in chosen.shown:
        showing(name)
    if fleet := launch.fleet():
        sys.exit(_run_robots(*fleet, chosen, window))
    sys.exit(_run(*_checked(launch.resolved(), chosen, window), window))


def _run_robots(
    fleet: "Fleet", loops: "Mapping[str, ClosedLoop]", chosen: Options, window: "WindowOptions | None"
) -> int:
    """Launch the nodes of all robots; the exit code."""
    from servonode.cli.run_fleet import joined_bag, run_fleet
    from servonode.closed_loop.fleet import memory_of, sharing_memory

    if chosen.on is not None:
        raise click.UsageError("--on: the robots of one launch run on one computer; leave it out.")
    name, loops = chosen.name or fleet.name, sharing_memory(loops)
    if chosen.record is not None:
        chosen = replace(chosen, record=str(_bag(chosen.record, name)))
    own = [_options_of(robot, chosen, name, i) for i, robot in enumerate(loops)]
    checked = [_checked(*each, window) for each in zip(loops.values(), own, strict=True)]
    launches = {robot: partial(_run, *each, window) for robot, each in zip(loops, checked, strict=True)}
    parts = {robot: recording.bag for robot, (_, recording) in zip(loops, checked, strict=True)}
    return run_fleet(name, memory_of(loops), launches, chosen.as_json, lambda: joined_bag(chosen.record, parts))


def _options_of(robot: str, chosen: Options, name: str, number: int) -> Options:
    """The options of one robot: its name in that of the run and in those of the files."""
    from servonode.cli.start_checks import file_of

    return replace(
        chosen,
        name=f"{name}.{robot}",
        out=chosen.out and file_of(robot, chosen.out),
        reports=tuple(file_of(robot, each) for each in chosen.reports),
        record=None if chosen.record is None else str(file_of(robot, Path(chosen.record))),
        page=chosen.page and chosen.page + number,
    )


def _checked(closed_loop: "ClosedLoop", chosen: Options, window: "WindowOptions | None") -> "tuple[Options, Recording]":
    """The options with their reports, and the recording of what runs; refuses what cannot be made."""
    from servonode.cli.start_checks import check_ending, check_reports, check_writable
    from servonode.closed_loop.closed_loop import observing, on_computer, with_keys
    from servonode.nodes.recording import Recording
    from servonode.record.run import default_every
    from servonode.views.panel_specs import chosen_panels
    from servonode.views.run_view import drawing

    if chosen.readonly:
        closed_loop = observing(closed_loop)
    closed_loop = with_keys(on_computer(closed_loop, chosen.on), chosen.key or "", chosen.insecure)
    if window:
        chosen_panels(closed_loop, window.panels, timing=True)
    name = chosen.name or closed_loop.launch.name
    reports = () if chosen.no_report else chosen.reports or (Path(f"{name}.png"),)
    check_writable(chosen.out)
    check_ending(chosen.out, ".csv")
    check_reports(reports, closed_loop)
    bag = None if chosen.record is None else _bag(chosen.record, name)
    if bag is not None:
        drawing(chosen.views)  # what is broken is told before the run
    rows = chosen.every or (1 if chosen.out or bag else default_every(closed_loop))
    return replace(chosen, reports=reports), Recording(closed_loop, rows, name, chosen.out, bag)


def _run(chosen: Options, recorded: "Recording", window: "WindowOptions | None") -> int:
    """Launch the nodes with what watches them, and write the files; the exit code."""
    from servonode.bus.topology import LAUNCHER
    from servonode.cli.deliver import Signals, StatusLine
    from servonode.cli.telemetry import with_telemetry
    from servonode.nodes.launcher import Launcher
    from servonode.nodes.node_process import beside, call_process
    from servonode.nodes.terminal import drain_output, never_waiting
    from servonode.views.display import window_process
    from servonode.views.run_view import showing

    closed_loop, name = recorded.closed_loop, recorded.run
    watchers = [window_process(name, window)] if window else []
    watchers += [showing(each)(name, port) for each, port in chosen.shown.items()]
    call_process(LAUNCHER, name)
    with Signals() as signals, never_waiting() as (printed, said), recorded as recording:
        line = StatusLine(closed_loop, name)
        with (
            with_telemetry(closed_loop.launch.run.telemetry, name, line) as shown,
            beside(watchers, shown) as (start_watchers, progress),
        ):

            def begun() -> None:
                signals.raises = False  # the launcher handles them now, and after its end they come too late
                if not launcher.outcome.interrupted:
                    start_watchers()

            launcher = Launcher(closed_loop, name, recorded.every, progress, begun, recording, arm=chosen.arm or None)
            outcome = launcher.launch()
        line.close()
        code = _deliver(outcome, recording, signals, chosen)
        return drain_output(printed, said, code, chosen.as_json)


def _bag(given: str, name: str) -> Path:
    """The file of the recording: the one that was given, or one of the run's name."""
    from servonode.cli.start_checks import bag_file
    from servonode.record.write import check_library

    check_library()
    return bag_file(given, name)


def _deliver(outcome: "Outcome", recording: "Recording", signals: "Signals", chosen: Options) -> int:
    """Write the files of a run, print its result; its exit code."""
    from servonode.bus.topology import PLANT
    from servonode.cli import deliver
    from servonode.record.files import recovery
    from servonode.views.run_view import drawing

    drawn = drawing(chosen.views) if recording.bag is not None else ()
    outputs = deliver.outputs_of(outcome, recording.run, chosen.out, chosen.reports, recording, drawn)
    done = deliver.make(outputs, signals)
    signals.number = signals.number or outcome.signal
    code = done.code(outcome.exit_code)
    wanted = {"data": recording.out, "recording": recording.bag}
    unmade = {word: file for word, file in wanted.items() if file is not None and word in done.unmade}
    kept = recording.kept() if unmade or recording.lacking(rows=True) else None
    remedies = {word: recovery(kept, file) for word, file in unmade.items()} if kept else {}
    computer = recording.closed_loop.computer
    elsewhere = computer is not None and PLANT in computer.others
    deliver.say(outcome, recording.run, chosen.as_json, code, done, remedies, elsewhere)
    for file in done.shown if chosen.show else ():
        opened(file)
    return code
