"""The kernel's source with a place for a value beside each line, and the values of each program."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from mambaviz.launches.record import LaunchRecord, ProgramRecord
from mambaviz.launches.source import Listing, SourceLine, listing

Shown = list[Any]  # [value, mark] of a line, as the browser gets it

# Names that mean the same in the fast kernel as in the readable one.
SAME_NAMES = frozenset(
    (
        *("slot", "accepted", "computed", "scheduled", "drafts", "running", "new", "aligned"),
        *("bias", "src_col", "dst_col", "from_col", "to_col", "conv_width", "is_conv"),
        *("read_col", "src_block", "dst_block", "base", "block_stride", "src_addr", "dst_addr"),
        *("elem_size", "inner_bytes"),
    )
)
_ASSIGNED = re.compile(r"(\w+) \+?= (.*)")  # a name, and what it is made of


def values(record: LaunchRecord) -> dict[str, dict[str, Shown]]:
    """By program and line of the listing: the line's value and mark.

    A value that belongs to no line is a defect (of the twin or of its page): ValueError.
    """
    source = listing(record.function)
    fast = record.function != _readable(record)
    return {
        program.key: dict(_by_name(source, program) if fast else _by_line(source, program))
        for program in record.programs
    }


def _readable(record: LaunchRecord) -> str:
    return record.function.replace("_pieces_", "_fused_")


def _by_line(source: Listing, program: ProgramRecord) -> Iterator[tuple[str, Shown]]:
    for value in program.lines:
        found = [
            index
            for index, line in enumerate(source.lines)
            if line.function == value.function and line.text.strip().startswith(value.code)
        ]
        if len(found) != 1:
            raise ValueError(f"{value.function} has {len(found)} lines that begin {value.code!r}")
        yield str(found[0]), [value.value, value.mark]


def _by_name(source: Listing, program: ProgramRecord) -> Iterator[tuple[str, Shown]]:
    """The fast kernel is put together otherwise: a calculation that stands in both has its value,
    and so has what is called by the same name and made in one place of a function only."""
    made = [(index, line, _ASSIGNED.match(line.text.strip())) for index, line in _code(source)]
    found: dict[int, Shown] = {}
    for value in program.lines:
        name = _ASSIGNED.match(value.code)
        if name is None or name[1] not in SAME_NAMES:
            continue
        makers = [(i, line) for i, line, one in made if one and one[1] == name[1]]
        same = [i for i, line, one in made if one and one[2] == name[2]]
        alone = [
            i
            for i, line in makers
            if sum(other.function == line.function for _, other in makers) == 1
        ]
        for index in same or alone:
            mark = "key" if value.mark == "key" else ""
            found.setdefault(index, [_result(value.value), mark])
    yield from ((str(index), found[index]) for index in sorted(found))


def _code(source: Listing) -> Iterator[tuple[int, SourceLine]]:
    return ((index, line) for index, line in enumerate(source.lines) if line.kind == "code")


def _result(value: str) -> str:
    """What a calculation comes to; the fast kernel may get there another way."""
    return value.rpartition(" = ")[2]


def code_html(record: LaunchRecord, told: dict[str, dict[str, Shown]]) -> str:
    """The listing as a table. Folded lines are in it too, hidden until they are asked for."""
    source = listing(record.function)
    valued = {line for shown in told.values() for line in shown}
    body = []
    for index, line in enumerate(source.lines):
        if line.kind == "head":
            file = escape(source.files[line.function])
            body.append(f'<tr class="of"><td></td><th colspan="2">{file}</th></tr>')
        body.append(_row(source.lines, index, folded=str(index) not in valued))
    columns = '<colgroup><col class="number"><col><col class="value"></colgroup>'
    return f'<table class="code">{columns}<tbody>{"".join(body)}</tbody></table>'


def _row(lines: Sequence[SourceLine], index: int, *, folded: bool) -> str:
    line = lines[index]
    hidden = line.kind == "folded" and folded
    follows = index + 1 < len(lines) and lines[index + 1].kind == "folded"
    more = '<i class="more"> …</i>' if follows and not hidden else ""
    text = line.text.strip()
    indent = (len(line.text) - len(line.text.lstrip())) // 4
    kind = f"{line.kind} folded" if hidden else line.kind
    cells = f'<td>{line.number}</td><td style="--indent:{indent}">{escape(text)}{more}</td>'
    marks = f'class="{kind}" data-line="{index}" data-function="{line.function}"'
    return f"<tr {marks}>{cells}<td></td></tr>"
