"""When a saved state can be found again: why a block is registered early, later or never.

Registration comes with an allocation, before the forward, for the columns that the certain tokens
will fill; the same allocation lets go of the columns that lie behind before it does (section 2).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from mambaviz.viz.views import CopyView, Frame, group_of


def early(frame: Frame, layer: int, blocks: Collection[int]) -> str:
    """What to add where blocks are registered whose bytes are still to come; else nothing."""
    due = {
        block: frame.label(layer, block).absorbed
        for block in sorted(blocks)
        if str(frame.label(layer, block).absorbed) != _tokens(frame, block)
        and block in _blocks_of(frame, layer)
    }
    if not due:
        return ""
    held = [f"h({count})" for count in due.values() if count is not None]
    if len(due) == 1 and held and (layer, "temporal", next(iter(due))) not in frame.stale:
        return f", which still holds {held[0]}: this step is to fill it"
    return f": this step is to fill {'it' if len(blocks) == 1 else 'them'}"


def _tokens(frame: Frame, block: int) -> str:
    return frame.tables.registered[block].rpartition("@")[2]


def _blocks_of(frame: Frame, layer: int) -> set[int]:
    group = group_of(frame.trace, layer)
    return {block for row in frame.tables.rows.values() for block in row.block_list[group]}


def lost(frame: Frame, layer: int, request: str) -> Iterator[str]:
    """A sentence for each block that this allocation let go of with a saved boundary state in it
    that nobody can find again."""
    engine, before = frame.trace.scenario.engine, frame.tables_before.rows.get(request)
    if engine.mode != "align" or before is None:
        return
    group = group_of(frame.trace, layer)
    still = _blocks_of(frame, layer)
    for column, block in enumerate(before.block_list[group]):
        boundary = (column + 1) * engine.effective_block_size
        if not block or block in still or block in frame.tables.registered:
            continue
        if frame.label(layer, block).absorbed != boundary:
            continue
        why = "this comes first, registering full columns after"
        if engine.retention != "dense":
            why = f"the retention “{engine.retention}” keeps other columns"
        yield (
            f"Block {block} of {request} was never registered, so its h({boundary}) is lost: {why}."
        )


def after_checkpoint(frame: Frame, request: str, copy: CopyView) -> str:
    """Whether the block that a checkpoint filled is, gets or never gets registered."""
    block = copy.dst_block
    if not block or copy.conv_skipped or copy.temporal_skipped:
        return ""
    if block in frame.tables.registered:
        return f"It is registered as {frame.tables.registered[block]}."
    step, kept = _registered_later(frame, request, block, copy.dst_col)
    if step is not None:
        return f"It is registered with the allocation of step {step}."
    if request in frame.step.finished_after:
        return f"It is never registered: that comes with an allocation, and {request} has finished."
    if not kept:
        return "It is never registered: the next allocation lets go of it before it registers."
    return "It is not registered in this run."


def _registered_later(
    frame: Frame, request: str, block: int, column: int
) -> tuple[int | None, bool]:
    """The step whose allocation registers the block; and if none does, whether it was kept."""
    for step in frame.trace.steps[frame.step.index + 1 :]:
        tables = step.phase("allocate").tables
        if tables is None:
            continue
        if block in tables.registered:
            return step.index, True
        row = tables.rows.get(request)
        if row is None:
            return None, True  # preempted or ended: there was no allocation in between
        if all(column >= len(ids) or ids[column] != block for ids in row.block_list):
            return None, False
    return None, True
