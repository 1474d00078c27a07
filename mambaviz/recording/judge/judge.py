"""The judge of one recording: which rules look at a step, and in which order."""

from __future__ import annotations

from collections import Counter

from mambaviz.recording.held import Ledger
from mambaviz.recording.judge import counts
from mambaviz.recording.judge.case import Case
from mambaviz.recording.judge.facts import Facts
from mambaviz.recording.judge.forward import forwarded
from mambaviz.recording.judge.holders import Holders
from mambaviz.recording.judge.lists import allocated
from mambaviz.recording.judge.memory import Memory
from mambaviz.recording.judge.metadata import described
from mambaviz.recording.judge.post_copy import post_copied
from mambaviz.recording.judge.pre_copy import pre_copied
from mambaviz.recording.judge.registered import registered
from mambaviz.recording.judge.rows import taken_over
from mambaviz.recording.judge.settled import settled
from mambaviz.recording.lines import Head
from mambaviz.recording.rules import Verdict
from mambaviz.recording.steps import RecordedStep
from mambaviz.trace import Invariant


class Judge:
    """Takes the steps of one recording in order and says of each what is wrong.

    It keeps only what requests hold now, so a recording may be of any length. After a step,
    ``decodes`` says which of its rows are decodes, ``compared`` how much of it was looked at, and
    ``settled`` is the step with the counts that it really started from.
    """

    def __init__(self, head: Head) -> None:
        settings = head.settings
        self.decodes: dict[str, bool] = {}
        self.compared: Counter[Invariant] = Counter()
        self.settled: RecordedStep | None = None
        self._facts = Facts.of(head)
        self._memory: dict[str, Memory] = {}
        self._holders = Holders()
        self._ledger = Ledger(prefix_size=settings.hash_block_size or settings.block_size or 0)

    def step(self, step: RecordedStep) -> list[Verdict]:
        """Everything in one step that contradicts a rule; steps come in order."""
        self._ledger.written.clear()
        if step.lost:
            self._know_nothing()
        for came in step.came:
            if came.prefix is not None:
                self._ledger.prefixes[came.id] = came.prefix
        if self._facts.asynchronous:
            step = settled(step, self._memory)
        self.settled = step
        case = Case(self._facts, step, self._memory, self._ledger, self._holders)
        found = [*counts.scheduled(case)]
        self.decodes = {request.id: case.is_decode(request) for request in step.requests}
        found += [*allocated(case), *taken_over(case)]
        if step.schedule is not None:
            found += [*pre_copied(case), *described(case), *forwarded(case)]
            found += [*counts.accepted(case), *post_copied(case), *counts.committed(case)]
        found += registered(case)
        self.compared = case.compared
        self._forget_the_gone(step)
        return found

    def _know_nothing(self) -> None:
        self._memory.clear()
        self._ledger.forget()
        self._holders.forget()

    def _forget_the_gone(self, step: RecordedStep) -> None:
        """Who finished or was preempted; a prefix stays as long as a block of it can be hit."""
        gone = set((step.commit.finished or ()) if step.commit is not None else ())
        if step.schedule is not None:
            told = (*(step.schedule.finished or ()), *(step.schedule.preempted or ()))
            gone |= set(told) - {request.id for request in step.requests}
        for name in gone:
            self._memory.pop(name, None)
