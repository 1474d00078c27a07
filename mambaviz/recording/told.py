"""A recording as lines of text: what every step did, and what contradicts the rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from mambaviz.log import ids
from mambaviz.recording.lines import CopyRow, Head, Scheduled
from mambaviz.recording.rules import Verdict
from mambaviz.recording.steps import RecordedStep

LABEL_WIDTH = 11
Item = TypeVar("Item", Scheduled, CopyRow)


def head_lines(head: Head) -> Iterator[str]:
    """What was recorded, and what could not be."""
    settings = head.settings
    if head.title:
        yield head.title
    if head.story:
        yield head.story
    facts = [
        f"{settings.mode} mode" if settings.mode else "",
        f"block size {settings.block_size}" if settings.block_size else "",
        f"{settings.num_spec} drafts a step" if settings.num_spec is not None else "",
        f"runner {settings.runner.upper()}" if settings.runner else "",
        f"layout {settings.layout}" if settings.layout else "",
        f"{settings.num_blocks} blocks with the null block" if settings.num_blocks else "",
    ]
    yield f"{head.engine} {head.engine_version}: {', '.join(f for f in facts if f)}"
    for hook in head.missing:
        yield f"not recorded: {hook.seam}{f', {hook.why}' if hook.why else ''}"


def step_title(step: RecordedStep) -> str:
    if step.schedule is None:
        return "no schedule recorded"
    if not step.requests:
        return "nothing scheduled"
    return ", ".join(f"{request.id} {request.scheduled}" for request in step.requests)


def step_lines(step: RecordedStep, only: str | None = None) -> Iterator[str]:
    """One step, phase by phase; ``only`` keeps what is about one request."""
    yield f"step {step.index}: {step_title(step)}"
    if step.lost:
        yield _line("lost", f"{step.lost} lines were not written before this step")
    for action in step.actions:
        yield _line("event", f"{action.kind} {action.request or ''}".rstrip())
    for request in _of(step.requests, only):
        yield _line("schedule", f"{request.id} {_scheduled(request)}")
    schedule = step.schedule
    if schedule is not None and only is None:
        for words, who in (("preempted", schedule.preempted), ("waiting", schedule.waiting)):
            if who:
                yield _line("schedule", f"{words} {', '.join(who)}")
    for request in _of(step.requests, only):
        yield from _rows(step, request.id)
    if step.pre_copy is not None:
        yield from (_line("pre-copy", _copied(row)) for row in _of(step.pre_copy.rows, only))
    if only is None:
        for built in step.metadata:
            names = ("num_decodes", "num_prefills", "num_decode_tokens", "num_prefill_tokens")
            counts = [f"{name} {built.fields[name]}" for name in names if name in built.fields]
            yield _line("metadata", f"group {built.group}: {', '.join(counts)}")
    for request in _of(step.requests, only):
        words = _accepted(step, request)
        if words:
            yield _line("accept", f"{request.id} {words}")
    if step.post_copy is not None:
        yield from (_line("post-copy", _copied(row)) for row in _of(step.post_copy.rows, only))
    if step.commit is not None and only is None:
        if step.commit.computed:
            counts = [f"{name} {count}" for name, count in step.commit.computed.items()]
            yield _line("commit", f"computed now {', '.join(counts)}")
        if step.commit.finished:
            yield _line("commit", f"finished {', '.join(step.commit.finished)}")
    for note in step.notes:
        yield _line("note", f"{note.seam}: {note.what}")


def verdict_lines(verdicts: Sequence[Verdict], *, first: bool) -> Iterator[str]:
    """What is wrong in a step; ``first`` marks the first broken one of the recording."""
    if verdicts and first:
        yield _line("WRONG", "this is the first step that contradicts the rules")
    for verdict in verdicts:
        lamp = f"{verdict.lamp} " if verdict.lamp else ""
        yield _line("WRONG", f"{lamp}in {verdict.phase}, {verdict.rule}: {verdict.sentence}")


def summary(steps: int, verdicts: int, first: Verdict | None, rules: Iterable[str]) -> str:
    judged = counted(steps, "step")
    if first is None:
        return f"{judged}, nothing contradicts the rules."
    return (
        f"{judged}, {counted(verdicts, 'finding')} ({', '.join(sorted(set(rules)))}); "
        f"the first broken step is {first.step}: {first.sentence}."
    )


def counted(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def _line(label: str, text: str) -> str:
    return f"  {label:<{LABEL_WIDTH}}{text}"


def _of(items: Iterable[Item], only: str | None) -> list[Item]:
    return [item for item in items if only is None or item.id == only]


def _scheduled(request: Scheduled) -> str:
    first, count = request.computed, request.scheduled
    tokens = f"token {first}" if count == 1 else f"tokens {first} to {first + count - 1}"
    drafts = f", the last {request.drafts} of them drafts" if request.drafts else ""
    event = "" if request.kind == "running" else f" ({request.kind})"
    return f"{tokens}{drafts}{', padded like a decode' if request.padded_tail else ''}{event}"


def _rows(step: RecordedStep, request: str) -> Iterator[str]:
    lists = step.blocks.lists.get(request, ()) if step.blocks is not None else ()
    rows = step.rows.rows.get(request, ()) if step.rows is not None else ()
    for group in range(max(len(lists), len(rows))):
        block_list, row = step.block_list(request, group), step.row(request, group)
        where = f" group {group}" if max(len(lists), len(rows)) > 1 else ""
        words = []
        if block_list is not None:
            words.append(f"list {ids(list(block_list))}")
        if row is not None and row != block_list:
            words.append(f"worker's row {ids(list(row))}")
        if words:
            yield _line("allocate", f"{request}{where} {', '.join(words)}")


def _copied(row: CopyRow) -> str:
    if row.copies is False:
        column = "" if row.column is None else f"column {row.column}, "
        return f"{row.id}: {column}nothing is copied"
    values = [
        f"{name} {value}"
        for name, value in (
            ("column", row.column),
            ("accepted", row.accepted),
            ("accepted afterwards", row.accepted_out),
        )
        if value is not None
    ]
    if row.src_col is not None and row.dst_col is not None:
        bias = "" if row.bias is None else f", bias {row.bias}"
        blocks = [f"block {one.src} → {one.dst}" for one in row.blocks or ()]
        values.append(f"copies column {row.src_col} → {row.dst_col}{bias}")
        values += dict.fromkeys(blocks)
    return f"{row.id}: {', '.join(values)}"


def _accepted(step: RecordedStep, request: Scheduled) -> str:
    if step.accept is None:
        return ""
    count = (step.accept.counts or {}).get(request.id)
    sampled = (step.accept.sampled or {}).get(request.id)
    if sampled == 0:
        return "goes on with its prefill"
    words = [] if count is None else [f"accepted count {count}"]
    if sampled is not None:
        words.append(f"{sampled} sampled")
    return ", ".join(words)
