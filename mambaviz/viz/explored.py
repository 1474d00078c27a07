"""An exploration as HTML: what is asked, how far it is, and the shortest scenario told in words."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from mambaviz.explore.command import duration, progress_line
from mambaviz.explore.findings import Findings, Order
from mambaviz.explore.progress import Progress
from mambaviz.explore.scope import Scope
from mambaviz.faults import FAULTS, METADATA
from mambaviz.glossary import TERMS
from mambaviz.log import step_lines
from mambaviz.scenario import RequestPlan, Scenario
from mambaviz.trace import INVARIANTS


def say_html(scope: Scope, fault: str | None, order: Order | None, found: Findings | None) -> str:
    headline = _question(fault, order) if order is None or found is None else _answer(order, found)
    about = scope.story or "Ranges of your own"
    sentence = f"Scope {scope.name}: {about}. {_size(scope)}"
    return f'<div class="mv-say"><h1>{escape(headline)}</h1><p>{escape(sentence)}</p></div>'


def _question(fault: str | None, order: Order | None) -> str:
    if order is not None and order.goal is not None:
        return f"Which is the shortest scenario that has a step with {order.goal.words}?"
    if fault is not None:
        return f"Which is the shortest scenario in which {fault} does damage?"
    return "Does every scenario keep every invariant?"


def _answer(order: Order, found: Findings) -> str:
    steps = _count(found.depth, "step")
    if order.goal is not None:
        if not found.hits:
            return f"No step has {order.goal.words} in any of {found.scenarios:,} scenarios."
        return f"{steps} are enough for {order.goal.words}.".replace("step are", "step is")
    if not found.hits:
        return f"The scope holds: {found.scenarios:,} scenarios, every invariant kept."
    broken = sorted({words.partition(" ")[0] for words in _words(found)})
    if len(broken) == 1:
        return f"After {steps} {broken[0]} breaks."
    return f"After {steps} {', '.join(broken[:-1])} and {broken[-1]} break."


def _size(scope: Scope) -> str:
    return (
        f"{_count(scope.num_shapes, 'combination')}, each followed through every pattern of "
        f"accepted drafts for up to {_count(scope.steps, 'step')}."
    )


def plan_html(scope: Scope, fault: str | None) -> str:
    """What will be done, before anything is found."""
    notes = [
        "Shortest first: all runs of one step, then of two, and so on, until something is found.",
        "The scheduler, the cache manager, the worker and the metadata builder are the real ones; "
        "a state is kept as the tokens it has absorbed. What is found is run once more with real "
        "bytes, and so is a sample of the rest.",
    ]
    if fault is not None:
        notes.insert(0, f"The mistake, in {FAULTS[fault].where}: {FAULTS[fault].what}.")
        if set(FAULTS[fault].noticed_by) == {METADATA}:
            notes.insert(1, f"No invariant sees it, so nothing can: {FAULTS[fault].why_silent}.")
    if scope.set_padded_first_tokens_aside:
        notes.append(
            "Runs are set aside from where a one-token prompt is padded like a decode: that rule "
            "is known to be unsound."
        )
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return f'<ul class="mv-plan">{items}</ul>'


def progress_html(progress: Progress | None) -> str:
    """A bar for this depth, and in words all that is known."""
    if progress is None:
        share, words = 0.0, "Starting: loading PyTorch"
    else:
        share = progress.done / progress.tasks if progress.tasks else 0.0
        line = progress_line(progress)
        words = line[0].upper() + line[1:]
    return (
        f'<div class="mv-explored" role="status"><div class="mv-bar">'
        f'<span style="width:{share:.1%}"></span></div><p>{escape(words)}</p></div>'
    )


def counts_html(order: Order, found: Findings) -> str:
    """How many scenarios that was, and whether real bytes say the same."""
    scenarios = f"{found.scenarios:,} scenarios of up to {_count(found.depth, 'step')}"
    what = "break an invariant" if order.goal is None else "have such a step"
    replayed = found.replayed_hits + found.replayed_others
    lines = [
        f"{found.hits:,} of {scenarios} {what}." if found.hits else f"{scenarios} in all.",
        f"{replayed:,} of them were run once more with real bytes: "
        + ("all agree." if not found.disagreements else "NOT all agree."),
        f"{duration(found.seconds)}, {found.scenarios_a_second:,.0f} scenarios a second.",
    ]
    if found.refused:
        lines.append(f"{_count(found.refused, 'combination')} cannot run and were left out.")
    if found.set_aside:
        lines.append(f"{_count(found.set_aside, 'beginning')} set aside (padded first tokens).")
    text = f'<p class="mv-counts">{escape(" ".join(lines))}</p>'
    wrong = "".join(f"<li>{escape(words)}</li>" for words in found.disagreements)
    return text + (f'<ul class="mv-plan mv-broken">{wrong}</ul>' if wrong else "")


# ------------------------------------------------------------------------ the shortest scenario


def steps_html(found: Findings) -> str:
    """What is broken, and every step up to there as the log tells it."""
    assert found.trace is not None
    assert found.shortest is not None
    parts = [f'<div class="mv-breach">{_breaches(_words(found))}</div>'] if _words(found) else []
    for step in found.trace.steps[: found.shortest.size.steps]:
        title, *lines = step_lines(step)
        rows = "".join(_row(line) for line in lines)
        parts.append(f"<h4>{escape(title[0].upper() + title[1:])}</h4><dl>{rows}</dl>")
    return f'<section class="mv-steps">{"".join(parts)}</section>'


def _words(found: Findings) -> list[str]:
    """The broken invariants of the last step; a query's answer has none to tell."""
    words = found.shortest.words if found.shortest is not None else []
    return [one for one in words if one.partition(" ")[0] in INVARIANTS]


def _breaches(words: Iterable[str]) -> str:
    rows = []
    for one in words:
        invariant = one.partition(" ")[0]
        rows.append(
            f"<p><b>{escape(one)}</b><br><span>{escape(TERMS[invariant].meaning)}</span></p>"
        )
    return "".join(rows)


def _row(line: str) -> str:
    label, _, text = line.strip().partition("  ")
    broken = ' class="mv-broken"' if label == "BROKEN" else ""
    return f"<dt{broken}>{escape(label)}</dt><dd{broken}>{escape(text.strip())}</dd>"


def scenario_html(scenario: Scenario) -> str:
    """The scenario's settings and requests."""
    engine = scenario.engine
    facts = [
        ("Cache mode", engine.mode),
        ("Runner, layout", f"{engine.runner.upper()}, {engine.layout}"),
        ("Block size", str(engine.block_size)),
        ("Drafts a step", str(engine.num_spec)),
        ("Blocks", str(engine.num_blocks)),
    ]
    if engine.num_mamba_groups > 1:
        facts.append(("Groups", str(engine.num_mamba_groups)))
    if engine.replayssm_buffer_len:
        facts.append(("ReplaySSM buffer", str(engine.replayssm_buffer_len)))
    facts += [("Fault", fault) for fault in scenario.faults]
    facts += [(f"Request {plan.id}", _request(plan)) for plan in scenario.requests]
    facts += [
        (f"Step {event.step}", f"{event.kind} {event.request or ''}".strip())
        for event in scenario.events
    ]
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in facts)
    return f'<dl class="mv-found">{rows}</dl>'


def _request(plan: RequestPlan) -> str:
    parts = [f"prompt of {plan.num_prompt_tokens}", f"{_count(plan.max_tokens, 'token')} out"]
    if isinstance(plan.accept, list):
        parts.append(f"keeps {', '.join(map(str, plan.accept))} drafts")
    if plan.arrive:
        parts.append(f"arrives at step {plan.arrive}")
    return ", ".join(parts)


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
