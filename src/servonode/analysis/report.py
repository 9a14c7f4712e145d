"""The report of `servonode check`: what it holds, and how it is told."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from servonode.closed_loop.static_checks import WATCHED, Finding
from servonode.tables import Result, Row

MARKS = {"good": "ok  ", "warn": "warn", "refuse": "NO  "}
MAX_SHOWN = 4  # findings of one kind, and residuals, in a report's short table


@dataclass(frozen=True, repr=False)
class Report(Result):
    """The report of `check`: the resolved closed loop and the findings. Times in s, rates in 1/s.

    verdict: "yes" if the check passed, else "no". findings: level, subject and sentence of each. numbers: margins,
    conditions, peaks and the result for the zero dynamics, by name.
    """

    file: str
    verdict: str
    machine: str
    state: tuple[str, ...]
    inputs: tuple[str, ...]
    constraints: tuple[str, ...]
    reactions: tuple[str, ...]  # of a machine that determines them itself
    stabilised: tuple[str, ...]  # the constraints that they hold
    degrees_of_freedom: int
    program: str | None
    residuals: dict[str, dict[str, float]]
    extension: dict[str, Any]  # of a law that has one: steps, integrators, left_free, determinant, depends_on
    settings: dict[str, float]  # of the program
    options: dict[str, Any]  # of the machine
    targets: tuple[str, ...]
    mode: str
    speed: float
    duration: float
    step: float
    period: float | None
    integrator: str
    command_timeout: float | None
    after_fault: dict[str, str]  # what each input does
    safety: dict[str, Any]  # driver, limits by input, what a fault leads to
    findings: tuple[Finding, ...]
    numbers: dict[str, Any]

    def __bool__(self) -> bool:
        """Whether the check passed."""
        return self.verdict == "yes"

    def as_dict(self) -> dict[str, Any]:
        """All fields by name, as `servonode check --json` prints them."""
        return asdict(self)

    def rows(self) -> list[Row]:
        """All of it: a line for each fact, in the order of the command line."""
        rows: list[Row] = [
            ("file", self.file),
            ("machine", _machine(self)),
            ("state", ", ".join(self.state)),
            ("inputs", ", ".join(self.inputs) or "none"),
        ]
        if self.stabilised:
            rows.append(("reactions", f"{', '.join(self.reactions)}, which hold {', '.join(self.stabilised)}"))
        else:
            rows.append(("contact forces", ", ".join(self.constraints) or "none"))
        rows.append(("program", self.program or ("none: zero input" if self.inputs else "none")))
        for name, values in self.residuals.items():
            rows.append((f"  {name}", _residual(values)))
        rows += [("extension", text) for text in _extension(self.extension)]
        if self.program:
            rows += [("settings", ", ".join(f"{n} = {v:g}" for n, v in self.settings.items()) or "none")]
        if self.targets:
            rows.append(("targets", ", ".join(self.targets)))
        pace = f"real time at speed {self.speed:g}" if self.mode == "realtime" else "lockstep"
        period = f", control every {self.period:g} s" if self.period else ""
        rows.append(("time", f"{self.duration:g} s, {pace}, step {self.step:g} s ({self.integrator}){period}"))
        if self.command_timeout is not None and self.mode == "realtime":
            rows.append(("command timeout", f"{self.command_timeout * 1e3:.0f} ms of wall time"))
        if self.inputs:
            rows.append(("safety", _safety(self.safety)))
            rows += [("after a fault", f"{name} {does}") for name, does in self.after_fault.items()]
        rows += _numbers(self.numbers)
        rows += [(MARKS[each.level], f"{each.subject}: {each.text}") for each in self.findings]
        rows.append(("verdict", self.verdict))
        return rows

    def text(self) -> str:
        """All of it, as `servonode check` prints it."""
        return _text(self.rows())

    def table(self) -> tuple[str, list[Row]]:
        """The verdict, the reasons for it, the residuals, largest inputs and condition, warnings."""
        found = {level: [each for each in self.findings if each.level == level] for level in MARKS}
        texts = {level: [f"{each.subject}: {each.text}" for each in found[level][:MAX_SHOWN]] for level in MARKS}
        shown = ["machine", "program", *[f"  {name}" for name in self.residuals][:MAX_SHOWN], "condition", "peaks"]
        rows = [("refused", text) for text in texts["refuse"]]
        rows += [(key.strip(), text) for key, text in self.rows() if key in shown]
        rows += [("warning", text) for text in texts["warn"]]
        counts = (("refuse", "refused"), ("warn", "warnings"), ("good", "good"))
        rows += [("findings", ", ".join(f"{len(found[level])} {word}" for level, word in counts))]
        return f"Check of {self.file}: {'passed' if self else 'FAILED'}", rows


def _text(rows: Iterable[Row]) -> str:
    return "\n".join(f"{key:<16} {text}" for key, text in rows)


def refused_text(known: dict[str, Any], reason: str) -> str:
    """What `check` says of a program that is refused before it is examined; known: of `analysis.check.structure`."""
    rows = [("program", known["program"])] if known else []
    rows += [
        (f"  {name}", f"relative degree {values['relative_degree']}")
        for name, values in known.get("residuals", {}).items()
    ]
    rows += [("extension", text) for text in _extension(known.get("extension", {}))]
    rows += [(MARKS["refuse"], reason), ("verdict", "no")]
    return _text(rows)


def _residual(values: dict[str, Any]) -> str:
    if "relative_degree" not in values:
        return WATCHED
    held = (
        f"convergence rate {values['convergence_rate']:.4g} 1/s"
        if values["held"]
        else "monitored only: the program gives the inputs directly"
    )
    return f"relative degree {values['relative_degree']:.0f}, {held}"


def _extension(extension: dict[str, Any]) -> list[str]:
    """How the law controls residuals that the inputs do not reach directly."""
    if not extension:
        return []
    free = extension["left_free"]
    rows = [
        *extension["steps"],
        f"{free} of the states and integrators are left free" if free else "nothing is left free",
    ]
    where, of = extension["determinant"], extension["depends_on"]
    if not of:  # a number that is not 0
        return rows
    if where:
        return [*rows, f"singular where {where} is 0"]
    return [*rows, f"singular on a set of {', '.join(of)}: the run is near to it where the condition is large"]


def _safety(safety: dict[str, Any]) -> str:
    """The limits of the command filter, and the reaction to a fault."""
    kinds = (("limit", "limit"), ("rate_limit", "rate limit"))
    parts = [f"{word} {', '.join(f'{n} {v:g}' for n, v in safety[key].items())}" for key, word in kinds if safety[key]]
    if safety["arming_limit"]:
        shown = ", ".join(f"{name} {value:g}" for name, value in safety["arming_limit"].items())
        parts.append(f"for {safety['arming_time']:g} s after an arming limit {shown}")
    parts += [f"power limit {safety['power_limit']:g} W"] if safety["power_limit"] is not None else []
    after = {"stop": f"for {safety['safe_time']:g} s, then the end", "wait": "until a reset"}
    after["resume"] = "until a command comes again"
    parts.append(f"after a fault {safety['safe_action']} {after[safety['on_fault']]}")
    parts += [f"UNSAFE: {', '.join(safety['unsafe'])}"] if safety["unsafe"] else []
    return f"{'; '.join(parts)} (driver {safety['driver']})"


def _machine(report: Report) -> str:
    """The machine's name, degrees of freedom and options."""
    n = report.degrees_of_freedom
    moves = f"{n} velocities, held by reactions" if report.stabilised else f"{n} degrees of freedom"
    return "; ".join([f"{report.machine}, {moves}", *(f"{name} = {value}" for name, value in report.options.items())])


def _numbers(numbers: dict[str, Any]) -> list[tuple[str, str]]:
    """Rows for the condition, the peaks and the residuals to expect."""
    rows = []
    simulated = numbers.get("simulated", {})
    if "condition_max" in simulated:
        pose = "".join(f", {name} = {value:.3g}" for name, value in simulated["condition_max_pose"].items())
        at = f"{simulated['condition_max']:.4g} at t = {simulated['condition_max_t']:.2f} s{pose},"
        rows.append(("condition", f"{at} at worst along the run (1-norm of W, not scaled as in the rank line)"))
    if simulated:
        peaks = ", ".join(f"{name} {value:.4g}" for name, value in simulated["input_max"].items())
        power = f"power {simulated['power_min']:.3g} to {simulated['power_max']:.3g} W"
        rows.append(("peaks", f"{peaks}; {power}" if peaks else power))
    for key, title, word in (("steady_residual", "zero-order hold", "up to"), ("noise_residual", "noise", "about")):
        if key in numbers:
            left = ", ".join(f"{name} {word} {value:.2g}" for name, value in numbers[key].items())
            rows.append((title, f"leaves {left}"))
    return rows
