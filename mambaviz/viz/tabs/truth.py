"""The truth strip: one step by every back end, with its distance from token 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

from mambaviz.trace import Trace
from mambaviz.truth import QUANTITIES, Distance, Measured, Quantity
from mambaviz.viz.tabs.html import table

Standing = Literal["not run yet", "running", "done", "unavailable", "failed", "stopped"]


@dataclass(frozen=True)
class TruthRow:
    """One line of the strip. ``note`` says how far a run is, or why there is none."""

    name: str
    standing: Standing
    note: str = ""
    measured: Measured | None = None


def truth_html(
    trace: Trace,
    step: int,
    rows: Sequence[TruthRow],
    allowed: float,
    gaps: dict[Quantity, float | None],
) -> str:
    """``allowed`` is the tolerance, relative to the largest value; ``gaps`` the largest
    differences between any two of the runs that are done."""
    lines = [_line(row) for row in rows]
    lines.append(
        '<tr><th scope="row">from token 0</th><td colspan="5">the oracle: the plain recurrence '
        "over the same tokens, no cache and no blocks; what the rows above are held against</td>"
        "</tr>"
    )
    if sum(row.measured is not None for row in rows) > 1:
        cells = "".join(f"<td>{_number(gaps[name])}</td>" for name in QUANTITIES)
        lines.append(
            f'<tr><th scope="row">between any two of them</th>{cells}<td></td><td></td></tr>'
        )
    body = table(
        f"Step {step}: the largest absolute difference from token 0",
        ("computed by", "conv rows", "temporal states", "outputs", "copies", ""),
        lines,
        "truth",
    )
    return (
        f'<div class="strip">{body}<p class="note">{escape(_tolerance(trace, allowed))}</p></div>'
    )


def _line(row: TruthRow) -> str:
    head = f'<th scope="row">{escape(row.name)}</th>'
    if row.measured is None:
        note = f": {row.note}" if row.note else ""
        return (
            f'<tr class="{row.standing.replace(" ", "-")}">{head}<td colspan="5">'
            f"{escape(row.standing + note)}</td></tr>"
        )
    found = row.measured
    cells = "".join(_distance(part) for part in (found.conv, found.temporal, found.outputs))
    verdict = "✓ within the tolerance" if found.ok else "✗ beyond the tolerance"
    worst = next(
        (part.worst for part in (found.conv, found.temporal, found.outputs) if part.worst), ""
    )
    where = f": {worst}" if worst else ""
    cls = "ok" if found.ok else "wrong"
    note = f" <small>{escape(row.note)}</small>" if row.note else ""
    return (
        f'<tr>{head}{cells}{_copies(found)}<td class="{cls}">{escape(verdict + where)}{note}</td>'
        "</tr>"
    )


def _distance(part: Distance) -> str:
    if part.unknown:
        noun = "label" if part.unknown == 1 else "labels"
        return f'<td class="wrong">✗ {part.unknown} {noun} beyond every history</td>'
    if part.largest is None:
        return "<td>nothing written</td>"
    mark = "" if part.ok else "✗ "
    cls = "" if part.ok else ' class="wrong"'
    return f'<td{cls} title="{part.compared} numbers compared">{mark}{_number(part.largest)}</td>'


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return "0, equal" if value == 0 else f"{value:.1e}"


def _copies(found: Measured) -> str:
    if not found.copies:
        return "<td>no copy</td>"
    if found.equal == found.copies:
        return f"<td>{found.equal} of {found.copies} byte for byte</td>"
    return f'<td class="wrong">✗ {found.equal} of {found.copies} byte for byte</td>'


def _tolerance(trace: Trace, allowed: float) -> str:
    dtype = trace.scenario.layer.cache_dtype
    return (
        f"Tolerance: conv rows and copies to the last bit; temporal states and outputs "
        f"{allowed:.2g} of the largest value ({dtype} cache), head 0 of a state to the last bit. "
        "A state is held against as many tokens as its own bytes say it has absorbed."
    )
