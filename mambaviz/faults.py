"""Named, switchable mistakes (field ``faults`` of a scenario): the table.

Each acts at the real decision point, so that the checks can be watched catching it. What an
engine does with one stands in `mambaviz.mistakes`, as a subclass of the part that takes the
decision; the right code knows nothing of it. Here is what a page, a test and the validation of a
scenario need to know. Importing this module costs no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mambaviz.scenario import Scenario

METADATA = "metadata"
"""The check that has no number in section 1: the metadata derived anew (`metadata_check`)."""


@dataclass(frozen=True)
class Need:
    """Something without which a fault has nothing to spoil: ``words`` say what there must be."""

    words: str
    is_met: Callable[[Scenario], bool]


@dataclass(frozen=True)
class Fault:
    """One mistake.

    ``where`` names the decision it spoils, ``what`` says what goes wrong there, ``room`` is the
    function that decides. ``reports`` are ids of public bug reports (`mambaviz.reports`) that are
    or look like this mistake; none of them may be. ``noticed_by`` are the checks that are to turn
    red where it does damage: invariants of section 1, or `METADATA`. ``why_silent`` says why no
    invariant sees a mistake that only the latter does.
    """

    where: str
    what: str
    room: str
    noticed_by: tuple[str, ...]
    reports: tuple[str, ...] = ()
    needs: tuple[Need, ...] = ()
    why_silent: str = ""

    @property
    def modes(self) -> tuple[str, ...]:
        """Cache modes in which it can act."""
        if ALIGN in self.needs:
            return ("align",)
        if ALL in self.needs:
            return ("all",)
        return ("align", "all") if GROWING_ROWS in self.needs else ("none", "align", "all")

    @property
    def runners(self) -> tuple[str, ...]:
        """Runners on which it can act; all mode and ReplaySSM run on V1 only."""
        if V2 in self.needs:
            return ("v2",)
        return ("v1",) if self.modes == ("all",) or {V1, RING} & set(self.needs) else ("v1", "v2")

    def missing(self, scenario: Scenario) -> list[str]:
        """What this scenario lacks for the fault to act, in words; empty when it can."""
        return [need.words for need in self.needs if not need.is_met(scenario)]


ALIGN = Need("engine.mode 'align'", lambda s: s.engine.mode == "align")
ALL = Need("engine.mode 'all'", lambda s: s.engine.mode == "all")
GROWING_ROWS = Need("engine.mode 'align' or 'all'", lambda s: s.engine.mode != "none")
V1 = Need("engine.runner 'v1'", lambda s: s.engine.runner == "v1")
V2 = Need("engine.runner 'v2'", lambda s: s.engine.runner == "v2")
DS = Need("engine.layout 'DS'", lambda s: s.engine.layout == "DS")
DRAFTS = Need("engine.num_spec of at least 1", lambda s: s.engine.num_spec > 0)
NO_DRAFTS = Need("engine.num_spec 0", lambda s: s.engine.num_spec == 0)
GRAPHS = Need("engine.full_cuda_graphs", lambda s: s.engine.full_cuda_graphs)
RING = Need("an engine.replayssm_buffer_len", lambda s: s.engine.replayssm_buffer_len > 0)
GROUPS = Need("engine.num_mamba_groups of at least 2", lambda s: s.engine.num_mamba_groups > 1)
WIDE_BLOCKS = Need("engine.block_size of at least 2", lambda s: s.engine.block_size > 1)
TWO_REQUESTS = Need("at least two requests", lambda s: len(s.requests) > 1)
CONV = Need("layers with a conv state", lambda s: s.layer.states != "temporal")
TEMPORAL = Need("layers with a temporal state", lambda s: s.layer.states != "conv")
SEVERAL_STATES = Need(
    "several state tensors", lambda s: s.layer.num_layers * (1 + (s.layer.states == "both")) > 1
)

FAULTS: dict[str, Fault] = {
    "accepted-count-not-reset": Fault(
        where="after a copy into the running block",
        what="the accepted count stays as it was although the state has moved into place",
        room="preprocess_mamba; the kernels of sections 3.2 and 3.3",
        noticed_by=("I2",),
        needs=(ALIGN, DRAFTS),
    ),
    "bias-off-by-one": Fault(
        where="pre-copy and post-copy",
        what="the accepted-token bias is one too large",
        room="preprocess_mamba; the kernels of sections 3.2 and 3.3",
        noticed_by=("I2",),
        needs=(ALIGN,),
    ),
    "wrong-block-table-row": Fault(
        where="metadata",
        what="each request's state indices are taken from the next request's block-table row",
        room="the runner's table for the metadata builder",
        noticed_by=("I2", "I3", METADATA),
        needs=(TWO_REQUESTS,),
    ),
    "pre-copy-skipped": Fault(
        where="pre-copy",
        what="the state is not migrated into the new running block",
        room="batch_memcpy; precopy_mamba_align_fused_kernel",
        noticed_by=("I2", "I3"),
        needs=(ALIGN,),
    ),
    "reset-seen-by-siblings": Fault(
        where="post-copy",
        what="the count is reset in place by the first program of a request, and the programs of "
        "its other states read the reset one",
        room="run_fused_postprocess_align, which takes a snapshot of the counts first",
        noticed_by=("I2",),
        reports=("S04",),
        needs=(ALIGN, DRAFTS, V2, SEVERAL_STATES),
    ),
    "stale-column": Fault(
        where="before the pre-copy",
        what="the running column of a preempted request is still remembered when it comes back",
        room="cleanup_mamba_state_idx; on V2 the slot of the request",
        noticed_by=("I7",),
        reports=("S01",),
        needs=(ALIGN,),
    ),
    "column-in-wrong-block-size": Fault(
        where="before the pre-copy",
        what="the column of a prefix hit is counted in blocks of half the size",
        room="preprocess_mamba; on V2 the slot of the request",
        noticed_by=("I2",),
        needs=(ALIGN, WIDE_BLOCKS),
    ),
    "block-table-row-by-slot": Fault(
        where="pre-copy and post-copy",
        what="the block table is read at the request's slot instead of its batch row",
        room="the kernels of sections 3.2 and 3.4",
        noticed_by=("I2",),
        reports=("S05",),
        needs=(ALIGN, V2),
    ),
    "request-arrays-by-batch-row": Fault(
        where="pre-copy and post-copy",
        what="columns and counts are read at the batch row instead of the request's slot",
        room="the kernels of sections 3.2 and 3.4",
        noticed_by=("I2",),
        needs=(ALIGN, V2),
    ),
    "unordered-in-place-shift": Fault(
        where="post-copy",
        what="a window that slides inside its own block is copied last row first",
        room="copy_state_block, which reads the source whole before it writes",
        noticed_by=("I1", "I2"),
        reports=("S03",),
        needs=(ALIGN, DRAFTS, CONV),
    ),
    "ds-copied-flat": Fault(
        where="pre-copy and post-copy",
        what="a DS window is shifted as if it were SD, so channels take each other's place",
        room="get_conv_copy_spec; copy_state_block",
        noticed_by=("I2",),
        reports=("S29",),
        needs=(ALIGN, DS, DRAFTS, CONV),
    ),
    "temporal-source-without-bias": Fault(
        where="pre-copy and post-copy",
        what="the temporal state is read from the running column, however many drafts were kept",
        room="get_temporal_copy_spec; copy_state_block",
        noticed_by=("I2",),
        needs=(ALIGN, DRAFTS, TEMPORAL),
    ),
    "counts-permuted-twice": Fault(
        where="when the batch is laid out",
        what="accepted counts that have already moved with their rows are moved once more",
        room="InputBatch.lay_out",
        noticed_by=("I2",),
        reports=("S11",),
        needs=(V1, DRAFTS, TWO_REQUESTS),
    ),
    "worker-row-not-grown": Fault(
        where="when the batch is laid out",
        what="the worker's row does not get the columns that a running request was given",
        room="CachedRequest.append",
        noticed_by=("I7",),
        reports=("S02",),
        needs=(GROWING_ROWS,),
    ),
    "chunk-ends-inside-block": Fault(
        where="schedule",
        what="only chunks that end before the last cacheable position are cut at a boundary, so "
        "one that ends inside a block is later registered as the whole block",
        room="split_at_boundaries",
        noticed_by=("I1",),
        reports=("S08", "S09", "S37"),
        needs=(ALIGN,),
    ),
    "scratch-registered": Fault(
        where="registration",
        what="columns are registered by the worker's row, where a scratch block that has moved on "
        "still stands in its old column",
        room="CacheGroup.register",
        noticed_by=("I1",),
        reports=("S32",),
        needs=(ALIGN, DRAFTS),
    ),
    "padding-not-null": Fault(
        where="metadata",
        what="the padding rows of a captured graph keep the block ids that stood there before",
        room="BlockTable.fill",
        noticed_by=(METADATA,),
        reports=("S14",),
        needs=(GRAPHS,),
        why_silent="our kernels leave a row with an empty query alone, whatever block it names",
    ),
    "first-chunk-as-decode": Fault(
        where="metadata",
        what="a first chunk of one token counts as a decode and starts from what the last owner "
        "left in its block",
        room="split_batch",
        noticed_by=("I3", METADATA),
        reports=("S16",),
    ),
    "short-extend-as-prefill": Fault(
        where="metadata",
        what="a single prompt token on top of a state counts as a prefill",
        room="split_batch",
        noticed_by=(METADATA,),
        reports=("S17",),
        why_silent="our prefill kernels start from the same state, and no graph was captured that "
        "would not",
    ),
    "metadata-of-another-group": Fault(
        where="metadata",
        what="the metadata of the first cache group serves the others too, block ids included",
        room="the runner's build_metadata",
        noticed_by=("I2", METADATA),
        needs=(GROUPS,),
    ),
    "stale-graph-buffers": Fault(
        where="metadata",
        what="only the state indices of the second cache group are refreshed; its columns are "
        "those of the graph replay before",
        room="update_block_table",
        noticed_by=("I1", METADATA),
        reports=("S13",),
        needs=(ALL, NO_DRAFTS, GRAPHS, GROUPS),
    ),
    "offset-lost-without-drafts": Fault(
        where="metadata",
        what="a row without drafts in this step counts as one that never had any, so its accepted "
        "count is taken for 1",
        room="the runner's accepted counts for the builder",
        noticed_by=("I2", "I3", METADATA),
        reports=("S26",),
        needs=(DRAFTS,),
    ),
    "chunks-on-a-fixed-grid": Fault(
        where="metadata",
        what="prefill tokens are cut every chunk_size of the batch, wherever sequences start",
        room="plan_chunks",
        noticed_by=("I1", METADATA),
        reports=("S21", "S36"),
        needs=(TEMPORAL,),
    ),
    "replay-anchor-not-moved": Fault(
        where="metadata",
        what="the ring goes on over a block boundary: no flush before it, no new anchor behind it",
        room="ring_steps",
        noticed_by=("I1", "I3", METADATA),
        reports=("S24",),
        needs=(ALIGN, RING),
    ),
    "window-from-computed-column": Fault(
        where="forward",
        what="the window is read from the last computed token's column, not where it was written",
        room="run_layer, the read columns of causal_conv1d_decode_kernel",
        noticed_by=("I3",),
        needs=(ALL, DRAFTS, CONV),
    ),
    "short-chunk-writes-its-source": Fault(
        where="forward",
        what="a prefill shorter than the window writes it back to the block it was read from",
        room="run_layer, the write columns of causal_conv1d_prefill_kernel",
        noticed_by=("I1",),
        reports=("S22",),
        needs=(ALL, CONV),
    ),
}


def fault_problems(scenario: Scenario) -> Iterator[str]:
    """What is wrong with a scenario's ``faults``, one sentence each."""
    for name in scenario.faults:
        if name not in FAULTS:
            shown = repr(name) if len(repr(name)) <= 60 else repr(name)[:59] + "…"
            yield f"faults: {shown} is not a known fault; choose from {', '.join(FAULTS)}"
            continue
        missing = FAULTS[name].missing(scenario)
        if missing:
            yield f"faults: {name} has nothing to spoil here; it needs {_and(missing)}"


def _and(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
