"""Ways to build a copy kernel wrong, each a switch of the Kernels page.

What they do to the bytes is computed in `mambaviz.launches.simulate`; the words about them live
here, and cost no torch.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mistake:
    """``label`` names the switch, ``what`` is the wrong line of thought, ``how`` says what of it
    is simulated, ``preset`` is a launch in which it does damage."""

    label: str
    what: str
    how: str
    preset: str


MISTAKES: dict[str, Mistake] = {
    "unordered-shift": Mistake(
        label="unordered shift",
        what="Rows of a shift in place are read and written one by one, in any order.",
        how="Simulated order: the last row first, which a GPU may take.",
        preset="every-outcome",
    ),
    "early-reset": Mistake(
        label="count reset too early",
        what="The first program of a request writes the accepted count 1 into the array that its "
        "siblings read.",
        how="Simulated order: the program of state 0 is done before the others of its request "
        "start. The interpreter runs programs one after another, a GPU in no order.",
        preset="every-outcome",
    ),
    "int32-product": Mistake(
        label="32-bit address",
        what="id × stride is computed in 32 bits and wraps at 2,147,483,648.",
        how="Simulated size: the blocks lie 256 MiB apart instead of a few bytes, so that the "
        "product of a small id wraps as that of a large id does on a real cache.",
        preset="every-outcome",
    ),
    "signed-address": Mistake(
        label="signed address",
        what="A base address of 2^63 or more stands as a negative number in its int64 tensor, and "
        "a check “address > 0” takes it for none.",
        how="Simulated place: the state tensors of layer 0 lie above 2^63.",
        preset="every-outcome",
    ),
    "no-bounds-check": Mistake(
        label="no bounds check",
        what="A column is looked up without asking whether the row has it.",
        how="Simulated memory: behind the last row the table holds a row that a finished request "
        "left behind, with the ids of the first one.",
        preset="every-outcome",
    ),
    "flat-ds-copy": Mistake(
        label="flat copy of DS rows",
        what="A shifted DS window is copied as one run of as many bytes, not row by row.",
        how="Computed on the real bytes; it needs the DS layout.",
        preset="shift-in-place-ds",
    ),
}
