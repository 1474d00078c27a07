"""Block life-lines: rows are physical blocks, x is time; and one block's life in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from mambaviz.history import frame_of, moment_of
from mambaviz.lifelines import Life, LifeEvent, LifeKind, Span
from mambaviz.trace import PHASES, PhaseName, Trace
from mambaviz.viz import shapes
from mambaviz.viz.batch.text import width_of
from mambaviz.viz.legend import ROLE_NAME
from mambaviz.viz.scene import Body, Dot, Group, Mark, Path, Primitive, Rect, Scene, Text
from mambaviz.viz.shapes import KIND_NAME
from mambaviz.viz.svg import inline
from mambaviz.viz.tabs.html import block, count, either, go, nothing, patterns, place, span, table
from mambaviz.viz.theme import LIVES

_LAST = len(PHASES) - 1

# Of several events in one phase the first of these is drawn; the words tell all of them.
_DRAWN: tuple[LifeKind, ...] = (
    "migrate",
    "checkpoint",
    "forward",
    "found",
    "registered",
    "taken",
    "freed",
    "let go",
    "unregistered",
)
KIND_WORDS: dict[LifeKind, str] = {
    "taken": "taken for new data",
    "found": "found in the cache",
    "let go": "let go, others hold it",
    "freed": "freed",
    "registered": "registered for reuse",
    "unregistered": "registration dropped",
    "forward": "written by a forward",
    "migrate": "copied into: migrate",
    "checkpoint": "copied into: checkpoint",
}


def lifelines_html(
    trace: Trace, lives: Sequence[Life], step: int, phase: PhaseName, chosen: int | None
) -> str:
    """Picture, key, and the chosen block's life in words."""
    if not lives:
        return nothing("No block was used in this run.")
    first, last = window(len(trace.steps), step)
    shown = tuple(life for life in lives if _lives_in(life, first, last))
    picture = inline(
        lives_scene(shown, first, last, frame_of(step, phase), chosen),
        f"Life-lines of {count(len(shown), 'block')} over steps {first} to {last}",
    )
    unused = trace.scenario.engine.num_blocks - 1 - len(lives)
    return (
        f'{patterns()}<div class="lives"><p class="note">'
        f"{escape(_summary(trace, lives, shown, first, last, unused))}"
        f"{_other_windows(trace, first, last)}</p>"
        f'<div class="picture">{picture}</div>{_key(shown, first, last)}'
        f"{_told(lives, chosen, frame_of(step, phase))}</div>"
    )


def window(steps: int, step: int) -> tuple[int, int]:
    """The steps that are drawn: a long run is shown in parts that stay where they are."""
    first = step // LIVES.most_steps * LIVES.most_steps
    return first, min(first + LIVES.most_steps, steps) - 1


def _lives_in(life: Life, first: int, last: int) -> bool:
    """Whether anything holds the block in these steps, or happens to it."""
    begin, end = first * len(PHASES), last * len(PHASES) + _LAST
    busy = any(begin <= event.frame <= end for event in life.events)
    return busy or any(
        one.role != "free" and one.first <= end and one.last >= begin for one in life.spans
    )


def _summary(
    trace: Trace, lives: Sequence[Life], shown: Sequence[Life], first: int, last: int, unused: int
) -> str:
    """What is drawn, and what is left out."""
    said = "A row is a physical block, a column a step of eight phases. Click a sign to go there, "
    said += "a block to read its life. A@8: registered for the first 8 tokens of A."
    if len(trace.steps) > last - first + 1:
        said += f" Steps {first} to {last} of {len(trace.steps)}."
    resting = len(lives) - len(shown)
    if resting:
        said += f" {count(resting, 'block')} rested in these steps."
    if unused:
        said += f" {count(unused, 'block')} {'was' if unused == 1 else 'were'} never used."
    return said


def _other_windows(trace: Trace, first: int, last: int) -> str:
    before = f" {go(first - 1, PHASES[0], 'earlier steps')}" if first else ""
    after = f" {go(last + 1, PHASES[0], 'later steps')}" if last + 1 < len(trace.steps) else ""
    return before + after


# --------------------------------------------------------------------------------------
# The picture
# --------------------------------------------------------------------------------------


def lives_scene(
    lives: Sequence[Life], first: int, last: int, now: int, chosen: int | None
) -> Scene:
    """``now`` is the frame on screen, ``chosen`` the block told below."""
    steps = last - first + 1
    pitch = max(LIVES.least_step, min(LIVES.step, (LIVES.width - LIVES.left) / steps))
    height = LIVES.head + len(lives) * LIVES.row
    marks = [*_axis(first, last, pitch, height, now)]
    for index, life in enumerate(lives):
        y = LIVES.head + index * LIVES.row
        marks += _life_marks(life, y, first, last, pitch, chosen == life.block, now)
    return Scene(LIVES.left + steps * pitch + 2, height + 2, tuple(marks))


def _axis(first: int, last: int, pitch: float, height: float, now: int) -> Iterator[Mark]:
    phase = pitch / len(PHASES)
    x = LIVES.left + (now - first * len(PHASES)) * phase
    yield Mark("now", x, 0, Body("life-now", (Rect("", 0, 0, phase, height, 3),), layer=0))
    here, _ = moment_of(now)
    for step in range(first, last + 1):
        x = LIVES.left + (step - first) * pitch
        bold = "semi" if step == here else "m"
        text = Text(f"{bold} s12", 4, 13, f"step {step}")
        line = Path("life-edge", f"M0 2V{shapes.n(height)}")
        yield Mark(f"step-{step}", x, 0, Body("", (line, text), layer=0))


def _life_marks(
    life: Life, y: float, first: int, last: int, pitch: float, chosen: bool, now: int
) -> Iterator[Mark]:
    phase = pitch / len(PHASES)
    begin, end = first * len(PHASES), last * len(PHASES) + _LAST
    role = life.span_at(now).role
    label = shapes.block_chip(life.block, role, LIVES.chip, LIVES.bar)
    ring = [Rect("ring", -3, -3, LIVES.chip + 6, LIVES.bar + 6, 7)]
    body = Body(
        f"{label.cls} life-block{' pointed' if chosen else ''}",
        (*label.parts, *ring),
        block=life.block,
        title=f"block {life.block}, {ROLE_NAME[role]} now: read its life",
    )
    yield Mark(f"block:{life.block}", 6, y + LIVES.inset, body)
    for one in life.spans:
        left, right = max(one.first, begin), min(one.last, end)
        if right < left:
            continue
        x, width = LIVES.left + (left - begin) * phase, (right - left + 1) * phase
        busy = {event.frame - left for event in life.events if left <= event.frame <= right}
        body = _span_body(one, width, life.block, _free_place(one, width, phase, busy))
        yield Mark(f"span:{life.block}:{one.first}", x, y + LIVES.inset, body)
    frames = sorted({event.frame for event in life.events if begin <= event.frame <= end})
    for frame in frames:
        events = life.events_at(frame)
        step, name = moment_of(frame)
        x = LIVES.left + (frame - begin + 0.5) * phase
        yield Mark(
            f"go:{place(step, name)}:{life.block}",
            x,
            y + LIVES.row / 2,
            _sign_body(events, min(1.0, phase / LIVES.sign)),
        )


def _holders(one: Span) -> str:
    """``A``, ``A, B ×2``: who holds the block, and how often it is referenced if not once; the
    prefix that it is kept for if nobody does."""
    if not one.owners:
        return one.prefix
    names = ", ".join(dict.fromkeys(owner.request for owner in one.owners))
    return f"{names} ×{one.references}" if one.references > 1 else names


def _free_place(one: Span, width: float, phase: float, busy: set[int]) -> float | None:
    """Where in a span, in pixels, its holders can be written between the signs; None: nowhere."""
    said = _holders(one)
    room = width_of(said, 12) + 6
    if not said:
        return None
    for at in range(one.last - one.first + 1):
        cells = range(at, at + max(1, -(-int(room) // max(1, int(phase)))))
        if (at + 0.2) * phase + room <= width and not busy.intersection(cells):
            return max(10.0 if one.role == "cached" else 6.0, at * phase + 3)
    return None


def _span_body(one: Span, width: float, number: int, free: float | None) -> Body:
    """A stretch of a block's life in its role, with its holders where they fit."""
    wide = max(width - 1, 1)
    if one.role == "free":
        line = Path("life-free", f"M0 {LIVES.bar / 2}H{shapes.n(wide)}")
        return Body("life-rest", (line,), layer=0, title=f"block {number} is free")
    parts: list[Primitive] = shapes.block_frame(one.role, wide, LIVES.bar, 3)
    if free is not None:
        parts.append(Text("s12 semi", free, LIVES.bar - 5.5, _holders(one)))
    title = f"block {number}, {_held(one)}"
    return Body(shapes.block_class(one.role) + " life-span", tuple(parts), layer=0, title=title)


def _held(one: Span) -> str:
    """``running, held by A: 1 reference``."""
    said = ROLE_NAME[one.role]
    if one.owners:
        names = " and ".join(dict.fromkeys(owner.request for owner in one.owners))
        said += f", held by {names}: {count(one.references, 'reference')}"
    else:
        said += ", held by nobody: 0 references"
    return f"{said}, registered for {_prefix(one.prefix)}" if one.prefix else said


def _sign_body(events: Sequence[LifeEvent], scale: float) -> Body:
    drawn = min(events, key=lambda event: _DRAWN.index(event.kind))
    title = f"step {drawn.step}, {drawn.phase}: " + " ".join(event_words(event) for event in events)
    return Body(
        f"life-sign life-{drawn.kind.replace(' ', '-')}", sign(drawn.kind, scale), 2, title=title
    )


def sign(kind: LifeKind, scale: float = 1.0) -> tuple[Primitive, ...]:
    """An event around (0, 0), 17 × 16 pixels at most."""
    half = 8 * scale
    if scale < 0.5:  # no room for a shape: a dot in the kind's colour
        return (Dot("pip", 0, 0, max(2.5, half)),)
    box = Rect("box", -half, -half, 2 * half, 2 * half, 3)
    match kind:
        case "migrate" | "checkpoint":
            return (box, _scaled(shapes.event_sign(kind), scale))
        case "found":
            return (box, _scaled(shapes.event_sign("hit"), scale))
        case "forward":
            return (Dot("pip", 0, 0, 5 * scale),)
        case "taken":
            return (box, _stroke(f"M{-4} 0H4M0 -4V4", scale))
        case "freed":
            return (box, _stroke("M-4 0H4", scale))
        case "let go":
            return (box, _stroke("M-4 3L4 -3", scale))
        case "registered":
            return (box, _stroke("M-3 5V-5H4L2 -2.5L4 0H-3", scale))
        case "unregistered":
            return (box, _stroke("M-3 5V-5H4L2 -2.5L4 0H-3M-5 5L5 -5", scale))


def _scaled(parts: tuple[Primitive, ...], scale: float) -> Group:
    """An overview sign, drawn around its own middle."""
    moved = tuple(
        Path(part.cls, _shrunk(part.d, scale)) for part in parts if isinstance(part, Path)
    )
    return Group("", -8.5 * scale, -8 * scale, moved)


def _shrunk(d: str, scale: float) -> str:
    """A path of absolute and relative commands with every number scaled."""
    if scale == 1:
        return d
    out, number = "", ""
    for char in d + " ":
        if char.isdigit() or char == "." or (char == "-" and not number):
            number += char
            continue
        if number:
            out += shapes.n(float(number) * scale)
            number = ""
        if char == "-":
            number = "-"
        elif char != " ":
            out += char
        else:
            out += " "
    return out.strip()


def _stroke(d: str, scale: float) -> Path:
    return Path("sign", _shrunk(d, scale))


def _key(lives: Sequence[Life], first: int, last: int) -> str:
    """What the signs mean, as far as they occur, and the colours' letters."""
    begin, end = first * len(PHASES), last * len(PHASES) + _LAST
    events = {e.kind for life in lives for e in life.events if begin <= e.frame <= end}
    items = "".join(
        f'<li><svg width="20" height="18" viewBox="-10 -9 20 18" aria-hidden="true">'
        f"{_drawn_sign(kind)}</svg>{escape(words)}</li>"
        for kind, words in KIND_WORDS.items()
        if kind in events
    )
    return f'<ul class="key" aria-label="signs">{items}</ul>'


def _drawn_sign(kind: LifeKind) -> str:
    scene = Scene(
        0, 0, (Mark("", 0, 0, Body(f"life-sign life-{kind.replace(' ', '-')}", sign(kind))),)
    )
    whole = inline(scene, "")
    return whole[whole.index(">") + 1 : whole.rindex("</svg>")]


# --------------------------------------------------------------------------------------
# In words
# --------------------------------------------------------------------------------------


def _told(lives: Sequence[Life], chosen: int | None, now: int) -> str:
    life = next((life for life in lives if life.block == chosen), None)
    if life is None:
        if chosen is None:
            return nothing("Choose a block to read its life.")
        return nothing(f"Block {chosen} was never used in this run.")
    at = life.span_at(now)
    step, phase = moment_of(now)
    rows = [_event_row(event, now) for event in life.events]
    head = (
        f"<h4>Block {block(life.block, at.role)} after {escape(phase)} of step {step}: "
        f"{escape(_held(at))}.</h4>"
    )
    body = table(
        f"The life of block {life.block}, event by event",
        ("when", "what happened", "holds", "references"),
        rows,
        "events",
    )
    return f'<div class="told">{head}<div class="scroll">{body}</div></div>'


def _event_row(event: LifeEvent, now: int) -> str:
    cls = "now" if event.frame == now else "ahead" if event.frame > now else ""
    holds = "" if event.holds is None else f"h({event.holds})"
    return (
        f'<tr class="{cls}"><th scope="row">'
        f"{go(event.step, event.phase, now=event.frame == now)}</th>"
        f"<td>{escape(event_words(event))}</td><td>{holds}</td><td>{event.references}</td></tr>"
    )


def event_words(event: LifeEvent) -> str:
    """What happened to a block, as one sentence with its numbers."""
    name, column = event.request, event.column
    match event.kind:
        case "taken":
            return f"{name} takes the block for its column {column}."
        case "found":
            return (
                f"{name} finds the block in the cache for its column {column}: it is registered "
                f"for {_prefix(event.prefix)}."
            )
        case "let go":
            remain = "remains" if event.references == 1 else "remain"
            return f"{_leaves(event)}; {count(event.references, 'reference')} {remain}."
        case "freed":
            if event.prefix:
                return (
                    f"{_leaves(event)}. Nobody holds it, but it stays registered for "
                    f"{_prefix(event.prefix)} and can be found until it is taken."
                )
            return f"{_leaves(event)}. The block is free{_lost(event)}."
        case "registered":
            return (
                f"Registered for {_prefix(event.prefix)}: who begins alike may find it"
                f"{_early(event)}."
            )
        case "unregistered":
            return f"No longer registered for {_prefix(event.prefix)}."
        case "forward":
            query = f", {span(*event.tokens)}," if event.tokens else ""
            return f"The forward of {name or 'no request'}{query} writes the block."
        case "migrate" | "checkpoint":
            return _copied(event)


def _lost(event: LifeEvent) -> str:
    """Why a saved state cannot be found again (section 2, registration)."""
    if event.lost is None:
        return ""
    why = f"that comes with an allocation, and {event.request} had none after its last step"
    if event.why == "preempted":
        why = f"that comes with an allocation, and {event.request} had none before it was preempted"
    elif event.why == "dropped":
        why = "an allocation lets go of the columns behind first and registers full ones after"
    return f", and the saved h({event.lost}) is lost: it was never registered, because {why}"


def _early(event: LifeEvent) -> str:
    """An allocation registers what its step will fill, so the bytes may still be to come."""
    if str(event.holds) == event.prefix.rpartition("@")[2]:
        return ""
    holds = "It is still empty" if event.holds is None else f"It still holds h({event.holds})"
    return f" from the next step on. {holds}: an allocation registers what its step is to fill"


def _copied(event: LifeEvent) -> str:
    assert event.kind in ("migrate", "checkpoint")
    kind = KIND_NAME["migrate" if event.kind == "migrate" else "checkpoint"]
    return (
        f"{kind}, bias {event.bias}: the state of {event.request} is copied here from "
        f"{either(event.source)}, into column {event.column}."
    )


def _leaves(event: LifeEvent) -> str:
    how = {
        "finished": f"{event.request} has finished and gives the block back",
        "preempted": f"{event.request} is preempted and gives the block back",
    }
    return how.get(event.why, f"The list of {event.request} lets go of the block")


def _prefix(prefix: str) -> str:
    """``the first 8 tokens of A``."""
    request, _, tokens = prefix.rpartition("@")
    return f"the first {tokens} tokens of {request}"
