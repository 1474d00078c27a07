"""How fast the kernels were on a GPU: the committed measurements, read for the page.

``benchmarks/results/kernels-h200.json`` is written by the benchmark. Where it is missing or no
longer readable the page says so in a sentence; nothing is made up for it. Costs no torch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "kernels-h200.json"

Speed = Annotated[float, Field(ge=0)]


class _Data(BaseModel):
    # The benchmark may write more than is drawn.
    model_config = ConfigDict(frozen=True, coerce_numbers_to_str=True)


class SpeedCase(_Data):
    """One case: TB/s of bytes read and written, and µs of one launch.

    ``target`` is the wanted share of the card's own copy (``97%``) or a time (``6 µs``),
    ``idle_us`` the same launch with nothing to copy. None: not measured.
    """

    name: str
    target: str
    card_tbs: Speed | None = None
    readable_tbs: Speed | None = None
    fast_tbs: Speed | None = None
    card_us: Speed | None = None
    fast_us: Speed | None = None
    idle_us: Speed | None = None
    met: bool | None = None

    def share(self, speed: float | None) -> float | None:
        """A speed as a share of the card's own copy."""
        if speed is None or not self.card_tbs:
            return None
        return speed / self.card_tbs


class Speeds(_Data):
    """All cases of one card."""

    device: str
    versions: str | dict[str, str]
    cases: list[SpeedCase]

    @property
    def where(self) -> str:
        """Card and versions in one line."""
        if isinstance(self.versions, str):
            return f"{self.device}; {self.versions}"
        listed = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        return f"{self.device}; {listed}"


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
