"""A `Batch` as tensors, through the real metadata builder, and what came out as a `BatchRecord`.

    python -m mambaviz.batch_build [SLUG ...]

writes the records of the presets named, or of all, which the app shows before torch is loaded.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from itertools import accumulate
from typing import Any

import numpy as np
import torch

from mambaviz.attention import (
    BaseMambaAttentionMetadata,
    BaseMambaAttentionMetadataBuilder,
    CommonAttentionMetadata,
    Mamba1AttentionMetadataBuilder,
    Mamba2AttentionMetadataBuilder,
)
from mambaviz.attention.fields import FIELDS, ValueKind
from mambaviz.attention.replayssm import ring_steps
from mambaviz.batch import BATCHES, Batch, BatchError, BatchRow, BuilderName
from mambaviz.batch_record import (
    BatchRecord,
    GraphRecord,
    Pointer,
    RingRun,
    RingStep,
    RowRecord,
    write_recording,
)
from mambaviz.config import (
    CacheConfig,
    CompilationConfig,
    EngineConfig,
    MambaSpec,
    ModelConfig,
    SchedulerConfig,
    SpeculativeConfig,
)
from mambaviz.metadata_record import metadata_record
from mambaviz.observe import tensor_record
from mambaviz.trace import Role

BUILDERS: dict[BuilderName, type[BaseMambaAttentionMetadataBuilder]] = {
    "base": BaseMambaAttentionMetadataBuilder,
    "mamba1": Mamba1AttentionMetadataBuilder,
    "mamba2": Mamba2AttentionMetadataBuilder,
}
CONV_WINDOW, CONV_DIM = 3, 8  # of the spec's conv state, which no field of the result depends on
RING_ROUNDS = 2  # times that the ring is run through in a picture
MOST_RING_STEPS = 36

# Which buffer of the builder stands behind a field of the result (section 4.9).
BUFFER_OF = {
    "state_indices_tensor_d": "state_indices",
    "num_accepted_tokens": "num_accepted_tokens",
    "query_start_loc_d": "query_start_loc",
    "block_idx_last_computed_token": "last_computed",
    "block_idx_last_scheduled_token": "last_scheduled",
    "block_idx_last_scheduled_token_prev_step": "last_scheduled_prev_step",
    "write_pos_d": "write_pos",
    "is_flush_d": "is_flush",
}


def build_batch(batch: Batch) -> BatchRecord:
    """Build a batch twice with one builder and record the second result (section 4).

    Twice, because only then it shows which memory keeps its address. Raises `BatchError` with
    the builder's own sentence where it refuses the batch.
    """
    try:
        builder = builder_of(batch)
        first, metadata = give(builder, batch), give(builder, batch)
        rings = [ring_run(batch, row) for row in _ring_rows(batch, metadata)]
    except ValueError as error:
        raise BatchError(str(error)) from None
    return BatchRecord(
        batch=batch,
        threshold=batch.decode_threshold,
        rows=_row_records(batch, builder),
        metadata=metadata_record(0, metadata),
        points=_points(batch, metadata),
        keeps_address=_same_memory(first, metadata),
        graph=_graph(builder, metadata) if batch.full_graphs else None,
        rings=rings,
    )


# --------------------------------------------------------------------------------------
# The batch as tensors
# --------------------------------------------------------------------------------------


def builder_of(batch: Batch) -> Any:
    """The builder a batch is given to, on the CPU."""
    spec = MambaSpec(
        block_size=batch.effective_block_size,
        shapes=_shapes(batch),
        dtypes=(torch.float32,) * len(_shapes(batch)),
        mamba_cache_mode=batch.mode,
        num_speculative_blocks=batch.num_spec,
    )
    return BUILDERS[batch.builder](spec, ["layer.0"], engine_config(batch), "cpu")


def _shapes(batch: Batch) -> tuple[tuple[int, ...], ...]:
    """Conv, temporal, and the three rings of section 4.8."""
    heads, length = batch.heads, batch.replayssm_buffer_len
    shapes: tuple[tuple[int, ...], ...] = (
        (CONV_WINDOW + batch.num_spec, CONV_DIM),
        (heads, batch.head_dim, batch.d_state),
    )
    if length:
        rings = ((heads, length, batch.head_dim), (heads, length))
        shapes += (*rings, (batch.ngroups, length, batch.d_state))
    return shapes


def engine_config(batch: Batch) -> EngineConfig:
    return EngineConfig(
        cache_config=CacheConfig(
            mamba_cache_mode=batch.mode,
            enable_prefix_caching=batch.mode != "none",
            use_replayssm=batch.replayssm_buffer_len > 0,
            replayssm_buffer_len=max(1, batch.replayssm_buffer_len),
        ),
        scheduler_config=SchedulerConfig(max_num_seqs=batch.max_num_seqs),
        speculative_config=SpeculativeConfig(batch.num_spec) if batch.num_spec else None,
        compilation_config=CompilationConfig(batch.full_graphs, batch.max_capture_size),
        model_config=ModelConfig(max_model_len=batch.max_model_len, chunk_size=batch.chunk_size),
    )


def common_metadata(batch: Batch) -> CommonAttentionMetadata:
    """The batch as the builder is given it (section 4.1), padding rows behind the real ones."""
    rows, padding = batch.rows, batch.padding_rows
    query_lens = [row.query for row in rows] + [0] * padding
    seq_lens = [row.seq_len for row in rows] + [0] * padding
    starts = [0, *accumulate(query_lens)]
    bases = [row.decode_base or 0 for row in rows] + [0] * padding
    return CommonAttentionMetadata(
        query_start_loc=_int32(starts),
        query_start_loc_cpu=_int32(starts),
        seq_lens=_int32(seq_lens),
        num_reqs=len(query_lens),
        num_actual_tokens=starts[-1],
        max_query_len=max(query_lens),
        max_seq_len=max(seq_lens),
        block_table_tensor=_table(batch),
        is_prefilling=torch.tensor([row.prefilling for row in rows] + [False] * padding),
        seq_lens_cpu_upper_bound=_int32(seq_lens),
        replayssm_decode_base_cpu=_int32(bases) if batch.replayssm_buffer_len else None,
    )


def _table(batch: Batch) -> torch.Tensor:
    """int32 ``[R, columns]``; null blocks fill the rows up to what the longest sequence needs."""
    if batch.mode == "none":
        columns = 1 + batch.num_spec
    else:
        columns = -(-batch.max_model_len // batch.block_size) + batch.num_spec
    columns = max(columns, *(len(row.blocks) for row in batch.rows))
    ids = [row.blocks + [0] * (columns - len(row.blocks)) for row in batch.rows]
    return _int32(ids + [[0] * columns] * batch.padding_rows)


def give(builder: Any, batch: Batch) -> BaseMambaAttentionMetadata:
    """One build; the inputs are made anew each time, as an engine does at every step."""
    common = common_metadata(batch)
    if batch.builder == "mamba1":
        return builder.build(0, common)
    return builder.build(0, common, **_keywords(batch))


def _keywords(batch: Batch) -> dict[str, torch.Tensor]:
    """The optional inputs of `build` that this batch gives (section 4.1)."""
    rows, padding = batch.rows, batch.padding_rows
    given: dict[str, torch.Tensor] = {}
    if batch.accepted_given:
        given["num_accepted_tokens"] = _int32([row.accepted for row in rows] + [1] * padding)
    if batch.num_spec:
        drafts = [-1 if row.drafts is None else row.drafts for row in rows]
        given["num_decode_draft_tokens_cpu"] = _int32(drafts + [-1] * padding)
    if batch.num_spec and batch.mode == "all":
        columns = [
            -1 if row.prev_last_scheduled is None else row.prev_last_scheduled for row in rows
        ]
        given["prev_last_scheduled_idx"] = _int32(columns + [-1] * padding)
    return given


def _int32(values: Sequence[Any]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


# --------------------------------------------------------------------------------------
# What came out
# --------------------------------------------------------------------------------------


def _row_records(batch: Batch, builder: Any) -> list[RowRecord]:
    given = {} if batch.builder == "mamba1" else _keywords(batch)
    given.pop("prev_last_scheduled_idx", None)
    decisions = builder.explain_split(common_metadata(batch), **given)
    return [
        RowRecord(
            request=batch.rows[found.row].request if found.row < len(batch.rows) else None,
            row_class=found.row_class,
            rule=found.rule.name,
            reason=found.reason,
            roles=_roles(batch, batch.rows[found.row]) if found.row < len(batch.rows) else [],
        )
        for found in decisions
    ]


def _roles(batch: Batch, row: BatchRow) -> list[Role | None]:
    return [
        "null" if block == 0 else _role(batch, row, column)
        for column, block in enumerate(row.blocks)
    ]


def _role(batch: Batch, row: BatchRow, column: int) -> Role | None:
    """What a block is for, as far as lengths say it."""
    running = batch.running_column(row)
    if column == running:
        return "running"
    if batch.mode != "all":
        return "speculative" if column in batch.state_columns(row) else None
    if column > running:
        return "speculative"
    if (column + 1) * batch.block_size <= row.computed:
        return "cached"
    return "previous" if column * batch.block_size < row.computed else None


def _points(batch: Batch, metadata: BaseMambaAttentionMetadata) -> dict[str, list[Pointer | None]]:
    """Where in the block table the numbers of each pointing field lie."""
    points: dict[str, list[Pointer | None]] = {}
    for name, info in FIELDS.items():
        value = getattr(metadata, name, None)
        if not isinstance(value, torch.Tensor) or not value.numel():
            continue
        first = len(batch.rows) + batch.padding_rows - len(value) if name.endswith("_p") else 0
        if info.kind is ValueKind.BLOCK_ID:
            points[name] = _cells_of_indices(batch, value, first)
        elif info.kind is ValueKind.COLUMN:
            points[name] = [
                _cell(batch, first + row, column) for row, column in enumerate(value.tolist())
            ]
    return points


def _cells_of_indices(batch: Batch, value: torch.Tensor, first: int) -> list[Pointer | None]:
    width = value.shape[1] if value.dim() == 2 else 1
    cells = []
    for row in range(first, first + len(value)):
        start = 0
        if batch.mode != "all" and row < len(batch.rows):
            start = batch.state_columns(batch.rows[row]).start
        cells += [_cell(batch, row, start + offset) for offset in range(width)]
    return cells


def _cell(batch: Batch, row: int, column: int) -> Pointer | None:
    if row >= len(batch.rows) or column >= len(batch.rows[row].blocks):
        return None
    return Pointer(row=row, column=column)


def _same_memory(
    first: BaseMambaAttentionMetadata, second: BaseMambaAttentionMetadata
) -> list[str]:
    """Fields whose memory is the same in both results, which are both alive: not by chance."""
    return [
        field.name
        for field in fields(second)
        if isinstance(new := getattr(second, field.name), torch.Tensor)
        and new.numel()
        and isinstance(old := getattr(first, field.name), torch.Tensor)
        and old.data_ptr() == new.data_ptr()
    ]


def _graph(builder: Any, metadata: BaseMambaAttentionMetadata) -> GraphRecord:
    buffers, limit = builder.decode_buffers, builder.decode_cudagraph_max_bs
    why_not = ""
    if metadata.num_prefills:
        why_not = "the batch has prefills, and a captured graph holds decodes only"
    elif not buffers.fits(metadata.num_prefills, metadata.num_decodes):
        why_not = f"{metadata.num_decodes} rows do not fit the {limit} of the largest graph"
    shown = {} if why_not else BUFFER_OF
    return GraphRecord(
        limit=limit,
        why_not=why_not,
        buffers={
            name: tensor_record(getattr(buffers, attribute))
            for name, attribute in shown.items()
            if getattr(metadata, name) is not None
        },
    )


# --------------------------------------------------------------------------------------
# ReplaySSM over the steps that follow
# --------------------------------------------------------------------------------------


def _ring_rows(batch: Batch, metadata: BaseMambaAttentionMetadata) -> list[int]:
    if metadata.write_pos_d is None:
        return []
    return list(range(min(metadata.num_decodes, len(batch.rows))))


def ring_run(batch: Batch, row: int) -> RingRun:
    """Step one decode row through the real builder, a token at a time (section 4.8).

    It ends after two rounds of the ring, or where the model's length does.
    """
    start, base = batch.rows[row], batch.rows[row].decode_base
    assert base is not None, "a batch with ReplaySSM has a base in every row"
    length = batch.replayssm_buffer_len
    rounds = min(RING_ROUNDS * length + 2, MOST_RING_STEPS)
    steps = min(max(rounds, batch.block_size + 2), MOST_RING_STEPS)
    last = min(start.computed + steps, batch.max_model_len)
    builder = builder_of(batch)
    return RingRun(
        request=start.request,
        row=row,
        base=base,
        steps=[
            _ring_step(builder, batch, row, computed) for computed in range(start.computed, last)
        ],
    )


def _ring_step(builder: Any, batch: Batch, row: int, computed: int) -> RingStep:
    given = batch.rows[row]
    common = common_metadata(batch)
    base = given.decode_base or 0
    one = common.replace(
        query_start_loc=_int32([0, 1]),
        query_start_loc_cpu=_int32([0, 1]),
        seq_lens=_int32([computed + 1]),
        seq_lens_cpu_upper_bound=_int32([computed + 1]),
        num_reqs=1,
        num_actual_tokens=1,
        max_query_len=1,
        max_seq_len=computed + 1,
        block_table_tensor=common.block_table_tensor[row : row + 1],
        is_prefilling=torch.tensor([computed < base]),
        replayssm_decode_base_cpu=_int32([base]),
    )
    metadata = builder.build(0, one)
    position, flush = int(metadata.write_pos_d[0]), bool(metadata.is_flush_d[0])
    align = batch.block_size if batch.mode == "align" else None
    ring = ring_steps(
        np.array([computed]), np.array([1]), np.array([base]), batch.replayssm_buffer_len, align
    )
    sizes = bytes_written(batch)
    return RingStep(
        computed=computed,
        anchor=int(ring.anchor[0]),
        write_pos=position,
        is_flush=flush,
        written=sizes["state"] if flush else sizes["entry"],
        plain=sizes["state"],
    )


def bytes_written(batch: Batch) -> Mapping[str, int]:
    """Bytes of one layer's full temporal state, and of one ring entry (x, dt and B; float32)."""
    x, dt, b = batch.heads * batch.head_dim, batch.heads, batch.ngroups * batch.d_state
    return {"state": 4 * batch.heads * batch.head_dim * batch.d_state, "entry": 4 * (x + dt + b)}


# --------------------------------------------------------------------------------------
# Recordings
# --------------------------------------------------------------------------------------


def main(slugs: Sequence[str]) -> int:
    for slug in slugs or BATCHES:
        if slug not in BATCHES:
            print(f"there is no batch {slug!r}; choose from {', '.join(BATCHES)}", file=sys.stderr)
            return 2
        write_recording(slug, build_batch(BATCHES[slug]))
        print(f"{slug}: recorded")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
