"""Which blocks of a table row the kernels may touch (section 4.3)."""

from __future__ import annotations

import torch

from mambaviz.config import CacheMode, MambaSpec


def mamba_get_block_table_tensor(
    block_table: torch.Tensor,
    seq_lens: torch.Tensor,
    kv_cache_spec: MambaSpec,
    mamba_cache_mode: CacheMode,
    *,
    seq_lens_cpu: torch.Tensor | None = None,
) -> torch.Tensor:
    """The columns of each row that hold its state and its scratch (section 4.3).

    ``block_table`` int32 ``[R, columns]``, ``seq_lens`` int32 ``[R]``, both on the device.
    Modes ``none`` and ``all``: the table itself. ``align``: int32 ``[R, 1+S]``, columns
    ``start .. start+S`` with ``start = max(0, (seq_len-1) // B)``, the running block and the
    scratch behind it.

    Raises ValueError when a row of an align table ends before ``start+S``. To find out, the
    lengths are read on the CPU: ``seq_lens_cpu`` saves the wait for the device.
    """
    if mamba_cache_mode != "align":
        return block_table
    B, S = kv_cache_spec.block_size, kv_cache_spec.num_speculative_blocks
    _require_columns(block_table, seq_lens if seq_lens_cpu is None else seq_lens_cpu, B, S)
    start = _running_column(seq_lens, B)  # [R]
    columns = start[:, None] + torch.arange(1 + S, device=seq_lens.device)  # [R, 1+S]
    return block_table.gather(1, columns.to(torch.int64))


def split_state_indices(
    table: torch.Tensor, num_decodes: int, num_spec: int, mamba_cache_mode: CacheMode
) -> tuple[torch.Tensor, torch.Tensor]:
    """Part the state indices by row into ``(decode part, prefill part)`` (section 4.3).

    ``table`` ``[R, columns]`` as `mamba_get_block_table_tensor` gives it. Mode ``all``: both parts
    keep all columns. Else ``[D, 1+num_spec]`` and ``[P]``. A part without rows is empty, not None.

    Raises ValueError where the rows are narrower than that.
    """
    decodes, prefills = table[:num_decodes], table[num_decodes:]
    if mamba_cache_mode == "all":
        return decodes, prefills
    needed = 1 + num_spec if num_decodes else 1
    if table.shape[1] < needed:
        raise ValueError(
            f"block table rows have {table.shape[1]} columns, but a row needs {needed}: "
            f"the state and one scratch block for each of {needed - 1} drafts"
        )
    return decodes[:, : 1 + num_spec], prefills[:, 0]


def _running_column(seq_lens: torch.Tensor, block_size: int) -> torch.Tensor:
    """Column of each row's running block; padding rows (seq_len 0) count as column 0."""
    return ((seq_lens - 1) // block_size).clamp(min=0)


def _require_columns(table: torch.Tensor, seq_lens: torch.Tensor, B: int, S: int) -> None:
    if not len(seq_lens):
        return
    last, row = (_running_column(seq_lens, B) + S).max(dim=0)
    if last >= table.shape[1]:
        raise ValueError(
            f"row {int(row)} has seq_len {int(seq_lens[row])}, so in align mode it needs block "
            f"table columns up to {int(last)}, but the table has {table.shape[1]}"
        )
