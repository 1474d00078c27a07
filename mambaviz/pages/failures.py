"""What went wrong with something that a page had computed, in one sentence for the screen."""

from __future__ import annotations

import logging

from mambaviz.launches.inputs import LaunchError
from mambaviz.recording.reader import RecordingError
from mambaviz.scenario import ScenarioError

log = logging.getLogger(__name__)

ADVICE = (ScenarioError, LaunchError, RecordingError)


def explained(error: BaseException, what: str) -> str:
    """Advice as it is; a defect of the program leaves its traceback in the log.

    ``what`` begins the sentence: ``This run broke off after 3 steps``.
    """
    if is_advice(error):
        return str(error)
    log.error("%s", what, exc_info=error)
    return (
        f"{what} with a defect of the program ({type(error).__name__}: {first_line(error)}); "
        "the log of the server has the traceback."
    )


def is_advice(error: BaseException) -> bool:
    """Whether an error's text is written for the user: what was wrong, what would be right.

    By name for `kernels.BackendError`, whose module imports torch.
    """
    return isinstance(error, ADVICE) or type(error).__name__ == "BackendError"


def first_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0][:200] if text else "no message"
