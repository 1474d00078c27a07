"""The tour and a question as the browser component takes them: texts, and moments of a run."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from mambaviz.questions import TOPICS, Question
from mambaviz.scenario import Scenario
from mambaviz.tour import Moment, Stop, told
from mambaviz.trace import PHASES, Trace

Json = Any


def run_name(scenario: Scenario) -> str:
    """By which the browser knows a run that it has already."""
    return scenario.content_hash


def tour_json(stops: Sequence[Stop], trace_of: Callable[[Scenario], Trace]) -> str:
    """Every stop with its texts; the runs come apart, when they are needed."""
    return _text([_stop(stop, trace_of(stop.scenario)) for stop in stops])


def _stop(stop: Stop, trace: Trace) -> Json:
    texts = told(stop, trace)
    return {
        "name": stop.name,
        "title": stop.title,
        "run": run_name(stop.scenario),
        "before": _moment(stop.before),
        "after": None if stop.after is None else _moment(stop.after),
        "ask": texts.ask,
        "told": texts.told,
        "panel": stop.panel,
        "lamps": stop.lamps,
    }


def question_json(question: Question, run: str) -> str:
    """A question with the moment before its answer and the one that shows it. ``run`` names the
    run that the browser is sent with it."""
    given, dot, asked = question.text.rpartition(". ")
    topic = TOPICS[question.topic]
    return _text(
        {
            "title": topic.title,
            "run": run,
            "before": _moment(moment_before(question)),
            "after": _moment(Moment(question.step, question.phase, question.request)),
            "text": [given + dot.strip(), asked],
            "choices": question.choices,
            "answer": question.answer,
            "why": question.why,
            "taught": f"Notebook {topic.notebook:02} teaches this.",
        }
    )


def moment_before(question: Question) -> Moment:
    """The last moment that does not show the answer. What a schedule shows is not there before
    it, which is the end of the step before."""
    if question.before != question.phase:
        return Moment(question.step, question.before, question.request)
    at = question.step * len(PHASES) + PHASES.index(question.phase) - 1
    if at < 0:
        raise ValueError(f"nothing comes before the answer of question {question.seed}")
    return Moment(at // len(PHASES), PHASES[at % len(PHASES)], question.request)


def _moment(moment: Moment) -> Json:
    return {"step": moment.step, "phase": moment.phase, "request": moment.request}


def _text(data: Json) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))
