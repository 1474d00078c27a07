"""The Metadata page's pictures, by coordinate and by word."""

from __future__ import annotations

import re
from typing import Any

import pytest

from mambaviz.attention.fields import FIELDS
from mambaviz.batch import BATCHES, DEFAULT_BATCH, build
from mambaviz.batch_record import BatchRecord, recorded
from mambaviz.viz.batch import fields, view, words
from mambaviz.viz.batch.blocks import block_scene
from mambaviz.viz.batch.chunks import chunk_scene
from mambaviz.viz.batch.graph import graph_scene
from mambaviz.viz.batch.ring import dial_scene, readable, ring_scene
from mambaviz.viz.batch.split import split_scene
from mambaviz.viz.scene import Mark, Rect, Scene, Text
from mambaviz.viz.svg import inline, to_svg
from mambaviz.viz.theme import BATCH

MIXED = recorded(DEFAULT_BATCH)


def texts(mark: Mark) -> list[str]:
    return [part.text for part in mark.body.parts if isinstance(part, Text)]


def width(mark: Mark) -> float:
    return next(part.w for part in mark.body.parts if isinstance(part, Rect))


def names(scene: Scene, start: str) -> list[str]:
    return [mark.name for mark in scene.marks if mark.name.startswith(start)]


def built(slug: str = DEFAULT_BATCH, **changes: Any) -> BatchRecord:
    return build({**BATCHES[slug].model_dump(), **changes}).build()


# --------------------------------------------------------------------------------------
# Split
# --------------------------------------------------------------------------------------


def test_the_split_has_a_line_for_each_row_with_its_class_and_reason() -> None:
    scene = split_scene(MIXED)
    for index, row in enumerate(MIXED.rows):
        y = BATCH.heading + index * BATCH.row
        assert texts(scene.named(f"class-{index}")) == [row.row_class]
        assert scene.named(f"class-{index}").y == y
        assert texts(scene.named(f"reason-{index}")) == [row.reason]
    assert scene.height == BATCH.heading + 6 * BATCH.row


def test_the_query_tokens_are_drafts_prompt_and_generated() -> None:
    scene = split_scene(MIXED)
    assert names(scene, "query-0") == ["query-0-0", "query-0-1", "query-0-2"]
    kinds = [scene.named(f"query-0-{token}").body.cls for token in range(3)]
    assert kinds == ["tk generated", "tk pending", "tk pending"]
    assert scene.named("query-4-11").body.cls == "tk prompt"
    assert scene.named("query-4-11").x < BATCH.tokens


def test_the_cut_lies_between_the_last_decode_and_the_first_prefill() -> None:
    scene = split_scene(MIXED)
    cut = scene.named("split")
    assert texts(cut) == ["split at row 3"]
    assert scene.named("class-2").y + 19 <= cut.y <= scene.named("class-3").y
    assert not names(split_scene(recorded("decode")), "split")
    assert not names(split_scene(recorded("chunks-unaligned")), "split"), "nothing is before it"


def test_padding_rows_are_empty_and_a_long_query_is_cut_short() -> None:
    scene = split_scene(recorded("graph-padding"))
    assert [texts(scene.named(f"query-{row}")) for row in (3, 4, 5)] == [["empty"]] * 3
    row = (
        BATCHES["decode"]
        .rows[0]
        .model_copy(
            update={"query": 90, "computed": 0, "prefilling": True, "blocks": list(range(1, 7))}
        )
    )
    long = split_scene(built("decode", rows=[row.model_dump()], max_model_len=200))
    assert texts(long.named("query-0-more")) == ["… 90"]
    assert max(mark.x for mark in long.marks if mark.name.startswith("query-0")) < BATCH.classes


# --------------------------------------------------------------------------------------
# Chunk plan
# --------------------------------------------------------------------------------------


def test_tokens_chunks_and_programs_stand_below_each_other() -> None:
    scene = chunk_scene(MIXED)
    first = scene.named("token-0-12")  # D's first token
    assert first.x == pytest.approx(BATCH.plan_left, abs=2)
    for chunk, start in enumerate([0, 4, 12, 16, 24]):
        mark = scene.named(f"chunk-{chunk}")
        assert mark.x == pytest.approx(BATCH.plan_left + start * pitch(scene))
    assert width(scene.named("chunk-1")) == pytest.approx(8 * pitch(scene), abs=3)
    assert names(scene, "program-") == [f"program-{number}" for number in range(5)]
    assert scene.named("program-2").x == scene.named("chunk-2").x


def pitch(scene: Scene) -> float:
    return scene.named("token-0-13").x - scene.named("token-0-12").x


def test_last_chunks_are_heavy_and_states_are_named() -> None:
    scene = chunk_scene(MIXED)
    last = [n for n in names(scene, "chunk-") if "last" in scene.named(n).body.cls]
    assert last == ["chunk-0", "chunk-2", "chunk-4"]
    states = [texts(scene.named(f"state-{chunk}"))[0] for chunk in range(5)]
    assert states == ["h(16)", "h(8)", "h(12)", "h(24)", "h(25)"]
    assert texts(scene.named("chunk-0")) == ["chunk 0, 4 tokens, last"]


def test_block_boundaries_and_requests_are_marked() -> None:
    scene = chunk_scene(MIXED)
    assert names(scene, "boundary-") == ["boundary-0-16"]
    assert names(scene, "edge-") == ["edge-1", "edge-2"]
    assert texts(scene.named("prefill-1")) == ["E: 0 computed, tokens 0–11"]


def test_mamba_1_cuts_at_blocks_and_the_base_builder_not_at_all() -> None:
    assert "chunks of 8" in chunk_scene(recorded("mamba-1-blocks")).texts()
    bare = chunk_scene(built(builder="base"))
    assert not names(bare, "chunk-")
    assert names(bare, "program-")


def test_a_long_prefill_keeps_a_token_of_its_least_width() -> None:
    rows = [{**BATCHES["decode"].rows[0].model_dump(), "computed": 0, "query": 300}]
    rows[0] |= {"prefilling": True, "blocks": list(range(1, 20))}
    scene = chunk_scene(built("decode", rows=rows, max_model_len=400))
    xs = [mark.x for mark in scene.marks if re.fullmatch(r"token-0-\d+", mark.name)]
    assert xs[1] - xs[0] == pytest.approx(BATCH.least_token)
    assert scene.width > BATCH.plan_width


def test_a_prefill_of_no_tokens_is_a_chunk_without_length() -> None:
    """Section 4.7."""
    rows = [row.model_dump() for row in BATCHES["chunks-unaligned"].rows]
    rows[2] |= {"query": 0}
    scene = chunk_scene(built("chunks-unaligned", rows=rows))
    assert texts(scene.named("chunk-4"))[0] in ("", "4")
    assert scene.named("chunk-4").body.title == "chunk 4 of C: 0 tokens, last"


# --------------------------------------------------------------------------------------
# Block table
# --------------------------------------------------------------------------------------


def test_the_block_table_shows_roles_by_colour_and_letter() -> None:
    scene = block_scene(MIXED)
    assert texts(scene.named("cell-0-2")) == ["3 R"]
    assert texts(scene.named("cell-0-3")) == ["7 S"]
    assert texts(scene.named("cell-0-0")) == ["1"]
    assert "running" in scene.named("cell-5-1").body.cls
    column = scene.named("cell-1-1").x - scene.named("cell-1-0").x
    assert scene.named("cell-0-2").x == pytest.approx(scene.named("cell-0-0").x + 2 * column)
    assert scene.named("cell-1-0").y - scene.named("cell-0-0").y == BATCH.block_row


def test_all_mode_tells_kept_states_from_the_one_in_work() -> None:
    scene = block_scene(recorded("all-mode-columns"))
    assert [texts(scene.named(f"cell-0-{column}"))[0] for column in range(3)] == [
        "1 C",
        "2 C",
        "3 R",
    ]
    assert texts(scene.named("cell-1-0")) == ["4 C"]
    assert texts(scene.named("cell-2-0")) == ["7"], "to be written in this step"


def test_padding_rows_have_null_blocks() -> None:
    scene = block_scene(recorded("graph-padding"))
    assert texts(scene.named("padding-4")) == ["null blocks"]
    assert not names(scene, "cell-3")


# --------------------------------------------------------------------------------------
# Graph and ring
# --------------------------------------------------------------------------------------


def test_the_graph_tells_real_padding_and_unused_rows_apart() -> None:
    scene = graph_scene(recorded("graph-padding"))
    kinds = [scene.named(f"num_accepted_tokens-{row}").body.cls for row in range(8)]
    assert kinds == ["graph-cell real"] * 3 + ["graph-cell padding"] * 3 + ["graph-cell unused"] * 2
    assert texts(scene.named("state_indices_tensor_d-0")) == ["[2 3 4]"]
    assert texts(scene.named("state_indices_tensor_d-4")) == ["[0 0 0]"]
    assert texts(scene.named("query_start_loc_d-5")) == ["9"]
    assert texts(scene.named("field-num_accepted_tokens")) == [
        "num_accepted_tokens",
        "int32 [8], same memory ✓",
    ]


def test_the_ring_marks_flushes_anchors_and_bytes() -> None:
    record = recorded("replayssm")
    scene = ring_scene(record)
    assert texts(scene.named("step-0-0")) == ["10", "1"]
    flushes = [n for n in names(scene, "step-0-") if "flush" in scene.named(n).body.cls]
    assert flushes[:2] == ["step-0-2", "step-0-5"]
    assert scene.named("step-0-1").x - scene.named("step-0-0").x == BATCH.ring_cell
    assert names(scene, "anchor-0-") == ["anchor-0-9-0", "anchor-0-16-6"]
    plain, ring = scene.named("bytes-0-plain"), scene.named("bytes-0-ring")
    assert width(ring) < width(plain) / 3
    assert texts(ring)[1].endswith("MB")


def test_the_dial_fills_entry_by_entry_and_empties_on_a_flush() -> None:
    scene = dial_scene(recorded("replayssm"))
    first, flush = scene.named("dial-0"), scene.named("dial-2")
    assert [part.cls for part in first.body.parts if "sector" in part.cls] == [
        "sector held",
        "sector held new",
        "sector",
        "sector",
    ]
    assert "h(13)" in texts(flush)
    assert sum("held" in part.cls for part in flush.body.parts) == 3
    assert "new" in [part.cls for part in flush.body.parts if "sector" in part.cls][3]


def test_a_ring_of_one_entry_has_a_dial() -> None:
    scene = dial_scene(built("replayssm", replayssm_buffer_len=1))
    assert "NaN" not in inline(scene, "one entry").replace("nan", "NaN")


@pytest.mark.parametrize(
    ("amount", "text"),
    [(999, "999 B"), (1000, "1 kB"), (13_400_000, "13.4 MB"), (2 * 10**9, "2 GB")],
)
def test_bytes_are_readable(amount: int, text: str) -> None:
    assert readable(amount) == text


# --------------------------------------------------------------------------------------
# Fields and words
# --------------------------------------------------------------------------------------


def test_every_field_has_a_line() -> None:
    listed = [name for _, names_of_line in fields.LINES for name in names_of_line]
    assert sorted(listed) == sorted(FIELDS)


@pytest.mark.parametrize("slug", sorted(BATCHES))
def test_every_field_of_every_preset_is_listed_or_named_as_empty(slug: str) -> None:
    record = recorded(slug)
    shown = [field.name for line in fields.lines(record) for field in line.fields]
    assert sorted(shown + fields.empty_fields(record)) == sorted(
        field.name for field in record.metadata.fields
    )


def field(record: BatchRecord, name: str) -> fields.Field:
    return next(f for line in fields.lines(record) for f in line.fields if f.name == name)


def text_of(found: fields.Field) -> str:
    return "".join(piece.text for piece in found.pieces)


def test_values_are_written_out() -> None:
    assert text_of(field(MIXED, "seq_lens")) == "[33, 12, 33, 16, 12, 25]"
    assert text_of(field(MIXED, "state_indices_tensor_d")) == "[379][456][111213]"
    assert text_of(field(MIXED, "batch_ptr")) == "[0, 1, 1, 2, 2, −1, …]"
    assert text_of(field(MIXED, "nums_dict")) == "8: nums [1, 2, 2], tot 5"
    assert text_of(field(recorded("decode"), "state_indices_tensor_p")) == "no rows"
    assert "∅…" in text_of(field(recorded("all-mode-columns"), "state_indices_tensor_d"))
    assert field(MIXED, "state_indices_tensor_d").kind == "int32 [3,3]"


def test_block_ids_know_their_cell_and_role_and_rows_their_row() -> None:
    pieces = [p for p in field(MIXED, "state_indices_tensor_d").pieces if p.cell]
    assert [(p.cell.row, p.cell.column, p.role) for p in pieces[:2] if p.cell] == [
        (0, 2, "running"),
        (0, 3, "speculative"),
    ]
    flags = [p for p in field(MIXED, "has_initial_states_p").pieces if p.row is not None]
    assert [p.row for p in flags] == [3, 4, 5]
    columns = field(recorded("all-mode-columns"), "block_idx_first_scheduled_token_p")
    assert [(c.row, c.column) for c in columns.cells] == [(1, 1), (2, 0)]


def test_memory_is_said_as_a_fact_without_an_address() -> None:
    kept = field(recorded("graph-padding"), "state_indices_tensor_d").memory
    fresh = field(MIXED, "state_indices_tensor_d").memory
    assert (kept, fresh) == ("same memory as in the build before", "new memory at each build")
    assert field(MIXED, "num_decodes").memory == ""


def test_a_rule_that_differs_by_mode_is_the_one_of_this_mode() -> None:
    assert field(MIXED, "state_indices_tensor_d").rule == "those from column max(0, (s-1)//B) on"
    assert field(recorded("all-mode-columns"), "state_indices_tensor_d").rule == "the whole row"


def test_the_headline_says_who_counts_as_what() -> None:
    assert words.headline(MIXED) == (
        "Three rows count as decodes, three as prefills: the split is at row 3."
    )
    assert words.headline(recorded("decode")) == (
        "Three rows count as decodes, and the batch is not split."
    )
    assert words.headline(recorded("chunks-unaligned")) == (
        "Four rows count as prefills: there is nothing to decode."
    )


def test_the_sentences_name_what_is_odd() -> None:
    told = " ".join(words.sentences(MIXED))
    assert "Row 3 (D) goes to the prefills because its query of 4 tokens" in told
    assert "C still prefills, yet counts as a decode" in told
    assert "three padding rows" in " ".join(words.sentences(recorded("graph-padding")))
    assert "Two rows of three decode rows write the full state" in " ".join(
        words.sentences(recorded("replayssm"))
    )


def test_a_rows_blocks_are_worked_out_with_its_numbers() -> None:
    assert words.row_words(MIXED, 0) == (
        "Row A: seq 33, so it starts at column (33 − 1) // 16 = 2 and takes 1 + 2 columns: the "
        "running block 3 and its scratch 7 and 9. The forward reads the temporal state at "
        "accepted − 1 = 1: block 7."
    )
    assert "takes the running column alone: block 21" in words.row_words(MIXED, 5)
    assert "column 2 on" in words.row_words(recorded("all-mode-with-drafts"), 0)
    assert "2 + accepted − 1 = 4: block 14" in words.row_words(recorded("all-mode-with-drafts"), 2)
    assert "null" in words.row_words(recorded("graph-padding"), 4)


# --------------------------------------------------------------------------------------
# The page's text
# --------------------------------------------------------------------------------------


def test_names_are_escaped_everywhere() -> None:
    evil = "<img src=x onerror=alert(1)>\"'&"
    rows = [row.model_dump() for row in BATCHES[DEFAULT_BATCH].rows]
    for row in rows[:1] + rows[3:4]:
        row["request"] = f"{evil}{row['request']}"
    record = built(rows=rows)
    for text in (view.say_html(record), view.split_html(record), view.build_html(record)):
        assert "<img" not in text
    ring = [row.model_dump() for row in BATCHES["replayssm"].rows]
    ring[0]["request"] = evil
    assert "<img" not in view.build_html(built("replayssm", rows=ring))


def test_every_cell_that_a_value_names_is_in_the_picture() -> None:
    for slug in BATCHES:
        html = view.build_html(recorded(slug))
        drawn = set(re.findall(r'data-mark="(cell-\d+-\d+)"', html))
        named = {
            cell
            for cells in re.findall(r'data-(?:cells|cell)="([^"]*)"', html)
            for cell in cells.split()
        }
        assert named
        assert named <= drawn


def test_the_page_shows_the_pictures_that_the_batch_has() -> None:
    panels = {
        slug: re.findall(r'<section class="panel (\w+)"', view.build_html(recorded(slug)))
        for slug in BATCHES
    }
    assert panels["decode"] == ["returns", "points"]
    assert panels[DEFAULT_BATCH] == ["plan", "returns", "points"]
    assert panels["replayssm"] == ["ring", "returns", "points"]
    assert panels["graph-padding"] == ["graph", "returns", "points"]


def test_the_style_holds_no_colour_of_its_own() -> None:
    css = (view._DIR / "batch.css").read_text(encoding="utf-8")
    assert not re.search(r"#[0-9a-fA-F]{3,8}\b(?!\w)|rgb|hsl", css.replace("url(#hatch)", ""))


def test_the_scenes_are_files_too() -> None:
    for scene in (split_scene(MIXED), chunk_scene(MIXED), block_scene(MIXED)):
        assert to_svg(scene, "batch").startswith("<svg")
        assert "data-mark" not in to_svg(scene, "batch")
