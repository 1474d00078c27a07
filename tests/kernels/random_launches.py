"""Random launches of 3.2 and 3.4, compared byte for byte with the plain twins.

``python -m tests.kernels.random_launches 0 500`` runs those numbers, for a memory checker to
watch; a few run as a test. Geometry, alignment, columns, ids and decisions are drawn so that every
path and guard is met: odd sizes, padded and unaligned pages, null, foreign and repeated ids.
"""

from __future__ import annotations

import random
import sys

import numpy as np
import torch

import kernels
from kernels import KernelSet
from tests.kernels.fast import fast_kernel_set
from tests.kernels.golden_cases import (
    StateMemory,
    StateSpec,
    Tables,
    device_of,
    ints,
    launch_postprocess,
    launch_precopy,
)

DTYPES = (torch.int8, torch.bfloat16, torch.float32, torch.float64)
COLUMNS = 6


def draw_specs(rng: random.Random) -> list[StateSpec]:
    """One or two layers: a conv window and a temporal state each."""
    dtype, temporal = rng.choice(DTYPES), rng.choice(DTYPES)
    conv = (rng.choice((1, 3, 4, 5, 7)), rng.choice((3, 16, 64, 200)))
    shape = (rng.choice((5, 16, 64, 1031)), rng.choice((1, 4)))
    return [
        StateSpec(f"{name}{layer}", *state)
        for layer in range(rng.choice((1, 2)))
        for name, state in (("conv", (conv, dtype, True)), ("ssm", (shape, temporal, False)))
    ]


def run_one(ks: KernelSet, seed: int) -> None:
    """AssertionError, with the seed, unless ``ks`` leaves the bytes and counts of the twins."""
    outcomes = []
    for kernel_set in (kernels.kernel_set("reference"), ks):
        rng = random.Random(seed)
        specs = draw_specs(rng)
        num_reqs = rng.choice((1, 2, 5, 40))
        num_blocks = num_reqs * COLUMNS + 1
        memory = StateMemory(
            specs,
            num_blocks,
            device_of(kernel_set),
            dim_first=rng.random() < 0.5,
            page_padding=rng.choice((0, 0, 16, 5)),
            misalign=rng.choice((0, 0, 16, 4, 2, 1)),
            salt=seed % 1000,
        )
        tables = Tables.of([_rows(rng, num_reqs, num_blocks)], memory.device)
        outcomes.append((_launch(kernel_set, memory, tables, rng), memory))
    (counts, expected), (found, memory) = outcomes
    assert found == counts, f"seed {seed}: counts {found}, not {counts}"
    for k, spec in enumerate(memory.specs):
        assert np.array_equal(memory.bytes(k), expected.bytes(k)), f"seed {seed}: {spec}"


def _rows(rng: random.Random, num_reqs: int, num_blocks: int) -> list[list[int]]:
    """A request's own blocks, now and then one that no address may be made of, or one twice."""
    rows = []
    for r in range(num_reqs):
        row = [1 + r * COLUMNS + c for c in range(COLUMNS)]
        if rng.random() < 0.2:
            row[rng.randrange(COLUMNS)] = rng.choice((0, -3, num_blocks, 2**30))
        if rng.random() < 0.2:
            row[rng.randrange(COLUMNS)] = row[0]
        rows.append(row)
    return rows


def _launch(ks: KernelSet, memory: StateMemory, tables: Tables, rng: random.Random) -> list[int]:
    n = tables.num_reqs
    num_slots = n + 2
    mapping = rng.sample(range(num_slots), n) if rng.random() < 0.5 else None
    if mapping is not None and rng.random() < 0.3:
        mapping[rng.randrange(n)] = -1

    def slots(low: int, high: int) -> list[int]:
        return [rng.randint(low, high) for _ in range(num_slots)]

    if rng.random() < 0.5:
        launch_precopy(
            ks, memory, tables, slots(-1, COLUMNS), slots(-1, COLUMNS), slots(0, 4),
            idx_mapping=mapping, num_blocks=memory.num_blocks,
        )  # fmt: skip
        return []
    counts = ints(slots(1, 4), memory.device)
    advanced = rng.random() < 0.5
    launch_postprocess(
        ks, memory, tables, counts.clone(), counts, slots(0, COLUMNS - 1), slots(0, 20),
        None if advanced else slots(1, 4), None if advanced else slots(0, 3),
        block_size=4, idx_mapping=mapping, num_blocks=memory.num_blocks,
    )  # fmt: skip
    return counts.tolist()


def main() -> None:
    """The launches numbered as the two arguments say, readable and fast in turn."""
    sets = (kernels.kernel_set(), fast_kernel_set())
    first, last = (int(arg) for arg in sys.argv[1:])
    for seed in range(first, last):
        run_one(sets[seed % 2], seed)
    print(f"random launches {first} to {last - 1} on {kernels.BACKEND} are as by the twins")


if __name__ == "__main__":
    main()
