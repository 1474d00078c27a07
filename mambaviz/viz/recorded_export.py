"""A recording as one HTML file to pass on: what it is, the stage, and every verdict."""

from __future__ import annotations

from mambaviz.recording.replay import Replay
from mambaviz.trace import PhaseName
from mambaviz.viz.export import replay_html
from mambaviz.viz.payload import StagePayload
from mambaviz.viz.verdict_table import VERDICT_CSS, verdict_table

# The table's colours are called otherwise in a page of the app.
_STYLE = ".mv-verdicts{--mv-line:var(--line);--mv-wrong-fill:var(--wrong-fill)}"


def recording_html(
    whole: Replay,
    *,
    step: int,
    phase: PhaseName,
    request: str | None = None,
    layer: int = 0,
    payload: StagePayload | None = None,
) -> str:
    """The text of the file, opened at the given place."""
    table = verdict_table(whole.verdicts)
    return replay_html(
        whole.trace,
        step=step,
        phase=phase,
        request=request,
        layer=layer,
        payload=payload,
        remark=" ".join((*whole.remarks, whole.summary)),
        below=f"<style>{_STYLE}{VERDICT_CSS}</style><h2>Verdicts</h2>{table}",
    )
