"""Launching the real kernel on small caches, and writing down what every program did.

    python -m mambaviz.launches.run      launches all presets and records them

The kernels report nothing. So the plain twins are asked the same question, and the answer is held
against the bytes and counts that the launch left behind: `LaunchRecord.unexplained`.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import kernels
from kernels import BackendName, KernelSet, kernel_set
from kernels.pieces import NOT_OF_FAST_KERNELS, Pieces
from kernels.reference import (
    CopyPlan,
    Outcome,
    PostprocessDecision,
    PrecopyDecision,
    PreprocessDecision,
    StateGeometry,
    decide_postprocess,
    decide_postprocess_advanced,
    decide_precopy,
    decide_preprocess,
    plan_copy,
)
from mambaviz.launches import lines
from mambaviz.launches.contents import Caches, filled, layouts
from mambaviz.launches.inputs import KERNEL_FUNCTIONS, LAUNCHES, LaunchError, LaunchInputs
from mambaviz.launches.record import (
    BlockImage,
    Counts,
    LaunchRecord,
    LineValue,
    OrderStrip,
    ProgramRecord,
    StateLayout,
    write_recording,
)
from mambaviz.launches.record import Outcome as ProgramOutcome
from mambaviz.trace import ByteRange

COPY_BLOCK_SIZE = 1024
LANES = 16  # of the kernel of section 3.3; as many as there can be rows
FAST_PROGRAMS = 3  # of a fast launch: few, so that each has several pieces to do
FAST_PIECE_BYTES = 4096  # small, as these states are

Decision = PostprocessDecision | PrecopyDecision


def launch(
    inputs: LaunchInputs, backend: BackendName | None = None, *, fast: bool = False
) -> LaunchRecord:
    """Launch on ``backend`` (None: this process's own) and record it.

    ``fast`` runs the fast kernel instead of the readable one. Raises LaunchError for inputs whose
    outcome would depend on the order of programs, or for a fast kernel that is not there;
    BackendError for a back end that this process cannot be.
    """
    chosen = kernel_set(backend)
    if fast and not has_fast(inputs, chosen):
        raise LaunchError(
            f"there is no fast kernel for “{KERNEL_FUNCTIONS[inputs.kernel]}” on the back end "
            f"{chosen.backend}; switch to the readable one"
        )
    if inputs.kernel == "preprocess":
        return _launch_preprocess(inputs, chosen)
    return _launch_copies(inputs, chosen, fast)


def has_fast(inputs: LaunchInputs, chosen: KernelSet) -> bool:
    """Whether the fast path can do this launch."""
    return _fast_kernel(inputs, chosen) is not None


def _fast_kernel(inputs: LaunchInputs, chosen: KernelSet) -> Any:
    match inputs.kernel:
        case "postprocess":
            return chosen.postprocess_mamba_pieces_kernel
        case "precopy":
            return chosen.precopy_mamba_align_pieces_kernel
        case _:
            return None


# --------------------------------------------------------------------------------------
# What the twins say
# --------------------------------------------------------------------------------------


def decide(inputs: LaunchInputs, row: int, accepted: int | None = None) -> Decision:
    """One request's decision; ``accepted`` instead of the count in the inputs."""
    found, slot = inputs.rows[row], inputs.slot_of(row)
    if inputs.kernel != "postprocess":
        return decide_precopy(slot, found.src_col, found.state_idx, found.bias)
    count = found.accepted if accepted is None else accepted
    if inputs.advanced:
        return decide_postprocess_advanced(
            slot, count, found.state_idx, found.computed, inputs.block_size
        )
    return decide_postprocess(
        slot,
        count,
        found.state_idx,
        found.computed,
        found.scheduled,
        found.drafts,
        inputs.block_size,
    )


def geometry_of(state: StateLayout, layout: str, base_addr: int = 0) -> StateGeometry:
    """How the copy kernels see a state (section 3.1)."""
    elem = state.elem_size
    if state.kind == "temporal":
        inner = state.shape[0] * state.shape[1]
        return StateGeometry(base_addr, state.stride, elem, inner, 0, 0)
    if layout == "SD":
        tokens, channels = state.shape
        return StateGeometry(base_addr, state.stride, elem, channels, tokens, 0)
    channels, tokens = state.shape
    return StateGeometry(base_addr, state.stride, elem, 1, tokens, 0, channels, tokens * elem)


def plan(
    inputs: LaunchInputs,
    row: int,
    state: int,
    geometry: StateGeometry,
    decision: Decision,
    table_row: Sequence[int] | None = None,
) -> CopyPlan | None:
    """The copy of one state of one request; None where the decision copies nothing."""
    if decision.outcome is not Outcome.COPIED:
        return None
    assert decision.src_col is not None
    assert decision.dst_col is not None
    assert decision.bias is not None
    known = inputs.bounded or inputs.kernel == "memcpy"
    return plan_copy(
        state,
        geometry,
        inputs.table_row(row) if table_row is None else table_row,
        decision.src_col,
        decision.dst_col,
        decision.bias,
        inputs.layout == "DS",
        inputs.num_blocks if known else 0,
    )


def moved(before: Caches, plans: Sequence[CopyPlan], geometries: Sequence[StateGeometry]) -> Caches:
    """The caches after these copies, every source read from ``before``."""
    after = [cache.copy() for cache in before]
    for one in plans:
        geometry = geometries[one.state]
        source, target = before[one.state].reshape(-1), after[one.state].reshape(-1)
        for src, dst, size in one.ranges():
            start, end = src - geometry.base_addr, dst - geometry.base_addr
            target[end : end + size] = source[start : start + size]
    return after


def refuse_chance(inputs: LaunchInputs, plans: dict[tuple[int, int], CopyPlan]) -> None:
    """Raise LaunchError where one program writes what another one reads or writes (I5)."""
    writers: dict[tuple[int, int], int] = {}
    live = {key: one for key, one in plans.items() if one.skipped is None}
    for (row, state), one in live.items():
        other = writers.setdefault((state, one.dst_block or 0), row)
        if other != row:
            _chance(inputs, one.dst_block, other, row, "written")
    for (row, state), one in live.items():
        other = writers.get((state, one.src_block or 0), row)
        if other != row:
            _chance(inputs, one.src_block, other, row, "read")


def _chance(inputs: LaunchInputs, block: int | None, writer: int, other: int, verb: str) -> None:
    names = inputs.rows[writer].request, inputs.rows[other].request
    raise LaunchError(
        f"block {block} is written by {names[0]} and {verb} by {names[1]} in one launch, whose "
        "programs run in no order, so what comes out would be chance (I5); give one another id"
    )


# --------------------------------------------------------------------------------------
# The kernels that copy
# --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Bound:
    """Caches and tables on the device, and the arguments of section 3.1 that describe them."""

    caches: list[torch.Tensor]
    table: torch.Tensor  # only its address is passed on; this keeps it alive
    geometries: list[StateGeometry]
    arguments: dict[str, Any]


def _launch_copies(inputs: LaunchInputs, chosen: KernelSet, fast: bool) -> LaunchRecord:
    before = filled(inputs)
    states = layouts(inputs)
    device = torch.device("cpu") if chosen.backend == "reference" else kernels.device()
    bound = _bind(inputs, before, states, device)
    decisions = [decide(inputs, row) for row in range(len(inputs.rows))]
    plans: dict[tuple[int, int], CopyPlan] = {}
    for row, decision in enumerate(decisions):
        for state, geometry in enumerate(bound.geometries):
            found = plan(inputs, row, state, geometry, decision)
            if found is not None:
                plans[row, state] = found
    refuse_chance(inputs, plans)
    listed = [key for key, one in plans.items() if one.skipped is None]
    function = KERNEL_FUNCTIONS[inputs.kernel]
    counts: list[Counts] = []
    if inputs.kernel == "memcpy":
        grid = [len(listed)]
        _run_memcpy(chosen, [plans[key] for key in listed], device)
    elif inputs.kernel == "precopy":
        grid = _run_precopy(inputs, chosen, bound, fast)
    else:
        grid, count = _run_postprocess(inputs, chosen, bound, fast)
        counts = [count]
    after = [cache.cpu().numpy() for cache in bound.caches]
    expected = moved(before, list(plans.values()), bound.geometries)
    wrong = sum(int(np.count_nonzero(a != b)) for a, b in zip(expected, after, strict=True))
    wrong += _wrong_counts(decisions, counts)
    programs = [
        _program(inputs, states, bound.geometries, row, state, decisions[row], plans, listed)
        for row in range(len(inputs.rows))
        for state in range(len(states))
    ]
    programs = [_with_orders(inputs, states, before, program) for program in programs]
    return LaunchRecord(
        inputs=inputs,
        backend=chosen.backend,
        function=function.replace("_fused_", "_pieces_") if fast else function,
        grid=grid,
        states=states,
        columns=[state.name for state in states],
        notes=[_note(decision) for decision in decisions],
        programs=programs,
        blocks=_images(inputs, states, before, after),
        counts=counts,
        unexplained=wrong,
    )


def _bind(
    inputs: LaunchInputs, before: Caches, states: list[StateLayout], device: torch.device
) -> _Bound:
    caches = [torch.from_numpy(cache.copy()).to(device) for cache in before]
    geometries = [
        geometry_of(state, inputs.layout, cache.data_ptr())
        for state, cache in zip(states, caches, strict=True)
    ]
    table = torch.tensor(
        [inputs.table_row(row) for row in range(len(inputs.rows))],
        dtype=torch.int32,
        device=device,
    )

    def column(name: str, dtype: torch.dtype) -> torch.Tensor:
        values = [getattr(geometry, name) for geometry in geometries]
        return torch.tensor(
            [v - 2**64 if v >= 2**63 else v for v in values], dtype=dtype, device=device
        )

    arguments = {
        "block_table_ptrs": torch.tensor([table.data_ptr()], dtype=torch.int64, device=device),
        "block_table_stride_req": inputs.columns,
        "state_base_addrs": column("base_addr", torch.int64),
        "state_block_strides": column("block_stride", torch.int64),
        "state_elem_sizes": column("elem_size", torch.int32),
        "state_inner_sizes": column("inner_size", torch.int64),
        "state_conv_widths": column("conv_width", torch.int32),
        "state_group_indices": column("group", torch.int32),
        "state_dim_row_count": column("dim_row_count", torch.int32),
        "state_dim_row_stride": column("dim_row_stride", torch.int64),
        "num_reqs": len(inputs.rows),
        "CONV_STATE_DIM_FIRST": inputs.layout == "DS",
        "num_blocks": inputs.num_blocks if inputs.bounded else 0,
    }
    return _Bound(caches, table, geometries, arguments)


def _by_slot(inputs: LaunchInputs, name: str, device: torch.device) -> torch.Tensor:
    """A per-request number, int32 by slot; slots without a request hold 0."""
    slots = [inputs.slot_of(row) for row in range(len(inputs.rows))]
    values = [0] * (max([*slots, 0]) + 1)
    for row, slot in enumerate(slots):
        if slot >= 0:
            values[slot] = getattr(inputs.rows[row], name)
    return torch.tensor(values, dtype=torch.int32, device=device)


def _mapping(inputs: LaunchInputs, device: torch.device) -> torch.Tensor | None:
    if not inputs.takes_slots:
        return None
    slots = [inputs.slot_of(row) for row in range(len(inputs.rows))]
    return torch.tensor(slots, dtype=torch.int32, device=device)


def _run_postprocess(
    inputs: LaunchInputs, chosen: KernelSet, bound: _Bound, fast: bool
) -> tuple[list[int], Counts]:
    device = bound.caches[0].device
    counts = _by_slot(inputs, "accepted", device)
    out = counts.clone()  # a snapshot is read, another tensor written: no sibling sees a reset
    arguments = {
        "num_accepted_tokens": counts,
        "mamba_state_idx": _by_slot(inputs, "state_idx", device),
        "num_computed_tokens": _by_slot(inputs, "computed", device),
        "num_scheduled_tokens": None,
        "num_draft_tokens": None,
        "num_accepted_tokens_out": out,
        "idx_mapping": _mapping(inputs, device),
        "block_size": inputs.block_size,
        "HAS_IDX_MAPPING": inputs.takes_slots,
        "PRECOMPUTED_NEW_COMPUTED": inputs.advanced,
        **bound.arguments,
    }
    if not inputs.advanced:
        arguments["num_scheduled_tokens"] = _by_slot(inputs, "scheduled", device)
        arguments["num_draft_tokens"] = _by_slot(inputs, "drafts", device)
    kernel = chosen.postprocess_mamba_fused_kernel
    grid = _run(inputs, kernel, chosen, bound, arguments, fast)
    name = "num_accepted_tokens"
    return grid, Counts(name=name, before=counts.tolist(), after=out.tolist())


def _run_precopy(inputs: LaunchInputs, chosen: KernelSet, bound: _Bound, fast: bool) -> list[int]:
    device = bound.caches[0].device
    arguments = {
        "mamba_state_idx": _by_slot(inputs, "state_idx", device),
        "src_col": _by_slot(inputs, "src_col", device),
        "token_bias": _by_slot(inputs, "bias", device),
        "idx_mapping": _mapping(inputs, device),
        "HAS_IDX_MAPPING": inputs.takes_slots,
        **bound.arguments,
    }
    kernel = chosen.precopy_mamba_align_fused_kernel
    return _run(inputs, kernel, chosen, bound, arguments, fast)


def _run(
    inputs: LaunchInputs,
    kernel: Any,
    chosen: KernelSet,
    bound: _Bound,
    arguments: dict[str, Any],
    fast: bool,
) -> list[int]:
    if not fast:
        grid = [len(inputs.rows), len(bound.geometries)]
        kernel[tuple(grid)](**arguments, COPY_BLOCK_SIZE=COPY_BLOCK_SIZE)
        return grid
    device = bound.caches[0].device
    groups = [geometry.group for geometry in bound.geometries]
    pieces = Pieces.of(bound.geometries, groups, inputs.layout == "DS", device, FAST_PIECE_BYTES)
    given = {name: v for name, v in arguments.items() if name not in NOT_OF_FAST_KERNELS}
    fast_kernel = _fast_kernel(inputs, chosen)
    fast_kernel[(FAST_PROGRAMS,)](**given, **pieces.arguments(len(inputs.rows)))
    return [FAST_PROGRAMS]


def _run_memcpy(chosen: KernelSet, plans: list[CopyPlan], device: torch.device) -> None:
    sources = torch.tensor([one.src_addr for one in plans], dtype=torch.uint64, device=device)
    targets = torch.tensor([one.dst_addr for one in plans], dtype=torch.uint64, device=device)
    sizes = torch.tensor([one.num_bytes for one in plans], dtype=torch.int32, device=device)
    chosen.batch_memcpy(sources, targets, sizes)


def _wrong_counts(decisions: Sequence[Decision], counts: list[Counts]) -> int:
    """Accepted counts that the launch left other than the twin says."""
    if not counts:
        return 0
    expected = list(counts[0].before)
    for decision in decisions:
        assert isinstance(decision, PostprocessDecision)
        if decision.accepted_out is not None:
            expected[decision.slot] = decision.accepted_out
    return sum(a != b for a, b in zip(expected, counts[0].after, strict=True))


# --------------------------------------------------------------------------------------
# One program in words and numbers
# --------------------------------------------------------------------------------------


def _program(
    inputs: LaunchInputs,
    states: list[StateLayout],
    geometries: list[StateGeometry],
    row: int,
    state: int,
    decision: Decision,
    plans: dict[tuple[int, int], CopyPlan],
    listed: list[tuple[int, int]],
) -> ProgramRecord:
    found, geometry = plans.get((row, state)), geometries[state]
    told = _decision_lines(inputs, states, row, state, decision)
    if found is None:
        outcome, label, why = _nothing(inputs, row, decision)
        return ProgramRecord(
            row=row, state=state, outcome=outcome, label=label, why=why, lines=told
        )
    assert decision.src_col is not None
    if inputs.kernel == "memcpy":
        told = _listed_lines(listed, (row, state), found, geometry)
    else:
        told = [*told, *lines.copy_lines(inputs, row, geometry, found, decision.src_col)]
    outcome, label, why = _copy_words(inputs, states[state], row, found)
    return ProgramRecord(
        row=row,
        state=state,
        outcome=outcome,
        label=label,
        why=why,
        lines=told,
        bias=found.bias,
        src_block=found.src_block,
        dst_block=found.dst_block,
        source=_within(found, found.src_addr, found.src_block, geometry),
        target=_within(found, found.dst_addr, found.dst_block, geometry),
        num_bytes=found.num_bytes,
    )


def _decision_lines(
    inputs: LaunchInputs, states: list[StateLayout], row: int, state: int, decision: Decision
) -> list[LineValue]:
    if inputs.kernel == "memcpy":
        return []
    if isinstance(decision, PostprocessDecision):
        is_last = state == len(states) - 1
        return lines.postprocess_lines(inputs, row, state, states[state], decision, is_last)
    return lines.precopy_lines(inputs, row, state, states[state], decision)


def _listed_lines(
    listed: list[tuple[int, int]],
    key: tuple[int, int],
    found: CopyPlan,
    geometry: StateGeometry,
) -> list[LineValue]:
    if key not in listed:
        return []
    stride, src, dst = geometry.block_stride, found.src_block or 0, found.dst_block or 0
    shift = (found.src_addr or 0) - geometry.base_addr - src * stride
    source = f"base + {src} · {stride}" + (f" + {shift}" if shift else "")
    return lines.memcpy_lines(listed.index(key), found, source, f"base + {dst} · {stride}")


def _nothing(inputs: LaunchInputs, row: int, decision: Decision) -> tuple[ProgramOutcome, str, str]:
    name = inputs.rows[row].request
    match decision.outcome:
        case Outcome.NEGATIVE_SLOT:
            return "idle", "no request", f"{name} has no slot, so the program ends at once."
        case Outcome.NO_BOUNDARY:
            assert isinstance(decision, PostprocessDecision)
            why = (
                f"No multiple of {inputs.block_size} lies from {decision.running} to "
                f"{decision.new}: {name} has reached no block boundary."
            )
            return "idle", "nothing to do", why
        case Outcome.NO_SHIFT:
            why = f"{name}'s running block itself ends on the boundary: its state is in place."
            return "in place", "already in place", why
        case Outcome.FRESH:
            return "idle", "fresh", f"{name} has no state yet, so there is nothing to move."
        case _:
            why = f"{name} goes on in column {decision.dst_col}, where its state lies."
            return "in place", "stays in place", why


def _copy_words(
    inputs: LaunchInputs, state: StateLayout, row: int, found: CopyPlan
) -> tuple[ProgramOutcome, str, str]:
    name = inputs.rows[row].request
    if found.skipped is not None:
        end = "in the list" if inputs.kernel == "memcpy" else "by a guard"
        stopped = "left out of the list" if inputs.kernel == "memcpy" else f"stopped {end}"
        return "guarded", _guard_label(inputs, found), f"{stopped.capitalize()}: {found.skipped}."
    if found.src_block == found.dst_block and found.is_conv and found.bias:
        rows = found.num_bytes // (inputs.channels * inputs.elem_size)
        why = (
            f"{name}'s conv window slides by {found.bias} inside block {found.src_block}: {rows} "
            f"{'row' if rows == 1 else 'rows'}, {found.num_bytes} bytes."
        )
        return "shifted", f"{found.src_block} shift {found.bias}", why
    if found.src_block == found.dst_block:
        why = f"{name}'s {state.kind} state stands in block {found.src_block} already: it is copied"
        return "copied", f"{found.src_block} onto itself", f"{why} onto itself."
    what = f"{found.num_bytes} bytes of the {state.kind} state"
    why = f"{what} go from block {found.src_block} to block {found.dst_block}."
    return "copied", f"{found.src_block} → {found.dst_block}", why


def _guard_label(inputs: LaunchInputs, found: CopyPlan) -> str:
    """The guard in a few signs: the first end that has no address, or no bytes."""
    for column, block in ((found.src_col, found.src_block), (found.dst_col, found.dst_block)):
        if block is None:
            outside = f"col {column} ≥ {inputs.columns}"
            return outside if column >= 0 else f"col −{-column} < 0"
        if block == 0:
            return f"col {column} is 0"
        if block < 0:
            return f"id −{-block} < 0"
        if block >= inputs.num_blocks:
            return f"id {block} ≥ {inputs.num_blocks}"
    return f"bias −{-found.bias} < 0" if found.bias < 0 else "no rows left"


def _within(
    found: CopyPlan, addr: int | None, block: int | None, geometry: StateGeometry
) -> ByteRange | None:
    if addr is None or block is None or not found.num_bytes:
        return None
    start = addr - geometry.base_addr - block * geometry.block_stride
    return ByteRange(
        start=start, length=found.row_bytes, rows=found.num_rows, stride=found.row_stride
    )


def _note(decision: Decision) -> str:
    if decision.outcome is Outcome.NEGATIVE_SLOT:
        return "no slot"
    if isinstance(decision, PostprocessDecision):
        return f"running {decision.running}, new {decision.new}"
    if decision.outcome is Outcome.FRESH:
        return f"fresh, column {decision.dst_col}"
    if decision.outcome is Outcome.SAME_COLUMN:
        return f"stays in column {decision.dst_col}"
    return f"column {decision.src_col} → {decision.dst_col}, bias {decision.bias}"


def _images(
    inputs: LaunchInputs, states: list[StateLayout], before: Caches, after: Caches
) -> list[BlockImage]:
    """Every block that stands in the table, and every one that changed."""
    named = {block for row in inputs.rows for block in row.blocks if 0 < block < inputs.num_blocks}
    images = []
    for index, state in enumerate(states):
        changed = np.flatnonzero((before[index] != after[index]).any(axis=1))
        for block in sorted(named | {int(block) for block in changed}):
            images.append(
                image(index, block, before[index][block], after[index][block], state.num_bytes)
            )
    return images


def image(
    state: int, block: int, before: np.ndarray, after: np.ndarray, num_bytes: int
) -> BlockImage:
    """A block's natural bytes before and after."""
    texts = [base64.b64encode(page[:num_bytes].tobytes()).decode() for page in (before, after)]
    return BlockImage(state=state, block=block, before=texts[0], after=texts[1])


# --------------------------------------------------------------------------------------
# A shift in place, done in different orders
# --------------------------------------------------------------------------------------


def token_rows(page: np.ndarray, state: StateLayout, layout: str) -> np.ndarray:
    """A block's conv bytes as a view ``[tokens, channels, elem_size]`` in both layouts."""
    cells = page[: state.num_bytes].reshape(*state.shape, state.elem_size)
    return cells if layout == "SD" else cells.swapaxes(0, 1)


def shift_one_by_one(rows: np.ndarray, bias: int, order: Sequence[int]) -> None:
    """Row ``r`` becomes row ``r + bias``, read when its turn comes: an unordered shift."""
    for row in order:
        rows[row] = rows[row + bias]


def _with_orders(
    inputs: LaunchInputs, states: list[StateLayout], before: Caches, program: ProgramRecord
) -> ProgramRecord:
    if program.outcome != "shifted" or program.src_block is None:
        return program
    state, bias = states[program.state], program.bias
    page = before[program.state][program.src_block]
    kept = inputs.conv_width - bias
    orders = {
        "row by row, first first": ("one order a GPU may take", range(kept)),
        "row by row, last first": ("another one", range(kept - 1, -1, -1)),
    }

    def labels(bytes_: np.ndarray) -> list[int | None]:
        return state.labels(bytes_[: state.num_bytes].tobytes(), inputs.layout)

    right = page.copy()
    rows = token_rows(right, state, inputs.layout)
    rows[:kept] = rows[bias:].copy()
    strips = [
        OrderStrip(name="before", note=f"block {program.src_block}", rows=labels(page), right=True),
        OrderStrip(
            name="read all, then write", note="what the kernel does", rows=labels(right), right=True
        ),
    ]
    for name, (note, order) in orders.items():
        tried = page.copy()
        shift_one_by_one(token_rows(tried, state, inputs.layout), bias, order)
        is_right = bool((tried == right).all())
        strips.append(OrderStrip(name=name, note=note, rows=labels(tried), right=is_right))
    return program.model_copy(update={"orders": strips})


# --------------------------------------------------------------------------------------
# Section 3.3
# --------------------------------------------------------------------------------------

ARRAYS = ("src_col", "src_off", "state_idx", "num_accepted")


def _launch_preprocess(inputs: LaunchInputs, chosen: KernelSet) -> LaunchRecord:
    device = torch.device("cpu") if chosen.backend == "reference" else kernels.device()
    starts = [0]
    for row in inputs.rows:
        starts.append(starts[-1] + row.scheduled)
    found = [
        decide_preprocess(
            inputs.slot_of(index),
            row.state_idx,
            row.computed,
            row.scheduled,
            row.accepted,
            inputs.block_size,
        )
        for index, row in enumerate(inputs.rows)
    ]
    num_slots = max([inputs.slot_of(index) for index in range(len(inputs.rows))] + [0]) + 1
    untouched = torch.full((num_slots,), -1, dtype=torch.int32, device=device)
    arrays = {
        "src_col": untouched,
        "src_off": untouched.clone(),
        "state_idx": _by_slot(inputs, "state_idx", device),
        "num_accepted": _by_slot(inputs, "accepted", device),
    }
    before = {name: tensor.tolist() for name, tensor in arrays.items()}
    chosen.preprocess_mamba_align_fused_kernel[(1,)](
        idx_mapping=_mapping(inputs, device),
        state_idx=arrays["state_idx"],
        num_computed_tokens=_by_slot(inputs, "computed", device),
        query_start_loc=torch.tensor(starts, dtype=torch.int32, device=device),
        num_accepted_tokens=arrays["num_accepted"],
        src_col=arrays["src_col"],
        src_off=arrays["src_off"],
        num_reqs=len(inputs.rows),
        BLOCK_SIZE=LANES,
        MAMBA_BLOCK_SIZE=inputs.block_size,
    )
    after = {name: tensor.tolist() for name, tensor in arrays.items()}
    expected = {name: list(values) for name, values in before.items()}
    for one in found:
        for name, value in _written(one).items():
            expected[name][one.slot] = value
    wrong = sum(a != b for name in ARRAYS for a, b in zip(expected[name], after[name], strict=True))
    return LaunchRecord(
        inputs=inputs,
        backend=chosen.backend,
        function=KERNEL_FUNCTIONS["preprocess"],
        grid=[1],
        states=[],
        columns=list(ARRAYS),
        notes=[_lane_note(one) for one in found],
        programs=[
            _lane(inputs, row, column, starts[row], one)
            for row, one in enumerate(found)
            for column in range(len(ARRAYS))
        ],
        blocks=[],
        counts=[Counts(name=name, before=before[name], after=after[name]) for name in ARRAYS],
        unexplained=wrong,
    )


def _written(found: PreprocessDecision) -> dict[str, int]:
    """What a lane writes into each array."""
    if found.outcome is Outcome.NEGATIVE_SLOT:
        return {}
    assert found.src_col is not None
    assert found.src_off is not None
    assert found.dst_col is not None
    written = {"src_col": found.src_col, "src_off": found.src_off, "state_idx": found.dst_col}
    if found.outcome is Outcome.COLUMN_CHANGED:
        written["num_accepted"] = 1
    return written


def _lane(
    inputs: LaunchInputs, row: int, column: int, start: int, found: PreprocessDecision
) -> ProgramRecord:
    name, array = inputs.rows[row].request, ARRAYS[column]
    told = lines.preprocess_lines(inputs, row, array, start, found)
    written = _written(found)
    if not written:
        outcome: ProgramOutcome = "idle"
        label, why = "no request", f"{name} has no slot: its lane reads and writes nothing."
    elif array in written:
        value = f"{written[array]}".replace("-", "−")
        outcome, label, why = "written", f"← {value}", _array_words(name, array, value)
    else:
        outcome, label = "kept", f"stays {found.accepted}"
        why = f"{name} gets no new column from an old one, so its accepted count stays."
    return ProgramRecord(row=row, state=column, outcome=outcome, label=label, why=why, lines=told)


def _array_words(name: str, array: str, value: str) -> str:
    return {
        "src_col": f"{name}'s state lies in column {value} now.",
        "src_off": f"{name}'s wanted state lies {value} tokens past the one in that column.",
        "state_idx": f"{name} will run in column {value}.",
        "num_accepted": f"{name} starts its new column with a count of {value}.",
    }[array]


def _lane_note(found: PreprocessDecision) -> str:
    match found.outcome:
        case Outcome.NEGATIVE_SLOT:
            return "no slot"
        case Outcome.FRESH:
            return f"fresh, column {found.dst_col}"
        case Outcome.COLUMN_KEPT:
            return f"stays in column {found.dst_col}"
        case _:
            return f"column {found.src_col} → {found.dst_col}"


def main() -> None:
    """Record every preset."""
    for slug, inputs in LAUNCHES.items():
        record = launch(inputs)
        write_recording(slug, record)
        print(f"{slug}: {len(record.programs)} programs on {record.backend}")


if __name__ == "__main__":
    main()
