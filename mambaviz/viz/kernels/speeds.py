"""Committed measurements as bars: what share of the card's own copy a kernel reaches."""

from __future__ import annotations

from html import escape

from mambaviz.speeds import SpeedCase, Speeds, Timing

FULL = 100.0  # per cent at which a bar ends
SHORT = 18.0  # per cent below which its text stands beside it


def speeds_html(found: Speeds | str) -> str:
    """The chart, or the sentence on why there is none."""
    title = "<h3>How fast on a GPU"
    if isinstance(found, str):
        return f'<section class="panel speeds">{title}</h3><p>{escape(found)}</p></section>'
    rows = "".join(_case(case) for case in found.cases)
    head = (
        "<thead><tr><th>case</th><th>share of the card's own copy</th><th>target</th><th>met</th>"
        "<th>fast, a launch</th><th>nothing to copy, fast</th><th>readable</th></tr></thead>"
    )
    return (
        f'<section class="panel speeds">{title} <small>{escape(found.conditions)}</small></h3>'
        f'{_legend(found)}<div class="wide"><table class="bars">{head}<tbody>{rows}</tbody></table>'
        "</div></section>"
    )


def _legend(found: Speeds) -> str:
    met = sum(case.met is True for case in found.cases)
    limit = found.idle_limit_us
    idle = f"; with nothing to copy at most {_time(limit)} are wanted" if limit is not None else ""
    return (
        '<p class="legend"><span><i class="bar fast"></i>fast: pre-copy, below it post-copy</span>'
        '<span><i class="bar readable"></i>readable pre-copy</span>'
        '<span><i class="tick"></i>target</span>'
        f"<span>{met} of {len(found.cases)} targets are met{idle}</span></p>"
    )


def _case(case: SpeedCase) -> str:
    bars = _bar("fast", case.precopy) + _bar("fast", case.postprocess)
    bars += _bar("readable", case.readable)
    wanted = _per_cent(case.target)
    tick = "" if wanted is None else f'<i class="tick" style="left:{min(wanted, FULL):.1f}%"></i>'
    met = {True: "✓", False: "✗", None: "–"}[case.met]
    cls = ' class="missed"' if case.met is False else ""
    fast, readable = case.precopy, case.readable
    return (
        f'<tr{cls}><th scope="row">{escape(case.name)}</th><td class="plot">{bars}{tick}</td>'
        f"<td>{escape(case.target)}</td><td>{met}</td>"
        f"<td>{_time(fast.us if fast else None)}</td>"
        f"<td>{_time(fast.idle_us if fast else None)}</td>"
        f"<td>{_time(readable.idle_us if readable else None)}</td></tr>"
    )


def _bar(name: str, timing: Timing | None) -> str:
    if timing is None:
        return '<div class="bar-line"><span>not measured</span></div>'
    width = min(timing.share * 100, FULL)
    beside = f' style="left:calc({width:.1f}% + 6px)"' if width < SHORT else ""
    return (
        f'<div class="bar-line"><i class="bar {name}" style="width:{width:.1f}%"></i>'
        f"<span{beside}>{timing.share:.0%} · {timing.tbs:.2f} TB/s</span></div>"
    )


def _time(micros: float | None) -> str:
    if micros is None:
        return "–"
    return f"{micros:.1f} µs" if micros < 100 else f"{micros:.0f} µs"


def _per_cent(target: str) -> float | None:
    """``97%`` as a number; None for a target that is a time."""
    text = target.strip().removesuffix("%").strip()
    try:
        return float(text) if target.strip().endswith("%") else None
    except ValueError:
        return None
