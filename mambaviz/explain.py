"""From a copy launch to words and byte ranges: what it decided, what it moved, what it skipped.

The kernels move bytes and report nothing. So the trace asks the plain decision functions
(`kernels.reference`) the same question with the same inputs, and then holds the answer
against the caches: after each launch the recorded copies, applied to the bytes before it,
must give exactly the bytes after it (`bytes_unexplained`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from kernels.reference import (
    CopyPlan,
    Outcome,
    PostprocessDecision,
    StateGeometry,
    decide_postprocess,
    decide_postprocess_advanced,
    decide_precopy,
    plan_copy,
)
from mambaviz.trace import BlockCopy, ByteRange, CopyKind, Decision, StateKind, StateSpec

HostInputs = Mapping[str, torch.Tensor | int | None]  # a launch's inputs, tensors on the host


@dataclass(frozen=True)
class CopyScene:
    """What an explanation needs besides the launch: who is in the batch, and the table rows.

    ``tables[g]`` are the host rows of Mamba group ``g``'s block table, whole width;
    ``geometries`` and ``states`` run over the copied states in kernel order.
    """

    req_ids: Sequence[str]
    computed: Sequence[int]  # before the step, by batch row
    tables: Sequence[Sequence[Sequence[int]]]
    geometries: Sequence[StateGeometry]
    states: Sequence[StateSpec]
    conv_state_dim_first: bool
    num_blocks: int


@dataclass(frozen=True)
class Explanation:
    decisions: list[Decision]
    copies: list[BlockCopy]


def explain_postprocess(inputs: HostInputs, scene: CopyScene) -> Explanation:
    """A launch of the kernel of section 3.2."""

    def decide(row: int, slot: int) -> tuple[Decision, tuple[int, int, int] | None]:
        accepted = _at(inputs, "num_accepted_tokens", slot)
        column = _at(inputs, "mamba_state_idx", slot)
        computed = _at(inputs, "num_computed_tokens", slot)
        block_size = _number(inputs, "block_size")
        if inputs["PRECOMPUTED_NEW_COMPUTED"]:
            found = decide_postprocess_advanced(slot, accepted, column, computed, block_size)
        else:
            scheduled = _at(inputs, "num_scheduled_tokens", slot)
            drafts = _at(inputs, "num_draft_tokens", slot)
            found = decide_postprocess(
                slot, accepted, column, computed, scheduled, drafts, block_size
            )
        return _postprocess_words(scene, row, found), _move(found)

    return _explain("checkpoint", inputs, scene, decide)


def explain_precopy(
    inputs: HostInputs, scene: CopyScene, accepted: Sequence[int], query_lens: Sequence[int]
) -> Explanation:
    """A launch of the kernel of section 3.4; ``accepted`` are the counts before the step."""

    def decide(row: int, slot: int) -> tuple[Decision, tuple[int, int, int] | None]:
        found = decide_precopy(
            slot,
            _at(inputs, "src_col", slot),
            _at(inputs, "mamba_state_idx", slot),
            _at(inputs, "token_bias", slot),
        )
        assert found.src_col is not None
        assert found.dst_col is not None
        assert found.bias is not None
        copies = found.outcome is Outcome.COPIED
        decision = Decision(
            request=scene.req_ids[row],
            row=row,
            slot=slot if inputs["HAS_IDX_MAPPING"] else None,
            computed=scene.computed[row],
            scheduled=query_lens[row],
            accepted=accepted[row],
            bias=found.bias if copies else None,
            src_col=found.src_col if found.src_col >= 0 else None,
            dst_col=found.dst_col,
            accepted_out=1 if copies else accepted[row],
            copies=copies,
            outcome=_PRECOPY_WORDS[found.outcome],
        )
        move = (found.src_col, found.dst_col, found.bias) if copies else None
        return decision, move

    return _explain("migrate", inputs, scene, decide)


_PRECOPY_WORDS = {
    Outcome.COPIED: "a new running block: the state moves there",
    Outcome.FRESH: "no state to move, or the running block stays",
    Outcome.SAME_COLUMN: "the running block stays",
}

_POSTPROCESS_WORDS = {
    Outcome.COPIED: "a block boundary was reached: its state is saved",
    Outcome.NO_BOUNDARY: "no block boundary among the tokens of this step",
    Outcome.NO_SHIFT: "the running block itself ends on the boundary: nothing to move",
}


def _postprocess_words(scene: CopyScene, row: int, found: PostprocessDecision) -> Decision:
    return Decision(
        request=scene.req_ids[row],
        row=row,
        slot=found.slot if found.slot != row else None,
        computed=scene.computed[row],
        scheduled=found.scheduled,
        drafts=found.drafts,
        accepted=found.accepted,
        running=found.running,
        new=found.new,
        aligned=found.aligned,
        bias=found.bias,
        src_col=found.src_col,
        dst_col=found.dst_col,
        accepted_out=found.accepted_out,
        copies=found.outcome is Outcome.COPIED,
        outcome=_POSTPROCESS_WORDS[found.outcome],
    )


def _move(found: PostprocessDecision) -> tuple[int, int, int] | None:
    if found.outcome is not Outcome.COPIED:
        return None
    assert found.src_col is not None
    assert found.dst_col is not None
    assert found.bias is not None
    return found.src_col, found.dst_col, found.bias


def _explain(
    kind: CopyKind,
    inputs: HostInputs,
    scene: CopyScene,
    decide: Callable[[int, int], tuple[Decision, tuple[int, int, int] | None]],
) -> Explanation:
    mapping = inputs["idx_mapping"]
    decisions, copies = [], []
    for row, request in enumerate(scene.req_ids):
        slot = row if mapping is None else int(mapping[row])  # type: ignore[index]
        decision, move = decide(row, slot)
        decisions.append(decision)
        if move is not None:
            copies += plan_row(kind, request, row, move, scene)
    return Explanation(decisions, copies)


def plan_row(
    kind: CopyKind, request: str, row: int, move: tuple[int, int, int], scene: CopyScene
) -> list[BlockCopy]:
    """The copies of one request, one per state; ``move`` = (src_col, dst_col, bias)."""
    src_col, dst_col, bias = move
    return [
        _block_copy(
            kind,
            request,
            spec,
            plan_copy(
                spec.index,
                geometry,
                scene.tables[geometry.group][row],
                src_col,
                dst_col,
                bias,
                scene.conv_state_dim_first,
                scene.num_blocks,
            ),
            geometry,
        )
        for geometry, spec in zip(scene.geometries, scene.states, strict=True)
    ]


def _block_copy(
    kind: CopyKind, request: str, spec: StateSpec, plan: CopyPlan, geometry: StateGeometry
) -> BlockCopy:
    return BlockCopy(
        kind=kind,
        request=request,
        group=spec.group,
        layer=spec.layer,
        state=spec.state,
        src_col=plan.src_col,
        dst_col=plan.dst_col,
        src_block=plan.src_block,
        dst_block=plan.dst_block,
        bias=plan.bias,
        source=_byte_range(plan, plan.src_addr, plan.src_block, geometry),
        target=_byte_range(plan, plan.dst_addr, plan.dst_block, geometry),
        num_bytes=plan.num_bytes,
        skipped=plan.skipped,
    )


def _byte_range(
    plan: CopyPlan, addr: int | None, block: int | None, geometry: StateGeometry
) -> ByteRange | None:
    """An address as an offset inside its block: addresses change from run to run."""
    if addr is None or block is None:
        return None
    start = (addr - geometry.base_addr - block * geometry.block_stride) % 2**64
    return ByteRange(start=start, length=plan.row_bytes, rows=plan.num_rows, stride=plan.row_stride)


# --------------------------------------------------------------------------------------
# Holding an explanation against the bytes
# --------------------------------------------------------------------------------------


def bytes_unexplained(
    before: Sequence[np.ndarray],
    after: Sequence[np.ndarray],
    copies: Sequence[BlockCopy],
    specs: Mapping[tuple[int, StateKind], StateSpec],
) -> int:
    """Bytes in which the caches after a launch differ from ``before`` plus ``copies``.

    ``before`` and ``after`` hold each layer's pages, uint8 ``[num_blocks, page_bytes]``. Every
    source is read from ``before``: no copy of a launch feeds another.
    """
    expected = [pages.copy() for pages in before]
    for copy in copies:
        if copy.source is None or copy.target is None:
            continue
        offset = specs[copy.layer, copy.state].offset
        source, target = before[copy.layer][copy.src_block], expected[copy.layer][copy.dst_block]
        for row in range(copy.source.rows):
            src = offset + copy.source.start + row * copy.source.stride
            dst = offset + copy.target.start + row * copy.target.stride
            target[dst : dst + copy.source.length] = source[src : src + copy.source.length]
    return sum(
        int(np.count_nonzero(wanted != found))
        for wanted, found in zip(expected, after, strict=True)
    )


def _at(inputs: HostInputs, name: str, index: int) -> int:
    tensor = inputs[name]
    assert isinstance(tensor, torch.Tensor)
    return int(tensor[index])


def _number(inputs: HostInputs, name: str) -> int:
    value = inputs[name]
    assert isinstance(value, int)
    return value
