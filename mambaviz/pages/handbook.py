"""The texts in ``docs``, to be read in the app: whole, or a section of the specification."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

GUIDES: Mapping[str, str] = {
    "readme": "README.md",
    "onboarding": "docs/onboarding.md",
    "links": "docs/links.md",
    "fast-kernels": "docs/fast-kernels.md",
    "decisions": "docs/spec/README.md",
}
_HEADING = re.compile(r"^#+ (\d(?:\.\d+)?)\b\.? *(.*)$", re.MULTILINE)
_LINK = re.compile(r"!?\[([^\]]+)\]\((?!https?:)[^)]*\)")


@dataclass(frozen=True)
class Text:
    """``name``: as a link names it (``3``, ``3.2``, ``onboarding``). ``file``: below the root."""

    name: str
    title: str
    file: str
    markdown: str


@cache
def texts() -> Mapping[str, Text]:
    """All of them, the specification first; none where the project is installed without docs."""
    found: dict[str, Text] = {}
    for path in sorted((ROOT / "docs" / "spec").glob("0*.md")):
        found |= _sections(path)
    for name, file in GUIDES.items():
        path = ROOT / file
        if path.is_file():
            markdown = path.read_text(encoding="utf-8")
            title = markdown[markdown.index("# ") + 2 :].partition("\n")[0]
            found[name] = Text(name, title, file, _shown(markdown.partition(title)[2]))
    return found


def _sections(path: Path) -> dict[str, Text]:
    markdown = path.read_text(encoding="utf-8")
    file = path.relative_to(ROOT).as_posix()
    heads = list(_HEADING.finditer(markdown))
    found = {}
    for index, head in enumerate(heads):
        name, title = head[1], head[2].replace("`", "").strip()
        whole = "." not in name
        end = len(markdown) if whole or index + 1 == len(heads) else heads[index + 1].start()
        found[name] = Text(name, f"{name} {title}", file, _shown(markdown[head.end() : end]))
    return found


def _shown(markdown: str) -> str:
    """Without pictures' frames, and with links to files as plain words: the app has no files."""
    without = re.sub(r"<picture>.*?</picture>", "", markdown, flags=re.DOTALL)
    return _LINK.sub(r"\1", without).strip()
