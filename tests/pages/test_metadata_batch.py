"""A batch as data: what is refused and with which sentence, imports from runs, the presets."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from mambaviz.batch import (
    BATCHES,
    DEFAULT_BATCH,
    Batch,
    BatchError,
    build,
    fresh_blocks,
    from_trace_step,
    parse,
)
from mambaviz.batch_build import bytes_written
from mambaviz.batch_record import BatchRecord, recorded
from mambaviz.engine import run
from mambaviz.pages import runs
from mambaviz.scenario import PRESETS, from_recording
from mambaviz.scenario import build as build_scenario
from mambaviz.trace import Metadata, TensorRecord, Trace

GOLDEN = Path(__file__).parents[1] / "golden"

A = {"request": "A", "computed": 20, "query": 3, "drafts": 2, "accepted": 2, "blocks": [1, 2, 3, 4]}
B = {"request": "B", "computed": 0, "query": 6, "prefilling": True, "blocks": [5, 6, 7]}


def batch(*rows: dict[str, Any], **settings: Any) -> Batch:
    """Two drafts, blocks of 16, chunks of 8, as far as nothing else is said."""
    return build({"num_spec": 2, **settings, "rows": list(rows or (A, B))})


def refused(*rows: dict[str, Any], **settings: Any) -> str:
    with pytest.raises(BatchError) as caught:
        batch(*rows, **settings)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert "validation error" not in sentence
    return sentence


def plain(**row: Any) -> dict[str, Any]:
    """A row without drafts, for batches without any."""
    return {"request": "A", "computed": 20, "query": 1, "blocks": [1, 2], **row}


# --------------------------------------------------------------------------------------
# What cannot be
# --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "settings", "says"),
    [
        # The order of a batch.
        ([B, A], {}, ["row 1 (A), prefilling", "a decode", "row 0 (B), a prefill", "order"]),
        (
            [B, {**A, "prefilling": True, "query": 1, "drafts": None}],
            {},
            ["row 1 (A)", "a short extend", "row 0 (B)"],
        ),
        # Lengths.
        ([{**A, "query": 4}], {}, ["row 0 (A), query = 4", "with 2 drafts it must be 3"]),
        ([{**A, "drafts": 3, "query": 4}], {}, ["row 0 (A), drafts = 3", "at most 2"]),
        ([{**A, "accepted": 4}], {}, ["row 0 (A), accepted = 4", "1 + 2", "keeps 1 to 3"]),
        ([{**B, "accepted": 2}], {}, ["row 0 (B), accepted = 2", "only 0 tokens"]),
        ([{**A, "query": 0, "drafts": None}], {}, ["row 0 (A), query = 0", "needs a token"]),
        ([{**A, "computed": 62}], {}, ["row 0 (A), query = 3", "token 65", "length of 64"]),
        ([{**A, "computed": -1}], {}, ["row 0, computed = -1", "greater than or equal to 0"]),
        ([{**A, "computed": None}], {}, ["row 0, computed", "empty"]),
        ([{**A, "spin": 1}], {}, ["row 0, spin", "no such field"]),
        ([A, {**B, "request": "A"}], {}, ["row 1 (A), request", "taken"]),
        # Blocks.
        ([{**A, "blocks": [1, 2, 3, 32]}], {}, ["row 0 (A), worker row", "block 32", "0 to 31"]),
        ([{**A, "blocks": [1, 2, 3]}], {}, ["row 0 (A), worker row: 3 ids", "columns 0 to 3"]),
        ([{**A, "blocks": [1, 2, 0, 4]}], {}, ["row 0 (A), worker row: column 2", "null block"]),
        (
            [A, {**B, "blocks": [3, 6, 7]}],
            {},
            ["row 1 (B), worker row: block 3", "row 0 (A) too"],
        ),
        (
            [{**A, "blocks": [1]}],
            {"mode": "none"},
            ["row 0 (A), worker row: 1 ids", "none mode", "columns 0 to 2"],
        ),
        (
            [{**A, "prev_last_scheduled": 4}],
            {"mode": "all"},
            ["row 0 (A), previous column = 4", "columns 0 to 3"],
        ),
        # Settings.
        ([A, B], {"mode": "all", "chunk_size": 5}, ["block size = 16", "chunk size (5)"]),
        ([A, B], {"builder": "mamba1"}, ["drafts = 2", "Mamba-1", "without drafts"]),
        ([A, B], {"replayssm_buffer_len": 4}, ["drafts = 2", "ReplaySSM"]),
        ([A, B], {"max_num_seqs": 1}, ["max requests = 1", "2 rows"]),
        ([A, B], {"block_size": 0}, ["block size = 0", "allowed 1 to 4096"]),
        ([A, B], {"mode": "some"}, ["cache mode = 'some'", "'none', 'align' or 'all'"]),
        ([A], {"pad_to": 4}, ["padded to = 4", "full graphs"]),
        ([A, B], {"pad_to": 4, "full_graphs": True}, ["padded to = 4", "row 1 (B) is a prefill"]),
        ([A], {"pad_to": 9, "full_graphs": True}, ["padded to = 9", "max requests (8)"]),
        # ReplaySSM.
        (
            [plain()],
            {"num_spec": 0, "replayssm_buffer_len": 4},
            ["row 0 (A), replay base", "empty"],
        ),
        (
            [plain(decode_base=21)],
            {"num_spec": 0, "replayssm_buffer_len": 4},
            ["row 0 (A), replay base = 21", "computed 20 is below", "prefilling"],
        ),
        (
            [plain(decode_base=20)],
            {"num_spec": 0, "replayssm_buffer_len": 4, "mode": "all"},
            ["cache mode = all", "none and align"],
        ),
    ],
)
def test_a_batch_that_cannot_be_gets_a_sentence_with_row_and_field(
    rows: list[dict[str, Any]], settings: dict[str, Any], says: list[str]
) -> None:
    sentence = refused(*rows, **settings)
    for part in says:
        assert part in sentence, sentence


def test_what_is_no_json_is_said() -> None:
    with pytest.raises(BatchError, match="this is not JSON"):
        parse("{rows")
    with pytest.raises(BatchError, match="rows: this field is required"):
        parse("{}")


def test_an_accepted_count_above_the_query_is_what_a_step_without_drafts_sees() -> None:
    """The count is of the step before: three kept, then a query of one."""
    row = {**A, "query": 1, "drafts": None, "accepted": 3}
    assert batch(row).build().numbers("num_accepted_tokens") == [3]


def test_rows_may_share_what_none_of_them_writes() -> None:
    """A hit on one prefix, and an id that a row keeps after its list dropped it."""
    shared = {**B, "request": "C", "computed": 16, "blocks": [1, 8, 9, 10]}
    assert len(batch(A, shared).rows) == 2
    in_all_mode = {**shared, "blocks": [1, 8]}
    assert len(batch(A, in_all_mode, mode="all").rows) == 2


def test_fresh_blocks_make_a_row_as_long_as_it_has_to_be() -> None:
    bare = [{**A, "blocks": []}, {**B, "blocks": []}]

    def ids(**settings: Any) -> list[list[int]]:
        made = build(fresh_blocks({"num_spec": 2, "rows": bare, **settings}))
        return [row.blocks for row in made.rows]

    assert ids() == [[1, 2, 3, 4], [5, 6, 7]]
    assert ids(mode="none") == [[1, 2, 3], [4, 5, 6]]
    many = ids(block_size=4, num_blocks=2)  # the pool grows with what is asked of it
    assert [len(row) for row in many] == [8, 4]


def test_the_hash_is_of_what_the_builder_is_given() -> None:
    assert batch(name="x", story="y").content_hash == batch().content_hash
    assert batch(chunk_size=4).content_hash != batch().content_hash


# --------------------------------------------------------------------------------------
# From a run
# --------------------------------------------------------------------------------------


def trace_of(slug: str) -> Trace:
    found = runs.recorded(slug)
    assert found is not None
    return found.trace


def fields(metadata: Metadata) -> dict[str, Any]:
    found = {field.name: field.value for field in metadata.fields}
    scratch = found["bc_pre_scratch"]
    if scratch is not None:  # what the kernels of earlier steps left there means nothing
        found["bc_pre_scratch"] = scratch.model_copy(update={"values": []})
    return found


def reproduced(trace: Trace) -> int:
    """Build every step's batch anew; how many came out as the run recorded them."""
    count = 0
    for index, step in enumerate(trace.steps):
        for metadata in step.metadata:
            record = from_trace_step(trace, index, metadata.group).build()
            assert fields(record.metadata) == fields(metadata), (trace.scenario.name, index)
            count += 1
    return count


@pytest.mark.parametrize("slug", sorted(PRESETS))
def test_a_step_of_a_preset_gives_its_metadata_again(slug: str) -> None:
    assert reproduced(trace_of(slug)) >= 3


def golden_scenarios() -> list[dict[str, Any]]:
    """Recordings of a real engine: all mode with drafts, two groups, preemption."""
    text = (GOLDEN / "engine.json").read_text(encoding="utf-8")
    found = json.loads(text)
    wanted: dict[tuple[Any, ...], dict[str, Any]] = {}
    for trace in found:
        if not any(step["reqs"] for step in trace["steps"]):
            continue
        config = trace["config"]
        kinds = tuple(config.get("group_kinds") or config["effective"]["managers"])
        preempts = any(action[1] == "preempt" for action in trace["actions"])
        wanted.setdefault((config["mode"], config["S"] > 0, len(kinds), preempts), trace)
    return list(wanted.values())


@pytest.mark.parametrize("recording", golden_scenarios(), ids=lambda recording: recording["id"])
def test_a_step_of_a_recorded_engine_gives_its_metadata_again(recording: dict[str, Any]) -> None:
    assert reproduced(run(from_recording(recording), backend="reference")) > 0


@pytest.mark.parametrize("mode", ["none", "align"])
def test_a_step_with_replayssm_gives_its_metadata_again(mode: str) -> None:
    engine = {"mode": mode, "num_spec": 0, "replayssm_buffer_len": 3, "num_blocks": 20}
    scenario = PRESETS["plain-decode"].model_dump()
    scenario["engine"] |= engine
    scenario["requests"] = [
        {"id": "A", "prompt_len": 5, "max_tokens": 8},
        {"id": "B", "prompt_len": 7, "max_tokens": 6, "arrive": 1},
    ]
    assert reproduced(run(build_scenario(scenario), backend="reference")) > 5


def test_a_step_without_a_batch_has_none() -> None:
    trace = trace_of("plain-decode")
    empty = trace.steps[0].model_copy(update={"batch_order": []})
    with pytest.raises(BatchError, match="step 0 of this run scheduled nothing"):
        from_trace_step(trace.model_copy(update={"steps": [empty]}), 0)


# --------------------------------------------------------------------------------------
# Recorded batches of the builder
# --------------------------------------------------------------------------------------


def golden_batches() -> list[dict[str, Any]]:
    return json.loads((GOLDEN / "builder.json").read_text(encoding="utf-8"))


def of_golden(case: dict[str, Any]) -> Batch:
    config, given = case["config"], case["inputs"]
    queries = [b - a for a, b in pairwise(given["query_start_loc"])]
    real = [row for row, length in enumerate(given["seq_lens"]) if length]
    drafts = given.get("num_decode_draft_tokens_cpu", [-1] * len(queries))
    bases = given.get("replayssm_decode_base_cpu")
    columns = given.get("prev_last_scheduled_idx", [-1] * len(queries))
    return build(
        {
            "builder": "base",
            "mode": config["mode"],
            "block_size": case["block_size"],
            "num_spec": config["spec"],
            "num_blocks": 4096,
            "chunk_size": 1,
            "max_num_seqs": config["max_seqs"],
            "max_model_len": config["max_len"],
            "accepted_given": "num_accepted_tokens" in given,
            "full_graphs": config["full_cg"],
            "max_capture_size": config["cap"],
            "pad_to": len(queries) if len(real) < len(queries) else 0,
            "replayssm_buffer_len": config["buf"] if config["replay"] else 0,
            "rows": [
                {
                    "request": f"r{row}",
                    "computed": given["seq_lens"][row] - queries[row],
                    "query": queries[row],
                    "prefilling": given["is_prefilling"][row],
                    "drafts": drafts[row] if drafts[row] >= 0 else None,
                    "accepted": given.get("num_accepted_tokens", [1] * len(queries))[row],
                    "blocks": given["block_table"][row],
                    "decode_base": bases[row] if bases else None,
                    "prev_last_scheduled": columns[row] if columns[row] >= 0 else None,
                }
                for row in real
            ],
        }
    )


def unfolded(value: Any) -> Any:
    if not isinstance(value, TensorRecord) or value.fill is None:
        return value.values if isinstance(value, TensorRecord) else value
    return value.values + [value.fill] * (value.shape[0] - len(value.values))


def test_recorded_batches_that_can_be_edited_give_their_recorded_metadata() -> None:
    """Random batches of a real builder; those that no scheduler would make are refused here."""
    compared = 0
    for case in golden_batches():
        try:
            made = of_golden(case)
        except BatchError:
            continue
        found = fields(made.build().metadata)
        for name, expected in case["expected"].items():
            if name.startswith("chunk_") or isinstance(expected, dict):
                continue
            assert unfolded(found[name]) == expected, (case["id"], name)
        compared += 1
    assert compared > 100


# --------------------------------------------------------------------------------------
# Presets
# --------------------------------------------------------------------------------------


def rules(record: BatchRecord) -> list[str]:
    return [row.rule for row in record.rows]


def test_the_default_is_the_first_preset() -> None:
    assert next(iter(BATCHES)) == DEFAULT_BATCH


@pytest.mark.parametrize("slug", sorted(BATCHES))
def test_a_preset_is_told_in_two_sentences_and_its_record_is_what_the_builder_says(
    slug: str,
) -> None:
    """If this fails after a change of the builder: ``python -m mambaviz.batch_build``."""
    preset = BATCHES[slug]
    assert 1 <= preset.story.count(".") <= 2
    assert len(preset.story) <= 170
    assert recorded(slug) == preset.build()
    assert parse(preset.model_dump_json(exclude_defaults=True)) == preset


def test_decodes() -> None:
    assert rules(recorded("decode")) == ["DECODING"] * 3


def test_short_extend() -> None:
    assert rules(recorded("short-extend")) == ["DECODING", "ONE_TOKEN_EXTEND", "LONG_QUERY"]


def test_padded_prompt_tail() -> None:
    record = recorded("padded-prompt-tail")
    assert rules(record) == ["DECODING", "PADDED_TAIL"]
    assert record.value("num_prefills") == 0


def test_one_token_first_chunk() -> None:
    record = recorded("one-token-first-chunk")
    assert rules(record) == ["DECODING", "FIRST_CHUNK", "LONG_QUERY"]
    assert record.batch.rows[1].query == 1
    assert record.numbers("has_initial_states_p") == [False, False]


def test_long_query() -> None:
    record = recorded("long-query")
    assert rules(record)[:2] == ["DECODING", "LONG_QUERY"]
    assert not record.batch.rows[1].prefilling
    assert record.split == 1


def test_all_mode_columns() -> None:
    record = recorded("all-mode-columns")
    assert record.numbers("block_idx_last_computed_token") == [2, 0, 0]
    assert record.numbers("block_idx_first_scheduled_token_p") == [1, 0]
    assert record.numbers("block_idx_last_scheduled_token") == [2, 2, 2]
    assert record.value("num_state_writes_p") == 3


def test_all_mode_with_drafts() -> None:
    """A's step before reached further than its kept tokens; B's is not known."""
    record = recorded("all-mode-with-drafts")
    assert record.numbers("block_idx_last_scheduled_token_prev_step")[:2] == [2, 1]
    assert record.numbers("block_idx_last_computed_token")[0] == 1


def test_chunks_unaligned() -> None:
    record = recorded("chunks-unaligned")
    assert record.numbers("cu_chunk_seqlen_p")[:5] == [0, 4, 5, 6, 9]  # the example of 4.7
    assert record.numbers("last_chunk_indices_p")[:2] == [1, 3]


def test_conv_programs() -> None:
    programs = recorded("conv-programs").value("nums_dict")["8"]
    assert programs["nums"]["values"] == [1, 1, 3]


def test_graph_padding() -> None:
    record = recorded("graph-padding")
    assert record.graph is not None
    assert (record.graph.limit, record.graph.why_not) == (8, "")
    assert rules(record) == ["DECODING"] * 3 + ["PADDING"] * 3
    assert record.numbers("state_indices_tensor_d")[3:] == [[0, 0, 0]] * 3
    assert record.numbers("num_accepted_tokens")[3:] == [1, 1, 1]
    assert {"state_indices_tensor_d", "num_accepted_tokens"} <= set(record.keeps_address)


def test_replayssm() -> None:
    record = recorded("replayssm")
    assert record.numbers("write_pos_d") == [1, 3, 0]
    assert record.numbers("is_flush_d") == [0, 1, 1]
    assert record.keeps_address == ["bc_pre_scratch"]


def test_mamba_1_blocks() -> None:
    record = recorded("mamba-1-blocks")
    assert record.numbers("cu_chunk_seqlen_p") == [0, 3, 11, 14, 22, 23]


def test_one_of_each_rule_is_the_visual_target() -> None:
    record = recorded(DEFAULT_BATCH)
    assert record.split == 3
    assert record.numbers("state_indices_tensor_d") == [[3, 7, 9], [4, 5, 6], [11, 12, 13]]
    assert record.numbers("state_indices_tensor_p") == [14, 17, 21]
    assert record.numbers("cu_chunk_seqlen_p") == [0, 4, 12, 16, 24, 25]
    assert record.keeps_address == []


# --------------------------------------------------------------------------------------
# What is recorded beside the tensors
# --------------------------------------------------------------------------------------


def test_numbers_point_to_the_cells_that_hold_their_blocks() -> None:
    for slug in BATCHES:
        record = recorded(slug)
        for name in ("state_indices_tensor_d", "state_indices_tensor_p"):
            values = record.numbers(name)
            flat = [v for row in values for v in row] if values and name[-1] == "d" else values
            flat = [v for row in flat for v in (row if isinstance(row, list) else [row])]
            for block, point in zip(flat, record.points.get(name, []), strict=True):
                if point is None:
                    assert block == 0
                else:
                    assert record.batch.rows[point.row].blocks[point.column] == block


def test_a_graph_that_does_not_fit_says_so() -> None:
    rows = [
        {**A, "request": name, "blocks": list(range(4 * i + 1, 4 * i + 5))}
        for i, name in enumerate("ABC")
    ]
    record = batch(*rows, full_graphs=True, max_capture_size=2).build()
    assert record.graph is not None
    assert record.graph.why_not == "3 rows do not fit the 2 of the largest graph"
    assert record.keeps_address == []
    with_prefill = batch(A, B, full_graphs=True).build().graph
    assert with_prefill is not None
    assert "prefills" in with_prefill.why_not


def test_the_ring_is_stepped_through_the_builder() -> None:
    """Section 4.8 by hand: base 9, ring of 4, blocks of 16."""
    ring = recorded("replayssm").rings[0]
    assert [step.computed for step in ring.steps[:8]] == list(range(10, 18))
    assert [step.write_pos for step in ring.steps[:8]] == [1, 2, 3, 0, 1, 2, 0, 1]
    flushes = [step.computed for step in ring.steps if step.is_flush]
    assert flushes[:3] == [12, 15, 19]  # full, end of a block, full
    assert [step.anchor for step in ring.steps[4:8]] == [9, 9, 16, 16]
    sizes = bytes_written(recorded("replayssm").batch)
    assert sizes == {"state": 80 * 64 * 128 * 4, "entry": 4 * (80 * 64 + 80 + 128)}
    assert [step.written for step in ring.steps[:3]] == [
        sizes["entry"],
        sizes["entry"],
        sizes["state"],
    ]
    assert {step.plain for step in ring.steps} == {sizes["state"]}


def test_a_batch_costs_no_torch_before_it_is_built() -> None:
    code = (
        "import sys; from mambaviz.batch_record import recorded; "
        "from mambaviz.viz.batch.view import build_html; build_html(recorded('replayssm')); "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
