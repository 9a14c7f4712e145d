"""The functions of a C file around the kernels: safe action, limits, goal, and the controller that joins them.

They do what `nodes/guard.py` and `nodes/controller_node.py` do, operation by operation: the tests hold their
bits against them. The limits are those of `kernels/lib/limits.py`.
"""

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf

import numpy as np

from servonode.controllers.engine import layout
from servonode.controllers.engine.kernels import SignalsKernel
from servonode.controllers.engine.signals import Signals
from servonode.definitions.cache import text_of
from servonode.export.c_export import Exported
from servonode.export.c_parts import argument, array
from servonode.kernels.c99 import WIDTH, Translation, c_number, function_names, translate
from servonode.kernels.language import parse
from servonode.kernels.library import library_text
from servonode.mechanics.kernels import MachineKernel, Signature
from servonode.plants.effect_kernels import effect_sizes
from servonode.plants.limits import SoftStart

# C texts of the functions, in parts that are put together

CLAMPED = """\
static double clamped(double value, double least, double most)
{
    const double above = least > value ? least : value;
    return most < above ? most : above;
}"""

SAFE = """\
    int i, finite = 1;
{inputs}
    for (i = 0; i < SERVONODE_N_INPUTS; i++)
        finite = finite && isfinite(u[i]);
    for (i = 0; i < SERVONODE_N_INPUTS; i++)
        u[i] = clamped(finite ? u[i] : 0.0, -most_input[i], most_input[i]);
"""
NO_SAFE_ACTION = """\
    (void)t;
    (void)x;
    for (i = 0; i < SERVONODE_N_INPUTS; i++)
        u[i] = 0.0;"""

LIMIT = """\
    double asked[SERVONODE_N_INPUTS], rates[SERVONODE_N_INPUTS] = {{0}};
    long long counts[{counts}] = {{0}};
    int i, changed = 0;
    {rates}
    for (i = 0; i < SERVONODE_N_INPUTS; i++)
        asked[i] = u[i];
    if ({limit}(u, before, {elapsed}, most_input, {power}, rates, counts) >= 0) {{
        {safe}(t, x, u);
        return -2;
    }}
    for (i = 0; i < SERVONODE_N_INPUTS; i++)
        changed = changed || u[i] != asked[i];
    return changed;
"""

LATE = """\
/* Scale inputs that have waited, so that their power at the state x is within the limit. */
static void limit_late(double t, const double *x, double *u)
{{
    double rates[SERVONODE_N_INPUTS];
    long long counts[{counts}] = {{0}};
    {rates}
    limit_power(u, {power}, rates, counts);
}}"""

CONSTANTS = """\
    for (i = 0; i < {n}; i++)
        y[{first} + i] = {values}[i];
"""

START = """\
    static const struct {prefix}_controller begun = {{0}};
    *self = begun;
"""
INITIAL_STATES = """\
    for (i = 0; i < {memory}; i++)
        self->memory[i] = law_memory[i];
    for (i = 0; i < {own}; i++)
        self->y[{first} + i] = law_memory[i];
"""

UPDATE = """\
    int i, status = self->status;
    for (i = 0; i < SERVONODE_N_STATE; i++)
        status = status == 0 && !isfinite(x[i]) ? -2 : status;
{goal}
    if (status == 0) {{
{follow}
        status = {law};{crossing}{unsolved}
    }}
    for (i = 0; i < SERVONODE_N_INPUTS; i++)
        u[i] = self->out[i];
{soft}
    if (status == 0 && {prefix}_limit(t, x, self->newest, u) < 0)
        status = -2;
    self->status = status;
    if (status != 0) {{
        {prefix}_safe(t, x, u);
        return status;
    }}
{integrals}
{act}
    return 0;
"""
GOAL = """\
    for (i = 0; i < SERVONODE_N_GOAL; i++) {
        self->y[i] = y[i];
        status = status == 0 && !isfinite(y[i]) ? -2 : status;
    }"""
NO_GOAL = "    (void)y;"
FOLLOW = """\
        const double passed = self->begun ? t - self->followed : 0.0;
        {follow};
        self->followed = t;
        self->begun = 1;"""
CROSSING = """
        if (status == 0 && self->out[{at}]*self->determinant < 0.0)
            status = -3; /* det W has changed its sign since the last update: it was 0 between */
        self->determinant = self->out[{at}];"""
CLIPPED = """
        self->clipped = status == 0 && self->out[{at}] == {clipped} ? self->clipped + 1 : 0;
        if (self->clipped > {most})
            status = {status}; /* inputs that keep all were sought in vain for too long */"""
SOFT_START = """\
    self->passed += self->passed <= {longest};{ramp}{arming}"""
RAMP = """
    if (self->passed < {ramp}) {{
        const double share = (double)self->passed/{ramp};
        for (i = 0; i < SERVONODE_N_INPUTS; i++)
            u[i] *= share*share;
    }}"""
ARMING = """
    for (i = 0; i < SERVONODE_N_INPUTS && self->passed <= {periods}; i++)
        u[i] = clamped(u[i], -most_arming[i], most_arming[i]);"""
INTEGRALS = """\
    for (i = 0; i < SERVONODE_N_RESIDUALS; i++)
        self->y[{first} + i] += SERVONODE_PERIOD_S*self->out[SERVONODE_N_INPUTS + i];"""
AT_ONCE = """\
    for (i = 0; i < SERVONODE_N_INPUTS; i++)
        self->newest[i] = u[i];"""
LATER = """\
    for (i = 0; i < SERVONODE_N_INPUTS; i++) {
        self->newest[i] = u[i];
        u[i] = self->waiting[self->oldest][i];
        self->waiting[self->oldest][i] = self->newest[i];
    }
    self->oldest = (self->oldest + 1)%SERVONODE_DELAY;"""
POWER_AGAIN = "\n    limit_late(t, x, u); /* the machine has moved on since they were decided */"


@dataclass(frozen=True)
class Function:
    """A public function in C. word: SERVONODE_word is its macro; does: for people; code: with its helpers."""

    word: str
    prototype: str
    does: str
    code: str

    @classmethod
    def of(cls, word: str, prototype: str, does: str, body: str, *helpers: str) -> "Function":
        """With a body, whose empty lines are left out, and what it stands on."""
        lines = "\n".join(line for line in body.splitlines() if line.strip())
        prototype = "\n".join(textwrap.wrap(prototype, WIDTH, subsequent_indent="    "))
        return cls(word, prototype, does, "\n\n".join([*helpers, f"{prototype}\n{{\n{lines}\n}}"]))


def around(e: Exported, prefix: str, functions: Mapping[str, str]) -> Iterator[Function]:
    """Safe action and limits of a machine with inputs, then goal, start and update of its controller.

    functions: C texts of the calls of `law` and, if the program has states of its own, `follow`.
    """
    if not e.machine.n_inputs:
        return
    yield _safe(e, prefix)
    yield _limit(e, prefix)
    if e.law is None:
        return
    yield _goal(e, prefix)
    yield _start(e, prefix)
    yield _update(e, prefix, functions)


def _of_machine(e: Exported, function: str, out: str) -> tuple[str, str]:
    """A function of the machine's kernel in C with all it calls, and its call, whose result goes to `out`."""
    module, signature = parse(text_of(e.machine.kernel.__name__), text_of), Signature.of(MachineKernel, function)
    found = translate(module, function, {each: f"{function}_{each}" for each in function_names(module)})
    held = {"c": argument("plant_c", e.machine.c), "out": out}
    texts = [held.get(each.name, each.name) for each in signature.arguments]
    return found.text.rstrip(), f"{found.name}({', '.join(texts)});"


def _safe(e: Exported, prefix: str) -> Function:
    helpers, stated = [CLAMPED], e.machine.description.has_safe_action
    most = {"": np.array(e.limits.value)}
    if min(e.limits.rate) < inf:
        most["fastest change of each, per s"] = np.array(e.limits.rate)
    helpers += array("most_input", "largest magnitude of each input", most)
    inputs = NO_SAFE_ACTION
    if stated:
        kernel, call = _of_machine(e, "safe_input", "u")
        helpers, inputs = [*helpers, kernel], f"    {call}"
    what = "the machine's own" if stated else "zero, for the machine defines none"
    does = f"The safe action at the time t [s] and the state x into u: {what}, within the limits; zero if not finite."
    prototype = f"void {prefix}_safe(double t, const double *x, double *u)"
    return Function.of("SAFE", prototype, does, SAFE.format(inputs=inputs), *helpers)


def _limit(e: Exported, prefix: str) -> Function:
    """The limits of `kernels/lib/limits.py`, which guard and simulated plant call too."""
    slewed, powered, helpers, rates = min(e.limits.rate) < inf, e.limits.power < inf, [], ""
    sizes = effect_sizes(e.machine.n_state, e.machine.n_inputs) | {"bounded": 1 + slewed}
    module = parse(library_text("limits", {}, sizes | {"slewed": slewed, "powered": powered}))
    names = {each: f"limit_{each}" for each in function_names(module)} | {"limit_power": "limit_power"}
    found = translate(module, "limit", names | {"limit": "limit_inputs"})
    if powered:
        kernel, rates = _of_machine(e, "input_rates", "rates")
        helpers.append(kernel)
    helpers.append(found.text.rstrip())
    given = {"counts": sizes["n_counts"], "rates": rates, "power": c_number(e.limits.power)}
    if powered and e.delay:
        helpers.append(LATE.format(**given))
    elapsed = "SERVONODE_PERIOD_S" if e.period_s else "0.0"
    body = LIMIT.format(safe=f"{prefix}_safe", limit=found.name, elapsed=elapsed, **given)
    kinds = ", ".join(["value", *["rate"] * slewed, *["power"] * powered])
    does = (
        f"Limit the inputs u in place ({kinds}) at the state x; before: its result of the period before, zero at first."
        " Returns 0: u is as it was; 1: u is limited; -2: u or before is not finite, and u is now the safe action."
    )
    prototype = f"int {prefix}_limit(double t, const double *x, const double *before, double *u)"
    return Function.of("LIMIT", prototype, does, body, *helpers)


def _goal(e: Exported, prefix: str) -> Function:
    assert e.law is not None
    part, helpers, lines = e.law.goal_layout, [], ["    int i;", "    (void)t;"]
    for name, signals, first in (("target", e.targets, part.targets.start), ("signal", e.signals, part.signals.start)):
        if not signals.entries:
            continue
        if signals.kernel is None:
            helpers += array(f"{name}_values", f"constant {name}s", {"": signals.table(np.zeros(1))[0]})
            lines.append(CONSTANTS.format(n=len(signals.entries), first=first, values=f"{name}_values"))
        else:
            found, pieces = _translated(signals, name), f"{name}_pieces"
            helpers += array(pieces, f"times and coefficients of {name}s that are curves", {"": signals.pieces})
            helpers.append(found.text.rstrip())
            given = f"{pieces}, " if signals.pieces.size else ""
            lines.append(f"    {found.name}(t, {given}y + {first});")
    if not any("i++" in each for each in lines):
        del lines[0]
    lines += [] if e.n_goal else ["    (void)y;"]
    does = "The launch file's own targets and signals at the time t [s] into y, SERVONODE_N_GOAL entries."
    return Function.of("GOAL", f"void {prefix}_goal(double t, double *y)", does, "\n".join(lines), *helpers)


def _translated(signals: Signals, name: str) -> Translation:
    assert signals.kernel is not None
    module, entry = parse(text_of(signals.kernel.__name__), text_of), Signature.of(SignalsKernel, "signals").name
    names = {each: f"{name}_{each}" for each in function_names(module)} | {entry: f"{name}s_at"}
    return translate(module, entry, names)


def struct(e: Exported, prefix: str) -> str:
    """The struct of what a controller keeps between two updates; it belongs to the caller."""
    assert e.law is not None
    entries = {
        "int status": "0, or what has stopped it until the next start",
        "double newest[SERVONODE_N_INPUTS]": "decided last; rates are counted from it",
        "double out[SERVONODE_N_OUT]": "newest result of the law",
    }
    if e.law.goal_layout.size:
        entries["double y[SERVONODE_N_Y]"] = "goal, with the program's own states and integrals"
    if e.delay:
        entries["double waiting[SERVONODE_DELAY][SERVONODE_N_INPUTS]"] = "decided, not acting yet"
        entries["int oldest"] = "of those that wait: it acts next"
    if e.soft_start:
        entries["int passed"] = "periods since the start, as long as inputs grow"
    if e.law.description.tells_crossings:
        entries["double determinant"] = "of W at the last update, 0 before the first"
    if e.law.description.keeping:
        entries["int clipped"] = "periods in a row for which inputs that keep all were sought in vain"
    if e.law.description.states:
        entries[f"double memory[{len(e.law.memory())}]"] = "the program's own states, then their rates"
        entries["double followed"] = "time of these [s]"
        entries["int begun"] = "whether there was an update"
    lines = "\n".join(f"    {declared}; /* {words} */" for declared, words in entries.items())
    return f"/* What a controller keeps between its updates. */\nstruct {prefix}_controller {{\n{lines}\n}};"


def _start(e: Exported, prefix: str) -> Function:
    assert e.law is not None
    memory, own, body = e.law.memory(), e.law.description.states, START.format(prefix=prefix)
    if own:
        first = e.law.goal_layout.states.start
        body = f"    int i;\n{body}{INITIAL_STATES.format(memory=len(memory), own=len(own), first=first)}"
    helpers = array("law_memory", "the program's own states at the start, then their rates", {"": memory})
    prototype = f"void {prefix}_controller_start(struct {prefix}_controller *self)"
    does = "Begin again, before the first update and after each arming: no fault, no integrals, nothing waits to act."
    return Function.of("CONTROLLER_START", prototype, does, body, *helpers)


def _update(e: Exported, prefix: str, functions: Mapping[str, str]) -> Function:
    assert e.law is not None
    crossings, answer = e.law.description.tells_crossings, e.law.answer_layout
    body = UPDATE.format(
        prefix=prefix,
        goal=GOAL if e.n_goal else NO_GOAL,
        law=functions["law"],
        crossing=CROSSING.format(at=answer.determinant.start) if crossings else "",
        unsolved=CLIPPED.format(at=answer.keeping.start, clipped=layout.CLIPPED, most=e.clipped, status=layout.UNSOLVED)
        if e.law.description.keeping
        else "",
        soft=_soft(e.soft_start) if e.soft_start else "",
        follow=FOLLOW.format(follow=functions["follow"]) if e.law.description.states else "",
        integrals=INTEGRALS.format(first=e.law.goal_layout.integrals.start) if e.law.description.integral else "",
        act=LATER + POWER_AGAIN * (e.limits.power < inf) if e.delay else AT_ONCE,
    )
    acts = f"that act from now on, decided {e.delay} periods ago" if e.delay else "that act from now on"
    does = (
        "Each period, at the time t [s] with the measured state x and the goal y (SERVONODE_N_GOAL entries): the "
        f"inputs u {acts}. Returns the law's status, or -2 where x or y is not finite; if it is not 0, u is the safe "
        "action, and so at each update until the next start."
    )
    arming = e.soft_start.limits.value if e.soft_start and e.soft_start.periods else ()
    helpers = array("most_arming", "largest magnitude after a start", {"": np.array(arming)})
    head = f"int {prefix}_controller_update(struct {prefix}_controller *self, double t, const double *x, "
    return Function.of("CONTROLLER_UPDATE", f"{head}const double *y, double *u)", does, body, *helpers)


def _soft(soft: SoftStart) -> str:
    """The inputs grow after a start, and other limits hold for a while."""
    return SOFT_START.format(
        longest=max(soft.ramp, soft.periods),
        ramp=RAMP.format(ramp=soft.ramp) if soft.ramp else "",
        arming=ARMING.format(periods=soft.periods) if soft.periods else "",
    )
