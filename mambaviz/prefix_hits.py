"""What a request could find in the cache when it was admitted, and what it took (section 2).

Pure: a trace in. A prefix counts as found if its tokens and the request's are the same as far as
both go; a longer one than a hit may cover is there, but cannot be taken whole.
"""

from __future__ import annotations

from dataclasses import dataclass

from mambaviz.trace import Trace


@dataclass(frozen=True)
class FoundPrefix:
    """A block registered for the state after ``tokens`` tokens of ``owner``'s sequence."""

    tokens: int
    block: int
    owner: str


@dataclass(frozen=True)
class Admission:
    """A request's coming into the batch.

    ``known`` tokens it had then, ``reused`` of them a hit brought; ``shared`` says whose first
    tokens are all of its own, or nothing. ``most_blocks`` is the longest hit allowed: one token
    is always computed.
    """

    request: str
    step: int
    known: int
    reused: int
    scheduled: int
    most_blocks: int
    block_size: int
    found: tuple[FoundPrefix, ...]
    shared: str = ""


def admissions(trace: Trace, group: int = 0) -> list[Admission]:
    """Every admission and resumption of a run; blocks of one cache group."""
    sequences = _Sequences(trace)
    found = []
    for step in trace.steps:
        for name in step.order:
            request = step.requests[name]
            if request.event == "running":
                continue
            own = sequences.tokens[name][: request.num_tokens]
            size = trace.scenario.engine.effective_block_size
            found.append(
                Admission(
                    request=name,
                    step=step.index,
                    known=request.num_tokens,
                    reused=request.num_computed,
                    scheduled=request.num_scheduled,
                    most_blocks=(request.num_tokens - 1) // size,
                    block_size=size,
                    found=_found(
                        trace, step.index, name, own, request.num_computed // size, sequences, group
                    ),
                    shared=sequences.holder_of(name, own),
                )
            )
        sequences.learn(step.index)
    return found


def _found(
    trace: Trace,
    step: int,
    name: str,
    own: list[int],
    reused: int,
    sequences: _Sequences,
    group: int,
) -> tuple[FoundPrefix, ...]:
    """Registered prefixes as they stood when the step had been allocated, without those that the
    request registered itself by then: its columns behind the ``reused`` ones."""
    tables = trace.tables_after(step, "allocate")
    registered = tables.registered
    row = tables.rows.get(name)
    made = set(row.block_list[group][reused:]) if row else set()
    group_blocks = _blocks_of(trace, group) - made
    found = []
    for block, prefix in sorted(registered.items()):
        owner, _, count = prefix.rpartition("@")
        if block not in group_blocks:
            continue
        tokens = int(count)
        length = min(tokens, len(own))
        if (
            sequences.tokens[owner][:length] == own[:length]
            and sequences.salts[owner] == sequences.salts[name]
        ):
            found.append(FoundPrefix(tokens, block, owner))
    return tuple(sorted(found, key=lambda one: one.tokens))


def _blocks_of(trace: Trace, group: int) -> set[int]:
    """Blocks that ever stood in a list of the group."""
    return {
        block
        for step in trace.steps
        for phase in step.phases
        if phase.tables is not None
        for row in phase.tables.rows.values()
        for block in row.block_list[group]
    }


class _Sequences:
    """The known tokens of every request, growing step by step."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        scenario = trace.scenario
        self.tokens = {
            plan.id: scenario.prompt_of(index) for index, plan in enumerate(scenario.requests)
        }
        self.salts = {plan.id: plan.salt for plan in scenario.requests}
        self.seen: list[str] = []  # requests that have been in a batch

    def learn(self, step: int) -> None:
        for name, request in self.trace.steps[step].requests.items():
            if name not in self.seen:
                self.seen.append(name)
            del self.tokens[name][request.num_tokens :]
            self.tokens[name] += request.sampled

    def holder_of(self, name: str, own: list[int]) -> str:
        """Another request, of an earlier step, whose sequence begins with these tokens."""
        return next(
            (
                other
                for other in self.seen
                if other != name
                and self.tokens[other][: len(own)] == own
                and self.salts[other] == self.salts[name]
            ),
            "",
        )
