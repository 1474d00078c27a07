"""The invariants of section 1, checked after every step; a broken one is recorded, never hidden.

Numbers are read from the caches and held against the oracle; ids and lists are held against
each other. What each check compares, and where, is said at its function. A `StepChecks`
collects one step's comparisons and violations.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from mambaviz.attention import NULL_BLOCK_ID, Mamba2AttentionMetadata
from mambaviz.cache.manager import BlockPlace, CacheManager
from mambaviz.columns import boundary_column
from mambaviz.oracle import (
    AcceptedSequence,
    Comparison,
    compare_output,
    compare_state,
    compare_window,
)
from mambaviz.scenario import Scenario
from mambaviz.trace import (
    INVARIANTS,
    BlockCopy,
    Invariant,
    InvariantCheck,
    PhaseName,
    StateKind,
    StateSpec,
    Violation,
)

Pages = Sequence[np.ndarray]  # per layer uint8 [num_blocks, page_bytes]


@dataclass(frozen=True)
class ReadSlot:
    """Where a forward will find one request's state (section 5.2).

    A block is None where the metadata point outside the row. ``conv_row`` is the offset of the
    window inside the conv state; ``state_tokens`` is how many tokens the temporal state must
    have absorbed (fewer than computed only under ReplaySSM).
    """

    request: str
    group: int
    computed: int
    conv_block: int | None
    conv_row: int
    temporal_block: int | None
    state_tokens: int


@dataclass
class StepChecks:
    """Comparisons and violations of one step."""

    step: int
    scenario: Scenario
    specs: Mapping[tuple[int, StateKind], StateSpec]
    compared: dict[Invariant, int] = field(default_factory=lambda: dict.fromkeys(INVARIANTS, 0))
    worst: dict[Invariant, float] = field(default_factory=dict)
    violations: list[Violation] = field(default_factory=list)

    def results(self) -> list[InvariantCheck]:
        return [
            InvariantCheck(invariant=name, compared=count, worst=self.worst.get(name))
            for name, count in self.compared.items()
        ]

    # Numbers against the oracle.

    def check_running(
        self, slots: Iterable[ReadSlot], pages: Pages, sequences: Mapping[str, AcceptedSequence]
    ) -> None:
        """I2, at the start of a forward: it will read the state after ``computed`` tokens."""
        for slot in slots:
            if not self.can_be_read(slot):
                continue
            truth = sequences[slot.request]
            assert slot.conv_block is not None
            assert slot.temporal_block is not None
            for layer in self._layers_of(slot.group):
                self._compare_block(
                    "I2",
                    "forward",
                    f"{slot.request} is about to read",
                    slot.request,
                    layer,
                    (slot.conv_block, slot.conv_row, slot.computed),
                    (slot.temporal_block, slot.state_tokens),
                    pages,
                    truth,
                )

    def can_be_read(self, slot: ReadSlot) -> bool:
        """I7 and I4 for the blocks a forward is about to read."""
        readable = True
        num_blocks, window = self.scenario.engine.num_blocks, self.scenario.layer.conv_kernel - 1
        state_len = window + self.scenario.engine.num_spec
        if not 0 <= slot.conv_row <= state_len - window:
            readable = False
            self._break(
                "I7",
                "forward",
                f"{slot.request} is about to read its window at row {slot.conv_row} of {state_len}",
                request=slot.request,
                group=slot.group,
            )
        for block in dict.fromkeys((slot.conv_block, slot.temporal_block)):
            self.compared["I4"] += 1
            if block == NULL_BLOCK_ID:
                readable = False
                self._break(
                    "I4",
                    "forward",
                    f"{slot.request} is about to read its state from the null block",
                    request=slot.request,
                    group=slot.group,
                    block=block,
                )
            elif block is None or not 0 < block < num_blocks:
                readable = False
                where = "outside its row" if block is None else f"from block {block}"
                self._break(
                    "I7",
                    "forward",
                    f"{slot.request} is about to read its state {where}; the pool has blocks 1 to "
                    f"{num_blocks - 1}",
                    request=slot.request,
                    group=slot.group,
                )
        return readable

    def check_boundary(
        self,
        block: int,
        group: int,
        request: str,
        num_tokens: int,
        pages: Pages,
        truth: AcceptedSequence,
    ) -> None:
        """I1: a registered block holds window and state after the prefix it is registered for."""
        for layer in self._layers_of(group):
            self._compare_block(
                "I1",
                "commit",
                f"registered for {request}@{num_tokens}",
                request,
                layer,
                (block, 0, num_tokens),
                (block, num_tokens),
                pages,
                truth,
                column=boundary_column(num_tokens, self.scenario.engine.effective_block_size),
            )

    def check_output(
        self, request: str, layer: int, position: int, found: np.ndarray, truth: AcceptedSequence
    ) -> None:
        """I3: the output of an accepted position is that of the plain recurrence."""
        dtype = self.scenario.layer.cache_dtype
        result = compare_output(truth.truth_after(layer, position + 1), found, dtype)
        self._count(
            "I3",
            "forward",
            result,
            f"output of {request} at token {position}, layer {layer}",
            request=request,
            group=self._group_of(layer),
            layer=layer,
        )

    def _compare_block(
        self,
        invariant: Invariant,
        phase: PhaseName,
        what: str,
        request: str,
        layer: int,
        conv: tuple[int, int, int],
        temporal: tuple[int, int],
        pages: Pages,
        truth: AcceptedSequence,
        column: int | None = None,
    ) -> None:
        """Window at (block, row, tokens), temporal state at (block, tokens): as the oracle says?"""
        place: dict[str, str | int | None] = {
            "request": request,
            "group": self._group_of(layer),
            "layer": layer,
            "column": column,
        }
        if (layer, "conv") in self.specs:
            block, row, tokens = conv
            window = self._window(layer, block, row, pages)
            result = compare_window(truth.truth_after(layer, tokens), window)
            after = f"{tokens} token" + "s" * (tokens != 1)
            words = f"block {block}, window after {after}, {what}"
            self._count(invariant, phase, result, words, state="conv", block=block, **place)
        if (layer, "temporal") in self.specs:
            block, tokens = temporal
            state = self.read(layer, "temporal", block, pages)
            dtype = self.scenario.layer.cache_dtype
            result = compare_state(truth.truth_after(layer, tokens), state, dtype)
            words = f"block {block}, state h({tokens}), {what}"
            self._count(invariant, phase, result, words, state="temporal", block=block, **place)

    def read(self, layer: int, state: StateKind, block: int, pages: Pages) -> np.ndarray:
        """One block's state as numbers."""
        spec = self.specs[layer, state]
        raw = pages[layer][block, spec.offset : spec.offset + spec.num_bytes]
        return spec.decode(raw.tobytes())

    def _window(self, layer: int, block: int, row: int, pages: Pages) -> np.ndarray:
        """Token rows ``row .. row + K - 2`` of a conv state, ``[K-1, dim]``."""
        conv = self.read(layer, "conv", block, pages)
        rows = conv if self.scenario.engine.layout == "SD" else conv.T
        return rows[row : row + self.scenario.layer.conv_kernel - 1]

    def _count(
        self,
        invariant: Invariant,
        phase: PhaseName,
        result: Comparison,
        words: str,
        **place: str | int | None,
    ) -> None:
        self.compared[invariant] += result.compared
        if result.worst is not None:
            self.worst[invariant] = max(self.worst.get(invariant, 0.0), result.worst)
        if not result.ok:
            self._break(
                invariant,
                phase,
                f"{words}: {result.where} should be {result.expected}, is {result.found}",
                expected=result.expected,
                found=result.found,
                **place,
            )

    def _group_of(self, layer: int) -> int:
        return next(spec.group for spec in self.specs.values() if spec.layer == layer)

    def _layers_of(self, group: int) -> list[int]:
        return sorted({spec.layer for spec in self.specs.values() if spec.group == group})

    # Ids and lists.

    def check_null(self, phase: PhaseName, before: Pages, after: Pages) -> None:
        """I4: block 0's bytes never change."""
        for layer, (old, new) in enumerate(zip(before, after, strict=True)):
            self.compared["I4"] += old.shape[1]
            if not np.array_equal(old[NULL_BLOCK_ID], new[NULL_BLOCK_ID]):
                self._break(
                    "I4",
                    phase,
                    f"the null block was written in layer {layer}",
                    layer=layer,
                    block=NULL_BLOCK_ID,
                )

    def check_copies(self, phase: PhaseName, copies: Iterable[BlockCopy]) -> None:
        """I4 and I7: no copy of a live request needs the null block, or an id that does not exist.

        The guards of section 3.1 keep such a copy from touching memory; that it was wanted at
        all means that some state will be missing.
        """
        for copy in copies:
            self.compared["I4"] += 2
            self.compared["I7"] += 2
            if copy.skipped is None:
                continue
            null = NULL_BLOCK_ID in (copy.src_block, copy.dst_block)
            self._break(
                "I4" if null else "I7",
                phase,
                f"{copy.kind} of {copy.request}, layer {copy.layer} {copy.state}: {copy.skipped}; "
                "the copy was stopped",
                request=copy.request,
                group=copy.group,
                layer=copy.layer,
                state=copy.state,
                block=copy.dst_block,
                column=copy.dst_col,
            )

    def check_bounds(self, group: int, metadata: Mamba2AttentionMetadata) -> None:
        """I7: every state index of the metadata is a block of the pool."""
        for name in ("state_indices_tensor_d", "state_indices_tensor_p"):
            ids = getattr(metadata, name).cpu().numpy()
            self.compared["I7"] += ids.size
            outside = ids[(ids < 0) | (ids >= self.scenario.engine.num_blocks)]
            if outside.size:
                self._break(
                    "I7",
                    "metadata",
                    f"{name} holds id {outside[0]}, the pool only 0 to "
                    f"{self.scenario.engine.num_blocks - 1}",
                    group=group,
                    found=str(outside[0]),
                )

    def check_ownership(self, manager: CacheManager, written: Iterable[int]) -> None:
        """I5: who shares a block shares a registered one; a block written now has one holder."""
        places = manager.places()
        self.compared["I5"] += len(places)
        for block, problem in ownership_problems(manager, places, set(written)):
            first = min(places[block], key=lambda place: place.request)
            self._break(
                "I5",
                "commit",
                problem,
                request=first.request,
                group=places[block][0].group,
                block=block,
                column=places[block][0].column,
            )

    def check_conservation(self, phase: PhaseName, manager: CacheManager) -> None:
        """I6: every block but null is either free or held, never both, never neither."""
        self.compared["I6"] += self.scenario.engine.num_blocks - 1
        for problem in manager.check_conservation():
            self._break("I6", phase, problem)

    def _break(
        self, invariant: Invariant, phase: PhaseName, message: str, **place: str | int | None
    ) -> None:
        self.violations.append(
            Violation(
                invariant=invariant,
                step=self.step,
                phase=phase,
                message=message,
                **place,  # type: ignore[arg-type]  # checked by the model
            )
        )


def ownership_problems(
    manager: CacheManager, places: Mapping[int, Sequence[BlockPlace]], written: Collection[int]
) -> Iterator[tuple[int, str]]:
    """Blocks that break I5, each with a sentence; ``places`` as `CacheManager.places` has them."""
    for block, where in places.items():
        holders = sorted({place.request for place in where})
        if len(holders) < 2:
            continue
        if not manager.is_registered(block):
            problem = "but it is not registered for reuse"
        elif block in written:
            problem = "and was written in this step"
        else:
            continue
        yield block, f"block {block} stands in the lists of {' and '.join(holders)}, {problem}"


def read_slots(
    group: int,
    metadata: Mamba2AttentionMetadata,
    req_ids: Sequence[str],
    computed: Sequence[int],
    scenario: Scenario,
) -> list[ReadSlot]:
    """The slots that a forward with this metadata will read, for rows that have state (5.2)."""
    slots = []
    for row, (request, tokens) in enumerate(zip(req_ids, computed, strict=True)):
        if tokens == 0:
            continue
        conv_block: int | None
        temporal_block: int | None
        if row < metadata.num_decodes:
            conv_block, conv_row, temporal_block = _decode_slot(metadata, row, scenario)
        else:
            conv_block = temporal_block = _prefill_block(metadata, row, scenario)
            conv_row = 0
        replayed = (
            int(metadata.write_pos_d[row])
            if metadata.write_pos_d is not None and row < metadata.num_decodes
            else 0
        )
        slots.append(
            ReadSlot(
                request, group, tokens, conv_block, conv_row, temporal_block, tokens - replayed
            )
        )
    return slots


def _decode_slot(
    metadata: Mamba2AttentionMetadata, row: int, scenario: Scenario
) -> tuple[int | None, int, int | None]:
    """(conv block, window row, temporal block) of a decode row; None outside the row."""
    row_ids = metadata.state_indices_tensor_d[row].tolist()
    ids = dict(enumerate(row_ids)).get
    bias = 0
    if scenario.engine.num_spec and metadata.num_accepted_tokens is not None:
        bias = int(metadata.num_accepted_tokens[row]) - 1
    if scenario.engine.mode != "all":
        return ids(0), bias, ids(bias)
    if scenario.engine.num_spec:
        assert metadata.block_idx_last_scheduled_token_prev_step is not None
        column = int(metadata.block_idx_last_scheduled_token_prev_step[row])
        return ids(column), bias, ids(column + bias)
    assert metadata.block_idx_last_computed_token is not None
    column = int(metadata.block_idx_last_computed_token[row])
    return ids(column), 0, ids(column)


def _prefill_block(metadata: Mamba2AttentionMetadata, row: int, scenario: Scenario) -> int | None:
    """The block a prefill row's initial state is read from."""
    index = row - metadata.num_decodes
    if scenario.engine.mode != "all":
        return int(metadata.state_indices_tensor_p[index])
    assert metadata.block_idx_last_computed_token is not None
    column = int(metadata.block_idx_last_computed_token[row])
    return dict(enumerate(metadata.state_indices_tensor_p[index].tolist())).get(column)
