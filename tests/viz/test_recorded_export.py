"""A recording as one HTML file says what it is and what is wrong with it."""

from __future__ import annotations

import io
import json
import re

from mambaviz.recording.reader import Reader
from mambaviz.recording.replay import Replay, replay
from mambaviz.viz.recorded_export import recording_html
from mambaviz.viz.verdict_table import MOST_ROWS, verdict_table
from tests.recording.files import lines_of, preset_trace

HOSTILE = "<img src=x onerror=alert(1)>.jsonl"


def _read(name: str, **head: str) -> Replay:
    first, *rest = lines_of(preset_trace("draft-filled-blocks"))
    known = {
        key: value for key, value in json.loads(first).items() if key not in ("title", "story")
    }
    lines = [json.dumps({**known, **head}) + "\n", *rest]
    return replay(Reader(io.BytesIO("".join(lines).encode()), name))


def _before_the_stage(page: str) -> str:
    return page[page.index("<header") : page.index("<main")]


def test_it_has_title_story_engine_and_verdicts() -> None:
    found = _read("run.jsonl", title="Drafts fill blocks", story="A story.")
    page = recording_html(found, step=1, phase="commit")
    above = _before_the_stage(page)
    for text in ("<b>Drafts fill blocks</b>", "mambaviz 1", "A story.", "4 steps, 2 findings"):
        assert text in above, text
    below = page[page.index("</main>") : page.index("<footer>")]
    assert "<h2>Verdicts</h2>" in below
    assert below.count("<tr>") == 1 + len(found.verdicts)


def test_without_a_title_it_is_called_after_its_file() -> None:
    page = recording_html(_read(HOSTILE), step=0, phase="schedule")
    assert "<b>&lt;img src=x onerror=alert(1)&gt;.jsonl</b>" in _before_the_stage(page)
    assert "<img" not in page


def test_a_long_table_says_how_many_rows_it_leaves_out() -> None:
    first = _read("run.jsonl").verdicts[0]
    table = verdict_table([first] * (MOST_ROWS + 7), first.step)
    assert len(re.findall("<tr class=now>", table)) == MOST_ROWS
    assert "… and 7 more" in table
