"""Every verdict of a recording in a row: on the Watch page and in an exported replay."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from mambaviz.recording.rules import Verdict

MOST_ROWS = 200  # verdicts that the table lists

# Colours by the names that a page of the app has them under.
VERDICT_CSS = """
.mv-verdicts { border-collapse: collapse; font-size: 13px; width: 100%; }
.mv-verdicts th, .mv-verdicts td {
  border-bottom: 1px solid var(--mv-line); padding: 4px 8px; text-align: left; vertical-align: top;
}
.mv-verdicts tr.now td { background: var(--mv-wrong-fill); }
"""


def verdict_table(verdicts: Sequence[Verdict], now: int | None = None) -> str:
    """The table as markup; the verdicts of the step ``now`` on screen are marked."""
    if not verdicts:
        return "<p>Nothing in this recording contradicts the rules.</p>"
    rows = "".join(
        f"<tr{' class=now' if verdict.step == now else ''}><td>{verdict.step}</td>"
        f"<td>{verdict.phase}</td><td>{verdict.lamp or '–'}</td><td>{escape(verdict.rule)}</td>"
        f"<td>{escape(verdict.request or '')}</td><td>{escape(verdict.message)}</td>"
        f"<td>{verdict.section}</td></tr>"
        for verdict in verdicts[:MOST_ROWS]
    )
    left = len(verdicts) - MOST_ROWS
    more = f"<p>… and {left} more; the command line lists all.</p>" if left > 0 else ""
    names = ("step", "phase", "lamp", "rule", "request", "what", "section")
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    return f'<table class="mv-verdicts"><thead><tr>{head}</tr></thead>{rows}</table>{more}'
