"""What a hostile recording says is refused with its place, or told as it is; it breaks nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from mambaviz.limits import MOST_PADDED_ROWS, MOST_REQUESTS, MOST_STEP_TOKENS
from mambaviz.recording.reader import RecordingError
from mambaviz.recording.replay import Replay, replay
from mambaviz.recording.scenario import scenario_of
from mambaviz.viz.payload import stage_payload
from tests.recording.files import lines_of, preset_trace, reader_of, verdicts_of

Line = dict[str, Any]
PLAIN: list[Line] = [json.loads(line) for line in lines_of(preset_trace("plain-decode"))]
BYTES: list[Line] = [
    json.loads(line) for line in lines_of(preset_trace("plain-decode"), states=True)
]


def texts(lines: list[Line]) -> list[str]:
    return [json.dumps(line) + "\n" for line in lines]


def changed(event: str, change: Callable[[Line], object], lines: list[Line] = PLAIN) -> list[str]:
    """The recording with another first line of a kind."""
    copy: list[Line] = json.loads(json.dumps(lines))
    change(next(line for line in copy if line["event"] == event))
    return texts(copy)


def drawn(lines: list[str]) -> Replay:
    found = replay(reader_of(lines))
    stage_payload(found.trace)
    return found


def field(name: str, value: object) -> list[str]:
    return changed("metadata", lambda line: line["fields"].update({name: value}))


def tensor(values: object, shape: object, **more: object) -> Line:
    return {"dtype": "int32", "shape": shape, "values": values, **more}


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (field("num_reqs", 10**12), f"num_reqs must be at most {MOST_PADDED_ROWS}"),
        (field("num_reqs", "two"), "num_reqs must be a count, from 0 on"),
        (field("seq_idx_p", 0), "seq_idx_p must be a tensor with values, of 1 axes"),
        (field("seq_lens", tensor(None, [2])), "seq_lens must be a tensor with values"),
        (
            field("state_indices_tensor_d", tensor([[[1]]], [1, 1, 1])),
            "state_indices_tensor_d must be a tensor with values, of 1 or 2 axes",
        ),
        (field("other", tensor([[1, 2], 3], [2, 2])), "values must be nested lists"),
        (field("other", tensor([{}], [1])), "values must be integers or truth values"),
        (field("other", tensor([1], [1e308])), "shape must be a list of counts"),
        (field("other", tensor([1], [9], fill=0.5)), "fill must be an integer"),
        (field("nums_dict", {"8": [10**30]}), "a number must be smaller than"),
        (changed("rows", lambda line: line.update(rows={"A": [{"ids": [10**30]}]})), "ids"),
        (changed("schedule", lambda line: line["requests"][0].update(computed=2**40)), "computed"),
        (
            changed("schedule", lambda line: line["requests"][0].update(scheduled=2**21)),
            f"{2**21} tokens in one step, at most {MOST_STEP_TOKENS} are read",
        ),
        (changed("state", lambda line: line.update(data="?"), BYTES), "written in base64"),
        (changed("state", lambda line: line.update(data="AAAA"), BYTES), "3 bytes, where the head"),
        (
            changed(
                "head", lambda line: line["groups"][0]["states"][0].update(dtype="int3"), BYTES
            ),
            "bytes of 'int3' cannot be shown",
        ),
        (
            changed(
                "head", lambda line: line["groups"][0]["states"][0].update(shape=[2**30, 9]), BYTES
            ),
            "and a line, which would have to hold them",
        ),
        (
            changed("blocks", lambda line: line.update(lists={"A": [{"ids": [1] * 5000}]})),
            "there are 5000 columns in a row, and the pictures take 4096",
        ),
        (
            changed("blocks", lambda line: line.update(lists={"A": [None] * 99})),
            "there are 99 cache groups, and the pictures take 64",
        ),
        (
            changed("head", lambda line: line["groups"][0].update(kind="attention", states=[])),
            "its head has groups, but none of Mamba layers",
        ),
        (["\n", *texts(PLAIN)], "begins with an empty line: a recording begins with its head"),
    ],
)  # fmt: skip
def test_what_cannot_be_taken_is_refused_in_a_sentence(lines: list[str], sentence: str) -> None:
    with pytest.raises(RecordingError) as error:
        drawn(lines)
    assert sentence in str(error.value)


@pytest.mark.parametrize(
    "lines",
    [
        field("num_reqs", None),
        changed("rows", lambda line: line.update(rows={"A": [{"ids": [-7]}]})),
        changed("rows", lambda line: line.update(rows={"A": [{"ids": [-(2**52)]}]}), BYTES),
        changed("accept", lambda line: line.update(counts={"A": -(2**52)})),
    ],
)
def test_what_is_only_wrong_is_drawn(lines: list[str]) -> None:
    assert drawn(lines).trace.steps


def test_a_copy_from_a_column_that_is_none_is_no_picture_of_one() -> None:
    preset = preset_trace("drafts-meet-the-boundary")
    lines: list[Line] = [json.loads(line) for line in lines_of(preset, states=True)]
    rows = [row for line in lines if line["event"] == "post_copy" for row in line["rows"]]
    next(row for row in rows if row["copies"])["src_col"] = -(2**52)
    found = drawn(texts(lines)).trace
    outside = [c for s in found.steps for p in s.phases for c in p.copies if c.src_col < 0]
    assert outside
    assert all(copy.skipped for copy in outside)


def test_lines_out_of_order_are_left_out_and_that_is_said() -> None:
    found = replay(reader_of(texts([*PLAIN, *PLAIN[1:]])))
    assert "recording has its steps in order" in found.remarks[-1]
    assert "lines were left out, the first one of step" in found.remarks[-1]


def test_a_pool_that_is_all_wrong_is_told_for_some_blocks() -> None:
    lines = changed("head", lambda line: line["settings"].update(num_blocks=100_000))
    told = [verdict for verdict in verdicts_of(lines) if verdict.rule == "conservation"]
    assert 0 < len(told) <= 100 * len(preset_trace("plain-decode").steps)


def test_more_than_our_engine_takes_is_no_scenario() -> None:
    came = [
        {"event": "request", "step": 0, "id": f"q{n}", "prompt": 5} for n in range(MOST_REQUESTS)
    ]
    reader = reader_of(texts([PLAIN[0], *came, *PLAIN[1:]]))
    whole = replay(reader, first=1)
    with pytest.raises(RecordingError, match="requests, and our engine takes 64"):
        scenario_of(whole.head, whole.steps)
    lines = changed("request", lambda line: line.update(prompt=2**20))
    whole = replay(reader_of(lines))
    with pytest.raises(RecordingError, match="a prompt of 1048576 tokens"):
        scenario_of(whole.head, whole.steps)


def test_a_block_that_everybody_holds_is_told_with_some_of_them() -> None:
    """A thousand of them are judged in the time of a thousand, in sentences of some names."""
    names = [f"q{number}" for number in range(1_000)]
    lists = {name: [{"ids": [1]}] for name in names}
    told = verdicts_of(
        texts(
            [
                PLAIN[0],
                {
                    "event": "schedule",
                    "step": 0,
                    "requests": [
                        {"id": name, "kind": "new", "computed": 0, "scheduled": 3} for name in names
                    ],
                },
                {"event": "blocks", "step": 0, "lists": lists, "whole": True},
                {"event": "rows", "step": 0, "order": names, "rows": lists},
            ]
        )
    )
    shared = [verdict.message for verdict in told if verdict.rule == "ownership"]
    assert len(shared) >= 1_000
    assert any(message.endswith("and 992 more") for message in shared)
    assert max(map(len, shared)) < 200
