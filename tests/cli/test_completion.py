"""`servonode completion`: the scripts in their shells, and what is completed."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from servonode.cli.inspect import SHELLS
from servonode.cli.main import main
from tests.helpers.refusals import command

MAIN = "from servonode.cli.main import main; main(prog_name='servonode')"
ASK = """
servonode() { "$PYTHON" -c "$MAIN" "$@"; }
export -f servonode
eval "$(servonode completion bash)"
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
compopt() { :; }
_servonode_completion "$SERVONODE"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`servonode` as a program, which the script of a shell calls."""
    made = tmp_path_factory.mktemp("bin") / "servonode"
    made.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{MAIN}" "$@"\n')
    made.chmod(0o755)
    return made


def completed(program: Path, *words: str, folder: Path | None = None) -> list[str]:
    """What bash completes the last of these words to."""
    environment = {"PATH": f"{program.parent}:/usr/bin:/bin", "SERVONODE": str(program), "PYTHON": sys.executable}
    environment |= {"MAIN": MAIN, "PYTHONPATH": ":".join(filter(None, sys.path)), "HOME": str(program.parent)}
    typed = ["bash", "-c", ASK, "bash", "servonode", *words]
    done = subprocess.run(typed, capture_output=True, text=True, env=environment, cwd=folder, check=False, timeout=60)
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_completes_commands_launch_files_and_options(program: Path) -> None:
    assert completed(program, "sim") == ["simulate"]
    assert "trailer_pursuit_lockstep" in completed(program, "run", "trailer_p")
    assert completed(program, "check", "--no") == ["--no-code"]
    assert completed(program, "bag", "ex") == ["export"]
    assert completed(program, "new", "sch") == ["schema"]


def test_bash_completes_keys_and_those_of_the_file(program: Path, tmp_path: Path) -> None:
    assert completed(program, "run", "trailer_pursuit", "--set", "run.dur") == ["run.duration="]
    assert completed(program, "run", "trailer_pursuit", "--set", "target.") == ["target.x=", "target.y="]
    (tmp_path / "mine.toml").write_text("[controller.gains]\nlambda_place = 2.0\n")
    words = ("check", "mine.toml", "--set", "controller.gains.")
    assert completed(program, *words, folder=tmp_path) == ["controller.gains.lambda_place="]


def test_states_and_parameters_are_completed_of_a_machine_that_was_derived_before(tmp_path: Path) -> None:
    def completions(file: str, typed: str) -> list[str]:
        asked = ShellComplete(main, {}, "servonode", "_ASKED")
        return [str(each.value) for each in asked.get_completions(["run", file, "--set"], typed)]

    assert command("check", "trailer_pursuit", "--set", "run.duration=1").exit_code == 0
    assert {"plant.initial.phi=", "plant.initial.V="} <= set(completions("trailer_pursuit", "plant.initial."))
    assert completions("trailer_pursuit", "plant.parameters.m_k") == ["plant.parameters.m_k="]
    (tmp_path / "new.py").write_text("def model(): raise SystemExit('was run')\n")
    (tmp_path / "new.toml").write_text('[plant]\nmachine = "./new.py:model"\n[run]\nduration = 1\n')
    assert completions(str(tmp_path / "new.toml"), "plant.initial.") == []


def test_what_cannot_be_read_completes_nothing_and_says_nothing(program: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.toml").write_text("[run\n")
    assert completed(program, "run", "broken.toml", "--set", "target.", folder=tmp_path) == []
    assert completed(program, "run", "nowhere.toml", "--set", "target.") == []
    assert completed(program, "arm", "") == []


@pytest.mark.parametrize("shell", SHELLS)
def test_each_script_is_one_of_its_shell(shell: str) -> None:
    done = command("completion", shell)
    assert done.exit_code == 0
    assert "_SERVONODE_COMPLETE" in done.stdout
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    checked = subprocess.run([shell, "-n"], input=done.stdout, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.skipif(not shutil.which("fish"), reason="needs fish")
def test_fish_shows_whole_help_texts_although_they_have_commas(program: Path) -> None:
    script = command("completion", "fish").stdout
    environment = {"PATH": f"{program.parent}:/usr/bin:/bin", "HOME": str(program.parent)}
    environment |= {"PYTHONPATH": ":".join(filter(None, sys.path))}
    typed = ["fish", "--no-config", "-c", f"{script}\ncomplete -C 'servonode ru'"]
    done = subprocess.run(typed, capture_output=True, text=True, env=environment, check=False, timeout=60)
    assert done.stdout == "run\tRun FILE: start its nodes as processes,...\n"


def test_a_key_is_completed_without_a_space_behind_it() -> None:
    assert "*= ]] && compopt -o nospace" in command("completion", "bash").stdout
