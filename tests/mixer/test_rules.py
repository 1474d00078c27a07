"""Section 5.2 rule by rule: one launch on hand-made metadata, and what it may touch."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

from mambaviz.attention import Mamba2AttentionMetadata, compute_causal_conv1d_metadata
from mambaviz.attention.chunks import plan_chunks
from mambaviz.layer import LayerParams, LayerShape
from mambaviz.mixer import Layout, MixerConfig, ReplayRing, project, run_layer
from tests.mixer.conftest import Place
from tests.mixer.world import Setup, World, bits

BLOCKS = 12
SHAPE = LayerShape()  # K - 1 = 3 rows of window
PARAMS = LayerParams.create(SHAPE, seed=11)


class Bench:
    """Caches of known content between guard blocks, and one forward."""

    def __init__(
        self,
        place: Place,
        mode: Any = "none",
        num_spec: int = 0,
        block_size: int = 4,
        layout: Layout = "SD",
    ) -> None:
        self.place = place
        self.config = MixerConfig(mode, block_size, num_spec, layout)
        self.state_len = SHAPE.conv_kernel - 1 + num_spec
        conv = (self.state_len, SHAPE.dim)
        self.conv_storage = self._filled(conv if layout == "SD" else conv[::-1], 5)
        self.ssm_storage = self._filled((SHAPE.num_heads, SHAPE.head_dim, SHAPE.d_state), 1)
        # Blocks that no id may reach lie before and behind the cache.
        self.conv_state, self.ssm_state = self.conv_storage[2:-2], self.ssm_storage[2:-2]
        self.before = [self.conv_storage.clone(), self.ssm_storage.clone()]

    def _filled(self, block: tuple[int, ...], size: float) -> torch.Tensor:
        generator = torch.Generator().manual_seed(1)
        numbers = torch.rand((BLOCKS + 4, *block), generator=generator) * size
        return numbers.to(self.place.device)

    @property
    def conv(self) -> torch.Tensor:
        """[BLOCKS, state_len, dim] in either layout."""
        return self.conv_state if self.config.layout == "SD" else self.conv_state.transpose(1, 2)

    @property
    def conv_before(self) -> torch.Tensor:
        before = self.before[0][2:-2]
        return before if self.config.layout == "SD" else before.transpose(1, 2)

    def int32(self, values: Any) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.int32, device=self.place.device)

    def run(self, metadata: Mamba2AttentionMetadata) -> torch.Tensor:
        tokens = list(range(metadata.num_decode_tokens + metadata.num_prefill_tokens))
        return run_layer(
            PARAMS, self.config, tokens, tokens, metadata, self.conv_state, self.ssm_state,
            kernels=self.place.kernels,
        )  # fmt: skip

    def x(self, tokens: int) -> torch.Tensor:
        """The conv inputs of the first tokens of `run`."""
        return project(PARAMS, range(tokens), range(tokens), self.place.device).x

    def changed(self) -> tuple[set[int], set[int]]:
        """Ids of the blocks whose conv and temporal bytes differ from the start."""
        found = []
        for storage, before in zip((self.conv_storage, self.ssm_storage), self.before, strict=True):
            differs = (bits(storage) != bits(before)).flatten(1).any(1)
            found.append({int(block) - 2 for block in differs.nonzero()})
        return found[0], found[1]

    # --------------------------------------------------------------------------- metadata

    def decodes(
        self,
        table: list[list[int]],
        query_lens: list[int] | None = None,
        accepted: list[int] | None = None,
        **all_mode: list[int],
    ) -> Mamba2AttentionMetadata:
        """Decode rows; ``all_mode`` names block indices by their metadata field."""
        rows = len(table)
        lens = [1] * rows if query_lens is None else query_lens
        offsets = torch.tensor([0, *lens]).cumsum(0).tolist()
        return Mamba2AttentionMetadata(
            num_prefills=0,
            num_prefill_tokens=0,
            num_decodes=rows,
            num_decode_tokens=offsets[-1],
            num_reqs=rows,
            seq_lens=self.int32([10] * rows),
            state_indices_tensor_d=self.int32(table),
            state_indices_tensor_p=self.int32([]),
            query_start_loc_d=self.int32(offsets) if self.config.num_spec else None,
            num_accepted_tokens=None if accepted is None else self.int32(accepted),
            **{name: self.int32(values) for name, values in all_mode.items()},
        )

    def prefills(
        self, table: list[Any], computed: list[int], query_lens: list[int], chunk: int = 2
    ) -> Mamba2AttentionMetadata:
        """Prefill rows; the block indices of all mode as section 4.6 has them."""
        rows, B = len(table), self.config.block_size
        c, q = torch.tensor(computed), torch.tensor(query_lens)
        starts = torch.tensor([0, *query_lens]).cumsum(0).to(torch.int32)
        nums_dict, batch_ptr, chunk_offset = compute_causal_conv1d_metadata(
            starts, device=self.place.device
        )
        chunks = plan_chunks(c.numpy(), q.numpy(), chunk).to(self.place.device)
        last = ((c + q + B - 1) // B - 1).clamp(min=0).tolist()
        all_mode: dict[str, Any] = {
            "num_computed_tokens_p": self.int32(computed),
            "block_idx_first_scheduled_token_p": self.int32((c // B).tolist()),
            "block_idx_last_scheduled_token": self.int32(last),
            "block_idx_last_computed_token": self.int32(
                ((c + B - 1) // B - 1).clamp(min=0).tolist()
            ),
        }
        return Mamba2AttentionMetadata(
            num_prefills=rows,
            num_prefill_tokens=sum(query_lens),
            num_decodes=0,
            num_decode_tokens=0,
            num_reqs=rows,
            seq_lens=self.int32((c + q).tolist()),
            state_indices_tensor_d=self.int32([]),
            state_indices_tensor_p=self.int32(table),
            query_start_loc_p=starts.to(self.place.device),
            has_initial_states_p=(c > 0).to(self.place.device),
            nums_dict=nums_dict,
            batch_ptr=batch_ptr,
            token_chunk_offset_ptr=chunk_offset,
            **(all_mode if self.config.mode == "all" else {}),
            **dataclasses.asdict(chunks),
            chunk_size=chunk,
            prep_initial_states=any(computed),
        )


# ---------------------------------------------------------------------------------------- decodes


@pytest.mark.parametrize("layout", ["SD", "DS"])
@pytest.mark.parametrize("query_len", [1, 2, 3])
@pytest.mark.parametrize("offset", [0, 1, 2])
def test_the_window_after_a_decode(place: Place, layout, query_len, offset):
    """The rows in use, in the words of section 5.2; a shorter query leaves the rest alone."""
    num_spec, q, o = 2, query_len, offset
    bench = Bench(place, num_spec=num_spec, layout=layout)
    bench.run(bench.decodes([[4, 5, 6]], [q], [o + 1]))
    W = bench.state_len
    w = W - (1 + num_spec - q)
    old, new = bench.conv_before[4], bench.conv[4]
    assert torch.equal(new[: w - q], old[o + 1 : o + w - q + 1])
    assert torch.equal(new[w - q : w], bench.x(q))
    assert torch.equal(new[w:], old[w:])
    assert bench.changed() == ({4}, set([4, 5, 6][:q]))


def test_without_drafts_the_window_shifts_by_one(place: Place):
    bench = Bench(place)
    bench.run(bench.decodes([[4], [7]], accepted=[3, 3]))  # counts mean nothing without drafts
    for row, block in enumerate((4, 7)):
        assert torch.equal(bench.conv[block, :-1], bench.conv_before[block, 1:])
        assert torch.equal(bench.conv[block, -1], bench.x(2)[row])
    assert bench.changed() == ({4, 7}, {4, 7})


@pytest.mark.parametrize("accepted", [1, 2, 3])
def test_a_decode_goes_on_from_the_state_of_the_last_accepted_token(place: Place, accepted):
    """The state read is that of column ``accepted - 1``: the others' bytes do not matter."""
    outputs, states = [], []
    for spoilt in (False, True):
        bench = Bench(place, num_spec=2)
        if spoilt:
            for column in {0, 1, 2} - {accepted - 1}:
                bench.ssm_state[4 + column] = 77
        outputs.append(bench.run(bench.decodes([[4, 5, 6]], [1], [accepted])))
        states.append(bench.ssm_state[4].clone())
    assert torch.equal(outputs[0], outputs[1])
    assert torch.equal(states[0], states[1])


def test_all_mode_reads_and_writes_the_columns_it_is_given(place: Place):
    bench = Bench(place, "all")
    metadata = bench.decodes(
        [[0, 3, 4, 0]],  # column 0 is null, and that is none of this row's business
        block_idx_last_computed_token=[1],
        block_idx_last_scheduled_token=[2],
    )
    assert bench.run(metadata).abs().sum() > 0
    assert torch.equal(bench.conv[4, :-1], bench.conv_before[3, 1:])
    assert bench.changed() == ({4}, {4})


def test_all_mode_with_drafts_counts_columns_from_the_step_before(place: Place):
    bench = Bench(place, "all", num_spec=2)
    metadata = bench.decodes(
        [[0, 3, 4, 5, 6, 7]],
        [3],
        [2],
        block_idx_last_computed_token=[2],
        block_idx_last_scheduled_token=[3],
        block_idx_last_scheduled_token_prev_step=[1],
    )
    bench.run(metadata)
    assert torch.equal(bench.conv[5, :2], bench.conv_before[3, 2:4])  # column 1, offset 1
    assert bench.changed() == ({5}, {5, 6, 7})


def test_a_token_whose_destination_is_null_is_not_written(place: Place):
    bench = Bench(place, num_spec=2)
    y = bench.run(bench.decodes([[4, 0, 6]], [3], [1]))
    assert bench.changed() == ({4}, {4, 6})
    assert (y != 0).any(1).all()  # all three tokens have their output


def test_a_null_destination_of_the_window_is_not_written(place: Place):
    bench = Bench(place, "all")
    y = bench.run(
        bench.decodes(
            [[3, 0]], block_idx_last_computed_token=[0], block_idx_last_scheduled_token=[1]
        )
    )
    assert bench.changed() == (set(), set())
    assert (y != 0).any()


def test_a_row_whose_read_slot_is_null_does_nothing(place: Place):
    """With a query, with live slots behind, window and state judged by the slot each reads."""
    bench = Bench(place, num_spec=1)
    y = bench.run(bench.decodes([[0, 5], [7, 8]], [1, 1], [1, 1]))
    assert bench.changed() == ({7}, {7})
    assert not y[0].any()
    assert y[1].any()


def test_a_row_with_an_empty_query_does_nothing(place: Place):
    """Although its slots are live; with query offsets, and without them (one token a row)."""
    bench = Bench(place, num_spec=1)
    bench.run(bench.decodes([[4, 5], [7, 8]], [2, 0], [1, 1]))
    assert bench.changed() == ({4}, {4, 5})

    bench = Bench(place)
    metadata = dataclasses.replace(bench.decodes([[4], [7]]), num_decode_tokens=1)
    bench.run(metadata)
    assert bench.changed() == ({4}, {4})


# --------------------------------------------------------------------------------------- prefills


@pytest.mark.parametrize("layout", ["SD", "DS"])
@pytest.mark.parametrize("query_len", [1, 2, 3, 9])
def test_a_prefill_fills_the_rows_of_one_window(place: Place, layout, query_len):
    """Missing rows come from the initial window; rows behind it are left as they were."""
    bench = Bench(place, num_spec=2, layout=layout)
    bench.run(bench.prefills([4], [5], [query_len]))
    inputs = torch.cat([bench.conv_before[4, :3], bench.x(query_len)])
    assert torch.equal(bench.conv[4, :3], inputs[-3:])
    assert torch.equal(bench.conv[4, 3:], bench.conv_before[4, 3:])
    assert bench.changed() == ({4}, {4})


def test_a_prefill_without_initial_state_starts_from_zeros(place: Place):
    results = []
    for garbage in (0.0, 88.0):
        bench = Bench(place)
        bench.conv_state[4] = garbage
        bench.ssm_state[4] = garbage
        y = bench.run(bench.prefills([4], [0], [2]))
        results.append((y, bench.conv_state[4].clone(), bench.ssm_state[4].clone()))
    for clean, dirty in zip(*results, strict=True):
        assert torch.equal(clean, dirty)
    assert torch.equal(results[0][1][0], torch.zeros_like(results[0][1][0]))


def test_all_mode_writes_every_boundary_and_the_end(place: Place):
    bench = Bench(place, "all", block_size=2)
    # 3 tokens computed, 6 new ones: boundaries at 4, 6, 8 (columns 1, 2, 3), the end at 9.
    bench.run(bench.prefills([[2, 3, 4, 5, 6, 7]], [3], [6]))
    inputs = torch.cat([bench.conv_before[3], bench.x(6)])  # window of column 1, then tokens 3..8
    for block, absorbed in ((3, 1), (4, 3), (5, 5), (6, 6)):
        assert torch.equal(bench.conv[block], inputs[absorbed : absorbed + 3]), block
    assert bench.changed() == ({3, 4, 5, 6}, {3, 4, 5, 6})


@pytest.mark.parametrize("query_len", [1, 2, 5])
def test_all_mode_never_writes_the_block_it_read_at_a_boundary(place: Place, query_len):
    """It may be shared. A chunk shorter than the window takes rows from there all the same."""
    bench = Bench(place, "all", block_size=4)
    bench.run(bench.prefills([[2, 3, 4, 5]], [4], [query_len]))
    last = 3 if query_len < 5 else 4
    inputs = torch.cat([bench.conv_before[2], bench.x(query_len)])
    assert torch.equal(bench.conv[last], inputs[-3:])
    written = {3} if query_len < 5 else {3, 4}
    assert bench.changed() == (written, written)


def test_all_mode_leaves_null_columns_alone(place: Place):
    bench = Bench(place, "all", block_size=2)
    y = bench.run(bench.prefills([[0, 0, 4, 0, 6]], [0], [9]))
    assert bench.changed() == ({4, 6}, {4, 6})
    assert (y != 0).any(1).all()


@pytest.mark.parametrize("mode", ["none", "all"])
def test_a_prefill_row_whose_read_slot_is_null_does_nothing(place: Place, mode):
    table: list[Any] = [0, 5] if mode == "none" else [[0, 4], [5, 6]]
    bench = Bench(place, mode)
    y = bench.run(bench.prefills(table, [4, 4], [2, 2]))
    written = {5} if mode == "none" else {6}
    assert bench.changed() == (written, written)
    assert not y[:2].any()
    assert (y[2:] != 0).any(1).all()


def test_an_unfilled_slot_of_a_fresh_prefill_is_null_too(place: Place):
    """Outside all mode the one slot is the read slot, whether or not there is state to read."""
    bench = Bench(place)
    metadata = bench.prefills([0], [0], [3])
    assert not bench.run(metadata).any()
    u = run_layer(
        PARAMS, bench.config, [0, 1, 2], [0, 1, 2], metadata, bench.conv_state, None,
        kernels=place.kernels,
    )  # fmt: skip
    assert not u.any()
    assert bench.changed() == (set(), set())


@pytest.mark.parametrize("computed", [3, 4])
def test_a_prefill_row_with_an_empty_query_does_nothing(place: Place, computed):
    """Unaligned it even has a chunk, of no tokens (section 4.7)."""
    bench = Bench(place, "all")
    bench.run(bench.prefills([[2, 3], [4, 5], [6, 7]], [0, computed, 0], [2, 0, 3]))
    assert bench.changed() == ({2, 6}, {2, 6})


def test_several_prefills_do_not_mix(place: Place):
    """Each alone gives what all together give: no program takes a neighbour's tokens."""
    computed, lens, table = (
        [0, 3, 4],
        [9, 17, 1],
        [[2, 3, 4, 0, 0], [5, 6, 7, 8, 9], [10, 11, 0, 0, 0]],
    )
    together = Bench(place, "all")
    y = together.run(together.prefills(table, computed, lens))
    start = 0
    for row, count in enumerate(lens):
        alone = Bench(place, "all")
        metadata = alone.prefills([table[row]], [computed[row]], [count])
        tokens = list(range(start, start + count))
        y_alone = run_layer(
            PARAMS, alone.config, tokens, tokens, metadata, alone.conv_state, alone.ssm_state,
            kernels=place.kernels,
        )  # fmt: skip
        torch.testing.assert_close(y[start : start + count], y_alone)
        for block in filter(None, table[row]):
            torch.testing.assert_close(together.conv_state[block], alone.conv_state[block])
            torch.testing.assert_close(together.ssm_state[block], alone.ssm_state[block])
        start += count


# ----------------------------------------------------------------------------------------- bounds


@pytest.mark.parametrize("foreign", [-1, BLOCKS, BLOCKS + 1, 2**31 - 1])
def test_an_id_outside_the_cache_counts_as_null(place: Place, foreign):
    """Guard blocks lie where such an id would point; reading it makes padding, writing nothing."""
    bench = Bench(place, num_spec=1)
    y = bench.run(bench.decodes([[foreign, 5], [7, foreign]], [2, 2], [1, 1]))
    assert bench.changed() == ({7}, {7})
    assert not y[:2].any()

    bench = Bench(place)
    assert not bench.run(bench.prefills([foreign], [4], [2])).any()
    assert bench.changed() == (set(), set())


def test_a_column_outside_the_row_counts_as_null(place: Place):
    """It would be the next row's id."""
    bench = Bench(place, "all", num_spec=1)
    y = bench.run(
        bench.decodes(
            [[2, 3], [4, 5]],
            [2, 1],
            [1, 2],
            block_idx_last_computed_token=[0, 0],
            block_idx_last_scheduled_token=[1, 1],
            block_idx_last_scheduled_token_prev_step=[-1, 1],
        )
    )
    # Row 0 reads column -1: padding. Row 1 reads the state of column 1 + 1: none, so the token
    # is not computed, while its window is there.
    assert bench.changed() == ({5}, set())
    assert not y.any()


@pytest.mark.parametrize(
    "changes",
    [
        {"query_start_loc_d": [-2, 1, 2]},
        {"query_start_loc_d": [0, 900, 901]},
        {"num_accepted_tokens": [9, -5]},
    ],
    ids=str,
)
def test_nonsense_in_the_decode_metadata_stays_inside_the_tensors(place: Place, changes):
    bench = Bench(place, num_spec=1)
    metadata = bench.decodes([[4, 5], [7, 8]], [1, 1], [1, 1])
    bench.run(dataclasses.replace(metadata, **{k: bench.int32(v) for k, v in changes.items()}))
    conv, temporal = bench.changed()
    assert conv <= {4, 7}
    assert temporal <= {4, 5, 7, 8}


@pytest.mark.parametrize(
    "changes",
    [
        {"query_start_loc_p": [0, 600, -3]},
        {"cu_chunk_seqlen_p": [-70, 900, 5, 80, 10**6, 3, 9]},
        {"seq_idx_p": [5, -1, 99, 0, 0]},
        {"last_chunk_indices_p": [900, -20]},
        {"batch_ptr": [7, -1]},
        {"token_chunk_offset_ptr": [-4, 3000]},
        {"block_idx_last_scheduled_token": [50, -9]},
        {"block_idx_first_scheduled_token_p": [-3, 1]},
        {"num_computed_tokens_p": [-400, 10**6]},
    ],
    ids=str,
)
def test_nonsense_in_the_prefill_metadata_stays_inside_the_tensors(place: Place, changes):
    bench = Bench(place, "all")
    metadata = bench.prefills([[2, 3, 4], [5, 6, 7]], [3, 0], [4, 6])
    bench.run(dataclasses.replace(metadata, **{k: bench.int32(v) for k, v in changes.items()}))
    conv, temporal = bench.changed()
    assert conv <= {2, 3, 4, 5, 6, 7}
    assert temporal <= {2, 3, 4, 5, 6, 7}


# ------------------------------------------------------------------- every entry has its effect


def spoil(field: str, value: torch.Tensor) -> torch.Tensor:
    """A plausible wrong value for a metadata field."""
    if value.dtype == torch.bool:
        return ~value
    if field == "is_flush_d":
        return 1 - value
    if field.startswith("state_indices"):
        return value.roll(1, 0)
    if field.startswith(("query_start_loc", "cu_chunk")):
        wrong = value.clone()
        wrong[1] -= 1
        return wrong
    if field == "num_accepted_tokens":
        return 3 - value
    if field == "batch_ptr":
        return value.clamp(max=0)
    if field in ("token_chunk_offset_ptr", "seq_idx_p", "last_chunk_indices_p"):
        return torch.where(value >= 0, (value + 1) % 2, value)
    return value + 1


DECODE_FIELDS = [
    "state_indices_tensor_d",
    "query_start_loc_d",
    "num_accepted_tokens",
    "block_idx_last_scheduled_token",
    "block_idx_last_scheduled_token_prev_step",
]
PREFILL_FIELDS = [
    "state_indices_tensor_p",
    "query_start_loc_p",
    "has_initial_states_p",
    "batch_ptr",
    "token_chunk_offset_ptr",
    "num_computed_tokens_p",
    "block_idx_first_scheduled_token_p",
    "block_idx_last_scheduled_token",
    "block_idx_last_computed_token",
    "cu_chunk_seqlen_p",
    "seq_idx_p",
    "last_chunk_indices_p",
]


def outcome(world: World, metadata: Mamba2AttentionMetadata) -> list[torch.Tensor]:
    """y and the caches after one forward of ``world``, whose own caches stay as they are."""
    states = [state.clone() for state in world.states]
    tokens = list(range(metadata.num_decode_tokens + metadata.num_prefill_tokens))
    ring = ReplayRing(*states[2:]) if world.setup.ring_len else None
    y = run_layer(
        world.params, world.setup.config, tokens, tokens, metadata, states[0], states[1], ring,
        kernels=world.kernels,
    )  # fmt: skip
    return [y, *states]


def assert_each_field_counts(
    world: World, metadata: Mamba2AttentionMetadata, fields: list[str]
) -> None:
    honest = outcome(world, metadata)
    for field in fields:
        wrong = dataclasses.replace(metadata, **{field: spoil(field, getattr(metadata, field))})
        found = outcome(world, wrong)
        same = all(torch.equal(bits(a), bits(b)) for a, b in zip(honest, found, strict=True))
        assert not same, f"a wrong {field} goes unnoticed"


def test_every_decode_entry_decides_something(place: Place):
    world = World(Setup(mode="all", num_spec=1), place)
    for request in world.requests:
        request.prompt = 3
    world.step((0, 3, 3), (1, 3, 3))
    world.step((0, 2, 2), (1, 2, 1))
    metadata = world._build(world.requests, [2, 1])
    assert_each_field_counts(world, metadata, DECODE_FIELDS)

    world = World(Setup(mode="all"), place)
    for request in world.requests:
        request.prompt = 4
    world.step((0, 4, 4), (1, 4, 4))
    metadata = world._build(world.requests, [1, 1])
    fields = ["block_idx_last_computed_token", "block_idx_last_scheduled_token"]
    assert_each_field_counts(world, metadata, fields)


def test_every_prefill_entry_decides_something(place: Place):
    world = World(Setup(mode="all", chunk_size=4), place)
    world.step((0, 5, 5), (1, 4, 4))
    metadata = world._build(world.requests, [7, 5])
    assert_each_field_counts(world, metadata, PREFILL_FIELDS)


def test_every_replay_entry_decides_something(place: Place):
    world = World(Setup(mode="none", ring_len=4), place)
    for request in world.requests:
        request.prompt = 4
    world.step((0, 4, 4), (1, 4, 4))
    world.step((0, 1, 1), (1, 1, 1))
    metadata = world._build(world.requests, [1, 1])
    assert_each_field_counts(
        world, metadata, ["state_indices_tensor_d", "write_pos_d", "is_flush_d"]
    )


# -------------------------------------------------------------------------------------- ReplaySSM


def test_replay_padding_and_null_slots_touch_nothing(place: Place):
    """Row 0 has the null block, row 1 flushes, row 2 is padding although its slot is live."""
    world = World(Setup(mode="none", ring_len=4), place)
    rows = torch.tensor([[0], [1], [2]], dtype=torch.int32, device=place.device)
    metadata = Mamba2AttentionMetadata(
        num_prefills=0,
        num_prefill_tokens=0,
        num_decodes=3,
        num_decode_tokens=2,
        num_reqs=3,
        seq_lens=rows[:, 0],
        state_indices_tensor_d=rows,
        state_indices_tensor_p=rows[:0, 0],
        write_pos_d=torch.tensor([0, 3, 0], dtype=torch.int32, device=place.device),
        is_flush_d=torch.tensor([1, 1, 1], dtype=torch.int8, device=place.device),
        bc_pre_scratch=torch.zeros(3, SHAPE.num_heads, 4, device=place.device),
    )
    y, *after = outcome(world, metadata)
    assert not y[0].any()
    assert y[1].any()
    changed = [
        (bits(state) != bits(before)).flatten(1).any(1).nonzero().flatten().tolist()
        for state, before in zip(after, world.states, strict=True)
    ]
    assert changed == [[1], [1], [], [], []]  # window and state; a flush appends nothing
