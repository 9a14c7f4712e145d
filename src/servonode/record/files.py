"""The files that a run makes: a new spool beside its output, and files that are there whole or not at all."""

import io
import os
import re
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path

SUFFIX = ".spool"


def opened(out: Path) -> tuple[int, Path | None]:
    """Open a new spool beside an output file, under an unused name; without a name if `out` is not a file."""
    if out.exists() and not stat.S_ISREG(out.stat().st_mode):
        with tempfile.TemporaryFile() as unnamed:
            return os.dup(unnamed.fileno()), None
    number = 1
    while True:
        spool = out.with_name(f"{out.name}{SUFFIX}" if number == 1 else f"{out.name}.{number}{SUFFIX}")
        with suppress(FileExistsError):
            return os.open(spool, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666), spool
        number += 1


def recovered_file(spool: Path, ending: str) -> Path:
    """The file that is recovered from a spool by default, as NAME.2.csv from NAME.csv.2.spool."""
    found = re.fullmatch(r"(.+?)(\.csv|\.mcap)?(\.\d+)?", spool.name.removesuffix(SUFFIX))
    return spool.with_name(f"{found[1]}{found[3] or ''}{ending}" if found else f"recovered{ending}")


def recovery(spool: Path, file: Path) -> str:
    """Where what was recorded is kept, and the command that makes the file of it, or one beside it, in words."""
    out, number = recovered_file(spool, file.suffix), 2
    default = out
    while out.exists():
        out, number = file.with_name(f"{file.stem}.{number}{file.suffix}"), number + 1
    verb = "bag recover" if file.suffix == ".mcap" else "recover"
    return f"what was recorded is kept: servonode {verb} {spool}{'' if out == default else f' --output {out}'}"


def write_csv(file: Path, names: Iterable[str], columns: Iterable[Iterable[float]], mode: str = "w") -> None:
    """Write numbers with all digits."""
    with file.open(mode, encoding="utf-8") as stream:
        stream.write(",".join(names) + "\n")
        for row in zip(*columns, strict=True):
            stream.write(",".join(repr(float(value)) for value in row) + "\n")


@contextmanager
def replaced_file(file: Path, draft_name: str = "") -> Iterator[Path]:
    """A draft beside a file, which takes its place when it is complete; one that fails leaves nothing."""
    draft = file.with_name(draft_name or f"{file.name}.{os.getpid()}.part")  # two processes may make a file of one name
    try:
        yield draft
        draft.replace(file)
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


@contextmanager
def new_file(file: Path) -> Iterator[io.BufferedWriter]:
    """A file to write, which is there whole or not at all, and takes the place of none.

    Raises OSError where it cannot be written, FileExistsError where another has been made meanwhile.
    """
    remove_drafts(file)
    draft = file.with_name(f"{file.name}.{os.getpid()}.part")  # two processes may make a file of one name
    try:
        with draft.open("wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        _place(draft, file)
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def remove_drafts(file: Path) -> None:
    """Remove what processes that were killed have left of a file of this name."""
    for draft in file.parent.glob(f"{escape(file.name)}.*.part"):
        pid = draft.name.rsplit(".", 2)[1]
        if pid.isdecimal() and not Path(f"/proc/{pid}").exists():
            with suppress(OSError):
                draft.unlink()


def _place(draft: Path, file: Path) -> None:
    try:
        os.link(draft, file)  # unlike a renaming it never replaces
    except (FileExistsError, FileNotFoundError):
        raise
    except OSError:  # no links in this file system: the name is taken by an empty file of ours first
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        draft.replace(file)
