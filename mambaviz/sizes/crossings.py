"""How often a request crosses a block boundary, and what is copied then (align mode).

A decode step computes one token and S drafts and keeps 1 to 1+S of them. The running column is
that of the step's last token, `cdiv(computed + 1 + S, B) - 1` (section 2): it moves on once for
each boundary as long as 1+S does not exceed B, and the state is *migrated* along. With drafts the
kept tokens also reach or pass every boundary once, and the state there is *checkpointed*
(section 3.2); without drafts it stands in the right block already. So each boundary costs one
copy without drafts and two with them, and boundaries come by at (tokens kept a step) / B.

A copy with bias b leaves out the first b rows of the conv window (section 3.1). The bias a
boundary meets is not that of a step at random: a step that keeps more tokens passes more
boundaries, so each count weighs by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from mambaviz.sizes.alignment import StatePage


@dataclass(frozen=True)
class Kept:
    """Tokens that a decode step keeps: ``chances[a - 1]`` is the chance that it keeps ``a``."""

    chances: tuple[float, ...]

    @property
    def mean(self) -> float:
        return sum(kept * chance for kept, chance in enumerate(self.chances, start=1))

    @property
    def migrate_bias(self) -> float:
        """Mean bias of a migrate: tokens kept by the step before, less one.

        Unless that step kept everything and ended on the boundary exactly: then the checkpoint
        was done in place and has set the count back (section 3.2).
        """
        drafts = len(self.chances) - 1
        passed = sum(kept * (kept - 1) * chance for kept, chance in enumerate(self.chances, 1))
        return (passed - drafts * self.chances[-1]) / self.mean

    @property
    def checkpoint_bias(self) -> float:
        """Mean bias of a checkpoint: how far into the kept tokens the boundary lies."""
        inside = (kept * (kept - 1) / 2 * chance for kept, chance in enumerate(self.chances, 1))
        return sum(inside) / self.mean


def kept_tokens(drafts: int, acceptance: float) -> Kept:
    """Each draft is kept with that chance if those before it were; one token is always kept.

    The mean is 1 + p + p² + … + p^S.
    """
    stops = [acceptance**kept * (1 - acceptance) for kept in range(drafts)]
    return Kept((*stops, acceptance**drafts))


def crossings_per_step(block: int, kept: Kept) -> float:
    """Boundaries that a request crosses in a decode step, in the long run.

    Exact for blocks of at least 1+S tokens. ValueError for a smaller one: its steps can cross
    several boundaries at once.
    """
    if block < len(kept.chances):
        raise ValueError(
            f"a block of {block} tokens is smaller than a step of {len(kept.chances)}; it must "
            "hold a token and all drafts"
        )
    return kept.mean / block


@dataclass(frozen=True)
class CrossingBytes:
    """Bytes that one crossing copies in all recurrent layers of a rank.

    ``migrate`` and ``checkpoint`` are means over biases, ``at_most`` a whole state per copy.
    """

    migrate: float
    checkpoint: float
    at_most: int
    copies: int

    @property
    def total(self) -> float:
        return self.migrate + self.checkpoint


def crossing_bytes(page: StatePage, mamba_layers: int, kept: Kept) -> CrossingBytes:
    """What a crossing copies; a checkpoint only where there are drafts."""
    drafts = len(kept.chances) - 1
    copies = 2 if drafts else 1
    row = page.conv_row_bytes
    migrate = page.bytes - row * kept.migrate_bias
    checkpoint = page.bytes - row * kept.checkpoint_bias if drafts else 0.0
    return CrossingBytes(
        migrate=mamba_layers * migrate,
        checkpoint=mamba_layers * checkpoint,
        at_most=mamba_layers * page.bytes * copies,
        copies=copies,
    )
