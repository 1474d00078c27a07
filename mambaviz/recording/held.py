"""What every block holds by the rules, kept from a recording's indices: no byte is looked at.

A state is known by its request and how many tokens it has absorbed. What is not known (a block
written before the recording began, lines that are missing) is absent and never held against
anybody. A step that read the wrong state is noted once; what it wrote counts as right from then
on, so that one mistake does not colour all that follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mambaviz.trace import StateKind

Place = tuple[int, int]  # cache group, block


@dataclass(frozen=True)
class Held:
    """The state after ``tokens`` tokens of ``request``; "" is left over from a rejected draft.

    A conv state has several: its window at row ``k`` is the one after ``tokens + k``, for
    ``k < span``.
    """

    request: str
    tokens: int
    span: int = 1

    def shifted(self, rows: int) -> Held:
        """The conv state copied from its row ``rows`` on."""
        if rows >= self.span or rows < 0:
            return LEFT_OVER
        return Held(self.request, self.tokens + rows, self.span - rows)

    def kept(self, computed: int) -> Held:
        """The same once the tokens from ``computed`` on turned out to be rejected drafts."""
        span = min(self.span, computed - self.tokens + 1)
        return Held(self.request, self.tokens, span) if span > 0 else LEFT_OVER

    @property
    def words(self) -> str:
        if not self.request:
            return "what a rejected draft left"
        return f"the state of {self.request} after {self.tokens} tokens"


LEFT_OVER = Held("", -1, 0)


@dataclass
class Copy:
    """One request's copy in one group: which blocks give, which takes; None: not to be known."""

    group: int
    conv: tuple[int | None, int | None] | None
    temporal: tuple[int | None, int | None] | None
    bias: int


@dataclass
class Ledger:
    """Contents by place, and which requests begin with the same tokens."""

    conv: dict[Place, Held] = field(default_factory=dict)
    temporal: dict[Place, Held] = field(default_factory=dict)
    written: set[Place] = field(default_factory=set)  # in this step
    prefixes: dict[str, list[int]] = field(default_factory=dict)  # aliases a block, from the file
    prefix_size: int = 0  # tokens an alias covers
    shared: dict[str, dict[str, int]] = field(default_factory=dict)  # by prefix hits, up to tokens

    def of(self, state: StateKind) -> dict[Place, Held]:
        return self.conv if state == "conv" else self.temporal

    def forget(self) -> None:
        """Something was not recorded that may have written any block."""
        self.conv.clear()
        self.temporal.clear()

    def forget_place(self, place: Place) -> None:
        self.conv.pop(place, None)
        self.temporal.pop(place, None)

    def put(self, state: StateKind, place: Place, held: Held) -> None:
        self.of(state)[place] = held
        self.written.add(place)

    def copy(self, copies: Sequence[Copy]) -> None:
        """A copy launch; every source is read as it was before it."""
        results: list[tuple[StateKind, Place, Held | None]] = []
        for one in copies:
            if one.conv is not None and one.conv[1]:
                found = self.conv.get((one.group, one.conv[0] or 0))
                moved = found.shifted(one.bias) if found is not None else None
                results.append(("conv", (one.group, one.conv[1]), moved))
            if one.temporal is not None and one.temporal[1]:
                found = self.temporal.get((one.group, one.temporal[0] or 0))
                results.append(("temporal", (one.group, one.temporal[1]), found))
        for state, target, held in results:
            self.written.add(target)
            if held is None:
                self.of(state).pop(target, None)
            else:
                self.of(state)[target] = held

    def reject(self, request: str, computed: int) -> None:
        """Of what this step wrote for a request, the drafts from ``computed`` on were rejected."""
        for place in self.written:
            for contents in (self.conv, self.temporal):
                held = contents.get(place)
                if held is not None and held.request == request:
                    contents[place] = held.kept(computed)

    def disagrees(
        self, state: StateKind, place: Place, request: str, tokens: int, row: int = 0
    ) -> Held | None:
        """What a place holds if that is known not to be this state; None: it is, or unknown."""
        held = self.of(state).get(place)
        if held is None:
            return None
        found = held.shifted(row) if state == "conv" else held
        right = found.tokens == tokens and self._same_tokens(found.request, request, tokens)
        return None if right else found

    def _same_tokens(self, one: str, other: str, tokens: int) -> bool:
        """Whether the first tokens of two requests are known to be the same."""
        if one == other:
            return True
        by_hit = (self.shared.get(other, {}).get(one, 0), self.shared.get(one, {}).get(other, 0))
        if max(by_hit) >= tokens:
            return True
        mine = self._prefix(one, tokens)
        return mine is not None and mine == self._prefix(other, tokens)

    def _prefix(self, request: str, tokens: int) -> int | None:
        if not self.prefix_size or tokens % self.prefix_size:
            return None
        links = self.prefixes.get(request, [])
        index = tokens // self.prefix_size - 1
        return links[index] if 0 <= index < len(links) else None

    def differ(self, one: str, other: str, tokens: int) -> bool:
        """Whether the first tokens of two requests are known to differ."""
        mine, theirs = self._prefix(one, tokens), self._prefix(other, tokens)
        return mine is not None and theirs is not None and mine != theirs

    def hit(self, request: str, places: Sequence[Place], tokens: int) -> None:
        """A prefix hit: the request begins like whoever computed the block."""
        for place in places:
            held = self.temporal.get(place) or self.conv.get(place)
            if held is not None and held.request and held.tokens == tokens:
                mine = self.shared.setdefault(request, {})
                mine[held.request] = max(mine.get(held.request, 0), tokens)
