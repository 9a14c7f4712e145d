"""The shown equations: every symbol occurs, the printed text is right in numbers, the LaTeX compiles."""

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import sympy

from servonode.controllers import Program, keep, residual
from servonode.controllers.engine.servo import Servo, derive_servo
from servonode.export.blocks import Math, Notation
from servonode.export.document import show_latex, show_text
from servonode.export.latex import MathPrinter, escaped, latex_math, latex_name, unit
from servonode.export.text import TextPrinter
from servonode.mechanics import Model, coordinate, input_, wrap
from servonode.mechanics.derive import derive
from servonode.mechanics.description import derivative_name
from servonode.mechanics.equations import Equations
from servonode.mechanics.functions import choose
from servonode.mechanics.machine import Machine
from servonode.mechanics.stabilize import Gains
from tests.helpers.packaged import model_factory

Case = tuple[Equations, Servo | None, Gains | None]
PROGRAMS: dict[str, tuple[str, dict[str, str]]] = {
    "pursuit": ("pursuit", {}),
    "literal": ("pursuit", {"variant": "literal"}),
    "least_norm": ("hitch_angle", {"completion": "least_norm"}),
    "opposed": ("hitch_angle", {"completion": "opposed"}),
    "circle": ("path", {"path": "circle", "far": "soft"}),
}
SMALL = ("bead", "cart_pole", "plate")
MACHINES = ("pursuit", *SMALL)  # one case for each machine: its equations are shown before any program's
WORST = 20.0  # pt that a line may run over


@pytest.fixture(scope="module")
def trailer_equations() -> Equations:
    return derive(model_factory("diff_drive_trailer")())


@pytest.fixture(scope="module")
def cases(trailer_equations: Equations, small: ModuleType) -> dict[str, Case]:
    """Every program of PROGRAMS on the trailer, with its default gains, and the small machines alone."""
    made: dict[str, Case] = {name: (derive(getattr(small, name)()), None, None) for name in SMALL}
    for name, (module, options) in PROGRAMS.items():
        program = import_module(f"servonode.controllers.diff_drive_trailer_{module}").program
        servo = derive_servo(trailer_equations, program(trailer_equations.model, **options))
        rates = [each.quantity.default for each in servo.program.residuals]
        made[name] = trailer_equations, servo, Gains.from_rates(rates, servo.relative_degrees)
    return made


@pytest.fixture(scope="module")
def text_of(cases: dict[str, Case]) -> Callable[[str], str]:
    """The text of a case, made once."""
    return cache(lambda name: show_text(*cases[name]))


every_case = pytest.mark.parametrize("name", [*PROGRAMS, *SMALL])


def printed(text: str) -> dict[str, str]:
    """The equations of a shown text, left -> right, continuation lines joined."""
    found: dict[str, str] = {}
    left = None
    for line in text.splitlines():
        if start := re.match(r"  (\w+(?:\[\d+(?:,\d+)?\])?'*) += (.*)", line):
            left = start[1]
            found[left] = start[2]
        elif left is not None and line.startswith("      "):
            found[left] += " " + line.strip()
        else:
            left = None
    return found


def read(text: str) -> Any:
    """A printed expression as sympy's own."""
    named = re.sub(r"(\w+)('+)", lambda rate: derivative_name(rate[1], len(rate[2])), text)
    functions = {"sin", "cos", "sqrt", "atan", "atan2", "wrap", "Abs", "pi"}
    names = {name: sympy.Symbol(name, real=True) for name in set(re.findall(r"[A-Za-z]\w*", named)) - functions}
    return sympy.sympify(named.replace("^", "**"), locals={**names, "wrap": wrap})


def evaluated(text: str, values: dict[str, float]) -> float:
    """The number of a printed expression."""
    return number(read(text), values)


def number(expression: Any, values: dict[str, float]) -> float:
    numeric = sympy.sympify(expression).subs({symbol: values[symbol.name] for symbol in expression.free_symbols})
    return float(numeric.replace(wrap, lambda angle: (angle + sympy.pi) % (2 * sympy.pi) - sympy.pi).evalf())


def numbers(case: Case, text: str, rng: np.random.Generator) -> dict[str, float]:
    """A random state with its rates, parameters (none is 0), and then what the abbreviations are worth."""
    equations, servo, _ = case
    model = equations.model
    values = {each.name: float(each.quantity.default or 1.3) for each in model.parameters}
    values |= {"t": 0.4} | {each.name: float(rng.uniform(0.2, 0.9)) for each in model.state}
    values |= {each.name: float(rng.uniform(-1, 1)) for each in model.inputs}
    if servo is not None:
        values |= {each.name: float(each.quantity.default or 1.3) for each in servo.program.parameters}
        for each in (*servo.program.targets, *servo.program.signals):
            values |= {each.derivative(n).name: float(rng.uniform(1, 2)) for n in range(4)}
    values |= {rate.name: number(sympy.sympify(way), values) for rate, way in model.rates.items()}
    for name, right in printed(text).items():
        if re.fullmatch(r"s\d+", name):
            values[name] = evaluated(right, values)
    return values


def matrix_of(text: str, name: str, shape: tuple[int, ...], values: dict[str, float]) -> np.ndarray[Any, Any]:
    """The printed entries of a matrix or vector as numbers; those that are not printed are 0."""
    if grid := re.search(rf"^  {name} = (\[.*\](?:\n +\[.*\])*)$", text, re.MULTILINE):
        return np.array([row.strip("[ ]").split() for row in grid[1].splitlines()], dtype=float).reshape(shape)
    matrix = np.zeros(shape)
    for left, right in printed(text).items():
        if place := re.fullmatch(rf"{name}\[([\d,]+)\]", left):
            matrix[tuple(int(each) - 1 for each in place[1].split(","))] = evaluated(right, values)
    return matrix


def machine_of(case: Case, small: ModuleType, trailer: Machine, values: dict[str, float]) -> Machine:
    """The compiled machine with the parameters of `values`."""
    model = case[0].model
    machine: Machine = small.machine(getattr(small, model.name)) if model.name in SMALL else trailer
    return machine.with_parameters({each.name: values[each.name] for each in model.parameters})


def symmetric(lower: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.asarray(lower + np.tril(lower, -1).T)


@every_case
def test_every_symbol_occurs_and_no_line_of_the_text_is_too_long(
    name: str, cases: dict[str, Case], text_of: Callable[[str], str]
) -> None:
    (equations, servo, _), text = cases[name], text_of(name)
    symbols = {each.name for each in equations.model.symbols} | {
        each.quantity.name for each in equations.model.constraints
    }
    if servo is not None:
        program = servo.program
        symbols |= {each.name for each in (*program.parameters, *program.targets, *program.signals)}
    assert symbols <= set(re.findall(r"\w+", text))
    assert max(map(len, text.splitlines())) <= 100
    assert "_dot" not in text
    assert "**" not in text


@pytest.mark.parametrize("name", MACHINES)
def test_the_printed_machine_moves_as_the_kernel_does(
    name: str,
    cases: dict[str, Case],
    small: ModuleType,
    trailer: Machine,
    rng: np.random.Generator,
    text_of: Callable[[str], str],
) -> None:
    equations, text = cases[name][0], text_of(name)
    model, values, shown = equations.model, numbers(cases[name], text, rng), printed(text)
    machine = machine_of(cases[name], small, trailer, values)
    state = np.array([*(values[each.name] for each in model.state), 0.0])
    inputs = [values[each.name] for each in model.inputs]
    rates = machine.derivatives(values["t"], state, np.array(inputs))
    v_dot = [rates[model.state.index(each)] for each in model.velocities]
    n_v, n_tau = equations.B_r.shape
    M_r = symmetric(matrix_of(text, "M_r", (n_v, n_v), values))
    h_r, B_r = matrix_of(text, "h_r", (n_v,), values), matrix_of(text, "B_r", (n_v, n_tau), values)
    assert M_r @ v_dot + h_r == pytest.approx(B_r @ inputs, rel=1e-11, abs=1e-12)
    assert M_r.ravel() == pytest.approx([number(entry, values) for entry in equations.M_r], rel=1e-12)
    assert h_r == pytest.approx([number(entry, values) for entry in equations.h_r], rel=1e-12, abs=1e-13)
    if model.constraints:
        kernel = machine.matrices(values["t"], state)
        assert symmetric(matrix_of(text, "M", kernel.M.shape, values)) == pytest.approx(kernel.M, rel=1e-12)
        assert matrix_of(text, "h", kernel.h.shape, values) == pytest.approx(kernel.h, rel=1e-11, abs=1e-13)
        assert matrix_of(text, "gamma", kernel.gamma.shape, values) == pytest.approx(kernel.gamma, rel=1e-11, abs=1e-13)
    else:
        assert "M[1,1]" not in text
    for each in model.constraints:
        row = re.search(rf"^  {each.multiplier.name}: +(.*) = (.*)$", text, re.MULTILINE)
        assert row is not None
        assert evaluated(row[1], values) == pytest.approx(evaluated(row[2], values), abs=1e-12)
    values |= {v.rate.name: float(rng.uniform(-1, 1)) for v in model.velocities}
    power = evaluated(shown["P"], values) - evaluated(shown["D"], values) + evaluated(shown.get("E", "0"), values)
    assert power == pytest.approx(number(equations.power, values), rel=1e-12)
    assert evaluated(shown["T"], values) == pytest.approx(number(equations.kinetic, values), rel=1e-12)
    assert evaluated(shown["U"], values) == pytest.approx(number(equations.potential, values), rel=1e-12)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_printed_law_is_that_of_the_program(
    name: str, cases: dict[str, Case], rng: np.random.Generator, text_of: Callable[[str], str]
) -> None:
    equations, servo, _ = cases[name]
    assert servo is not None
    text = text_of(name)
    values, shown = numbers(cases[name], text, rng), printed(text)
    for i, f in enumerate(servo.f):
        assert evaluated(shown[f"f{i + 1}"], values) == pytest.approx(number(f, values), rel=1e-12)
    if servo.program.inputs:
        for u, stated in servo.program.inputs.items():
            assert evaluated(shown[u.name], values) == pytest.approx(number(stated, values), rel=1e-11)
        return
    for i, relative_degree in enumerate(servo.relative_degrees):
        if relative_degree == 2:
            assert evaluated(shown[f"f{i + 1}'"], values) == pytest.approx(number(servo.f_dot[i], values), rel=1e-11)
    J, M_r, B_r = (
        np.array([number(entry, values) for entry in each]).reshape(each.shape)
        for each in (servo.J, equations.M_r, equations.B_r)
    )
    assert matrix_of(text, "J", J.shape, values) == pytest.approx(J, rel=1e-11)
    delta = [number(entry, values) for entry in servo.delta]
    assert matrix_of(text, "delta", (len(delta),), values) == pytest.approx(delta, rel=1e-10)
    if name != "circle":  # whose W is so long that it is shown by its factors
        W = J @ np.linalg.solve(M_r, B_r)
        assert matrix_of(text, "W", W.shape, values) == pytest.approx(W, rel=1e-12)


def test_a_coupled_mass_matrix_is_inverted_in_the_printed_input_matrix(
    small: ModuleType, rng: np.random.Generator
) -> None:
    from servonode.controllers.engine.program import Program, residual

    model = small.cart_pole()
    equations = derive(model)
    servo = derive_servo(equations, Program("swing", "the pole stands", [residual("pole", model["theta"], "angle")]))
    case = equations, servo, None
    text = show_text(*case)
    values = numbers(case, text, rng)
    M_r = np.array([number(entry, values) for entry in equations.M_r]).reshape(2, 2)
    assert matrix_of(text, "W", (1, 1), values)[0, 0] == pytest.approx(np.linalg.inv(M_r)[1, 0], rel=1e-12)


def test_gains_stand_in_the_text_as_rows_of_numbers(text_of: Callable[[str], str]) -> None:
    assert "K0 = [2  0]\n       [0  4]\n\n  K1 = [0  0]\n       [0  4]" in text_of("pursuit")


def groups(latex: str) -> Iterator[str]:
    """What opens and closes in LaTeX: braces, environments, growing parentheses."""
    for found in re.finditer(r"\\(begin|end)\{(\w+\*?)\}|\\(left|right)\b|(?<!\\)([{}])", latex):
        if found[1]:
            yield f"{found[1]} {found[2]}"
        else:
            yield {"left": "begin (", "right": "end (", "{": "begin {", "}": "end {"}[found[3] or found[4]]


@every_case
@pytest.mark.slow
def test_the_latex_is_well_formed_compiles_and_nothing_runs_off_the_page(
    name: str, cases: dict[str, Case], tmp_path: Path
) -> None:
    latex = show_latex(*cases[name])
    open_: list[str] = []
    for group in groups(latex):
        kind, _, what = group.partition(" ")
        if kind == "begin":
            open_.append(what)
        else:
            assert open_.pop() == what
    assert not open_
    words = re.sub(
        r"\\begin\{(align|gather)\*\}.*?\\end\{\1\*\}|\\\[.*?\\\]|(?<!\\)\$.*?\$", "", latex, flags=re.DOTALL
    )
    assert not re.search(r"(?<!\\)[_^]", words)
    compiles(latex, tmp_path)


def test_latex_to_include_is_the_document_without_its_frame(cases: dict[str, Case]) -> None:
    whole, part = (show_latex(*cases["plate"], standalone=standalone) for standalone in (True, False))
    assert r"\documentclass{article}" in whole
    assert r"\documentclass" not in part
    assert part.partition("\n")[2].strip() in whole  # its first line says what it needs


@pytest.mark.parametrize(
    ("name", "order", "latex"),
    [
        ("phi", 0, r"\varphi"), ("Omega", 0, r"\Omega"), ("theta1", 1, r"\dot{\theta}_{1}"), ("x", 2, r"\ddot{x}"),
        ("g", 4, "{g^{(4)}}"), ("c_w", 0, "c_{w}"), ("Iky", 0, "I_{ky}"), ("m1", 0, "m_{1}"),
        ("rho_min", 0, r"\rho_{\mathrm{min}}"), ("k_phi", 0, r"k_{\varphi}"),
        ("point_0", 0, r"\mathrm{point}_{0}"), ("direction", 0, r"\mathrm{direction}"),
    ],
)  # fmt: skip
def test_a_name_becomes_a_letter_with_subscripts(name: str, order: int, latex: str) -> None:
    assert latex_name(name, order) == latex


def test_a_formula_in_text_becomes_latex_mathematics() -> None:
    assert latex_math(Math("M q'' + h = A^T Lambda")) == r"M \ddot{q} + h = A^{T} \Lambda"
    assert latex_math(Math("(d/dt + 2)^3 f1 = f1^(5) - KI int f dt")) == (
        r"(d/dt + 2)^{3} f_{1} = f_{1}^{(5)} - K_I \int f dt"
    )
    assert latex_math(Math("M_r[2,1]")) == "(M_{r})_{2,1}"


def test_words_and_units_are_made_harmless() -> None:
    assert escaped('50 % of a_slip & "more" of `x`') == r"50 \% of a\_slip \& ``more'' of \texttt{x}"
    assert unit("kg m^2") == r"$\mathrm{kg\,m^{2}}$"
    assert unit("1") == "--"


def test_text_is_on_one_line_with_powers_primes_and_short_numbers(trailer_equations: Equations) -> None:
    model = trailer_equations.model
    printer = TextPrinter(Notation(trailer_equations, None))
    m2, b, phi, V = (model[name] for name in ("m2", "b", "phi", "V"))
    assert printer.doprint(sympy.sin(phi) ** 2 * phi.rate**2 * b * m2 / 2) == "b*m2*phi'^2*sin(phi)^2/2"
    assert printer.doprint(-(b**2) / (m2 * sympy.sqrt(V))) == "-b^2/(m2*sqrt(V))"
    assert printer.doprint(-1.5 * m2 * V) == "-1.5*m2*V"


def test_latex_of_functions_keeps_brackets_and_powers(trailer_equations: Equations) -> None:
    printer = MathPrinter(Notation(trailer_equations, None))
    phi, V = (trailer_equations.model[name] for name in ("phi", "V"))
    assert printer.doprint(wrap(2 * phi)) == r"\operatorname{wrap}\left(2 \varphi\right)"
    assert printer.doprint(V * wrap(phi) ** 2) == r"V \operatorname{wrap}^{2}\left(\varphi\right)"
    assert printer.doprint(choose(V, V, 0) ** 2) == (
        r"\left(\begin{cases} V & V \ge 0 \\ 0 & \text{else} \end{cases}\right)^{2}"
    )


def compiles(latex: str, folder: Path) -> None:
    """pdflatex takes it, and no line runs off the page; skipped where there is no pdflatex."""
    if shutil.which("pdflatex") is None:
        pytest.skip("pdflatex is not installed")
    (folder / "shown.tex").write_text(latex)
    command = ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", "shown.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False, timeout=60)
    log = (folder / "shown.log").read_text(errors="replace")
    assert done.returncode == 0, log[-2000:]
    assert all(float(over) <= WORST for over in re.findall(r"Overfull \\hbox \(([\d.]+)pt", log))


@pytest.mark.parametrize(
    ("machine", "options", "shown"),
    [
        ("hoop_on_profile", {}, ["M_r v' + h_r = B_r tau + N_r N", "contact:", "alpha' = U", "Reactions N"]),
        ("ball_on_turntable", {}, ["slip_x:", "norm of q"]),
        ("ball_on_turntable", {"scheme": "angles", "bypass": "skip"}, ["Jumps", "before_beta"]),
    ],
)
def test_reactions_and_jumps_are_shown(machine: str, options: dict[str, str], shown: list[str], tmp_path: Path) -> None:
    case = derive(model_factory(machine)(**options)), None, None
    text = show_text(*case)
    assert all(each in text for each in shown), text
    compiles(show_latex(*case), tmp_path)


def test_what_is_kept_is_shown_with_its_relative_degree_and_its_inequality() -> None:
    x, F = coordinate("x", "place", "m"), input_("F", "force", "N")
    equations = derive(Model("cart", "a cart", x.rate**2 / 2, coordinates=(x,), inputs={F: x.rate}))
    keeps = [
        keep("track", sympy.Min(3 - x, x + 1), "both ends", "m"),
        keep("fast", 2 - x.rate, "a speed", "m/s"),
        keep("pull", 5 - F, "a force", "N"),
    ]
    goal = residual("place", x - 2, "place", "m")
    program = Program(name="to", description="to 2", residuals=(goal,), keep=keeps)
    servo = derive_servo(equations, program, limited=True)
    text = " ".join(show_text(equations, servo, None).split())
    assert "h1 track: both ends [m] 2 h2 fast: a speed [m/s] 1 h3 pull: a force [N] 0 " in text
    assert "h1 = min(3 - x, x + 1) >= 0 h2 = 2 - x' >= 0 h3 = 5 - F >= 0" in text
    rows = "h >= 0 h' + k h >= 0 h'' + 2 k h' + k^2 h >= 0 with the rate k of each"
    assert f"the nearest to those above that keep the limits of the inputs and {rows}" in text
    latex = show_latex(equations, servo, None)
    assert r"h_{2} &= 2 - \dot{x} \ge 0" in latex
    assert r"\ddot{h} + 2 k \dot{h} + k^{2} h \ge 0" in latex
    bare = derive_servo(equations, Program(name="to", description="to 2", residuals=(goal,)), limited=True)
    assert "that keep the limits of the inputs. " in " ".join(show_text(equations, bare, None).split()) + " "
