"""The stage as a standalone SVG: for export, notebooks and pages that show no scripts.

The same scene as in the browser, with its style inside. `picture(trace, step, phase)` gives the
lanes of all requests with the state of one beside them, under the phase's headline; `exported`
adds the sentence and the stamp. Colours are written out: not every program that shows an SVG
knows CSS variables.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from dataclasses import replace
from xml.sax.saxutils import escape, quoteattr

from mambaviz.trace import PhaseName, Trace
from mambaviz.viz import lanes, state_stage, theme
from mambaviz.viz.assets import marks_css
from mambaviz.viz.scene import (
    Body,
    Dot,
    Group,
    Heat,
    Mark,
    Path,
    Primitive,
    Rect,
    Scene,
    Text,
    heat_cells,
)
from mambaviz.viz.shapes import n
from mambaviz.viz.stamp import Place, stamp
from mambaviz.viz.theme import LANES, STATE, ThemeName
from mambaviz.viz.views import Frame, frame_at, group_of
from mambaviz.viz.words import words

PATTERNS = (
    '<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate(45)"><rect class="hatch-ground" width="6" height="6"/>'
    '<path class="hatch-line" d="M0 0V6"/></pattern>'
    '<pattern id="dots" width="7" height="7" patternUnits="userSpaceOnUse">'
    '<circle class="dot" cx="1.6" cy="1.6" r=".9"/></pattern></defs>'
)


def picture(
    trace: Trace,
    step: int,
    phase: PhaseName,
    *,
    request: str | None = None,
    layer: int = 0,
    style: ThemeName = "light",
) -> str:
    """Lanes and state after one phase, as the text of an SVG file.

    ``request`` is the one whose state is shown, the first if None. Raises KeyError for a step,
    phase or request that the run does not have.
    """
    names = [plan.id for plan in trace.scenario.requests]
    chosen = request or names[0]
    if chosen not in names:
        raise KeyError(f"no request {chosen!r}; the run has {', '.join(names)}")
    frame = frame_at(trace, step, phase)
    return to_svg(stage_scene(frame, chosen, layer), words(frame, chosen, layer).headline, style)


LETTER_WIDTH = 7.2  # of the sentence's type, on the wide side: no browser measures it here


def exported(
    trace: Trace, place: Place, style: ThemeName = "light", *, stamped: bool = True
) -> str:
    """The picture as a file that stands alone: with headline, sentence and stamp.

    Without the stamp it is the same whatever versions it was made with. Raises KeyError for a
    step, phase, request or layer that the run does not have.
    """
    if place.request not in [plan.id for plan in trace.scenario.requests]:
        raise KeyError(f"no request {place.request!r} in this run")
    if place.layer not in {spec.layer for spec in trace.states}:
        raise KeyError(f"no layer {place.layer} in this run")
    frame = frame_at(trace, place.step, place.phase)
    told = words(frame, place.request, place.layer)
    inner = stage_scene(frame, place.request, place.layer)
    lines = textwrap.wrap(told.plain, int((inner.width - 24) / LETTER_WIDTH)) or [""]
    first = inner.named("where").y + 22
    sentence = [
        Mark(f"sentence{row}", 12, first + 20 * row, Body("", (Text("sentence", 0, 0, line),)))
        for row, line in enumerate(lines)
    ]
    down = 20 * len(lines) + 6
    below = [mark for mark in inner.marks if mark.name not in ("headline", "where")]
    height = inner.height + down + (26 if stamped else 0)
    foot = [Mark("stamp", 12, height - 14, Body("", (Text("m s12", 0, 0, stamp(trace)),)))]
    where = Mark("where", 12, 44, Body("", (Text("m s125", 0, 0, place.words),)))
    marks = (inner.named("headline"), where, *sentence, *moved(below, 0, down))
    marks = (*marks, *foot) if stamped else marks
    return to_svg(Scene(inner.width, height, marks), f"{told.headline} {told.plain}", style)


def stage_scene(frame: Frame, request: str, layer: int) -> Scene:
    """Lanes of all requests and, to their right, the state of one."""
    left = lanes_scene(frame, request, layer)
    right = state_scene(frame, request, layer)
    told = words(frame, request, layer)
    top = 58.0
    title = Body("", (Text("headline", 0, 0, told.headline),), layer=2)
    where = f"step {frame.step.index}, {frame.phase.name}, layer {layer}"
    subtitle = Body("", (Text("m s125", 0, 0, where),), layer=2)
    head = (Mark("headline", 12, 26, title), Mark("where", 12, 44, subtitle))
    beside = left.width + 36
    marks = (*head, *moved(left.marks, 4, top), *moved(right.marks, beside, top + 6, "state-"))
    height = top + max(left.height, right.height) + 12
    return Scene(beside + right.width + 32, height, marks)  # fonts differ in width


def lanes_scene(frame: Frame, request: str, layer: int) -> Scene:
    """Tokens and blocks of all requests, the chosen one marked, one lane below the other."""
    trace = frame.trace
    group = group_of(trace, layer)
    axis = lanes.axis_of(trace, group)
    names = [plan.id for plan in trace.scenario.requests]
    marks: list[Mark] = list(lanes.heading(axis))
    y = LANES.heading
    for name in names:
        small = len(names) > 2 and name != request
        lane = lanes.lane(frame.lane(name, group, layer), axis, small)
        marks += [
            replace(mark, body=_chosen(mark.body)) if name == request else mark
            for mark in moved(lane, 0, y, f"{name}-")
        ]
        y += LANES.small_height if small else LANES.height
    return Scene(axis.width, y, tuple(marks))


def _chosen(body: Body) -> Body:
    return replace(body, cls=f"{body.cls} chosen-badge") if body.cls == "badge" else body


def state_scene(frame: Frame, request: str, layer: int) -> Scene:
    """Conv windows and temporal states of one request in one layer."""
    marks = state_stage.state(frame.state(request, layer))
    title = Body("", (Text("s14 semi", 0, 0, f"State of request {request}, layer {layer}"),))
    shifted = moved(marks, 0, 20)
    return Scene(STATE.width, STATE.height + 20, (Mark("of", 0, 8, title), *shifted))


def moved(marks: Iterable[Mark], dx: float, dy: float, prefix: str = "") -> list[Mark]:
    """Marks in another place; ``prefix`` keeps their names apart from others'."""
    return [
        replace(mark, name=f"{prefix}{mark.name}", x=mark.x + dx, y=mark.y + dy) for mark in marks
    ]


# --------------------------------------------------------------------------------------
# Writing
# --------------------------------------------------------------------------------------


# Signs that no XML may hold, not even escaped; a request's name can.
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_WITHOUT_COMMENTS = re.compile(r"/\*.*?\*/\n?", re.DOTALL)


def to_svg(
    scene: Scene, label: str, style: ThemeName = "light", *, cls: str = "", more_css: str = ""
) -> str:
    """A scene as the text of an SVG file; ``label`` is what a screen reader says.

    ``more_css`` is the style of shapes that are not the stage's; ``cls`` goes to the root.
    """
    width, height = n(scene.width), n(scene.height)
    headline_size, _ = theme.TYPE["headline"]
    sentence_size, _ = theme.TYPE["sentence"]
    css = "\n".join(
        (
            f"svg{{font-family:{theme.SANS}}}",
            f".headline{{font-size:{n(headline_size)}px;font-weight:600}}",
            f".sentence{{font-size:{n(sentence_size)}px}}",
            theme.written_out(_WITHOUT_COMMENTS.sub("", marks_css() + more_css), style),
        )
    )
    return legal(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}"{_class(cls)} role="img" aria-label={quoteattr(label)}>\n'
        f"<style>{escape(css)}</style>\n{PATTERNS}\n"
        f'<rect class="page" width="{width}" height="{height}"/>\n{_inside(scene)}\n</svg>\n'
    )


def legal(text: str) -> str:
    """A text for XML: what cannot stand in it is shown as the replacement character."""
    return _NO_XML.sub("\ufffd", text)


def inline(scene: Scene, label: str) -> str:
    """A scene as an ``<svg>`` for a page that brings `PATTERNS` and the style; marks are named
    by ``data-mark``, so that a script can find them."""
    width, height = n(scene.width), n(scene.height)
    return legal(
        f'<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" '
        f"aria-label={quoteattr(label)}>{_inside(scene, named=True)}</svg>"
    )


def _inside(scene: Scene, *, named: bool = False) -> str:
    layers: dict[int, list[str]] = {0: [], 1: [], 2: [], 3: []}
    for mark in scene.marks:
        layers[mark.body.layer].append(_mark(mark, named=named))
    return "\n".join(line for layer in sorted(layers) for line in layers[layer])


def _mark(mark: Mark, *, named: bool) -> str:
    parts = "".join(_primitive(part) for part in mark.body.parts)
    title = f"<title>{escape(mark.body.title)}</title>" if mark.body.title else ""
    cls = f" class={quoteattr(mark.body.cls)}" if mark.body.cls else ""
    place = f' transform="translate({n(mark.x)} {n(mark.y)})"' if mark.x or mark.y else ""
    name = f" data-mark={quoteattr(mark.name)}" if named else ""
    return f"<g{cls}{place}{name}>{title}{parts}</g>"


def _primitive(part: Primitive) -> str:
    match part:
        case Rect(cls, x, y, w, h, r):
            box = f'x="{n(x)}" y="{n(y)}" width="{n(w)}" height="{n(h)}" rx="{n(r)}"'
            return f"<rect{_class(cls)} {box}/>"
        case Text(cls, x, y, text):
            return f'<text{_class(cls)} x="{n(x)}" y="{n(y)}">{escape(text)}</text>'
        case Path(cls, d):
            return f"<path{_class(cls)} d={quoteattr(d)}/>"
        case Dot(cls, x, y, r):
            return f'<circle{_class(cls)} cx="{n(x)}" cy="{n(y)}" r="{n(r)}"/>'
        case Heat():
            return _heat(part)
        case Group(cls, x, y, parts):
            inside = "".join(_primitive(inner) for inner in parts)
            return f'<g{_class(cls)} transform="translate({n(x)} {n(y)})">{inside}</g>'


def _heat(heat: Heat) -> str:
    size = n(heat.cell)
    width, height = n(heat.cell * len(heat.rows[0])), n(heat.cell * len(heat.rows))
    under = (
        f'<rect class="under" x="{n(heat.x)}" y="{n(heat.y)}" width="{width}" height="{height}"/>'
    )
    cells = []
    for cls, x, y in heat_cells(heat):
        if cls == "z":
            middle_x, middle_y = n(x + heat.cell / 2), n(y + heat.cell / 2)
            cells.append(f'<circle class="zero" cx="{middle_x}" cy="{middle_y}" r="1"/>')
        else:
            cells.append(
                f'<rect class="{cls}" x="{n(x)}" y="{n(y)}" width="{size}" height="{size}"/>'
            )
    return under + "".join(cells)


def _class(cls: str) -> str:
    return f" class={quoteattr(cls)}" if cls else ""
