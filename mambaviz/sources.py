"""The code itself, as a short hash: what was found counts for the sources it was found with."""

from __future__ import annotations

import hashlib
from pathlib import Path

SOURCES = Path(__file__).resolve().parent
LEFT_OF_PICTURES = ("viz", "pages", "presets", "scopes")


def sources_hash() -> str:
    """Over everything that decides what a run is: the kernels, and mambaviz without pictures."""
    digest = hashlib.sha256()
    for room in (SOURCES, SOURCES.parent / "kernels"):
        for path in sorted(room.rglob("*.py")):
            if not set(LEFT_OF_PICTURES) & set(path.parts):
                digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
