"""The contents of a recording, for people and programs."""

import json
from collections import Counter
from datetime import UTC, datetime
from typing import Any

from servonode.record.bag import Bag
from servonode.record.mcap_records import of_robot
from servonode.record.typed import EVENTS

_KNOWN = ("run", "machine", "program", "mode", "seed", "every", "servonode", "python", "system", "libm")


def info(bag: Bag) -> dict[str, Any]:
    """Duration, messages and gaps by topic, events, what it was made by, how the run ended, what is damaged."""
    counts, gaps, events = Counter[str](), Counter[str](), list[dict[str, Any]]()
    changes, changed = list[dict[str, Any]](), dict[str, float]()
    newest: dict[str, tuple[int, int]] = {}  # by topic: id of its sender's start, and the number of its last message
    first = last = None
    t_first, t_last = float("inf"), float("-inf")
    for mono, topic, message in bag.messages():
        counts[topic] += 1
        first, last = mono if first is None else first, mono
        t_first, t_last = min(t_first, message["t"]), max(t_last, message["t"])
        if topic == EVENTS:
            events.append(message)
            continue
        if topic.endswith("/parameters"):
            values = {key: value for key, value in message["values"].items() if changed.get(key) != value}
            changes += [{name: message[name] for name in ("k", "t", "node")} | {"values": values}] * bool(values)
            changed |= values
        src, seq = newest.get(topic, (message["src"], -1))
        if src == message["src"]:
            gaps[topic] += max(message["seq"] - seq - 1, 0) if topic in newest else 0
        newest[topic] = message["src"], message["seq"]
    anchor = bag.wall_less_mono
    return {
        "file": str(bag.file),
        "bytes": of_robot(bag.file)[0].stat().st_size,
        **{name: bag.about.get(name, "") for name in _KNOWN},
        "merged": bag.merged,
        "kernels": json.loads(bag.about.get("kernels", "{}")),
        "files": json.loads(bag.about.get("files", "{}")),
        "begin_ns": None if first is None else anchor + first,
        "end_ns": None if last is None else anchor + last,
        "t_begin": None if first is None else t_first,
        "t_end": None if last is None else t_last,
        "topics": dict(sorted(counts.items())),
        "missing": {topic: n for topic, n in gaps.items() if n},
        "rows": {node: len(bag.rows.newest(node)) for node in bag.rows.columns},
        "events": events,
        "changes": changes,
        "ended": bag.ended or "killed",
        "faults": json.loads(bag.ending.get("faults", "[]")),
        "damage": bag.damage,
    }


def info_text(found: dict[str, Any]) -> list[str]:
    """The same as lines, in the manner of `ros2 bag info`."""
    lines = [f"File:        {found['file']}", f"Size:        {_size(found['bytes'])}"]
    what = f"{found['machine']}, {found['program'] or 'no program'}"
    lines += [f"Run:         {found['run']} ({what}), {found['mode']}, seed {found['seed']}"]
    made_by = f"servonode {found['servonode']}, Python {found['python']}, {found['system']}, {found['libm']}"
    lines += [f"Made by:     {made_by}"]
    lines += [f"Made of:     {name!r} ({digest[:16]})" for name, digest in found["files"].items()]
    if merged := found["merged"]:
        nodes, bound_ms = ", ".join(json.loads(merged["nodes"])), float(merged["bound_s"]) * 1e3
        clock = f"{float(merged['offset_s']):+.6f} s, within {bound_ms:.3f} ms"
        lines += [f"Merged:      {nodes} of another computer; from its clock to the plant's: {clock}"]
    if found["begin_ns"] is not None:
        seconds = (found["end_ns"] - found["begin_ns"]) / 1e9
        lines += [f"Start:       {_clock(found['begin_ns'])}", f"End:         {_clock(found['end_ns'])}"]
        lines += [f"Duration:    {seconds:.3f} s; plant time {found['t_begin']:g} to {found['t_end']:g} s"]
    lines += [
        f"Ended:       {found['ended']}" + "".join(f"; {each['name']}: {each['text']}" for each in found["faults"])
    ]
    total = sum(found["topics"].values())
    lines += [f"Messages:    {total}"]
    lines += [
        f"  {topic:<24} {n:>9}" + _missing(found["missing"].get(topic, 0)) for topic, n in found["topics"].items()
    ]
    lines += [f"Rows:        {', '.join(f'{node} {n}' for node, n in found['rows'].items()) or 'none'}"]
    lines += ["Events:"] * bool(found["events"])
    lines += [
        f"  t = {each['t']:<10.4g} {each['node']:<11} {each['event']}: {each['text']}" for each in found["events"]
    ]
    lines += ["Changes:"] * bool(found["changes"])
    for each in found["changes"]:
        values = ", ".join(f"{key} = {value!r}" for key, value in each["values"].items())
        lines += [f"  t = {each['t']:<10.4g} {each['node']:<11} {values}"]
    return lines + [f"Damaged:     {text}" for text in found["damage"]]


def _missing(n: int) -> str:
    return f"   {n} missing" if n else ""


def _clock(ns: int) -> str:
    """Date and time in UTC, to the microsecond."""
    return datetime.fromtimestamp(ns // 10**9, UTC).strftime("%Y-%m-%d %H:%M:%S") + f".{ns % 10**9 // 1000:06d} UTC"


def _size(n: int) -> str:
    return f"{n / 1e6:.1f} MB" if n >= 1e5 else f"{n / 1e3:.1f} kB"
