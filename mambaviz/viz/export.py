"""A run as one HTML file that needs nothing else: no server, no Python, no network.

The same script and style as in the app with the payload inside, for an issue, a mail, a talk.
"""

from __future__ import annotations

import json
from html import escape

from mambaviz.trace import PhaseName, Trace
from mambaviz.viz import theme
from mambaviz.viz.assets import STAGE_HTML, stage_css, stage_js
from mambaviz.viz.payload import StagePayload, stage_payload
from mambaviz.viz.stamp import stamp

# The file may run its own script and style and fetch nothing at all.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"

KEYS = "Space plays, ← → a phase, Shift ← → a step, Home and End, E to the next event."

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>mambaviz: {title}</title>
<style>
html,body{{margin:0}}
body{{font-family:{sans}}}
{light}
@media (prefers-color-scheme: dark){{{dark}}}
body{{background:var(--background);color:var(--text)}}
body>*{{padding:10px 20px;max-width:1600px;margin:auto;box-sizing:border-box}}
.about,.below{{font-size:13px;line-height:18px;overflow-wrap:anywhere}}
.about{{padding-bottom:0}}
.about b{{font-size:15px;margin-right:8px}}
.about p,.about span,.below p{{color:var(--muted)}}
.about p{{margin:2px 0 0}}
.below:empty{{display:none}}
.below h2{{font-size:15px;margin:0 0 4px}}
footer{{color:var(--muted);font-size:12px;line-height:16px;overflow-wrap:anywhere;padding-top:0}}
{css}
</style></head>
<body><header class="about"><b>{title}</b><span>{engine}</span>{lines}</header>
<main id="stage">{markup}</main>
<section class="below">{below}</section>
<footer>{stamp}<br>{keys}</footer>
<script type="application/json" id="data">{data}</script>
<script type="module">
{script}
mount({{
  data: JSON.parse(document.getElementById("data").textContent),
  parentElement: document.getElementById("stage"),
  setStateValue: () => {{}},
}});
</script></body></html>
"""


def replay_html(
    trace: Trace,
    *,
    step: int = 0,
    phase: PhaseName = "schedule",
    request: str | None = None,
    layer: int = 0,
    details: bool = True,
    payload: StagePayload | None = None,
    remark: str = "",
    below: str = "",
) -> str:
    """A run as the text of an HTML file: its name and story, and the stage opened at the given
    place, with or without the expert panels.

    ``payload`` is the run's own, where it is there already: it takes a while to make. ``remark`` is
    said after the story, and ``below`` is the markup of what stands below the stage.
    """
    payload = payload or stage_payload(trace)
    place = {"step": step, "phase": phase, "request": request, "layer": layer}
    asked = {**place, "details": details, "run": payload.run}
    made = trace.recorded
    data = {"payload": payload.packed, "asked": asked, "hidden": []}
    return _PAGE.format(
        policy=_POLICY,
        title=escape(trace.scenario.name),
        engine=escape(f"{made.engine} {made.engine_version}" if made is not None else ""),
        lines="".join(f"<p>{escape(text)}</p>" for text in (trace.scenario.story, remark) if text),
        below=below,
        sans=theme.SANS,
        light=theme.css_of("html", "light"),
        dark=theme.css_of("html", "dark"),
        css=stage_css(),
        markup=STAGE_HTML,
        stamp=escape(stamp(trace)),
        keys=escape(KEYS),
        data=_inside_script(json.dumps(data, ensure_ascii=False)),
        script=stage_js().replace("export default function mount", "function mount"),
    )


def _inside_script(text: str) -> str:
    """JSON that cannot end the script element it stands in, whatever a request is called."""
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
