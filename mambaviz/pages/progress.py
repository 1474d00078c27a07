"""How far work is: steps done of about how many, and about how long it will take.

How many steps a scenario has is known only when it has run; `mambaviz.workload.expected_steps`
reckons it from the requests, so that a page can say "step 45 of about 200".
"""

from __future__ import annotations

import time
from dataclasses import dataclass

SAY_AFTER = 1.5  # seconds of work from which on the rest can be foretold


@dataclass(frozen=True)
class Progress:
    """Where work stands in one of its tasks. ``since`` is a `time.monotonic` of its start."""

    task: str  # such as "Computing" or "Drawing"
    done: int
    total: int
    exact: bool  # whether ``total`` is known or reckoned
    since: float

    def sentence(self, now: float | None = None) -> str:
        """``Computing step 45 of about 200, 12 s left``."""
        if not self.done:
            return self.task
        about = "" if self.exact else "about "
        total = max(self.total, self.done)
        text = f"{self.task} step {self.done} of {about}{total}"
        left = self.seconds_left(time.monotonic() if now is None else now)
        return text if left is None else f"{text}, about {left} s left"

    def seconds_left(self, now: float) -> int | None:
        """None while too little is done to tell, and where more steps come than expected."""
        spent = now - self.since
        if spent < SAY_AFTER or not self.done or self.done >= self.total:
            return None
        return max(1, round(spent / self.done * (self.total - self.done)))


def in_the_queue(ahead: int) -> str:
    """``2 runs are before yours``: said while a run waits for its turn."""
    return f"{ahead} runs are before yours" if ahead > 1 else "one run is before yours"


def how_far(progress: Progress | None, ahead: int, what: str, message: str) -> str:
    """``Computing step 45 of about 200, about 12 s left``; before the first step, what is being
    waited for or done: ``Computing a question: loading PyTorch``."""
    if progress is not None and progress.done:
        return f"{progress.sentence()}{', in turn with others' if ahead else ''}"
    return f"{what}: {in_the_queue(ahead) if ahead else message}"
