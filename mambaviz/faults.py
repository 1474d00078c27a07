"""Named, switchable mistakes (field ``faults`` of a scenario).

Each acts at the real decision point, so that the invariants of section 1 can be watched
catching it. The engine's runners ask ``name in faults`` where the decision is taken.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """``where`` names the decision it spoils, ``what`` says what goes wrong there."""

    where: str
    what: str


FAULTS: dict[str, Fault] = {
    "accepted-count-not-reset": Fault(
        where="after a copy into the running block",
        what="the accepted count stays as it was although the state has moved into place",
    ),
    "bias-off-by-one": Fault(
        where="pre-copy and post-copy",
        what="the accepted-token bias is one too large",
    ),
    "wrong-block-table-row": Fault(
        where="metadata",
        what="each request's state indices are taken from the next request's block-table row",
    ),
    "pre-copy-skipped": Fault(
        where="pre-copy",
        what="the state is not migrated into the new running block",
    ),
}
