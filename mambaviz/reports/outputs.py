"""What a mistake does to the output: the largest error of a kept token, step by step.

Two runs are compared token by token, at the same position of the same request, so a run that
schedules its tokens otherwise is judged by the tokens and not by the steps. Pure: two traces in.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mambaviz.trace import Step, Trace

Token = tuple[str, int]  # request, position


def largest_errors(right: Trace, wrong: Trace) -> list[float | None]:
    """For each step of ``wrong`` the largest difference of an output of any layer.

    None where the step keeps no token that ``right`` computes too.
    """
    wanted: dict[Token, np.ndarray] = {}
    for step in right.steps:
        wanted.update(_outputs(step))
    return [
        max((_apart(wanted[token], found) for token, found in _outputs(step) if token in wanted),
            default=None)
        for step in wrong.steps
    ]  # fmt: skip


def _outputs(step: Step) -> Iterator[tuple[Token, np.ndarray]]:
    """Outputs of the tokens that a step keeps, ``[layers, dim]`` each."""
    for name, request in step.requests.items():
        kept = request.num_scheduled - request.drafts + (request.accepted_drafts or 0)
        layers = [np.asarray(found.values, np.float64) for found in request.outputs.values()]
        for index in range(min(kept, *(len(rows) for rows in layers)) if layers else 0):
            yield (name, request.num_computed + index), np.stack([rows[index] for rows in layers])


def _apart(wanted: np.ndarray, found: np.ndarray) -> float:
    return float(np.abs(wanted - found).max(initial=0))
