"""What a run says, in the words of a report: columns, token counts, windows. Pure: a trace in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mambaviz.trace import (
    BlockCopy,
    Decision,
    PhaseName,
    StateKind,
    TensorRecord,
    Trace,
    tokens_absorbed,
    window_rows,
)

NOTHING = "–"


@dataclass(frozen=True)
class Reading:
    """A run, asked by step and request; layer 0 and the first cache group unless said otherwise."""

    trace: Trace

    # Lists and copies.

    def worker_row(self, step: int, request: str) -> list[int]:
        return self.trace.tables_after(step, "allocate").rows[request].worker_row[0]

    def block_list(self, step: int, request: str) -> list[int]:
        return self.trace.tables_after(step, "allocate").rows[request].block_list[0]

    def decision(self, step: int, phase: PhaseName, request: str) -> Decision:
        found = self.trace.steps[step].phase(phase).decisions
        return next(decision for decision in found if decision.request == request)

    def copy(self, step: int, phase: PhaseName, request: str, state: StateKind) -> BlockCopy | None:
        found = self.trace.steps[step].phase(phase).copies
        return next(
            (c for c in found if (c.request, c.state, c.layer) == (request, state, 0)), None
        )

    def copy_words(self, step: int, phase: PhaseName, request: str, state: StateKind) -> str:
        """``col 2 shift 1 → col 1`` for a window, ``col 3 → col 1`` for a temporal state."""
        copy = self.copy(step, phase, request, state)
        if copy is None:
            return "none"
        if copy.skipped is not None:
            return copy.skipped
        shift = f" shift {copy.bias}" if state == "conv" else ""
        return f"col {copy.src_col}{shift} → col {copy.dst_col}"

    def before_forward(self, step: int, request: str) -> dict[str, str]:
        """The pre-copy: previous and current column, columns of the row, bias, both copies."""
        found = self.decision(step, "pre-copy", request)
        return {
            "previous, current column": f"{self._previous(step, found)}, {found.dst_col}",
            "columns of the row": str(len(self.worker_row(step, request))),
            "pre-copy bias": number(found.bias),
            "pre-copy conv": self.copy_words(step, "pre-copy", request, "conv"),
            "pre-copy temporal": self.copy_words(step, "pre-copy", request, "temporal"),
            "accepted count behind it": number(found.accepted_out),
        }

    def after_acceptance(self, step: int, request: str) -> dict[str, str]:
        """The post-copy decision and both copies."""
        found = self.decision(step, "post-copy", request)
        return {
            "running, new, aligned": numbers([found.running, found.new, found.aligned]),
            "post-copy bias": number(found.bias),
            "source, destination column": numbers([found.src_col, found.dst_col]),
            "post-copy conv": self.copy_words(step, "post-copy", request, "conv"),
            "post-copy temporal": self.copy_words(step, "post-copy", request, "temporal"),
            "accepted count out": number(found.accepted_out),
        }

    def _previous(self, step: int, found: Decision) -> int:
        """The column of the step before; that of the last computed token for a fresh request."""
        if found.copies:
            assert found.src_col is not None
            return found.src_col
        if self.trace.steps[step].requests[found.request].event != "running":
            return (found.computed - 1) // self.trace.scenario.engine.block_size
        column = self.trace.tables_after(step - 1, "commit").rows[found.request].state_col
        assert column is not None
        return column

    # States.

    def absorbed(self, step: int, phase: PhaseName, block: int) -> str:
        """``h(8)``: the tokens a block's temporal state has taken in."""
        raw = self.trace.contents_after(step, phase).get((0, "temporal", block))
        if raw is None:
            return "empty"
        return f"h({tokens_absorbed(self.trace.spec_of[0, 'temporal'].decode(raw))})"

    def window(self, step: int, phase: PhaseName, block: int) -> list[int | None]:
        """The tokens in the rows of a block's conv state."""
        raw = self.trace.contents_after(step, phase).get((0, "conv", block))
        spec = self.trace.spec_of[0, "conv"]
        layout = self.trace.scenario.engine.layout
        return window_rows(spec.decode(raw or bytes(spec.num_bytes)), layout)

    def window_words(self, step: int, phase: PhaseName, block: int) -> str:
        tokens = self.window(step, phase, block)
        return " ".join("–" if token is None else f"t{token}" for token in tokens)

    # Scheduling and metadata.

    def chunk_ends(self, request: str) -> str:
        """Tokens computed after each step that computed prompt tokens of a request."""
        found = [step.requests[request] for step in self.trace.steps if request in step.requests]
        ends = [
            row.num_computed + row.num_scheduled
            for row in found
            if row.num_computed < row.num_prompt_tokens
        ]
        return numbers(ends) if ends else "none"

    def hit(self, request: str) -> str:
        """Tokens that a request found computed when it was admitted."""
        found = [step.requests[request] for step in self.trace.steps if request in step.requests]
        return str(found[0].num_computed)

    def scheduled(self, step: int, request: str) -> str:
        found = self.trace.steps[step].requests.get(request)
        return "0" if found is None else str(found.num_scheduled)

    def registered(self, step: int, block: int) -> str:
        """``16 tokens``: what a block is registered for at the end of a step."""
        prefix = self.trace.tables_after(step, "commit").registered.get(block)
        return NOTHING if prefix is None else f"{prefix.rpartition('@')[2]} tokens"

    def metadata(self, step: int, field: str, group: int = 0) -> Any:
        """A field's value, a tensor as nested lists."""
        fields = {f.name: f.value for f in self.trace.steps[step].metadata[group].fields}
        value = fields[field]
        return value.values if isinstance(value, TensorRecord) else value


def number(value: int | None) -> str:
    return NOTHING if value is None else str(value)


def numbers(values: list[Any]) -> str:
    """``6, 8, 8``; – where there is none."""
    return ", ".join(NOTHING if value is None else str(value) for value in values)
