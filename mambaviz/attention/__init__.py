"""The metadata builder: one batch in, the tensors the mixer kernels read out (section 4).

The names below are loaded when first asked for: `mambaviz.attention.fields`, which says what
each field means, is read by pictures that are drawn where there is no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mambaviz.attention.builder import (
        BaseMambaAttentionMetadataBuilder,
        Mamba1AttentionMetadataBuilder,
        Mamba2AttentionMetadataBuilder,
    )
    from mambaviz.attention.common import NULL_BLOCK_ID, PAD_SLOT_ID, CommonAttentionMetadata
    from mambaviz.attention.conv1d import compute_causal_conv1d_metadata
    from mambaviz.attention.metadata import BaseMambaAttentionMetadata, Mamba2AttentionMetadata
    from mambaviz.attention.split import RowDecision, explain_split, split_decodes_and_prefills
    from mambaviz.attention.state_indices import mamba_get_block_table_tensor

_HOME = {
    "BaseMambaAttentionMetadataBuilder": "builder",
    "Mamba1AttentionMetadataBuilder": "builder",
    "Mamba2AttentionMetadataBuilder": "builder",
    "NULL_BLOCK_ID": "common",
    "PAD_SLOT_ID": "common",
    "CommonAttentionMetadata": "common",
    "compute_causal_conv1d_metadata": "conv1d",
    "BaseMambaAttentionMetadata": "metadata",
    "Mamba2AttentionMetadata": "metadata",
    "RowDecision": "split",
    "explain_split": "split",
    "split_decodes_and_prefills": "split",
    "mamba_get_block_table_tensor": "state_indices",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


__all__ = [
    "NULL_BLOCK_ID",
    "PAD_SLOT_ID",
    "BaseMambaAttentionMetadata",
    "BaseMambaAttentionMetadataBuilder",
    "CommonAttentionMetadata",
    "Mamba1AttentionMetadataBuilder",
    "Mamba2AttentionMetadata",
    "Mamba2AttentionMetadataBuilder",
    "RowDecision",
    "compute_causal_conv1d_metadata",
    "explain_split",
    "mamba_get_block_table_tensor",
    "split_decodes_and_prefills",
]
