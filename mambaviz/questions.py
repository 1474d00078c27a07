"""Questions to practise on: predict, reveal, and read why. Drawn anew from random scenarios.

`question(topic, seed)` runs a small random scenario, picks a moment in it, and asks what the
engine does there. The answer is read off the trace, labels from the cache bytes included; wrong
choices are what a likely slip would give; the explanation is the stage's own sentence and
arithmetic. The same topic and seed give the same question.

    Topic ── draws a Scenario ──► Trace ── picks a moment ──► Question
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from mambaviz.comparisons import MODES, varied
from mambaviz.costs import costs
from mambaviz.prefix_hits import admissions
from mambaviz.random_scenarios import Mode, random_scenario
from mambaviz.scenario import Scenario
from mambaviz.trace import (
    Decision,
    MetadataField,
    PhaseName,
    RequestStep,
    Step,
    TensorRecord,
    Trace,
    tokens_absorbed,
)
from mambaviz.viz import tables
from mambaviz.viz.views import frame_at
from mambaviz.viz.words import words

if TYPE_CHECKING:
    from mambaviz.engine import Backend

MOST_CHOICES = 4
MOST_DRAWS = 200  # scenarios tried for one question; a handful is usual
NOTHING = "none: nothing is copied"


@dataclass(frozen=True)
class Question:
    """``answer`` is the index of the right choice.

    ``step`` and ``phase`` say where the answer shows; ``before`` is the phase to show while it is
    still hidden (the same step). ``why`` explains it with the numbers of this run.
    """

    topic: str
    seed: int
    scenario: Scenario
    step: int
    phase: PhaseName
    before: PhaseName
    request: str
    text: str
    choices: tuple[str, ...]
    answer: int
    why: str

    @property
    def right(self) -> str:
        return self.choices[self.answer]


@dataclass(frozen=True)
class Topic:
    """A kind of question; ``notebook`` is the number of the one that teaches it."""

    name: str
    title: str
    notebook: int
    draw: Callable[[random.Random], Scenario]
    moments: Callable[[Trace, random.Random], Iterator[_Moment]]


@dataclass(frozen=True)
class _Moment:
    """A question that could be asked: ``weight`` is how much it is worth asking."""

    step: int
    phase: PhaseName
    before: PhaseName
    request: str
    text: str
    right: str
    wrong: tuple[str, ...]
    why: str
    weight: float = 1.0


@dataclass(frozen=True)
class Asked:
    """A question and the run that answers it."""

    question: Question
    trace: Trace


def question(topic: str, seed: int, backend: Backend = "reference") -> Question:
    """The question number ``seed`` of a topic.

    It is looked for on the plain back end, which is quick; its answer comes from ``backend``.
    Raises KeyError for a topic that does not exist.
    """
    return asked(topic, seed, backend).question


def asked(
    topic: str,
    seed: int,
    backend: Backend = "reference",
    progress: Callable[[str], None] | None = None,
) -> Asked:
    """The same with the run that answers it.

    ``progress`` hears in words what is being done, after every step of every run; what it raises
    ends the search.
    """
    if topic not in TOPICS:
        raise KeyError(f"no topic {topic!r}; choose from {', '.join(TOPICS)}")
    say = progress or (lambda _: None)
    rng = random.Random(f"{topic} {seed}")
    found = TOPICS[topic]
    for draw in range(1, MOST_DRAWS + 1):
        scenario = found.draw(rng)
        state = rng.getstate()
        trace = _run(scenario, "reference", partial(say, f"drawing scenario {draw}"))
        moments = _worth_asking(found, trace, rng)
        if moments and backend != "reference":
            rng.setstate(state)
            trace = _run(scenario, backend, partial(say, "running its kernels"))
            moments = _worth_asking(found, trace, rng)
        if moments:
            weights = [moment.weight for moment in moments]
            (chosen,) = rng.choices(moments, weights)
            return Asked(_asked(topic, seed, scenario, chosen, rng), trace)
    raise RuntimeError(f"no scenario of {MOST_DRAWS} has a question about {topic}")


def _run(scenario: Scenario, backend: Backend, say: Callable[[], None] = lambda: None) -> Trace:
    """`mambaviz.engine.run`, imported late: who only lists the topics needs no torch."""
    from mambaviz.engine import run

    say()
    return run(scenario, backend, lambda *_: say())


def _worth_asking(topic: Topic, trace: Trace, rng: random.Random) -> list[_Moment]:
    return [moment for moment in topic.moments(trace, rng) if _choices(moment)]


def _choices(moment: _Moment) -> list[str]:
    """Wrong choices without the right one and without repeats; too few make no question."""
    wrong = list(dict.fromkeys(text for text in moment.wrong if text != moment.right))
    return wrong if len(wrong) >= 2 else []


def _asked(
    topic: str, seed: int, scenario: Scenario, moment: _Moment, rng: random.Random
) -> Question:
    wrong = _choices(moment)[: MOST_CHOICES - 1]
    choices = [moment.right, *wrong]
    rng.shuffle(choices)
    return Question(
        topic=topic,
        seed=seed,
        scenario=scenario,
        step=moment.step,
        phase=moment.phase,
        before=moment.before,
        request=moment.request,
        text=moment.text,
        choices=tuple(choices),
        answer=choices.index(moment.right),
        why=moment.why,
    )


# --------------------------------------------------------------------------------------
# Scenarios
# --------------------------------------------------------------------------------------


def _drawing(
    modes: Sequence[Mode] = ("align",), drafts: bool = True, requests: int = 2
) -> Callable[[random.Random], Scenario]:
    """Small scenarios of these modes; ``drafts``: with at least one draft a step."""

    def draw(rng: random.Random) -> Scenario:
        while True:
            found = random_scenario(rng, modes=modes, max_requests=requests)
            wide = found.engine.block_size >= 3
            if wide and (found.engine.num_spec > 0 or not drafts):
                return found

    return draw


# --------------------------------------------------------------------------------------
# What is said before a question, and after it
# --------------------------------------------------------------------------------------


def _given(trace: Trace, step: Step, request: str) -> str:
    """Settings and counts from which the answer follows."""
    found, settings = step.requests[request], trace.scenario.engine
    drafts = ", no drafts"
    if found.drafts:
        drafts = f", {found.drafts} of them {'drafts' if found.drafts > 1 else 'a draft'}"
    return (
        f"{settings.mode} mode, block size {settings.effective_block_size}, num_spec "
        f"{settings.num_spec}. In step {step.index} request {request} has "
        f"{_tokens(found.num_computed)} computed and {found.num_scheduled} scheduled{drafts}."
    )


def _tokens(count: int) -> str:
    return f"{count} token" if count == 1 else f"{count} tokens"


def _kept(found: RequestStep) -> str:
    accepted = (found.accepted_drafts or 0) + 1
    return f" Verification keeps {found.accepted_drafts or 0}, so the accepted count is {accepted}."


def _row(trace: Trace, step: int, phase: PhaseName, request: str) -> list[int]:
    return trace.tables_after(step, phase).rows[request].worker_row[0]


def _row_words(row: Sequence[int]) -> str:
    return f" The worker’s row is [{', '.join(map(str, row))}], from column 0 on."


def _told(trace: Trace, step: int, phase: PhaseName, request: str) -> str:
    """The stage's sentence of a phase, and the arithmetic of its decision."""
    frame = frame_at(trace, step, phase)
    said = words(frame, request, 0)
    found = tables.why(frame)
    if not frame.phase.decisions:
        return f"{said.headline} {said.plain}"
    formula = "; ".join(found.formulas[found.requests.index(request)])
    return f"{formula}. {said.headline} {said.plain}"


def _decisions(trace: Trace, *phases: PhaseName) -> Iterator[tuple[Step, PhaseName, Decision]]:
    for step in trace.steps:
        for phase in phases:
            for decision in step.phase(phase).decisions:
                yield step, phase, decision


def _numbers(*values: int | None, least: int = 0) -> tuple[str, ...]:
    return tuple(str(value) for value in values if value is not None and value >= least)


# --------------------------------------------------------------------------------------
# Topics
# --------------------------------------------------------------------------------------


def _forward_moments(trace: Trace, rng: random.Random) -> Iterator[_Moment]:
    """Which block holds the state after n tokens once the forward is done; read from the bytes."""
    spec = trace.spec_of.get((0, "temporal"))
    if spec is None:
        return
    for step in trace.steps:
        for name, found in step.requests.items():
            if not found.drafts or found.row_class != "decode":
                continue
            row = _row(trace, step.index, "forward", name)
            written = {
                tokens_absorbed(spec.decode(change.raw)): change.block
                for change in step.phase("forward").changes
                if (change.layer, change.state) == (0, "temporal") and change.block in row
            }
            wanted = found.num_computed + rng.randint(1, found.num_scheduled)
            if wanted not in written:
                continue
            block = written[wanted]
            near = [other for other in row if other and other != block]
            rng.shuffle(near)
            first_in_scratch = written.get(found.num_computed + 1)
            last = written.get(found.num_computed + found.num_scheduled)
            yield _Moment(
                step.index,
                "forward",
                "metadata",
                name,
                _given(trace, step, name)
                + _row_words(row)
                + f" Which block holds h({wanted}), the temporal state after {wanted} tokens, once "
                "the forward is done?",
                f"block {block}",
                tuple(f"block {b}" for b in (first_in_scratch, last, *near) if b),
                f"The running column is ⌈{found.num_computed + found.num_scheduled} / "
                f"{trace.scenario.engine.effective_block_size}⌉ − 1 in align mode and 0 in none; "
                f"query token i goes to the column i further on. "
                + _told(trace, step.index, "forward", name),
                weight=2.0 if wanted > found.num_computed + 1 else 1.0,
            )


def _bias_moments(trace: Trace, _: random.Random) -> Iterator[_Moment]:
    for step, phase, decision in _decisions(trace, "pre-copy", "post-copy"):
        if not decision.copies or decision.bias is None or decision.accepted is None:
            continue
        found = step.requests[decision.request]
        if phase == "pre-copy":
            counts = f" The accepted count that its last step left is {decision.accepted}."
            asked = " With which bias is its state copied into the new running block?"
        else:
            counts, asked = _kept(found), " With which bias is its state copied to the boundary?"
        after = decision.new or 0
        size = trace.scenario.engine.block_size
        slips = _numbers(
            decision.accepted, decision.accepted - 1, after % size, found.drafts, 0, 1, 2, 3
        )
        yield _Moment(
            step.index,
            phase,
            "allocate" if phase == "pre-copy" else "accept",
            decision.request,
            _given(trace, step, decision.request) + counts + asked,
            str(decision.bias),
            slips,
            _told(trace, step.index, phase, decision.request),
            weight=3.0 if decision.bias else 1.0,
        )


def _block_moments(trace: Trace, _: random.Random) -> Iterator[_Moment]:
    """Which block a copy writes and where the temporal state comes from; or that none is made."""
    for step, phase, decision in _decisions(trace, "pre-copy", "post-copy"):
        name = decision.request
        found = step.requests[name]
        row = _row(trace, step.index, phase, name)
        copies = [c for c in step.phase(phase).copies if c.request == name and not c.skipped]
        column = decision.src_col
        works = "has worked" if phase == "pre-copy" else "works"
        where = f" It {works} in column {column}." if column is not None else ""
        if phase == "pre-copy":
            last = "" if decision.accepted is None else (
                f" The accepted count that its last step left is {decision.accepted}."
            )  # fmt: skip
            text = _given(trace, step, name) + last + _row_words(row) + where
        else:
            text = _given(trace, step, name) + _kept(found) + _row_words(row) + where
        before: PhaseName = "allocate" if phase == "pre-copy" else "accept"
        why = _told(trace, step.index, phase, name)
        blocks = list(dict.fromkeys(block for block in row if block))
        running = column if column is not None else 0
        near = [row[c] for c in (running, running - 1, running + 1) if 0 <= c < len(row)]
        slips = [f"block {b}" for b in dict.fromkeys([*near, *blocks]) if b]
        written = sorted({c.dst_block for c in copies if c.dst_block is not None})
        right = f"block {written[0]}" if written else NOTHING
        verb = "pre-copy" if phase == "pre-copy" else "post-copy"
        yield _Moment(
            step.index,
            phase,
            before,
            name,
            f"{text} Which block does the {verb} write?",
            right,
            (slips[0], NOTHING, *slips[1:]) if slips else (),
            why,
            weight=2.0 if copies else 0.4,
        )
        temporal = [c for c in copies if c.state == "temporal" and c.src_block is not None]
        if temporal and decision.bias:
            yield _Moment(
                step.index,
                phase,
                before,
                name,
                f"{text} From which block does the {verb} take the temporal state?",
                f"block {temporal[0].src_block}",
                tuple(slips),
                why,
                weight=2.0,
            )


def _column_moments(trace: Trace, _: random.Random) -> Iterator[_Moment]:
    """Source and target column of a copy."""
    for step, phase, decision in _decisions(trace, "pre-copy", "post-copy"):
        source, target = decision.src_col, decision.dst_col
        if not decision.copies or source is None or target is None:
            continue
        name = decision.request
        found = step.requests[name]
        pairs = [(source, target), (target, source), (source, target + 1), (source + 1, target)]
        pairs += [(source - 1, target), (source, source + (decision.bias or 0))]
        if phase == "pre-copy":
            size = trace.scenario.engine.effective_block_size
            before = (found.num_computed - 1) // size
            pairs.insert(1, (before, target))
            told = f" Its last step ran in column {source}."
            asked = " Between which columns does the pre-copy move the conv state?"
        else:
            told = _kept(found) + f" It runs in column {source}."
            asked = " Between which columns does the post-copy move the conv state?"
        yield _Moment(
            step.index,
            phase,
            "allocate" if phase == "pre-copy" else "accept",
            name,
            _given(trace, step, name) + told + asked,
            f"column {source} → column {target}",
            tuple(f"column {a} → column {b}" for a, b in pairs if min(a, b) >= 0),
            _told(trace, step.index, phase, name),
        )


def _count_moments(trace: Trace, _: random.Random) -> Iterator[_Moment]:
    """The accepted count that the next step reads with."""
    for step, phase, decision in _decisions(trace, "post-copy"):
        if decision.accepted is None or decision.accepted_out is None:
            continue
        if decision.accepted == 1 and not decision.copies:
            continue  # 1 stays 1: nothing to think about
        name = decision.request
        row = _row(trace, step.index, phase, name)
        yield _Moment(
            step.index,
            phase,
            "accept",
            name,
            _given(trace, step, name)
            + _kept(step.requests[name])
            + f" It runs in column {decision.src_col}."
            + _row_words(row)
            + " Which accepted count does the next step read its window with?",
            str(decision.accepted_out),
            _numbers(decision.accepted, 1, decision.accepted - 1, decision.bias, 2, 3),
            _told(trace, step.index, phase, name),
            weight=3.0 if decision.accepted != decision.accepted_out else 1.0,
        )


def _field(step: Step, name: str) -> TensorRecord | int | None:
    fields: list[MetadataField] = step.metadata[0].fields if step.metadata else []
    value: Any = next((field.value for field in fields if field.name == name), None)
    return value if isinstance(value, TensorRecord | int) else None


def _metadata_moments(trace: Trace, _: random.Random) -> Iterator[_Moment]:
    """A row of the state indices, and how many rows count as decodes."""
    meanings = tables.meanings(trace.scenario.engine.mode)
    for step in trace.steps:
        if not step.batch_order:
            continue
        yield from _index_moments(trace, step, meanings["state_indices_tensor_d"])
        decodes = _field(step, "num_decodes")
        if not isinstance(decodes, int) or len(step.batch_order) < 2:
            continue
        rows = "; ".join(
            f"{name}: {found.num_computed} computed, {found.num_scheduled} scheduled, "
            f"{found.num_prompt_tokens} prompt tokens"
            for name, found in ((name, step.requests[name]) for name in step.batch_order)
        )
        first = step.batch_order[0]
        yield _Moment(
            step.index,
            "metadata",
            "pre-copy",
            first,
            f"{trace.scenario.engine.mode} mode, num_spec {trace.scenario.engine.num_spec}. The "
            f"batch of step {step.index}, in its order: {rows}. How many rows count as decodes?",
            str(decodes),
            _numbers(len(step.batch_order), decodes - 1, decodes + 1, 0, 1),
            " ".join(
                f"{name} counts as a {step.requests[name].row_class}: "
                f"{step.requests[name].class_rule}."
                for name in step.batch_order
            ),
        )


def _index_moments(trace: Trace, step: Step, meaning: str) -> Iterator[_Moment]:
    indices = _field(step, "state_indices_tensor_d")
    if not isinstance(indices, TensorRecord) or 0 in indices.shape or len(indices.shape) < 2:
        return
    width = indices.shape[1]
    for index, name in enumerate(step.batch_order[: indices.shape[0]]):
        row = _row(trace, step.index, "metadata", name)
        start = next(
            (c for c in range(len(row)) if row[c : c + width] == indices.values[index]), None
        )
        if start is None or width < 2:
            continue
        slices = [row[c : c + width] for c in (start - 1, start + 1, 0, len(row) - width) if c >= 0]
        yield _Moment(
            step.index,
            "metadata",
            "pre-copy",
            name,
            _given(trace, step, name)
            + _row_words(row)
            + " What does its row of state_indices_tensor_d hold?",
            _ids(indices.values[index]),
            tuple(_ids(part) for part in (*slices, row[: width + 1]) if part),
            f"{meaning} Here that is column {start} and the {width - 1} behind it. "
            + _told(trace, step.index, "metadata", name),
        )


def _ids(blocks: Iterable[int]) -> str:
    return f"[{', '.join(map(str, blocks))}]"


def _chunk_moments(trace: Trace, _: random.Random) -> Iterator[_Moment]:
    """How the prefill of a step is cut for the scan, and how far the scheduler lets it go."""
    size = trace.scenario.layer.chunk_size
    for step in trace.steps:
        cut = _field(step, "cu_chunk_seqlen_p")
        prefills = [name for name in step.batch_order if step.requests[name].row_class == "prefill"]
        if not isinstance(cut, TensorRecord) or not prefills:
            continue
        ends = list(cut.values)
        total = ends[-1]
        lengths = [step.requests[name].num_scheduled for name in prefills]
        grid = [*range(0, total, size), total]
        per_request = [0]
        for length in lengths:
            start = per_request[-1]
            per_request += [*range(start + size, start + length, size), start + length]
        starts = [sum(lengths[:index]) for index in range(len(lengths) + 1)]
        rows = "; ".join(
            f"{name} has {step.requests[name].num_computed} tokens computed and "
            f"{step.requests[name].num_scheduled} new ones"
            for name in prefills
        )
        parts = " ".join(
            f"{name} starts at {step.requests[name].num_computed}, "
            + (
                f"which is {step.requests[name].num_computed % size} into a chunk of {size}: its "
                "first chunk only completes that one."
                if step.requests[name].num_computed % size
                else f"a multiple of {size}: full chunks from there on."
            )
            for name in prefills
        )
        slips = (grid, per_request, starts, [*ends[:-2], total], [0, total])
        yield _Moment(
            step.index,
            "metadata",
            "pre-copy",
            prefills[0],
            f"Chunk size {size}. The prefills of step {step.index}: {rows}. Where do the chunks "
            "of the scan begin and end (cu_chunk_seqlen_p)?",
            _ids(ends),
            tuple(_ids(way) for way in slips),
            f"A chunk holds tokens of one request, and a state is left at every multiple of {size} "
            f"tokens of a request. {parts}",
            weight=4.0 if ends not in (grid, per_request) else 0.5,
        )


def _hit_moments(trace: Trace, _: random.Random) -> Iterator[_Moment]:
    """How many tokens an admitted request need not compute."""
    for found in admissions(trace):
        if not found.found:
            continue
        size = found.block_size
        blocks: dict[int, list[str]] = {}
        for prefix in found.found:
            blocks.setdefault(prefix.tokens, []).append(f"block {prefix.block}")
        listed = ", ".join(f"{_tokens(n)} ({' and '.join(ids)})" for n, ids in blocks.items())
        longest = max(prefix.tokens for prefix in found.found)
        allowed = found.most_blocks * size
        settings = trace.scenario.engine
        yield _Moment(
            found.step,
            "schedule",
            "schedule",
            found.request,
            f"{settings.mode} mode, block size {size}. Request {found.request} is admitted in step "
            f"{found.step} and knows {_tokens(found.known)}. Of texts that agree with them as far "
            f"as both go, the cache holds the states after {listed}. How many tokens does it skip?",
            str(found.reused),
            _numbers(longest, longest - 1, found.known // size * size, allowed, 0, size, 2 * size),
            f"One token is always computed, so a hit covers at most ⌊({found.known} − 1) / {size}⌋ "
            f"· {size} = {allowed} tokens. "
            + (
                f"The longest state that is there within that is the one after {found.reused}."
                if found.reused
                else "No state that is there is that short, so everything is computed anew."
            ),
            weight=3.0 if found.reused != longest or found.reused == 0 else 1.0,
        )


def _mode_moments(trace: Trace, _: random.Random) -> Iterator[_Moment]:
    """How many blocks a lone request holds, in the mode of the run and in the others."""
    held: dict[str, list[int]] = {}
    for mode in ("none", "align", "all"):
        try:
            other = varied(trace.scenario, MODES, mode)
        except ValueError:
            continue  # not every scenario can run in every mode
        run = trace if mode == trace.scenario.engine.mode else _run(other, "reference")
        held[mode] = [cost.blocks_held for cost in costs(run)]
    mine = held[trace.scenario.engine.mode]
    settings = trace.scenario.engine
    for step in trace.steps[:-1]:
        if len(step.order) != 1:
            continue
        name = step.order[0]
        found = step.requests[name]
        others = [run[step.index] for run in held.values() if step.index < len(run)]
        now = mine[step.index]
        after = found.num_computed + found.num_scheduled
        size = settings.effective_block_size
        yield _Moment(
            step.index,
            "allocate",
            "schedule",
            name,
            _given(trace, step, name)
            + f" It is the only request, was admitted with {_admitted(trace, name)} tokens found "
            "in the cache, and nothing has been preempted. How many blocks does it hold once the "
            "step has allocated (null not counted)?",
            str(now),
            _numbers(*others, now + 1, now - 1, -(-after // size), least=1),
            _MODE_WHY[settings.mode] + " " + _told(trace, step.index, "allocate", name),
        )


_MODE_WHY = {
    "none": "none takes 1 + num_spec blocks once and never another one.",
    "align": (
        "align holds the running block and num_spec of scratch, and keeps the block before only "
        "as long as a copy may still read it."
    ),
    "all": (
        "all gives every column a block, ⌈(computed + scheduled + num_spec · B) / B⌉ of them, "
        "and lets the ones far to the left go."
    ),
}


def _admitted(trace: Trace, request: str) -> int:
    return next(found.reused for found in admissions(trace) if found.request == request)


TOPICS: dict[str, Topic] = {
    topic.name: topic
    for topic in (
        Topic("forward", "Which block the forward writes", 4, _drawing(), _forward_moments),
        Topic("blocks", "Which block a copy writes", 5, _drawing(), _block_moments),
        Topic("bias", "The accepted-token bias", 4, _drawing(), _bias_moments),
        Topic("columns", "From column to column", 5, _drawing(), _column_moments),
        Topic("counts", "The accepted count that comes out", 6, _drawing(), _count_moments),
        Topic("metadata", "What the layers are told", 7, _drawing(requests=3), _metadata_moments),
        Topic(
            "chunks", "How a prefill is cut", 8,
            _drawing(("align", "none"), drafts=False, requests=3), _chunk_moments,
        ),
        Topic(
            "hits", "What a prefix hit covers", 2,
            _drawing(("align", "all"), drafts=False, requests=3), _hit_moments,
        ),
        Topic(
            "modes", "Blocks held in each mode", 9,
            _drawing(("none", "align", "all"), requests=1), _mode_moments,
        ),
    )
}  # fmt: skip
