"""What an exploration goes through: small ranges of settings, requests and events, all combined.

A scope is data, a JSON file for instance. Its *shapes* are scenarios that still leave open how
many drafts each verification keeps; the search branches there, over every pattern.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from mambaviz import json_text
from mambaviz.faults import FAULTS
from mambaviz.limits import LONGEST_STORY
from mambaviz.scenario import (
    DraftCount,
    EngineSettings,
    Event,
    Grammar,
    LayerSettings,
    Name,
    Scenario,
    ScenarioError,
    TokenCount,
    build,
    explain,
)

SCOPE_DIR = Path(__file__).parent / "scopes"
NAMES = "ABCD"  # of the requests
MOST_SHAPES = 200_000

EventKind = Literal["none", "preempt", "abort", "reset", "reset_running"]
Many = Field(min_length=1, max_length=32)


class Scope(BaseModel):
    """Ranges to combine; a list holds the values that are tried.

    ``draft_plans`` say how many drafts a request is given, step by step and over again (null: as
    many as ``num_spec``). ``arrivals`` are steps at which a request behind the first arrives,
    ``shared_prefix`` says whether such a request's prompt begins like the first one's. An event is
    planned for one of ``event_steps``. Runs are cut off after ``steps`` steps. ``engine`` and
    ``layer`` hold what is the same in every scenario, but for what has a range above.

    ``set_padded_first_tokens_aside`` leaves out runs from where a one-token prompt is padded on:
    that rule is known to be unsound, and would be found again and again.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: Name = "untitled"
    story: Annotated[str, Field(max_length=LONGEST_STORY)] = ""
    modes: Annotated[list[Literal["none", "align", "all"]], Many] = ["align"]
    runners: Annotated[list[Literal["v1", "v2"]], Many] = ["v1"]
    layouts: Annotated[list[Literal["SD", "DS"]], Many] = ["SD"]
    block_sizes: Annotated[list[Annotated[int, Field(ge=1, le=64)]], Many] = [4]
    num_specs: Annotated[list[Annotated[int, Field(ge=0, le=8)]], Many] = [2]
    num_blocks: Annotated[list[Annotated[int, Field(ge=2, le=256)]], Many] = [16]
    replayssm_buffer_lens: Annotated[list[Annotated[int, Field(ge=0, le=64)]], Many] = [0]
    mamba_groups: Annotated[list[Annotated[int, Field(ge=1, le=4)]], Many] = [1]
    chunk_limits: Annotated[list[TokenCount | None], Many] = [None]
    graphs: Annotated[list[bool], Many] = [False]
    num_requests: Annotated[list[Annotated[int, Field(ge=1, le=4)]], Many] = [1]
    prompt_lens: Annotated[list[Annotated[int, Field(ge=1, le=64)]], Many] = [1, 2, 3, 4, 5]
    max_tokens: Annotated[list[Annotated[int, Field(ge=1, le=64)]], Many] = [6]
    draft_plans: Annotated[list[Annotated[list[DraftCount], Many] | None], Many] = [None]
    arrivals: Annotated[list[Annotated[int, Field(ge=0, le=64)]], Many] = [0]
    shared_prefix: Annotated[list[bool], Many] = [False]
    events: Annotated[list[EventKind], Many] = ["none"]
    event_steps: Annotated[list[Annotated[int, Field(ge=0, le=64)]], Field(max_length=32)] = []
    steps: Annotated[int, Field(ge=1, le=64)] = 6
    set_padded_first_tokens_aside: bool = False
    engine: EngineSettings = EngineSettings()
    layer: LayerSettings = LayerSettings(num_layers=1)
    faults: Annotated[list[Name], Field(max_length=32)] = []

    def shapes(self) -> list[Shape]:
        """Every combination; those of one engine configuration stand together.

        Raises ScenarioError for more than `MOST_SHAPES`.
        """
        if "none" not in self.events and not self.event_steps:
            raise ScenarioError("event_steps: name the steps at which events are tried")
        if self.num_shapes > MOST_SHAPES:
            raise ScenarioError(
                f"the scope has {self.num_shapes:,} combinations before a single draft is "
                f"verified; allowed are {MOST_SHAPES:,}: take values out of its lists"
            )
        return [
            Shape(settings, requests, event)
            for settings in self._settings()
            for requests in self._requests()
            for event in self._events(len(requests))
        ]

    @property
    def num_shapes(self) -> int:
        """How many `shapes` there would be."""
        settings = prod(map(len, self._setting_ranges()))
        first = len(self.prompt_lens) * len(self.max_tokens) * len(self.draft_plans)
        behind = first * len(self.arrivals) * len(self.shared_prefix)
        return sum(
            settings * first * behind ** (count - 1) * sum(1 for _ in self._events(count))
            for count in self.num_requests
        )

    def _settings(self) -> Iterator[Settings]:
        return (Settings(*values) for values in product(*self._setting_ranges()))

    def _setting_ranges(self) -> tuple[Sequence[Any], ...]:
        return (
            self.modes,
            self.runners,
            self.layouts,
            self.block_sizes,
            self.num_specs,
            self.num_blocks,
            self.replayssm_buffer_lens,
            self.mamba_groups,
            self.chunk_limits,
            self.graphs,
        )

    def _requests(self) -> Iterator[tuple[Asked, ...]]:
        for count in self.num_requests:
            sizes = (self.prompt_lens, self.max_tokens, self.draft_plans)
            first = product(*sizes, [0], [False])
            behind = product(*sizes, self.arrivals, self.shared_prefix)
            for combination in product(first, *[list(behind)] * (count - 1)):
                yield tuple(Asked(*values) for values in combination)

    def _events(self, num_requests: int) -> Iterator[Event | None]:
        for kind in self.events:
            if kind == "none":
                yield None
                continue
            about = NAMES[:num_requests] if kind in ("preempt", "abort") else [None]
            for step, name in product(self.event_steps, about):
                yield Event(step=step, kind=kind, request=name)

    @property
    def most_runs(self) -> int:
        """An upper bound for the runs of the deepest pass, often far above their number."""
        return sum(shape.most_runs(self.steps) for shape in self.shapes())

    def scenario(self, shape: Shape) -> Scenario | None:
        """The shape as a scenario; None if it is one that cannot run."""
        settings, layer = shape.settings, self.layer
        size = settings.block_size
        if settings.mode == "all" and size % layer.chunk_size:
            layer = layer.model_copy(update={"chunk_size": size})
        data: dict[str, Any] = {
            "name": self.name,
            "engine": {**self.engine.model_dump(), **settings.engine()},
            # One layer for each group: further ones would hold the same.
            "layer": {**layer.model_dump(), "num_layers": settings.num_mamba_groups},
            "requests": [asked.request(index) for index, asked in enumerate(shape.requests)],
            "events": [] if shape.event is None else [shape.event.model_dump()],
            "faults": self.faults,
        }
        try:
            return build(data)
        except ScenarioError:
            return None


@dataclass(frozen=True)
class Settings:
    """One engine configuration of a scope."""

    mode: str
    runner: str
    layout: str
    block_size: int
    num_spec: int
    num_blocks: int
    replayssm_buffer_len: int
    num_mamba_groups: int
    prefill_chunk_limit: int | None
    full_cuda_graphs: bool

    def engine(self) -> dict[str, Any]:
        return dict(self.__dict__)


@dataclass(frozen=True)
class Asked:
    """One request of a shape."""

    prompt_len: int
    max_tokens: int
    drafts: list[int] | None
    arrive: int
    shares: bool

    def request(self, index: int) -> dict[str, Any]:
        family = 1 if self.shares else index + 1
        return {
            "id": NAMES[index],
            "prompt": [1000 * family + position for position in range(self.prompt_len)],
            "max_tokens": self.max_tokens,
            "drafts": self.drafts,
            "arrive": self.arrive,
        }


@dataclass(frozen=True)
class Shape:
    """A scenario of a scope, but for what its verifications keep."""

    settings: Settings
    requests: tuple[Asked, ...]
    event: Event | None

    def most_runs(self, steps: int) -> int:
        """An upper bound for the runs of so many steps: each decode keeps 0 to S drafts."""
        decodes = min(steps - 1, max(asked.max_tokens for asked in self.requests))
        return int((self.settings.num_spec + 1) ** (len(self.requests) * decodes))


SCOPE_GRAMMAR = Grammar(Scope, {"engine": EngineSettings, "layer": LayerSettings}, {})


def parse_scope(text: str) -> Scope:
    """A scope from JSON text. Raises ScenarioError with one line."""
    return json_text.parsed(Scope, text, lambda e: explain(e, SCOPE_GRAMMAR), ScenarioError)


def with_fault(scope: Scope, fault: str) -> Scope:
    """The scope with a named mistake. ScenarioError if there is none, or nothing it can spoil."""
    if fault not in FAULTS:
        raise ScenarioError(
            f"fault {fault[:60]!r}: there is no such fault; choose from {', '.join(FAULTS)}"
        )
    scope = scope.model_copy(update={"faults": [fault]})
    if all(scope.scenario(shape) is None for shape in scope.shapes()):
        needs = ", ".join(need.words for need in FAULTS[fault].needs)
        raise ScenarioError(
            f"fault {fault}: nothing in the scope {scope.name} for it to spoil; it needs {needs}"
        )
    return scope


def scope_names() -> list[str]:
    """The scopes that come with the project."""
    return sorted(path.stem for path in SCOPE_DIR.glob("*.json"))


def find_scope(name: str) -> Scope:
    """A scope by its name, else from a file. Raises ScenarioError."""
    if name in scope_names():
        return parse_scope((SCOPE_DIR / f"{name}.json").read_text(encoding="utf-8"))
    if not name.endswith(".json") and not json_text.is_there(name):
        raise ScenarioError(
            f"{name[:60]}: neither a file nor a scope; the scopes are {', '.join(scope_names())}"
        )
    text = json_text.text_of(name, ScenarioError, name[:60])
    try:
        return parse_scope(text)
    except ScenarioError as error:
        raise ScenarioError(f"{name}: {error}") from None
