"""A launch done wrong on purpose, in a plain twin on the real bytes, and what catches it.

The real kernels cannot make these mistakes, and where the order of programs matters the
interpreter would not show it. So each is simulated: the same decisions and plans as in
`mambaviz.launches.run`, with the one step done wrong, in an order that is always the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from kernels.reference import CopyPlan, Outcome, PostprocessDecision
from mambaviz.launches.contents import Caches, filled, layouts
from mambaviz.launches.inputs import LAUNCHES, LaunchInputs
from mambaviz.launches.mistakes import MISTAKES
from mambaviz.launches.record import Broken, Damage, label_texts
from mambaviz.launches.run import (
    Decision,
    decide,
    geometry_of,
    image,
    plan,
    shift_one_by_one,
    token_rows,
)
from mambaviz.trace import Invariant

WIDE_STRIDE = 2**28  # bytes from block to block while the 32-bit product is simulated
STRANGE_BYTE = 0xAA  # what stands in memory that is not ours


def damage(inputs: LaunchInputs, mistakes: Sequence[str]) -> Damage:
    """The launch with these mistakes against the right one. KeyError for an unknown mistake."""
    unknown = [name for name in mistakes if name not in MISTAKES]
    if unknown:
        raise KeyError(f"no mistake {unknown[0]!r}; there are {', '.join(MISTAKES)}")
    right, wrong = _Launch(inputs, frozenset()), _Launch(inputs, frozenset(mistakes))
    right.run()
    wrong.run()
    found = _compared(inputs, mistakes, right, wrong)
    if len(mistakes) < 2:
        return found.model_copy(update={"notes": list(_notes(inputs, mistakes, found))})
    notes = [note for name in mistakes for note in damage(inputs, [name]).notes]
    return found.model_copy(update={"notes": notes})


def _notes(inputs: LaunchInputs, mistakes: Sequence[str], found: Damage) -> Iterator[str]:
    for name in mistakes:
        if found.harmless:
            preset = LAUNCHES[MISTAKES[name].preset].name
            yield f"“{MISTAKES[name].label}” {_why_harmless(inputs, name)}; see “{preset}”"


def _why_harmless(inputs: LaunchInputs, name: str) -> str:
    if inputs.kernel == "preprocess":
        return "is about kernels that move bytes, which this one does not"
    if name == "flat-ds-copy" and inputs.layout == "SD":
        return "does nothing in the SD layout, where a window is one run of bytes"
    if name == "early-reset" and inputs.kernel != "postprocess":
        return "is about the kernel after acceptance; this one writes no counts"
    return "does no damage to these inputs"


# --------------------------------------------------------------------------------------
# A launch in plain steps
# --------------------------------------------------------------------------------------


@dataclass
class _Launch:
    """The caches and counts of one launch, done program by program."""

    inputs: LaunchInputs
    mistakes: frozenset[str]
    outside: list[str] = field(
        default_factory=list
    )  # columns that no row has, looked up all the same
    plans: dict[tuple[int, int], CopyPlan] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.states = layouts(self.inputs)
        self.before: Caches = filled(self.inputs)
        self.caches: Caches = [cache.copy() for cache in self.before]
        self.counts = [row.accepted for row in self.inputs.rows]
        self.geometries = [geometry_of(state, self.inputs.layout) for state in self.states]

    def run(self) -> None:
        if not self.inputs.copies:
            return
        for row in range(len(self.inputs.rows)):
            decision = decide(self.inputs, row)
            for state, geometry in enumerate(self.geometries):
                seen = self._as_seen(row, state, decision)
                found = plan(self.inputs, row, state, geometry, seen, self._table_row(row))
                if found is not None:
                    self._note_outside(row, found)
                    self.plans[row, state] = found
                    if found.skipped is None:
                        self._copy(found)
            if isinstance(decision, PostprocessDecision) and decision.accepted_out is not None:
                self.counts[row] = decision.accepted_out

    def _as_seen(self, row: int, state: int, decision: Decision) -> Decision:
        """What a program decides from the counts as it finds them."""
        early = "early-reset" in self.mistakes and isinstance(decision, PostprocessDecision)
        if early and state > 0 and getattr(decision, "resets_count", False):
            return decide(self.inputs, row, accepted=1)  # program 0 was faster
        return decision

    def _table_row(self, row: int) -> list[int]:
        """The request's row; without a bounds check the memory behind it goes on."""
        if "no-bounds-check" not in self.mistakes:
            return self.inputs.table_row(row)
        rows = [self.inputs.table_row(index) for index in range(row, len(self.inputs.rows))]
        return [block for one in [*rows, self.inputs.table_row(0)] for block in one]

    def _note_outside(self, row: int, found: CopyPlan) -> None:
        if "no-bounds-check" not in self.mistakes:
            return
        for column in (found.src_col, found.dst_col):
            if column >= self.inputs.columns:
                name = self.inputs.rows[row].request
                told = (
                    f"column {column} of {name} is outside a row of {self.inputs.columns} columns"
                )
                if told not in self.outside:
                    self.outside.append(told)

    def _copy(self, found: CopyPlan) -> None:
        state = self.states[found.state]
        if "signed-address" in self.mistakes and state.layer == 0:
            return  # its base address looks negative
        source, target = self._pages(found)
        shift = found.is_conv and found.src_block == found.dst_block and found.bias > 0
        if "flat-ds-copy" in self.mistakes and found.is_conv and self.inputs.layout == "DS":
            first = found.bias * state.elem_size
            data = source[first : first + found.num_bytes].copy()
            target[: found.num_bytes] = data
        elif "unordered-shift" in self.mistakes and shift and source is target:
            kept = self.inputs.conv_width - found.bias
            rows = token_rows(target, state, self.inputs.layout)
            shift_one_by_one(rows, found.bias, range(kept - 1, -1, -1))
        else:
            self._in_order(found, source, target)

    def _in_order(self, found: CopyPlan, source: np.ndarray, target: np.ndarray) -> None:
        geometry = self.geometries[found.state]
        src_page = (found.src_block or 0) * geometry.block_stride
        dst_page = (found.dst_block or 0) * geometry.block_stride
        data = [
            (dst - dst_page, source[src - src_page : src - src_page + size].copy())
            for src, dst, size in found.ranges()
        ]
        for start, run in data:
            target[start : start + len(run)] = run

    def _pages(self, found: CopyPlan) -> tuple[np.ndarray, np.ndarray]:
        """The memory at which source and target address point: one array if it is the same."""
        source = self._page(found.state, found.src_block or 0)
        if found.src_block == found.dst_block:
            return source, source
        return source, self._page(found.state, found.dst_block or 0)

    def _page(self, state: int, block: int) -> np.ndarray:
        reached = wrapped_block(block) if "int32-product" in self.mistakes else block
        cache = self.caches[state]
        if 0 <= reached < len(cache):
            return cache[reached]
        return np.full(cache.shape[1], STRANGE_BYTE, dtype=np.uint8)  # somebody else's memory


def wrapped_block(block: int) -> int:
    """The block at which ``int32(id * WIDE_STRIDE)`` points; negative: before the first one."""
    product = (block * WIDE_STRIDE + 2**31) % 2**32 - 2**31
    return product // WIDE_STRIDE


# --------------------------------------------------------------------------------------
# What came out wrong, and which invariant says so
# --------------------------------------------------------------------------------------


def _compared(
    inputs: LaunchInputs, mistakes: Sequence[str], right: _Launch, wrong: _Launch
) -> Damage:
    blocks = []
    for index, state in enumerate(right.states):
        differ = (right.caches[index] != wrong.caches[index]).any(axis=1)
        for block in np.flatnonzero(differ):
            pages = right.caches[index][block], wrong.caches[index][block]
            blocks.append(image(index, int(block), *pages, state.num_bytes))
    hit = {(one.state, one.block) for one in blocks}
    programs = [
        f"{row}-{state}"
        for (row, state), found in right.plans.items()
        if (state, found.dst_block) in hit and found.skipped is None
    ]
    programs += [
        f"{row}-{state}"
        for (row, state), found in wrong.plans.items()
        if found.skipped is None
        and (state, found.dst_block) in hit
        and right.plans[row, state].skipped is not None
    ]
    counts = [
        f"the accepted count of {inputs.rows[row].request} is {got} instead of {due}"
        for row, (due, got) in enumerate(zip(right.counts, wrong.counts, strict=True))
        if due != got
    ]
    judged = _judged(inputs, right, wrong, [(one.state, one.block) for one in blocks])
    return Damage(
        mistakes=list(mistakes),
        blocks=blocks,
        programs=sorted(set(programs)),
        broken=judged,
        counts=counts,
        notes=[],
    )


def _judged(
    inputs: LaunchInputs, right: _Launch, wrong: _Launch, hit: list[tuple[int, int]]
) -> list[Broken]:
    """One entry for each invariant and request: the first place, and how many there are."""
    found: dict[tuple[Invariant, str], list[tuple[str, str]]] = {}
    for told in wrong.outside:
        found.setdefault(("I7", told), []).append((told, "it was turned into an address"))
    for state, block in hit:
        said = f"block {block}, {right.states[state].name}: {_contents(right, wrong, state, block)}"
        for invariant, request, why in _breaks(inputs, block):
            found.setdefault((invariant, request), []).append((said, why))
    return [
        Broken(invariant=invariant, place=_first([place for place, _ in told]), why=told[0][1])
        for (invariant, _), told in sorted(found.items(), key=lambda one: one[0])
    ]


def _first(places: list[str]) -> str:
    more = len(places) - 1
    return places[0] + (f" (and {more} more)" if more else "")


def _contents(right: _Launch, wrong: _Launch, state: int, block: int) -> str:
    """A block's labels now and as they should be; where the labels agree, the wrong channels."""
    layout, inputs = right.states[state], right.inputs
    pages = [launch.caches[state][block] for launch in (wrong, right)]
    texts = [
        label_texts(layout, layout.labels(page[: layout.num_bytes].tobytes(), inputs.layout))
        for page in pages
    ]
    if layout.kind == "conv":
        window = inputs.conv_kernel - 1
        rows = [token_rows(page, layout, inputs.layout)[:window] for page in pages]
        differ = np.flatnonzero((rows[0] != rows[1]).any(axis=(0, 2)))
        if len(differ) and differ[0] > 0:
            channels = ", ".join(str(channel) for channel in differ)
            return f"channel 0 looks right, but the window is wrong in channel {channels}"
    shown = [text[0] if layout.kind == "temporal" else f"[{' '.join(text)}]" for text in texts]
    if shown[0] == shown[1]:
        return f"holds {shown[0]} as it should, but other values are wrong"
    return f"holds {shown[0]} instead of {shown[1]}"


def _breaks(inputs: LaunchInputs, block: int) -> Iterator[tuple[Invariant, str, str]]:
    """Which invariants a wrong block breaks, for whom, and why."""
    if block == 0:
        yield "I4", "", "the null block is never written"
        return
    for row, request in enumerate(inputs.rows):
        if block not in request.blocks:
            continue
        column = request.blocks.index(block)
        decision = decide(inputs, row)
        saves = inputs.kernel == "postprocess" and decision.outcome is Outcome.COPIED
        name = request.request
        if saves and column == decision.dst_col:
            assert isinstance(decision, PostprocessDecision)
            aligned = decision.aligned
            yield "I1", name, f"registered for the first {aligned} tokens of {name}"
        elif column < request.state_idx and inputs.kernel == "postprocess":
            yield "I1", name, f"a boundary of {name}"
        if column >= request.state_idx:
            yield "I2", name, f"read by the next forward of {name}"
