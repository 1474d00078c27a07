"""How long one metadata build takes (section 4), on the CPU and, where there is one, a GPU.

    python -m benchmarks.metadata_build      rewrites benchmarks/results/metadata_build.md

The builder runs once per step before any kernel, so its time is the least a step can take.
"""

from __future__ import annotations

import os
import platform
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from mambaviz.attention import (
    CommonAttentionMetadata,
    Mamba2AttentionMetadata,
    Mamba2AttentionMetadataBuilder,
)
from mambaviz.config import (
    CACHE_MODES,
    CacheConfig,
    CacheMode,
    CompilationConfig,
    EngineConfig,
    MambaSpec,
    ModelConfig,
    SchedulerConfig,
    SpeculativeConfig,
)

RESULT = Path(__file__).resolve().parent / "results" / "metadata_build.md"
BLOCK_SIZE, CHUNK_SIZE, MAX_MODEL_LEN, NUM_SPEC = 512, 256, 16384, 2
SAMPLES, BUILDS_PER_SAMPLE = 60, 10


@dataclass(frozen=True)
class Batch:
    """A batch of equal rows."""

    name: str
    rows: int
    query_len: int
    computed: int
    prefilling: bool


BATCHES = (
    Batch("1 decode row", 1, 1 + NUM_SPEC, 4000, False),
    Batch("64 decode rows", 64, 1 + NUM_SPEC, 4000, False),
    Batch("256 decode rows", 256, 1 + NUM_SPEC, 4000, False),
    Batch("8 prefills of 8192 tokens", 8, 8192, 100, True),
)


def builder(mode: CacheMode, full_graphs: bool, device: str) -> Mamba2AttentionMetadataBuilder:
    """A Mamba-2 builder with two drafts."""
    spec = MambaSpec(
        BLOCK_SIZE,
        ((5, 64), (2, 16, 16)),
        (torch.float32, torch.float32),
        mamba_cache_mode=mode,
        num_speculative_blocks=NUM_SPEC,
    )
    config = EngineConfig(
        cache_config=CacheConfig(mamba_cache_mode=mode),
        scheduler_config=SchedulerConfig(max_num_seqs=256),
        speculative_config=SpeculativeConfig(NUM_SPEC),
        compilation_config=CompilationConfig(full_cuda_graphs=full_graphs),
        model_config=ModelConfig(max_model_len=MAX_MODEL_LEN, chunk_size=CHUNK_SIZE),
    )
    return Mamba2AttentionMetadataBuilder(spec, ["layer.0"], config, device)


def common(batch: Batch, device: str) -> CommonAttentionMetadata:
    """The batch as the builder is given it."""
    offsets = torch.arange(batch.rows + 1, dtype=torch.int32) * batch.query_len
    seq_lens = torch.full((batch.rows,), batch.computed + batch.query_len, dtype=torch.int32)
    columns = MAX_MODEL_LEN // BLOCK_SIZE + NUM_SPEC
    ids = torch.arange(1, 1 + batch.rows * columns, dtype=torch.int32)
    return CommonAttentionMetadata(
        query_start_loc=offsets.to(device),
        query_start_loc_cpu=offsets,
        seq_lens=seq_lens.to(device),
        num_reqs=batch.rows,
        num_actual_tokens=batch.rows * batch.query_len,
        max_query_len=batch.query_len,
        max_seq_len=batch.computed + batch.query_len,
        block_table_tensor=ids.reshape(batch.rows, columns).to(device),
        is_prefilling=torch.full((batch.rows,), batch.prefilling),
        seq_lens_cpu_upper_bound=seq_lens,
    )


def microseconds(batch: Batch, mode: CacheMode, full_graphs: bool, device: str) -> float:
    """Time of one build, device work included: the best sample, the least disturbed one."""
    build_with, given = builder(mode, full_graphs, device), common(batch, device)
    accepted = torch.ones(batch.rows, dtype=torch.int32, device=device)

    def build() -> Mamba2AttentionMetadata:
        return build_with.build(0, given, num_accepted_tokens=accepted)

    expected = 0 if batch.prefilling else batch.rows
    if build().num_decodes != expected:
        raise RuntimeError(f"{batch.name}: expected {expected} decodes, got {build().num_decodes}")
    samples = []
    for _ in range(SAMPLES):
        synchronize(device)
        start = time.perf_counter()
        for _ in range(BUILDS_PER_SAMPLE):
            build()
        synchronize(device)
        samples.append((time.perf_counter() - start) / BUILDS_PER_SAMPLE * 1e6)
    return min(samples)


def synchronize(device: str) -> None:
    """Wait for the GPU, where the time of its work is meant to count."""
    if device == "cuda":
        torch.cuda.synchronize()


def table(device: str) -> str:
    """Microseconds per build as a Markdown table: batches down, modes across."""
    columns = [(mode, graphs) for mode in CACHE_MODES for graphs in (False, True)]
    heads = [f"{mode}{', full graphs' if graphs else ''}" for mode, graphs in columns]
    lines = [f"| batch | {' | '.join(heads)} |", "| --- " * (1 + len(heads)) + "|"]
    for batch in BATCHES:
        cells = [f"{microseconds(batch, *column, device):.0f}" for column in columns]
        lines.append(f"| {batch.name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def report() -> str:
    """The whole result page."""
    parts = [
        "# Microseconds per metadata build",
        f"Mamba-2 builder, {NUM_SPEC} drafts (a decode row is {1 + NUM_SPEC} tokens), block size "
        f"{BLOCK_SIZE}, chunk size {CHUNK_SIZE}. Best of {SAMPLES} samples of "
        f"{BUILDS_PER_SAMPLE} builds each, one torch thread. Absolute times differ by machine.",
        f"{os.cpu_count()} CPUs ({platform.machine()}), Python {platform.python_version()}, "
        f"torch {torch.__version__}, numpy {np.__version__}.",
        "## CPU",
        table("cpu"),
    ]
    if torch.cuda.is_available():
        parts += [f"## {torch.cuda.get_device_name()}", table("cuda")]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Measure, write the page, and print it."""
    torch.set_num_threads(1)
    text = report()
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
