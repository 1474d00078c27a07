"""The 240 recorded batches of section 4.11, every recorded field of each."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from mambaviz.attention import Mamba2AttentionMetadataBuilder
from tests.attention.batches import Setup, batch, int32

CASES = json.loads(
    (Path(__file__).parents[1] / "golden" / "builder.json").read_text(encoding="utf-8")
)
PADDED_LISTS = ("batch_ptr", "token_chunk_offset_ptr")
CHUNK_FIELDS = ("cu_chunk_seqlen_p", "seq_idx_p", "last_chunk_indices_p")


def setup_of(case: dict[str, Any], chunk_size: int | None = None) -> Setup:
    config = case["config"]
    return Setup(
        mode=config["mode"],
        block_size=case["block_size"],
        num_spec=config["spec"],
        replayssm=config["replay"],
        ring_len=config["buf"],
        max_seqs=config["max_seqs"],
        full_graphs=config["full_cg"],
        capture_cap=config["cap"],
        max_len=config["max_len"],
        chunk_size=chunk_size,
    )


def build(case: dict[str, Any], builder: Any, device: str) -> Any:
    given = case["inputs"]
    offsets = given["query_start_loc"]
    common = batch(
        [b - a for a, b in pairwise(offsets)],
        given["seq_lens"],
        given["is_prefilling"],
        blocks=int32(given["block_table"], device),
        decode_base=given.get("replayssm_decode_base_cpu"),
        device=device,
        num_reqs=given["num_reqs"],
        num_actual_tokens=given["num_actual_tokens"],
        max_query_len=given["max_query_len"],
        max_seq_len=given["max_seq_len"],
    )
    keywords = {
        name: int32(given[name], "cpu" if name.endswith("_cpu") else device)
        for name in (
            "num_accepted_tokens",
            "prev_last_scheduled_idx",
            "num_decode_draft_tokens_cpu",
        )
        if name in given
    }
    return builder.build(0, common, **keywords)


def plain(value: Any) -> Any:
    """A field as the vectors write it: lists instead of tensors, keys as text."""
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return {str(key): plain(inner) for key, inner in value.items()}
    return value


def recorded(name: str, value: Any) -> Any:
    """A field in the shortened form of the vectors (golden/README.md)."""
    if value is None:
        return None
    if name == "bc_pre_scratch":
        return {"shape": list(value.shape)}
    if name in PADDED_LISTS:
        entries = value.tolist()
        return {
            "len": len(entries),
            "head": entries[:64],
            "rest_all_pad": all(entry == -1 for entry in entries[64:]),
        }
    if name == "nums_dict":
        return {
            str(width): {key: plain(part) for key, part in programs.items() if "_ptr" not in key}
            for width, programs in value.items()
        }
    return plain(value)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_recorded_batch(case: dict[str, Any], device: str) -> None:
    metadata = build(case, setup_of(case).builder(device), device)
    expected = {n: v for n, v in case["expected"].items() if not n.startswith("chunk_")}
    assert {name: recorded(name, getattr(metadata, name)) for name in expected} == expected


@pytest.mark.parametrize("chunk_size", [2, 4, 8])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_recorded_chunks(case: dict[str, Any], chunk_size: int, device: str) -> None:
    builder = setup_of(case, chunk_size).builder(device, Mamba2AttentionMetadataBuilder)
    metadata = build(case, builder, device)
    expected = case["expected"].get(f"chunk_{chunk_size}", dict.fromkeys(CHUNK_FIELDS))
    assert {name: plain(getattr(metadata, name)) for name in CHUNK_FIELDS} == expected


def test_all_of_the_vectors_are_here() -> None:
    assert len(CASES) == 240
    assert sum("chunk_4" in case["expected"] for case in CASES) == 118


@pytest.mark.parametrize("case", CASES[:40], ids=lambda case: case["id"])
def test_program_lists_in_the_dict_are_the_fields(case: dict[str, Any]) -> None:
    metadata = build(case, setup_of(case).builder(), "cpu")
    if metadata.nums_dict is None:
        assert metadata.batch_ptr is None
        assert metadata.token_chunk_offset_ptr is None
    else:
        assert metadata.nums_dict[8]["batch_ptr"] is metadata.batch_ptr
        assert metadata.nums_dict[8]["token_chunk_offset_ptr"] is metadata.token_chunk_offset_ptr
