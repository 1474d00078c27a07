"""The ReplaySSM ring over a run of decode steps: where it writes and flushes, what it saves."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import groupby

from mambaviz.batch_record import BatchRecord, RingRun, RingStep
from mambaviz.viz.batch.text import clipped, fitting
from mambaviz.viz.scene import Body, Mark, Path, Primitive, Rect, Scene, Text
from mambaviz.viz.shapes import n
from mambaviz.viz.theme import BATCH

MOST_RUNS = 3
TOP, LANE = 24.0, 92.0
LEFT = 96.0  # of the first step, behind the labels
BARS = 250.0  # width of the byte bars with their text


def shown_runs(record: BatchRecord) -> list[RingRun]:
    """The runs that a picture has room for."""
    return record.rings[:MOST_RUNS]


# --------------------------------------------------------------------------------------
# The lanes: a step a column
# --------------------------------------------------------------------------------------


def ring_scene(record: BatchRecord) -> Scene:
    """For each decode row: tokens, ring position, flushes, anchors, and bytes to the right."""
    runs = shown_runs(record)
    most = max(len(run.steps) for run in runs)
    bars = LEFT + most * BATCH.ring_cell + 24
    marks: list[Mark] = []
    for lane, run in enumerate(runs):
        marks += _lane(lane, run, TOP + lane * LANE)
        marks += _bytes(lane, run, bars, TOP + lane * LANE)
    return Scene(bars + BARS, TOP + len(runs) * LANE - 8, tuple(marks))


def _lane(lane: int, run: RingRun, y: float) -> Iterator[Mark]:
    name = clipped(run.request, 9)
    labels = (
        Text("s14 bold", 0, 0, name),
        Text("end m s12", LEFT - 12, 0, "computed"),
        Text("end m s12", LEFT - 12, 26, "writes entry"),
        Text("end m s12", LEFT - 12, 51, "anchor"),
    )
    yield Mark(f"lane-{lane}", 0, y, Body("", labels, title=f"{run.request}, base {run.base}"))
    for index, step in enumerate(run.steps):
        x = LEFT + index * BATCH.ring_cell
        yield Mark(f"step-{lane}-{index}", x, y - 12, _step(step))
    yield from _anchors(lane, run, y + 38)


def _step(step: RingStep) -> Body:
    """A column of one step: tokens before it above, the entry it fills; a flush is a solid cell."""
    width = BATCH.ring_cell - 3
    parts: list[Primitive] = [
        Text("mid m s12", width / 2, 12, str(step.computed)),
        Rect("b", 0.75, 20.75, width - 1.5, 23, 4),
        Text("mid s13 semi", width / 2, 37, str(step.write_pos)),
    ]
    title = f"{step.computed} tokens computed: entry {step.write_pos}"
    if step.is_flush:
        parts.append(Path("flush-mark", f"M{n(width / 2 - 4)} 46.5h8l-4 5z"))
        title = f"{step.computed} tokens computed: flush, the full state is written"
    return Body("ring-step flush" if step.is_flush else "ring-step", tuple(parts), title=title)


def _anchors(lane: int, run: RingRun, y: float) -> Iterator[Mark]:
    """A bracket under the steps that count from the same anchor."""
    start = 0
    for anchor, steps in groupby(run.steps, key=lambda step: step.anchor):
        count = len(list(steps))
        wide = count * BATCH.ring_cell - 5
        text = fitting((f"from {anchor} tokens", f"{anchor}"), wide, 12) or str(anchor)
        parts = (
            Path("bracket", f"M0 3v4H{n(wide)}V3"),
            Text("mid s12", wide / 2, 20, text),
        )
        x = LEFT + start * BATCH.ring_cell + 1
        yield Mark(f"anchor-{lane}-{anchor}-{start}", x, y + 3, Body("", parts))
        start += count


def _bytes(lane: int, run: RingRun, x: float, y: float) -> Iterator[Mark]:
    """Bytes written over the run: with the ring, and by a decode without one."""
    with_ring, plain = bytes_of(run)
    for row, (name, amount, cls) in enumerate(
        (("ring", with_ring, "bar ring-bar"), ("plain", plain, "bar"))
    ):
        wide = max(2.0, 96 * amount / max(1, plain))
        parts = (
            Text("end m s12", 34, 13, name),
            Rect("", 42, 1, wide, 16, 3),
            Text("s12 semi", 48 + wide, 13, readable(amount)),
        )
        yield Mark(f"bytes-{lane}-{name}", x, y - 2 + row * 22, Body(cls, parts))
    flushes = sum(step.is_flush for step in run.steps)
    text = f"{flushes} of {len(run.steps)} steps write the state"
    yield Mark(f"flushes-{lane}", x + 42, y + 57, Body("", (Text("m s12", 0, 0, text),)))


def bytes_of(run: RingRun) -> tuple[int, int]:
    """Bytes written over the run: with the ring, and without."""
    return sum(step.written for step in run.steps), sum(step.plain for step in run.steps)


def readable(amount: int) -> str:
    """A number of bytes with three digits."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if amount >= size:
            return f"{amount / size:.3g} {unit}"
    return f"{amount} B"


# --------------------------------------------------------------------------------------
# The dial: the ring itself, at one step
# --------------------------------------------------------------------------------------


def dial_scene(record: BatchRecord) -> Scene:
    """The ring of the first row at each of its steps, a mark each: the page shows one of them."""
    run, size = record.rings[0], 2 * BATCH.dial
    marks = [
        Mark(f"dial-{index}", BATCH.dial + 4, BATCH.dial + 4, dial(step, _length(record)))
        for index, step in enumerate(run.steps)
    ]
    return Scene(size + 8, size + 8, tuple(marks))


def _length(record: BatchRecord) -> int:
    return record.batch.replayssm_buffer_len


def dial(step: RingStep, length: int) -> Body:
    """Entries 0 … L-1 clockwise from the top; filled ones hold inputs, the heavy one is new."""
    parts: list[Primitive] = []
    for entry in range(length):
        new = entry == step.write_pos
        held = entry < step.write_pos or (new and not step.is_flush)
        cls = "sector" + (" held" if held else "") + (" new" if new else "")
        parts.append(Path(cls, _sector(entry, length)))
        if length <= 16:
            angle = (entry + 0.5) / length * 2 * math.pi
            radius = BATCH.dial * 0.8
            x, y = radius * math.sin(angle), -radius * math.cos(angle)
            parts.append(Text("mid s12" + (" bold" if new else ""), x, y + 4, str(entry)))
    words = (
        ("flush:", f"h({step.computed + 1})", "written")
        if step.is_flush
        else (
            "token",
            str(step.computed),
            f"to entry {step.write_pos}",
        )
    )
    for line, word in enumerate(words):
        parts.append(
            Text("mid " + ("s14 bold" if line == 1 else "s12 m"), 0, -11 + line * 16, word)
        )
    return Body("dial flush" if step.is_flush else "dial", tuple(parts))


def _sector(entry: int, length: int) -> str:
    outer, inner = BATCH.dial, BATCH.dial * 0.6
    # A ring of one entry is two halves: an arc cannot end where it starts.
    pieces = 2 if length == 1 else 1
    path = ""
    for piece in range(pieces):
        first = (entry + piece / pieces) / length * 2 * math.pi
        second = (entry + (piece + 1) / pieces) / length * 2 * math.pi
        large = 1 if second - first > math.pi else 0
        path += (
            f"M{_at(outer, first)}A{n(outer)} {n(outer)} 0 {large} 1 {_at(outer, second)}"
            f"L{_at(inner, second)}A{n(inner)} {n(inner)} 0 {large} 0 {_at(inner, first)}z"
        )
    return path


def _at(radius: float, angle: float) -> str:
    return f"{n(radius * math.sin(angle))} {n(-radius * math.cos(angle))}"
