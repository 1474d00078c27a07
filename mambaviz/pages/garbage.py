"""What garbage collection need not look through.

Streamlit has every object looked through (``gc.collect``) after every run of a page or fragment.
With PyTorch and pandas loaded that takes 0.2 seconds, in which no other session moves, and forty
sessions that ask for their run twice a second bring the server to a stop. So whatever stays, the
modules, the recorded runs, what a live run makes, is set aside as soon as it is there.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache


def set_aside() -> None:
    """No collection looks at what is there now; it still goes as soon as nobody holds it."""
    gc.freeze()


@cache
def set_modules_aside() -> None:
    """Once a process, when the pages are imported."""
    gc.collect()
    set_aside()


GROWTH = 1.5  # times as many objects set aside as after the last look: time for another look
_left = [0]  # objects aside after the last look


@contextmanager
def aside() -> Iterator[Callable[[], None]]:
    """While a run is computed: it makes up to a million objects, set aside step by step.

    At the end garbage is looked for among everything, if much has come since the last look, which
    takes as long as a small run does; what is then left stays aside (the records of a run have no
    cycles). One run at a time, so there is no lock.
    """
    try:
        yield set_aside
    finally:
        look = gc.get_freeze_count() > GROWTH * _left[0]
        if look:
            gc.unfreeze()
            gc.collect()
        set_aside()
        if look:
            _left[0] = gc.get_freeze_count()
