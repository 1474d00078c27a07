"""What the Learn page shows, as one value; a part of `mambaviz.pages.state.PageState`.

It is also how far the reader has come: the stops seen and the score go along in the address, so a
copied link goes on where it was copied.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from mambaviz import tour
from mambaviz.questions import MOST_CHOICES, TOPICS

MIXED = "mixed"  # every question of a topic of its own
CHOICES = (MIXED, *TOPICS)
LETTERS = "abcd"[:MOST_CHOICES]
MOST_SEED = 999_999
MOST_ASKED = 9999  # questions of a topic that a score counts
FIRST_STOP = tour.NAMES[0]
TOUR_SHOWN = "so the tour is shown."


class Score(BaseModel):
    """Answers to the questions of one topic."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    topic: str
    right: Annotated[int, Field(ge=0, le=MOST_ASKED)]
    asked: Annotated[int, Field(ge=1, le=MOST_ASKED)]

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.topic not in TOPICS:
            raise ValueError(f"there is no topic {self.topic!r}")
        if self.right > self.asked:
            raise ValueError("more answers are right than were given")
        return self


class LearnView(BaseModel):
    """The tour at a ``stop`` (``moved``: once its movement has been seen), or, where ``topic`` is
    one, the question number ``seed`` of it, with the index of the choice taken. ``seed`` None: one
    is to be drawn. ``seen`` are the stops looked at, in the tour's order."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    stop: str = FIRST_STOP
    moved: bool = False
    seen: tuple[str, ...] = ()
    topic: str | None = None
    seed: Annotated[int, Field(ge=0, le=MOST_SEED)] | None = None
    chosen: Annotated[int, Field(ge=0, lt=MOST_CHOICES)] | None = None
    scores: tuple[Score, ...] = ()

    @model_validator(mode="after")
    def _known(self) -> Self:
        if self.stop not in tour.BY_NAME:
            raise ValueError(f"there is no stop {self.stop!r}")
        if self.topic is not None and self.topic not in CHOICES:
            raise ValueError(f"there is no topic {self.topic!r}")
        return self

    @property
    def asked_topic(self) -> str | None:
        """The topic of the question on show: of mixed ones, the seed decides."""
        if self.topic != MIXED or self.seed is None:
            return None if self.topic == MIXED else self.topic
        return random.Random(self.seed).choice(list(TOPICS))

    def changed(self, **changes: Any) -> LearnView:
        """A validated copy with other values."""
        return LearnView.model_validate({**dict(self), **changes})

    def at(self, stop: str, *, moved: bool) -> LearnView:
        """The tour at a stop, which then has been seen."""
        here = {"stop": stop, "moved": moved, "topic": None, "seed": None, "chosen": None}
        return self.having_seen((stop,)).changed(**here)

    def having_seen(self, stops: Iterable[str]) -> LearnView:
        """The same, and these stops have been seen."""
        seen = {*self.seen, *stops}
        return self.changed(seen=tuple(name for name in tour.NAMES if name in seen))

    def asking(self, topic: str, seed: int | None) -> LearnView:
        """Another question."""
        return self.changed(topic=topic, seed=seed, chosen=None)

    def answered(self, chosen: int, *, right: bool) -> LearnView:
        """The question on show with the choice taken; only the first one counts."""
        topic = self.asked_topic
        if topic is None or self.chosen is not None:
            return self
        found = {score.topic: score for score in self.scores}
        old = found.get(topic)
        asked = min((old.asked if old else 0) + 1, MOST_ASKED)
        correct = min((old.right if old else 0) + right, asked)
        found[topic] = Score(topic=topic, right=correct, asked=asked)
        scores = tuple(found[name] for name in TOPICS if name in found)
        return self.changed(chosen=chosen, scores=scores)

    def score(self, topic: str | None = None) -> tuple[int, int]:
        """Right answers and questions answered, of a topic or of all."""
        mine = [score for score in self.scores if topic in (None, score.topic)]
        return sum(score.right for score in mine), sum(score.asked for score in mine)


def new_seed() -> int:
    """Of a question that nobody has seen coming."""
    return random.SystemRandom().randint(0, MOST_SEED)


# --------------------------------------------------------------------------------------
# The link
# --------------------------------------------------------------------------------------


def to_link(view: LearnView) -> dict[str, str]:
    """Query parameters of the view; what has its default is left out."""
    link: dict[str, str] = {}
    if view.stop != FIRST_STOP:
        link["stop"] = view.stop
    if view.moved:
        link["moved"] = "yes"
    if view.seen:
        link["seen"] = ".".join(view.seen) if len(view.seen) < len(tour.NAMES) else "all"
    if view.topic is not None:
        link["topic"] = view.topic
    if view.seed is not None:
        link["seed"] = str(view.seed)
    if view.chosen is not None:
        link["chosen"] = LETTERS[view.chosen]
    if view.scores:
        link["score"] = ",".join(f"{s.topic}.{s.right}.{s.asked}" for s in view.scores)
    return link


def from_values(values: Mapping[str, Any]) -> LearnView:
    """The view of what `READERS` have read; a seed or a choice without its question is dropped."""
    found = dict(values)
    if "topic" not in found:
        found.pop("seed", None)
    if "seed" not in found:
        found.pop("chosen", None)
    if "score" in found:
        found["scores"] = found.pop("score")
    return LearnView(**found)


def _read_stop(text: str) -> str:
    if text not in tour.BY_NAME:
        raise ValueError(
            f"This link asks for a stop “{text[:40]}” of the tour, which does not exist, so the "
            "first one is shown."
        )
    return text


def _read_moved(text: str) -> bool:
    if text not in ("yes", "no"):
        raise ValueError(f"This link's moved “{text[:40]}” is neither yes nor no.")
    return text == "yes"


def _read_seen(text: str) -> tuple[str, ...]:
    asked = list(tour.NAMES) if text == "all" else text.split(".")
    unknown = [name for name in asked if name not in tour.BY_NAME]
    if unknown:
        raise ValueError(
            f"This link has seen a stop “{unknown[0][:40]}”, which the tour does not have, so no "
            "stop counts as seen."
        )
    return tuple(name for name in tour.NAMES if name in asked)


def _read_topic(text: str) -> str:
    if text not in CHOICES:
        raise ValueError(
            f"This link asks for questions about “{text[:40]}”, which is none of "
            f"{', '.join(CHOICES)}, {TOUR_SHOWN}"
        )
    return text


def _read_seed(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(MOST_SEED))):
        raise ValueError(
            f"This link's seed “{text[:40]}” is no whole number from 0 to {MOST_SEED}, so another "
            "question is drawn."
        )
    return int(text)


def _read_chosen(text: str) -> int:
    if len(text) != 1 or text not in LETTERS:
        raise ValueError(
            f"This link's choice “{text[:40]}” is none of {', '.join(LETTERS)}, so the question is "
            "still open."
        )
    return LETTERS.index(text)


def _read_score(text: str) -> tuple[Score, ...]:
    found: dict[str, Score] = {}
    for part in text.split(","):
        topic, _, numbers = part.partition(".")
        right, _, asked = numbers.partition(".")
        try:
            if not all(number.isascii() and number.isdigit() for number in (right, asked)):
                raise ValueError(part)
            found[topic] = Score(topic=topic, right=int(right), asked=int(asked))
        except ValueError:
            raise ValueError(
                f"This link's score “{part[:40]}” is no topic.right.asked, so the score starts "
                "anew."
            ) from None
    return tuple(found[name] for name in TOPICS if name in found)


READERS: Mapping[str, Callable[[str], Any]] = {
    "stop": _read_stop,
    "moved": _read_moved,
    "seen": _read_seen,
    "topic": _read_topic,
    "seed": _read_seed,
    "chosen": _read_chosen,
    "score": _read_score,
}
