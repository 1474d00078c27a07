"""A number that explains itself: its formula with the numbers in it, the rule, and its source."""

from __future__ import annotations

from dataclasses import dataclass, field

Value = int | float | str | bool | tuple[int, ...] | None

ENGINE = "vLLM 0.33.0"
CONFIG = "the model’s config.json"
SPEC = "docs/spec, section"
YOURS = "your setting"


@dataclass(frozen=True)
class Fact:
    """``key`` names it in exports. ``unit`` is empty where the value says it all."""

    key: str
    label: str
    value: Value
    unit: str
    formula: str
    rule: str
    source: str

    @property
    def shown(self) -> str:
        return shown(self.value, self.unit)


@dataclass(frozen=True)
class Section:
    title: str
    facts: tuple[Fact, ...] = field(default_factory=tuple)


def shown(value: Value, unit: str = "") -> str:
    """A value as it is read: thousands apart, shapes in parentheses, a dash for what is not."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        text = f"({', '.join(f'{size:,}' for size in value)})"
    elif isinstance(value, int):
        text = f"{value:,}"
    elif isinstance(value, float):
        text = decimal(value)
    else:
        text = value
    return f"{text} {unit}".strip()


def decimal(value: float) -> str:
    """Four figures that count, no more; a whole number as one."""
    if value >= 1000 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.2f}" if value >= 1 else f"{value:.4f}"


def binary(count: float) -> str:
    """Bytes in KiB, MiB or GiB."""
    for power, name in ((3, "GiB"), (2, "MiB"), (1, "KiB")):
        if count >= 1024**power:
            return f"{decimal(count / 1024**power)} {name}"
    return f"{decimal(float(count))} bytes"
