"""What a run costs, step by step: blocks held, bytes copied, tokens computed again.

Three numbers by which cache modes are compared. Pure: a trace in, numbers out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mambaviz.trace import RequestStep, Step, Tables, Trace


@dataclass(frozen=True)
class StepCosts:
    """Numbers of one step.

    ``blocks_held``: different non-null blocks in the scheduler's lists of all cache groups once
    the step has allocated; a block that two requests share counts once.

    ``bytes_copied``: natural bytes of the state copies that were done, both kinds, all layers.

    ``tokens_recomputed``: prefill tokens of this step whose state some earlier step had brought
    up already. A token counts if it was known when its request was last admitted or resumed, is
    computed in this step, and in an earlier step any request of the same cache salt had computed
    the very same token sequence up to and including it (the request itself before a preemption,
    or another one with the same prefix). Tokens that two requests compute for the first time in
    one step, sampled tokens and drafts do not count.

    ``recomputed_of`` splits that by request, ``prefilled_of`` says how many prefill tokens a
    request computed in this step.
    """

    blocks_held: int
    bytes_copied: int
    tokens_recomputed: int
    recomputed_of: dict[str, int]
    prefilled_of: dict[str, int]


def costs(trace: Trace) -> list[StepCosts]:
    """The costs of every step of a run."""
    prefixes = _Prefixes(trace)
    return [
        StepCosts(
            blocks_held=blocks_held(trace.tables_after(step.index, "allocate")),
            bytes_copied=bytes_copied(step),
            tokens_recomputed=sum(recomputed.values()),
            recomputed_of=recomputed,
            prefilled_of=prefilled,
        )
        for step in trace.steps
        for prefilled, recomputed in [prefixes.step(step)]
    ]


def blocks_held(tables: Tables) -> int:
    return len(
        {
            block
            for row in tables.rows.values()
            for block_list in row.block_list
            for block in block_list
            if block
        }
    )


def bytes_copied(step: Step) -> int:
    return sum(
        copy.num_bytes for phase in step.phases for copy in phase.copies if copy.skipped is None
    )


class _Prefixes:
    """Every token sequence computed so far, as a tree: a node is a sequence, named by number."""

    def __init__(self, trace: Trace) -> None:
        scenario = trace.scenario
        self.tokens = {
            plan.id: list(scenario.prompt_of(index)) for index, plan in enumerate(scenario.requests)
        }
        self.salts = {plan.id: plan.salt for plan in scenario.requests}
        self.known: dict[str, int] = {}  # tokens known at the last admission
        self.nodes: dict[tuple[int, int | str | None], int] = {}
        self.computed: set[int] = set()

    def step(self, step: Step) -> tuple[dict[str, int], dict[str, int]]:
        """Prefill tokens of each request, and how many of them are computed again."""
        prefilled: dict[str, int] = {}
        recomputed: dict[str, int] = {}
        fresh: set[int] = set()
        for name, request in step.requests.items():
            if request.event != "running":
                self.known[name] = request.num_tokens
            self._learn(name, request)
            path = list(self._path(name, step.num_computed_after[name]))
            own = path[request.num_computed :]
            prefill = own[: max(0, self.known[name] - request.num_computed)]
            prefilled[name] = len(prefill)
            recomputed[name] = sum(node in self.computed for node in prefill)
            fresh.update(own)
        self.computed |= fresh
        return prefilled, recomputed

    def _learn(self, name: str, request: RequestStep) -> None:
        """Token ids of the query; a draft that is not kept is overwritten by what is sampled."""
        tokens = self.tokens[name]
        for offset, token in enumerate(request.tokens):
            _put(tokens, request.num_computed + offset, token)
        for offset, token in enumerate(request.sampled):
            _put(tokens, request.num_tokens + offset, token)

    def _path(self, name: str, length: int) -> Iterator[int]:
        node = self._node(0, self.salts[name])
        for token in self.tokens[name][:length]:
            node = self._node(node, token)
            yield node

    def _node(self, parent: int, edge: int | str | None) -> int:
        return self.nodes.setdefault((parent, edge), len(self.nodes) + 1)


def _put(tokens: list[int], position: int, token: int) -> None:
    if position < len(tokens):
        tokens[position] = token
    else:
        tokens.append(token)
