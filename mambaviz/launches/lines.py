"""What each line of a kernel came to in one program, from the plain twins' decision and plan.

A line is named by its function and by how it begins. The kernels are the text (`source`); nothing
of them runs here, so a value is a second opinion, and the launch's bytes are held against it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from kernels.reference import (
    CopyPlan,
    Outcome,
    PostprocessDecision,
    PrecopyDecision,
    PreprocessDecision,
    StateGeometry,
)
from mambaviz.launches.inputs import LaunchInputs
from mambaviz.launches.record import LineValue, StateLayout

LineMark = Literal["", "key", "stop"]


def _line(function: str, code: str, value: object, mark: LineMark = "") -> LineValue:
    return LineValue(function=function, code=code, value=f"{value}".replace("-", "−"), mark=mark)


# --------------------------------------------------------------------------------------
# The program and its slot
# --------------------------------------------------------------------------------------


def _who(
    inputs: LaunchInputs, function: str, row: int, state: int, layout: StateLayout
) -> Iterator[LineValue]:
    slot = inputs.slot_of(row)
    yield _line(function, "batch = tl.program_id(0)", f"{row} ({inputs.rows[row].request})")
    yield _line(function, "state = tl.program_id(1)", f"{state}: {_state(layout)}")
    yield _line(function, "if batch >= num_reqs:", f"{row} < {len(inputs.rows)}, goes on")
    yield _line(function, "slot = batch", row)
    mapped = f"yes, slot {slot}" if inputs.takes_slots else "no, the batch index is the slot"
    yield _line(function, "if HAS_IDX_MAPPING:", mapped)
    if inputs.takes_slots:
        yield _line(function, "slot = tl.load(idx_mapping + batch)", slot)
    gone = slot < 0
    told = f"{slot} < 0: no request, ends" if gone else f"{slot} ≥ 0, goes on"
    yield _line(function, "if slot < 0:", told, "stop" if gone else "")


def _state(layout: StateLayout) -> str:
    return f"layer {layout.layer}, {layout.kind}"


# --------------------------------------------------------------------------------------
# Section 3.2
# --------------------------------------------------------------------------------------


def postprocess_lines(
    inputs: LaunchInputs,
    row: int,
    state: int,
    layout: StateLayout,
    found: PostprocessDecision,
    is_last: bool,
) -> list[LineValue]:
    """Up to the copy; ``is_last``: the program that writes the count."""
    function = "postprocess_mamba_fused_kernel"
    lines = list(_who(inputs, function, row, state, layout))
    if found.outcome is Outcome.NEGATIVE_SLOT:
        return lines
    size, acc, new, running = inputs.block_size, found.accepted, found.new, found.running
    aligned = found.aligned

    def add(code: str, value: object, mark: LineMark = "") -> None:
        lines.append(_line(function, code, value, mark))

    add("accepted = tl.load(num_accepted_tokens + slot)", acc)
    add("if PRECOMPUTED_NEW_COMPUTED:", "yes" if inputs.advanced else "no, counts of before")
    if inputs.advanced:
        add("new = tl.load(num_computed_tokens + slot)", new)
        add("running = new - accepted + 1", f"{new} - {acc} + 1 = {running}")
    else:
        add("computed = tl.load(num_computed_tokens + slot)", found.computed)
        add("scheduled = tl.load(num_scheduled_tokens + slot)", found.scheduled)
        add("drafts = tl.load(num_draft_tokens + slot)", found.drafts)
        total = f"{found.computed} + {found.scheduled} - {found.drafts}"
        add("running = computed + scheduled - drafts", f"{total} = {running}")
        add("new = running + accepted - 1", f"{running} + {acc} - 1 = {new}")
    add("aligned = new // block_size * block_size", f"{new} // {size} · {size} = {aligned}")
    reached = found.outcome is not Outcome.NO_BOUNDARY
    told = f"{aligned} ≥ {running}: a boundary" if reached else f"{aligned} < {running}: ends"
    add("if (new >= 0) & (aligned >= running):", told, "key" if reached else "stop")
    if not reached:
        return lines
    src, dst, bias = found.src_col, found.dst_col, found.bias
    add("bias = aligned - running", f"{aligned} - {running} = {bias}", "key")
    add("src_col = tl.load(mamba_state_idx + slot)", src)
    add("dst_col = aligned // block_size - 1", f"{aligned} // {size} - 1 = {dst}")
    moves = found.outcome is Outcome.COPIED
    if src != dst:
        why = f"{src} ≠ {dst}: copies"
    else:
        why = f"same column, bias {bias}: " + ("shifts" if moves else "nothing to move")
    add("if (src_col != dst_col) | (bias > 0):", why, "key" if moves else "stop")
    if moves:
        add("copy_state_block(", "below")
    add("is_last = (state == tl.num_programs(1) - 1)", "yes" if is_last else "no")
    writes = found.resets_count and is_last
    if writes:
        told = "yes, writes 1"
    elif found.resets_count:
        told = "same column, a sibling writes"
    else:
        told = "other column, count stays"
    add("if (src_col == dst_col) & is_last:", told, "key" if writes else "")
    if writes:
        add("tl.store(num_accepted_tokens_out + slot, 1)", f"{acc} becomes 1", "key")
    return lines


# --------------------------------------------------------------------------------------
# Section 3.4
# --------------------------------------------------------------------------------------


def precopy_lines(
    inputs: LaunchInputs, row: int, state: int, layout: StateLayout, found: PrecopyDecision
) -> list[LineValue]:
    """Up to the copy."""
    function = "precopy_mamba_align_fused_kernel"
    lines = list(_who(inputs, function, row, state, layout))
    if found.outcome is Outcome.NEGATIVE_SLOT:
        return lines
    src, dst = found.src_col, found.dst_col
    lines.append(_line(function, "from_col = tl.load(src_col + slot)", src))
    lines.append(_line(function, "to_col = tl.load(mamba_state_idx + slot)", dst))
    why = {
        Outcome.FRESH: f"{src} < 0: fresh, ends",
        Outcome.SAME_COLUMN: f"{src} = {dst}: stays, ends",
        Outcome.COPIED: f"{src} ≠ {dst}: copies",
    }[found.outcome]
    moves = found.outcome is Outcome.COPIED
    code = "if (from_col >= 0) & (from_col != to_col):"
    lines.append(_line(function, code, why, "key" if moves else "stop"))
    if moves:
        lines.append(_line(function, "copy_state_block(", "below"))
        bias = "tl.load(token_bias + slot),"
        lines.append(_line(function, bias, f"bias {found.bias}", "key"))
    return lines


# --------------------------------------------------------------------------------------
# Section 3.3
# --------------------------------------------------------------------------------------


def preprocess_lines(
    inputs: LaunchInputs, row: int, array: str, query_start: int, found: PreprocessDecision
) -> list[LineValue]:
    """One lane; ``array`` is the one that the grid's cell is about."""
    function = "preprocess_mamba_align_fused_kernel"
    lines: list[LineValue] = []

    def add(code: str, value: object, mark: LineMark = "") -> None:
        lines.append(_line(function, code, value, mark))

    slot, size = inputs.slot_of(row), inputs.block_size
    add("batch = tl.program_id(0) * BLOCK_SIZE", f"lane {row} ({inputs.rows[row].request})")
    add("in_batch = batch < num_reqs", f"{row} < {len(inputs.rows)}")
    add("slot = tl.load(idx_mapping + batch", slot)
    live = found.outcome is not Outcome.NEGATIVE_SLOT
    add("live = slot >= 0", "yes" if live else "no: nothing is read or written", _stop(not live))
    if not live:
        return lines
    query_len = found.query_len or 0
    old, new, computed = found.src_col, found.dst_col, found.computed
    add("old_col = tl.load(state_idx + slot", old)
    add("accepted = tl.load(num_accepted_tokens + slot", found.accepted)
    add("computed = tl.load(num_computed_tokens + slot", computed)
    add("query_start = tl.load(query_start_loc + batch", query_start)
    add("query_end = tl.load(query_start_loc + batch + 1", query_start + query_len)
    add("tl.store(src_col + slot, old_col", old, _key(array == "src_col"))
    offset = f"{found.accepted} - 1 = {found.src_off}"
    add("tl.store(src_off + slot", offset, _key(array == "src_off"))
    tokens = (computed or 0) + query_len
    add("tokens = computed + query_end - query_start", f"{computed} + {query_len} = {tokens}")
    add("new_col = (tokens + MAMBA_BLOCK_SIZE - 1)", f"⌈{tokens} / {size}⌉ - 1 = {new}")
    add("tl.store(state_idx + slot, new_col", new, _key(array == "state_idx"))
    changes = found.outcome is Outcome.COLUMN_CHANGED
    why = f"{old} to {new}: becomes 1" if changes else f"masked, stays {found.accepted}"
    add("tl.store(num_accepted_tokens + slot, 1", why, _key(array == "num_accepted"))
    return lines


def _key(is_key: bool) -> LineMark:
    return "key" if is_key else ""


def _stop(stops: bool) -> LineMark:
    return "stop" if stops else ""


# --------------------------------------------------------------------------------------
# Sections 3.1 and 3.5
# --------------------------------------------------------------------------------------


def copy_lines(
    inputs: LaunchInputs, row: int, geometry: StateGeometry, plan: CopyPlan, src_col: int
) -> list[LineValue]:
    """The copy of one state. Addresses change from run to run: they are told from ``base``."""
    function = "copy_state_block"
    lines: list[LineValue] = []

    def add(code: str, value: object, mark: LineMark = "") -> None:
        lines.append(_line(function, code, value, mark))

    width, bias = geometry.conv_width, plan.bias
    add("conv_width = tl.load(state_conv_widths + state)", width)
    add("is_conv = conv_width > 0", "yes, conv" if plan.is_conv else "no, temporal")
    add("bias = token_bias", bias)
    add("group = tl.load(state_group_indices + state)", plan.group)
    ids = " ".join(str(block) for block in inputs.table_row(row))
    add("table_row = table + batch", f"row {row}: {ids}")
    read = f"conv, so {src_col}" if plan.is_conv else f"{src_col} + {bias} = {plan.src_col}"
    add("read_col = src_col + tl.where(is_conv, 0, bias)", read)
    add("src_block = load_block_id(", _block(plan.src_col, plan.src_block), "key")
    add("dst_block = load_block_id(", _block(plan.dst_col, plan.dst_block), "key")
    live = plan.skipped is None or "token rows" in plan.skipped
    guard = "if (bias >= 0) & is_live_block(src_block"
    add(guard, "goes on" if live else f"stops: {plan.skipped}", _stop(not live))
    if not live:
        return lines
    src, dst = plan.src_block or 0, plan.dst_block or 0
    stride, elem = geometry.block_stride, geometry.elem_size
    inner = geometry.inner_size * elem
    shift = bias * inner if plan.is_conv else 0
    add("base = tl.load(state_base_addrs + state)", "base")
    add("block_stride = tl.load(state_block_strides + state)", f"{stride} B")
    add("src_addr = base + src_block * block_stride", f"base + {src} · {stride}")
    add("dst_addr = base + dst_block * block_stride", f"base + {dst} · {stride}")
    add("elem_size = tl.load(state_elem_sizes + state)", f"{elem} B")
    add("inner_bytes = tl.load(state_inner_sizes + state)", f"{inner} B")
    add("src_addr += tl.where(is_conv, bias * inner_bytes, 0)", f"base + {src * stride + shift}")
    run = (width - bias) * inner if plan.is_conv else inner
    told = f"({width} - {bias}) · {inner} = {run} B" if plan.is_conv else f"{run} B, the block"
    add("row_bytes = tl.where(is_conv", told)
    by_channel = inputs.layout == "DS"
    add("if CONV_STATE_DIM_FIRST:", "yes, DS" if by_channel else "no, SD")
    if by_channel:
        add("num_rows = tl.where(is_conv", geometry.dim_row_count if plan.is_conv else 1)
        add("row_stride = tl.load(state_dim_row_stride + state)", f"{geometry.dim_row_stride} B")
    else:
        add("num_rows = 1", 1)
        add("row_stride = row_bytes", f"{run} B")
    same = "yes: one program, in order" if src == dst else "no, they cannot overlap"
    add("in_place = src_block == dst_block", same, _key(src == dst))
    lines += moving_lines(plan, run)
    return lines


def moving_lines(plan: CopyPlan, row_bytes: int) -> Iterator[LineValue]:
    """The loop that moves the bytes."""
    some = row_bytes > 0
    told = f"{row_bytes} B" if some else "nothing is left: ends"
    yield _line("copy_rows", "if row_bytes > 0:", told, _stop(not some))
    if not some:
        return
    parts = (plan.src_addr or 0, plan.dst_addr or 0, row_bytes, plan.row_stride)
    unit = 4 if not any(part % 4 for part in parts) else 1
    by = "yes, by words of 4 B" if unit == 4 else "no, byte by byte"
    yield _line("copy_rows", "if ((src_addr | dst_addr | row_bytes", by)
    units = plan.num_bytes // unit
    yield _line("copy_chunks", "num_units = num_rows * row_units", f"{units} in all")
    in_place = plan.src_block == plan.dst_block
    yield _line("copy_chunks", "data = tl.load(src + offset", f"{plan.num_bytes} B, all read")
    yield _line("copy_chunks", "tl.debug_barrier()", "all warps wait", _key(in_place))
    yield _line("copy_chunks", "tl.store(dst + offset, data", "then written")


def memcpy_lines(index: int, plan: CopyPlan, source: str, target: str) -> list[LineValue]:
    """One entry of the copy list; ``source`` and ``target`` are its addresses in words."""
    function = "batch_memcpy_kernel"
    return [
        _line(function, "i = tl.program_id(0)", f"copy {index} of the list"),
        _line(function, "src_addr = tl.load(src_ptrs + i)", source, "key"),
        _line(function, "dst_addr = tl.load(dst_ptrs + i)", target, "key"),
        _line(function, "size = tl.load(sizes + i)", f"{plan.num_bytes} B", "key"),
        *moving_lines(plan, plan.num_bytes),
    ]


def _block(column: int, block: int | None) -> str:
    if block is None:
        return f"column {column}, outside: 0"
    return f"column {column}: {block}"
