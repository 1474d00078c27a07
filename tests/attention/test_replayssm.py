"""Section 4.8: ring position, flush and scratch."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest
import torch

from mambaviz.config import CacheMode
from tests.attention.batches import Setup, batch, int32

NONE = Setup(replayssm=True, block_size=8, ring_len=4)
ALIGN = Setup(mode="align", replayssm=True, block_size=8, ring_len=4)
REPLAY_FIELDS = ("write_pos_d", "is_flush_d", "bc_pre_scratch", "replayssm_scratch")


def decode(setup: Setup, computed: list[int], base: list[int], device: str = "cpu", **kw: Any):
    """(write positions, flushes) of rows that decode one token each."""
    common = batch(
        [1] * len(computed), [c + 1 for c in computed], decode_base=base, device=device, **kw
    )
    metadata = setup.builder(device).build(0, common)
    return metadata.write_pos_d.tolist(), metadata.is_flush_d.tolist()


def test_the_ring_counts_steps_since_the_decode_base(device: str) -> None:
    computed = [6, 7, 8, 9, 10, 11]
    assert decode(NONE, computed, [6] * 6, device) == ([0, 1, 2, 3, 0, 1], [0, 0, 0, 1, 0, 0])


def test_in_align_mode_the_ring_starts_again_at_a_block(device: str) -> None:
    computed = [6, 7, 8, 9, 10, 11]
    assert decode(ALIGN, computed, [6] * 6, device) == ([0, 1, 0, 1, 2, 3], [0, 1, 0, 0, 0, 1])


def test_in_align_mode_a_base_inside_the_block_stays_the_anchor() -> None:
    assert decode(ALIGN, [11], [10]) == ([1], [0])


@pytest.mark.parametrize("setup", [NONE, ALIGN])
def test_a_leftover_prompt_token_counts_no_step_and_flushes(setup: Setup) -> None:
    assert decode(setup, [9], [10]) == ([0], [1])


@pytest.mark.parametrize("ring_len", [1, 4])
@pytest.mark.parametrize("mode", ["none", "align"])
def test_padding_rows_count_no_step_and_do_not_flush(mode: CacheMode, ring_len: int) -> None:
    # seq_len 0 stands below its base and, in align mode, on a block boundary.
    common = batch([1, 0, 0], [11, 0, 8], decode_base=[9, 3, 1])
    setup = Setup(mode=mode, replayssm=True, block_size=8, ring_len=ring_len)
    metadata = setup.builder().build(0, common)
    assert metadata.write_pos_d.tolist() == [1 % ring_len, 0, 0]
    assert metadata.is_flush_d.tolist() == [int(ring_len == 1), 0, 0]


def test_a_ring_of_one_entry_always_flushes() -> None:
    setup = Setup(replayssm=True, ring_len=1)
    assert decode(setup, [6, 7], [6, 6]) == ([0, 0], [1, 1])


def test_only_decode_rows_are_in_the_ring(device: str) -> None:
    common = batch([1, 5], [8, 5], [False, True], decode_base=[6, 5], device=device)
    metadata = NONE.builder(device).build(0, common)
    assert metadata.write_pos_d.tolist() == [1]
    assert metadata.is_flush_d.tolist() == [0]
    assert metadata.bc_pre_scratch.shape == (1, 1, 4)


def test_dtypes_and_devices(device: str) -> None:
    metadata = NONE.builder(device).build(0, batch([1], [8], decode_base=[6], device=device))
    assert metadata.write_pos_d.dtype == torch.int32
    assert metadata.is_flush_d.dtype == torch.int8
    assert metadata.bc_pre_scratch.dtype == torch.float32
    for name in REPLAY_FIELDS[:3]:
        assert getattr(metadata, name).device.type == device


def test_ring_positions_come_from_the_cpu_lengths(device: str) -> None:
    common = batch([1], [8], decode_base=[6], device=device, seq_lens_cpu_upper_bound=int32([9]))
    assert NONE.builder(device).build(0, common).write_pos_d.tolist() == [2]


def test_scratch_is_the_same_memory_in_every_build() -> None:
    setup = Setup(replayssm=True, ring_len=4, ngroups=3, max_seqs=5)
    builder = setup.builder()
    first = builder.build(0, batch([1, 1], [8, 8], decode_base=[6, 6]))
    second = builder.build(0, batch([1] * 5, [8] * 5, decode_base=[6] * 5))
    assert first.bc_pre_scratch.shape == (2, 3, 4)
    assert second.bc_pre_scratch.shape == (5, 3, 4)
    assert first.bc_pre_scratch.data_ptr() == second.bc_pre_scratch.data_ptr()


def test_scratch_has_room_for_all_sequences_whatever_is_captured() -> None:
    builder = Setup(replayssm=True, max_seqs=5, full_graphs=True, capture_cap=2).builder()
    metadata = builder.build(0, batch([1] * 5, [8] * 5, decode_base=[6] * 5))
    assert len(metadata.bc_pre_scratch) == 5


def test_more_rows_than_scratch_is_refused() -> None:
    builder = Setup(replayssm=True, max_seqs=2).builder()
    with pytest.raises(ValueError, match="3 decode rows, but the ReplaySSM scratch has 2"):
        builder.build(0, batch([1] * 3, [8] * 3, decode_base=[6] * 3))


def test_without_decodes_there_is_nothing() -> None:
    metadata = NONE.builder().build(0, batch([5], [5], [True], decode_base=[5]))
    assert [getattr(metadata, name) for name in REPLAY_FIELDS] == [None] * 4


@pytest.mark.parametrize("setup", [Setup(), Setup(replayssm=True, recoverssm=True)])
def test_it_is_off_by_default_and_with_recoverssm(setup: Setup) -> None:
    metadata = setup.builder().build(0, batch([1], [8]))
    assert [getattr(metadata, name) for name in REPLAY_FIELDS] == [None] * 4


# Errors.


def test_a_missing_base_is_an_error() -> None:
    with pytest.raises(
        ValueError, match=r"replayssm_decode_base_cpu.*exact CPU lengths are needed"
    ):
        NONE.builder().build(0, batch([1], [8]))


def test_missing_cpu_lengths_are_an_error() -> None:
    common = batch([1], [8], decode_base=[6], seq_lens_cpu_upper_bound=None)
    with pytest.raises(ValueError, match=r"seq_lens_cpu_upper_bound.*exact CPU lengths"):
        NONE.builder().build(0, common)


def test_async_scheduling_with_drafts_is_an_error() -> None:
    builder = Setup(replayssm=True, num_spec=2, async_scheduling=True).builder()
    with pytest.raises(ValueError, match="exact CPU lengths are needed"):
        builder.build(0, batch([1], [8], decode_base=[6]))


def test_async_scheduling_alone_is_fine() -> None:
    setup = Setup(replayssm=True, async_scheduling=True)
    assert decode(setup, [7], [6]) == ([1], [0])


@pytest.mark.parametrize(
    ("mode", "num_spec", "message"), [("none", 2, "with drafts"), ("all", 0, "got all")]
)
def test_drafts_and_all_mode_are_refused(mode: CacheMode, num_spec: int, message: str) -> None:
    builder = Setup(mode=mode, num_spec=num_spec, replayssm=True).builder()
    with pytest.raises(ValueError, match=message):
        builder.build(0, batch([1], [8], decode_base=[6]))


def test_a_layer_without_rings_is_refused() -> None:
    with pytest.raises(ValueError, match=r"five state tensors.* lists 2"):
        Setup(replayssm=True, rings=False).builder()


def test_a_ring_without_entries_is_refused() -> None:
    with pytest.raises(ValueError, match="replayssm_buffer_len must be at least 1, got 0"):
        Setup(replayssm=True, ring_len=0).builder()


# The FlashInfer back end.


@pytest.fixture
def flashinfer(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """A stand-in for the library that notes what it was asked for."""
    asked: list[dict[str, Any]] = []

    def allocate(**arguments: Any) -> tuple[torch.Tensor, ...]:
        asked.append(arguments)
        rows, heads = arguments["batch_size"], arguments["num_heads"]
        return tuple(
            torch.empty(rows, heads, width, dtype=arguments["dtype"]) for width in (1, 2, 3)
        )

    module = ModuleType("flashinfer.mamba")
    module.allocate_checkpointing_ssu_scratch = allocate  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "flashinfer", ModuleType("flashinfer"))
    monkeypatch.setitem(sys.modules, "flashinfer.mamba", module)
    return asked


def test_flashinfer_scratch_replaces_the_triton_fields(flashinfer: list[dict[str, Any]]) -> None:
    setup = Setup(replayssm=True, backend="flashinfer", max_seqs=5, heads=3, dtype=torch.bfloat16)
    builder = setup.builder()
    first = builder.build(0, batch([1, 1], [8, 8]))
    assert flashinfer == [
        {
            "batch_size": 5,
            "num_heads": 3,
            "num_predicted_tokens": 1,
            "max_window": 4,
            "dtype": torch.bfloat16,
            "device": torch.device("cpu"),
        }
    ]
    assert [tuple(part.shape) for part in first.replayssm_scratch] == [
        (2, 3, 1),
        (2, 3, 2),
        (2, 3, 3),
    ]
    assert first.write_pos_d is first.is_flush_d is first.bc_pre_scratch is None
    second = builder.build(0, batch([1], [8]))
    assert second.replayssm_scratch[0].data_ptr() == first.replayssm_scratch[0].data_ptr()
    assert builder.build(0, batch([5], [5], [True])).replayssm_scratch is None


def test_flashinfer_scratch_under_a_graph_has_a_row_for_every_padded_request(
    flashinfer: list[dict[str, Any]],
) -> None:
    builder = Setup(replayssm=True, backend="flashinfer", full_graphs=True).builder()
    metadata = builder.build(0, batch([1, 0, 0], [8, 0, 0]))
    assert [len(part) for part in metadata.replayssm_scratch] == [3, 3, 3]
    assert len(flashinfer) == 1


def test_without_the_library_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "flashinfer.mamba", None)
    with pytest.raises(ValueError, match="needs flashinfer"):
        Setup(replayssm=True, backend="flashinfer").builder()


def test_the_library_is_not_asked_for_without_replayssm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "flashinfer.mamba", None)
    assert Setup(backend="flashinfer").builder().replayssm is None
