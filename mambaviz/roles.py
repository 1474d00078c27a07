"""The role of every block (section 1): a pure function of lists, registrations and bytes.

A block plays a role *for a request*, at a column of its worker row; in the pool it plays
the weightiest of the roles its holders give it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from mambaviz.trace import Role

# A block that stands in several lists is drawn in the first of these that applies.
_WEIGHT: tuple[Role, ...] = ("running", "previous", "speculative", "cached")


def row_roles(
    block_list: Sequence[int],
    worker_row: Sequence[int],
    running_col: int | None,
    holds_boundary: Callable[[int, int], bool],
) -> list[Role]:
    """Role of each column of a worker row.

    ``running_col`` is the running-state column, None before the first forward;
    ``holds_boundary(block, column)`` says whether the block's bytes are the state at the end
    of that column. A column whose id the list has dropped or moved is retired.
    """
    roles: list[Role] = []
    for column, block in enumerate(worker_row):
        if block == 0:
            roles.append("null")
        elif column >= len(block_list) or block_list[column] != block:
            roles.append("retired")
        elif running_col is None or column > running_col:
            roles.append("speculative")
        elif column == running_col:
            roles.append("running")
        elif holds_boundary(block, column):
            roles.append("cached")
        else:
            roles.append("previous")
    return roles


def block_roles(
    num_blocks: int,
    rows: Sequence[tuple[Sequence[int], Sequence[Role]]],
    registered: Mapping[int, str],
) -> list[Role]:
    """Role of every physical block; ``rows`` pairs worker rows with their `row_roles`."""
    held: dict[int, Role] = {}
    for worker_row, roles in rows:
        for block, role in zip(worker_row, roles, strict=True):
            if role in _WEIGHT:
                old = held.get(block)
                if old is None or _WEIGHT.index(role) < _WEIGHT.index(old):
                    held[block] = role
    result: list[Role] = ["null"]
    for block in range(1, num_blocks):
        free: Role = "cached" if block in registered else "free"
        result.append(held.get(block, free))
    return result
