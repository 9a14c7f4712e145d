"""Whether another user could change the content of a folder: code is only run from folders of this user or root."""

import os
import stat
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePath

MOST_LINKS = 40  # as many as the system itself follows in a path
_ROOT = 0  # may change everything anyway


def exposed(path: Path) -> str | None:
    """Why another user could put something else at `path`, naming the folder or link; None: nobody can.

    Every folder on the way must belong to this user or to root, and be written by them alone; one that everybody can
    write is accepted where its sticky bit protects its content. What does not exist yet is accepted.
    """
    for place, found in _steps(path):
        problem = _writable_by_others(place, found, sticky=True)
        if problem:
            return f"{place} {problem}"
    return None


def open_to_all(folder: Path) -> str | None:
    """The folder, or one on the way to it, in which every user of this computer can put files, or None.

    A folder that a group shares is not one of them.
    """
    way = list(_steps(folder))
    for i, (place, found) in enumerate(way):
        everybody = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_IWOTH
        if everybody and (i == len(way) - 1 or not found.st_mode & stat.S_ISVTX):
            return place
    return None


def foreign_owner(file: Path) -> str | None:
    """Why a file cannot be trusted, naming it; None: it is this user's or root's, and written by them alone."""
    found = os.lstat(file)
    if not stat.S_ISREG(found.st_mode):
        return f"{file} is no file"
    problem = _writable_by_others(str(file), found, sticky=False)
    return f"{file} {problem}" if problem else None


def _steps(path: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Each folder and link on the way to a path, the links followed one by one, and the path itself if it exists.

    After too many links it ends at one of them.
    """
    waiting, place, links = [*reversed(path.absolute().parts[1:])], "/", 0
    yield place, os.lstat(place)
    while waiting:
        part = waiting.pop()
        if part == "..":
            place = os.path.dirname(place)  # noqa: PTH120
            continue
        step = os.path.join(place, part)  # noqa: PTH118
        try:
            found = os.lstat(step)
        except OSError:
            return
        yield step, found
        if not stat.S_ISLNK(found.st_mode):
            place = step
        elif (links := links + 1) > MOST_LINKS:
            return
        else:
            target = PurePath(os.readlink(step))  # noqa: PTH115
            waiting += reversed(target.parts[target.is_absolute() :])
            place = "/" if target.is_absolute() else place


def _writable_by_others(place: str, found: os.stat_result, sticky: bool) -> str:
    """Why others could change what was found, empty if they cannot; `sticky`: a sticky bit protects a folder."""
    if found.st_uid not in (_ROOT, os.geteuid()):
        return f"belongs to user {_name(found.st_uid)}"
    if stat.S_ISLNK(found.st_mode):  # has no mode of its own
        return ""
    by_group = found.st_mode & stat.S_IWGRP and (_has_list(place) or not _is_private(found.st_gid, os.geteuid()))
    if not (by_group or found.st_mode & stat.S_IWOTH) or (sticky and found.st_mode & stat.S_ISVTX):
        return ""
    return f"can be written by other users (mode {stat.S_IMODE(found.st_mode):04o})"


def _has_list(place: str) -> bool:
    """Whether an access control list names further users and groups, who may write if the group's bits say so."""
    if sys.platform != "linux":
        return False
    try:
        return "system.posix_acl_access" in os.listxattr(place)
    except OSError:  # a file system without such lists
        return False


def _name(uid: int) -> str:
    import pwd

    try:
        return f"{pwd.getpwuid(uid).pw_name} ({uid})"
    except KeyError:
        return str(uid)


@cache
def _is_private(gid: int, uid: int) -> bool:
    """Whether a group is a user's alone, as many systems give each user one: of that name, without other members."""
    import grp
    import pwd

    try:
        group, user = grp.getgrgid(gid), pwd.getpwuid(uid)
    except KeyError:
        return False
    return group.gr_gid == user.pw_gid and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}
