"""What can be launched and what is refused, each with its sentence."""

from __future__ import annotations

from typing import Any

import pytest

from mambaviz.launches.from_run import from_trace_step
from mambaviz.launches.inputs import (
    DEFAULT_LAUNCH,
    KERNEL_FUNCTIONS,
    LAUNCHES,
    LaunchError,
    build,
    fields_of,
    parse,
    slug_of,
)
from mambaviz.pages.runs import recorded as recorded_run

DEFAULT = LAUNCHES[DEFAULT_LAUNCH]


def changed(slug: str = DEFAULT_LAUNCH, row: int | None = None, **changes: Any) -> dict[str, Any]:
    data = LAUNCHES[slug].model_dump()
    if row is None:
        return {**data, **changes}
    data["rows"][row] |= changes
    return data


@pytest.mark.parametrize("slug", LAUNCHES)
def test_presets_survive_json(slug: str) -> None:
    preset = LAUNCHES[slug]
    assert parse(preset.model_dump_json(exclude_defaults=True)) == preset
    assert slug_of(preset) == slug
    assert preset.story


def test_there_is_a_preset_for_every_kernel() -> None:
    assert {preset.kernel for preset in LAUNCHES.values()} == set(KERNEL_FUNCTIONS)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (changed(row=1, accepted=0), "row 1, accepted = 0: allowed 1 to 17"),
        (changed(row=1, computed=None), "row 1, computed: it is empty; fill it in"),
        (changed(row=1, request="A"), r"row 1 \(A\), request: the name is taken"),
        (changed(row=0, drafts=4), r"row 0 \(A\), drafts = 4: they are part of the 3 scheduled"),
        (changed(columns=4), r"row 0 \(A\), block-table row: 5 ids, but a row has 4 columns"),
        (
            changed(row=0, blocks=[1, 2, 3, 99]) | {"bounded": False},
            r"row 0 \(A\), block-table row: there is no block 99, ids go to 23",
        ),
        (changed(padding=3), "padding = 3: pages end on whole float32 values"),
        (changed(row=0, computed=254) | {"dtype": "bfloat16"}, "bfloat16 counts tokens exactly"),
        (changed("a-list-of-copies", layout="DS"), "layout = DS: a shifted DS window"),
        (changed("into-a-new-block", advanced=True), "advanced counts: only the kernel after"),
        (changed(block_size=0), "block size = 0: allowed 1 to 4096"),
        (changed(blocksize=1), "blocksize: there is no such field; did you mean block_size"),
    ],
)
def test_what_cannot_be_launched_is_refused(data: dict[str, Any], sentence: str) -> None:
    with pytest.raises(LaunchError, match=sentence):
        build(data)


def test_two_requests_cannot_share_a_slot() -> None:
    data = changed("counts-already-advanced", row=1, slot=3)
    with pytest.raises(LaunchError, match=r"row 1 \(B\), slot = 3: A has it already"):
        build(data)


def test_text_that_is_no_json_is_said() -> None:
    with pytest.raises(LaunchError, match="this is not JSON"):
        parse("{")
    with pytest.raises(LaunchError, match="a launch must be an object of fields"):
        parse("[]")


def test_the_table_shows_what_the_kernel_reads() -> None:
    assert fields_of(DEFAULT) == (
        *("computed", "scheduled", "drafts", "accepted", "state_idx", "blocks"),
    )
    advanced = LAUNCHES["counts-already-advanced"]
    assert fields_of(advanced) == ("slot", "computed", "accepted", "state_idx", "blocks")
    assert "blocks" not in fields_of(LAUNCHES["which-column-next"])


def test_a_step_of_a_run_gives_the_inputs_of_its_launch() -> None:
    run = recorded_run("drafts-meet-the-boundary")
    assert run is not None
    taken = from_trace_step(run.trace, 2, "postprocess")
    mine = [row for row in taken.rows if row.request in "AB"]
    for row, preset in zip(mine, DEFAULT.rows, strict=False):
        same = ("computed", "scheduled", "drafts", "accepted", "state_idx")
        assert [getattr(row, name) for name in same] == [getattr(preset, name) for name in same]
        assert row.blocks == preset.blocks
    before = from_trace_step(run.trace, 4, "memcpy")
    first = before.rows[0]
    assert (first.src_col, first.bias, first.state_idx) == (2, 2, 3)


def test_a_step_without_decisions_is_said() -> None:
    run = recorded_run("drafts-meet-the-boundary")
    assert run is not None
    trace = run.trace
    silent = [step for step in trace.steps if not step.phase("post-copy").decisions]
    if not silent:
        step = trace.steps[0]
        phases = [phase.model_copy(update={"decisions": []}) for phase in step.phases]
        steps = [step.model_copy(update={"phases": phases})]
        trace, silent = trace.model_copy(update={"steps": steps}), steps
    with pytest.raises(LaunchError, match="decides nothing in its post-copy phase"):
        from_trace_step(trace, silent[0].index, "postprocess")
