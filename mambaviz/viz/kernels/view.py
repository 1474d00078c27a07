"""The pictures of one launch as HTML for the page: what the browser gets is finished text.

Two mounts of one component show it, the programs on the left and the chosen one on the right;
``kernels.js`` keeps them on the same program. Everything that a person could have typed is escaped
here and in `code`, and nowhere else.
"""

from __future__ import annotations

from functools import cache
from html import escape
from pathlib import Path

from mambaviz.launches.record import (
    OUTCOME_NAMES,
    Damage,
    LaunchRecord,
    Outcome,
    ProgramRecord,
)
from mambaviz.trace import ByteRange
from mambaviz.viz import theme
from mambaviz.viz.assets import marks_css
from mambaviz.viz.kernels import code, strips, words
from mambaviz.viz.svg import PATTERNS, inline

_DIR = Path(__file__).parent
_SLUG: dict[Outcome, str] = {outcome: outcome.replace(" ", "-") for outcome in OUTCOME_NAMES}


@cache
def kernels_css() -> str:
    """The component's whole style: tokens that follow the page's theme, shapes, layout."""
    own = (_DIR / "kernels.css").read_text(encoding="utf-8")
    return "\n".join((theme.css_following(".kernels"), marks_css(), own))


@cache
def kernels_js() -> str:
    return (_DIR / "kernels.js").read_text(encoding="utf-8")


def say_html(record: LaunchRecord, damage: Damage | None) -> str:
    """Headline and sentences."""
    told = " ".join(escape(sentence) for sentence in words.sentences(record, damage))
    wrong = " mv-broken" if damage is not None or record.unexplained else ""
    head = escape(words.headline(record, damage))
    return f'<div class="mv-say{wrong}"><h1>{head}</h1><p>{told}</p></div>'


def _panel(name: str, title: str, note: str, inside: str) -> str:
    """``title`` and ``note`` are finished HTML."""
    small = f"<small>{note}</small>" if note else ""
    return f'<section class="panel {name}"><h3>{title} {small}</h3>{inside}</section>'


# --------------------------------------------------------------------------------------
# Left: the programs, what goes wrong, the orders of a shift
# --------------------------------------------------------------------------------------


def programs_html(record: LaunchRecord, damage: Damage | None) -> str:
    """Everything below the inputs."""
    patterns = f'<svg class="patterns" width="0" height="0" aria-hidden="true">{PATTERNS}</svg>'
    return patterns + _grid(record, damage) + _damage(damage) + _orders(record)


def _grid(record: LaunchRecord, damage: Damage | None) -> str:
    hurt = set(damage.programs) if damage is not None else set()
    heads = "".join(f"<th scope=col>{escape(name)}</th>" for name in record.columns)
    rows = []
    for row, request in enumerate(record.inputs.rows):
        cells = "".join(
            f"<td>{_cell(record, program, program.key in hurt)}</td>"
            for program in record.programs
            if program.row == row
        )
        note = escape(record.notes[row])
        rows.append(
            f'<tr><th scope=row><b title="{escape(request.request)}">{escape(request.request)}</b>'
            f"<span>{note}</span></th>{cells}</tr>"
        )
    table = (
        f'<table class="grid" aria-label="programs"><thead><tr><th></th>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )
    unit = "lane and array" if record.inputs.kernel == "preprocess" else "program"
    note = f"one {unit} a cell; pick one, arrow keys move"
    return _panel(
        "programs",
        "Programs",
        note,
        f'<div class="wide">{table}</div>{_legend(record, hurt=bool(hurt))}',
    )


def _cell(record: LaunchRecord, program: ProgramRecord, hurt: bool) -> str:
    title = f"{words.selected(record, program.row, program.state)}: {program.why}"
    cross = '<i class="cross" aria-label="wrong bytes">✗</i>' if hurt else ""
    return (
        f'<button type="button" class="program {_SLUG[program.outcome]}{" hurt" if hurt else ""}" '
        f'data-program="{program.key}" title="{escape(title)}" tabindex="-1" aria-pressed="false">'
        f"{escape(program.label)}{cross}</button>"
    )


def _legend(record: LaunchRecord, *, hurt: bool) -> str:
    if record.inputs.kernel == "preprocess":
        shown: tuple[Outcome, ...] = ("written", "kept", "idle")
    else:
        shown = ("copied", "shifted", "idle", "in place", "guarded")
    entries = "".join(
        f'<span><i class="program {_SLUG[outcome]}"></i>{OUTCOME_NAMES[outcome]}</span>'
        for outcome in shown
    )
    if hurt:
        entries += '<span><b class="cross">✗</b>wrong bytes</span>'
    return f'<p class="legend">{entries}</p>'


def _damage(damage: Damage | None) -> str:
    if damage is None:
        return ""
    lines = []
    for place in dict.fromkeys(one.place for one in damage.broken):
        mine = [one for one in damage.broken if one.place == place]
        lamps = "".join(f'<b class="lamp">{one.invariant}</b>' for one in mine)
        whys = ", ".join(dict.fromkeys(one.why for one in mine))
        lines.append(f"<li><span>{lamps}</span><span>{escape(place)}: {escape(whys)}.</span></li>")
    notes = "".join(f"<p>{escape(note)}.</p>" for note in (*damage.counts, *damage.notes))
    title = "What catches it" if lines else "Nothing to catch"
    listed = f"<ul>{''.join(lines)}</ul>" if lines else ""
    return _panel("damage", title, "simulated on the bytes of this launch", listed + notes)


def _orders(record: LaunchRecord) -> str:
    shown = [
        f'<div data-for="{program.key}" hidden>{_order(record, program)}</div>'
        for program in record.programs
        if program.outcome == "shifted"
    ]
    other = "".join(
        f'<p data-for="{program.key}" hidden>{escape(_no_order(record, program))}</p>'
        for program in record.programs
        if program.outcome != "shifted"
    )
    title = "Why the order matters" if record.inputs.copies else "Why a barrier"
    return _panel("orders", title, "", "".join(shown) + other)


def _order(record: LaunchRecord, program: ProgramRecord) -> str:
    inputs = record.inputs
    window, running = inputs.conv_kernel - 1, inputs.running(program.row)
    scene = strips.orders_scene(program.orders, program.bias, window, running)
    picture = inline(scene, "the same shift done in different orders")
    kept = inputs.conv_width - program.bias
    both = max(0, kept - program.bias)
    apart = f"{kept} {'row' if kept == 1 else 'rows'}, {program.bias} apart"
    if both:
        told = (
            f"Source and target are the same block here, {apart}, so "
            f"{_rows(program.bias, kept - 1)} both read and written. In the wrong order that is "
            "overwritten before it is read. The temporal copy stays right, so the fault is silent."
        )
    else:
        told = f"Source and target are the same block, {apart}: they do not overlap this time."
    simulated = "Both lower orders are simulated on the block's bytes."
    return f'<div class="picture">{picture}</div><p>{told} {simulated}</p>'


def _rows(first: int, last: int) -> str:
    if first == last:
        return f"row {first} is"
    return f"rows {first}–{last} are"


def _no_order(record: LaunchRecord, program: ProgramRecord) -> str:
    if record.inputs.kernel == "preprocess":
        return (
            "Threads may share a lane. All of them load before any stores, or one could read the "
            "new column as the old one."
        )
    if program.outcome == "copied" and program.src_block == program.dst_block:
        return "Source and target are the same bytes: each is written over itself, in any order."
    if program.outcome == "copied":
        return (
            "Source and target are different blocks: whatever order the bytes go in, none is "
            "overwritten before it is read. Pick a shift in place to see where order matters."
        )
    return f"{program.why} Pick a shift in place to see where order matters."


# --------------------------------------------------------------------------------------
# Right: one program line by line, and its bytes
# --------------------------------------------------------------------------------------


def detail_html(
    record: LaunchRecord, damage: Damage | None, told: dict[str, dict[str, code.Shown]]
) -> str:
    """The chosen program; ``told`` are the values of `code.values`."""
    titles = "".join(
        f'<span data-for="{program.key}" hidden>'
        f"{escape(words.selected(record, program.row, program.state))}</span>"
        for program in record.programs
    )
    outcomes = "".join(
        f'<p class="why" data-for="{program.key}" hidden>{escape(program.why)}</p>'
        for program in record.programs
    )
    whole = (
        '<label class="whole"><input type="checkbox"> arguments and docstrings</label>'
        f"<span>{escape(_listing_note(record))}</span>"
    )
    inside = (
        f'{outcomes}<div class="source" tabindex="0" aria-label="source of the kernel and values">'
        f'{code.code_html(record, told)}</div><p class="foot">{whole}</p>'
    )
    source = _panel("decision", titles, _paths(record), inside)
    return source + (_bytes(record, damage) if record.inputs.copies else _arrays(record))


def _paths(record: LaunchRecord) -> str:
    """The switch between the readable kernel and the fast one, where there are two."""
    if record.inputs.kernel not in ("postprocess", "precopy"):
        return "its lines and what they came to"
    fast = "_pieces_" in record.function
    buttons = "".join(
        f'<button type="button" data-path="{name}" aria-pressed="{str(on).lower()}">{name}</button>'
        for name, on in (("readable", not fast), ("fast", fast))
    )
    return f'<span class="paths" role="group" aria-label="kernel">{buttons}</span>'


def _listing_note(record: LaunchRecord) -> str:
    if "_pieces_" in record.function:
        return "values by name: this kernel decides for all requests at once, one lane each"
    return "values from the plain twin, held against the launch"


def _bytes(record: LaunchRecord, damage: Damage | None) -> str:
    titles, notes, parts = [], [], []
    for program in record.programs:
        titles.append(
            f'<span data-for="{program.key}" hidden>{_bytes_title(record, program)}</span>'
        )
        notes.append(f'<span data-for="{program.key}" hidden>{_layout(record, program)}</span>')
        parts.append(f'<div data-for="{program.key}" hidden>{_one(record, program, damage)}</div>')
    return _panel("bytes", "".join(titles), "".join(notes), "".join(parts))


def _bytes_title(record: LaunchRecord, program: ProgramRecord) -> str:
    state = record.states[program.state]
    src, dst = program.src_block, program.dst_block
    if src is None and dst is None:
        return "Bytes: none are touched"
    blocks = [str(block) for block in dict.fromkeys((src, dst)) if block is not None]
    return (
        f"Bytes of {state.kind} block{'s' if len(blocks) > 1 else ''} {' and '.join(blocks)}, "
        f"layer {state.layer}"
    )


def _layout(record: LaunchRecord, program: ProgramRecord) -> str:
    inputs = record.inputs
    size = f"{inputs.elem_size} B"
    if record.states[program.state].kind == "temporal":
        return f"{inputs.channels} channels × {inputs.d_state} values × {size}"
    if inputs.layout == "SD":
        return f"SD: one row a token, {inputs.channels} channels × {size}"
    return f"DS: one row a channel, {inputs.conv_width} tokens × {size}"


def _one(record: LaunchRecord, program: ProgramRecord, damage: Damage | None) -> str:
    scene = strips.bytes_scene(record, program, damage)
    picture = (
        f'<div class="picture">{inline(scene, "bytes read and written")}</div>'
        if scene.marks
        else f"<p>{escape(program.why)}</p>"
    )
    if program.source is None or program.target is None:
        return picture
    return picture + _addresses(record, program, program.source, program.target)


def _addresses(
    record: LaunchRecord, program: ProgramRecord, source: ByteRange, target: ByteRange
) -> str:
    """Where the addresses come from, worked out."""
    state, inputs = record.states[program.state], record.inputs
    stride, src, dst = state.stride, program.src_block or 0, program.dst_block or 0
    conv = state.kind == "conv"
    token = inputs.elem_size * (inputs.channels if inputs.layout == "SD" else 1)
    shift = f" + {program.bias} · {token}" if conv else ""
    rule = "block id · stride" + (" + bias · token" if conv else "")
    first, begin = src * stride + source.start, dst * stride + target.start
    lines = [
        ("source address", f"base + {src} · {stride}{shift}", f"base + {first}", rule),
        ("target address", f"base + {dst} · {stride}", f"base + {begin}", "block id · stride"),
    ]
    if not conv:
        how, why = "natural block", "without the padding of its page"
    elif source.rows > 1:
        how = f"{source.rows} · ({inputs.conv_width} − {program.bias}) · {token}"
        why = "channels · (rows kept − bias) · token"
    else:
        how = f"({inputs.conv_width} − {program.bias}) · {token}"
        why = "(rows kept − bias) · token"
    lines.append(("length", how, f"{program.num_bytes} B", why))
    both = begin + target.length - first
    if src == dst and program.bias and both > 0 and source.rows == 1:
        why = "must be read before it is written"
        lines.append(("overlap", f"{first}–{first + both - 1}", f"{both} B", why))
    rows = "".join(
        f"<tr><td>{name}</td><td>{how}</td><td><b>{value}</b></td><td>{why}</td></tr>"
        for name, how, value, why in lines
    )
    return f'<table class="addresses"><tbody>{rows}</tbody></table>'


def _arrays(record: LaunchRecord) -> str:
    """The arrays by slot, before and after (section 3.3)."""
    slots = range(len(record.counts[0].before))
    heads = "".join(f"<th>slot {slot}</th>" for slot in slots)
    rows = []
    for counts in record.counts:
        cells = "".join(
            f'<td class="{"new" if counts.before[slot] != counts.after[slot] else ""}">'
            f"{_signed(counts.before[slot])} → {_signed(counts.after[slot])}</td>"
            for slot in slots
        )
        rows.append(f"<tr><th>{counts.name}</th>{cells}</tr>")
    table = (
        f'<table class="arrays"><thead><tr><th></th>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )
    inside = f'<div class="wide">{table}</div>'
    return _panel("bytes", "The arrays by slot", "before → after", inside)


def _signed(number: int) -> str:
    return str(number).replace("-", "−")
