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
import contextlib
import hashlib
import importlib.util
import io
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "build/robots.json", ROOT / "docs/systems/robots.md"
LIMIT = 120.0  # s, of one file
MOST_KINDS = 8
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


def one(file: Path, read_only: bool) -> Result:
    """What MuJoCo says of a file by itself, and what servonode does."""
    return _alone(file) | _own(file, read_only)


def _alone(file: Path) -> Result:
    """Whether MuJoCo compiles a file by itself, without meshes that are not there and what is only seen."""
    import mujoco

    from servonode.wings.robots.mesh_files import find_meshes

    mujoco.set_mju_user_warning(lambda _: None)
    try:
        spec = mujoco.MjSpec.from_file(str(file))
        find_meshes(spec, file)
        for each in (*spec.geoms, *spec.sites):
            each.material = ""
        for word in ("keys", "skins", "materials", "textures"):
            for each in list(getattr(spec, word)):
                spec.delete(each)
        model = spec.compile()
    except ValueError as error:
        return {"alone": " ".join(str(error).split())[:300]}
    light = [
        model.body(i).name
        for i in range(1, model.nbody)
        if model.body_dofnum[i] and not sum(model.body_mass[k] for k in range(i, model.nbody) if model.body_weldid[k] == i) > 0
    ]
    if light:
        return {"alone": f"body {light[0]} moves without mass"}
    if not model.nv:
        return {"alone": "nothing moves"}
    return {"alone": "", "velocities": model.nv, "equalities": model.neq, "actuators": model.nu}


def _own(file: Path, read_only: bool) -> Result:
    """How servonode takes a file: with which kinds in `ignore`, how right it is, and how long that took."""
    from servonode.errors import ServonodeError
    from servonode.wings.robots.read import read

    ignore, first, begun = list[str](), "", time.time()
    found: Result = {}
    while len(ignore) <= MOST_KINDS:
        try:
            robot = read(file, ignore=ignore)
            if not read_only:
                begun = time.time()
                found |= _derived(file, ignore)
            found |= {"joints": sum(1 for _ in robot.joints), "loops": len(robot.loops)}
            break
        except ServonodeError as error:
            text = str(error)
            first = first or text
            kind = re.search(r'ignore = \["(\w+)"\] leaves it out', text)
            if kind is None or kind[1] in ignore:
                found["refused"] = text
                break
            ignore.append(kind[1])
        except Exception as error:  # noqa: BLE001
            found["refused"] = f"TRACEBACK {type(error).__name__}: {error}"
            break
    return found | {"ignore": ignore, "first": first, "seconds": round(time.time() - begun, 2)}


def _derived(file: Path, ignore: list[str]) -> Result:
    """The machine of a file, compared with MuJoCo."""
    from servonode.plants import MachineSource
    from servonode.wings.robots.definition import RobotDefinition

    options = {"ignore": ignore} if ignore else {}
    machine = MachineSource(RobotDefinition(file.name, file), options).load({})
    return {"states": len(machine.description.state_names), "inputs": machine.n_inputs}


# all of them


def run(packages: list[str], without: list[str], only: str, limit: float, read_only: bool) -> None:
    """Read the files of packages and write their results."""
    RESULTS.parent.mkdir(exist_ok=True)
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    seen = set[str]()
    waiting = [
        (f"{name}/{file.relative_to(folder)}", file)
        for name, folder in folders(packages)
        for file in robots(folder, seen)
    ]
    waiting = [(key, file) for key, file in waiting if not any(re.search(each, key) for each in without)]
    print(f"{len(waiting)} files", flush=True)
    for key, file in waiting:
        if (only and only in key) or key not in results:
            results[key] = _in_process(file, limit, read_only)
            print(key, _shown(results[key]), flush=True)
            RESULTS.write_text(json.dumps(results, indent=0, sort_keys=True))


def _in_process(file: Path, limit: float, read_only: bool) -> Result:
    command = [sys.executable, __file__, "--one", str(file), *(["--read"] if read_only else [])]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
        return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {"refused": f"exit code {done.returncode}: {done.stderr.splitlines()[-1:]}"}
    except subprocess.TimeoutExpired:
        return {"refused": f"takes more than {limit:g} s", "seconds": limit}


def _shown(found: Result) -> str:
    return f"{found.get('refused') or 'read'}{found.get('ignore', '')} {found.get('alone', '')[:80]}"


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folders", nargs="*")
    parser.add_argument("--without", action="append", default=[])
    parser.add_argument("--only", default="")
    parser.add_argument("--limit", type=float, default=LIMIT)
    parser.add_argument("--one", type=Path)
    parser.add_argument("--read", action="store_true")
    given = parser.parse_args()
    if given.one:
        with contextlib.redirect_stdout(io.StringIO()):
            found = one(given.one, given.read)
        print(json.dumps(found))
        return
    os.nice(10)
    run(given.folders, given.without, given.only, given.limit, given.read)


if __name__ == "__main__":
    main()
