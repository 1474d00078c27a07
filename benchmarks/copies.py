"""How long byte copies take: `batch_memcpy` over many equal pieces (section 3.5).

One piece is one program of the launch, which moves it in a loop. Under the interpreter every
program and every turn of its loop cost milliseconds; on a GPU the bandwidth is what counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import torch

import kernels

# (pieces, bytes of each)
CASES = {
    "cpu": ((1, 64), (1, 4096), (1, 65536), (16, 64), (16, 4096)),
    "cuda": ((1, 4096), (64, 4096), (64, 65536), (1024, 65536), (1024, 1048576)),
}
REPEATS = 7
LAUNCHES_IN_A_GRAPH = 20


@dataclass(frozen=True)
class Timing:
    """Median time of one launch."""

    pieces: int
    piece_bytes: int
    seconds: float

    def row(self) -> str:
        """A line of the table; bytes count once read and once written."""
        gigabytes = 2 * self.pieces * self.piece_bytes / self.seconds / 1e9
        return (
            f"| {self.pieces} | {self.piece_bytes} | {self.seconds * 1e6:.1f} "
            f"| {self.seconds / self.pieces * 1e6:.1f} | {gigabytes:.3g} |"
        )


def table() -> str:
    """All sizes, as a Markdown table."""
    head = "| pieces | bytes a piece | µs a launch | µs a piece | GB/s |"
    rows = [measure(*case).row() for case in CASES[kernels.device().type]]
    return "\n".join([head, "| --- | --- | --- | --- | --- |", *rows])


def measure(pieces: int, piece_bytes: int) -> Timing:
    """Time one launch on fresh buffers, and check that it copied."""
    device = kernels.device()
    source = torch.randint(0, 256, (pieces, piece_bytes), dtype=torch.uint8, device=device)
    target = torch.zeros_like(source)
    offsets = torch.arange(pieces, dtype=torch.int64) * piece_bytes
    src_ptrs = (offsets + source.data_ptr()).to(torch.uint64).to(device)
    dst_ptrs = (offsets + target.data_ptr()).to(torch.uint64).to(device)
    sizes = torch.full((pieces,), piece_bytes, dtype=torch.int32, device=device)

    def launch() -> None:
        kernels.batch_memcpy(src_ptrs, dst_ptrs, sizes)

    launch()  # compiles, where something is compiled
    if not torch.equal(source, target):
        raise RuntimeError(f"batch_memcpy did not copy {pieces} pieces of {piece_bytes} bytes")
    clock = time_in_graph if device.type == "cuda" else time_on_host
    return Timing(pieces, piece_bytes, median(clock(launch) for _ in range(REPEATS)))


def time_on_host(launch: Callable[[], None]) -> float:
    """Seconds of one launch that runs on this very thread."""
    start = time.perf_counter()
    launch()
    return time.perf_counter() - start


def time_in_graph(launch: Callable[[], None]) -> float:
    """Seconds of one launch on the GPU, without the host's part, which a graph takes away."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(LAUNCHES_IN_A_GRAPH):
            launch()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    graph.replay()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1e3 / LAUNCHES_IN_A_GRAPH
