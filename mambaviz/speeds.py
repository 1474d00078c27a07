"""How fast the kernels were on a GPU: the committed measurements, read for the pages.

``benchmarks/results/kernels-h200.json`` is written by the benchmark. Where it is missing or no
longer readable the page says so in a sentence; nothing is made up for it. Costs no torch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

RESULTS = Path(__file__).resolve().parents[1] / "benchmarks" / "results" / "kernels-h200.json"

Speed = Annotated[float, Field(ge=0)]


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True)  # the benchmark may write more than is drawn


class Timing(_Data):
    """One kernel in one case: µs of a launch, TB/s of bytes read and written, their ``share`` of
    the card's own copy, and µs of the same launch with nothing to copy."""

    us: Speed
    tbs: Speed
    share: Speed
    idle_us: Speed | None = None


class SpeedCase(_Data):
    """One case: ``bytes`` of the states of ``crossing`` requests, moved in ``layers`` layers.

    ``target`` is the wanted share of the card's own copy (``97%``) or a time
    (``6 µs``); ``precopy`` and ``postprocess`` are the fast kernels, ``readable`` is the readable
    pre-copy. None: not measured."""

    name: str
    crossing: int
    layers: int
    layout: Literal["SD", "DS"]
    bytes: int
    target: str
    card_us: Speed
    card_tbs: Speed
    precopy: Timing | None = None
    postprocess: Timing | None = None
    readable: Timing | None = None
    met: bool | None = None


class Speeds(_Data):
    """All cases of one card. ``conditions``: card, driver and versions in one line;
    ``idle_limit_us``: what a launch with nothing to copy should take at most."""

    device: str
    conditions: str
    idle_limit_us: Speed | None = None
    cases: list[SpeedCase]


def committed(path: Path = RESULTS) -> Speeds | str:
    """The committed measurements, or a sentence on why there are none."""
    if not path.exists():
        return (
            "No measurement is committed here. On a machine with an NVIDIA GPU “make bench” "
            f"measures every case and writes benchmarks/results/{path.name}."
        )
    try:
        return Speeds.model_validate_json(path.read_text(encoding="utf-8"))
    except (ValidationError, ValueError) as error:
        what = str(error).splitlines()[0]
        return f"benchmarks/results/{path.name} cannot be read ({what}); “make bench” writes it."
