"""The judge on runs of the scenarios that a real engine was recorded with (section 2).

Our engine gives every request the recorded lists (tests/engine), so what is found here would be
found in that engine.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from mambaviz import engine
from mambaviz.recording.rules import Verdict
from mambaviz.scenario import from_recording
from mambaviz.trace import Invariant
from tests.recording.files import lines_of, verdicts_of

GOLDEN = Path(__file__).parents[1] / "golden" / "engine.json"
EVERY = 6  # of the scenarios by name, the unsound ones left out

# Scenarios whose rules are unsound, and the lamps that the indices alone turn red.
UNSOUND: dict[str, set[Invariant]] = {
    "0.30.0-sp-10-unsound-S3-B2": {"I1", "I2"},  # 1 + S > B
    "0.30.0-sp-14-one-token-prompt-padded": {"I2"},  # a padded tail without state
    "0.30.0-aa-03-S2-mixed": {"I1"},  # draft-filled blocks registered
    "0.30.0-aa-07-B4-S2-boundary": {"I1"},
    "0.30.0-ea-02-all-B8-S2": {"I1"},
}


@cache
def scenarios() -> dict[str, dict[str, Any]]:
    return {one["id"]: one for one in json.loads(GOLDEN.read_text(encoding="utf-8"))}


SAMPLE = sorted(scenarios().keys() - UNSOUND.keys())[::EVERY]


def judged(name: str) -> list[Verdict]:
    trace = engine.run(from_recording(scenarios()[name]), backend="reference")
    return verdicts_of(lines_of(trace))


@pytest.mark.parametrize("name", SAMPLE)
def test_nothing_is_found(name: str) -> None:
    assert judged(name) == []


@pytest.mark.parametrize("name", UNSOUND)
def test_an_unsound_rule_is_found(name: str) -> None:
    assert {verdict.lamp for verdict in judged(name)} == UNSOUND[name]
