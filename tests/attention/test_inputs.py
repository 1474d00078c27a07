"""Section 4.1: what the builder is given, what it does not touch, and what it refuses."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch

from mambaviz.attention import NULL_BLOCK_ID, PAD_SLOT_ID
from tests.attention.batches import Setup, batch, int32


def test_the_two_reserved_numbers() -> None:
    assert (NULL_BLOCK_ID, PAD_SLOT_ID) == (0, -1)


def test_computed_tokens_are_what_the_query_is_not(device: str) -> None:
    computed = batch([1, 5, 0], [6, 5, 0], device=device).compute_num_computed_tokens()
    assert computed.tolist() == [5, 0, 0]
    assert computed.dtype == torch.int32
    assert computed.device.type == device


def test_replace_copies_and_shares_the_rest() -> None:
    common = batch([1], [6])
    changed = common.replace(num_actual_tokens=7)
    assert (common.num_actual_tokens, changed.num_actual_tokens) == (1, 7)
    assert changed.seq_lens is common.seq_lens


@pytest.mark.parametrize(
    "name", ["is_prefilling", "query_start_loc_cpu", "seq_lens_cpu_upper_bound"]
)
def test_a_missing_cpu_input_is_named(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is missing"):
        Setup().builder().build(0, batch([1], [6], **{name: None}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_reqs": 2}, r"query_start_loc must have shape \(3,\), got \(2,\)"),
        ({"query_start_loc_cpu": int32([0, 1, 2])}, r"query_start_loc_cpu must have shape \(2,\)"),
        ({"query_start_loc_cpu": int32([0, -1])}, "never fall, but row 0 goes from 0 to -1"),
        ({"seq_lens": int32([6, 6])}, r"seq_lens must have shape \(1,\)"),
        ({"seq_lens_cpu_upper_bound": int32([])}, r"seq_lens_cpu_upper_bound must have shape"),
        ({"seq_lens_cpu_upper_bound": int32([0])}, "row 0 has seq_len 0 but a query of 1"),
        ({"is_prefilling": torch.zeros(2, dtype=torch.bool)}, "is_prefilling must have shape"),
        ({"block_table_tensor": int32([[1], [2]])}, r"block_table_tensor must have shape \(1, "),
        ({"block_table_tensor": int32([1])}, r"block_table_tensor must have shape \(1, "),
    ],
)
def test_a_batch_that_does_not_fit_together_is_refused(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Setup().builder().build(0, batch([1], [6]).replace(**changes))


@pytest.mark.parametrize(
    "name", ["num_accepted_tokens", "prev_last_scheduled_idx", "num_decode_draft_tokens_cpu"]
)
def test_keyword_inputs_have_an_entry_per_row(name: str) -> None:
    with pytest.raises(ValueError, match=rf"{name} must have shape \(1,\), got \(2,\)"):
        Setup().builder().build(0, batch([1], [6]), **{name: int32([1, 1])})


def test_the_decode_base_has_an_entry_per_row() -> None:
    with pytest.raises(ValueError, match=r"replayssm_decode_base_cpu must have shape \(1,\)"):
        Setup(replayssm=True).builder().build(0, batch([1], [6], decode_base=[1, 2]))


@pytest.mark.gpu
@pytest.mark.parametrize(
    "name", ["is_prefilling", "query_start_loc_cpu", "seq_lens_cpu_upper_bound"]
)
def test_cpu_inputs_must_be_on_the_cpu(name: str) -> None:
    common = batch([1], [6], device="cuda")
    moved = common.replace(**{name: getattr(common, name).cuda()})
    with pytest.raises(ValueError, match=f"{name} must be a CPU tensor"):
        Setup().builder("cuda").build(0, moved)


def test_spec_and_configuration_must_name_the_same_mode() -> None:
    with pytest.raises(ValueError, match=r"'align'.* 'all'"):
        Setup(mode="all", spec_mode="align").builder()
    assert Setup(mode="all", spec_mode="none").builder().mode == "all"


@pytest.mark.parametrize("mode", ["none", "align", "all"])
@pytest.mark.parametrize("num_spec", [0, 2])
def test_results_are_on_the_device_and_integers_are_int32(
    mode: Any, num_spec: int, device: str
) -> None:
    common = batch([1, 5], [6, 5], [False, True], device=device)
    metadata = (
        Setup(mode=mode, num_spec=num_spec)
        .builder(device)
        .build(
            0,
            common,
            num_accepted_tokens=int32([1, 1], device),
            prev_last_scheduled_idx=int32([0, -1], device),
        )
    )
    tensors = {n: v for n, v in vars(metadata).items() if isinstance(v, torch.Tensor)}
    for name, tensor in tensors.items():
        assert tensor.device.type == device, name
        expected = torch.bool if name == "has_initial_states_p" else torch.int32
        assert tensor.dtype == expected, name


def test_the_package_needs_nothing_beyond_torch_and_numpy() -> None:
    """It also runs on a GPU machine where nothing else is installed."""
    script = (
        "import sys, mambaviz.attention, mambaviz.attention.fields\n"
        "extra = {'pydantic', 'streamlit', 'plotly', 'flashinfer', 'kernels'} & set(sys.modules)\n"
        "assert not extra, extra\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
