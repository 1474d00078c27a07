"""The sentences of `mambaviz.viz.words` for a recording: nothing is said of what is not known."""

from __future__ import annotations

from collections.abc import Callable

from mambaviz.trace import Decision, PhaseName, Recorded, Violation
from mambaviz.viz.views import Frame
from mambaviz.viz.words import Span, Words, sound_words

Told = tuple[str, list[Span]]

# Phases whose sentences are made of the scheduler's numbers alone.
_AS_EVER: frozenset[PhaseName] = frozenset({"schedule", "accept"})


def recorded_words(frame: Frame, request: str, layer: int) -> Words:
    """What the recording says of a phase, seen from one request. Who is not in the step hears of
    the first one that is."""
    step = frame.step
    told = request if request in step.requests else next(iter(step.batch_order), "")
    return frame.once(("recorded words", told, layer), lambda: _told(frame, told, layer))


def _told(frame: Frame, told: str, layer: int) -> Words:
    step, phase = frame.step, frame.phase.name
    recorded = frame.trace.recorded
    assert recorded is not None
    headline, spans = _happened(frame, recorded, told, layer)
    broken = next((found for found in step.violations if found.phase == phase), None)
    if broken is None:
        return Words(headline, tuple(spans))
    return Words(
        _broken(broken), (Span(f"{broken.message}.", "wrong"), Span(f" {headline} "), *spans)
    )


def _broken(found: Violation) -> str:
    """What a reader has to know first: the rule, and whose state it is."""
    whose = "" if found.request is None else f" for {found.request}"
    return (
        f"“{(found.rule or '').capitalize()}” is broken{whose}: {found.invariant} in {found.phase}."
    )


def _happened(frame: Frame, recorded: Recorded, told: str, layer: int) -> Told:
    step, phase = frame.step, frame.phase.name
    if not step.order:
        return _without_requests(recorded.left_out.get(step.index, 0))
    if not recorded.knows(step.index, phase):
        text = Span("The recording has no line of it, so nothing is drawn here.")
        return f"The phase {phase} was not recorded.", [text]
    if phase in _AS_EVER:
        found = sound_words(frame, told, layer)
        return found.headline, [*found.sentence]
    return _TELL[phase](frame, told)


def _without_requests(left_out: int) -> Told:
    """A step in which nobody runs, or only requests that are not drawn."""
    if not left_out:
        return "Nothing is scheduled in this step.", []
    who = "one request runs" if left_out == 1 else f"{left_out} requests run"
    text = Span(f"In it {who} that the choice in the sidebar leaves out.")
    return "None of the chosen requests runs in this step.", [text]


def pool_text(frame: Frame) -> str:
    """Where the pool's blocks are, as far as it was recorded."""
    total = frame.trace.scenario.engine.num_blocks - 1
    if frame.step.free_count or (frame.trace.recorded and frame.trace.recorded.free_known):
        return f"pool: {frame.step.free_count} of {total} blocks free or only cached"
    return f"pool: {total} blocks; how many are free was not recorded"


def _allocate(frame: Frame, request: str) -> Told:
    row, before = frame.tables.rows.get(request), frame.tables_before.rows.get(request)
    if row is None:
        return "The lists after allocation.", [Span(f"Of {request} no list was recorded.")]
    spans = [Span(request, "strong"), Span("’s list is ")]
    for group, ids in enumerate(row.block_list):
        shown = " ".join(str(block) if block else "∅" for block in ids)
        name = f"group {group} " if len(row.block_list) > 1 else ""
        spans.append(Span(f"{', ' if group else ''}{name}[{shown}]"))
    had = {b for ids in before.block_list for b in ids} if before is not None else set()
    new = [b for ids in row.block_list for b in ids if b and b not in had]
    spans.append(Span(f"; new: {', '.join(map(str, new))}. " if new else "; no block is new. "))
    fresh = set(frame.tables.registered) - set(frame.tables_before.registered)
    if fresh:
        named = ", ".join(f"{b} for {frame.tables.registered[b]}" for b in sorted(fresh))
        spans += [Span("Registered for reuse: "), Span(f"block {named}", "cached"), Span(". ")]
    fresh_of = "gets new blocks" if new else "needs no new block"
    return f"{request} {fresh_of}.", [*spans, Span(f"{pool_text(frame).capitalize()}.")]


def _copies(frame: Frame, request: str) -> Told:
    copied = [one for one in frame.phase.decisions if one.copies]
    what = "pre-copy" if frame.phase.name == "pre-copy" else "postprocess"
    headline = (
        f"The {what} copies the state of {', '.join(one.request for one in copied)}."
        if copied
        else f"The {what} was called; no copy is seen in the recording."
    )
    mine = frame.decision(request)
    others = [one for one in frame.phase.decisions if one.request != request]
    spans = [Span(request, "strong"), Span(f": {_decided(mine)}. ")] if mine is not None else []
    return headline, [*spans, *(Span(f"{one.request}: {_decided(one)}. ") for one in others[:6])]


def _decided(one: Decision) -> str:
    values = [f"accepted count {one.accepted}"] if one.accepted is not None else []
    if one.accepted_out is not None and one.accepted_out != one.accepted:
        values.append(f"{one.accepted_out} afterwards")
    if one.copies and one.src_col is not None:
        values.append(f"column {one.src_col} → {one.dst_col}, bias {one.bias}")
    elif one.dst_col is not None or one.src_col is not None:
        values.append(f"column {one.dst_col if one.dst_col is not None else one.src_col}")
    return ", ".join([*values, one.outcome])


def _metadata(frame: Frame, request: str) -> Told:
    counts = {f.name: f.value for built in frame.step.metadata[:1] for f in built.fields}
    headline = (
        f"The builder counts {counts.get('num_decodes', '?')} decodes and "
        f"{counts.get('num_prefills', '?')} prefills."
    )
    running = frame.step.requests[request]
    spans = [Span(request, "strong"), Span(f" is a {running.row_class}: {running.class_rule}. ")]
    return headline, [*spans, Span("The panel Metadata has every field that was recorded.")]


def _forward(frame: Frame, request: str) -> Told:
    total = sum(other.num_scheduled for other in frame.step.requests.values())
    running = frame.step.requests[request]
    headline = f"The layers take in {total} token{'s' * (total != 1)}."
    last = running.num_computed + running.num_scheduled - 1
    spans = [Span(request, "strong"), Span(f" takes in tokens {running.num_computed}–{last}. ")]
    bytes_known = frame.trace.recorded is not None and frame.trace.recorded.states
    if not bytes_known:
        spans.append(Span("No bytes were recorded, so what lies in the blocks is not shown."))
    return headline, spans


def _commit(frame: Frame, _request: str) -> Told:
    step = frame.step
    counts = ", ".join(f"{name} {count}" for name, count in step.num_computed_after.items())
    finished = ", ".join(step.finished_after)
    headline = f"{finished} finished." if finished else f"Computed now: {counts or 'not recorded'}."
    compared = sum(check.compared for check in step.checks)
    judged = "" if step.violations else f"{compared} numbers agree with the rules. "
    return headline, [
        Span(f"Computed now: {counts}. " if finished and counts else ""),
        Span(judged),
    ]


_TELL: dict[PhaseName, Callable[[Frame, str], Told]] = {
    "allocate": _allocate,
    "pre-copy": _copies,
    "metadata": _metadata,
    "forward": _forward,
    "post-copy": _copies,
    "commit": _commit,
}
