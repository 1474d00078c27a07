"""The metadata builder: one batch in, the tensors the mixer kernels read out (section 4)."""

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
