"""The pictures in words, for whoever cannot see them: said from the same views they draw.

Every function gives lines of text that stand on their own; the page keeps them beside the picture
and lets them follow the step.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from mambaviz.trace import Step
from mambaviz.viz.views import (
    BarView,
    BlockView,
    ChangedState,
    ChangeView,
    CopyView,
    Label,
    LaneView,
    Rows,
    StateView,
    StripView,
    TokenStatus,
)

Lines = tuple[str, ...]

STATUS_NAME: dict[TokenStatus, str] = {
    "prompt": "prompt",
    "reused": "found in the cache",
    "ahead": "not computed yet",
    "generated": "generated",
    "pending": "draft, not verified yet",
    "accepted": "accepted draft",
    "rejected": "rejected draft",
}


def lane(view: LaneView) -> Lines:
    """Tokens, blocks and copies of one request."""
    head = f"Request {view.name}: {view.note}." if view.note else f"Request {view.name}."
    lines = [head]
    if view.tokens:
        lines.append(f"Tokens: {_statuses(view.tokens)}.")
    if view.query:
        lines.append(f"{_sentence(view.query.text)}.")
    lines += [f"Column {cell.column}: {block(cell)}{_listed(view, cell)}." for cell in view.cells]
    lines += [f"{_sentence(copy_made(copy))}." for copy in view.copies]
    return tuple(lines)


def block(cell: BlockView) -> str:
    """``block 3, running, state after 7 tokens, window t5 t6 t7 from row 1``."""
    if cell.role == "null":
        return "null block, nothing is kept here"
    parts = [f"block {cell.block}", _role(cell)]
    if cell.holder:
        parts.append(f"taken by {cell.holder}")
    elif cell.state:
        parts.append(_holds(cell.absorbed) + (" of an earlier owner" if cell.stale else ""))
        if cell.window:
            parts.append(f"window {_rows(cell.window)} from row {cell.offset}")
    if cell.wrong:
        parts.append("an invariant is broken here")
    return ", ".join(parts)


def _role(cell: BlockView | BarView) -> str:
    return "retired from the row, still cached" if cell.kept else cell.role


def _listed(view: LaneView, cell: BlockView) -> str:
    """Where the scheduler's list says something else than the worker's row."""
    listed = view.block_list[cell.column] if cell.column < len(view.block_list) else None
    if listed == cell.block or listed is None:
        return ""
    return f"; the scheduler’s list has {f'block {listed}' if listed else 'dropped it'}"


def copy_made(copy: CopyView) -> str:
    """Both halves of a copy, with what stopped them if anything did."""
    parts = [f"{copy.kind}, bias {copy.bias}"]
    if copy.has_conv:
        moved = f"{copy.conv_rows} conv rows from block {copy.src_block} to {copy.dst_block}"
        parts.append(f"conv stopped, {copy.conv_skipped}" if copy.conv_skipped else moved)
    if copy.has_temporal:
        moved = f"temporal state from block {copy.temporal_block} to {copy.dst_block}"
        stopped = f"temporal stopped, {copy.temporal_skipped}"
        if copy.temporal_stays:
            moved = f"temporal state stays in block {copy.dst_block}, copied onto itself"
        parts.append(stopped if copy.temporal_skipped else moved)
    return ": ".join((parts[0], "; ".join(parts[1:])))


def state(view: StateView) -> Lines:
    """Conv windows and temporal states of one request in one layer."""
    if view.note:
        return (f"No state on show: {view.note}.",)
    lines = [f"{_sentence(_strip(strip))}." for strip in view.strips]
    if view.copy is not None:
        lines.append(f"{_sentence(copy_made(view.copy))}.")
    lines += [f"Column {bar.column}: {_bar(bar)}." for bar in view.bars]
    return tuple(lines)


def _strip(strip: StripView) -> str:
    rows = _rows(tuple(row for row, _ in strip.rows))
    window = ", nothing written"
    if strip.window is not None:
        first, length = strip.window
        window = f", the window is rows {first} to {first + length - 1}"
    wrong = ", an invariant is broken here" if strip.wrong else ""
    caption = f"conv state of block {strip.block}, {strip.caption}"
    return f"{caption}: rows {rows}{window}{wrong}"


def _bar(bar: BarView) -> str:
    if bar.role == "null":
        return "null block, nothing is kept here"
    held = f"taken by {bar.holder}" if bar.holder else _holds(bar.absorbed)
    parts = [f"block {bar.block}", _role(bar), held]
    if bar.stale:
        parts.append("bytes of an earlier owner")
    if bar.was is not None and bar.role != "retired":
        parts.append(f"before this phase after {_tokens(bar.was)}")
    rejected = sum(status == "rejected" for status in bar.cells)
    if rejected and not bar.holder:
        parts.append(f"{rejected} of them rejected")
    if bar.wrong:
        parts.append("an invariant is broken here")
    return ", ".join(parts)


def changes(views: Sequence[ChangeView]) -> Lines:
    """Blocks that a phase changed, before and after."""
    if not views:
        return ("No block changes in this phase.",)
    return tuple(_change(view) for view in views)


def _change(view: ChangeView) -> str:
    where = f"of {view.request}, column {view.column}" if view.request else "held by nobody"
    states = "; ".join(_changed(state) for state in view.states)
    return f"Block {view.block}, {view.role}, {where}: {states}."


def _changed(state: ChangedState) -> str:
    before, after = (_label(state, at) for at in (state.label_before, state.label_after))
    pairs = zip(state.before or bytes(len(state.after)), state.after, strict=True)
    count = sum(old != new for old, new in pairs)
    return f"{state.state} before {before}, after {after}, {count} of {len(state.after)} B differ"


def _label(state: ChangedState, label: Label) -> str:
    if state.state == "temporal":
        return "empty" if label.absorbed is None else f"h({label.absorbed})"
    return f"rows {_rows(label.rows)}" if any(row is not None for row in label.rows) else "empty"


def overview(step: Step, title: str, events: Sequence[str]) -> str:
    """One step of the whole run in a line; ``events`` are words, as they came."""
    counted = [f"{len(list(same))} × {event}" for event, same in groupby(sorted(events))]
    return f"Step {step.index}: {title}{'; ' if counted else ''}{', '.join(counted)}."


# --------------------------------------------------------------------------------------
# Grammar
# --------------------------------------------------------------------------------------


def _holds(absorbed: int | None) -> str:
    return "empty" if absorbed is None else f"state after {_tokens(absorbed)}"


def _tokens(count: int) -> str:
    return "1 token" if count == 1 else f"{count} tokens"


def _rows(rows: Rows) -> str:
    return " ".join("empty" if row is None else f"t{row}" for row in rows)


def _statuses(tokens: Sequence[TokenStatus]) -> str:
    """``0 to 5 prompt, 6 generated``: neighbours of one status together."""
    parts, first = [], 0
    for status, same in groupby(tokens):
        last = first + len(list(same)) - 1
        places = str(first) if first == last else f"{first} to {last}"
        parts.append(f"{places} {STATUS_NAME[status]}")
        first = last + 1
    return ", ".join(parts)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
