"""Text of a stranger's, shown by widgets that read Markdown."""

from __future__ import annotations

import re

# What Markdown, formulas, links and colour directives are made with, where it would act: a
# backslash before it makes it a character.
_ACTIVE = re.compile(
    r"""[\\`*<$~]         # code, emphasis, tags, formulas, strikes
      | (?<!\w)_|_(?!\w)  # emphasis; not the _ of a field's name
      | \](?=\()         # the middle of a link or an image
      | :(?=[\w/])       # :red[...], :smile:, http://
      | ^[#>+-]          # headings, quotes, lists
    """,
    re.VERBOSE,
)


def plain(text: str) -> str:
    """The text with every active Markdown sign made a plain character: no link, no image."""
    return _ACTIVE.sub(lambda sign: "\\" + sign[0], text)
