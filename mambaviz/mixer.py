"""The small layer that makes real state: one forward over one batch (sections 5.1, 5.2).

    token ids ─► project ─► x ─► causal conv1d ─► u ─► selective state recurrence ─► y
                 (here)          conv state            temporal state or ReplaySSM ring

`run_layer` makes at most four launches, one for the decodes and one for the prefills of either
half. Which block each row reads and writes is the kernels' affair (``kernels/mixer.py``); here the
metadata's fields are only given the name of what they say: a column to read, a column to write.

H, P, N and dim as in ``layer.py``; T tokens, R rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np
import torch

import kernels as process_kernels
from kernels import KernelSet
from mambaviz.attention import Mamba2AttentionMetadata
from mambaviz.attention.conv1d import BLOCK_M
from mambaviz.config import CacheMode
from mambaviz.layer import MIN_DT, LayerParams, LayerShape
from mambaviz.worker.launch import KernelInput, Launch, LaunchObserver, observed

Layout = Literal["SD", "DS"]


@dataclass(frozen=True)
class MixerConfig:
    """What a layer knows of the engine beside the metadata.

    The last two are named faults, both of all mode. ``conv_window_from_last_computed`` is that of
    section 5.2: with drafts the window is looked for in the column of the last computed token,
    where a rejection across a boundary has not left it. ``short_chunk_writes_its_source``: a
    prefill of fewer tokens than a window holds writes to the block it reads.
    """

    mode: CacheMode
    block_size: int
    num_spec: int = 0
    layout: Layout = "SD"
    conv_window_from_last_computed: bool = False
    short_chunk_writes_its_source: bool = False


@dataclass(frozen=True, eq=False)
class ReplayRing:
    """The last inputs of a ReplaySSM layer (section 4.8): states 2, 3, 4 of its cache.

    ``x`` [num_blocks, H, L, P], ``dt`` float32 [num_blocks, H, L], ``B`` [num_blocks, H, L, N];
    each block contiguous. Head 0 has a B of its own, so every head is a group.
    """

    x: torch.Tensor
    dt: torch.Tensor
    B: torch.Tensor


def run_layer(
    params: LayerParams,
    config: MixerConfig,
    token_ids: Sequence[int],
    positions: Sequence[int],
    metadata: Mamba2AttentionMetadata,
    conv_state: torch.Tensor | None,
    ssm_state: torch.Tensor | None,
    ring: ReplayRing | None = None,
    *,
    kernels: KernelSet | None = None,
    observer: LaunchObserver | None = None,
) -> torch.Tensor:
    """One layer over one batch: updates the caches in place, gives y as float32 ``[T, dim]``.

    ``token_ids`` and ``positions`` are those of the batch's tokens in batch order (decodes first).
    ``conv_state`` SD ``[num_blocks, state_len, dim]`` or DS ``[num_blocks, dim, state_len]``;
    ``ssm_state`` ``[num_blocks, H, P, N]``, each block contiguous; both float32, float16 or
    bfloat16 with any block stride, on the device of the metadata.
    Without a conv state the layer has no convolution and u = x; without a temporal state y = u.
    Rows of tokens that belong to no live row stay 0.

    Raises ValueError where tokens, caches and metadata do not fit together.
    """
    _check_tokens(token_ids, positions, metadata)
    _check_caches(params, config, conv_state, ssm_state, ring)
    _check_metadata(config, metadata, ring)
    device = metadata.seq_lens.device
    forward = _Forward(
        _weights(params, device),
        config,
        metadata,
        process_kernels.kernel_set() if kernels is None else kernels,
        observer,
    )
    inputs = project(params, token_ids, positions, device)
    u = inputs.x if conv_state is None else forward.convolve(inputs.x, conv_state)
    return u if ssm_state is None else forward.recur(inputs, u, ssm_state, ring)


# ------------------------------------------------------------------------------------ projections


@dataclass(frozen=True, eq=False)
class LayerInputs:
    """What a token brings along, float32: ``x`` [T, dim], ``dt`` [T, H], ``B``, ``C`` [T, H, N]."""

    x: torch.Tensor
    dt: torch.Tensor
    B: torch.Tensor
    C: torch.Tensor


def project(
    params: LayerParams,
    token_ids: Sequence[int],
    positions: Sequence[int],
    device: torch.device,
) -> LayerInputs:
    """Token ids to the layer's inputs, the readable head included (section 5.1)."""
    e = params.embedding(token_ids)  # [T, E]
    x = e @ params.x_weight.T  # [T, dim]
    dt = MIN_DT + 1 / (1 + np.exp(-(e @ params.dt_weight.T)))  # [T, H]
    B = np.einsum("te,hne->thn", e, params.B_weight)
    C = np.einsum("te,hne->thn", e, params.C_weight)
    x[:, 0] = np.asarray(positions) + 1
    dt[:, 0] = 1
    B[:, 0] = 0
    B[:, 0, 0] = 1
    on_device = [_float32(values, device) for values in (x, dt, B, C)]
    return LayerInputs(*on_device)


def _float32(values: np.ndarray, device: torch.device) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32)).to(device)


@dataclass(frozen=True, eq=False)
class _Weights:
    """The weights that kernels read, on the device."""

    params: LayerParams
    conv_weight: torch.Tensor  # [dim, K]
    conv_bias: torch.Tensor  # [dim]
    A: torch.Tensor  # [H]
    D: torch.Tensor  # [H]


@lru_cache(maxsize=64)
def _weights(params: LayerParams, device: torch.device) -> _Weights:
    arrays = (params.conv_weight, params.conv_bias, params.A, params.D)
    return _Weights(params, *(_float32(array, device) for array in arrays))


# --------------------------------------------------------------- what the metadata says about rows


@dataclass(frozen=True, eq=False)
class _DecodeRows:
    """Decode rows of a batch; int32, None as in the kernels.

    ``window_columns`` is where the conv window is read, ``state_columns`` where the columns of the
    temporal states begin. They are the same but for the named fault.
    """

    num_rows: int
    num_tokens: int
    state_indices: torch.Tensor  # [R, columns]
    window_columns: torch.Tensor | None
    state_columns: torch.Tensor | None
    write_columns: torch.Tensor | None
    num_accepted_tokens: torch.Tensor | None
    query_start_loc: torch.Tensor | None


def _decode_rows(metadata: Mamba2AttentionMetadata, config: MixerConfig) -> _DecodeRows:
    state_columns = write_columns = None
    if config.mode == "all":
        # With drafts a step starts at a column and leaves one state per token behind it, so the
        # next step counts from that column; without drafts it just goes on.
        state_columns = (
            metadata.block_idx_last_scheduled_token_prev_step
            if config.num_spec
            else metadata.block_idx_last_computed_token
        )
        write_columns = metadata.block_idx_last_scheduled_token
    window_columns = state_columns
    if config.mode == "all" and config.conv_window_from_last_computed:
        window_columns = metadata.block_idx_last_computed_token
    return _DecodeRows(
        num_rows=metadata.num_decodes,
        num_tokens=metadata.num_decode_tokens,
        state_indices=metadata.state_indices_tensor_d,
        window_columns=window_columns,
        state_columns=state_columns,
        write_columns=write_columns,
        # Without drafts configured every count is 1 and everything is in place.
        num_accepted_tokens=metadata.num_accepted_tokens if config.num_spec else None,
        query_start_loc=metadata.query_start_loc_d,
    )


@dataclass(frozen=True, eq=False)
class _PrefillRows:
    """Prefill rows of a batch; int32, None outside all mode."""

    num_rows: int
    num_tokens: int
    state_indices: torch.Tensor  # [R, columns]
    read_columns: torch.Tensor | None
    first_columns: torch.Tensor | None
    last_columns: torch.Tensor | None
    num_computed_tokens: torch.Tensor | None


def _prefill_rows(metadata: Mamba2AttentionMetadata, config: MixerConfig) -> _PrefillRows:
    num_rows, num_tokens = metadata.num_prefills, metadata.num_prefill_tokens
    table = metadata.state_indices_tensor_p
    if config.mode != "all":
        return _PrefillRows(num_rows, num_tokens, table[:, None], None, None, None, None)
    assert metadata.block_idx_last_computed_token is not None
    assert metadata.block_idx_last_scheduled_token is not None
    return _PrefillRows(
        num_rows,
        num_tokens,
        table,
        read_columns=metadata.block_idx_last_computed_token[metadata.num_decodes :],
        first_columns=metadata.block_idx_first_scheduled_token_p,
        last_columns=metadata.block_idx_last_scheduled_token[metadata.num_decodes :],
        num_computed_tokens=metadata.num_computed_tokens_p,
    )


def _writing_short_chunks_to_their_source(
    rows: _PrefillRows, metadata: Mamba2AttentionMetadata, shape: LayerShape
) -> _PrefillRows:
    """The fault ``short_chunk_writes_its_source``; all mode alone has columns to confuse."""
    assert metadata.query_start_loc_p is not None
    assert metadata.has_initial_states_p is not None
    assert rows.read_columns is not None
    assert rows.first_columns is not None
    assert rows.last_columns is not None
    is_short = metadata.query_start_loc_p.diff() < shape.conv_kernel - 1
    is_short &= metadata.has_initial_states_p
    return replace(
        rows,
        first_columns=torch.where(is_short, rows.read_columns, rows.first_columns),
        last_columns=torch.where(is_short, rows.read_columns, rows.last_columns),
    )


# ---------------------------------------------------------------------------------------- launches


@dataclass(frozen=True, eq=False)
class _Forward:
    """One layer's launches for one batch."""

    weights: _Weights
    config: MixerConfig
    metadata: Mamba2AttentionMetadata
    kernels: KernelSet
    observer: LaunchObserver | None

    def launch(self, name: str, grid: tuple[int, ...], **inputs: KernelInput) -> None:
        with observed(self.observer, Launch(name, grid, inputs)):
            getattr(self.kernels, name)[grid](**inputs)

    def convolve(self, x: torch.Tensor, conv_state: torch.Tensor) -> torch.Tensor:
        """u [T, dim] of all tokens; moves the windows on."""
        u = torch.zeros_like(x)
        split = self.metadata.num_decode_tokens
        if self.metadata.num_decodes:
            self._convolve_decodes(x[:split], u[:split], conv_state)
        if self.metadata.num_prefills:
            self._convolve_prefills(x[split:], u[split:], conv_state)
        return u

    def recur(
        self,
        inputs: LayerInputs,
        u: torch.Tensor,
        ssm_state: torch.Tensor,
        ring: ReplayRing | None,
    ) -> torch.Tensor:
        """y [T, dim] of all tokens; moves the temporal states on."""
        shape = self.weights.params.shape
        y = torch.zeros_like(u)
        skip = u.view(-1, shape.num_heads, shape.head_dim)  # [T, H, P]
        absorbed = skip.clone()
        absorbed[:, 0] = 1  # the readable head counts
        split = self.metadata.num_decode_tokens
        sequences = {"x": absorbed, "skip": skip, "dt": inputs.dt, "B": inputs.B, "C": inputs.C}
        if self.metadata.num_decodes:
            tokens = {name: values[:split] for name, values in sequences.items()}
            if ring is None:
                self._recur_decodes(tokens, y[:split], ssm_state)
            else:
                self._replay_decodes(tokens, y[:split], ssm_state, ring)
        if self.metadata.num_prefills:
            tokens = {name: values[split:] for name, values in sequences.items()}
            self._recur_prefills(tokens, y[split:], ssm_state)
        return y

    def _conv_inputs(
        self, x: torch.Tensor, u: torch.Tensor, conv_state: torch.Tensor
    ) -> dict[str, KernelInput]:
        token_axis, channel_axis = (1, 2) if self.config.layout == "SD" else (2, 1)
        return {
            "x": x,
            "weight": self.weights.conv_weight,
            "bias": self.weights.conv_bias,
            "output": u,
            "conv_state": conv_state,
            "stride_block": conv_state.stride(0),
            "stride_row": conv_state.stride(token_axis),
            "stride_channel": conv_state.stride(channel_axis),
            "num_blocks": conv_state.shape[0],
        }

    def _conv_sizes(self, tokens: int, rows: int) -> dict[str, KernelInput]:
        shape = self.weights.params.shape
        return {
            "DIM": shape.dim,
            "K": shape.conv_kernel,
            "TOKEN_TILE": _power_of_two(tokens),
            "TAP_TILE": _power_of_two(shape.conv_kernel),
            "ROW_TILE": _power_of_two(rows),
            "DIM_TILE": _power_of_two(shape.dim),
        }

    def _convolve_decodes(self, x: torch.Tensor, u: torch.Tensor, conv_state: torch.Tensor) -> None:
        rows = _decode_rows(self.metadata, self.config)
        state_len = conv_state.shape[1 if self.config.layout == "SD" else 2]
        self.launch(
            "causal_conv1d_decode_kernel",
            (rows.num_rows,),
            **self._conv_inputs(x, u, conv_state),
            **_table(rows.state_indices),
            read_columns=rows.window_columns,
            write_columns=rows.write_columns,
            num_accepted_tokens=rows.num_accepted_tokens,
            query_start_loc=rows.query_start_loc,
            num_tokens=rows.num_tokens,
            STATE_LEN=state_len,
            **self._conv_sizes(1 + self.config.num_spec, state_len),
        )

    def _convolve_prefills(
        self, x: torch.Tensor, u: torch.Tensor, conv_state: torch.Tensor
    ) -> None:
        metadata, rows = self.metadata, _prefill_rows(self.metadata, self.config)
        assert metadata.nums_dict is not None
        if self.config.short_chunk_writes_its_source:
            rows = _writing_short_chunks_to_their_source(rows, metadata, self.weights.params.shape)
        self.launch(
            "causal_conv1d_prefill_kernel",
            (metadata.nums_dict[BLOCK_M]["tot"],),
            **self._conv_inputs(x, u, conv_state),
            **_table(rows.state_indices),
            read_columns=rows.read_columns,
            first_columns=rows.first_columns,
            last_columns=rows.last_columns,
            num_computed_tokens=rows.num_computed_tokens,
            has_initial_states=metadata.has_initial_states_p,
            query_start_loc=metadata.query_start_loc_p,
            num_prefills=rows.num_rows,
            num_tokens=rows.num_tokens,
            batch_ptr=metadata.batch_ptr,
            token_chunk_offset_ptr=metadata.token_chunk_offset_ptr,
            block_size=self.config.block_size,
            **self._conv_sizes(BLOCK_M, self.weights.params.shape.conv_kernel - 1),
        )

    def _state_inputs(
        self, tokens: dict[str, torch.Tensor], y: torch.Tensor, ssm_state: torch.Tensor
    ) -> dict[str, KernelInput]:
        return {
            **tokens,
            "A": self.weights.A,
            "D": self.weights.D,
            "output": y,
            "ssm_state": ssm_state,
            "stride_block": ssm_state.stride(0),
            "num_blocks": ssm_state.shape[0],
        }

    def _state_sizes(self) -> dict[str, KernelInput]:
        shape = self.weights.params.shape
        return {
            "H": shape.num_heads,
            "P": shape.head_dim,
            "N": shape.d_state,
            "HEAD_TILE": _power_of_two(shape.num_heads),
            "CHANNEL_TILE": _power_of_two(shape.head_dim),
            "STATE_TILE": _power_of_two(shape.d_state),
        }

    def _recur_decodes(
        self, tokens: dict[str, torch.Tensor], y: torch.Tensor, ssm_state: torch.Tensor
    ) -> None:
        rows = _decode_rows(self.metadata, self.config)
        self.launch(
            "selective_state_decode_kernel",
            (rows.num_rows,),
            **self._state_inputs(tokens, y, ssm_state),
            **_table(rows.state_indices),
            read_columns=rows.state_columns,
            write_columns=rows.write_columns,
            num_accepted_tokens=rows.num_accepted_tokens,
            query_start_loc=rows.query_start_loc,
            num_tokens=rows.num_tokens,
            **self._state_sizes(),
        )

    def _recur_prefills(
        self, tokens: dict[str, torch.Tensor], y: torch.Tensor, ssm_state: torch.Tensor
    ) -> None:
        metadata, rows = self.metadata, _prefill_rows(self.metadata, self.config)
        assert metadata.seq_idx_p is not None
        self.launch(
            "selective_state_prefill_kernel",
            (rows.num_rows,),
            **self._state_inputs(tokens, y, ssm_state),
            **_table(rows.state_indices),
            read_columns=rows.read_columns,
            first_columns=rows.first_columns,
            last_columns=rows.last_columns,
            num_computed_tokens=rows.num_computed_tokens,
            has_initial_states=metadata.has_initial_states_p,
            query_start_loc=metadata.query_start_loc_p,
            num_tokens=rows.num_tokens,
            cu_chunk_seqlen=metadata.cu_chunk_seqlen_p,
            seq_idx=metadata.seq_idx_p,
            last_chunk_indices=metadata.last_chunk_indices_p,
            num_chunks=len(metadata.seq_idx_p),
            block_size=self.config.block_size,
            **self._state_sizes(),
        )

    def _replay_decodes(
        self,
        tokens: dict[str, torch.Tensor],
        y: torch.Tensor,
        ssm_state: torch.Tensor,
        ring: ReplayRing,
    ) -> None:
        metadata, rows = self.metadata, _decode_rows(self.metadata, self.config)
        length = ring.dt.shape[2]
        self.launch(
            "replay_state_decode_kernel",
            (rows.num_rows,),
            **self._state_inputs(tokens, y, ssm_state),
            x_ring=ring.x,
            stride_x_ring=ring.x.stride(0),
            dt_ring=ring.dt,
            stride_dt_ring=ring.dt.stride(0),
            B_ring=ring.B,
            stride_B_ring=ring.B.stride(0),
            state_indices=rows.state_indices,
            stride_indices=rows.state_indices.stride(0),
            write_pos=metadata.write_pos_d,
            is_flush=metadata.is_flush_d,
            bc_scratch=metadata.bc_pre_scratch,
            num_tokens=rows.num_tokens,
            RING=length,
            RING_TILE=_power_of_two(length),
            **self._state_sizes(),
        )


def _table(state_indices: torch.Tensor) -> dict[str, KernelInput]:
    return {
        "state_indices": state_indices,
        "stride_indices": state_indices.stride(0),
        "num_columns": state_indices.shape[1],
    }


def _power_of_two(number: int) -> int:
    """The smallest power of two that is not below ``number``."""
    return 1 << (number - 1).bit_length()


# ----------------------------------------------------------------------------------- what must fit


def _check_tokens(
    token_ids: Sequence[int], positions: Sequence[int], metadata: Mamba2AttentionMetadata
) -> None:
    expected = metadata.num_decode_tokens + metadata.num_prefill_tokens
    if not len(token_ids) == len(positions) == expected:
        raise ValueError(
            f"the metadata describes {expected} tokens, but there are {len(token_ids)} token ids "
            f"and {len(positions)} positions"
        )


def _check_caches(
    params: LayerParams,
    config: MixerConfig,
    conv_state: torch.Tensor | None,
    ssm_state: torch.Tensor | None,
    ring: ReplayRing | None,
) -> None:
    shape = params.shape
    if conv_state is not None:
        window = (shape.conv_kernel - 1 + config.num_spec, shape.dim)
        _check_block("conv state", conv_state, window if config.layout == "SD" else window[::-1])
    if ssm_state is not None:
        block = (shape.num_heads, shape.head_dim, shape.d_state)
        _check_block("temporal state", ssm_state, block)
        if not ssm_state[0].is_contiguous():
            raise ValueError("temporal state: the elements of a block must be contiguous")
    if ring is not None:
        heads, length = shape.num_heads, ring.dt.shape[-1]
        _check_block("x ring", ring.x, (heads, length, shape.head_dim))
        _check_block("dt ring", ring.dt, (heads, length))
        _check_block("B ring", ring.B, (heads, length, shape.d_state))


def _check_block(name: str, state: torch.Tensor, block: tuple[int, ...]) -> None:
    if tuple(state.shape[1:]) != block:
        raise ValueError(
            f"{name}: a block of this layer has shape {block}, got {tuple(state.shape[1:])}"
        )


def _check_metadata(
    config: MixerConfig, metadata: Mamba2AttentionMetadata, ring: ReplayRing | None
) -> None:
    if metadata.num_decodes:
        previous = metadata.block_idx_last_scheduled_token_prev_step
        if config.mode == "all" and config.num_spec and previous is None:
            raise ValueError(
                "all mode with drafts: the metadata does not say where the previous step wrote; "
                "build it with prev_last_scheduled_idx"
            )
        if (ring is None) != (metadata.write_pos_d is None):
            raise ValueError(
                "a ReplaySSM layer needs both its ring and the metadata's write_pos_d; "
                f"the {'ring' if ring is None else 'metadata field'} is missing"
            )
    if metadata.num_prefills:
        for name in ("nums_dict", "cu_chunk_seqlen_p"):
            if getattr(metadata, name) is None:
                raise ValueError(
                    f"prefills need the metadata field {name}, which this builder left empty; "
                    "use a Mamba2AttentionMetadataBuilder with causal conv1d metadata"
                )
