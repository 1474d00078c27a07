"""How fast the copy kernels of sections 3.2 and 3.4 are beside the card's own copy.

Only on a GPU. Every launch is timed inside a captured CUDA graph: the host's part of a launch,
tens of microseconds, is then gone, as it is in an engine that replays graphs. The card's own copy
moves as many bytes from one buffer to another (`torch.Tensor.copy_`); the faster of graph and
eager counts. All are repeated over the same memory, which matters where it fits the L2 cache:
only where one request crosses in a single layer.

The bare copy is a kernel that draws tiles as the fast kernels do, with the same number of
programs, and has nothing to decide or to look up: what it loses against the card's own copy is
lost by drawing, and only what the fast kernels lose beyond it by finding out what to move.
"""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import torch
import triton
import triton.language as tl

import kernels
from kernels.pieces import (
    COMPILE_OPTIONS,
    PIECE_BYTES,
    PROGRAMS_PER_MULTIPROCESSOR,
    num_programs,
)
from mambaviz.config import KVCacheConfig, KVCacheGroupSpec, MambaSpec
from mambaviz.worker import (
    CpuGpuBuffer,
    Launch,
    MambaSpecDecodeGPUContext,
    get_conv_copy_spec,
    get_temporal_copy_spec,
)

BLOCK_SIZE = 256  # tokens; any value would do
REPLAYS = 15
REPLAY_SECONDS = 4e-3  # a graph holds as many launches as take about this long
MOST_LAUNCHES = 200
STILL_ABOVE_EMPTY = 3e-6  # seconds that a launch with nothing to copy may take beyond an empty one
LAST_LIMIT = 6e-6  # seconds for one request's copy in a single layer
MIB = 1024**2
RESULTS = Path(__file__).resolve().parent / "results"


@dataclass(frozen=True)
class Case:
    """``crossing`` of ``requests`` move their state; conv states are bf16 [width, dim]."""

    requests: int
    crossing: int
    layers: int
    temporal_bytes: int
    conv_dim: int
    layout: str
    bias: int = 0
    conv_width: int = 5

    @property
    def name(self) -> str:
        size = self.temporal_bytes / MIB
        return (
            f"{self.crossing} of {self.requests} requests, {self.layers} layers of {size:g} MiB, "
            f"conv {self.conv_width}×{self.conv_dim}, {self.layout}, bias {self.bias}"
        )

    @property
    def target(self) -> float:
        """The share of the card's speed to be reached."""
        if self.crossing < self.requests:
            return 0.90
        return 0.97 if self.layout == "SD" else 0.95

    @property
    def target_text(self) -> str:
        return f"{LAST_LIMIT * 1e6:.0f} µs" if self.layers == 1 else f"{self.target:.0%}"

    @property
    def bytes_moved(self) -> int:
        """Bytes that are copied, each counted once."""
        conv = (self.conv_width - self.bias) * self.conv_dim * 2
        return self.crossing * self.layers * (self.temporal_bytes + conv)


CASES = (
    Case(1, 1, 24, 4 * MIB, 10240, "SD"),
    Case(4, 4, 24, 4 * MIB, 10240, "SD"),
    Case(16, 16, 24, 4 * MIB, 10240, "SD"),
    Case(64, 64, 24, 4 * MIB, 10240, "SD"),
    Case(256, 256, 24, MIB // 4, 2048, "SD"),
    Case(1, 1, 24, 4 * MIB, 10240, "DS"),
    Case(16, 16, 24, 4 * MIB, 10240, "DS"),
    Case(64, 64, 24, 4 * MIB, 10240, "DS"),
    Case(1, 1, 48, MIB, 8192, "DS", bias=2),
    Case(256, 4, 24, MIB, 8192, "SD"),
    Case(64, 1, 24, 4 * MIB, 10240, "SD"),
    Case(256, 8, 48, MIB, 8192, "DS"),
    Case(64, 1, 1, 4 * MIB, 10240, "DS"),
    # The same where every window shifts: DS rows then are no longer one run of bytes.
    Case(1, 1, 24, 4 * MIB, 10240, "SD", bias=1),
    Case(16, 16, 24, 4 * MIB, 10240, "DS", bias=1),
    Case(256, 256, 24, MIB // 4, 2048, "DS", bias=1),
    Case(256, 8, 48, MIB, 8192, "DS", bias=1),
)


@dataclass
class Layer:
    kv_cache: list[torch.Tensor]


class World:
    """The caches of one case, and a context bound to them.

    Request r moves from column 0 (its temporal state from column ``bias``) to column
    ``bias + 1``. Requests that do not cross share the first one's blocks, which nothing touches.
    """

    def __init__(self, case: Case) -> None:
        self.case, self.device = case, kernels.device()
        columns = case.bias + 2
        num_blocks = 1 + case.crossing * columns
        dim_first = case.layout == "DS"
        conv = (case.conv_width, case.conv_dim)
        shapes = (conv[::-1] if dim_first else conv, (case.temporal_bytes // 4,))
        dtypes = (torch.bfloat16, torch.float32)
        spec = MambaSpec(BLOCK_SIZE, shapes, dtypes, "align", num_speculative_blocks=case.bias)
        names = [f"layer {n}" for n in range(case.layers)]
        self.config = KVCacheConfig(num_blocks, [KVCacheGroupSpec(names, spec)])
        self.layers = {
            name: Layer(
                [self._random(num_blocks, s, d) for s, d in zip(shapes, dtypes, strict=True)]
            )
            for name in names
        }
        rows = [
            [1 + (r if r < case.crossing else 0) * columns + c for c in range(columns)]
            for r in range(case.requests)
        ]
        self.table = torch.tensor(rows, dtype=torch.int32, device=self.device)
        self.launches: list[Launch] = []
        funcs = (get_conv_copy_spec, get_temporal_copy_spec)
        self.context = MambaSpecDecodeGPUContext.create(
            case.requests,
            self.config,
            len(funcs),
            self.device,
            lambda n, *, dtype: CpuGpuBuffer(n, dtype, self.device),
            dim_first,
            on_launch=lambda _when, launch: self.launches.append(launch),
        )
        self.context.fast = True
        self.context.initialize_from_forward_context(self.config, self.layers, funcs, [self.table])

    def _random(self, blocks: int, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        size = blocks * torch.Size(shape).numel() * dtype.itemsize
        words = torch.empty(size // 8 + 1, dtype=torch.int64, device=self.device).random_()
        return words.view(torch.uint8)[:size].view(dtype).view(blocks, *shape)

    def ints(self, crossing: int, others: int, *, moving: bool) -> torch.Tensor:
        """int32 [requests]: one value for the crossing requests (if they move), one for others."""
        crosses = self.case.crossing if moving else 0
        values = [crossing] * crosses + [others] * (self.case.requests - crosses)
        return torch.tensor(values, dtype=torch.int32, device=self.device)

    def precopy(self, *, moving: bool) -> Launch:
        """Run kernel 3.4 as V2 does, through a mapping; its launch can then be repeated."""
        slots = torch.arange(self.case.requests, dtype=torch.int32, device=self.device)
        self.context.run_fused_precopy(
            self.case.requests,
            self.ints(self.case.bias + 1, 0, moving=moving),
            self.ints(0, 0, moving=moving),
            self.ints(self.case.bias, 0, moving=moving),
            slots,
        )
        return self.launches[-1]

    def postprocess(self, *, moving: bool) -> Launch:
        """Run kernel 3.2 as V2 does. Who crosses has accepted ``bias + 1`` up to a boundary."""
        boundary = (self.case.bias + 2) * BLOCK_SIZE
        slots = torch.arange(self.case.requests, dtype=torch.int32, device=self.device)
        self.context.run_fused_postprocess_align(
            self.case.requests,
            self.ints(self.case.bias + 1, 1, moving=moving),
            self.ints(0, 0, moving=moving),
            self.ints(boundary, boundary + 1, moving=moving),
            slots,
        )
        return self.launches[-1]

    def check(self) -> None:
        """RuntimeError unless every crossing request's state has arrived."""
        bias, columns = self.case.bias, self.case.bias + 2
        rows = [1 + r * columns for r in range(self.case.crossing)]
        for name, layer in self.layers.items():
            conv, temporal = (t.view(torch.int16) for t in layer.kv_cache)
            if self.case.layout == "DS":
                conv = conv.transpose(1, 2)
            for first in rows:
                last = first + columns - 1
                kept = conv.shape[1] - bias
                if not (
                    torch.equal(temporal[first + bias], temporal[last])
                    and torch.equal(conv[first, bias:], conv[last, :kept])
                ):
                    raise RuntimeError(f"{self.case.name}: {name} did not arrive")

    def clear(self) -> None:
        """Other bytes into the destinations, so that `check` cannot see an earlier copy."""
        columns = self.case.bias + 2
        for layer in self.layers.values():
            for tensor in layer.kv_cache:
                tensor[columns::columns].zero_()


# ---------------------------------------------------------------------------------------- timing


@dataclass(frozen=True)
class Timing:
    """Seconds of one launch: over the replays, median, least and most."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, samples: list[float]) -> Timing:
        return cls(median(samples), min(samples), max(samples))

    @property
    def us(self) -> str:
        return f"{self.median * 1e6:.2f} ({self.least * 1e6:.2f}–{self.most * 1e6:.2f})"

    def terabytes(self, num_bytes: int) -> float:
        """TB/s, each byte counted once read and once written."""
        return 2 * num_bytes / self.median / 1e12


def timed(run: Callable[[], object]) -> float:
    """Seconds of ``run`` on the GPU."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    run()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1e3


def in_graph(launch: Callable[[], object], replays: int = REPLAYS) -> Timing:
    """One launch among many in a captured graph."""
    launch()  # compiles
    torch.cuda.synchronize()
    estimate = min(timed(launch) for _ in range(3))
    count = max(3, min(MOST_LAUNCHES, int(REPLAY_SECONDS / estimate)))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(count):
            launch()
    graph.replay()
    return Timing.of([timed(graph.replay) / count for _ in range(replays)])


def eager(launch: Callable[[], object]) -> Timing:
    """One launch at a time, without a graph."""
    return Timing.of([timed(launch) for _ in range(REPLAYS)])


def card_copy(num_bytes: int) -> Timing:
    """The card's own copy of as many bytes."""
    source = torch.empty(num_bytes, dtype=torch.uint8, device=kernels.device()).random_(0, 256)
    target = torch.empty_like(source)

    def launch() -> None:
        target.copy_(source)

    graph, single = in_graph(launch), eager(launch)
    return graph if graph.median <= single.median else single


@triton.jit
def bare_kernel(source, target, num_tiles, counter, LANES: tl.constexpr) -> None:  # type: ignore[no-untyped-def]
    """``num_tiles`` tiles of int32 [LANES], drawn from ``counter`` as in `kernels.fast_copy`."""
    lanes = tl.arange(0, LANES)
    tile = tl.program_id(0)
    while tile < num_tiles:
        offsets = tl.multiple_of(tile.to(tl.int64) * LANES, 16) + lanes
        values = tl.load(source + offsets)
        ticket = tl.atomic_add(counter, 1, sem="relaxed")
        if ticket == num_tiles - 1:
            tl.store(counter, 0)
        tl.store(target + offsets, values)
        tile = tl.num_programs(0) + ticket


def bare_copy(num_bytes: int, *, dim_first: bool) -> Timing:
    """As many bytes, to the next whole tile."""
    num_tiles = -(-num_bytes // PIECE_BYTES)
    source = torch.empty(num_tiles * PIECE_BYTES // 4, dtype=torch.int32, device=kernels.device())
    target, counter = torch.empty_like(source), torch.zeros_like(source[:1])
    grid = (num_programs(source.device, dim_first),)
    lanes = PIECE_BYTES // 4
    return in_graph(
        lambda: bare_kernel[grid](source, target, num_tiles, counter, lanes, **COMPILE_OPTIONS)
    )


@triton.jit
def empty_kernel(pointer) -> None:  # type: ignore[no-untyped-def]
    """Nothing: what is left is the launch."""


def empty() -> Timing:
    nothing = torch.zeros(1, dtype=torch.int32, device=kernels.device())
    return in_graph(lambda: empty_kernel[(1,)](nothing))


# ----------------------------------------------------------------------------------------- tables


@dataclass(frozen=True)
class Result:
    """What was measured of one case; ``still``: the same launch with nothing to copy."""

    case: Case
    card: Timing
    bare: Timing
    precopy: Timing
    postprocess: Timing
    readable: Timing
    precopy_still: Timing
    postprocess_still: Timing
    readable_still: Timing

    def of_card(self, timing: Timing) -> float:
        """The card's copy takes this share of the time."""
        return self.card.median / timing.median

    def misses(self, still_limit: float) -> list[str]:
        """Which targets are missed, and by what."""
        found = []
        for name in ("precopy", "postprocess"):
            timing, still = getattr(self, name), getattr(self, f"{name}_still")
            if self.case.layers == 1:
                if timing.median > LAST_LIMIT:
                    found.append(f"{name} takes {timing.us} µs, not 6")
            elif self.of_card(timing) < self.case.target:
                found.append(
                    f"{name} reaches {self.of_card(timing):.1%} of the card's copy, "
                    f"not {self.case.target:.0%}"
                )
            if still.median > still_limit:
                found.append(f"{name} with nothing to copy takes {still.us} µs")
        return [f"{self.case.name}: {miss}" for miss in found]


def measure(case: Case) -> Result:
    torch.cuda.empty_cache()  # where memory lies matters: every case gets it fresh
    world, ks = World(case), kernels.kernel_set()

    def fast(launch: Launch) -> Timing:
        return in_graph(lambda: world.context.run(launch))

    def readable(launch: Launch) -> Timing:
        kernel = getattr(ks, launch.kernel)
        return in_graph(lambda: kernel[launch.grid](**launch.inputs))

    timings = []
    for operation in (world.precopy, world.postprocess):
        world.clear()
        moving = operation(moving=True)
        world.check()
        timings.append((fast(moving), fast(operation(moving=False))))
    moving, still = world.precopy(moving=True), world.precopy(moving=False)
    (precopy, precopy_still), (postprocess, postprocess_still) = timings
    return Result(
        case,
        card_copy(case.bytes_moved),
        bare_copy(case.bytes_moved, dim_first=case.layout == "DS"),
        precopy,
        postprocess,
        readable(moving),
        precopy_still,
        postprocess_still,
        readable(still),
    )


def data(results: list[Result], nothing: Timing) -> dict[str, object]:
    """The numbers of the page once more, for those who draw them: TB/s, µs."""
    limit = nothing.median + STILL_ABOVE_EMPTY

    def both(result: Result, name: str) -> dict[str, float | bool]:
        timing, still = getattr(result, name), getattr(result, f"{name}_still")
        return {
            "us": timing.median * 1e6,
            "tbs": timing.terabytes(result.case.bytes_moved),
            "share": result.of_card(timing),
            "idle_us": still.median * 1e6,
        }

    return {
        "device": torch.cuda.get_device_name(),
        "conditions": conditions(),
        "empty_us": nothing.median * 1e6,
        "idle_limit_us": limit * 1e6,
        "cases": [
            {
                "name": r.case.name,
                "crossing": r.case.crossing,
                "layers": r.case.layers,
                "layout": r.case.layout,
                "target": r.case.target_text,
                "bytes": r.case.bytes_moved,
                "card_us": r.card.median * 1e6,
                "card_tbs": r.card.terabytes(r.case.bytes_moved),
                "precopy": both(r, "precopy"),
                "postprocess": both(r, "postprocess"),
                "readable": both(r, "readable"),
                "bare_share": r.of_card(r.bare),
                "met": not r.misses(limit),
            }
            for r in results
        ],
    }


def page(results: list[Result], nothing: Timing) -> str:
    """All cases as Markdown: speeds, times with their spread, and what misses its target."""
    limit = nothing.median + STILL_ABOVE_EMPTY
    misses = [miss for result in results for miss in result.misses(limit)]
    speeds = [
        f"| {r.case.name} | {r.case.target_text} | {r.card.terabytes(r.case.bytes_moved):.2f} | "
        + " | ".join(
            f"{t.terabytes(r.case.bytes_moved):.2f} ({r.of_card(t):.1%})"
            for t in (r.precopy, r.postprocess, r.bare, r.readable)
        )
        + " |"
        for r in results
    ]
    times = [
        f"| {r.case.name} | "
        + " | ".join(
            t.us
            for t in (
                r.card,
                r.precopy,
                r.postprocess,
                r.precopy_still,
                r.postprocess_still,
                r.readable_still,
            )
        )
        + " |"
        for r in results
    ]
    return "\n".join(
        [
            "# The copy kernels beside the card's own copy",
            "",
            conditions(),
            "",
            (__doc__ or "").partition("\n\n")[2].strip(),
            "",
            f"Fast kernels: pieces of {PIECE_BYTES} bytes, {PROGRAMS_PER_MULTIPROCESSOR} programs "
            f"a multiprocessor, {COMPILE_OPTIONS}. An empty kernel takes {nothing.us} µs; with "
            f"nothing to copy a launch should take at most {limit * 1e6:.2f} µs.",
            "",
            "TB/s of bytes read and written, and the share of the card's own speed:",
            "",
            "| case | target | card | precopy (3.4) | postprocess (3.2) | bare copy "
            "| readable precopy |",
            "| --- | --- | --- | --- | --- | --- | --- |",
            *speeds,
            "",
            f"µs a launch: median of {REPLAYS} replays (least–most):",
            "",
            "| case | card | precopy | postprocess | precopy, nothing to copy "
            "| postprocess, nothing to copy | readable precopy, nothing to copy |",
            "| --- | --- | --- | --- | --- | --- | --- |",
            *times,
            "",
            "Targets missed (why: docs/fast-kernels.md):" if misses else "Every target is met.",
            "",
            *(f"- {miss}" for miss in misses),
        ]
    )


def conditions() -> str:
    """What the numbers depend on."""
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    driver = subprocess.run(query, capture_output=True, text=True, check=True).stdout.split()[0]
    return (
        f"{torch.cuda.get_device_name()}, driver {driver}; Python {platform.python_version()}, "
        f"torch {torch.__version__}, CUDA {torch.version.cuda}, triton {triton.__version__}."
    )


def main() -> None:
    """Write the page of this card, or say that there is none."""
    if kernels.BACKEND != "cuda":
        print("No GPU here: the copy kernels can only be timed beside a card's own copy.")
        return
    card = torch.cuda.get_device_name().split()[-1].lower()
    torch.cuda.init()
    nothing = empty()
    results = [measure(case) for case in CASES]
    text = page(results, nothing)
    (RESULTS / f"kernels-{card}.md").write_text(text.rstrip() + "\n", encoding="utf-8")
    numbers = json.dumps(data(results, nothing), indent=1)
    (RESULTS / f"kernels-{card}.json").write_text(numbers + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
