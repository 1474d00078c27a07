"""The tour: the life of a state in some twenty stops, told beside the picture it is about.

A stop is a moment of a run, a text that ends with something to predict, and what is seen once the
run has gone on to a second moment. Texts are templates: every number in them is read off the trace
of the stop's own run (`Seen`), so a stop cannot say what its picture does not show.

    Stop ── its run's Trace ──► Seen (before), Seen (after) ──► Told
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from mambaviz.comparisons import READY_MADE
from mambaviz.reports import REPORTS
from mambaviz.scenario import DEFAULT_PRESET, PRESETS, Scenario
from mambaviz.trace import PhaseName, RequestStep, Trace
from mambaviz.viz.views import BlockView, CopyView, Frame, frame_at, group_of

LAYER = 0  # the one that the stage shows
FAULTY = "S03"  # the report whose mistake the tour shows


@dataclass(frozen=True)
class Moment:
    """A phase of a step, seen from one request."""

    step: int
    phase: PhaseName
    request: str


@dataclass(frozen=True)
class Stop:
    """``name`` is its name in links. ``ask`` is told at ``before``, ``told`` once the stage stands
    at ``after``; a stop without ``after`` has nothing to predict. ``moves`` lists the events that
    are seen on the way. ``panel`` is the expert panel that is unfolded, ``lamps`` whether the
    invariants are on show."""

    name: str
    title: str
    scenario: Scenario
    before: Moment
    after: Moment | None
    ask: str
    told: str
    moves: tuple[str, ...] = ()
    panel: str | None = None
    lamps: bool = False


@dataclass(frozen=True)
class Told:
    """A stop's texts with the numbers of its run; ``told`` is empty where nothing moves."""

    ask: str
    told: str


def told(stop: Stop, trace: Trace) -> Told:
    """The texts of a stop, from the trace of its scenario."""
    before = Seen(trace, stop.before)
    after = Seen(trace, stop.after) if stop.after else before
    seen = {"now": before, "then": after, "fault": REPORTS[FAULTY].fault}
    return Told(stop.ask.format_map(seen), stop.told.format_map(seen))


class Seen:
    """What the stage shows of a request at a moment, by the names that the texts use.

    A value that a moment does not have (the bias where nothing is copied) raises ValueError.
    """

    def __init__(self, trace: Trace, moment: Moment) -> None:
        self._trace, self._moment = trace, moment
        self._frame: Frame = frame_at(trace, moment.step, moment.phase)
        self._lane = self._frame.lane(moment.request, group_of(trace, LAYER), LAYER)
        settings = trace.scenario.engine
        self.name = moment.request
        self.size = settings.effective_block_size
        self.drafts_most = settings.num_spec
        self.needed = 1 + settings.num_spec  # blocks of a decode: running and scratch
        self.limit = settings.largest_chunk
        self.window = trace.scenario.layer.conv_kernel - 1
        self.conv_rows = self.window + settings.num_spec
        plan = next(plan for plan in trace.scenario.requests if plan.id == moment.request)
        self.prompt = plan.num_prompt_tokens

    def _missing(self, what: str) -> ValueError:
        at = self._moment
        return ValueError(f"{what}: not at step {at.step}, {at.phase} of {at.request}")

    # ------------------------------------------------------------------ the step

    @property
    def _step(self) -> RequestStep:
        found = self._frame.request_step(self.name)
        if found is None:
            raise self._missing("a scheduled request")
        return found

    @property
    def computed(self) -> int:
        return self._step.num_computed

    @property
    def scheduled(self) -> int:
        return self._step.num_scheduled

    @property
    def end(self) -> int:
        """Tokens that have gone through the layers after the step's forward, drafts included."""
        return self.computed + self.scheduled

    @property
    def known(self) -> int:
        return self._step.num_tokens

    @property
    def drafts(self) -> int:
        return self._step.drafts

    @property
    def kept(self) -> int:
        if self._step.accepted_drafts is None:
            raise self._missing("a verification")
        return self._step.accepted_drafts

    @property
    def accepted(self) -> int:
        return self.kept + 1

    @property
    def total(self) -> int:
        """Tokens computed once the step is over."""
        return self._frame.step.num_computed_after[self.name]

    @property
    def row_class(self) -> str:
        return self._step.row_class

    @property
    def rule(self) -> str:
        return self._step.class_rule

    # ------------------------------------------------------------------ blocks

    @property
    def block(self) -> tuple[int, ...]:
        """The block of each column of the worker's row."""
        return tuple(cell.block for cell in self._lane.cells)

    @property
    def h(self) -> tuple[int | None, ...]:
        """By column, after how many tokens the state in its block was taken; from the bytes."""
        return tuple(cell.absorbed for cell in self._lane.cells)

    @property
    def _running(self) -> BlockView:
        found = [cell for cell in self._lane.cells if cell.role == "running"]
        if not found:
            raise self._missing("a running block")
        return found[-1]

    @property
    def running(self) -> int:
        """Column of the running block."""
        return self._running.column

    @property
    def running_block(self) -> int:
        return self._running.block

    @property
    def held(self) -> int | None:
        """After how many tokens the state in the running block was taken."""
        return self._running.absorbed

    @property
    def rows(self) -> str:
        """The tokens of the running block's conv window, as the block shows them."""
        return self.windows[self.running]

    @property
    def windows(self) -> tuple[str, ...]:
        """The same by column."""
        return tuple(_tokens(cell.window) for cell in self._lane.cells)

    @property
    def all_rows(self) -> str:
        """The tokens of all conv rows of the running block, those of drafts included."""
        return _tokens(self._frame.label(LAYER, self.running_block).rows)

    @property
    def offset(self) -> int:
        """Row at which the running block's window begins."""
        return self._running.offset

    @property
    def true_block(self) -> int:
        """The block with the state after the accepted tokens: as many columns on as the count
        says, less one."""
        cell = self._lane.cells[self.running + self.accepted - 1]
        if cell.absorbed != self.total:
            raise self._missing(f"h({self.total}) in block {cell.block}")
        return cell.block

    @property
    def batch_row(self) -> int:
        if self._lane.batch_row is None:
            raise self._missing("a row of the batch")
        return self._lane.batch_row

    # ------------------------------------------------------------------ the copy

    @cached_property
    def copy(self) -> CopyView:
        """The copy that this phase makes for the request."""
        if len(self._lane.copies) != 1:
            raise self._missing("one copy")
        return self._lane.copies[0]

    @property
    def slot(self) -> int:
        """The request's slot of the V2 runner, as a launch of this step was given it."""
        for phase in self._frame.step.phases:
            for decision in phase.decisions:
                if decision.request == self.name and decision.slot is not None:
                    return decision.slot
        raise self._missing("a slot")

    @property
    def count(self) -> int:
        """The accepted count that this phase's copy was made with."""
        decision = self._frame.decision(self.name)
        if decision is None or decision.accepted is None:
            raise self._missing("an accepted count")
        return decision.accepted

    @property
    def count_after(self) -> int:
        """The accepted count that this phase leaves."""
        decision = self._frame.decision(self.name)
        if decision is None or decision.accepted_out is None:
            raise self._missing("an accepted count that comes out")
        return decision.accepted_out

    @property
    def broken(self) -> str:
        """Invariants broken in this step so far."""
        names = sorted({found.invariant for found in self._frame.violations_so_far()})
        if not names:
            raise self._missing("a broken invariant")
        return ", ".join(names)


def _tokens(rows: Sequence[int | None]) -> str:
    return " ".join(f"t{token}" for token in rows if token is not None)


# --------------------------------------------------------------------------------------
# The stops
# --------------------------------------------------------------------------------------

_DEFAULT = PRESETS[DEFAULT_PRESET]
_PLAIN = PRESETS["plain-decode"]
_CROSSING = PRESETS["crossing-a-boundary"]
_CHUNKS = PRESETS["a-long-prompt-in-chunks"]
_PREFIX = PRESETS["a-shared-prefix"]
_MODES = {one.engine.mode: one for one in READY_MADE["cache-mode"].scenarios}


def _replayed(report: str, *, faulty: bool = False) -> Scenario:
    """The run of a report, as it should be or with the mistake."""
    found = REPORTS[report]
    scenario = found.faulty_scenario if faulty else found.scenario
    if scenario is None:
        raise ValueError(f"no run replays {report}")
    return scenario


STOPS: tuple[Stop, ...] = (
    Stop(
        "block",
        "One block holds the whole past",
        _PLAIN,
        Moment(1, "metadata", "A"),
        Moment(1, "forward", "A"),
        "{now.name} has read {now.computed} tokens. A KV cache would keep an entry for each; a "
        "recurrent layer keeps one summary of all of them, h({now.held}), in block "
        "{now.running_block}. **Predict:** token {now.computed} goes through the layer next. What "
        "does the block hold then, and what has grown?",
        "**h({then.held})**, in the same bytes: h({now.held}) is overwritten, and nothing has "
        "grown. The price: no token can be taken out of a summary again. The label is no "
        "bookkeeping; it is read back from the bytes of the cache.",
    ),
    Stop(
        "window",
        "Beside it, the conv window",
        _PLAIN,
        Moment(2, "metadata", "A"),
        Moment(2, "forward", "A"),
        "The other half of a state: the layer’s short convolution looks at the last inputs, so the "
        "block keeps the {now.window} latest of them as rows, now {now.rows}. **Predict** the rows "
        "after token {now.computed}.",
        "**{then.rows}**: every row moves up by one, the newest input comes last. Window and h("
        "{then.held}) belong together: a copy has to bring both, for the same token.",
    ),
    Stop(
        "columns",
        "A column for every block of tokens",
        _CROSSING,
        Moment(3, "schedule", "A"),
        Moment(3, "allocate", "A"),
        "A block also stands for {now.size} tokens: a column of the row. {now.name} has "
        "{now.computed} tokens, so column {now.running} is full, and token {now.computed} is due. "
        "**Predict:** what does the cache manager do?",
        "It hands out block {then.running_block} for column {then.running}. The running column is "
        "the one that the last token of a step falls into: ⌈{then.end} / {then.size}⌉ − 1 = "
        "**{then.running}**. Its block is empty as yet: the state still lies in block "
        "{then.block[0]}.",
    ),
    Stop(
        "migrate",
        "Migrate: the state moves on",
        _CROSSING,
        Moment(3, "allocate", "A"),
        Moment(3, "pre-copy", "A"),
        "The layer is going to read and write the running block, {now.running_block}. The state is "
        "in block {now.block[0]}. **Predict:** what has to happen before the forward?",
        "A **migrate**: window and h({then.held}) are copied from block {then.copy.src_block} to "
        "block {then.copy.dst_block}, before the forward, which writes over what it reads. Block "
        "{then.copy.src_block} still holds h({then.h[0]}).",
        moves=("migrate",),
    ),
    Stop(
        "hash",
        "At a boundary, a state can be found again",
        _CROSSING,
        Moment(4, "schedule", "A"),
        Moment(4, "allocate", "A"),
        "Block {now.block[0]} was left behind with h({now.h[0]}), a state exactly at a block "
        "boundary. Its {now.h[0]} tokens have a hash, under which the block is registered. "
        "{now.name} reads it no more. **Predict:** is it thrown away?",
        "No: it stays, **cached** (C) and unowned, until somebody begins with the same tokens or "
        "the pool runs short. The scheduler’s list drops it; the worker’s row, which only ever "
        "grows, keeps the old id.",
    ),
    Stop(
        "null",
        "The null block: nothing is kept here",
        _CHUNKS,
        Moment(1, "schedule", "long"),
        Moment(1, "allocate", "long"),
        "A request named “{now.name}” brings {now.prompt} prompt tokens, and this step takes "
        "{now.scheduled} of them: columns of {now.size} tokens each. **Predict:** which block does "
        "its first column get?",
        "**Block {then.block[0]}**, the null block (hatched), which is nobody’s. One chunk leaves "
        "one state, at its end, so nothing will ever stand in the first column. Block "
        "{then.running_block} is the running one; those behind it wait for drafts.",
    ),
    Stop(
        "chunks",
        "A prefill in chunks",
        _CHUNKS,
        Moment(1, "metadata", "long"),
        Moment(1, "forward", "long"),
        "A long prompt is not computed at once: here a chunk has at most {now.limit} tokens, of "
        "{now.prompt}. **Predict:** after how many tokens will the state in block "
        "{now.running_block} be taken, and why just there?",
        "**h({then.held})**: the scheduler lets a chunk end on a block boundary, so that the state "
        "it leaves can be registered. The rest of the prompt follows in the next steps, while the "
        "other request goes on decoding.",
    ),
    Stop(
        "drafts",
        "Drafts need room",
        _DEFAULT,
        Moment(2, "schedule", "A"),
        Moment(2, "allocate", "A"),
        "Speculative decoding: {now.name} has {now.computed} tokens computed and is asked for "
        "{now.scheduled} more, the token sampled last and {now.drafts} drafts, which are guesses. "
        "No state can be rolled back. **Predict:** how many blocks must it be able to write?",
        "**{then.needed}**: the running block {then.running_block} (R) for the token that is "
        "certain, and {then.drafts_most} of scratch behind it (S), one for each draft. Scratch "
        "columns stand for no tokens; they move along behind the running column.",
    ),
    Stop(
        "forward",
        "The forward takes them all",
        _DEFAULT,
        Moment(2, "metadata", "A"),
        Moment(2, "forward", "A"),
        "The layers take in all {now.scheduled} tokens in one go, before anybody knows whether the "
        "drafts are right. **Predict:** which states stand in columns {now.running} and behind it "
        "afterwards? And what do the {now.conv_rows} rows of the window hold?",
        "**h({then.h[2]}), h({then.h[3]}), h({then.h[4]})** in blocks {then.block[2]}, "
        "{then.block[3]} and {then.block[4]}: query token after query token, a column further each "
        "time. The window needs no more blocks, only {then.drafts_most} more rows: "
        "{then.window} + {then.drafts_most} = {then.conv_rows}.",
    ),
    Stop(
        "accept",
        "Accept: which of them is true",
        _DEFAULT,
        Moment(2, "forward", "A"),
        Moment(2, "accept", "A"),
        "Verification is about to keep {then.kept} of {now.drafts} drafts. **Predict:** how many "
        "tokens are accepted, and in which block does the true state lie?",
        "**{then.accepted}**: {then.kept} + the token sampled last, which always counts. So "
        "h({then.total}), in block **{then.true_block}**, is true, and the window begins at row "
        "{then.offset}. What the rejected draft left is never read.",
    ),
    Stop(
        "checkpoint",
        "Checkpoint: saved at the boundary",
        _DEFAULT,
        Moment(2, "accept", "A"),
        Moment(2, "post-copy", "A"),
        "The accepted tokens end at {now.total}, a block boundary: h({now.total}) has to come into "
        "the column that ends there, {then.copy.dst_col}, block {then.copy.dst_block}. "
        "**Predict:** from which row on is the window copied, and from which block the temporal "
        "state?",
        "The accepted tokens end **{then.copy.bias}** past the first state of the running column: "
        "that is the **bias**. Rows from {then.copy.bias} on slide to the front of block "
        "{then.copy.dst_block}; h({then.total}) comes from column {then.copy.src_col} + "
        "{then.copy.bias} = {then.copy.temporal_col}, block {then.copy.temporal_block}.",
        moves=("checkpoint",),
    ),
    Stop(
        "in-place",
        "Source and target are one block",
        _DEFAULT,
        Moment(2, "accept", "B"),
        Moment(2, "post-copy", "B"),
        "At the same time {now.name} accepts {now.accepted} tokens and ends on the boundary of its "
        "own running block, {now.running_block}. **Predict** its rows afterwards, and the accepted "
        "count that the next step will read.",
        "Rows from {then.copy.bias} on slide to the front **inside** block {then.copy.dst_block}, "
        "in order: a row must be read before it is written over. h({then.total}) comes from "
        "scratch block {then.copy.temporal_block}. All is in place, so the count goes from "
        "{then.count} to **{then.count_after}**.",
        moves=("checkpoint",),
    ),
    Stop(
        "no-boundary",
        "No boundary, no copy",
        _DEFAULT,
        Moment(3, "forward", "A"),
        Moment(3, "post-copy", "A"),
        "The next step: {now.name} has taken in tokens up to {now.end}, and verification is going "
        "to keep {then.kept} of its {now.drafts} drafts. **Predict:** what is copied when accepted "
        "tokens end inside a block?",
        "**Nothing.** h({then.total}) stays in scratch block {then.true_block}, the window begins "
        "at row {then.offset}, and all that remembers it is a number: the accepted count, "
        "**{then.accepted}**.",
    ),
    Stop(
        "bias",
        "The accepted-token bias",
        _DEFAULT,
        Moment(4, "allocate", "A"),
        Moment(4, "pre-copy", "A"),
        "Now {now.name} reaches into a new column, and its state migrates from block "
        "{then.copy.src_block} to {then.copy.dst_block}. But the step before has accepted "
        "{then.count} tokens. **Predict** the bias of this copy.",
        "{then.count} − 1 = **{then.copy.bias}**: as far past the start of block "
        "{then.copy.src_block} lies the true state. Rows from {then.copy.bias} on, and column "
        "{then.copy.src_col} + {then.copy.bias} = {then.copy.temporal_col}, block "
        "{then.copy.temporal_block}, with h({then.held}). Off by one here, and every later token "
        "is wrong.",
        moves=("migrate",),
    ),
    Stop(
        "metadata",
        "What the layers are told",
        _CHUNKS,
        Moment(3, "pre-copy", "long"),
        Moment(3, "metadata", "long"),
        "The layers see no columns and no lists, only tensors that the metadata builder makes. "
        "“{now.name}” has {now.scheduled} token of its prompt left; the other request decodes. "
        "**Predict:** does that row count as a prefill or as a decode?",
        "As a **{then.row_class}**, beside the decodes: {then.rule}. In "
        "state_indices_tensor_d its row names block {then.running_block} and the scratch behind "
        "it: those are the blocks that the kernels read and write.",
        panel="metadata",
    ),
    Stop(
        "hit",
        "A prefix hit",
        _PREFIX,
        Moment(2, "commit", "B"),
        Moment(3, "allocate", "B"),
        "{now.name} arrives with {now.prompt} tokens and begins like A, whose states at block "
        "boundaries are cached. **Predict:** how many tokens need not be computed, and which "
        "blocks does that take?",
        "**{then.computed}**, and one block is enough: {then.block[1]}, with "
        "h({then.h[1]}). The columns before it are null. Had {now.name} shared one token less, "
        "nothing would be found: a state cannot be cut back, and none is kept in between.",
        moves=("hit",),
    ),
    Stop(
        "preempted",
        "Preempted, and back again",
        _replayed("S01"),
        Moment(2, "commit", "A"),
        Moment(3, "forward", "A"),
        "{now.name} has {now.total} tokens computed. Then it is preempted, and the prefix cache is "
        "reset. **Predict:** what is left of its state, and where does it go on?",
        "Nothing is left, so it begins anew at token **{then.computed}**: of the {then.known} "
        "tokens it knows, this step computes {then.scheduled} for the second time, in block "
        "{then.running_block}. With the prefix cache intact it would go on from a boundary.",
        moves=("preempted",),
    ),
    Stop(
        "none-mode",
        "none mode: written over in place",
        _MODES["none"],
        Moment(1, "accept", "A"),
        Moment(2, "forward", "A"),
        "All of this was align mode. In **none** mode there is no reuse: a request has "
        "{now.needed} blocks for life. h({now.total}) now lies in block {now.true_block}. "
        "**Predict:** what is copied before the next step?",
        "**Nothing**: the kernels read where the accepted count points and write from the first "
        "column on again, h({then.h[0]}), h({then.h[1]}), h({then.h[2]}) in the same blocks. "
        "Cheap, but nothing is left for another request to find.",
    ),
    Stop(
        "all-mode",
        "all mode: every boundary at once",
        _MODES["all"],
        Moment(0, "metadata", "B"),
        Moment(0, "forward", "B"),
        "In **all** mode every column has a block of its own. {now.name} computes its whole prompt "
        "of {now.prompt} tokens in one step. **Predict:** which states are there afterwards?",
        "**h({then.h[0]}), h({then.h[1]}), h({then.h[2]})** in blocks {then.block[0]}, "
        "{then.block[1]} and {then.block[2]}: the prefill leaves a state at every boundary it "
        "passes, and no copy is ever needed. The price is memory: a block for every "
        "{then.size} tokens.",
    ),
    Stop(
        "slots",
        "The V2 runner: slots and rows",
        _replayed("S05"),
        Moment(3, "metadata", "Z"),
        Moment(4, "metadata", "Z"),
        "The V2 runner decides on the GPU. A request has a slot for as long as it lives (here "
        "{now.name} has slot {now.slot}) and in each step a row of the batch, now row "
        "{now.batch_row}. X is about to finish. **Predict** row and slot of {now.name} in the next "
        "step.",
        "Row **{then.batch_row}**, still slot {then.slot}. Columns and accepted counts are kept by "
        "slot, block tables by row. A kernel that takes one for the other reads another request’s "
        "numbers, and nothing crashes.",
        moves=("migrate",),
    ),
    Stop(
        "fault",
        "A mistake turns a lamp red",
        _replayed(FAULTY, faulty=True),
        Moment(1, "accept", "A"),
        Moment(2, "forward", "A"),
        "A shift inside one block again, by an engine with a mistake: {fault.what}. The window of "
        "block {now.running_block} holds {now.all_rows} and slides by {now.kept}. **Predict:** "
        "what does it hold then, and does anything crash?",
        "**{then.windows[1]}**: rows were written over before they were read, and the next step "
        "took that along. Nothing crashes. Only the oracle, which computes everything once more "
        "from the first token, turns **{then.broken}** red. Press a red lamp: it leads to the "
        "place.",
        moves=("checkpoint", "migrate", "wrong"),
        lamps=True,
    ),
    Stop(
        "own",
        "Now your own scenario",
        _DEFAULT,
        Moment(2, "post-copy", "A"),
        None,
        "That was the whole life of a state. Change something: keep other drafts, make blocks "
        "smaller, take blocks from the pool. **Open on Watch** (W) shows this very moment; there, "
        "“Edit scenario” has every knob, and “Try” rewinds a step. Or go on with **questions** "
        "(Q): predict, then see.",
        "",
    ),
)

NAMES: tuple[str, ...] = tuple(stop.name for stop in STOPS)
BY_NAME: Mapping[str, Stop] = {stop.name: stop for stop in STOPS}
