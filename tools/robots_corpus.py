"""Whether servonode reads robots' files as MuJoCo does: the table of docs/systems/robots.md.

    python tools/robots_corpus.py FOLDER ...      reads all of them anew
    python tools/robots_corpus.py --table         the page from the results that are there

A folder is a package: a copy of a repository, or the name of an installed Python package with robots in it. Each URDF
and MJCF file with a joint that moves is read in a process of its own, at a lower priority and for a limited time; equal
files once. Results go to build/robots.json, so that a run that was stopped goes on where it was; `--only PART` reads
those files anew whose path has PART. Files that only others include, or that are scenes about a robot, are left to
`--without PART`.
"""

import argparse
import hashlib
import importlib
import importlib.util
import json
import os
import re
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "build/robots.json", ROOT / "docs/systems/robots.md"
LIMIT = 60.0  # s of the processor, for one file
TRACEBACK = "TRACEBACK"
POSES = 5
WARM = ("mujoco", "sympy", "scipy.spatial.transform", "servonode.simulation", "servonode.wings.robots.definition")
WARM = (*WARM, *(f"servonode.wings.robots.{word}" for word in ("read", "judge", "model", "mesh_files")))
Result = dict[str, Any]


# which files


def folders(names: list[str]) -> Iterator[tuple[str, Path]]:
    """The packages by name: folders, or installed packages of Python."""
    for name in names:
        folder = Path(name)
        spec = None if folder.is_dir() else importlib.util.find_spec(name)
        if spec is None and not folder.is_dir():
            sys.exit(f"{name}: no folder and no installed package")
        place = folder if spec is None else Path(next(iter(spec.submodule_search_locations or [])))
        yield (folder.resolve().name if spec is None else name), place.resolve()


def robots(folder: Path, seen: set[str]) -> Iterator[Path]:
    """The URDF and MJCF files of a folder with a joint that moves, each text once."""
    for file in sorted(folder.rglob("*")):
        if file.suffix not in (".urdf", ".xml") or not file.is_file() or file.stat().st_size > 20_000_000:
            continue
        text = re.sub(r"<!--.*?-->", "", file.read_text(errors="replace"), flags=re.DOTALL)
        root = re.search(r"<(robot|mujoco)\b", text[:3000])
        if root is None:
            continue
        moves = r'<joint\b[^>]*type="(?!fixed)' if root[1] == "robot" else r"<worldbody.*<(free)?joint\b"
        digest = hashlib.sha256(text.encode()).hexdigest()
        if re.search(moves, text, re.DOTALL) and digest not in seen:
            seen.add(digest)
            yield file


# one file, in a process of its own


def one(file: Path, derive: bool) -> Result:
    """What MuJoCo says of a file by itself, and what servonode does."""
    return _alone(file) | _own(file, derive)


def _alone(file: Path) -> Result:
    """Whether MuJoCo compiles a file by itself, without meshes that are not there and what is only seen."""
    import mujoco

    from servonode.wings.robots.mesh_files import find_meshes

    mujoco.set_mju_user_warning(lambda _: None)

    def compiled(stated: bool) -> Any:
        spec = mujoco.MjSpec.from_file(str(file))
        find_meshes(spec, file)
        for each in (*spec.geoms, *spec.sites):
            each.material = ""
        for word in ("keys", "skins", "materials", "textures"):
            for each in list(getattr(spec, word)):
                spec.delete(each)
        if stated:
            spec.compiler.inertiafromgeom = mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_FALSE
        return spec.compile()

    try:
        model = compiled(stated=False)
    except ValueError as error:
        return {"alone": _in_one_line(error)}
    found = {"alone": "", "velocities": model.nv, "loops": model.neq, "motors": model.nu}
    if file.suffix == ".urdf":
        try:
            compiled(stated=True)
        except ValueError:
            found["alone"] = "a link that moves has no <inertial>; MuJoCo makes up a mass from its shapes"
    return found


def _in_one_line(error: Exception) -> str:
    return " ".join(str(error).replace("Error: ", "").replace("XML ", "").split())


def _own(file: Path, derive: bool) -> Result:
    """How servonode takes a file: with which kinds in `ignore`, how right it is, and how long that took."""
    from servonode.errors import ServonodeError

    ignore, found = list[str](), Result()
    while True:
        try:
            return found | (_derived if derive else _read)(file, ignore) | {"ignore": ignore}
        except ServonodeError as refused:
            text = str(refused)
            found.setdefault("first", text)
            kind = re.search(r'ignore = \["(\w+)"\]', text)
            if not kind or kind[1] in ignore:
                return found | {"refused": text, "ignore": ignore}
            ignore.append(kind[1])
        except Exception as error:  # noqa: BLE001
            return found | {"refused": f"{TRACEBACK} {type(error).__name__}: {error}", "ignore": ignore}


def _read(file: Path, ignore: list[str]) -> Result:
    """The largest difference of mass matrices from MuJoCo's at random poses, relative to their largest entries."""
    import mujoco
    import numpy as np

    from servonode.wings.robots.read import mass_matrix, read

    robot = read(file, ignore=ignore)
    n = sum({"ball": 3, "free": 6}.get(each.kind, 1) for each in robot.joints)
    try:
        model = _alone_as_read(mujoco, robot, ignore)
    except ValueError:
        return {"n": n, "masses": None}
    data, rng, worst = mujoco.MjData(model), np.random.default_rng(0), 0.0
    for _ in range(POSES):
        values, order = list[float](), list[int]()
        for joint in robot.joints:
            stated = model.joint(joint.name)
            place, dof = int(stated.qposadr[0]), int(stated.dofadr[0])
            if joint.kind in ("hinge", "slide"):
                values.append(rng.uniform(-1, 1))
                data.qpos[place] = values[-1]
            else:
                turn = rng.normal(size=4)
                place += 3 * (joint.kind == "free")
                data.qpos[place : place + 4] = [turn[3], *turn[:3]]
                values += list(turn)
            order += range(dof, dof + {"ball": 3, "free": 6}.get(joint.kind, 1))
        mujoco.mj_forward(model, data)
        M = np.zeros((model.nv, model.nv))
        mujoco.mj_fullM(model, data, M)
        M = M[np.ix_(order, order)]
        worst = max(worst, float(np.abs(mass_matrix(robot, _Given(values)) - M).max() / np.abs(M).max()))
    return {"n": n, "masses": worst}


class _Given:
    """Stands for a random generator that gives what is stated."""

    def __init__(self, values: list[float]) -> None:
        self.values = values

    def uniform(self, low: float, high: float) -> float:  # noqa: ARG002
        return self.values.pop(0)

    def normal(self, size: int) -> list[float]:
        return [self.values.pop(0) for _ in range(size)]


def _alone_as_read(mujoco: Any, robot: Any, ignore: list[str]) -> Any:
    from servonode.wings.robots.judge import alone

    return alone(mujoco, robot, "fixed", ignore, ())


def _derived(file: Path, ignore: list[str]) -> Result:
    """The largest difference of a file's accelerations from MuJoCo's, relative to the largest; None: not compared."""
    from servonode.plants import MachineSource
    from servonode.wings.robots import judge
    from servonode.wings.robots.definition import RobotDefinition

    seen, begun = list[Any](), time.process_time()

    class Recorded(judge._Compared):
        def __init__(self, *values: Any) -> None:
            super().__init__(*values)
            seen.append(self)

    judge._Compared = Recorded  # type: ignore[misc]
    machine = MachineSource(RobotDefinition(file.name, file), {"ignore": ignore} if ignore else {}).load({})
    found = {"n": len(machine.description.velocities), "seconds": round(time.process_time() - begun, 1), "miss": None}
    if seen:
        largest = max(judge.LEAST, *(abs(each.expected).max(initial=0.0) for each in seen))
        found["miss"] = float(max(each.missed for each in seen) / largest)
    return found


# all of them


def run(given: argparse.Namespace) -> None:
    """Read the files of packages and write their results."""
    RESULTS.parent.mkdir(exist_ok=True)
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    seen = set[str]()
    found = {name: list(robots(folder, seen)) for name, folder in folders(given.folders)}
    keys = [
        (f"{name}/{file.relative_to(folder)}", file) for name, folder in folders(given.folders) for file in found[name]
    ]
    files = {key: file for key, file in keys if not any(re.search(each, key) for each in given.without)}
    results = {key: value for key, value in results.items() if key in files}
    waiting = [key for key in files if key not in results or (given.only and re.search(given.only, key))]
    print(f"{len(files)} files, {len(waiting)} to read", flush=True)
    for name in WARM:  # once, for all processes
        importlib.import_module(name)

    for key in waiting:
        results[key] = in_process(files[key], False, given.limit)
        print(key, results[key].get("refused") or results[key], flush=True)
        RESULTS.write_text(json.dumps(results, indent=0, sort_keys=True) + "\n")
    loaded = [
        key for key in files if not results[key].get("refused") and (key in waiting or "seconds" not in results[key])
    ]
    for key in sorted(loaded, key=lambda key: results[key]["n"]):
        results[key] |= in_process(files[key], True, given.limit)
        print(key, results[key].get("refused") or results[key], flush=True)
        RESULTS.write_text(json.dumps(results, indent=0, sort_keys=True) + "\n")


def in_process(file: Path, derive: bool, limit: float) -> Result:
    """The result of a file by a process of its own that has so many seconds of the processor."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer"
        child = os.fork()
        if not child:
            try:
                resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit)))
                os.environ["XDG_CACHE_HOME"] = folder  # so that everything is derived anew
                nothing = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nothing, 1)
                os.dup2(nothing, 2)
                answer.write_text(json.dumps(one(file, derive)))
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        if answer.exists() and answer.stat().st_size:
            return json.loads(answer.read_text())
        return {"refused": f"takes more than {limit:g} s, or ends the process", "seconds": limit}


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folders", nargs="*")
    parser.add_argument("--without", action="append", default=[])
    parser.add_argument("--only", default="")
    parser.add_argument("--limit", type=float, default=LIMIT)
    given = parser.parse_args()
    os.nice(15)
    run(given)


if __name__ == "__main__":
    main()
