"""A copy that was not seen, from a column that is not known: nothing is held against its target."""

from __future__ import annotations

import json

import pytest

from tests.recording.files import lines_of, preset_trace, verdicts_of


@pytest.mark.parametrize("name", ["accepted-past-the-boundary", "drafts-meet-the-boundary"])
def test_an_asynchronous_run_without_its_pre_copies(name: str) -> None:
    """Its scheduler counts on ahead, so the column remembered from the step before is lost."""
    head, *lines = [json.loads(line) for line in lines_of(preset_trace(name))]
    head["settings"]["async_scheduling"] = True
    kept = [line for line in lines if line["event"] != "pre_copy"]
    for line in kept:
        if line["event"] == "commit":
            line["computed"] = {name: count + 1 for name, count in line["computed"].items()}
        if line["event"] == "rows":
            del line["accepted"]
    assert verdicts_of(json.dumps(line) + "\n" for line in (head, *kept)) == []
