"""Which column of a row a token's state lies in (sections 1, 2 and 4.6), in plain numbers.

Column ``c`` is for the tokens ``c * B`` to ``(c + 1) * B - 1``. The kernels, the worker and the
builder have these formulas on tensors; they import nothing from here, since they also run where
there is little more than torch.
"""

from __future__ import annotations


def cdiv(number: int, divisor: int) -> int:
    """Ceiling division."""
    return -(-number // divisor)


def last_column(tokens: int, block_size: int) -> int:
    """Column of the last of some tokens; 0 for none of them."""
    return max(0, cdiv(tokens, block_size) - 1)


def next_column(tokens: int, block_size: int) -> int:
    """Column of the token that comes after some tokens."""
    return tokens // block_size


def boundary_before(tokens: int, block_size: int) -> int:
    """The last block boundary at or before some tokens, counted in tokens."""
    return tokens // block_size * block_size


def boundary_column(tokens: int, block_size: int) -> int:
    """The last column that some tokens fill; -1 where they fill none."""
    return tokens // block_size - 1
