"""The pictures of one build as HTML for the page: what the browser gets is finished text.

Everything that a person could have typed is escaped here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from html import escape
from itertools import groupby
from pathlib import Path

from mambaviz.batch_record import BatchRecord, Pointer
from mambaviz.viz import theme
from mambaviz.viz.assets import marks_css
from mambaviz.viz.batch import fields, words
from mambaviz.viz.batch.blocks import block_scene, cell_name
from mambaviz.viz.batch.chunks import CONV_TILE, chunk_scene, chunk_tokens
from mambaviz.viz.batch.graph import graph_scene
from mambaviz.viz.batch.ring import dial_scene, ring_scene
from mambaviz.viz.batch.split import split_scene
from mambaviz.viz.svg import PATTERNS, inline

_DIR = Path(__file__).parent


@cache
def batch_css() -> str:
    """The component's whole style: tokens that follow the page's theme, shapes, layout."""
    root = theme.css_following(".batch")
    return "\n".join((root, marks_css(), (_DIR / "batch.css").read_text(encoding="utf-8")))


@cache
def batch_js() -> str:
    return (_DIR / "batch.js").read_text(encoding="utf-8")


def say_html(record: BatchRecord) -> str:
    """Headline and sentences."""
    told = " ".join(escape(sentence) for sentence in words.sentences(record))
    return f'<div class="mv-say"><h1>{escape(words.headline(record))}</h1><p>{told}</p></div>'


def split_html(record: BatchRecord) -> str:
    """Who counts as what: the picture beside the editor."""
    picture = inline(split_scene(record), words.headline(record))
    return _root(f'<h3>Who counts as what</h3><div class="picture">{picture}</div>')


def build_html(record: BatchRecord) -> str:
    """Everything below the editor."""
    panels = []
    if record.split is not None:
        panels.append(_chunk_panel(record))
    if record.rings:
        panels.append(_ring_panel(record))
    if record.graph is not None:
        panels.append(_graph_panel(record))
    lower = f'<div class="lower">{_fields_panel(record)}{_points_panel(record)}</div>'
    return _root("".join(panels) + lower)


def _root(inside: str) -> str:
    patterns = f'<svg class="patterns" width="0" height="0" aria-hidden="true">{PATTERNS}</svg>'
    return f"{patterns}{inside}"


def _panel(name: str, title: str, note: str, inside: str) -> str:
    small = f"<small>{escape(note)}</small>" if note else ""
    return f'<section class="panel {name}"><h3>{escape(title)} {small}</h3>{inside}</section>'


def _chunk_panel(record: BatchRecord) -> str:
    size = chunk_tokens(record)
    note = f"conv programs take {CONV_TILE} tokens each"
    if size is not None:
        note = (
            f"chunks end where a sequence reaches a multiple of {size}; heavy outline = last chunk "
            "of its request; green = block boundary"
        )
    picture = inline(chunk_scene(record), "tokens of the prefills, their chunks and conv programs")
    return _panel("plan", "How the prefill is cut", note, f'<div class="picture">{picture}</div>')


def _ring_panel(record: BatchRecord) -> str:
    run = record.rings[0]
    last = len(run.steps) - 1
    name = escape(run.request)
    turn = (
        f'<label class="turn">turn the ring of {name}<input type="range" min="0" max="{last}" '
        'value="0" step="1"></label>'
    )
    dial = f'<div class="dials">{inline(dial_scene(record), "the ring at one step")}{turn}</div>'
    lanes = inline(ring_scene(record), "ring position, flushes and anchors over the steps")
    note = (
        "this step and those after it, a token each; solid with a tip = flush, the full state is "
        "written instead of an entry; bytes of one layer in float32"
    )
    inside = f'<div class="ring-row">{dial}<div class="picture">{lanes}</div></div>'
    return _panel("ring", "How the ring turns", note, inside)


def _graph_panel(record: BatchRecord) -> str:
    graph = record.graph
    assert graph is not None
    title = "What a captured graph reads"
    if graph.why_not:
        return _panel("graph", title, "", f"<p>Not used here: {escape(graph.why_not)}.</p>")
    note = "hatched = padding rows, returned; dashed = rows of the memory beyond the batch"
    picture = inline(graph_scene(record), "rows of the persistent decode buffers")
    return _panel("graph", title, note, f'<div class="picture">{picture}</div>')


# --------------------------------------------------------------------------------------
# Fields
# --------------------------------------------------------------------------------------


def _fields_panel(record: BatchRecord) -> str:
    body = []
    for part, group in groupby(fields.lines(record), key=lambda line: line.part):
        body.append(f'<tr class="part"><th colspan="4">{part.capitalize()}</th></tr>')
        body += [_line(line) for line in group]
    columns = '<colgroup><col class="names"><col class="values"><col class="kinds"><col></colgroup>'
    table = f'<table class="fields">{columns}<tbody>{"".join(body)}</tbody></table>'
    return _panel("returns", "What the builder returns", "point at a field or a block", table)


def _line(line: fields.Line) -> str:
    names = ", ".join(_name(field) for field in line.fields)
    values = " ".join(
        f'<span data-field="{field.name}">{_value(field)}</span>'
        + ("," if field is not line.fields[-1] else "")
        for field in line.fields
    )
    kinds = _kinds([field.kind for field in line.fields])
    rule = line.fields[0].rule if len(line.fields) == 1 else _short_rules(line.fields)
    return (
        f'<tr data-line="{" ".join(field.name for field in line.fields)}"><td>{names}</td>'
        f'<td class="value">{values}</td><td class="kind">{escape(kinds)}</td>'
        f'<td class="rule" title="{escape(rule)}">{escape(rule)}</td></tr>'
    )


def _kinds(kinds: Sequence[str]) -> str:
    """``int32 [5], [3]``: what both have in common is said once."""
    different = list(dict.fromkeys(kinds))
    first = different[0].partition(" ")[0]
    rest = [kind.removeprefix(f"{first} ") for kind in different[1:]]
    return ", ".join([different[0], *rest])


def _short_rules(found: Sequence[fields.Field]) -> str:
    return "; ".join(field.rule for field in found)


def _name(field: fields.Field) -> str:
    cells = " ".join(cell_name(cell.row, cell.column) for cell in field.cells)
    return (
        f'<button type="button" class="name" data-field="{field.name}" data-cells="{cells}" '
        f'aria-pressed="false">{field.name}</button>'
    )


def _value(field: fields.Field) -> str:
    """The pieces; a row of block ids in brackets stays on one line."""
    ids = any(piece.role for piece in field.pieces)
    text = ""
    for piece in field.pieces:
        opens, closes = ids and piece.text.endswith("["), ids and piece.text.endswith("]")
        text += f"{' ' if opens else ''}{'<span class=ids>' if opens else ''}{_piece(piece)}"
        text += "</span>" if closes else ""
    return text


def _piece(piece: fields.Piece) -> str:
    text = escape(piece.text.replace("-", "−"))
    if piece.row is None and piece.cell is None and piece.role is None:
        return text
    link = "" if piece.row is None else f' data-row="{piece.row}"'
    if piece.cell is not None:
        link += f' data-cell="{_cell_of(piece.cell)}"'
    cls = "number" if piece.role is None else f"chip {piece.role}"
    return f'<span class="{cls}"{link}>{text}</span>'


def _cell_of(pointer: Pointer) -> str:
    return cell_name(pointer.row, pointer.column)


# --------------------------------------------------------------------------------------
# Blocks
# --------------------------------------------------------------------------------------


def _points_panel(record: BatchRecord) -> str:
    picture = inline(block_scene(record), "block table; what the chosen field names is ringed")
    shown = [field for line in fields.lines(record) for field in line.fields]
    details = "".join(_detail(field) for field in shown)
    told = "".join(
        f'<p data-row-words="{row}" hidden>{escape(words.row_words(record, row))}</p>'
        for row in range(len(record.rows))
    )
    inside = (
        f'<div class="picture">{picture}</div><div class="row-words">{told}</div>'
        f'<div class="details">{details}</div>'
    )
    note = "<small class='ringed'></small>"
    return f'<section class="panel points"><h3>Where it points {note}</h3>{inside}</section>'


def _detail(field: fields.Field) -> str:
    return (
        f'<dl data-detail="{field.name}" hidden><dt>{field.name}</dt>'
        f"<dd>{escape(field.meaning)}</dd>"
        f"{''.join(_facts(field))}</dl>"
    )


def _facts(field: fields.Field) -> Iterator[str]:
    yield f"<dd><b>Rule</b> {escape(field.rule)}</dd>"
    yield f"<dd><b>There</b> {escape(field.present)} (section {field.section})</dd>"
    if field.memory:
        yield f"<dd><b>Memory</b> {escape(field.memory)}</dd>"


def chosen_field(record: BatchRecord) -> str:
    """The field that is pointed at while nobody points: the decodes' blocks, else the prefills'."""
    return "state_indices_tensor_d" if record.num_decodes else "state_indices_tensor_p"
