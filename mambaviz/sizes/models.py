"""Public models with recurrent layers, and where their numbers come from (``models.json``)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mambaviz.sizes.model import Model
from mambaviz.sizes.reader import read_config

FILE = Path(__file__).with_name("models.json")
DEFAULT_MODEL = "qwen3-8-27b"


@dataclass(frozen=True)
class PublicModel:
    """``config`` has the fields that a size needs, under the names of the architecture's own
    config.json or of `families`. ``seen`` are public statements that the numbers reproduce."""

    name: str
    hf_id: str
    model: Model
    config: Mapping[str, Any]
    sources: tuple[str, ...]
    confidence: Literal["high", "medium", "low"]
    seen: tuple[str, ...]
    notes: tuple[str, ...]


def slug_of(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _load() -> dict[str, PublicModel]:
    entries = json.loads(FILE.read_text(encoding="utf-8"))
    return {
        slug_of(entry["name"]): PublicModel(
            name=entry["name"],
            hf_id=entry["hf_id"],
            model=read_config({"name": entry["name"], **entry["config"]}),
            config=entry["config"],
            sources=tuple(entry["sources"]),
            confidence=entry["confidence"],
            seen=tuple(entry["seen"]),
            notes=tuple(entry["notes"]),
        )
        for entry in entries
    }


MODELS: dict[str, PublicModel] = _load()
