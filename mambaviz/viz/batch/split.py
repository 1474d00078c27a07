"""Who counts as what: the query of each row, its class, and the rule that decided it."""

from __future__ import annotations

from mambaviz.batch_record import BatchRecord, RowRecord
from mambaviz.viz import shapes
from mambaviz.viz.scene import Body, Mark, Path, Primitive, Rect, Scene, Text
from mambaviz.viz.shapes import n
from mambaviz.viz.theme import BATCH
from mambaviz.viz.views import RowStatus

HEADS = ((0.0, "query tokens"), (BATCH.classes, "counts as"), (BATCH.reasons, "because"))


def split_scene(record: BatchRecord) -> Scene:
    """A line for each row, padding rows included, as high as the editor's rows beside it."""
    marks = [
        Mark(f"head-{text}", x, 18, Body("", (Text("m s125", 0, 0, text),))) for x, text in HEADS
    ]
    for index, row in enumerate(record.rows):
        y = BATCH.heading + index * BATCH.row
        marks += _row(record, index, row, y)
    split = record.split
    if split:
        marks.append(_cut(split))
    height = BATCH.heading + len(record.rows) * BATCH.row
    return Scene(BATCH.split_width, height, tuple(marks))


def _row(record: BatchRecord, index: int, row: RowRecord, y: float) -> list[Mark]:
    return [
        *_tokens(record, index, y),
        Mark(f"class-{index}", BATCH.classes, y, _class_pill(row)),
        Mark(
            f"reason-{index}",
            BATCH.reasons,
            y + 14,
            Body("", (Text("s135", 0, 0, row.reason),), title=row.reason),
        ),
    ]


def _tokens(record: BatchRecord, index: int, y: float) -> list[Mark]:
    if index >= len(record.batch.rows):
        return [Mark(f"query-{index}", 0, y + 14, Body("", (Text("m s12", 0, 0, "empty"),)))]
    row = record.batch.rows[index]
    drafts = row.drafts or 0
    most = int(BATCH.tokens // 7)  # narrower tokens would run into a grey bar
    shown = min(row.query, most)
    pitch = min(BATCH.query_token, BATCH.tokens / max(1, shown))
    marks = []
    for token in range(shown):
        is_draft = token >= row.query - drafts
        status: RowStatus = "pending" if is_draft else "prompt" if row.prefilling else "generated"
        body = shapes.token("", status, pitch - 1, 17, radius=2)
        marks.append(Mark(f"query-{index}-{token}", token * pitch, y + 1, body))
    if row.query > shown:
        text = Body("", (Text("m s12", 0, 0, f"… {row.query}"),))
        marks[-3:] = [Mark(f"query-{index}-more", (shown - 3) * pitch, y + 14, text)]
    return marks


def _class_pill(row: RowRecord) -> Body:
    width, height = BATCH.pill, 19
    parts: list[Primitive] = [
        Rect("", 0.6, 0.6, width - 1.2, height - 1.2, 9),
        Text("mid s125 semi", width / 2, 13.6, row.row_class),
    ]
    return Body(f"class {row.row_class}", tuple(parts))


def _cut(split: int) -> Mark:
    """A line between the last decode and the first prefill; it ends beside the reasons, in a pill
    above them that names it."""
    width = 96.0
    y = BATCH.heading + split * BATCH.row - 4.5
    x, top = BATCH.split_width - width, -y
    parts = (
        Path("line", f"M0 0H{n(BATCH.split_width - 1)}V{n(top + 19)}"),
        *(_shifted(part, x, top) for part in shapes.pill(f"split at row {split}", width, 19)),
    )
    return Mark("split", 0, y, Body("copy cut", parts, layer=2))


def _shifted(part: Primitive, dx: float, dy: float) -> Primitive:
    if isinstance(part, Rect):
        return Rect(part.cls, part.x + dx, part.y + dy, part.w, part.h, part.r)
    assert isinstance(part, Text)
    return Text(part.cls, part.x + dx, part.y + dy, part.text)
