"""Which bytes a copy read and wrote: memory as a strip, contiguous (SD) or in pieces (DS)."""

from __future__ import annotations

from collections.abc import Iterator

from mambaviz.trace import BlockCopy, ByteRange, StateSpec
from mambaviz.viz import shapes
from mambaviz.viz.scene import Body, Mark, Path, Primitive, Rect, Scene, Text
from mambaviz.viz.shapes import KIND_NAME, n
from mambaviz.viz.svg import inline
from mambaviz.viz.theme import BYTES


def copy_picture(copy: BlockCopy, spec: StateSpec, layout: str) -> str:
    """Source above target, the moved bytes filled, with lines from piece to piece; as SVG."""
    return inline(byte_scene(copy, spec, layout), _label(copy, layout))


def _label(copy: BlockCopy, layout: str) -> str:
    assert copy.source is not None
    assert copy.target is not None
    return (
        f"{KIND_NAME[copy.kind]} of {copy.request}, {copy.state}, layout {layout}: "
        f"{range_words(copy.source)} of block {copy.src_block} to {range_words(copy.target)} of "
        f"block {copy.dst_block}"
    )


def range_words(part: ByteRange) -> str:
    """``bytes 16 to 79``, or the first of several pieces and how they repeat."""
    first = f"bytes {part.start} to {part.start + part.length - 1}"
    if part.rows == 1:
        return first
    return f"{first} and {part.rows - 1} pieces more, {part.stride} bytes apart"


def byte_scene(copy: BlockCopy, spec: StateSpec, layout: str) -> Scene:
    """``copy`` was done: it has a source and a target. ``spec`` is the state's."""
    assert copy.source is not None
    assert copy.target is not None
    scale = BYTES.strip / spec.num_bytes
    lines = spec.num_bytes // _row_bytes(spec)
    marks = [
        Mark("source", 0, BYTES.first, _strip(spec, copy.source, scale, f"block {copy.src_block}")),
        Mark(
            "target", 0, BYTES.second, _strip(spec, copy.target, scale, f"block {copy.dst_block}")
        ),
        Mark("ribbons", 0, 0, _ribbons(copy.source, copy.target, scale)),
        *_ruler(spec, layout, lines, scale),
    ]
    return Scene(BYTES.left + BYTES.strip + 12, BYTES.height, tuple(marks))


def _row_bytes(spec: StateSpec) -> int:
    """Bytes of one innermost row: a token's channels (SD), a channel's tokens (DS)."""
    size = 4 if spec.dtype == "float32" else 2
    return spec.shape[-1] * size


def _strip(spec: StateSpec, part: ByteRange, scale: float, name: str) -> Body:
    x = BYTES.left
    parts: list[Primitive] = [
        Text("s12 semi", 0, BYTES.bar - 6, name),
        Rect("memory", x, 0, BYTES.strip, BYTES.bar, 3),
    ]
    parts += [
        Rect("moved", x + start * scale, 0, max(1.0, part.length * scale - 0.5), BYTES.bar, 2)
        for start in _starts(part)
    ]
    width = _row_bytes(spec)
    edges = [f"M{n(x + at * scale)} 0V{n(BYTES.bar)}" for at in range(width, spec.num_bytes, width)]
    if len(edges) <= BYTES.most_rows:
        parts.append(Path("byte-row", "".join(edges)))
    return Body("bytes", tuple(parts))


def _starts(part: ByteRange) -> Iterator[int]:
    for row in range(part.rows):
        yield part.start + row * part.stride


def _ribbons(source: ByteRange, target: ByteRange, scale: float) -> Body:
    """A line from the middle of each piece to where it went."""
    top, bottom = BYTES.first + BYTES.bar + 1, BYTES.second - 2
    parts: list[Primitive] = []
    for src, dst in zip(_starts(source), _starts(target), strict=True):
        x_from = BYTES.left + (src + source.length / 2) * scale
        x_to = BYTES.left + (dst + target.length / 2) * scale
        parts.append(Path("line", f"M{n(x_from)} {n(top)}L{n(x_to)} {n(bottom - 5)}"))
        parts.append(shapes.arrow_head(x_to, bottom, 0, 1, 7))
    return Body("copy", tuple(parts), layer=2)


def _ruler(spec: StateSpec, layout: str, lines: int, scale: float) -> Iterator[Mark]:
    """Where rows begin, in bytes, as far as there is room, and what a row is."""
    y = BYTES.second + BYTES.bar + 14
    width = _row_bytes(spec)
    every = max(1, -(-BYTES.least_tick // max(1, int(width * scale))))
    for row in range(0, lines, every):
        text = Text("m s12 mid", 0, 0, str(row * width))
        yield Mark(f"tick-{row}", BYTES.left + row * width * scale, y, Body("", (text,)))
    end = Text("m s12 mid", 0, 0, str(spec.num_bytes))
    yield Mark("tick-end", BYTES.left + BYTES.strip, y, Body("", (end,)))
    yield Mark("what", 0, y, Body("", (Text("m s12", 0, 0, "byte"),)))
    said = Text("m s12", 0, 0, row_words(spec, layout, lines))
    yield Mark("rows", BYTES.left, y + 17, Body("", (said,)))


def row_words(spec: StateSpec, layout: str, lines: int) -> str:
    """What lies side by side in memory."""
    width = _row_bytes(spec)
    if spec.state == "temporal":
        return f"temporal state: one piece in either layout, {lines} rows of {width} bytes"
    if layout == "SD":
        return f"SD: {width} bytes are one token with all its channels; tokens move as one piece"
    return f"DS: {width} bytes are one channel with all its tokens; every channel gives a piece"
