"""The forward over many steps, kernels and twins side by side, both against the oracle.

Each run: prefills in chunks (longer than a conv tile, shorter than a window, across boundaries),
prompt tails of one token, decodes with every accepted count, steps with fewer drafts than
configured, decodes and prefills in one batch.
"""

from __future__ import annotations

import pytest
import torch

from mambaviz.layer import LayerShape
from tests.mixer.conftest import OWN, TWIN, Place
from tests.mixer.world import Setup, World, bits

MODES = ("none", "align", "all")


def prefill(*worlds: World) -> None:
    for world in worlds:
        world.step((0, 10, 10))
        world.step((0, 1, 1), (1, 2, 2))
        world.step((0, 1, 1), (1, 2, 2))
        check(world)
        num_spec = world.setup.num_spec
        world.step((0, 1 + num_spec, 1), (1, 5, 5))  # request 0 decodes from here on
        check(world)


def decode(world: World, step: int) -> None:
    """Both requests; the accepted counts go through all values, one row has fewer drafts."""
    full = 1 + world.setup.num_spec
    fewer = max(1, full - step % 2)
    world.step((0, full, 1 + step % full), (1, fewer, 1 + (step + 1) % fewer))


def check(world: World) -> None:
    for request in world.requests:
        world.check_state(request)


def compare_caches(world: World, twin: World) -> None:
    """Windows and untouched bytes are equal; a state may differ by the last bit of its sums."""
    assert torch.equal(bits(world.states[0]), bits(twin.states[0]))
    for mine, theirs in zip(world.states[1:], twin.states[1:], strict=True):
        eps = torch.finfo(mine.dtype).eps
        torch.testing.assert_close(mine.cpu(), theirs, rtol=2 * eps, atol=1e-6)
    assert not bits(world.states[0])[0].any()
    assert not bits(world.states[1])[0].any()


def run_both(setup: Setup, steps: int) -> World:
    world, twin = World(setup, OWN), World(setup, TWIN)
    prefill(world, twin)
    compare_caches(world, twin)
    for step in range(steps):
        for each in (world, twin):
            decode(each, step)
            check(each)
        compare_caches(world, twin)
    return world


@pytest.mark.parametrize(("num_spec", "layout"), [(0, "SD"), (2, "SD"), (2, "DS")])
@pytest.mark.parametrize("mode", MODES)
def test_float32(mode, num_spec, layout):
    run_both(Setup(mode=mode, num_spec=num_spec, layout=layout), steps=4)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("mode", MODES)
def test_narrow_caches_stay_within_their_tolerance(mode, dtype):
    layout = "SD" if dtype == "bfloat16" else "DS"
    run_both(Setup(mode=mode, num_spec=1, layout=layout, dtype=dtype), steps=3)


@pytest.mark.parametrize(
    "shape", [LayerShape(1, 1, 1, 2), LayerShape(3, 5, 7, 3), LayerShape(16, 16, 32, 4)], ids=str
)
def test_any_size(shape):
    """Powers of two or not, and tiles that fill many warps."""
    run_both(Setup(mode="align", num_spec=1, shape=shape), steps=2)


def test_all_mode_without_drafts_leaves_a_state_at_every_boundary(place: Place):
    world = World(Setup(mode="all", block_size=4), place)
    prefill(world)
    for step in range(3):
        decode(world, step)
    for request in world.requests:
        for column in range(request.computed // 4):
            world.check_block(request, column, 4 * (column + 1))


@pytest.mark.parametrize(("block_size", "chunk_size"), [(2, 2), (4, 2), (8, 4), (3, 1)])
def test_all_mode_prefill_leaves_a_state_at_every_boundary(place: Place, block_size, chunk_size):
    """Boundaries nearer to each other than a window, and chunks that end between boundaries."""
    world = World(Setup(mode="all", block_size=block_size, chunk_size=chunk_size), place)
    for start, count in ((0, 5), (5, 7)):
        world.step((0, count, count))
        end = start + count
        request = world.requests[0]
        for column in range(end // block_size):
            world.check_block(request, column, (column + 1) * block_size)
        world.check_block(request, (end - 1) // block_size, end)


def test_the_window_read_from_the_last_computed_column_is_wrong_after_a_rejection(place: Place):
    """The named fault of section 5.2: B = 4, c = 3, q = 3, one token accepted."""
    for fault in (False, True):
        world = World(Setup(mode="all", num_spec=2, fault=fault), place)
        request = world.requests[0]
        request.prompt = 3
        world.step((0, 3, 3))
        world.step((0, 3, 1))
        if fault:
            with pytest.raises(AssertionError, match="channel"):
                world.step((0, 3, 3))
        else:
            world.step((0, 3, 3))
            world.check_state(request)


# -------------------------------------------------------------------------------------- ReplaySSM


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("mode", "ring_len"), [("none", 3), ("align", 8), ("align", 1)])
def test_replay_gives_the_outputs_of_plain_decoding(mode, ring_len, dtype):
    """Every output is judged by the oracle (in ``step``); here what is written, and when."""
    setup = Setup(mode=mode, ring_len=ring_len, dtype=dtype)
    world, twin = World(setup, OWN), World(setup, TWIN)
    prefill(world, twin)
    flushes = 0
    for step in range(6):
        before = world.states[1].clone()
        for each in (world, twin):
            decode(each, step)
        compare_caches(world, twin)
        metadata = world.metadata
        assert metadata is not None
        for row, request in enumerate(world.requests):
            block = request.row[request.column if mode == "align" else 0]
            if metadata.is_flush_d[row]:
                flushes += 1
                world.check_temporal(request, block)
            elif not moved_to_new_block(request, setup):
                assert torch.equal(bits(world.states[1][block]), bits(before[block]))
        close_scratch(world, twin)
    assert flushes >= 2


def moved_to_new_block(request, setup: Setup) -> bool:
    """Whether this step carried the state into a new running block before the forward."""
    return setup.mode == "align" and (request.computed - 1) % setup.block_size == 0


def close_scratch(world: World, twin: World) -> None:
    mine, theirs = world.metadata.bc_pre_scratch, twin.metadata.bc_pre_scratch
    used = world.metadata.write_pos_d.cpu()[:, None, None] >= torch.arange(mine.shape[2])
    torch.testing.assert_close(mine.cpu() * used, theirs * used)


def test_replay_rounds_a_state_once_a_flush_and_not_once_a_token(place: Place):
    """The ring's point for accuracy: between flushes the stored state is not touched."""
    world = World(Setup(mode="none", ring_len=16), place)
    prefill(world)
    before = [state.clone() for state in world.states]
    for step in range(2):
        decode(world, step)
    block = world.requests[0].row[0]
    assert torch.equal(bits(world.states[1][block]), bits(before[1][block]))
    assert not torch.equal(bits(world.states[2][block]), bits(before[2][block]))
