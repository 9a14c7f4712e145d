"""Bad machines and programs of a user: one line that names the line of their file and the remedy, exit code 2."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.helpers.refusals import command, has_passages, line_of

Refused = Callable[..., str]

MACHINE = '''"""A sled on a straight rail, and a mass that slides on it."""

import sympy
from helpers import WEIGHT
from servonode.mechanics import Model, condition, constraint, coordinate, input_, output, parameter, velocity


def model(heavy: bool = False) -> Model:
    x = coordinate("x", "place", "m")
    y = coordinate("y", "place", "m")
    z = coordinate("z", "place of the mass", "m")
    v = velocity("v", "speed", "m/s")
    m = parameter("m", "mass", "kg", default=WEIGHT, above=0)
    F = input_("F", "force", "N")
    rail = constraint("N", "force of the rail", y - 2 * x)
    speed = output("speed", "speed over ground", sympy.sqrt(5) * v, "m/s")
    light = condition(m < 100, "the sled is too heavy")
    kinetic = m * (x.rate**2 + y.rate**2 + z.rate**2) / 2
    return Model(
        name="sled",
        description="sled on a rail",
        coordinates=(x, y, z),
        parameters=(m,),
        kinematics={
            x: v,
            y: 2 * v,
        },
        velocities=(v,),
        kinetic=kinetic,
        potential=0,
        inputs={F: x.rate},
        constraints=(rail,),
        outputs=(speed,),
        requirements=(light,),
    )
'''
HELPERS = """# What the sled weighs.
WEIGHT = 2.0


def lighter(weight: float) -> float:
    return weight / 2
"""
PROGRAM = '''"""A goal of the sled."""

import sympy
from servonode.controllers import Program, residual, signal, target
from servonode.mechanics import Model, condition, parameter


def program(machine: Model) -> Program:
    x = machine["x"]
    goal = target("goal", "goal", "m")
    share = parameter("share", "share of the goal", default=1.0)
    near = condition(x < 100, "too far")
    place = residual("place", x - share * goal, "x less goal", "m")
    return Program(
        name="reach",
        description="reach a goal",
        residuals=(place,),
        targets=(goal,),
        parameters=(share,),
        guards=(near,),
    )
'''
LAUNCH = """
[run]
duration = 0.1
[plant]
machine = "./sled.py:model"
"""
REACH = """
[controller]
program = "./reach.py:program"
[target]
goal = "0.1*t"
"""


class Case(NamedTuple):
    """A text of a file becomes another (`old -> new`); the answer names the changed line, or that of `at`.

    answer: the problem, and behind ` ... ` the remedy.
    """

    edit: str
    answer: str = ""
    at: str = ""

    def file(self, good: str) -> tuple[str, int]:
        """The bad file and the line that is to be named."""
        old, _, new = self.edit.partition(" -> ")
        assert good.count(old) == 1
        bad = good.replace(old, new)
        if self.at:
            return bad, 1 + bad[: bad.index(self.at)].count("\n")
        lines = zip(good.splitlines(), bad.splitlines(), strict=False)
        return bad, next(n for n, (before, after) in enumerate(lines, 1) if before != after)


@pytest.fixture
def refused(tmp_path: Path) -> Refused:
    """What is answered to files that must be refused: one line on stderr, less what it begins with."""

    def refused(
        launch: str = LAUNCH, *words: str, verb: str = "simulate", start: str | None = None, **files: str
    ) -> str:
        for name, text in {"sled": MACHINE, "helpers": HELPERS, "reach": PROGRAM, **files}.items():
            (tmp_path / f"{name}.py").write_text(text)
        file = tmp_path / "a.toml"
        file.write_text(launch)
        line = "servonode: " + line_of(command(verb, str(file), *words))
        begin = f"servonode: {file} [plant] machine: " if start is None else start.replace("FILE", str(file))
        assert line.startswith(begin)
        return line.removeprefix(begin)

    return refused


SUBJECT = re.compile(r"(machine sled|program reach)(: |, (?!constraint))")


def is_answered(text: str, file: str, line: int, case: Case) -> bool:
    """Whether an answer names the line, says the problem and the remedy, and its subject where the case has it."""
    begin = f"{file} line {line}: "
    assert text.startswith(begin), f"{text} -- instead of line {line}"
    said = text.removeprefix(begin)
    return has_passages(said if SUBJECT.match(case.answer) else SUBJECT.sub("", said, count=1), case.answer)


# machines

MACHINES = [
    Case(
        "            y: 2 * v,\n -> ",
        "machine sled: no kinematics are given for y, so their rates are free ... N forbids; "
        "state kinematics={y: ..., ...}",
        at="constraint(",
    ),
    Case(
        'constraints=(rail,) -> constraints=(rail, constraint("N2", "again", 3 * y - 6 * x))',
        "the constraints N, N2 are redundant ... leave out what others imply (N2)",
    ),
    Case(
        "y: 2 * v, -> y: 3 * v,",
        "the kinematics q' = G v do not satisfy the constraint N ... (left over: 1); correct the row or the kinematics",
        at="constraint(",
    ),
    Case("y: 2 * v, -> y: 2 * v**2,", "the rate of y must be linear in the velocities"),
    Case(
        "            x: v,\n            y: 2 * v,\n ->             y: 2 * v**2,\n            x: v,\n",
        "the rate of y must be linear in the velocities",
    ),
    Case(
        "coordinates=(x, y, z) -> coordinates=(x, z)",
        "kinematics of 'y' ... which coordinates= does not list; add it there",
    ),
    Case(
        "y - 2 * x) -> y.rate**2 - 4 * x.rate**2)",
        "machine sled, constraint N: the row must be linear ... is given without rates, it is differentiated for you",
    ),
    Case("y - 2 * x) -> m - 2)", "constraint N: it contains no coordinate and no rate ... say what it holds"),
    Case(
        "z.rate**2) / 2 -> z.rate**3) / 2",
        "the kinetic energy is not quadratic in the rates z_dot ... a sum of inertia times products of two rates",
    ),
    Case(
        "(x.rate**2 + y.rate**2 -> (v**2 + y.rate**2",
        "the kinetic energy contains the velocity v ... write it in rates of coordinates such as x.rate",
    ),
    Case(" + z.rate**2 -> ", "a velocity among z_dot has no inertia ... give it mass"),
    Case(
        "inputs={F: x.rate} -> inputs={F: 3 * x}",
        "input F does work on no coordinate's rate ... give one such as x.rate",
    ),
    Case(
        "z.rate**2) / 2 -> z.rate**2) / sympy.Symbol('M')",
        "the kinetic energy contains 'M' ... add it to the model or use one of m, t, v, x, x_dot, y, y_dot, z, z_dot",
    ),
    Case("potential=0 -> potential=sympy.Symbol('M') * y", "the potential contains 'M'"),
    Case("y: 2 * v, -> y: 2 * v + sympy.Symbol('M'),", "the rate of y contains 'M'"),
    Case("y - 2 * x) -> y - sympy.Symbol('M') * x)", "the constraint N contains 'M'"),
    Case("sympy.sqrt(5) * v -> sympy.Symbol('M') * v", "the output speed contains 'M'"),
    Case(
        "condition(m < 100 -> condition(x < 100",
        "the requirement 'the sled is too heavy' ... contains 'x', which the model does not list; add it to",
    ),
    Case(
        "parameters=(m,) -> parameters=()",
        "the kinetic energy contains 'm' ... which the model does not list; add it to the model",
        at="kinetic = m",
    ),
    Case(
        'parameter("m", -> parameter("x",', "the name 'x' is used twice (first: sled.py line  ... ); rename one of them"
    ),
    Case('output("speed", -> output("N",', "the name 'N' is used twice (first: sled.py line "),
    Case('coordinate("z", -> coordinate("z 1",', "coordinate name 'z 1': names are ASCII identifiers"),
    Case("default=WEIGHT,  -> ", "parameter 'm' has no default ... give it one with default="),
    Case("default=WEIGHT -> default=-WEIGHT", "parameter m: its default -2 kg must be greater than 0"),
    Case("condition(m < 100 -> condition(m - 100", "condition m - 100: state it as a relation, for example"),
    Case(
        'coordinates=(x, y, z) -> coordinates=("x", y, z)',
        "'x' in coordinates= was not made ... by coordinate(...); make it so",
    ),
    Case(
        "velocities=(v,) -> velocities=(v, input_('G', 'force'))",
        "G in velocities= was not made ... by velocity(...); make it so",
    ),
    Case(
        "outputs=(speed,) -> order=(x, y, v)",
        "order must list each coordinate and velocity once ... (v, x, y, z, z_dot)",
    ),
    Case("parameters=(m,) -> parameters=m", "parameters= is not a sequence"),
    Case(
        "potential=0 -> potentials=0",
        "Model() has no argument 'potentials'; did you mean potential?",
        at="return Model(",
    ),
    Case("rail = constraint -> rail = = constraint", "bad syntax: invalid syntax"),
    Case("default=WEIGHT, above=0) -> default=WEIGHT, above=0", "bad syntax: '(' was never closed"),
    Case("y - 2 * x) -> y - 2 * X)", "NameError: name 'X' is not defined ... correct this line"),
    Case("potential=0 -> potential=__import__('math').cos(x)", "TypeError: ... take cos and the like from sympy, not"),
    Case("potential=0 -> potential=__import__('numpy').cos(x)", "TypeError: ... take cos and the like from sympy, not"),
    Case("potential=0 -> potential=x.dot", "AttributeError: 'Coordinate' object ... a rate is written .rate"),
    Case("import sympy -> import sympie", "ModuleNotFoundError: No module named 'sympie'"),
    Case("input_, output -> inputs, output", "ImportError: cannot import name 'inputs'"),
    Case("    F = input_ ->     exit()\n    F = input_", "SystemExit: None"),
    Case("import sympy\n -> import sympy\n\nraise SystemExit('enough')\n", "SystemExit: enough", at="raise SystemExit"),
    Case("    F = input_ ->     raise ValueError('one\\ntwo')\n    F = input_", "ValueError: one\\ntwo"),
    Case(
        "    return Model( ->     Model(",
        "model() returned NoneType, not a Model ... end it with return Model(...)",
        at="def model",
    ),
    Case("heavy: bool = False -> heavy: bool = None", "the default of option 'heavy' is not a number, a text or"),
]


@pytest.mark.parametrize("case", MACHINES, ids=lambda case: case.edit)
def test_a_bad_machine_is_answered_with_its_line_and_the_remedy(refused: Refused, case: Case) -> None:
    bad, line = case.file(MACHINE)
    assert is_answered(refused(sled=bad), "sled.py", line, case)


@pytest.mark.parametrize("verb", ["simulate", "check", "show", "run"])
def test_every_verb_refuses_a_bad_machine(refused: Refused, verb: str) -> None:
    case = Case("y - 2 * x) -> y - 2 * X)", "NameError: name 'X' is not defined ... correct this line")
    bad, line = case.file(MACHINE)
    assert is_answered(refused(verb=verb, sled=bad), "sled.py", line, case)


NEIGHBOURS = {
    "at its import": ("import WEIGHT", Case("WEIGHT = 2.0 -> WEIGHT = [][0]", "IndexError: list index out of range")),
    "by its syntax": ("import WEIGHT", Case("WEIGHT = 2.0 -> WEIGHT = (2.0", "SyntaxError: '(' was never closed")),
    "when it is called": (
        "import WEIGHT, lighter",
        Case("weight / 2 -> weight / two", "NameError: name 'two' is not defined"),
    ),
}


@pytest.mark.parametrize("when", NEIGHBOURS)
def test_a_neighbour_that_fails_is_named_with_its_own_line(refused: Refused, when: str) -> None:
    imported, case = NEIGHBOURS[when]
    bad, line = case.file(HELPERS)
    machine = MACHINE.replace("import WEIGHT", imported)
    if "lighter" in imported:
        machine = machine.replace("default=WEIGHT", "default=lighter(WEIGHT)")
    assert is_answered(refused(sled=machine, helpers=bad), "helpers.py", line, case)


PLACES = {
    "./sled.py:sledge": "'./sled.py:sledge': sled.py has no function 'sledge'; define it with def, or choose model",
    "./sled.py": "'./sled.py' names no function in the file; write \"./sled.py:model\"",
    "./sledge.py:model": "there is no file FOLDER/sledge.py; the path is relative to the launch file's folder",
    "no_such_robots:model": "'no_such_robots:model': there is no Python module 'no_such_robots' here; install it, or "
    'write "./no_such_robots.py:model" for a file beside the launch file',
    "no_such.robots:model": "'no_such.robots:model': the package of 'no_such.robots' cannot be imported",
    "diff_drive_trailr": "'diff_drive_trailr' is unknown; did you mean diff_drive_trailer? choose a name that "
    'servonode list machines shows, or give your own as "./my_machine.py:model" beside the launch file',
}


@pytest.mark.parametrize("reference", PLACES)
def test_a_reference_that_leads_nowhere_is_answered_with_what_there_is(
    refused: Refused, tmp_path: Path, reference: str
) -> None:
    text = refused(LAUNCH.replace("./sled.py:model", reference))
    assert text.startswith(PLACES[reference].replace("FOLDER", str(tmp_path)))


# machines that have no motion at their start

SINGULAR = """from sympy import log, sqrt
from servonode.mechanics import Model, coordinate, velocity


def model() -> Model:
    r, p, q = (coordinate(name, "place", "m") for name in "rpq")
    v = velocity("v", "speed")
    return Model(
        name="singular",
        description="three ways to have no motion",
        coordinates=(r, p, q),
        kinematics={
            r: sqrt(r - 0.1) * v,
        },
        velocities=(v,),
        kinetic=(p.rate**2 + q.rate**2 / q + r.rate**2) / 2,
        potential=log(p),
    )
"""
STARTS = {
    "the logarithm of 0": ("p = 0.0, q = 1.0, r = 2.0", "potential=", "p_ddot"),
    "a division by 0": ("p = 1.0, q = 0.0, r = 2.0", "kinetic=", "q_ddot"),
    "the root of a negative number": ("p = 1.0, q = 1.0, r = 0.0", "r: sqrt", "r_dot = nan"),
}


@pytest.mark.parametrize("name", STARTS)
def test_a_start_without_a_finite_motion_is_answered_with_the_line_of_the_expression(
    refused: Refused, name: str
) -> None:
    start, at, rate = STARTS[name]
    launch = LAUNCH.replace("./sled.py:model", "./singular.py:model") + f"initial = {{{start}}}\n"
    text = refused(launch, start="servonode: FILE [plant.initial]: ", singular=SINGULAR)
    line = 1 + SINGULAR[: SINGULAR.index(at)].count("\n")
    assert text.startswith("at this initial state the machine has no finite motion (")
    assert rate in text
    assert f"; singular.py line {line}: a division by zero or the root of a negative number there; correct it" in text


# programs

PROGRAMS = [
    Case(
        "x - share * goal -> x - sympy.Symbol('M') * goal",
        "program reach, residual place: 'M' is neither a state ... known are goal,",
    ),
    Case("condition(x < 100 -> condition(sympy.Symbol('M') < 100", "a guard: 'M' is neither a state"),
    Case("targets=(goal,) -> targets=()", "residual place: 'goal' is neither a state", at="residual("),
    Case('machine["x"] -> machine["X"]', "machine sled has no symbol 'X' ... it has F, m, speed, v, x, y, z, z_dot"),
    Case(
        "x - share * goal -> share - goal",
        "residual place: no velocity of sled moves it ... give a residual that contains a coordinate or a velocity",
    ),
    Case('x - share * goal -> machine["y"] - 2 * x - goal', "residual place: no velocity of sled moves"),
    Case(
        'residuals=(place,) -> residuals=(place, residual("z", machine["z"], "z"))',
        "program reach has 2 servo-constraints for the 1 inputs of sled (F) ... with more they cannot all be realised",
    ),
    Case(
        "residuals=(place,) -> residuals=()",
        "program reach has 0 servo-constraints for the 1 inputs ... complete it with another one",
    ),
    Case(
        'residuals=(place,) -> residuals=(), relations=(machine["F"]**2,)',
        "program reach: the relation F**2 must be ... linear in the inputs, its coefficients free of them; write it so",
    ),
    Case(
        'parameter("share" -> parameter("m"',
        "the name 'm' is used twice, or by machine sled ... rename it in the program",
    ),
    Case('target("goal" -> target("z"', "the name 'z' is used twice, or by machine sled"),
    Case("residuals=(place,) -> residuals=(place, place)", "two residuals are called 'place'", at="residual("),
    Case('guards=(near,) -> inputs={machine["m"]: x}', "m in inputs= was not made by input_(...)"),
    Case(
        "x - share * goal -> x.acceleration - goal",
        "residual place: it contains the acceleration x_ddot ... use only states, rates, parameters and time",
    ),
    Case(
        "    return Program( ->     Program(",
        "program() returned NoneType, not a Program ... end it with return Program(...)",
        at="def program",
    ),
    Case("x - share * goal -> x - share * gaol", "NameError: name 'gaol' is not defined"),
]


@pytest.mark.parametrize("case", PROGRAMS, ids=lambda case: case.edit)
def test_a_bad_program_is_answered_with_its_line_and_the_remedy(refused: Refused, case: Case) -> None:
    bad, line = case.file(PROGRAM)
    text = refused(LAUNCH + REACH, start="servonode: FILE [controller] program: ", reach=bad)
    assert is_answered(text, "reach.py", line, case)


def test_a_parameter_without_a_value_must_be_given(refused: Refused) -> None:
    bad = PROGRAM.replace(", default=1.0)", ")")
    assert bad != PROGRAM
    text = refused(LAUNCH + REACH, start="servonode: FILE [controller.settings] share: ", reach=bad)
    assert text.startswith("is missing: program reach needs it (")


def test_a_residual_on_a_mass_that_no_input_reaches_is_refused_with_its_line(refused: Refused) -> None:
    case = Case('residual("place", x -> residual("place", machine["z"]', "rank: no input (F) reaches ")
    bad, line = case.file(PROGRAM)
    text = refused(LAUNCH + REACH, start="servonode: FILE [controller]: ", reach=bad)
    assert text.startswith("rank: no input (F) reaches derivative 2 of residual place")
    assert text.endswith(f"(stated in reach.py line {line})")


def test_a_program_that_is_not_in_its_file_is_refused_with_those_that_are(refused: Refused) -> None:
    launch = LAUNCH + REACH.replace("py:program", "py:reach")
    text = refused(launch, start="servonode: FILE [controller] program: ")
    assert text == "'./reach.py:reach': reach.py has no function 'reach'; define it with def, or choose program"


# pictures

DRAWN = (
    MACHINE.replace("import sympy\n", "import os\n\nimport sympy\n").replace(
        "velocity\n", "velocity\nfrom servonode.plants.view import View\n", 1
    )
    + """

def outline(state, parameters):
    return [[[state["q"], 0.0]]]


# of the environment, so that the cache does not see it and the machine is compiled once
VIEW = {
    "number": 3,
    "outline": View(outline=outline),
    "trail": View(outline=lambda state, parameters: [], trails={"sled": ("x", "Y")}),
}[os.environ["KIND_OF_VIEW"]]
"""
)
OUTLINE = 1 + DRAWN[: DRAWN.index('state["q"]')].count("\n")
VIEWS = {
    "number": "sled.py: VIEW is not a View; write it as VIEW = View(...)",
    "outline": f"sled.py line {OUTLINE}: KeyError: 'q'; correct this line",
    "trail": "sled.py: VIEW has a trail of 'Y'; choose from x, y, z, v, z_dot, N, speed",
}


@pytest.mark.parametrize("kind", VIEWS)
def test_a_view_that_cannot_be_drawn_is_refused_before_anything_runs(
    refused: Refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("KIND_OF_VIEW", kind)
    words = ("--report", str(tmp_path / "a.png"), "--out", str(tmp_path / "a.csv"))
    assert refused(LAUNCH, *words, start="servonode: ", sled=DRAWN) == VIEWS[kind]
    assert not list(tmp_path.glob("a.[pc]*"))
    assert command("simulate", str(tmp_path / "a.toml"), "--json").exit_code == 0  # without a picture it runs


# wrong kinds

WRONG_KINDS = [
    ("sled", "inputs={F: x.rate}", "inputs=(F,)"),
    ("sled", "requirements=(light,)", "requirements=(m < 100,)"),
    ("sled", "kinetic=kinetic", "kinetic=None"),
    ("sled", "potential=0", "potential=sympy.I * x"),
    ("sled", "potential=0", "potential=sympy.Integral(sympy.exp(-(x**2)), x)"),
    ("reach", "residuals=(place,)", "residuals=(x,)"),
    ("reach", "residuals=(place,)", "residuals=place"),
    ("reach", "guards=(near,)", "guards=(x < 3,)"),
    ("reach", "guards=(near,)", 'inputs={"F": x}'),
]


@pytest.mark.parametrize(("file", "old", "new"), WRONG_KINDS)
def test_what_is_of_a_wrong_kind_is_answered_in_one_line_too(refused: Refused, file: str, old: str, new: str) -> None:
    bad, line = Case(f"{old} -> {new}").file({"sled": MACHINE, "reach": PROGRAM}[file])
    key = {"sled": "[plant] machine", "reach": "[controller] program"}[file]
    text = refused(LAUNCH + REACH * (file == "reach"), start=f"servonode: FILE {key}: ", **{file: bad})
    assert text.startswith(f"{file}.py line {line}: ")


def test_an_edit_between_two_runs_of_one_process_moves_the_named_line(refused: Refused) -> None:
    case = Case("potential=0 -> potential=sympy.Symbol('M') * y", "the potential contains 'M'")
    for above in ("", "# one line more\n\n"):
        bad, line = case.file(above + MACHINE)
        assert is_answered(refused(sled=bad), "sled.py", line, case)
