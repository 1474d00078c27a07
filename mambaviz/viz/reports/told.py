"""What a report's page says beside its pictures; everything numeric is read off the runs."""

from __future__ import annotations

from collections.abc import Sequence

from mambaviz.differences import Difference, FactKind
from mambaviz.reports import Replay
from mambaviz.trace import PhaseName, StateKind, Violation
from mambaviz.viz.reports.exhibit import FAULT, FIX, Around, Exhibit
from mambaviz.viz.reports.pictures import written, wrong_cells

NoteLine = tuple[str, str]  # class and text of a line in a picture
MOST_FACTS = 4
# Which differences explain a wrong state best; states and outputs are drawn.
_TELLING: tuple[FactKind, ...] = ("schedule", "metadata", "copies", "worker row", "blocks")

_TOKENS = {"–": "no token", "?": "nothing sensible"}  # of a row's label
_BOLD, _PLAIN, _BAD = "s135 semi", "s125 m", "s135 semi wrong-text"


def where(exhibit: Exhibit, moment: int, phase: PhaseName) -> str:
    """``step 2, post-copy: A computed 5, scheduled 3, accepted 3``, in the run with the fault."""
    side, name = exhibit.side, exhibit.request
    text = f"step {side.moments[moment].at}, {phase}"
    step = side.step(FAULT, moment) or side.step(FIX, moment)
    request = None if step is None else step.requests.get(name)
    if request is None:
        return f"{text}: {name} computes nothing"
    told = f"{text}: {name} computed {request.num_computed}, scheduled {request.num_scheduled}"
    if request.drafts and request.accepted_drafts is not None:
        told += f", accepted {request.accepted_drafts + 1}"
    return told


def note(around: Around, right: Around, state: StateKind, first: bool) -> list[NoteLine]:
    """Beside the numbers: the wrong cell, or how to read them."""
    wrong = wrong_cells(around.target.values, right.target.values)
    if not wrong:
        return _reading(around, state)
    row, column = wrong[0]
    should, found = right.target.values[row][column], around.target.values[row][column]
    names = ("row", "channel") if state == "conv" else ("channel", "state")
    place = f"{names[0]} {row}, {names[1]} {column}"
    lines = [
        (_BAD, "first wrong cell" if first else "a wrong cell"),
        ("s125", f"{place}: {_short(found)}, not {_short(should)}"),
    ]
    if state == "conv":
        has, belongs = around.target.labels[row], right.target.labels[row]
        if has != belongs:
            lines.append((_PLAIN, f"so row {row} says {_TOKENS.get(has, has)}"))
            lines.append((_PLAIN, f"where {_TOKENS.get(belongs, belongs)} belongs"))
    elif around.target.absorbed != right.target.absorbed:
        lines.append((_PLAIN, f"so it holds h({around.target.absorbed})"))
        lines.append((_PLAIN, f"where h({right.target.absorbed}) belongs"))
    if len(wrong) > 1:
        lines.append((_PLAIN, f"{len(wrong)} cells of the block are wrong"))
    return lines


def alt(around: Around, lines: Sequence[NoteLine]) -> str:
    """The block's picture in words, for who does not see it."""
    parts = [f"block {around.target.block}, {around.target.place}"]
    for side, piece in (("before", around.source), ("after", around.target)):
        content = " ".join(piece.labels) if piece.labels else f"h({piece.absorbed})"
        other = f" of block {piece.block}" if piece.block != around.target.block else ""
        parts.append(f"{side}{other}: {content}")
    return "; ".join([*parts, around.words, *(text for _, text in lines)])


def _short(value: float) -> str:
    return str(int(value)) if value == int(value) else written(value)


def _reading(around: Around, state: StateKind) -> list[NoteLine]:
    if state == "conv":
        return [(_BOLD, "channel 0 = position + 1"), (_PLAIN, "so a row names its token")]
    return [
        (_BOLD, "state 0 of channel 0 counts"),
        (_PLAIN, "the tokens it has taken in:"),
        (_PLAIN, f"{around.target.absorbed}, so it is h({around.target.absorbed})"),
    ]


def facts(
    found: Sequence[Difference], broken: Sequence[Violation], with_states: bool
) -> list[list[str]]:
    """The differences that explain, as name and a text for each run.

    With states also what they hold, and which invariants ``broken`` by the run with the fault say.
    """
    kinds = (*_TELLING, "state", "outputs") if with_states else _TELLING
    known = [one for one in found if one.fact.kind in kinds]
    known.sort(key=lambda one: kinds.index(one.fact.kind))
    rows = [
        [_fact_name(one), *("–" if value is None else _outside(value) for value in one.values)]
        for one in known[:MOST_FACTS]
    ]
    messages = {one.invariant: one.message for one in reversed(broken)} if with_states else {}
    return rows + [[name, message, "holds"] for name, message in sorted(messages.items())]


def _outside(value: str) -> str:
    """A copy from a column that the row does not have."""
    return value.replace("None →", "outside the row →")


def _fact_name(one: Difference) -> str:
    kind, request, item = one.fact
    if kind == "metadata":
        return item
    if item.startswith("bytes unlike"):
        return "bytes that no copy explains"
    if kind == "worker row":
        return f"{request}: worker row"
    if kind == "outputs":
        return f"{request}: outputs"
    if kind == "blocks":
        return f"{request}: block at {item}"
    return f"{request}: {item}" if request else item


def numbers(replay: Replay) -> list[list[object]]:
    """The report's numbers: name, as it should be, with the fault, damaged or not, a note."""
    return [
        [one.what, one.right, one.wrong, one.is_damaged, _disagreement(one.buggy, one.why)]
        for one in replay.numbers()
    ]


def _disagreement(reported: str | None, why: str) -> str:
    return f"The report says {reported}. {why}" if why else ""


def take_along(replay: Replay) -> list[list[str]]:
    """Paragraphs: what kind each is, and its text."""
    report = replay.report
    found = [["lesson", report.lesson], ["look", report.look_at]]
    if report.why_not and replay.right is not None:
        found.append(["not", report.why_not])
    if report.doubt:
        found.append(["doubt", report.doubt])
    return found
