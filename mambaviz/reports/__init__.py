"""Public bug reports as replays: the right run, the one with the mistake, what tells them apart.

    REPORTS["S03"].replay()      both runs
        .numbers()               the report's numbers beside those that came out
        .first_difference        step, phase and facts in which the runs part
        .first_wrong_cell        the first number of a state that is wrong
        .question                something to guess before the reveal
    REPORTS["S03"].run(with_fault=True)   one of the runs as a trace

The prose and the reported numbers are data (``reports.json``); everything else is computed. No
pages in here. Torch is needed to replay, not to list.

    replays.py          the scenarios
    measures.py         how each number is read off a run, or off the function concerned
    wrong_cell.py       the first byte difference
    questions.py        what to predict
"""

from mambaviz.reports.model import REPORTS, Number, Replay, Report, ReportedNumber
from mambaviz.reports.questions import Question
from mambaviz.reports.wrong_cell import WrongCell

__all__ = ["REPORTS", "Number", "Question", "Replay", "Report", "ReportedNumber", "WrongCell"]
