"""The first number in which two runs of one scenario differ. Pure: two traces in.

`mambaviz.differences` compares what can be said of two runs; this compares their bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mambaviz.trace import Contents, PhaseName, RowTables, StateKind, StateSpec, Step, Trace


@dataclass(frozen=True)
class WrongCell:
    """One number of one block's state after a phase of a step, and what it should be.

    ``cell`` is ``(row, channel)`` of a conv state in either layout, ``(head, channel, state)`` of a
    temporal one. ``request`` and ``column`` say in whose worker row the
    block stands; None where it stands in none.
    """

    step: int
    phase: PhaseName
    layer: int
    state: StateKind
    block: int
    request: str | None
    column: int | None
    cell: tuple[int, ...]
    expected: float
    found: float

    @property
    def words(self) -> str:
        names = {"temporal": ("head", "channel", "state"), "conv": ("row", "channel")}[self.state]
        place = ", ".join(f"{name} {i}" for name, i in zip(names, self.cell, strict=True))
        return f"{place} should be {self.expected:g}, is {self.found:g}"


def first_wrong_cell(right: Trace, wrong: Trace) -> WrongCell | None:
    """Where the bytes of the runs part; None if they never do while both do the same steps.

    Once the runs schedule different tokens, different bytes are no longer wrong ones.
    Rows of the conv state that mean nothing count
    as any other, so a difference there is found too.
    """
    for (step, phase, _, expected), (other, _, tables, found) in zip(
        right.walk(), wrong.walk(), strict=False
    ):
        if _scheduled(step) != _scheduled(other):
            return None
        for spec in wrong.states:
            keys = sorted(
                block
                for layer, state, block in expected.keys() | found.keys()
                if (layer, state) == (spec.layer, spec.state)
            )
            for block in keys:
                wanted, shown = (_numbers(spec, contents, block) for contents in (expected, found))
                if np.array_equal(wanted, shown):
                    continue
                cell = tuple(int(i) for i in np.argwhere(wanted != shown)[0])
                request, column = _place(tables.rows, spec.group, block)
                return WrongCell(
                    step.index,
                    phase.name,
                    spec.layer,
                    spec.state,
                    block,
                    request,
                    column,
                    _row_first(cell, spec, wrong),
                    float(wanted[cell]),
                    float(shown[cell]),
                )
    return None


def _scheduled(step: Step) -> list[tuple[str, int, int]]:
    return [
        (name, request.num_computed, request.num_scheduled)
        for name, request in step.requests.items()
    ]


def _numbers(spec: StateSpec, contents: Contents, block: int) -> np.ndarray:
    """A block that was never written holds zeros."""
    raw = contents.get((spec.layer, spec.state, block))
    return spec.decode(bytes(spec.num_bytes) if raw is None else raw)


def _row_first(cell: tuple[int, ...], spec: StateSpec, trace: Trace) -> tuple[int, ...]:
    is_ds = spec.state == "conv" and trace.scenario.engine.layout == "DS"
    return cell[::-1] if is_ds else cell


def _place(
    rows: dict[str, RowTables], group: int, block: int
) -> tuple[str, int] | tuple[None, None]:
    for request, row in rows.items():
        if block in row.worker_row[group]:
            return request, row.worker_row[group].index(block)
    return None, None
