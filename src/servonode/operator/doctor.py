"""What of this computer matters to a run: clock, limits, cores, folders, extras, who listens; with remedies."""

import os
import platform
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Literal

from servonode.bus.processes import beyond_this_computer, listening_sockets
from servonode.bus.run_folder import BusError, base_folder, distrust
from servonode.definitions.store import cache_root, untrusted_reason
from servonode.errors import ServonodeError, installing
from servonode.nodes.realtime_grants import CAP_IPC_LOCK, CAP_SYS_NICE, LIMITS, SLACK_NS, has_capability, slack
from servonode.operator.find_runs import TITLE, distrusted, find_runs, folders_of_runs, own_processes, owners

Level = Literal["good", "note", "wrong"]
SLEEPS, SLEEP_S = 200, 1e-3  # by which the lateness of a waking process is measured
LATE_S, COARSE_S = 1e-3, 1e-6  # of a sleep, and of a step of the clock, from which they are told
FEW_FILES = 1024  # descriptors; a run with some listeners needs a few hundred
UNLIMITED = -1  # RLIM_INFINITY of Linux
NAME = "servonode"  # of the program
OF_TESTS = "test"  # an extra that no user needs


@dataclass(frozen=True)
class Finding:
    """One fact: good, worth a note, or wrong (something will not work). remedy: what to do; empty: nothing."""

    subject: str
    level: Level
    text: str
    remedy: str = ""


def findings() -> list[Finding]:
    """All that is found, in the order in which it is shown; nothing is changed."""
    return [each for find in SUBJECTS for each in find()]


def _judged(subject: str, text: str, remedy: str) -> Finding:
    """A fact that is good, or worth a note where there is a remedy."""
    return Finding(subject, "note" if remedy else "good", text, remedy)


def _system() -> Iterator[Finding]:
    text = f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    if sys.platform != "linux":
        yield Finding("system", "note", text, "real time is asked for on Linux alone; simulate and lockstep work here")
        return
    realtime = _read("/sys/kernel/realtime") == "1"
    yield Finding("system", "good", f"{text}; the kernel {'is' if realtime else 'is not'} PREEMPT_RT")


def _clock() -> Iterator[Finding]:
    step = time.get_clock_info("monotonic").resolution
    remedy = "deadlines are no finer than that; take another clock source of the kernel" if step > COARSE_S else ""
    yield _judged("clock", f"the monotonic clock has steps of {step * 1e9:g} ns", remedy)
    granted = True
    try:
        before = slack(SLACK_NS)  # as nodes have it
    except (OSError, AttributeError):  # another system
        granted = False
    try:
        late = sorted(map(_lateness, [SLEEP_S] * SLEEPS))
    finally:
        if granted:
            slack(before)
    text = f"a sleep of {SLEEP_S * 1e3:g} ms ends late by {late[len(late) // 2] * 1e6:.0f} us, at worst of {SLEEPS} by "
    text += f"{late[-1] * 1e6:.0f} us" + (f", with a timer slack of {SLACK_NS / 1e3:g} us" if granted else "")
    remedy = "other programs keep the cores: end them, or give run.priority and run.pin" if late[-1] > LATE_S else ""
    yield _judged("clock", text, remedy)


def _lateness(seconds: float) -> float:
    begin = time.monotonic()
    time.sleep(seconds)
    return time.monotonic() - begin - seconds


def _cores() -> Iterator[Finding]:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    text = f"{usable} of {os.cpu_count()} cores may be used"
    with suppress(OSError):  # a container without /proc
        text += f", {os.getloadavg()[0]:.2g} processes wait or run on average"
    remedy = "run.pin needs two: widen taskset or the container's cpuset" if usable < 2 else ""
    yield _judged("cores", text, remedy)
    quota = _read("/sys/fs/cgroup/cpu.max").split()
    if len(quota) == 2 and quota[0].isdecimal() and quota[1].isdecimal():
        text = f"this group of processes gets {int(quota[0]) / int(quota[1]):.2g} cores of time, and then stands still"
        yield Finding("cores", "note", text, "run real time without a quota (docker: without --cpus)")
    places = Path("/sys/devices/system/cpu").glob("cpu*/cpufreq/scaling_governor")
    governors = sorted({_read(str(place)) for place in places} - {""})
    slow = [each for each in governors if each != "performance"]
    text = f"the governor is {', '.join(governors)}" if governors else "no governor is shown, as in a virtual machine"
    remedy = "a core may be slow to wake: sudo cpupower frequency-set -g performance" if slow else ""
    yield _judged("cores", text, remedy)


def _limits() -> Iterator[Finding]:
    if sys.platform != "linux":
        return
    import resource

    def hard(kind: int) -> float:
        found = resource.getrlimit(kind)[1]
        return float("inf") if found == UNLIMITED else found

    priority, memory, files = map(hard, (resource.RLIMIT_RTPRIO, resource.RLIMIT_MEMLOCK, resource.RLIMIT_NOFILE))
    may_raise, may_lock = has_capability(CAP_SYS_NICE), has_capability(CAP_IPC_LOCK)
    remedy = "" if priority or may_raise else f"run.priority is refused: add rtprio 99 for your user in {LIMITS}"
    text = f"real-time priority (rtprio) up to {99 if may_raise else priority:g}"
    yield _judged("limits", text, remedy)
    any_memory = may_lock or memory == float("inf")
    remedy = "" if any_memory else f"memory may be swapped out: memlock unlimited in {LIMITS}"
    text = "unlimited" if any_memory else f"up to {memory / 1024:.0f} KiB"
    yield _judged("limits", f"locked memory (memlock) {text}", remedy)
    remedy = f"many listeners would be refused: raise nofile in {LIMITS}" if files < FEW_FILES else ""
    yield _judged("limits", f"open files (nofile) up to {files:g}", remedy)


def _folders() -> Iterator[Finding]:
    try:
        base = base_folder()
        problem = distrust(base, owners()) if base.exists() else None
    except BusError as error:
        yield Finding("folders", "wrong", str(error))
    else:
        remedy = "no run starts: make it yours with mode 0700, or set SERVONODE_RUNTIME_DIR" if problem else ""
        text = f"runs have their folders in {base}" + (f", which {problem}" if problem else "")
        yield Finding("folders", "wrong" if problem else "good", text, remedy)
    for each in distrusted():
        yield Finding("folders", "note", each, "runs in it are not found: remove it, or make it private")
    for run in folders_of_runs(of_processes=True):
        if not run.lives():
            text = f"{run.path} is left over from a run that has ended"
            yield Finding("folders", "note", text, f"the next run of its name takes it over; or rm -r '{run.path}'")
    try:
        reason, cache = untrusted_reason(cache_root() / "any"), cache_root()
    except ServonodeError as error:
        yield Finding("folders", "wrong", str(error))
        return
    text = f"kernels are kept in {cache}"
    if reason:
        yield Finding("folders", "note", f"{text}, which is not used: every start compiles anew", reason)
    elif not os.access(next(each for each in (cache, *cache.parents) if each.exists()), os.W_OK):
        remedy = "nothing can be compiled: give it back to yourself, or set XDG_CACHE_HOME to a folder of yours"
        yield Finding("folders", "wrong", f"{text}, which cannot be written", remedy)
    else:
        yield Finding("folders", "good", text)


def _extras() -> Iterator[Finding]:
    for extra, packages in _packages_by_extra().items():
        missing = [name for name in packages if not _installed(name)]
        text = f"{extra}: " + (f"{', '.join(missing)} not installed" if missing else "installed")
        yield Finding("extras", "good", text, installing(extra) if missing else "")


def _packages_by_extra() -> dict[str, list[str]]:
    """The packages of each extra, as the installed servonode states them; empty where it is run from its sources."""
    found: dict[str, list[str]] = {}
    with suppress(PackageNotFoundError):
        for line in requires("servonode") or ():
            match = re.match(r"([\w.-]+)(?!\[)\b.*extra == ['\"]([\w-]+)['\"]", line)
            if match and match[1] != "servonode" and match[2] != OF_TESTS:
                found.setdefault(match[2], []).append(match[1])
    return found


def _installed(package: str) -> bool:
    with suppress(PackageNotFoundError):
        return bool(version(package))
    return False


def _listeners() -> Iterator[Finding]:
    runs = find_runs()
    names = ", ".join(f"{name} in {run.path}" for name, run in runs.items())
    yield Finding("runs", "good", f"in progress: {names or 'none'}")
    for process, words in own_processes():
        if words.startswith(TITLE) or any(Path(os.fsdecode(each)).name == NAME for each in words.split(b"\0")[:2]):
            title = f"process {process.name} ({os.fsdecode(words).replace(chr(0), ' ').strip()})"
            for place in sorted(each for each in listening_sockets([int(process.name)]) if each[:4] != "unix"):
                far = beyond_this_computer(place)
                text = f"{title} listens at {place}" + (", which other computers reach" if far else "")
                yield _judged("runs", text, "only with keys or a certificate" if far else "")


def _read(place: str) -> str:
    """The text of a file of the system; empty without such a file."""
    with suppress(OSError):
        return Path(place).read_text(errors="replace").strip()
    return ""


SUBJECTS: tuple[Callable[[], Iterator[Finding]], ...] = (
    _system, _clock, _cores, _limits, _folders, _extras, _listeners,
)  # fmt: skip
