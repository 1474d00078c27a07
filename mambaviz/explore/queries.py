"""Named questions about a step ("what happens when"), answered by the shortest scenario.

A query is a name, and a number where one makes sense: ``in-place-shift``, ``bias=3``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mambaviz.scenario import ScenarioError
from mambaviz.trace import Decision

if TYPE_CHECKING:
    from mambaviz.explore.run import SymbolicStep  # costs torch, and a page only names queries

Predicate = Callable[["SymbolicStep", int], bool]


@dataclass(frozen=True)
class Query:
    """A question about a step. ``number`` is what stands for n where none is given."""

    words: str  # completes "a step with ..."
    holds: Predicate
    number: int | None = None


def _copies(step: SymbolicStep) -> Iterator[Decision]:
    for decision in (*step.worker.pre_decisions, *step.worker.post_decisions):
        if decision.copies:
            yield decision


def _in_place_shift(step: SymbolicStep, _: int) -> bool:
    return any(d.src_col == d.dst_col and d.bias for d in _copies(step))


def _bias(step: SymbolicStep, n: int) -> bool:
    return any(decision.bias == n for decision in _copies(step))


def _crossings(step: SymbolicStep, n: int) -> bool:
    """Block boundaries that the kept tokens of all rows pass or reach."""
    crossed = 0
    for name, one in step.output.requests.items():
        kept = one.num_scheduled - one.drafts + step.accepted[name] - 1
        size = step.block_size
        crossed += (one.num_computed + kept) // size - one.num_computed // size
    return crossed >= n


def _migrate(step: SymbolicStep, _: int) -> bool:
    return any(decision.copies for decision in step.worker.pre_decisions)


def _migrate_back(step: SymbolicStep, _: int) -> bool:
    return any(
        d.copies and d.src_col is not None and d.dst_col is not None and d.dst_col < d.src_col
        for d in step.worker.pre_decisions
    )


def _checkpoint(step: SymbolicStep, _: int) -> bool:
    return any(decision.copies for decision in step.worker.post_decisions)


def _both_copies(step: SymbolicStep, _: int) -> bool:
    """One request is migrated and checkpointed in the same step."""
    migrated = {d.request for d in step.worker.pre_decisions if d.copies}
    return any(d.copies and d.request in migrated for d in step.worker.post_decisions)


def _prefix_hit(step: SymbolicStep, n: int) -> bool:
    return any(
        one.event != "running" and one.num_computed >= n * step.block_size
        for one in step.output.requests.values()
    )


def _preemption(step: SymbolicStep, _: int) -> bool:
    return bool(step.output.preempted)


def _resumption(step: SymbolicStep, _: int) -> bool:
    return any(one.event == "resumed" for one in step.output.requests.values())


def _padded_tail(step: SymbolicStep, _: int) -> bool:
    return any(one.padded_tail for one in step.output.requests.values())


def _mixed_batch(step: SymbolicStep, _: int) -> bool:
    return len({one.row_class for one in step.output.requests.values()}) > 1


QUERIES: dict[str, Query] = {
    "in-place-shift": Query("a state that slides inside its own block", _in_place_shift),
    "bias": Query("a copy with an accepted-token bias of n", _bias, 1),
    "boundary-crossings": Query("at least n block boundaries reached or passed", _crossings, 2),
    "migrate": Query("a state that moves into a new running block", _migrate),
    "migrate-back": Query("a running block that moves back a column", _migrate_back),
    "checkpoint": Query("a boundary state saved after acceptance", _checkpoint),
    "migrate-and-checkpoint": Query("a request that is migrated and checkpointed", _both_copies),
    "prefix-hit": Query("a prefix hit of at least n blocks", _prefix_hit, 1),
    "preemption": Query("a request that loses its blocks", _preemption),
    "resumption": Query("a preempted request that comes back", _resumption),
    "padded-tail": Query("a prompt tail padded with placeholder drafts", _padded_tail),
    "mixed-batch": Query("rows of several classes in one batch", _mixed_batch),
}


@dataclass(frozen=True)
class AskedQuery:
    """A query and its number."""

    name: str
    number: int

    @classmethod
    def parse(cls, text: str) -> AskedQuery:
        """``name`` or ``name=number``. Raises ScenarioError with one line."""
        name, _, number = text.replace(" ", "-").partition("=")
        query = QUERIES.get(name)
        if query is None:
            known = ", ".join(
                name if one.number is None else f"{name}=n" for name, one in QUERIES.items()
            )
            raise ScenarioError(f"find {text[:60]!r}: there is no such query; choose from {known}")
        if number and (query.number is None or not number.isdecimal()):
            wanted = "takes no number" if query.number is None else "wants a whole number"
            raise ScenarioError(f"find {text[:60]!r}: the query {name} {wanted}")
        return cls(name, int(number) if number else query.number or 0)

    @property
    def words(self) -> str:
        words = QUERIES[self.name].words.split()
        return " ".join(str(self.number) if word == "n" else word for word in words)

    def __str__(self) -> str:
        return self.name if QUERIES[self.name].number is None else f"{self.name}={self.number}"

    def holds(self, step: SymbolicStep) -> bool:
        return QUERIES[self.name].holds(step, self.number)
