"""What a moment of some runs says in words: headline, sentence, what to notice, what differs.

Everything is worked out from the traces; nothing is said that the runs on show do not do.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from mambaviz.differences import Difference
from mambaviz.prefix_hits import Admission
from mambaviz.trace import PHASES, PhaseName, Violation
from mambaviz.viz.compare.beside import SideBySide
from mambaviz.viz.compare.charts import spaced
from mambaviz.viz.shapes import KIND_NAME
from mambaviz.viz.words import Span, Words

Line = tuple[Span, ...]
MOST_ROWS = 40  # of the table of differences


@dataclass(frozen=True)
class DifferenceRow:
    """A fact in which the runs differ, with each run's text for it."""

    fact: str
    values: tuple[str, ...]


def headline(side: SideBySide, moment: int, phase: PhaseName) -> Words:
    """The one thing to see at this moment."""
    for tell in (_broken, _admission, _parted, _ended):
        told = tell(side, moment, phase)
        if told is not None:
            return told
    return _going_on(side, moment)


# --------------------------------------------------------------------------------------
# Headline and sentence
# --------------------------------------------------------------------------------------


def _violations(side: SideBySide, run: int, moment: int, phase: PhaseName) -> list[Violation]:
    step = side.step(run, moment)
    upto = PHASES.index(phase)
    found = step.violations if step is not None else []
    return [one for one in found if PHASES.index(one.phase) <= upto]


def _broken(side: SideBySide, moment: int, phase: PhaseName) -> Words | None:
    broken = {
        name: found
        for run, name in enumerate(side.names)
        if (found := _violations(side, run, moment, phase))
    }
    if not broken:
        return None
    parts = [
        f"{_names(names)} {_verb(names, 'break', 'breaks')} in {_quoted(name)}"
        for name, found in broken.items()
        for names in [_invariants(found)]
    ]
    first = next(iter(broken.values()))[0]
    told = f"{first.invariant} in {first.phase}: {_stop(first.message)}"
    whole = [name for name in side.names if name not in broken]
    spans = [Span(told, "wrong")]
    if whole:
        spans.append(Span(f" In {_runs_named(whole)} every invariant holds."))
    return Words(f"{'; '.join(parts)}.", tuple(spans))


def _invariants(found: Sequence[Violation]) -> list[str]:
    return sorted({one.invariant for one in found})


def _admission(side: SideBySide, moment: int, _phase: PhaseName) -> Words | None:
    """A request comes in, and the runs find different prefixes for it, or the same one."""
    focus = side.focus(moment)
    arrived = _arriving(side, focus, moment)
    if not any(one is not None and one.reused for one in arrived):
        return None
    known = max(one.known for one in arrived if one is not None)
    owner = next((one.shared for one in arrived if one is not None and one.shared), "")
    asks = f"{owner}’s first {known} tokens" if owner else f"{known} tokens"
    ends: dict[str, list[str]] = {}
    for name, one in zip(side.names, arrived, strict=True):
        if one is not None:
            ends.setdefault(_resumes(one), []).append(name)
    order = sorted(ends.items(), key=lambda item: item[0].startswith("start"))
    parts = [_how(names, end, index == 0) for index, (end, names) in enumerate(order)]
    if len(ends) == 1 and len(side.names) == sum(one is not None for one in arrived):
        parts = [f"all {_all_how(next(iter(ends)))}"]
    return Words(f"{focus} asks with {asks}: {', '.join(parts)}.", _why_hits(side, arrived))


def _arriving(side: SideBySide, request: str, moment: int) -> list[Admission | None]:
    """The request's admission in each run, where it is at this very moment."""
    steps = side.moments[moment].steps
    return [
        next((one for one in found if one.request == request and one.step == step), None)
        for found, step in zip(side.admissions, steps, strict=True)
    ]


def _resumes(one: Admission) -> str:
    return f"after {one.reused}" if one.reused else "start over"


def _how(names: list[str], end: str, first: bool) -> str:
    several = len(names) > 1
    if end == "start over":
        return f"{_runs_named(names)} {'start' if several else 'starts'} over"
    verb = ("resume " if several else "resumes ") if first else ""
    return f"{_runs_named(names)} {verb}{end}"


def _all_how(end: str) -> str:
    return end if end == "start over" else f"resume {end}"


def _why_hits(side: SideBySide, arrived: Sequence[Admission | None]) -> Line:
    engines = [trace.scenario.engine for trace in side.traces]
    reused = {e.mode: one.reused for e, one in zip(engines, arrived, strict=True) if one}
    drafts = any(engine.num_spec for engine in engines)
    registers = any(engine.register_draft_filled_blocks for engine in engines)
    if drafts and not registers and reused.get("all", 0) < reused.get("align", 0):
        return (
            Span(
                "With drafts, a block that fills inside a decode query never holds its boundary "
                "state in "
            ),
            Span("all", "strong"),
            Span(" mode, so only prefill boundaries can be reused. "),
            Span("align", "strong"),
            Span(" copies the state to the boundary, and can."),
        )
    found = [one for one in arrived if one is not None]
    computed = ", ".join(
        f"{name} {one.known - one.reused}"
        for name, one in zip(side.names, arrived, strict=True)
        if one is not None
    )
    return (Span(f"Of {found[0].known} tokens, this many are left to compute: {computed}."),)


def _parted(side: SideBySide, moment: int, phase: PhaseName) -> Words | None:
    parting = side.parting
    if parting is None:
        told = "The runs agree in everything that is compared, from the first step to the last."
        spans = _numbers_line(side, moment)
        return Words(told, spans)
    if moment < parting.moment or (
        moment == parting.moment and PHASES.index(phase) < PHASES.index(parting.phase)
    ):
        where = f"They part at {moment_name(side, parting.moment)}, in {parting.phase}."
        return Words("Up to here the runs are the same.", (Span(where),))
    if moment == parting.moment:
        first = parting.differences[0]
        told = "; ".join(
            f"{_quoted(name)} {value if value is not None else 'nothing'}"
            for name, value in zip(side.names, first.values, strict=True)
        )
        more = len(parting.differences) - 1
        tail = f", and {more} more" if more else ""
        return Words(
            f"Here the runs part, in {parting.phase}.",
            (Span(fact_name(first), "strong"), Span(f": {told}{tail}.")),
        )
    return None


def _ended(side: SideBySide, moment: int, _phase: PhaseName) -> Words | None:
    steps = side.moments[moment].steps
    gone = [name for name, step in zip(side.names, steps, strict=True) if step is None]
    if not gone:
        return None
    told = f"{_runs_named(gone)} {'have' if len(gone) > 1 else 'has'} ended."
    if side.lock is not None:
        told = f"{_runs_named(gone)} never {'get' if len(gone) > 1 else 'gets'} to this token."
    return Words(told, _numbers_line(side, moment))


def _going_on(side: SideBySide, moment: int) -> Words:
    copied = [
        None if (step := side.moments[moment].steps[run]) is None else found[step].bytes_copied
        for run, found in enumerate(side.costs)
    ]
    here = moment_name(side, moment)
    if len(set(copied)) == 1:
        told = f"{spaced(copied[0])} bytes each" if copied[0] else "nothing"
        text = f"At {here} the runs copy {told}."
    else:
        groups: dict[int | None, list[str]] = {}
        for name, count in zip(side.names, copied, strict=True):
            groups.setdefault(count, []).append(name)
        parts = [
            f"{_runs_named(names)} {_verb(names, 'copy', 'copies')} "
            + (f"{spaced(count)} bytes" if count else "nothing")
            for count, names in sorted(groups.items(), key=lambda item: -(item[0] or 0))
        ]
        text = f"At {here} {', '.join(parts)}."
    return Words(text, _numbers_line(side, moment))


def _numbers_line(side: SideBySide, moment: int) -> Line:
    held = _each(side, [side.held(run, moment) for run in range(len(side.traces))])
    copied = _each(side, [side.total_copied(run, moment) for run in range(len(side.traces))])
    return (Span(f"Blocks held: {held}. Bytes copied so far: {copied}."),)


def _each(side: SideBySide, values: Sequence[int | None]) -> str:
    if len(set(values)) == 1:
        return "–" if values[0] is None else f"{spaced(values[0])} each"
    return ", ".join(
        f"{_quoted(name)} {'–' if value is None else spaced(value)}"
        for name, value in zip(side.names, values, strict=True)
    )


# --------------------------------------------------------------------------------------
# What to notice
# --------------------------------------------------------------------------------------


def notes(side: SideBySide, moment: int, phase: PhaseName) -> tuple[Line, ...]:
    """A few sentences that a reader might miss the reason of."""
    focus = side.focus(moment)
    arrived = _arriving(side, focus, moment)
    found: list[Line] = []
    if any(one is not None and one.reused for one in arrived):
        found += _cap_notes(side, arrived)
        found += _hit_source_notes(side, moment, focus, arrived)
    found += _broken_notes(side, moment, phase)
    found += _prefill_notes(side, moment)
    found += _piece_notes(side, moment)
    found += _launch_notes(side, moment)
    return tuple(found)


def _cap_notes(side: SideBySide, arrived: Sequence[Admission | None]) -> list[Line]:
    for name, one in zip(side.names, arrived, strict=True):
        if one is None or not one.found:
            continue
        longest, most = one.found[-1], one.most_blocks
        if longest.tokens > most * one.block_size:
            return [
                (
                    Span(
                        f"h({longest.tokens}) is there in {name}, but a hit covers at most "
                        f"({one.known} − 1) // {one.block_size} = "
                    ),
                    Span(str(most), "strong"),
                    Span(" blocks: one token is always computed."),
                )
            ]
    return []


def _hit_source_notes(
    side: SideBySide, moment: int, request: str, arrived: Sequence[Admission | None]
) -> list[Line]:
    """align copies the hit block into the running one; all mode reads it where it lies."""
    found: list[Line] = []
    for run, (name, one) in enumerate(zip(side.names, arrived, strict=True)):
        step = side.step(run, moment)
        if one is None or not one.reused or step is None:
            continue
        copy = next(
            (
                copy
                for copy in step.phase("pre-copy").copies
                if copy.request == request and copy.skipped is None and copy.layer == side.layer
            ),
            None,
        )
        if copy is not None:
            found.append(
                (
                    Span(
                        f"Only the hit block is needed. In {name} it is the source of {request}’s "
                    ),
                    Span(f"MIGRATE, bias {copy.bias}", "move"),
                    Span(
                        f": column {copy.src_col}, block {copy.src_block}, into column "
                        f"{copy.dst_col}, block {copy.dst_block}."
                    ),
                )
            )
        elif side.traces[run].scenario.engine.mode == "all":
            found.append(_read_in_place(side, run, step.index, request, one))
    return found


def _read_in_place(side: SideBySide, run: int, step: int, request: str, one: Admission) -> Line:
    column = one.reused // one.block_size - 1
    cells = side.rows[run].at(step, "forward")[request].cells
    written = [cell for cell in cells if cell.column > column and cell.state.startswith("h(")]
    told = ", ".join(f"{cell.state} to column {cell.column}" for cell in written)
    return (
        Span(
            f"In {side.names[run]} {request} reads column {column} where it lies and writes "
            f"{told}; nothing is copied."
        ),
    )


def _broken_notes(side: SideBySide, moment: int, phase: PhaseName) -> list[Line]:
    """The first finding of every invariant that is broken by now."""
    lines: list[Line] = []
    for run, name in enumerate(side.names):
        found = _violations(side, run, moment, phase)
        for invariant in _invariants(found):
            first = next(one for one in found if one.invariant == invariant)
            text = f"{invariant} in {first.phase}: {first.message}"
            lines.append((Span(f"{name}: "), Span(text, "wrong")))
    return lines


def _prefill_notes(side: SideBySide, moment: int) -> list[Line]:
    """Where one run needs more steps for the same prompt than another."""
    if side.lock is not None:
        return []
    for request in side.requests:
        counts = [_prefill_steps(side, run, request, moment) for run in range(len(side.traces))]
        known = [count for count in counts if count]
        if len(known) < 2 or len(set(known)) == 1:
            continue
        most = max(known)
        slow = [name for name, count in zip(side.names, counts, strict=True) if count == most]
        run = counts.index(most)
        rule = ", whose prefill chunk stops at a boundary," if _aligned(side, run) else ""
        prompt = next(
            p.num_prompt_tokens for p in side.traces[run].scenario.requests if p.id == request
        )
        return [
            (
                Span(
                    f"{_runs_named(slow)}{rule} needs {most} steps for {request}’s {prompt} prompt "
                    f"tokens where {min(known)} would do."
                ),
            )
        ]
    return []


def _piece_notes(side: SideBySide, moment: int) -> list[Line]:
    """Where the same copy is made of other pieces: the layouts of section 3.1."""
    steps = [side.step(run, moment) for run in range(len(side.traces))]
    per_run = [
        {
            (copy.request, copy.kind): copy
            for phase in (step.phases if step is not None else ())
            for copy in phase.copies
            if copy.layer == side.layer and copy.state == "conv" and copy.skipped is None
        }
        for step in steps
    ]
    for key, first in per_run[0].items():
        copies = [found.get(key) for found in per_run]
        pieces = [
            (copy.source.rows, copy.source.length) if copy and copy.source else None
            for copy in copies
        ]
        if None in pieces or len(set(pieces)) == 1 or len({c.bias for c in copies if c}) > 1:
            continue
        told = ", ".join(
            f"{name} as {_pieces(*piece)}"
            for name, piece in zip(side.names, pieces, strict=True)
            if piece is not None
        )
        move = Span(f"{KIND_NAME[first.kind]}, bias {first.bias}", "move")
        return [(Span(f"{first.request}’s conv rows are copied, "), move, Span(f": {told}."))]
    return []


def _pieces(rows: int, length: int) -> str:
    return f"one piece of {length} bytes" if rows == 1 else f"{rows} pieces of {length} bytes"


def _launch_notes(side: SideBySide, moment: int) -> list[Line]:
    """Where runs of one mode launch other kernels to move the same states."""
    if len({trace.scenario.engine.runner for trace in side.traces}) == 1:
        return []
    lines: list[Line] = []
    for run, name in enumerate(side.names):
        step = side.step(run, moment)
        if step is None:
            continue
        parts = []
        places: tuple[tuple[PhaseName, str], ...] = (
            ("pre-copy", "before the forward"),
            ("post-copy", "after it"),
        )
        for phase_name, words in places:
            launches = step.phase(phase_name).launches
            kernels = ", ".join(dict.fromkeys(launch.kernel for launch in launches)) or "none"
            parts.append(f"{words} {kernels}")
        lines.append((Span(name, "strong"), Span(f" launches {'; '.join(parts)}.")))
    return lines


def _aligned(side: SideBySide, run: int) -> bool:
    return side.traces[run].scenario.engine.mode == "align"


def _prefill_steps(side: SideBySide, run: int, request: str, moment: int) -> int:
    """Steps of the request's first prefill in a run, once it is over; 0 before."""
    upto = side.latest(run, moment)
    if upto is None:
        return 0
    count = 0
    for step in side.traces[run].steps[: upto + 1]:
        found = step.requests.get(request)
        if found is None:
            continue
        count += 1
        if found.sampled:
            return count
    return 0


# --------------------------------------------------------------------------------------
# What differs
# --------------------------------------------------------------------------------------


def difference_rows(found: Sequence[Difference]) -> tuple[DifferenceRow, ...]:
    """The differences as rows of text; block ids of one request share a row."""
    rows: list[DifferenceRow] = []
    lists: dict[str, list[Difference]] = {}
    for one in found:
        if one.fact.kind == "blocks":
            lists.setdefault(one.fact.request, []).append(one)
        else:
            rows.append(DifferenceRow(fact_name(one), tuple(_shown(v) for v in one.values)))
    blocks = [
        DifferenceRow(
            f"{request}, {_columns(parts)}",
            tuple(" ".join(part.values[run] or "–" for part in parts) for run in _runs(parts)),
        )
        for request, parts in lists.items()
    ]
    first = sum(one.fact.kind == "schedule" for one in found)
    rows = rows[:first] + blocks + rows[first:]
    rows.sort(key=lambda row: not row.fact.startswith("invariant"))
    return tuple(rows[:MOST_ROWS])


def _runs(parts: Sequence[Difference]) -> range:
    return range(len(parts[0].values))


def _columns(parts: Sequence[Difference]) -> str:
    numbers = [part.fact.item.removeprefix("column ") for part in parts]
    return f"column {numbers[0]}" if len(numbers) == 1 else f"columns {' '.join(numbers)}"


def _shown(value: str | None) -> str:
    if value is None:
        return "–"
    return value or "the same"


def fact_name(one: Difference) -> str:
    """``B, state at column 3``: what a fact is about, in words."""
    kind, request, item = one.fact
    match kind:
        case "state":
            return f"{request}, state in {item}"
        case "blocks":
            return f"{request}, block in {item}"
        case "worker row":
            return f"{request}, worker’s row"
        case "invariants":
            return f"invariant {item}"
        case "metadata":
            return item
        case _:
            return f"{request}, {item}" if request else item


def request_rows(side: SideBySide, moment: int) -> tuple[DifferenceRow, ...]:
    """What each request does at a moment, run by run: ``8 → 11`` tokens computed."""
    return tuple(
        DifferenceRow(
            request,
            tuple(_progress(side, run, request, moment) for run in range(len(side.traces))),
        )
        for request in side.requests
    )


def _progress(side: SideBySide, run: int, request: str, moment: int) -> str:
    step = side.step(run, moment)
    running = step.requests.get(request) if step is not None else None
    if step is None or running is None:
        return "–"
    text = f"{running.num_computed} → {step.num_computed_after[request]}"
    if len(side.traces) == 2 and running.drafts and running.accepted_drafts is not None:
        text += f", kept {running.accepted_drafts} of {running.drafts}"
    return text


# --------------------------------------------------------------------------------------
# Numbers and names
# --------------------------------------------------------------------------------------


def numbers(side: SideBySide, run: int, moment: int) -> tuple[tuple[str, str], ...]:
    """The three costs of a run up to a moment, with their names."""
    focus = side.focus(moment)
    held, copied = side.held(run, moment), side.total_copied(run, moment)
    return (
        ("blocks held", "–" if held is None else str(held)),
        ("bytes copied", "–" if copied is None else spaced(copied)),
        (f"of {focus} recomputed", _recomputed(side, run, focus, moment)),
    )


def _recomputed(side: SideBySide, run: int, focus: str, moment: int) -> str:
    admitted = side.admitted(run, focus, moment)
    if admitted is None:
        return "–"
    count = side.recomputed_of(run, focus, moment)
    return f"{count} of {admitted.known}" if count <= admitted.known else str(count)


def strip_words(side: SideBySide, run: int, moment: int) -> tuple[str, str]:
    """What the request in focus reused, and what it computes."""
    focus = side.focus(moment)
    admitted = side.admitted(run, focus, moment)
    step = side.step(run, moment)
    if admitted is None:
        return ("not there yet", "")
    running = step.requests.get(focus) if step is not None else None
    now = step is not None and admitted.step == step.index
    reused = f"{'reuses' if now else 'reused'} {admitted.reused}"
    return (reused, f"computes {running.num_scheduled}" if running else "is not running")


def moment_name(side: SideBySide, moment: int) -> str:
    """``step 5``, or ``tokens 8–10 of A``."""
    found = side.moments[moment]
    if side.lock is None:
        return f"step {found.at}"
    if found.at == found.last:
        return f"token {found.at} of {side.lock}"
    return f"tokens {found.at}–{found.last} of {side.lock}"


def _names(names: Sequence[str]) -> str:
    if len(names) <= 1:
        return "".join(names)
    return ", ".join(names[:-1]) + f" and {names[-1]}"


def _runs_named(names: Sequence[str]) -> str:
    return _names([_quoted(name) for name in names])


def _quoted(name: str) -> str:
    """A run's name inside a sentence: in quotes if it is more than one word."""
    return f"“{name}”" if re.search(r"\W", name) else name


def _verb(names: Sequence[str], many: str, one: str) -> str:
    return many if len(names) > 1 else one


def _stop(text: str) -> str:
    return text if text.endswith(".") else f"{text}."
