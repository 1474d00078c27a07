"""Why and with which tensors: the decision table and the metadata panel, as rows of text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mambaviz.attention.fields import FIELDS, ValueKind
from mambaviz.glossary import TERMS
from mambaviz.log import violation_text
from mambaviz.trace import (
    INVARIANTS,
    PHASES,
    Decision,
    MetadataField,
    Role,
    Step,
    TensorRecord,
    Violation,
)
from mambaviz.viz.views import Frame

# --------------------------------------------------------------------------------------
# Why: the decision
# --------------------------------------------------------------------------------------


# Words of the decision table that mean something else elsewhere, by their glossary term.
WHY_TERMS = {
    "running": "running tokens",
    "new": "new tokens",
    "aligned": "aligned tokens",
    "accepted": "accepted count",
    "drafts": "draft",
    "running column": "running",
    "computed after": "computed",
    "columns": "column",
}


@dataclass(frozen=True)
class WhyRow:
    """One value of a decision, for each request; ``key`` marks the row the phase is about."""

    name: str
    how: str
    values: tuple[str, ...]
    key: bool = False
    rule: bool = False  # a line above

    @property
    def term(self) -> str:
        """The glossary's name for it; empty where its own words say enough."""
        name = WHY_TERMS.get(self.name, self.name)
        return name if name in TERMS else ""


@dataclass(frozen=True)
class Why:
    title: str
    requests: tuple[str, ...]
    rows: tuple[WhyRow, ...]
    formulas: tuple[tuple[str, ...], ...]  # the same as one line a request, where room is short
    reasons: tuple[str, ...]  # why a request's state was not copied


def why(frame: Frame) -> Why:
    """What was decided in this phase, value by value, for the requests of the step."""
    requests = tuple(sorted(frame.step.requests, key=lambda name: _lane_order(frame, name)))
    rows = {
        "pre-copy": _migrate_rows,
        "post-copy": _checkpoint_rows,
    }.get(frame.phase.name, _step_rows)(frame, requests)
    reasons = tuple(
        f"{decision.request}: {decision.outcome}"
        for decision in frame.phase.decisions
        if not decision.copies
    ) + tuple(
        f"{copy.request}, layer {copy.layer} {copy.state}: {copy.skipped}"
        for copy in frame.phase.copies
        if copy.skipped
    )
    title = "Why: the decision" if frame.phase.decisions else "Why: this step’s numbers"
    return Why(title, requests, rows, _formulas(frame, requests), reasons)


def _lane_order(frame: Frame, name: str) -> int:
    return [plan.id for plan in frame.trace.scenario.requests].index(name)


def _row(
    name: str, how: str, values: list[object], *, key: bool = False, rule: bool = False
) -> WhyRow:
    shown = tuple("–" if value is None else str(value) for value in values)
    return WhyRow(name, how, shown, key, rule)


def _decisions(frame: Frame, requests: tuple[str, ...]) -> list[Decision | None]:
    return [frame.decision(request) for request in requests]


def _values(decisions: list[Decision | None], name: str) -> list[object]:
    return [getattr(decision, name) if decision else None for decision in decisions]


def _counts(frame: Frame, requests: tuple[str, ...]) -> list[WhyRow]:
    steps = [frame.step.requests[request] for request in requests]
    of_them = "query tokens (drafts)" if any(step.drafts for step in steps) else "query tokens"
    scheduled = [
        f"{step.num_scheduled} ({step.drafts})" if step.drafts else step.num_scheduled
        for step in steps
    ]
    return [
        _row("computed", "tokens final before this step", [step.num_computed for step in steps]),
        _row("scheduled", of_them, list(scheduled)),
    ]


def _checkpoint_rows(frame: Frame, requests: tuple[str, ...]) -> tuple[WhyRow, ...]:
    found = _decisions(frame, requests)
    if not any(found):
        return _step_rows(frame, requests)
    size = frame.trace.scenario.engine.effective_block_size
    copies = [
        sum(c.request == name and not c.skipped for c in frame.phase.copies) for name in requests
    ]
    return (
        *_counts(frame, requests),
        _row("accepted", "drafts kept in this step, + 1", _values(found, "accepted")),
        _row("running", "computed + scheduled − drafts", _values(found, "running"), rule=True),
        _row("new", "running + accepted − 1", _values(found, "new")),
        _row("aligned", f"⌊new / {size}⌋ · {size}", _values(found, "aligned")),
        _row("bias", "aligned − running", _values(found, "bias"), key=True),
        _row("source column", "running-state column", _values(found, "src_col")),
        _row("target column", f"aligned / {size} − 1", _values(found, "dst_col")),
        _row("accepted out", "1 if source = target", _values(found, "accepted_out")),
        _row("copies", _how_many(frame), list(copies), rule=True),
    )


def _migrate_rows(frame: Frame, requests: tuple[str, ...]) -> tuple[WhyRow, ...]:
    found = _decisions(frame, requests)
    if not any(found):
        return _step_rows(frame, requests)
    size = frame.trace.scenario.engine.effective_block_size
    copies = [
        sum(c.request == name and not c.skipped for c in frame.phase.copies) for name in requests
    ]
    return (
        *_counts(frame, requests),
        _row("accepted", "kept by the step before", _values(found, "accepted")),
        _row("source column", "running-state column", _values(found, "src_col"), rule=True),
        _row("target column", f"⌈(computed + scheduled) / {size}⌉ − 1", _values(found, "dst_col")),
        _row("bias", "accepted − 1", _values(found, "bias"), key=True),
        _row("accepted out", "1 once the state has moved", _values(found, "accepted_out")),
        _row("copies", _how_many(frame), list(copies), rule=True),
    )


def _how_many(frame: Frame) -> str:
    layers = len({spec.layer for spec in frame.trace.states})
    itself = " (onto itself)" if any(copy.onto_itself for copy in frame.phase.copies) else ""
    return f"{layers} layer{'s' if layers > 1 else ''} × conv, temporal{itself}"


def _step_rows(frame: Frame, requests: tuple[str, ...]) -> tuple[WhyRow, ...]:
    steps = [frame.step.requests[request] for request in requests]
    rows = [frame.tables.rows.get(request) for request in requests]
    accepted = [frame.accepted(request) for request in requests]
    after = [
        frame.step.num_computed_after.get(request) if frame.after_accept else None
        for request in requests
    ]
    return (
        *_counts(frame, requests),
        _row("drafts", "proposed tokens among them", [step.drafts for step in steps]),
        _row("tokens known", "prompt and outputs", [step.num_tokens for step in steps]),
        _row("counts as", "decode, extend or prefill", [_class(step.row_class) for step in steps]),
        _row("columns", "length of the worker’s row", [_length(row) for row in rows], rule=True),
        _row("running column", "its block holds the state", [_column(row) for row in rows]),
        _row("accepted count", _whose_count(frame), [_count(row) for row in rows]),
        _row("accepted", "drafts kept, plus one", list(accepted), rule=True),
        _row("computed after", "where the next step starts", list(after)),
    )


def _whose_count(frame: Frame) -> str:
    """The tensors keep the count of the step before until the post-copy has read the new one."""
    return "read offset + 1" if frame.after_accept else "kept by the step before"


def _class(row_class: str) -> str:
    return {"decode": "dec", "short extend": "ext", "prefill": "pre"}[row_class]


def _length(row: Any) -> int | None:
    return len(row.worker_row[0]) if row else None


def _column(row: Any) -> int | None:
    return row.state_col if row else None


def _count(row: Any) -> int | None:
    return row.num_accepted if row else None


def _formulas(frame: Frame, requests: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """One line a request, worked out with its numbers: ``running = 6 + 3 − 2 = 7``."""
    return tuple(tuple(_formula_line(frame, request)) for request in requests)


def _formula_line(frame: Frame, request: str) -> Iterator[str]:
    running, found = frame.step.requests[request], frame.decision(request)
    size = frame.trace.scenario.engine.effective_block_size
    computed, scheduled = running.num_computed, running.num_scheduled
    if found is None:
        yield f"computed = {computed}"
        yield f"scheduled = {scheduled}"
        yield f"drafts = {running.drafts}"
        accepted = frame.accepted(request)
        if accepted is not None:
            yield f"accepted = {accepted}"
        return
    if frame.phase.name == "pre-copy":
        yield f"target column = ⌈({computed} + {scheduled}) / {size}⌉ − 1 = {found.dst_col}"
        if found.bias is not None and found.accepted is not None:
            yield f"bias = {found.accepted} − 1 = {found.bias}"
    else:
        yield f"running = {computed} + {scheduled} − {found.drafts or 0} = {found.running}"
        yield f"new = {found.running} + {found.accepted} − 1 = {found.new}"
        yield f"aligned = ⌊{found.new} / {size}⌋ · {size} = {found.aligned}"
        if found.bias is not None:
            yield f"bias = {found.aligned} − {found.running} = {found.bias}"
    if found.src_col is not None and found.dst_col is not None:
        yield f"column {found.src_col} → {found.dst_col}"
    yield f"accepted out = {found.accepted_out if found.accepted_out is not None else '–'}"
    mine = [copy for copy in frame.phase.copies if copy.request == request]
    done = sum(copy.skipped is None for copy in mine)
    yield f"copies = {done} of {len(mine)}" if mine else "copies = none"


# --------------------------------------------------------------------------------------
# Metadata
# --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """A piece of a value: text, or a block with the role it has."""

    text: str
    block: int | None = None
    role: Role | None = None


@dataclass(frozen=True)
class TokenRange:
    """Tokens of a request that a field is about, ``first`` to ``end`` - 1."""

    request: str
    first: int
    end: int


@dataclass(frozen=True)
class FieldRow:
    name: str
    cells: tuple[Cell, ...]
    kind: str  # dtype and shape
    changed: bool
    tokens: tuple[TokenRange, ...] = ()


@dataclass(frozen=True)
class MetadataTable:
    note: str  # how much of it changed, or that it is not built yet
    rows: tuple[FieldRow, ...]
    empty: tuple[str, ...]  # fields that are None


def metadata(frame: Frame, group: int) -> MetadataTable:
    """Every field of the builder's result for one cache group, as of this phase."""
    built = frame.phase_index >= PHASES.index("metadata")
    step = frame.step if built else _step_before(frame)
    fields = _fields(step, group)
    if not fields:
        return MetadataTable("built in the phase metadata", (), ())
    old = {field.name: field.value for field in _fields(_before(frame, step), group)}
    rows = tuple(
        FieldRow(
            field.name,
            _cells(frame, field, group),
            _kind(field.value),
            bool(old) and old.get(field.name) != field.value,
            _token_ranges(field.name, step),
        )
        for field in fields
        if field.value is not None
    )
    return MetadataTable(
        note=_note(frame, built, rows, bool(old)),
        rows=rows,
        empty=tuple(field.name for field in fields if field.value is None),
    )


def _note(frame: Frame, built: bool, rows: tuple[FieldRow, ...], has_old: bool) -> str:
    if not built:
        return f"of step {frame.step.index - 1}: not built yet"
    if not has_old:
        return "the first of this run"
    changed = sum(row.changed for row in rows)
    if changed == len(rows):
        return f"all new since step {frame.step.index - 1}"
    return f"{changed} of {len(rows)} changed since step {frame.step.index - 1}"


def _step_before(frame: Frame) -> Step | None:
    return frame.trace.steps[frame.step.index - 1] if frame.step.index else None


def _before(frame: Frame, step: Step | None) -> Step | None:
    return frame.trace.steps[step.index - 1] if step is not None and step.index else None


def _fields(step: Step | None, group: int) -> list[MetadataField]:
    if step is None:
        return []
    return next((found.fields for found in step.metadata if found.group == group), [])


# Which tokens of each row a field counts or points at: its query, or all up to a count.
QUERY_FIELDS = ("query_start_loc_d", "query_start_loc_p", "cu_chunk_seqlen_p")


def _token_ranges(name: str, step: Step | None) -> tuple[TokenRange, ...]:
    if step is None:
        return ()
    rows = [(request, step.requests[request]) for request in step.batch_order]
    if name in ("query_start_loc_d", "num_decode_tokens"):
        rows = [row for row in rows if row[1].row_class != "prefill"]
    elif name.endswith("_p") or name == "num_prefill_tokens":
        rows = [row for row in rows if row[1].row_class == "prefill"]
    ranges = []
    for request, running in rows:
        start, end = running.num_computed, running.num_computed + running.num_scheduled
        if name in (*QUERY_FIELDS, "num_decode_tokens", "num_prefill_tokens"):
            ranges.append(TokenRange(request, start, end))
        elif name == "seq_lens":
            ranges.append(TokenRange(request, 0, end))
        elif name in ("num_computed_tokens_p", "has_initial_states_p") and start:
            ranges.append(TokenRange(request, 0, start))
    return tuple(ranges)


def _kind(value: object) -> str:
    if isinstance(value, TensorRecord):
        return f"{value.dtype} [{','.join(str(size) for size in value.shape)}]"
    return type(value).__name__


def _cells(frame: Frame, field: MetadataField, group: int) -> tuple[Cell, ...]:
    value = field.value
    if not isinstance(value, TensorRecord):
        return (Cell(value_text(value)),)
    if 0 in value.shape:
        return (Cell("no rows"),)
    info = FIELDS.get(field.name)
    if info is not None and info.kind is ValueKind.BLOCK_ID:
        return _block_cells(frame, value, group)
    if info is not None and info.kind is ValueKind.COLUMN and len(value.shape) == 1:
        return _column_cells(frame, field.name, value, group)
    return (Cell(_tensor_text(value)),)


def meanings(mode: str) -> dict[str, str]:
    """What each field means and the rule that makes it in this cache mode."""
    return {name: f"{info.meaning} {_rule(info.rule, mode)}." for name, info in FIELDS.items()}


SIGNS = {"s": "seq_len", "c": "computed", "B": "block_size"}  # of the rules in attention/fields


def _rule(rule: str, mode: str) -> str:
    by_mode = [part for part in rule.split("; ") if part.startswith(f"{mode}: ")]
    found = by_mode[0].removeprefix(f"{mode}: ") if by_mode else rule
    for sign, name in SIGNS.items():
        found = re.sub(rf"(?<!['’\w]){sign}\b", name, found)
    return found[:1].upper() + found[1:]


def value_text(value: object) -> str:
    """A field's value as text."""
    if isinstance(value, dict):
        return ", ".join(f"{name}: {value_text(found)}" for name, found in value.items())
    if isinstance(value, TensorRecord):
        return _tensor_text(value)
    return str(value)


MOST_NUMBERS = 24


def _tensor_text(value: TensorRecord) -> str:
    values = value.values if isinstance(value.values, list) else [value.values]
    if values and isinstance(values[0], list):
        rows = [_numbers(row, len(row)) for row in values[:8]]
        return " ".join(rows) + (" …" if len(values) > 8 else "")
    total = value.shape[0] if value.shape else 1
    text = _numbers(values, total)
    if value.fill is not None and total > len(values):
        shown = ", ".join(str(number) for number in values[:MOST_NUMBERS])
        return f"[{shown}{', ' if shown else ''}{value.fill}, …]"
    return text


def _numbers(values: list[Any], total: int) -> str:
    shown = ", ".join(_number(value) for value in values[:MOST_NUMBERS])
    return f"[{shown}{', …' if total > MOST_NUMBERS else ''}]"


def _number(value: Any) -> str:
    if isinstance(value, list):
        return _numbers(value, len(value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _block_cells(frame: Frame, value: TensorRecord, group: int) -> tuple[Cell, ...]:
    """State indices are block ids: they are shown as blocks, row by row."""
    matrix = value.values if len(value.shape) == 2 else [[block] for block in value.values]
    cells: list[Cell] = []
    for row in matrix[:8]:
        cells.append(Cell(" [" if cells else "["))
        for block in row:
            role = frame.owner(group, block)[2] if block > 0 else "null"
            cells.append(Cell(str(block) if block else "∅", block, role))
        cells.append(Cell("]"))
    return tuple(cells)


def _column_cells(frame: Frame, name: str, value: TensorRecord, group: int) -> tuple[Cell, ...]:
    """Columns point at the block that stands there in the request's worker row."""
    order = frame.step.batch_order
    prefills = order[len(order) - len(value.values) :]
    requests = prefills if name.endswith("_p") else order
    cells: list[Cell] = [Cell("[")]
    for index, column in enumerate(value.values):
        row = frame.tables.rows.get(requests[index]) if index < len(requests) else None
        blocks = row.worker_row[group] if row else []
        block = blocks[column] if 0 <= column < len(blocks) else None
        cells.append(Cell(f"{column}", block))
    return (*cells, Cell("]"))


# --------------------------------------------------------------------------------------
# Invariant lamps
# --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Finding:
    """A broken invariant and the place to look at."""

    invariant: str
    phase: int
    text: str
    place: str
    request: str | None
    layer: int | None
    block: int | None
    column: int | None
    field: str  # the metadata field it names, else empty


def findings(step: Step) -> tuple[Finding, ...]:
    return tuple(
        Finding(
            invariant=violation.invariant,
            phase=PHASES.index(violation.phase),
            text=_finding_text(violation),
            place=", ".join(
                f"{name} {value}"
                for name, value in (
                    ("request", violation.request),
                    ("layer", violation.layer),
                    ("state", violation.state),
                    ("column", violation.column),
                    ("block", violation.block),
                )
                if value is not None
            ),
            request=violation.request,
            layer=violation.layer,
            block=violation.block,
            column=violation.column,
            field=next((name for name in FIELDS if violation.message.startswith(name)), ""),
        )
        for violation in step.violations
    )


def _finding_text(violation: Violation) -> str:
    """With its numbers, unless the message has them."""
    if "should be" in violation.message:
        return f"{violation.invariant} in {violation.phase}: {violation.message}"
    return violation_text(violation)


def lamp_texts(step: Step) -> tuple[str, ...]:
    """What each lamp checked in this step, in the order I1 to I7."""
    texts = []
    for invariant in INVARIANTS:
        check = next((found for found in step.checks if found.invariant == invariant), None)
        compared = f"{check.compared} compared" if check else "nothing to compare"
        worst = f", largest difference {check.worst:.1e}" if check and check.worst else ""
        meaning = TERMS[invariant].meaning.rstrip(".")
        texts.append(f"{invariant}: {meaning[:1].lower()}{meaning[1:]}; {compared}{worst}")
    return tuple(texts)
