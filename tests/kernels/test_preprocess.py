"""The running column of a step (section 3.3), where the golden vectors do not look."""

from __future__ import annotations

import pytest
import torch

from kernels import KernelSet
from tests.kernels.golden_cases import device_of, ints

UNTOUCHED = -9


def run(
    ks: KernelSet,
    idx_mapping: list[int],
    state_idx: list[int],
    computed: list[int],
    query_lens: list[int],
    accepted: list[int],
    *,
    block_size: int = 4,
    lanes: int = 4,
    num_reqs: int | None = None,
) -> dict[str, list[int]]:
    device = device_of(ks)
    starts = torch.tensor([0, *query_lens]).cumsum(0).tolist()
    columns, counts = ints(state_idx, device), ints(accepted, device)
    src_col, src_off = (ints([UNTOUCHED] * len(state_idx), device) for _ in range(2))
    n = len(idx_mapping) if num_reqs is None else num_reqs
    ks.preprocess_mamba_align_fused_kernel[(-(-len(idx_mapping) // lanes),)](
        ints(idx_mapping, device),
        columns,
        ints(computed, device),
        ints(starts, device),
        counts,
        src_col,
        src_off,
        n,
        lanes,
        block_size,
    )
    results = {"column": columns, "count": counts, "src_col": src_col, "src_off": src_off}
    return {name: tensor.tolist() for name, tensor in results.items()}


@pytest.mark.parametrize(
    ("column", "computed", "query", "accepted", "expected"),
    [
        # expected: new column, count after, where the state lies: column, tokens past it
        pytest.param(-1, 0, 4, 1, (0, 1, -1, 0), id="fresh, exactly one block"),
        pytest.param(-1, 0, 5, 1, (1, 1, -1, 0), id="fresh, one token into the second"),
        pytest.param(-1, 4, 1, 3, (1, 3, -1, 2), id="fresh keeps its count"),
        pytest.param(0, 2, 2, 2, (0, 2, 0, 1), id="fills its column and stays"),
        pytest.param(0, 4, 1, 3, (1, 1, 0, 2), id="moves on, count starts again"),
        pytest.param(2, 3, 1, 2, (0, 1, 2, 1), id="moves back after a replay"),
        pytest.param(0, 4, 1, 0, (1, 1, 0, 0), id="offset is never negative"),
        pytest.param(-1, 0, 0, 1, (-1, 1, -1, 0), id="nothing computed, nothing scheduled"),
    ],
)
def test_one_request(
    ks: KernelSet,
    column: int,
    computed: int,
    query: int,
    accepted: int,
    expected: tuple[int, int, int, int],
) -> None:
    got = run(ks, [0], [column], [computed], [query], [accepted])
    assert (got["column"][0], got["count"][0], got["src_col"][0], got["src_off"][0]) == expected


def test_slots_outside_the_batch_and_negative_slots(ks: KernelSet) -> None:
    """Batch of three: slot 4, no slot, slot 1. Query lengths stay with the batch rows."""
    got = run(ks, [4, -1, 1], [0] * 5, [4] * 5, [1, 7, 5], [2] * 5)
    assert got["column"] == [0, 2, 0, 0, 1]
    assert got["count"] == [2, 1, 2, 2, 1]
    assert got["src_col"] == [UNTOUCHED, 0, UNTOUCHED, UNTOUCHED, 0]
    assert got["src_off"] == [UNTOUCHED, 1, UNTOUCHED, UNTOUCHED, 1]


def test_rows_past_num_reqs(ks: KernelSet) -> None:
    got = run(ks, [0, 1, 2], [0] * 3, [4] * 3, [1] * 3, [2] * 3, num_reqs=2)
    assert got["column"] == [1, 1, 0]
    assert got["src_col"] == [0, 0, UNTOUCHED]


@pytest.mark.parametrize("lanes", [1, 2, 16, 128])
def test_any_number_of_lanes(ks: KernelSet, lanes: int) -> None:
    """More requests than lanes, and more lanes than requests; slots in reverse order."""
    n = 9
    computed = list(range(n))
    got = run(ks, list(range(n))[::-1], [0] * n, computed, [3] * n, [2] * n, lanes=lanes)
    expected = [-(-(c + 3) // 4) - 1 for c in computed]
    assert got["column"] == expected
    assert got["count"] == [2 if column == 0 else 1 for column in expected]
    assert got["src_off"] == [1] * n
