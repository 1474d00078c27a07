"""Provenance in words and tables: whose tokens a block's state is, and the way it came."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from mambaviz.history import moment_of
from mambaviz.provenance import BlockOrigin, Hop, RowOrigin, Taken, TemporalOrigin
from mambaviz.trace import Role
from mambaviz.viz.legend import ROLE_NAME
from mambaviz.viz.shapes import KIND_NAME
from mambaviz.viz.tabs.html import block, count, go, nothing, span, table

UNKNOWN = "unknown bytes: no request’s history gives these"


def provenance_html(origin: BlockOrigin, role: Role) -> str:
    """Everything that one block holds in one layer, cell by cell, with the way it came."""
    step, phase = moment_of(origin.frame)
    head = (
        f"<h4>Block {block(origin.block, role)}, {ROLE_NAME[role]}, in layer {origin.layer} "
        f"after {escape(phase)} of step {step}</h4>"
    )
    if not origin.written:
        said = nothing(f"Nothing has been written to block {origin.block} yet: it is all zeros.")
        return f'<div class="origin">{head}{said}</div>'
    parts = [_summary(origin)]
    if origin.temporal is not None:
        parts.append(_temporal(origin.temporal, step))
    if origin.conv is not None:
        parts.append(_conv(origin.conv, step))
    return f'<div class="origin">{head}{"".join(parts)}</div>'


def _summary(origin: BlockOrigin) -> str:
    if origin.known:
        return (
            '<p class="note">Read from the bytes, recomputed from token 0, and followed back '
            "through the run: every cell is accounted for.</p>"
        )
    return f'<p class="wrong">✗ {UNKNOWN}. The cells concerned are marked below.</p>'


# --------------------------------------------------------------------------------------
# Temporal state
# --------------------------------------------------------------------------------------


def _temporal(origin: TemporalOrigin, now: int) -> str:
    if origin.absorbed == 0:
        said = nothing("No token absorbed: all zeros.") if origin.known else _unknown(origin.off)
        return f"<section><h5>Temporal state</h5>{said}</section>"
    owner = f" of {escape(origin.request)}" if origin.known else ""
    verdict = "" if origin.known else _unknown(origin.off)
    rows = [_taken_row(taken, now) for taken in origin.taken]
    tokens = table(
        f"Which forward took in which tokens of h({origin.absorbed})",
        ("tokens", "of", "taken in"),
        rows,
    )
    way = "".join(f"<li>{_hop(hop, now)}</li>" for hop in reversed(origin.hops))
    return (
        f"<section><h5>Temporal state h({origin.absorbed}): {span(0, origin.absorbed - 1)}{owner}"
        f'</h5>{verdict}<div class="beside">{tokens}'
        f'<div><h6>The way it came</h6><ol class="way">{way}</ol></div></div></section>'
    )


def _unknown(off: float | None) -> str:
    near = "" if off is None else f" (the nearest history is off by {off:.2g})"
    return f'<p class="wrong">✗ {UNKNOWN}{near}.</p>'


def _taken_row(taken: Taken, now: int) -> str:
    draft = "" if taken.accepted else ' <span class="draft">a draft not kept among them</span>'
    button = go(taken.step, "forward", now=taken.step == now)
    return (
        f'<tr><th scope="row">{span(taken.first, taken.last)}</th>'
        f"<td>{escape(taken.request)}</td><td>{button}{draft}</td></tr>"
    )


# --------------------------------------------------------------------------------------
# Conv state
# --------------------------------------------------------------------------------------


def _conv(rows: Sequence[RowOrigin], now: int) -> str:
    lines = [_row(row, now) for row in rows]
    body = table(
        "Conv state, row by row: the token that each row is the input of, and the way it came",
        ("row", "token", "of", "the way it came"),
        lines,
    )
    return f"<section><h5>Conv state, {count(len(rows), 'row')}</h5>{body}</section>"


def _row(row: RowOrigin, now: int) -> str:
    head = f'<th scope="row">{row.row}</th>'
    if row.position is None and row.known:
        return f'<tr>{head}<td colspan="3" class="faint">never written</td></tr>'
    if not row.known:
        label = "?" if row.position is None else f"t{row.position}?"
        return (
            f'<tr class="wrong">{head}<td>{label}</td><td></td>'
            f"<td>✗ {UNKNOWN}. {' '.join(_hops(row.hops, now))}</td></tr>"
        )
    way = " → ".join(_hops(row.hops, now))
    return (
        f"<tr>{head}<td><b>t{row.position}</b> <small>id {row.token}</small></td>"
        f"<td>{escape(row.request)}, {row.kind}</td><td>{way}</td></tr>"
    )


def _hops(hops: Sequence[Hop], now: int) -> Iterator[str]:
    """From the forward that computed it to here."""
    for hop in reversed(hops):
        yield _hop(hop, now, short=True)


def _hop(hop: Hop, now: int, *, short: bool = False) -> str:
    button = go(hop.step, hop.phase, f"step {hop.step}", now=hop.step == now)
    return f'<span class="hop">{button} {escape(hop_words(hop, short=short))}</span>'


def hop_words(hop: Hop, *, short: bool = False) -> str:
    """One station of the way, without its step."""
    row = "" if hop.row is None else f" row {hop.row}"
    source_row = "" if hop.source_row is None else f" row {hop.source_row}"
    match hop.kind:
        case "forward":
            if short or hop.source is None:
                after = "" if short else ", from zero"
                return f"forward of {hop.request} wrote block {hop.block}{row}{after}"
            return f"forward of {hop.request} went on from block {hop.source} into {hop.block}"
        case "carried":
            since = moment_of(hop.since)[0] if hop.since is not None else hop.step
            forwards = "forward" if since == hop.step else f"forwards since step {since}"
            return f"{forwards} kept it: block {hop.source}{source_row} → {hop.block}{row}"
        case "migrate" | "checkpoint":
            name = KIND_NAME["migrate" if hop.kind == "migrate" else "checkpoint"]
            return f"{name} block {hop.source}{source_row} → {hop.block}{row}"
        case "hit":
            return f"prefix hit: {hop.request} found block {hop.block}"
        case "unknown":
            return f"something wrote block {hop.block}{row}: the trail ends"
