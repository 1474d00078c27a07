"""Committed measurements as bars: what share of the card's own copy a kernel reaches."""

from __future__ import annotations

from html import escape

from mambaviz.launches.speeds import SpeedCase, Speeds

FULL = 100.0  # per cent at which a bar ends


def speeds_html(found: Speeds | str) -> str:
    """The chart, or the sentence on why there is none."""
    if isinstance(found, str):
        head = "<h3>How fast on a GPU</h3>"
        return f'<section class="panel speeds">{head}<p>{escape(found)}</p></section>'
    rows = "".join(_case(case) for case in found.cases)
    head = (
        "<thead><tr><th>case</th><th>share of the card's own copy</th><th>target</th>"
        "<th>fast</th><th>nothing to copy</th><th>met</th></tr></thead>"
    )
    legend = (
        '<p class="legend"><span><i class="bar fast"></i>fast kernel</span>'
        '<span><i class="bar readable"></i>readable kernel</span>'
        '<span><i class="tick"></i>target</span></p>'
    )
    return (
        f'<section class="panel speeds"><h3>How fast on a GPU <small>{escape(found.where)}</small>'
        f'</h3>{legend}<div class="wide"><table class="bars">{head}<tbody>{rows}</tbody></table>'
        "</div></section>"
    )


def _case(case: SpeedCase) -> str:
    bars = _bar("fast", case.share(case.fast_tbs), case.fast_tbs)
    bars += _bar("readable", case.share(case.readable_tbs), case.readable_tbs)
    wanted = _per_cent(case.target)
    tick = "" if wanted is None else f'<i class="tick" style="left:{min(wanted, FULL):.1f}%"></i>'
    met = {True: "✓", False: "✗", None: "–"}[case.met]
    cls = ' class="missed"' if case.met is False else ""
    return (
        f'<tr{cls}><th scope="row">{escape(case.name)}</th><td class="plot">{bars}{tick}</td>'
        f"<td>{escape(case.target)}</td><td>{_time(case.fast_us)}</td>"
        f"<td>{_time(case.idle_us)}</td><td>{met}</td></tr>"
    )


def _bar(name: str, share: float | None, speed: float | None) -> str:
    if share is None:
        return f'<div class="bar-line {name}"><span class="none">not measured</span></div>'
    width = min(share * 100, FULL)
    return (
        f'<div class="bar-line {name}"><i class="bar {name}" style="width:{width:.1f}%"></i>'
        f"<span>{share:.0%} · {speed:.2f} TB/s</span></div>"
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
