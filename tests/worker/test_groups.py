"""`get_mamba_groups` (section 3.7)."""

from __future__ import annotations

import pytest
import torch

from mambaviz.config import AttentionSpec, KVCacheConfig, KVCacheGroupSpec, MambaSpec
from mambaviz.worker import get_mamba_groups

SPEC = MambaSpec(4, ((5, 3), (2, 2)), (torch.float32, torch.float32), "align")
OTHER = MambaSpec(8, ((5, 3), (2, 2)), (torch.float32, torch.float32), "align")


def config(*specs) -> KVCacheConfig:
    return KVCacheConfig(9, [KVCacheGroupSpec([f"l{i}"], spec) for i, spec in enumerate(specs)])


def test_ids_count_all_cache_groups() -> None:
    assert get_mamba_groups(config(AttentionSpec(4), SPEC, AttentionSpec(4), SPEC)) == (
        [1, 3],
        SPEC,
    )


def test_no_mamba_group() -> None:
    with pytest.raises(ValueError, match="no Mamba group among the 1 cache groups"):
        get_mamba_groups(config(AttentionSpec(4)))


def test_specs_that_differ_are_named() -> None:
    with pytest.raises(ValueError, match=r"group 0 .*block_size=4.* group 2 .*block_size=8"):
        get_mamba_groups(config(SPEC, AttentionSpec(4), OTHER))
