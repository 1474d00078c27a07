"""One headline and one sentence for every phase, with this step's numbers.

A sentence is a list of spans; a span may carry a role, whose colour its words then have. The
selected request comes first, the others follow shortly. Everything is said from the trace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from mambaviz.trace import PhaseName, RequestStep, Role, RowTables, Step, Trace
from mambaviz.viz import registering
from mambaviz.viz.shapes import KIND_NAME, ONTO_ITSELF
from mambaviz.viz.views import CopyView, Frame, Label, group_of

WordRole = Literal["", "running", "cached", "speculative", "move", "wrong", "strong"]


@dataclass(frozen=True)
class Span:
    text: str
    role: WordRole = ""


@dataclass(frozen=True)
class Words:
    headline: str
    sentence: tuple[Span, ...]

    @property
    def plain(self) -> str:
        """The sentence without its colours; on screen the kind of a copy is set off by one."""
        return "".join(f"{s.text}:" if s.role == "move" else s.text for s in self.sentence)


def words(frame: Frame, request: str, layer: int) -> Words:
    """What the phase did, seen from one request (or from the first one that takes part)."""
    if frame.step.stuck:
        return Words(
            "Nothing can run any more.",
            (Span("No request fits into the free blocks, and none that runs could free some."),),
        )
    if not frame.step.order:
        return _nothing_scheduled(frame)
    told = request if request in frame.step.requests else frame.step.batch_order[0]
    found = sound_words(frame, told, layer)
    return Words(found.headline, (*_flat(_damage(frame, told, layer)), *found.sentence))


def sound_words(frame: Frame, request: str, layer: int) -> Words:
    """What the phase did to a request of this step, with no word of what broke in it."""
    headline, spans = _TELL[frame.phase.name](frame, request, layer)
    return Words(headline, tuple(_flat(spans)))


def _damage(frame: Frame, request: str, layer: int) -> list[Span | str]:
    """The first invariant that breaks in this phase: of this request and layer, if any does."""
    broken = [v for v in frame.step.violations if v.phase == frame.phase.name]
    if not broken:
        return []
    broken.sort(key=lambda v: (v.request != request, v.layer not in (None, layer)))
    # A stopped copy is told by the sentence of its phase.
    why = ". " if frame.phase.copies else f": {broken[0].message}. "
    return [Span(f"{broken[0].invariant} is broken", "wrong"), why]


Told = tuple[str, list[Span | str]]


def _flat(spans: Sequence[Span | str]) -> list[Span]:
    return [Span(span) if isinstance(span, str) else span for span in spans if span != ""]


def _nothing_scheduled(frame: Frame) -> Words:
    waiting = frame.step.waiting
    text = f"{_names(waiting)} {_be(waiting)} waiting. " if waiting else ""
    later = [
        f"{plan.id} arrives at step {plan.arrive}. "
        for plan in frame.trace.scenario.requests
        if plan.arrive > frame.step.index
    ]
    spans = [text, *later, *_actions(frame), "No block is read or written."]
    return Words("Nothing is scheduled in this step.", tuple(_flat(spans)))


# --------------------------------------------------------------------------------------
# schedule, allocate
# --------------------------------------------------------------------------------------


def _schedule(frame: Frame, request: str, _layer: int) -> Told:
    step, running = frame.step, frame.step.requests[request]
    new = [name for name in step.order if step.requests[name].event == "new"]
    resumed = [name for name in step.order if step.requests[name].event == "resumed"]
    total = sum(other.num_scheduled for other in step.requests.values())
    if resumed:
        headline = f"{_names(resumed)} {_be(resumed)} back: what was computed is computed anew."
    elif new:
        own = sum(step.requests[name].num_scheduled for name in new)
        rest = "in this step" if own == total else f"of the {total} in this step"
        headline = f"{_names(new)} {_begin(new)}: {_count(own, 'token')} {rest}."
    elif step.preempted:
        headline = f"{_names(step.preempted)} has to give its blocks back."
    else:
        headline = f"{_count(total, 'token')} of {_names(step.order)} are scheduled."
    spans: list[Span | str] = [*_actions(frame), *_asks(request, running)]
    others = [name for name in step.order if name != request]
    spans += [f" {_short_query(name, step.requests[name])}" for name in others]
    if len(step.batch_order) > 1 and step.batch_order != step.order:
        spans.append(f" In the batch {_then(step.batch_order)}: decodes come before prefills.")
    if step.waiting:
        spans.append(f" {_names(step.waiting)} {_be(step.waiting)} still waiting.")
    return headline, spans


def _asks(request: str, running: RequestStep) -> list[Span | str]:
    start, count = running.num_computed, running.num_scheduled
    spans: list[Span | str] = [Span(request, "strong")]
    if running.event != "running" and start:
        spans += [" finds the state after ", Span(_count(start, "token"), "cached")]
        spans += [" in the cache and goes on from there"]
    elif start:
        spans += [f" has {_count(start, 'token')} computed"]
    else:
        spans += [" has nothing computed yet"]
    if running.drafts:
        drafts = Span(_count(running.drafts, "draft"), "speculative")
        spans += [f" and asks for {count}: the token sampled last, and ", drafts, "."]
    elif running.row_class == "prefill" or count > 1:
        last = start + count - 1
        rest = running.num_tokens - start - count
        spans += [f" and asks for tokens {start}–{last}"]
        left = f"; {_count(rest, 'token')} {'remains' if rest == 1 else 'remain'}."
        spans += [left if rest > 0 else ", the last of its prompt."]
    else:
        spans += [f" and asks for token {start}."]
    return spans


def _short_query(name: str, running: RequestStep) -> str:
    drafts = f", {running.drafts} of them drafts" if running.drafts else ""
    return f"{name} asks for {running.num_scheduled}{drafts}."


def _actions(frame: Frame) -> list[Span | str]:
    spans: list[Span | str] = [f"{_sentence(action)} " for action in frame.step.actions]
    if frame.step.preempted:
        names = _names(frame.step.preempted)
        spans.append(f"{names} gave all blocks back and waits. ")
    return spans


def _allocate(frame: Frame, request: str, layer: int) -> Told:
    group = group_of(frame.trace, layer)
    fresh = {name: _fresh(frame, name, group) for name in frame.step.batch_order}
    row = frame.tables.rows[request]
    mine = fresh[request]
    if any(fresh.values()):
        parts = [
            _got(frame, name, blocks) for name, blocks in _first(fresh, request).items() if blocks
        ]
        headline = ", ".join(parts) + "."
    else:
        headline = "No new block is needed: every row is long enough."
    spans: list[Span | str] = [Span(request, "strong"), f"’s row has {_columns(row, group)}"]
    spans += [f", {_count(len(mine), 'block')} of them new" if mine else ""]
    spans.append(". ")
    dropped = _dropped(frame, request, group)
    if dropped:
        ids = ", ".join(str(block) for block in dropped)
        spans += [f"The list lets go of {ids}; the worker’s row keeps the old ids. "]
    for name in (request, *(other for other in frame.step.batch_order if other != request)):
        spans += [f"{said} " for said in registering.lost(frame, layer, name)]
    spans += _registered(frame, layer)
    spans.append(f"The pool is left with {_pool(frame)}.")
    return headline, spans


def _got(frame: Frame, name: str, blocks: list[int]) -> str:
    """What a request got: cached blocks, which stay what they are, and new ones."""
    hit = [block for block in blocks if _shared(frame, block)]
    new = [block for block in blocks if block not in hit]
    parts = [f"shares {_blocks(hit)}"] if hit else []
    parts += [f"gets {_blocks(new)}"] if new else []
    return f"{name} {' and '.join(parts)}"


def _shared(frame: Frame, block: int) -> bool:
    """Whether a block was registered for a prefix before this phase and still is."""
    before = frame.tables_before.registered.get(block)
    return before is not None and before == frame.tables.registered.get(block)


def pool_counts(frame: Frame) -> tuple[int, int]:
    """Blocks that can be taken: free ones, and cached ones that nobody owns."""
    return frame.once("pool", lambda: _count_pool(frame))


def _count_pool(frame: Frame) -> tuple[int, int]:
    queue = frame.tables.free_queue
    cached = sum(block in frame.tables.registered for block in queue)
    return len(queue) - cached, cached


def _pool(frame: Frame) -> str:
    free, cached = pool_counts(frame)
    return f"{free} free and {cached} cached, unowned {_plural(free + cached, 'block')}"


def _fresh(frame: Frame, request: str, group: int) -> list[int]:
    row, before = frame.tables.rows[request], frame.tables_before.rows.get(request)
    had = set(before.block_list[group]) if before else set()
    return [block for block in row.block_list[group] if block and block not in had]


def _dropped(frame: Frame, request: str, group: int) -> list[int]:
    row, before = frame.tables.rows[request], frame.tables_before.rows.get(request)
    has = set(row.block_list[group])
    old = before.block_list[group] if before else []
    return [block for block in old if block and block not in has]


def _registered(frame: Frame, layer: int) -> list[Span | str]:
    new = set(frame.tables.registered) - set(frame.tables_before.registered)
    if not new:
        return []
    names = ", ".join(f"{block} for {frame.tables.registered[block]}" for block in sorted(new))
    early = registering.early(frame, layer, new)
    return ["Registered for reuse: ", Span(f"block {names}", "cached"), f"{early}. "]


def _columns(row: RowTables, group: int) -> str:
    return _count(len(row.worker_row[group]), "column")


# --------------------------------------------------------------------------------------
# The two copies
# --------------------------------------------------------------------------------------


def _pre_copy(frame: Frame, request: str, layer: int) -> Told:
    copying = _copying(frame, layer)
    if not copying:
        return (
            "Nothing has to move: every state already lies where it will be read.",
            [*_stays(frame, request)],
        )
    told = request if request in copying else next(iter(copying))
    copy = copying[told]
    wrong = bool(copy.conv_skipped or copy.temporal_skipped)
    headline = (
        f"{told} outgrows block {copy.src_block}, so its state moves on into block "
        f"{copy.dst_block}."
        if copy.has_conv
        else f"{told}’s state moves on from block {copy.temporal_block} into block "
        f"{copy.dst_block}."
    )
    if copy.dst_col < copy.src_col:
        headline = f"{told} needs fewer columns now, so its state moves back."
    if wrong:
        headline = f"A guard stops a copy of {told}."
    spans = [_kind(copy), " ", *_migrate_why(frame, copy)]
    spans += _others(copying, told)
    return headline, spans


def _kind(copy: CopyView) -> Span:
    return Span(f"{KIND_NAME[copy.kind]}, bias {copy.bias}", "move")


def _block(frame: Frame, block: int | None, name: str = "block") -> Span:
    """A block in the colour of the role it has."""
    if not block:
        return Span(f"{name} {block}")
    role = frame.tables.block_roles[block]
    return Span(f"{name} {block}", _WORD_ROLE.get(role, ""))


_WORD_ROLE: dict[Role, WordRole] = {
    "running": "running",
    "previous": "running",
    "speculative": "speculative",
    "cached": "cached",
}


def _migrate_why(frame: Frame, copy: CopyView) -> list[Span | str]:
    source = _block(frame, copy.from_block)
    skipped = _skipped(copy)
    if copy.bias == 0:
        moved = [f"its {_count(copy.conv_rows, 'conv row')}"] if copy.has_conv else []
        moved += ["its temporal state"] if copy.has_temporal else []
        return [
            "The wanted state is the one in ",
            source,
            f" itself: {' and '.join(moved)} go to ",
            _block(frame, copy.dst_block),
            f", column {copy.dst_col}.",
            *skipped,
        ]
    spans: list[Span | str] = [
        f"The step before accepted {copy.bias + 1} tokens, so the wanted state lies "
        f"{copy.bias + 1} − 1 = ",
        Span(str(copy.bias), "strong"),
    ]
    if copy.has_conv:
        rows = f"{_number(copy.bias)} {_plural(copy.bias, 'row')}"
        spans += [" past the start of ", source, f": {rows} on in its conv window"]
    else:
        spans.append(" past the running column")
    if copy.has_temporal:
        columns = f"{_number(copy.bias)} {_plural(copy.bias, 'column')}"
        spans.append(
            f"{', and' if copy.has_conv else ':'} {columns} on for the temporal state, in "
        )
        spans.append(Span(f"speculative block {copy.temporal_block}", "speculative"))
    return [*spans, ".", *_onto_itself(copy), *skipped]


def _onto_itself(copy: CopyView) -> list[Span | str]:
    """The temporal state may lie in the target already; the kernel copies it all the same."""
    if not copy.temporal_stays:
        return []
    return [
        f" That is the new running block already: the temporal state stays, copied {ONTO_ITSELF}."
    ]


def _skipped(copy: CopyView) -> list[Span | str]:
    spans: list[Span | str] = []
    for state, reason in (("conv", copy.conv_skipped), ("temporal", copy.temporal_skipped)):
        if reason:
            spans += [" ", Span(f"The {state} copy is skipped: {reason}.", "wrong")]
    return spans


def _stays(frame: Frame, request: str) -> list[Span | str]:
    decision = frame.decision(request)
    spans: list[Span | str] = [Span(request, "strong")]
    row = frame.row(request)
    if decision is not None:
        return [*spans, f": {_sentence(decision.outcome)}"]
    if frame.trace.scenario.engine.mode != "align":
        return [f"In {frame.trace.scenario.engine.mode} mode no state is copied between blocks."]
    if row is None or row.state_col is None:
        return [*spans, " has no running block yet."]
    return [*spans, f" goes on in its running block, column {row.state_col}."]


def _post_copy(frame: Frame, request: str, layer: int) -> Told:
    copying = _copying(frame, layer)
    if not copying:
        return (
            "No copy: no accepted token ends a block whose state lies elsewhere.",
            [*_stays(frame, request), *_other_stays(frame, request)],
        )
    told = request if request in copying else next(iter(copying))
    copy = copying[told]
    decision = frame.decision(told)
    aligned = decision.aligned if decision is not None else None
    if copy.in_place:
        headline = (
            f"{told}’s accepted tokens fill its own running block, so its state shifts in place."
        )
    else:
        headline = (
            f"{told}’s accepted tokens end on a block boundary, so its state after {aligned} "
            "tokens is saved."
        )
        if decision is not None and decision.new != aligned:
            headline = (
                f"{told}’s accepted tokens pass a block boundary, so its state after {aligned} "
                "tokens is saved."
            )
    spans = [_kind(copy), " ", *_checkpoint_how(frame, told, copy)]
    registered = registering.after_checkpoint(frame, told, copy)
    spans += [f" {registered}" if registered else ""]
    spans += _others(copying, told)
    if told != request:
        spans += [" ", *_stays(frame, request)]
    return headline, spans


def _checkpoint_how(frame: Frame, request: str, copy: CopyView) -> list[Span | str]:
    spans: list[Span | str] = []
    if copy.in_place:
        spans.append(f"source and target are both column {copy.src_col}: ")
    if copy.has_conv:
        spans += _conv_moves(copy)
    if copy.has_temporal:
        spans += ["; " if copy.has_conv else "", *_temporal_comes(copy)]
    spans.append(".")
    decision = frame.decision(request)
    if copy.in_place and decision is not None and decision.accepted != decision.accepted_out:
        spans.append(
            f" With everything in place, the accepted count returns from {decision.accepted} "
            f"to {decision.accepted_out}."
        )
    return [*spans, *_skipped(copy)]


def _conv_moves(copy: CopyView) -> list[Span | str]:
    first, last = copy.bias, copy.bias + copy.conv_rows - 1
    source = Span(f"running block {copy.src_block}", "running")
    verb = "slide" if copy.bias else "are copied"
    slide = f" {verb} to rows 0–{copy.conv_rows - 1} of "
    if copy.in_place:
        return [f"conv rows {first}–{last} of ", source, f"{slide}the same block"]
    target = Span(f"block {copy.dst_block}", "cached")
    return [f"conv rows {first}–{last} of ", source, slide, target]


def _temporal_comes(copy: CopyView) -> list[Span | str]:
    column = f"column {copy.temporal_col}"
    if copy.bias:
        column = f"column {copy.src_col} + {copy.bias} = {copy.temporal_col}"
    scratch = Span(f"speculative block {copy.temporal_block}", "speculative")
    if copy.temporal_block == copy.src_block or not (copy.has_conv or copy.bias):
        scratch = Span(f"block {copy.temporal_block}", "running")
    spans: list[Span | str] = [f"the temporal state comes from {column}, ", scratch]
    if not copy.has_conv:
        spans += [", and goes to ", Span(f"block {copy.dst_block}", "cached")]
    return spans


def _copying(frame: Frame, layer: int) -> dict[str, CopyView]:
    found = {}
    for request in frame.step.batch_order:
        copies = frame.copies(request, layer)
        if copies:
            found[request] = copies[0]
    return found


def _others(copying: dict[str, CopyView], told: str) -> list[Span | str]:
    spans: list[Span | str] = []
    others = {request: copy for request, copy in copying.items() if request != told}
    if len(others) > 1:
        return [f" So it goes for {_names(list(others))}, each with its own numbers."]
    for request, copy in others.items():
        if copy.in_place:
            spans.append(
                f" {request} ends inside its own running column: block {copy.src_block} shifts "
                f"in place by {copy.bias}, and its accepted count returns to 1."
            )
        else:
            verb = "moves" if copy.kind == "migrate" else "is saved"
            spans.append(
                f" {request}’s state {verb} from block {copy.from_block} to {copy.dst_block}, "
                f"bias {copy.bias}."
            )
    return spans


def _other_stays(frame: Frame, told: str) -> list[Span | str]:
    spans: list[Span | str] = []
    for request in frame.step.batch_order:
        if request != told and frame.decision(request) is not None:
            spans += [" ", *_stays(frame, request)]
    return spans


# --------------------------------------------------------------------------------------
# metadata, forward, accept, commit
# --------------------------------------------------------------------------------------


def _metadata(frame: Frame, request: str, _layer: int) -> Told:
    classes = [running.row_class for running in frame.step.requests.values()]
    decodes = sum(found != "prefill" for found in classes)
    prefills = len(classes) - decodes
    parts = [
        _count(count, noun) for count, noun in ((decodes, "decode"), (prefills, "prefill")) if count
    ]
    headline = f"The batch becomes tensors: {' and '.join(parts)}."
    running = frame.step.requests[request]
    spans: list[Span | str] = [Span(request, "strong"), f" counts as a {running.row_class}: "]
    rule = running.class_rule
    spans += [f"{rule[:1].lower()}{rule[1:]}".rstrip(".") + ". "]
    if frame.row(request) is not None:
        spans += ["The layers will read nothing but these tensors, their inputs and the cache."]
    return headline, spans


def _forward(frame: Frame, request: str, layer: int) -> Told:
    running = frame.step.requests[request]
    start, count = running.num_computed, running.num_scheduled
    total = sum(other.num_scheduled for other in frame.step.requests.values())
    own = "" if count == total else f", {count} of them {request}’s"
    headline = f"The layers take in {_count(total, 'token')}{own}."
    group = group_of(frame.trace, layer)
    written = [
        (column, block, frame.label(layer, block))
        for column, block in enumerate(frame.tables.rows[request].worker_row[group])
        if block
        and frame.changed(layer, block)
        and frame.tables.rows[request].roles[group][column] != "retired"
    ]
    spans: list[Span | str] = [Span(request, "strong")]
    last = start + count - 1
    misread = any(
        v.invariant == "I2" and v.phase == frame.phase.name and v.request == request
        for v in frame.step.violations
    )
    if misread:
        spans.append(f" was to go on from {_count(start, 'token')} and reads another state")
    else:
        spans.append(
            f" reads its state after {_count(start, 'token')}" if start else " starts from zero"
        )
    spans.append(
        f"; it takes in {_positions(start, last)}: "
        if misread
        else f" and takes in {_positions(start, last)}: "
    )
    for index, (column, block, label) in enumerate(written):
        role = frame.tables.rows[request].roles[group][column]
        name = f"{_state_name(label)} in block {block}"
        spans += ["" if index == 0 else ", ", Span(name, _WORD_ROLE.get(role, ""))]
    spans.append("." if written else "nothing is written.")
    if running.drafts and len(written) > 1:
        spans.append(" A draft’s state stays apart until it is known whether the draft is kept.")
    return headline, spans


def _state_name(label: Label) -> str:
    """``h(8)``, or in a layer without a temporal state the last token of its conv rows."""
    if label.absorbed is not None:
        return f"h({label.absorbed})"
    last = max((row for row in label.rows if row is not None), default=None)
    return "no state" if last is None else f"the rows up to t{last}"


def _positions(first: int, last: int) -> str:
    return f"token {first}" if first == last else f"tokens {first}–{last}"


def _accept(frame: Frame, request: str, _layer: int) -> Told:
    step = frame.step
    verified = [name for name in step.batch_order if step.requests[name].drafts]
    if verified:
        first = request if request in verified else verified[0]
        order = [first, *[name for name in verified if name != first]]
        headline = ", ".join(_kept(name, step.requests[name]) for name in order) + "."
        spans = _accepted_sentence(frame, first)
    else:
        sampled = [name for name in step.batch_order if step.requests[name].sampled]
        headline = (
            f"{_names(sampled)} {'get' if len(sampled) > 1 else 'gets'} a first token of "
            f"{'their' if len(sampled) > 1 else 'its'} own."
            if sampled
            else "Nothing to verify: the prompts go on."
        )
        if sampled and all(step.requests[name].row_class == "decode" for name in sampled):
            headline = f"{_names(sampled)} {'sample' if len(sampled) > 1 else 'samples'} one token."
        after = step.num_computed_after.get(request)
        computed = _count(after or 0, "token")
        spans = [Span(request, "strong"), f" has {computed} computed after this step."]
    reached = [name for name in step.batch_order if boundary_reached(frame.trace, step, name)]
    if reached:
        spans += [" ", Span("Block boundary reached", "cached"), f" by {_names(reached)}."]
    return headline, spans


def _kept(name: str, running: RequestStep) -> str:
    kept, drafts = running.accepted_drafts or 0, running.drafts
    if kept == drafts:
        whole = {1: "its draft", 2: "both drafts"}.get(drafts, f"all {drafts} drafts")
        return f"{name} keeps {whole}"
    if kept == 0:
        return f"{name} keeps no draft"
    return f"{name} keeps {kept} of {drafts} drafts"


def _accepted_sentence(frame: Frame, request: str) -> list[Span | str]:
    running = frame.step.requests[request]
    accepted = (running.accepted_drafts or 0) + 1
    start = running.num_computed
    after = frame.step.num_computed_after.get(request, start)
    spans: list[Span | str] = [
        "The token sampled last always counts, so ",
        Span(request, "strong"),
        f" has accepted {running.accepted_drafts} + 1 = ",
        Span(str(accepted), "strong"),
        f" tokens: {start} + {accepted} = {after} are computed.",
    ]
    rejected = running.drafts - (running.accepted_drafts or 0)
    if rejected:
        spans.append(f" {_count(rejected, 'rejected draft')} went through the layers for nothing.")
    return spans


def boundary_reached(trace: Trace, step: Step, request: str) -> bool:
    """Whether a step's accepted tokens end or pass a block that was not complete before."""
    running, after = step.requests.get(request), step.num_computed_after.get(request)
    if running is None or after is None:
        return False
    size = trace.scenario.engine.effective_block_size
    return after // size > running.num_computed // size


def _commit(frame: Frame, request: str, _layer: int) -> Told:
    step = frame.step
    finished = step.finished_after
    after = _first(step.num_computed_after, request)
    counts = ", ".join(f"{name} {count}" for name, count in after.items())
    headline = (
        f"{_names(finished)} {_be(finished)} finished." if finished else f"Computed now: {counts}."
    )
    spans: list[Span | str] = [f"Computed now: {counts}. "] if finished and counts else []
    if not step.violations:
        compared = sum(check.compared for check in step.checks)
        spans += [f"{_count(compared, 'comparison')} with the oracle, all of them hold. "]
    spans.append(f"The pool has {_pool(frame)}.")
    return headline, spans


_TELL: dict[PhaseName, Callable[[Frame, str, int], Told]] = {
    "schedule": _schedule,
    "allocate": _allocate,
    "pre-copy": _pre_copy,
    "metadata": _metadata,
    "forward": _forward,
    "accept": _accept,
    "post-copy": _post_copy,
    "commit": _commit,
}


# --------------------------------------------------------------------------------------
# Grammar
# --------------------------------------------------------------------------------------


def _first(items: dict[str, int] | dict[str, list[int]], key: str) -> dict:
    return {name: items[name] for name in sorted(items, key=lambda name: name != key)}


def _names(names: Sequence[str]) -> str:
    if len(names) <= 1:
        return "".join(names)
    return ", ".join(names[:-1]) + f" and {names[-1]}"


def _then(names: Sequence[str]) -> str:
    return " before ".join(names)


def _be(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _begin(names: Sequence[str]) -> str:
    return "begins" if len(names) == 1 else "begin"


def _plural(count: int, noun: str) -> str:
    return noun if count == 1 else f"{noun}s"


def _count(count: int, noun: str) -> str:
    return f"{count} {_plural(count, noun)}"


def _blocks(blocks: list[int]) -> str:
    ids = ", ".join(str(block) for block in blocks)
    return f"{_plural(len(blocks), 'block')} {ids}"


def _number(count: int) -> str:
    return {1: "one", 2: "two", 3: "three"}.get(count, str(count))


def _sentence(text: str) -> str:
    """First letter large, a stop at the end."""
    text = text[:1].upper() + text[1:]
    return text if text.endswith(".") else f"{text}."
