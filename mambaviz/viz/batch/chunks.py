"""How the prefill is cut: its tokens, the chunks of the scan, the programs of the conv1d."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mambaviz.batch_record import BatchRecord
from mambaviz.viz import shapes
from mambaviz.viz.batch.text import clipped, fitting, width_of
from mambaviz.viz.scene import Body, Mark, Path, Rect, Scene, Text
from mambaviz.viz.shapes import n
from mambaviz.viz.theme import BATCH

TOKENS, CHUNKS, STATES, PROGRAMS = 20.0, 65.0, 110.0, 124.0  # y of the four lines
HEIGHT = 150.0
CONV_TILE = 8  # tokens of a conv1d program: the key of ``nums_dict``


@dataclass(frozen=True)
class Prefill:
    """One prefill row on the token axis: where it starts there and in its own sequence."""

    index: int  # among the prefills
    request: str
    computed: int
    query: int
    start: int  # of its first token on the prefill part of the token axis


def prefills(record: BatchRecord) -> list[Prefill]:
    starts = record.numbers("query_start_loc_p")
    rows = record.batch.rows[record.num_decodes :]
    return [
        Prefill(index, row.request, row.computed, row.query, starts[index])
        for index, row in enumerate(rows)
    ]


def chunk_tokens(record: BatchRecord) -> int | None:
    """Tokens of a full chunk; None where the builder cuts no chunks."""
    if not record.numbers("cu_chunk_seqlen_p"):
        return None
    batch = record.batch
    return batch.chunk_size if batch.builder == "mamba2" else batch.block_size


def chunk_scene(record: BatchRecord) -> Scene:
    """Only for a batch with prefills."""
    found = prefills(record)
    total = sum(prefill.query for prefill in found)
    room = BATCH.plan_width - BATCH.plan_left - 14
    pitch = max(BATCH.least_token, min(BATCH.token, room / max(1, total)))
    axis = _Axis(pitch)
    marks = [_label("tokens", TOKENS + 17)]
    for prefill in found:
        marks += _prefill(record, prefill, axis)
    if chunk_tokens(record) is not None:
        marks += [_label(f"chunks of {chunk_tokens(record)}", CHUNKS + 17)]
        marks += [_label("state after", STATES + 1), *_chunks(record, found, axis)]
    marks += [_label("conv programs", PROGRAMS + 17), *_programs(record, found, axis)]
    width = max(BATCH.plan_width, axis.x(total) + 40)
    return Scene(width, HEIGHT, tuple(marks))


@dataclass(frozen=True)
class _Axis:
    pitch: float

    def x(self, token: int) -> float:
        return BATCH.plan_left + token * self.pitch


def _label(text: str, y: float) -> Mark:
    return Mark(
        f"label-{text}", BATCH.plan_left - 14, y, Body("", (Text("m s13 end", 0, 0, text),))
    )


def _prefill(record: BatchRecord, prefill: Prefill, axis: _Axis) -> Iterator[Mark]:
    left, right = axis.x(prefill.start), axis.x(prefill.start + prefill.query)
    last = prefill.computed + prefill.query - 1
    name = clipped(prefill.request, 12)
    span = f"tokens {prefill.computed}–{last}" if prefill.query > 1 else f"token {last}"
    wordings = (f"{name}: {prefill.computed} computed, {span}", f"{name}: {span}", name)
    # In its own width: a neighbour's title begins where its tokens end.
    title = fitting(wordings, right - left, 13) or name
    yield Mark(
        f"prefill-{prefill.index}",
        (left + right) / 2,
        12,
        Body("", (Text("mid s13 semi", 0, 0, title),), title=wordings[0]),
    )
    for token in range(prefill.query):
        yield from _token(record, prefill, token, axis)
    if prefill.index:
        path = Path("bracket", f"M0 18V{n(HEIGHT - 2)}")
        yield Mark(f"edge-{prefill.index}", left - 0.5, 0, Body("", (path,), layer=2))


def _token(record: BatchRecord, prefill: Prefill, token: int, axis: _Axis) -> Iterator[Mark]:
    position, x = prefill.computed + token, axis.x(prefill.start + token)
    every = 1 if axis.pitch >= 22 else 4
    text = str(position) if position % every == 0 and axis.pitch * every >= 22 else ""
    name = f"token-{prefill.index}-{position}"
    wide = max(3.0, axis.pitch - 2.4)
    body = shapes.token(text if every == 1 else "", "prompt", wide, 25, "s13")
    yield Mark(name, x + 1.2, TOKENS, body)
    if every > 1 and text:
        label = Body("", (Text("s12", 0, 0, text),), layer=2)
        yield Mark(f"{name}-text", x + 2.5, TOKENS + 17, label)
    if (position + 1) % record.batch.effective_block_size == 0:
        bar = Path("boundary", f"M0 {n(TOKENS - 2)}v30")
        yield Mark(
            f"boundary-{prefill.index}-{position + 1}", x + axis.pitch - 3.5, 0, Body("", (bar,), 2)
        )


def _chunks(record: BatchRecord, found: list[Prefill], axis: _Axis) -> Iterator[Mark]:
    starts, owners = record.numbers("cu_chunk_seqlen_p"), record.numbers("seq_idx_p")
    last = record.numbers("last_chunk_indices_p")
    for chunk, owner in enumerate(owners):
        start, end = starts[chunk], starts[chunk + 1]
        left, wide = axis.x(start), max(5.0, (end - start) * axis.pitch)
        is_last, tokens = last[owner] == chunk, _count(end - start, "token")
        suffix = ", last" if is_last else ""
        wordings = (f"chunk {chunk}, {tokens}{suffix}", f"chunk {chunk}", str(chunk))
        text = fitting(wordings, wide - 6, 13)
        cls = "chunk last" if is_last else "chunk"
        box = Rect("", 1.2, 0, wide - 2.4, 26, 5)
        label = Text("mid s13 semi", wide / 2, 17.5, text)
        title = f"chunk {chunk} of {found[owner].request}: {tokens}{suffix}"
        yield Mark(f"chunk-{chunk}", left, CHUNKS, Body(cls, (box, label), title=title))
        yield from _state_after(found[owner], chunk, end, axis, wide)


def _state_after(
    prefill: Prefill, chunk: int, end: int, axis: _Axis, room: float
) -> Iterator[Mark]:
    text = f"h({prefill.computed + end - prefill.start})"
    if width_of(text, 12) <= room + 3:
        label = Body("", (Text("end s12 semi", 0, 0, text),))
        yield Mark(f"state-{chunk}", axis.x(end) - 2, STATES, label)


def _programs(record: BatchRecord, found: list[Prefill], axis: _Axis) -> Iterator[Mark]:
    programs = record.value("nums_dict")[str(CONV_TILE)]
    pairs = zip(programs["mlist"]["values"], programs["offsetlist"]["values"], strict=True)
    for program, (owner, tile) in enumerate(pairs):
        prefill = found[owner]
        start = tile * CONV_TILE
        tokens = min(CONV_TILE, prefill.query - start)
        wide = tokens * axis.pitch
        wordings = (f"prefill {owner}, offset {tile}", f"{owner}, {tile}", f"{owner},{tile}")
        box = Rect("", 1.2, 0, wide - 2.4, 24, 5)
        label = Text("mid s13", wide / 2, 16.5, fitting(wordings, wide - 4, 13))
        title = f"program {program}: tile {tile} of prefill {owner} ({prefill.request})"
        yield Mark(
            f"program-{program}",
            axis.x(prefill.start + start),
            PROGRAMS,
            Body("program", (box, label), title=title),
        )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
