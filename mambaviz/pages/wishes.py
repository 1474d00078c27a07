"""What a page asks of a component in which the reader steps: a wish, taken up once.

The browser alone owns the place while a reader steps. It follows Python only when Python asks for
another place, which the wish's number says and nothing else: what Python sends back of a step
that it has heard of, however late, moves nothing. Every report names the wish it comes after, so
that Python knows a report from before its last wish (the other half is `Wishes` in browser.js).

    wish = standing("wish", payload.run, place, state.session().wish)
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Generic, TypeVar

import streamlit as st

Place = TypeVar("Place")  # a dataclass


@dataclass(frozen=True)
class Wish(Generic[Place]):
    """A place in a run. It stays the same, with its place, until the next one is due."""

    run: str  # the payload's `run`
    place: Place
    number: int  # grows with every wish of a session

    @property
    def asked(self) -> dict[str, Any]:
        """As the component gets it."""
        return {**asdict(self.place), "run": self.run, "wish": self.number}  # type: ignore[call-overload]


def standing(key: str, run: str, place: Place, number: int | None) -> Wish[Place]:
    """The wish kept under ``key``, or a new one for ``place`` if run or number are others.

    ``number`` None asks for nothing new: the view is about another run than the one on screen.
    """
    old: Wish[Place] | None = st.session_state.get(key)
    if old is not None and old.run == run and number in (None, old.number):
        return old
    wish = Wish(run, place, -1 if number is None else number)
    st.session_state[key] = wish
    return wish


def answers(view: Any, asked: dict[str, Any]) -> bool:
    """Whether a report (it comes from outside) was made after this wish and no other."""
    if not isinstance(view, dict):
        return False
    return view.get("asked") == {"run": asked["run"], "wish": asked["wish"]}
