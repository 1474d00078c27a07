"""A layer with caches, block tables and requests, stepped by hand: no scheduler, no worker.

Every request owns a whole row of blocks from the start, so that only the forward is on trial. The
metadata comes from the real builder. What the worker would do between steps in align mode (carry
the state into a new running block) is done here in its simplest form.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np
import torch

from mambaviz.attention import (
    CommonAttentionMetadata,
    Mamba2AttentionMetadata,
    Mamba2AttentionMetadataBuilder,
)
from mambaviz.config import (
    CacheConfig,
    CacheMode,
    EngineConfig,
    MambaSpec,
    ModelConfig,
    SpeculativeConfig,
)
from mambaviz.layer import LayerParams, LayerShape
from mambaviz.mixer import Layout, MixerConfig, ReplayRing, run_layer
from mambaviz.oracle import (
    AcceptedSequence,
    CacheDtype,
    Comparison,
    Oracle,
    compare_output,
    compare_state,
    compare_window,
)
from tests.mixer.conftest import Place

TORCH_DTYPES: dict[CacheDtype, torch.dtype] = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
}
PROMPTS = (12, 9)  # prompt lengths of the requests
WRONG = 900_000  # draft tokens that verification rejects


@dataclass(frozen=True)
class Setup:
    mode: CacheMode = "align"
    layout: Layout = "SD"
    dtype: CacheDtype = "float32"
    block_size: int = 4
    num_spec: int = 0
    chunk_size: int = 4
    ring_len: int = 0
    max_len: int = 40
    padding: int = 3  # elements between the states of two blocks
    shape: LayerShape = field(default_factory=LayerShape)
    fault: bool = False

    @property
    def columns(self) -> int:
        return 1 + self.num_spec if self.mode == "none" else self.max_len // self.block_size + 4

    @property
    def state_len(self) -> int:
        return self.shape.conv_kernel - 1 + self.num_spec

    @property
    def config(self) -> MixerConfig:
        return MixerConfig(self.mode, self.spec.block_size, self.num_spec, self.layout, self.fault)

    @property
    def spec(self) -> MambaSpec:
        conv = (self.state_len, self.shape.dim)
        shapes: tuple[tuple[int, ...], ...] = (
            conv if self.layout == "SD" else conv[::-1],
            (self.shape.num_heads, self.shape.head_dim, self.shape.d_state),
        )
        dtypes = [TORCH_DTYPES[self.dtype]] * 2
        if self.ring_len:
            heads = self.shape.num_heads
            shapes += (
                (heads, self.ring_len, self.shape.head_dim),
                (heads, self.ring_len),
                (heads, self.ring_len, self.shape.d_state),
            )
            dtypes += [TORCH_DTYPES[self.dtype], torch.float32, TORCH_DTYPES[self.dtype]]
        return MambaSpec(
            block_size=self.max_len if self.mode == "none" else self.block_size,
            shapes=shapes,
            dtypes=tuple(dtypes),
            mamba_cache_mode=self.mode,
            num_speculative_blocks=self.num_spec,
        )

    def builder(self, device: torch.device) -> Mamba2AttentionMetadataBuilder:
        engine = EngineConfig(
            cache_config=CacheConfig(
                mamba_cache_mode=self.mode,
                use_replayssm=self.ring_len > 0,
                replayssm_buffer_len=self.ring_len,
            ),
            speculative_config=SpeculativeConfig(self.num_spec) if self.num_spec else None,
            model_config=ModelConfig(max_model_len=self.max_len, chunk_size=self.chunk_size),
        )
        return Mamba2AttentionMetadataBuilder(self.spec, ["layer"], engine, device)

    def caches(self, num_blocks: int, device: torch.device) -> list[torch.Tensor]:
        """State tensors full of left-overs, as strided views whose blocks lie apart."""
        generator = torch.Generator().manual_seed(7)
        states = []
        for block, dtype in zip(self.spec.shapes, self.spec.dtypes, strict=True):
            size = int(np.prod(block)) + self.padding
            pages = (torch.rand(num_blocks, size, generator=generator) + 100).to(dtype).to(device)
            pages[0] = 0
            states.append(pages[:, : int(np.prod(block))].unflatten(1, block))
        return states


@dataclass
class Request:
    row: list[int]
    sequence: AcceptedSequence
    tokens: list[int]  # all that will ever be accepted
    prompt: int
    computed: int = 0
    accepted: int = 1  # of its last step
    column: int = 0  # align: running column
    last_scheduled: int = -1  # of its last step, if that was a decode


class World:
    """One layer and its requests on one back end."""

    def __init__(self, setup: Setup, place: Place) -> None:
        self.setup, self.kernels, self.device = setup, place.kernels, place.device
        self.params = LayerParams.create(setup.shape, seed=3, layer=1)
        self.oracle = Oracle([self.params])
        self.builder = setup.builder(self.device)
        self.num_blocks = 1 + len(PROMPTS) * setup.columns
        self.states = setup.caches(self.num_blocks, self.device)
        # Ids neither in order nor next to each other.
        ids = np.random.default_rng(5).permutation(np.arange(1, self.num_blocks)).tolist()
        self.requests = [
            self._request(index, ids[index * setup.columns : (index + 1) * setup.columns])
            for index in range(len(PROMPTS))
        ]
        self.metadata: Mamba2AttentionMetadata | None = None

    def _request(self, index: int, row: list[int]) -> Request:
        tokens = [1000 * (index + 1) + position for position in range(self.setup.max_len)]
        return Request(row, self.oracle.sequence(tokens), tokens, prompt=PROMPTS[index])

    @property
    def conv(self) -> torch.Tensor:
        """The conv state as [num_blocks, state_len, dim] in either layout."""
        return self.states[0] if self.setup.layout == "SD" else self.states[0].transpose(1, 2)

    @property
    def ring(self) -> ReplayRing | None:
        return ReplayRing(*self.states[2:]) if self.setup.ring_len else None

    # ------------------------------------------------------------------------------- one step

    def step(self, *plan: tuple[int, int, int]) -> torch.Tensor:
        """One forward; ``plan`` holds (request, query tokens, accepted tokens), decodes first.

        A query beyond the accepted tokens is filled with wrong drafts. Returns y [T, dim], after
        it was compared with the oracle where tokens were accepted.
        """
        rows = [self.requests[index] for index, _, _ in plan]
        queries = [count for _, count, _ in plan]
        self._carry_over(rows, queries)
        token_ids, positions = [], []
        for request, (_, count, accepted) in zip(rows, plan, strict=True):
            at = request.computed
            true, wrong = request.tokens[at : at + accepted], count - accepted
            token_ids += true + [WRONG + at + i for i in range(wrong)]
            positions += range(at, at + count)
        self.metadata = self._build(rows, queries)
        y = run_layer(
            self.params, self.setup.config, token_ids, positions, self.metadata,
            self.states[0], self.states[1], self.ring, kernels=self.kernels,
        )  # fmt: skip
        start = 0
        for request, (_, count, accepted) in zip(rows, plan, strict=True):
            self._check_output(request, y[start : start + accepted])
            self._advance(request, count, accepted)
            start += count
        return y

    def _carry_over(self, rows: list[Request], queries: list[int]) -> None:
        """Align mode: into the block that this step's last token falls into."""
        if self.setup.mode != "align":
            return
        for request, count in zip(rows, queries, strict=True):
            column = (request.computed + count - 1) // self.setup.block_size
            if request.computed and column != request.column:
                bias = request.accepted - 1
                old, new = request.row[request.column], request.row[column]
                state = request.row[request.column + bias]
                rows_kept = self.setup.state_len - bias
                self.conv[new, :rows_kept] = self.conv[old, bias:].clone()
                self.states[1][new] = self.states[1][state].clone()
                request.accepted = 1
            request.column = column

    def _build(self, rows: list[Request], queries: list[int]) -> Mamba2AttentionMetadata:
        offsets = [0, *accumulate(queries)]
        seq_lens = [request.computed + count for request, count in zip(rows, queries, strict=True)]
        prefilling = [request.computed < request.prompt for request in rows]
        common = CommonAttentionMetadata(
            query_start_loc=self._int32(offsets),
            query_start_loc_cpu=torch.tensor(offsets, dtype=torch.int32),
            seq_lens=self._int32(seq_lens),
            num_reqs=len(rows),
            num_actual_tokens=offsets[-1],
            max_query_len=max(queries),
            max_seq_len=max(seq_lens),
            block_table_tensor=self._int32([request.row for request in rows]),
            is_prefilling=torch.tensor(prefilling),
            seq_lens_cpu_upper_bound=torch.tensor(seq_lens, dtype=torch.int32),
            replayssm_decode_base_cpu=torch.tensor(
                [request.prompt for request in rows], dtype=torch.int32
            ),
        )
        if not self.setup.num_spec:
            return self.builder.build(0, common)
        return self.builder.build(
            0,
            common,
            num_accepted_tokens=self._int32([request.accepted for request in rows]),
            prev_last_scheduled_idx=self._int32([request.last_scheduled for request in rows]),
        )

    def _int32(self, values: list) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.int32, device=self.device)

    def _advance(self, request: Request, count: int, accepted: int) -> None:
        decoded = request.computed >= request.prompt
        last = (request.computed + count - 1) // self.setup.block_size
        request.last_scheduled = last if decoded else -1
        request.accepted = accepted if decoded else 1
        request.computed += accepted

    # ------------------------------------------------------------------------------- judgement

    def _check_output(self, request: Request, y: torch.Tensor) -> None:
        for i, found in enumerate(y.cpu().numpy()):
            truth = request.sequence.truth_after(0, request.computed + i + 1)
            accept(compare_output(truth, found, self.setup.dtype))

    def check_state(self, request: Request) -> None:
        """What the next forward will read is the state after ``computed`` tokens (I2)."""
        offset = request.accepted - 1
        column = {
            "none": 0,
            "align": request.column,
            "all": self.column_all(request),
        }[self.setup.mode]
        self.check_block(request, column, request.computed, offset)

    def check_temporal(self, request: Request, block: int) -> None:
        """The block's temporal state is the one after ``computed`` tokens."""
        truth = request.sequence.truth_after(0, request.computed)
        accept(compare_state(truth, self.states[1][block].float().cpu(), self.setup.dtype))

    def column_all(self, request: Request) -> int:
        """All mode: where the last step left the window, and the first of its states."""
        if request.last_scheduled >= 0:
            return request.last_scheduled
        return (request.computed - 1) // self.setup.block_size

    def check_block(self, request: Request, column: int, tokens: int, offset: int = 0) -> None:
        """Window of the column, state ``offset`` columns behind it: those after ``tokens``."""
        truth = request.sequence.truth_after(0, tokens)
        block, behind = request.row[column], request.row[column + offset]
        history = self.setup.shape.conv_kernel - 1
        window = self.conv[block, offset : offset + history]
        accept(compare_window(truth, window.float().cpu()))
        if not self.setup.ring_len:
            state = self.states[1][behind].float().cpu()
            accept(compare_state(truth, state, self.setup.dtype))


def bits(state: torch.Tensor) -> torch.Tensor:
    """A cache's content as integers on the host: NaN and signed zeros compare as they are."""
    width = {2: torch.int16, 4: torch.int32}[state.element_size()]
    return state.detach().cpu().contiguous().view(width)


def accept(comparison: Comparison) -> None:
    assert comparison.ok, comparison
