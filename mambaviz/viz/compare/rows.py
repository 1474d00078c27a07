"""What a run shows beside others after each phase: every request's list with what its blocks hold.

Read from the same frames as the stage. A row that does not change from one phase to the next is
the same object, so that it is drawn once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass

from mambaviz.trace import PHASES, PhaseName, Role, Trace
from mambaviz.viz.views import BlockView, Frame, TokenStatus, frames, group_of


@dataclass(frozen=True)
class ListCell:
    """A block at a column of the scheduler's list. ``state`` is ``h(n)``, or ``–`` for a block
    that holds nothing of this request yet."""

    column: int
    block: int
    role: Role
    state: str
    wrong: bool = False


@dataclass(frozen=True)
class ListRow:
    """One request: its list, its tokens, or why it has neither."""

    request: str
    cells: tuple[ListCell, ...]
    tokens: tuple[TokenStatus, ...]
    note: str


class RunRows:
    """The rows of a run, phase by phase, read for one layer."""

    def __init__(self, trace: Trace, layer: int) -> None:
        self.trace = trace
        self.layer = layer
        self.group = group_of(trace, layer)
        self.requests = [plan.id for plan in trace.scenario.requests]
        self.phases: list[dict[str, ListRow]] = list(self._walk())

    def at(self, step: int, phase: PhaseName) -> dict[str, ListRow]:
        return self.phases[step * len(PHASES) + PHASES.index(phase)]

    @property
    def most_columns(self) -> int:
        return max((len(row.cells) for rows in self.phases for row in rows.values()), default=1)

    def _walk(self) -> Iterator[dict[str, ListRow]]:
        looks: dict[str, Hashable] = {}
        rows: dict[str, ListRow] = {}
        for frame in frames(self.trace):
            rows = dict(rows)
            for request in self.requests:
                look = frame.look(request)
                if looks.get(request) != look:
                    rows[request] = _once(self._row(frame, request), rows.get(request))
                    looks[request] = look
            yield rows

    def _row(self, frame: Frame, request: str) -> ListRow:
        lane = frame.lane(request, self.group, self.layer)
        return ListRow(
            request=request,
            cells=tuple(
                self._cell(frame, lane.cells, column, block)
                for column, block in enumerate(lane.block_list)
            ),
            tokens=lane.tokens,
            note=lane.note,
        )

    def _cell(
        self, frame: Frame, cells: tuple[BlockView, ...], column: int, block: int
    ) -> ListCell:
        """The list's id at a column; what the worker's row says of it where both agree."""
        if block == 0:
            return ListCell(column, 0, "null", "")
        view = cells[column] if column < len(cells) else None
        if view is None or view.block != block:
            return ListCell(
                column, block, frame.tables.block_roles[block], self._state(frame, block)
            )
        state = "–" if view.stale else self._state(frame, block)
        return ListCell(column, block, view.role, state, view.wrong)

    def _state(self, frame: Frame, block: int) -> str:
        label = frame.label(self.layer, block)
        if label.absorbed is not None:
            return f"h({label.absorbed})"
        last = max((row for row in label.rows if row is not None), default=None)
        return "–" if last is None else f"…t{last}"  # a layer without a temporal state


def _once(row: ListRow, before: ListRow | None) -> ListRow:
    return before if before == row else row
