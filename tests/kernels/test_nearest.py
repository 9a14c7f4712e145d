"""The solver of goals with limits: the inputs nearest to those of a law that keep what must be kept."""

import base64
import ctypes
import functools
import json
import math
import shutil
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from scipy.optimize import linprog, nnls

from servonode.kernels.build import built
from servonode.kernels.c99 import translate
from servonode.kernels.language import parse
from servonode.kernels.library import library_text, numbers_of
from servonode.kernels.native import Kernel
from servonode.kernels.wasm import wasm_module
from tests.helpers.extras import oracle

Array = npt.NDArray[np.float64]
NUMBERS = numbers_of("nearest")
FREE = np.inf
EXACT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


def text_for(n_tau: int, n_goals: int, n_rows: int) -> str:
    return library_text("nearest", {}, {"n_tau": n_tau, "n_goals": n_goals, "n_rows": n_rows})


@functools.cache
def kernel(n_tau: int, n_goals: int, n_rows: int) -> Any:
    text = text_for(n_tau, n_goals, n_rows)
    return Kernel("nearest", text, *built(text, {}.__getitem__))


def nearest(tau: Array, A: Array, b: Array, **stated: Any) -> tuple[int, Array, Array]:
    """The status, the inputs, and what each row does."""
    n, goals = len(tau), np.array(stated.get("goals", np.zeros((0, len(tau)))))
    tau, acts = np.array(tau, float), np.full(len(b), 7.0)
    given = {"lower": np.full(n, -FREE), "upper": np.full(n, FREE), "levels": np.ones(len(goals)), "shares": np.ones(n)}
    given |= {"ranks": np.ones(len(b))} | stated
    lower, upper, levels, shares, ranks = (np.array(given[name], float) for name in given if name != "goals")
    status = kernel(n, len(goals), len(b)).nearest(tau, lower, upper, goals, levels, shares, A, b, ranks, acts)
    return status, tau, acts


def test_inputs_that_keep_everything_are_left_bit_by_bit() -> None:
    status, tau, acts = nearest([0.1, -0.0], np.eye(2), np.array([0.1, -1.0]), lower=[0.1, -1.0])
    assert status == NUMBERS["KEPT_AS_IT_WAS"]
    assert tau.tobytes() == np.array([0.1, -0.0]).tobytes()
    assert acts.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("by_row", [False, True])
def test_a_long_way_for_hardly_anything_of_a_goal_ends_at_what_is_kept(by_row: bool) -> None:
    slope, end = 1e-6, 15.0  # the goal sees the first input; it gains a millionth of what the second moves
    A, b = np.array([[-1.0, slope], [0.0, -1.0]]), np.array([1e-3, -end if by_row else -99.0])
    upper = [9.0, 99.0 if by_row else end]
    status, tau, _ = nearest([0.0, 0.0], A, b, goals=[[1.0, 0.0]], lower=[-9.0, -99.0], upper=upper)
    assert status == NUMBERS["ACTS"]
    assert (A @ tau - b >= -1e-12 * np.abs(b)).all()
    np.testing.assert_allclose(tau, [slope * end - 1e-3, end], rtol=1e-9)


def test_what_is_free_is_shared_by_weight() -> None:
    status, tau, acts = nearest([1.0, 2.0], np.ones((1, 2)), np.array([4.0]), shares=[1.0, 3.0])
    assert status == NUMBERS["ACTS"]
    np.testing.assert_allclose(tau, [1.75, 2.25], rtol=1e-14)
    assert acts.tolist() == [1.0]


def test_limits_alone_need_no_rows() -> None:
    status, tau, _ = nearest([1.0, 2.0], np.zeros((0, 2)), np.zeros(0), upper=[9.0, 1.5], goals=np.ones((1, 2)))
    assert status == NUMBERS["ACTS"]
    np.testing.assert_allclose(tau, [1.5, 1.5], rtol=1e-14)


def test_what_is_not_finite_clips() -> None:
    status, tau, _ = nearest([np.nan, 2.0], np.zeros((0, 2)), np.zeros(0), lower=[0.5, 0.0], upper=[9.0, 1.5])
    assert status == NUMBERS["CLIPPED"]
    assert tau.tolist() == [0.5, 1.5]


class Problem(NamedTuple):
    """The arguments of `nearest`, as they are given."""

    tau: Array
    lower: Array
    upper: Array
    goals: Array
    levels: Array
    shares: Array
    A: Array
    b: Array
    ranks: Array

    def solved(self) -> tuple[int, Array, Array]:
        tau, acts = self.tau.copy(), np.zeros(len(self.b))
        found = kernel(len(tau), len(self.goals), len(self.b)).nearest(tau, *self[1:], acts)
        return found, tau, acts

    def rows(self) -> tuple[Array, Array]:
        """Rows and limits together, each of length 1."""
        eye, low, high = np.eye(len(self.tau)), np.isfinite(self.lower), np.isfinite(self.upper)
        C = np.vstack([self.A, eye[low], -eye[high]])
        h = np.concatenate([self.b, self.lower[low], -self.upper[high]])
        size = np.linalg.norm(C, axis=1)
        return C / size[:, None], h / size


def drawn(rng: np.random.Generator, n: int, n_goals: int, n_rows: int, kind: str = "") -> Problem:
    """A random problem that can be kept, but where the kind says `none`; goals of condition at most 30."""
    inside = rng.normal(size=n)
    A = rng.normal(size=(n_rows, n))
    if kind == "repeated":
        A[n_rows // 2 :] = A[: n_rows - n_rows // 2] * rng.uniform(0.1, 10.0)
    b = A @ inside - rng.exponential(size=n_rows) * (kind != "degenerate")
    if kind == "none":
        b = A @ inside + rng.normal(size=n_rows)
    lower = np.where(rng.random(n) < 0.5, inside - rng.exponential(size=n), -FREE)
    upper = np.where(rng.random(n) < 0.5, inside + rng.exponential(size=n), FREE)
    U, _, V = np.linalg.svd(rng.normal(size=(n_goals, n)), full_matrices=False)
    goals = np.ascontiguousarray((U * 30.0 ** -rng.random(min(n, n_goals))) @ V)
    ranks = rng.integers(1, 4, n_rows).astype(float)
    tau, shares = 3.0 * rng.normal(size=n), 10.0 ** rng.uniform(-1.0, 1.0, n)
    return Problem(tau, lower, upper, goals, np.ones(n_goals), shares, A, b, ranks)


def least(given: Problem, H: Array, f: Array, equal: Array, to: Array) -> Array | None:
    """Least x H x / 2 + f x by DAQP with rows, limits and equations; None where it finds none."""
    C, h = given.rows()
    senses = np.array([0] * len(h) + [5] * len(to), np.int32)
    C, low = np.ascontiguousarray(np.vstack([C, equal])), np.concatenate([h, to])
    high = np.concatenate([np.full(len(h), 1e30), to])
    x, _, flag, _ = oracle("daqp").solve(H, f, C, high, low, senses, primal_tol=1e-12, dual_tol=1e-13)
    return x if flag > 0 else None


def agree_with_daqp(rng: np.random.Generator, count: int) -> None:
    shapes = [(6, 6, 4), (7, 7, 12), (6, 0, 4), (3, 0, 8), (7, 0, 40)]
    kinds = ["", "degenerate", "repeated", ""]
    for i in range(count):
        given = drawn(rng, *shapes[i % 5], kinds[i % 4])
        status, tau, _ = given.solved()
        assert status in (NUMBERS["KEPT_AS_IT_WAS"], NUMBERS["ACTS"])
        H = given.goals.T @ given.goals if len(given.goals) else np.diag(given.shares)
        wanted = least(given, H, -H @ given.tau, np.zeros((0, len(tau))), np.zeros(0))
        if wanted is not None:  # of degenerate problems it takes some for impossible
            assert np.max(np.abs(tau - wanted)) <= 1e-9 * max(1.0, np.max(np.abs(wanted))), (i, tau - wanted)
        else:
            assert kinds[i % 4], i
            C, h = given.rows()
            assert np.min(C @ tau - h) >= -1e-9


def test_random_problems_have_the_answers_of_daqp(rng: np.random.Generator) -> None:
    agree_with_daqp(rng, 500)


@pytest.mark.slow
def test_a_hundred_thousand_problems_have_the_answers_of_daqp(rng: np.random.Generator) -> None:
    agree_with_daqp(rng, 100_000)


def test_the_change_is_a_sum_of_rows_that_act_with_multipliers_above_zero(rng: np.random.Generator) -> None:
    for i in range(200):
        given = drawn(rng, 5, 0, 9, ["", "degenerate", "repeated"][i % 3])
        _, tau, acts = given.solved()
        C, h = given.rows()
        room = C @ tau - h
        assert np.min(room) >= -1e-11
        slope = given.shares * (tau - given.tau)
        assert nnls(C[room < 1e-9].T, slope)[1] <= 1e-9 * (1.0 + np.linalg.norm(slope))
        assert np.all(room[:9][acts == 1.0] < 1e-9)


def test_a_level_is_least_whatever_comes_after_it(rng: np.random.Generator) -> None:
    for i in range(80):
        given = drawn(rng, *[(6, 4, 4), (7, 3, 12), (4, 5, 6), (8, 8, 10)][i % 4])
        given = given._replace(levels=rng.integers(1, 4, len(given.goals)).astype(float))
        tau = given.solved()[1]
        C, h = given.rows()
        assert np.min(C @ tau - h) >= -1e-11
        for level in sorted(set(given.levels)):
            before, now = given.goals[given.levels < level], given.goals[given.levels == level]
            H = now.T @ now + 1e-9 * np.eye(len(tau))
            other = least(given, H, -H @ given.tau, before, before @ tau)
            if other is not None:
                assert np.linalg.norm(now @ (tau - given.tau)) <= np.linalg.norm(now @ (other - given.tau)) + 1e-9


def test_rows_give_way_in_their_order_each_by_as_little_as_can_be(rng: np.random.Generator) -> None:
    for _ in range(25):
        given = drawn(rng, 3, 3, 7, "none")
        status, tau, acts = given.solved()
        limits = [(low, high) for low, high in zip(given.lower, given.upper, strict=True)]
        bounds = given.b.copy()
        order = sorted(range(7), key=lambda i: given.ranks[i])
        for k, i in enumerate(order):  # by linear programming: as much of a row as those before it allow
            kept = order[:k]
            most = linprog(-given.A[i], -given.A[kept], 1e-8 - bounds[kept], bounds=limits, options=EXACT)
            assert most.status in (0, 3)
            bounds[i] = min(bounds[i], -most.fun) if most.status == 0 else bounds[i]
        assert np.all(given.A @ tau >= bounds - 1e-6)
        assert np.array_equal(acts == -1.0, bounds < given.b - 1e-5)
        assert (status == NUMBERS["GIVES_WAY"]) == np.any(acts == -1.0)


def test_a_row_without_inputs_gives_way_at_once() -> None:
    status, tau, acts = nearest([0.0, 0.0], np.array([[0.0, 0.0], [1.0, 0.0]]), np.array([1.0, 2.0]))
    assert status == NUMBERS["GIVES_WAY"]
    assert tau.tolist() == [2.0, 0.0]
    assert acts.tolist() == [-1.0, 1.0]


def test_of_two_rows_the_larger_rank_gives_way_and_limits_never_do() -> None:
    A, b = np.array([[1.0], [-1.0]]), np.array([1.0, 1.0])
    assert nearest([0.0], A, b, ranks=[2.0, 1.0])[1].tolist() == [-1.0]
    status, tau, acts = nearest([0.0], A, b, ranks=[1.0, 2.0], upper=[0.5])
    assert (status, acts.tolist()) == (NUMBERS["GIVES_WAY"], [-1.0, -1.0])
    np.testing.assert_allclose(tau, [0.5], rtol=1e-11)


@pytest.mark.parametrize("which", range(9))
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
def test_whatever_is_given_limits_hold_and_an_answer_is_finite(
    which: int, value: float, rng: np.random.Generator
) -> None:
    for _ in range(5):
        given = drawn(rng, 4, 3, 5)
        given[which].flat[rng.integers(given[which].size)] = value
        status, tau, acts = given.solved()
        assert 0 <= status <= 3
        assert np.all(np.isfinite(acts))
        if which not in (1, 2):
            assert np.all(np.isfinite(tau))
            assert np.all((given.lower <= tau) & (tau <= given.upper))


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_the_unit_of_inputs_changes_nothing(scale: float, rng: np.random.Generator) -> None:
    for _ in range(50):
        given = drawn(rng, 4, 3, 5)
        status, tau, acts = given.solved()
        other = [given.tau * scale, given.lower * scale, given.upper * scale, *given[3:7], given.b * scale]
        found = Problem(*other, given.ranks).solved()
        assert found[0] == status
        np.testing.assert_allclose(found[1] / scale, tau, rtol=1e-9, atol=1e-9)
        assert np.array_equal(found[2], acts)


def test_limits_that_meet_hold_and_such_that_exclude_each_other_clip() -> None:
    A, b = np.ones((1, 2)), np.array([4.0])
    assert nearest([0.0, 0.0], A, b, lower=[1.0, -9.0], upper=[1.0, 9.0])[1].tolist() == [1.0, 3.0]
    status, tau, _ = nearest([0.0, 0.0], A, b, lower=[1.0, -9.0], upper=[-1.0, 9.0])
    assert (status, tau.tolist()) == (NUMBERS["CLIPPED"], [-1.0, 0.0])


def test_forty_rows_that_exclude_each_other_are_far_from_the_bound(rng: np.random.Generator) -> None:
    for n in (7, 30):
        for _ in range(3):
            assert drawn(rng, n, 0, 40, "none")._replace(ranks=np.arange(40.0)).solved()[0] != NUMBERS["CLIPPED"]


def cases(rng: np.random.Generator) -> list[Problem]:
    found = [drawn(rng, 4, 3, 6, kind) for kind in ("", "degenerate", "repeated", "none") for _ in range(8)]
    return [each._replace(levels=rng.integers(1, 3, 3).astype(float)) for each in found]


def test_c_and_plain_python_have_the_same_bits_in_any_order(rng: np.random.Generator, tmp_path: Path) -> None:
    problems = cases(rng)
    wanted = [each.solved() for each in problems]
    for each, (status, tau, acts) in reversed(list(zip(problems, wanted, strict=True))):
        again = each.solved()
        assert (again[0], again[1].tobytes(), again[2].tobytes()) == (status, tau.tobytes(), acts.tobytes())
    scope: dict[str, Any] = {"empty": np.empty, "fabs": abs, "sqrt": math.sqrt, "isfinite": math.isfinite}
    exec(f"from __future__ import annotations\n{text_for(4, 3, 6)}", scope)  # noqa: S102
    runs = [scope["nearest"]]
    if compiler := shutil.which("cc"):
        printed = translate(parse(text_for(4, 3, 6)), "nearest")
        head, _, tail = printed.text.rpartition("\nstatic ")
        (tmp_path / "f.c").write_text(f"#include <math.h>\n{head}\n{tail}")
        flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-Wvla", "-O2", "-ffp-contract=off", "-fPIC"]
        subprocess.run([compiler, *flags, "-shared", "f.c", "-o", "f.so", "-lm"], cwd=tmp_path, check=True)
        in_c = ctypes.CDLL(str(tmp_path / "f.so")).nearest
        runs.append(lambda *arrays: in_c(*(each.ctypes.data_as(ctypes.c_void_p) for each in arrays)))
    for run in runs:
        for each, (status, tau, acts) in zip(problems, wanted, strict=True):
            given, found = each.tau.copy(), np.zeros(6)
            assert run(given, *each[1:], found) == status
            assert (given.tobytes(), found.tobytes()) == (tau.tobytes(), acts.tobytes())


IN_NODE = """
const { code, problems } = JSON.parse(require("fs").readFileSync(0, "utf8"));
const memory = new WebAssembly.Memory({ initial: 8 });
const stack = new WebAssembly.Global({ value: "i32", mutable: true }, 131072);
const env = { __linear_memory: memory, __stack_pointer: stack };
const { exports } = new WebAssembly.Instance(new WebAssembly.Module(Buffer.from(code, "base64")), { env });
const [view, bytes] = [new DataView(memory.buffer), new Uint8Array(memory.buffer)];
console.log(JSON.stringify(problems.map((arrays) => {
  let at = 200000;
  const places = arrays.map((each, i) => {
    const given = Buffer.from(each, "base64"), place = at;
    bytes.set(given, place);
    view.setUint32(131072 + 8 * i, place, true);
    at += given.length + 8;
    return [place, given.length];
  });
  const status = Number(exports.nearest(131072));
  const shown = ([place, length]) => Buffer.from(bytes.slice(place, place + length)).toString("base64");
  return [status, shown(places[0]), shown(places[9])];
})));
"""


@pytest.mark.skipif(not shutil.which("node"), reason="needs Node.js: apt install nodejs")
def test_webassembly_has_the_same_bits(rng: np.random.Generator) -> None:
    code = wasm_module({"nearest": ("k", "nearest")}, {"k": text_for(4, 3, 6)}.__getitem__)
    problems = cases(rng)
    arrays = [[base64.b64encode(each.tobytes()).decode() for each in (*of, np.zeros(6))] for of in problems]
    given = json.dumps({"code": base64.b64encode(code).decode(), "problems": arrays})
    done = subprocess.run(["node", "-e", IN_NODE], input=given, capture_output=True, text=True, check=True)
    for (status, tau, acts), each in zip(json.loads(done.stdout), problems, strict=True):
        wanted = each.solved()
        assert (status, base64.b64decode(tau), base64.b64decode(acts)) == (
            wanted[0],
            *(a.tobytes() for a in wanted[1:]),
        )
