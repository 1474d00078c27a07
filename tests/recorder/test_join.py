"""Two files of one run as one."""

from __future__ import annotations

import json

import pytest

from mambaviz.recorder.join import JoinError, join, main


def head(role: str, **settings) -> str:
    hooks = [
        {"seam": "schedule", "hooked": role == "engine", "where": "schedule"},
        {"seam": "rows", "hooked": role == "worker", "where": "rows"},
    ]
    return json.dumps(
        {
            "event": "head",
            "step": 0,
            "format": "mambaviz-recording",
            "settings": settings,
            "hooks": hooks,
            "states": False,
            "process": {"role": role, "rank": 0},
        }
    )


def line(event: str, step: int, **more) -> str:
    return json.dumps({"event": event, "step": step, **more})


ENGINE = [
    head("engine", mode="align"),
    line("schedule", 0),
    line("accept", 0, sampled={"r0": 1}),
    line("commit", 0),
    line("schedule", 1),
    line("commit", 1),
    line("end", 0, why="exit"),
]
WORKER = [
    head("worker", runner="v1"),
    line("rows", 0),
    line("state", 0, after="forward"),
    line("accept", 0, counts={"r0": 2}),
    line("rows", 1),
    '{"event": "pre_copy", "st',
]


def test_lines_find_their_places():
    first, *rest = join(ENGINE, WORKER)
    assert first["settings"] == {"mode": "align", "runner": "v1"}
    assert all(hook["hooked"] for hook in first["hooks"])
    assert "process" not in first
    assert [(found["step"], found["event"]) for found in rest] == [
        (0, "schedule"),
        (0, "rows"),
        (0, "state"),
        (0, "accept"),
        (0, "commit"),
        (1, "schedule"),
        (1, "rows"),
        (1, "commit"),
    ]
    assert rest[3]["counts"] == {"r0": 2}  # the worker was there


@pytest.mark.parametrize("pair", [(WORKER, ENGINE), (ENGINE, ENGINE), ([], WORKER)])
def test_what_does_not_belong_together_is_refused(pair):
    with pytest.raises(JoinError, match="the first must be the engine's"):
        join(*pair)


@pytest.mark.parametrize("bad", ["[1, 2]", '{"step": 0}', "7"])
def test_a_line_that_is_none_is_refused(bad):
    with pytest.raises(JoinError, match="line 2 is no line of a recording"):
        join([ENGINE[0], bad], WORKER)


def test_an_existing_file_is_kept(tmp_path):
    for name, lines in (("a", ENGINE), ("b", WORKER), ("whole", ["mine"])):
        (tmp_path / name).write_text("\n".join(lines))
    with pytest.raises(SystemExit, match="File exists"):
        main(*(str(tmp_path / name) for name in ("a", "b", "whole")))
    assert (tmp_path / "whole").read_text() == "mine"
