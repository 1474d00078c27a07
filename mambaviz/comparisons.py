"""Runs worth setting side by side, as scenarios: ready-made ones, and those a reader makes.

A `Comparison` is two or three scenarios. What its runs are called is read from what the scenarios
differ in, never given. Pure data, no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mambaviz.fault_scenarios import FAULT_SCENARIOS
from mambaviz.faults import FAULTS
from mambaviz.scenario import DEFAULT_PRESET, PRESETS, Scenario, ScenarioError, build

FEWEST_RUNS, MOST_RUNS = 2, 3


@dataclass(frozen=True)
class Comparison:
    """Scenarios side by side, the first on the left. Raises ScenarioError for one or four."""

    name: str
    story: str
    scenarios: tuple[Scenario, ...]

    def __post_init__(self) -> None:
        if not FEWEST_RUNS <= len(self.scenarios) <= MOST_RUNS:
            raise ScenarioError(
                f"{len(self.scenarios)} runs: a comparison shows {FEWEST_RUNS} or {MOST_RUNS}"
            )

    @property
    def labels(self) -> tuple[RunLabel, ...]:
        return run_labels(self.scenarios)


@dataclass(frozen=True)
class RunLabel:
    """What a run is called beside the others, and one line about it."""

    name: str
    caption: str


# --------------------------------------------------------------------------------------
# What a scenario can differ in
# --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Variation:
    """One thing that is done in several ways: ``what`` names it, ``ways`` are the values."""

    what: str
    ways: tuple[str, ...]
    read: Callable[[Scenario], str]
    write: Callable[[dict[str, Any], str], None]
    captions: Mapping[str, str]


def _setting(name: str) -> tuple[Callable[[Scenario], str], Callable[[dict[str, Any], str], None]]:
    def write(data: dict[str, Any], way: str) -> None:
        data["engine"][name] = way

    return lambda scenario: getattr(scenario.engine, name), write


def _fault_of(scenario: Scenario) -> str:
    return ", ".join(scenario.faults) or NO_FAULT


def _set_fault(data: dict[str, Any], way: str) -> None:
    data["faults"] = [] if way == NO_FAULT else [way]


NO_FAULT = "no fault"

MODES = Variation(
    "cache mode",
    ("none", "align", "all"),
    *_setting("mode"),
    {
        "none": "One set of blocks, written over in place.",
        "align": "State kept where a step meets a boundary.",
        "all": "State kept at boundaries a prefill passes.",
    },
)
RUNNERS = Variation(
    "runner",
    ("v1", "v2"),
    *_setting("runner"),
    {
        "v1": "Copies decided on the CPU before the forward.",
        "v2": "Everything stays on the GPU: two kernels before the forward, one after it.",
    },
)
LAYOUTS = Variation(
    "conv layout",
    ("SD", "DS"),
    *_setting("layout"),
    {
        "SD": "One conv row a token, its channels side by side.",
        "DS": "One conv row a channel, its tokens side by side.",
    },
)
FAULT = Variation(
    "fault",
    (NO_FAULT, *FAULTS),
    _fault_of,
    _set_fault,
    {
        NO_FAULT: "As it should be.",
        **{name: f"{fault.what[0].upper()}{fault.what[1:]}." for name, fault in FAULTS.items()},
    },
)
VARIATIONS: tuple[Variation, ...] = (MODES, RUNNERS, LAYOUTS, FAULT)


def varied(scenario: Scenario, variation: Variation, way: str) -> Scenario:
    """The scenario with one thing done another way. Raises ScenarioError if it cannot run so."""
    data = scenario.model_dump(mode="json")
    variation.write(data, way)
    return build(data)


def compare_ways(scenario: Scenario, variation: Variation, ways: Sequence[str]) -> Comparison:
    """One scenario in several ways. Raises ScenarioError if one of them cannot run."""
    return Comparison(
        name=f"{scenario.name}: {variation.what}",
        story=scenario.story,
        scenarios=tuple(varied(scenario, variation, way) for way in ways),
    )


def modes_differ(scenarios: Sequence[Scenario]) -> bool:
    return len({scenario.engine.mode for scenario in scenarios}) > 1


def run_labels(scenarios: Sequence[Scenario]) -> tuple[RunLabel, ...]:
    """Each run named by the one thing that tells all of them apart, else by its scenario's name.

    A scenario made from the first one carries its name in front of its own, which is left out.
    """
    for variation in VARIATIONS:
        ways = [variation.read(scenario) for scenario in scenarios]
        if len(set(ways)) == len(ways):
            return tuple(_label(variation, way) for way in ways)
    names = [scenario.name for scenario in scenarios]
    made = f"{names[0]}, "
    if all(name.startswith(made) for name in names[1:]):
        names = ["original", *(name.removeprefix(made) for name in names[1:])]
    return tuple(
        RunLabel(name if names.count(name) == 1 else f"{name} ({index + 1})", "")
        for index, name in enumerate(names)
    )


def _label(variation: Variation, way: str) -> RunLabel:
    name = way.upper() if variation is RUNNERS else way
    return RunLabel(name, variation.captions.get(way, ""))


# --------------------------------------------------------------------------------------
# Ready-made
# --------------------------------------------------------------------------------------

_NEXT_TURN = build(
    {
        "name": "The next turn of A",
        "engine": {"num_blocks": 32},
        "requests": [
            {"id": "A", "prompt_len": 6, "max_tokens": 14, "accept": [1, 2, 0, 2]},
            {"id": "B", "prompt_len": 9, "max_tokens": 14, "accept": [2, 0, 2, 1]},
            # A's prompt and its first four outputs.
            {
                "id": "A2",
                "prompt": [1000 + position for position in range(10)],
                "arrive": 5,
                "max_tokens": 4,
                "accept": [1],
            },
        ],
    }
)


def _ready_made() -> dict[str, Comparison]:
    default = PRESETS[DEFAULT_PRESET]
    found = {
        "cache-mode": Comparison(
            "cache mode",
            "The same requests, three ways to keep state. A2, the next turn of A, arrives at "
            "step 5 with A’s first 10 tokens.",
            tuple(varied(_NEXT_TURN, MODES, mode) for mode in MODES.ways),
        ),
        "runner": Comparison(
            "V1 against V2",
            "The same decisions, on the CPU before the forward or all of them on the GPU: every "
            "list, state and output comes out the same.",
            tuple(varied(default, RUNNERS, runner) for runner in RUNNERS.ways),
        ),
        "layout": Comparison(
            "SD against DS",
            "The same rows, with channels or tokens side by side in memory. In DS a copy shifted "
            "by a bias is many short pieces instead of one long one; the state is the same.",
            tuple(varied(default, LAYOUTS, layout) for layout in LAYOUTS.ways),
        ),
        "rewound": Comparison(
            "original and rewound",
            "At step 3 verification keeps both of A’s drafts in one run and none in the other; "
            "everything after that is computed anew.",
            (default, _rewound_example()),
        ),
    }
    for name in FAULTS:
        if FAULT_SCENARIOS[name] == default:
            found[name] = with_and_without(name)
    return found


def with_and_without(fault: str) -> Comparison:
    """The fault's own scenario without it and with it."""
    scenario = FAULT_SCENARIOS[fault]
    return Comparison(
        f"fault: {fault}",
        f"In one of two runs, {FAULTS[fault].what}. The first step in which they part is marked.",
        (scenario, varied(scenario, FAULT, fault)),
    )


def _rewound_example() -> Scenario:
    """What `mambaviz.variations.rewind` makes of the default preset's run at step 3 of A."""
    data = PRESETS[DEFAULT_PRESET].model_dump(mode="json")
    longest = max(request["max_tokens"] for request in data["requests"])
    data["requests"][0]["accept"] = [1, 0, 0] + [0] * longest
    data["name"] += ", A keeps 0 at step 3"
    return build(data)


DEFAULT_COMPARISON = "cache-mode"
READY_MADE: Mapping[str, Comparison] = _ready_made()
