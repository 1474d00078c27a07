"""The numbers of each report, measured: on its run, or on the function concerned.

One function a report. It is given the run, right or with the mistake, and says what each number
is there; the names are those of ``reports.json``. Nothing here knows what should come out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from kernels.reference import decide_postprocess_advanced
from mambaviz import engine
from mambaviz.attention.replayssm import ring_steps
from mambaviz.attention.state_indices import mamba_get_block_table_tensor
from mambaviz.config import MambaSpec
from mambaviz.reports.builder_calls import BuilderCall, chunk_ends, values
from mambaviz.reports.reading import NOTHING, Reading, numbers
from mambaviz.reports.replays import no_draft_model, prompt_twice, ring, without_the_stop
from mambaviz.scenario import Scenario
from mambaviz.trace import Trace
from mambaviz.worker.input_batch import BlockTable

Measured = dict[str, str]  # number by its name


def _pick(found: Mapping[str, str], *names: str, prefix: str = "") -> Measured:
    return {prefix + name: found[name] for name in names}


def _s01(run: Reading, _: bool) -> Measured:
    before = run.before_forward(2, "A")
    return {
        "running column before the reset": before["previous, current column"].split(", ")[1],
        **run.before_forward(3, "A"),
    }


def _s02(run: Reading, _: bool) -> Measured:
    return {
        **_pick(
            run.after_acceptance(1, "A"),
            "running, new, aligned",
            "post-copy bias",
            "post-copy conv",
            "post-copy temporal",
            "accepted count out",
        ),
        **_pick(
            run.before_forward(2, "A"),
            "previous, current column",
            "columns of the row",
            "pre-copy bias",
            "pre-copy conv",
            "pre-copy temporal",
        ),
    }


def _s03(run: Reading, _: bool) -> Measured:
    block = run.worker_row(1, "A")[1]
    before, after = (run.window(1, phase, block) for phase in ("forward", "post-copy"))
    letters = dict(zip(before, "abcde", strict=True))
    return {
        **run.after_acceptance(1, "A"),
        "window rows before": " ".join(letters[token] for token in before),
        "window rows after": " ".join(letters[token] for token in after),
        "tokens in them": run.window_words(1, "post-copy", block),
    }


def _s04(run: Reading, with_fault: bool) -> Measured:
    found = run.decision(1, "post-copy", "A")
    assert found.src_col is not None
    assert found.new is not None
    assert found.accepted is not None
    # What a program reads that starts after the first one has stored the count it resets.
    read = found.accepted_out if with_fault else found.accepted
    assert read is not None
    late = decide_postprocess_advanced(0, read, found.src_col, found.new, 4)
    changed = run.trace.steps[1].phase("post-copy").changes
    return {
        **run.after_acceptance(1, "A"),
        "late layers: running, bias": numbers([late.running, late.bias]),
        "late layers: outcome": late.outcome.value,
        "states that moved": str(len({(c.layer, c.state) for c in changed})),
    }


def _s05(run: Reading, with_fault: bool) -> Measured:
    found = run.decision(1, "post-copy", "X")
    assert found.src_col is not None
    assert found.bias is not None
    assert found.dst_col is not None
    # The ids of the report: the tables of its step t, or of t + 2, at X's old batch row.
    rows = {name: [tens + i for i in range(1, 7)] for name, tens in (("X", 30), ("Y", 20))}
    row = rows["Y" if with_fault else "X"]
    written = _blocks_written(run, 1)
    return {
        **run.after_acceptance(1, "X"),
        "temporal block": f"{row[found.src_col + found.bias]} → {row[found.dst_col]}",
        "conv block": f"{row[found.src_col]} shift {found.bias} → {row[found.dst_col]}",
        "whose column 1 is written in our run": written,
    }


def _blocks_written(run: Reading, step: int) -> str:
    changed = {change.block for change in run.trace.steps[step].phase("post-copy").changes}
    owners = [
        name
        for name in run.trace.steps[step].batch_order
        if run.worker_row(step, name)[1] in changed
    ]
    return ", ".join(owners) or "nobody's"


def _s08(run: Reading, _: bool) -> Measured:
    listed = run.block_list(1, "A")[0]
    block = run.worker_row(1, "A")[0]
    return {
        "tokens of A in step 0": run.scheduled(0, "A"),
        "chunk ends of A": run.chunk_ends("A"),
        **_pick(
            run.before_forward(1, "A"),
            "previous, current column",
            "columns of the row",
            "pre-copy conv",
            "pre-copy temporal",
        ),
        "column 0 holds": run.absorbed(1, "commit", block) if listed else "null",
        "column 0 is registered for": run.registered(1, block) if block else NOTHING,
        "hit of B": run.hit("B"),
    }


def _s09(run: Reading, with_fault: bool) -> Measured:
    last = len(run.chunk_ends("A").split(", ")) - 1
    cached = run.trace.tables_after(last, "commit").registered.values()
    states = sorted(int(prefix.rpartition("@")[2]) for prefix in cached)

    def hit(length: int) -> str:
        scenario = prompt_twice(length)
        return _run(without_the_stop(scenario) if with_fault else scenario).hit("B")

    return {
        "chunk ends": run.chunk_ends("A"),
        "cached states": numbers(states),
        "most a hit may cover": str(32 - 1),
        "hit of 32": run.hit("B"),
        "hit of 48": hit(48),
        "hit of 31": hit(31),
        "hit of 33": hit(33),
    }


def _s11(run: Reading, _: bool) -> Measured:
    counts = run.trace.tables_after(2, "allocate").rows
    row = run.worker_row(2, "C")
    return {
        "kept in step N by A, B, C": numbers(
            [run.trace.tables_after(1, "accept").rows[name].num_accepted for name in "ABC"]
        ),
        "counts of C, B, E": numbers([counts[name].num_accepted for name in "CBE"]),
        "C's count": str(counts["C"].num_accepted),
        **run.before_forward(2, "C"),
        "C's state then": run.absorbed(2, "pre-copy", row[2]),
    }


def _s13(run: Reading, _: bool) -> Measured:
    names = {"last scheduled": "block_idx_last_scheduled_token",
             "last computed": "block_idx_last_computed_token"}  # fmt: skip
    return {
        f"{words} column, group {group}": numbers(run.metadata(3, field, group))
        for group in (0, 1)
        for words, field in names.items()
    }


def _s14(_: Reading, with_fault: bool) -> Measured:
    stale = [[7, 8], [9, 0], [0, 0]]
    blocks = [[0, 4], *(stale if with_fault else [[0, 0]] * 3)]
    call = BuilderCall(
        [1, 0, 0, 0], [20, 0, 0, 0], [False] * 4, mode="align", blocks=blocks, full_graphs=True
    )
    built = call.build()
    return {
        "decodes, prefills, decode tokens": numbers(
            [built.num_decodes, built.num_prefills, built.num_decode_tokens]
        ),
        "state indices": numbers(values(built.state_indices_tensor_d[:, 0])),
    }


def _s16(run: Reading, with_fault: bool) -> Measured:
    built = BuilderCall([1, 1], [12, 1], [False, True]).build(
        "first-chunk-as-decode" if with_fault else None
    )
    block = run.worker_row(8, "B")[0]
    return {
        "decodes, prefills": numbers([built.num_decodes, built.num_prefills]),
        "decode tokens, prefill tokens": numbers(
            [built.num_decode_tokens, built.num_prefill_tokens]
        ),
        "has initial state": str(values(built.has_initial_states_p)).lower(),
        "chunks": numbers(values(built.cu_chunk_seqlen_p)) or NOTHING,
        "our run: decodes, prefills": numbers(
            [run.metadata(8, "num_decodes"), run.metadata(8, "num_prefills")]
        ),
        "B's state after one token": run.absorbed(8, "forward", block),
    }


def _s17(run: Reading, with_fault: bool) -> Measured:
    built = BuilderCall([1, 1], [12, 10], [False, True]).build(
        "short-extend-as-prefill" if with_fault else None
    )
    queries = [request.num_scheduled for request in run.trace.steps[3].requests.values()]
    return {
        "decodes, prefills": numbers([built.num_decodes, built.num_prefills]),
        "decode tokens, prefill tokens": numbers(
            [built.num_decode_tokens, built.num_prefill_tokens]
        ),
        "our run: queries": numbers(queries),
        "our run: decodes, prefills": numbers(
            [run.metadata(3, "num_decodes"), run.metadata(3, "num_prefills")]
        ),
    }


def _s20(_: Reading | None, with_fault: bool) -> Measured:
    block_size = 6 if with_fault else 8
    call = BuilderCall([14], [14], [True], mode="all", block_size=block_size)
    built = call.build()
    ends = chunk_ends(built, [0])
    stride = block_size // 4
    boundaries = values(built.block_idx_last_scheduled_token)[0]
    picked = [(column + 1) * stride - 1 for column in range(boundaries)]
    return {
        "chunks": numbers(values(built.cu_chunk_seqlen_p)),
        "chunk ends": numbers(ends),
        "columns: last computed, first and last scheduled": numbers(
            values(built.block_idx_last_computed_token)
            + values(built.block_idx_first_scheduled_token_p)
            + values(built.block_idx_last_scheduled_token)
        ),
        "stride": str(stride),
        "chunks picked": numbers(picked),
        "states in the blocks": ", ".join(f"h({ends[chunk]})" for chunk in picked),
        "states that belong there": ", ".join(
            f"h({(column + 1) * block_size})" for column in range(boundaries)
        ),
    }


def _s21(run: Reading, _: bool) -> Measured:
    row = run.worker_row(1, "A")
    return {
        "chunks of step 1": numbers(run.metadata(1, "cu_chunk_seqlen_p")),
        "columns: last computed, first and last scheduled": numbers(
            [
                *run.metadata(1, "block_idx_last_computed_token"),
                *run.metadata(1, "block_idx_first_scheduled_token_p"),
                *run.metadata(1, "block_idx_last_scheduled_token"),
            ]
        ),
        "states written before the last": str(run.metadata(1, "num_state_writes_p")),
        "block 0 holds": run.absorbed(1, "commit", row[0]),
        "block 0 is registered for": run.registered(1, row[0]),
        "block 1 holds": run.absorbed(1, "commit", row[1]),
    }


def _s22(run: Reading, _: bool) -> Measured:
    row = run.worker_row(2, "A")
    return {
        "columns: last computed, first and last scheduled": numbers(
            [
                *run.metadata(2, "block_idx_last_computed_token"),
                *run.metadata(2, "block_idx_first_scheduled_token_p"),
                *run.metadata(2, "block_idx_last_scheduled_token"),
            ]
        ),
        "column 0 rows": run.window_words(2, "forward", row[0]),
        "column 1 rows": run.window_words(2, "forward", row[1]),
    }


def _s24(run: Reading, with_fault: bool) -> Measured:
    none = Reading(_trace(ring("none")))
    steps = range(1, 7)

    def field(found: Reading, name: str) -> str:
        return numbers([found.metadata(step, name)[0] for step in steps])

    def leftover(computed: int, base: int) -> str:
        one: Any = torch.ones(1, dtype=torch.int32).numpy()
        found = ring_steps(computed * one, one, base * one, 4, None if with_fault else 8)
        return numbers([int(found.write_pos[0]), int(found.is_flush[0])])

    block = run.worker_row(2, "A")[0]
    return {
        "align: write position": field(run, "write_pos_d"),
        "align: flush": field(run, "is_flush_d"),
        "at 8 computed: position, flush": numbers(
            [run.metadata(3, "write_pos_d")[0], run.metadata(3, "is_flush_d")[0]]
        ),
        "block 0 at the boundary": run.absorbed(2, "commit", block),
        "none: write position": field(none, "write_pos_d"),
        "none: flush": field(none, "is_flush_d"),
        "leftover prompt token (computed 9, base 10)": leftover(9, 10),
        "resumed at 11": leftover(11, 11),
    }


def _s26(run: Reading, _: bool) -> Measured:
    blocks = run.worker_row(1, "A")
    ids = run.metadata(2, "state_indices_tensor_d")[0]
    offset = run.metadata(2, "num_accepted_tokens")[0] - 1
    return {
        "states of step t": " ".join(run.absorbed(1, "forward", block) for block in blocks),
        "drafts of step t + 1": str(run.trace.steps[2].requests["A"].drafts),
        "column read in t + 1": str(blocks.index(ids[offset])),
        "state read in t + 1": run.absorbed(1, "commit", ids[offset]),
        "window offset": str(offset),
    }


def _s29(run: Reading, _: bool) -> Measured:
    row = run.worker_row(2, "A")
    before = _channels(run, 1, row[1])
    after = _channels(run, 2, row[2], "pre-copy")
    # The fresh destination holds zeros where nothing was written.
    names = {0.0: "*"} | {
        value: f"{'ab'[channel]}{token}"
        for channel, tokens in enumerate(before)
        for token, value in enumerate(tokens)
    }
    copy = run.copy(2, "pre-copy", "A", "conv")
    assert copy is not None
    rows = [" ".join(names[value] for value in tokens) for tokens in after]
    source = copy.source
    assert source is not None
    target = copy.target
    assert target is not None
    return {
        "bias": str(copy.bias),
        "channel a then": rows[0],
        "channel b then": rows[1],
        "planned: bytes a row, rows, row stride": numbers(
            [source.length, source.rows, source.stride]
        ),
        "planned: bias in bytes": str(source.start - target.start),
    }


def _channels(run: Reading, step: int, block: int, phase: Any = "commit") -> list[list[float]]:
    raw = run.trace.contents_after(step, phase)[0, "conv", block]
    return run.trace.spec_of[0, "conv"].decode(raw).tolist()


def _s32(run: Reading, _: bool) -> Measured:
    row = run.worker_row(1, "A")
    return {
        "chunk ends": run.chunk_ends("A"),
        "chunk ends without a draft model": _run(no_draft_model(run.trace.scenario)).chunk_ends(
            "A"
        ),
        "after step 0: list": numbers(run.block_list(0, "A")),
        "after step 0: worker": numbers(run.worker_row(0, "A")),
        "after step 1: list": numbers(run.block_list(1, "A")),
        "after step 1: worker": numbers(row),
        "column 0, column 2 hold": numbers(
            [run.absorbed(1, "commit", row[0]), run.absorbed(1, "commit", row[2])]
        ),
        "block 2 is registered for": run.registered(1, row[1]),
        "hit of B": run.hit("B"),
    }


def _s33(_: Reading | None, with_fault: bool) -> Measured:
    width = 16 if with_fault else 32
    row = list(range(1, 18))  # 257 tokens in blocks of 16
    flat = [0] * (2 * width)
    flat[: len(row)] = row  # a copy that trusts the length of the row
    spilled = flat[width : width + len(row) - len(row[:width])]
    table = BlockTable(2, width, torch.device("cpu"))
    try:
        table.fill([row])
        filled = "fits"
    except ValueError as error:
        filled = str(error)
    spec = MambaSpec(
        block_size=16, shapes=((3, 4),), dtypes=(torch.float32,), mamba_cache_mode="align"
    )
    lengths = torch.tensor([257], dtype=torch.int32)
    ids = torch.tensor([flat[:width]], dtype=torch.int32)
    try:
        read = mamba_get_block_table_tensor(ids, lengths, spec, "align")
        found = f"block {int(read[0, 0])}"
    except ValueError as error:
        found = str(error)
    return {
        "width": str(width),
        "blocks of the request": str(len(row)),
        "running column": str((257 - 1) // 16),
        "spilt into the next row": numbers(spilled) if spilled else "nothing",
        "our table": filled,
        "our builder reads": found,
    }


def _s36(run: Reading, with_fault: bool) -> Measured:
    call = BuilderCall([5, 9], [5, 15], [True, True], mode="all", block_size=8)
    built = call.build("chunks-on-a-fixed-grid" if with_fault else None)
    assert built.nums_dict is not None
    programs = built.nums_dict[8]
    return {
        "chunks": numbers(values(built.cu_chunk_seqlen_p)),
        "prefill of each chunk": numbers(values(built.seq_idx_p)),
        "last chunks": numbers(values(built.last_chunk_indices_p)),
        "chunk ends": numbers(chunk_ends(built, call.computed())),
        "has initial state": str(values(built.has_initial_states_p)).lower(),
        "conv programs: nums, tot": f"{programs['nums'].tolist()}, {programs['tot']}",
        "conv programs: mlist, offsetlist": (
            f"{programs['mlist'].tolist()}, {programs['offsetlist'].tolist()}"
        ),
        "states written before the last": str(built.num_state_writes_p),
        "our run, B before A: chunks": numbers(run.metadata(1, "cu_chunk_seqlen_p")),
    }


def _s37(run: Reading, _: bool) -> Measured:
    return {
        "tokens of A in step 0": run.scheduled(0, "A"),
        "chunk ends": run.chunk_ends("A"),
        "steps until the run gives up": (
            str(len(run.trace.steps)) if run.trace.steps[-1].stuck else NOTHING
        ),
    }


def _trace(scenario: Scenario) -> Trace:
    return engine.run(scenario, backend="reference")


def _run(scenario: Scenario) -> Reading:
    return Reading(_trace(scenario))


_OF_A_RUN: Mapping[str, Callable[[Reading, bool], Measured]] = {
    "S01": _s01,
    "S02": _s02,
    "S03": _s03,
    "S04": _s04,
    "S05": _s05,
    "S08": _s08,
    "S09": _s09,
    "S11": _s11,
    "S13": _s13,
    "S14": _s14,
    "S16": _s16,
    "S17": _s17,
    "S21": _s21,
    "S22": _s22,
    "S24": _s24,
    "S26": _s26,
    "S29": _s29,
    "S32": _s32,
    "S36": _s36,
    "S37": _s37,
}
_OF_A_FUNCTION: Mapping[str, Callable[[None, bool], Measured]] = {"S20": _s20, "S33": _s33}


def measure(report: str, trace: Trace | None, with_fault: bool) -> Measured:
    """Every number of a report as it comes out; ``trace`` is None where there is no run."""
    if report in _OF_A_FUNCTION:
        return _OF_A_FUNCTION[report](None, with_fault)
    assert trace is not None
    return _OF_A_RUN[report](Reading(trace), with_fault)
