"""What a page shows, as one value: it is the address, the widgets and the defaults.

`PageState` is plain data. `from_link` and `to_link` turn it into the query part of the address
and back; `current` and `update` keep the one of this browser session. Widgets are filled from
it before they are drawn and change it in their callbacks, so nothing else holds view state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Self, get_args
from urllib.parse import urlencode

import streamlit as st
from pydantic import BaseModel, ConfigDict, Field, model_validator
from streamlit.runtime.scriptrunner import get_script_run_ctx

from mambaviz import batch as batches
from mambaviz.batch import BATCHES, DEFAULT_BATCH, Batch, BatchError
from mambaviz.limits import LONGEST_LINK, LONGEST_REQUEST, MOST_REQUESTS, USUAL
from mambaviz.pages import (
    about_state,
    compare_state,
    explorer_state,
    kernels_state,
    learn_state,
    lesson_state,
    reports_state,
    sizes_state,
)
from mambaviz.pages.about_state import AboutView
from mambaviz.pages.compare_state import CompareView
from mambaviz.pages.explorer_state import ExplorerView
from mambaviz.pages.kernels_state import KernelsView
from mambaviz.pages.learn_state import LearnView
from mambaviz.pages.lesson_state import Lesson
from mambaviz.pages.packing import pack, unpacked
from mambaviz.pages.reports_state import ReportsView
from mambaviz.pages.sizes_state import SizesView
from mambaviz.recording.shelf import OWN_FILE, example_requests, examples
from mambaviz.scenario import (
    DEFAULT_PRESET,
    PRESETS,
    Scenario,
    ScenarioError,
    one_line,
    parse,
)
from mambaviz.trace import PHASES, PhaseName
from mambaviz.workload import within

BackendChoice = Literal["auto", "cuda", "interpreter", "reference"]
BACKEND_CHOICES: tuple[BackendChoice, ...] = get_args(BackendChoice)

ThemeName = Literal["light", "dark"]

Part = Literal["sidebar", "transport", "panels", "legend", "tabs"]
PARTS: tuple[Part, ...] = get_args(Part)  # what a link may hide, in the order a link names them

OPEN = "open"
DETAILS = (OPEN, "folded")  # what a link may say of the stage's expert panels

# Tabs below the stage by their names in a link: of a run, and of a recording.
RUN_TABS: Mapping[str, str] = {
    "layers": "Layers × states",
    "life-line": "Block life-line",
    "provenance": "Provenance",
    "truth": "Truth strip",
    "bytes": "Bytes",
    "log": "Log",
}
RECORDING_TABS: Mapping[str, str] = {"verdicts": "Verdicts", "log": "Log"}

MOST_WRITTEN = 512  # addresses of a session that are known as its own


START: tuple[int, PhaseName] = (0, PHASES[0])

# A preset opens at the moment its story is about; every other run opens at its start.
OPENINGS: Mapping[str, tuple[int, PhaseName]] = {
    "drafts-meet-the-boundary": (2, "post-copy"),
    "plain-decode": (2, "forward"),
    "crossing-a-boundary": (3, "pre-copy"),
    "accepted-to-the-boundary": (2, "post-copy"),
    "accepted-past-the-boundary": (2, "post-copy"),
    "all-drafts-rejected": (2, "accept"),
    "shift-in-place": (2, "post-copy"),
    "a-long-prompt-in-chunks": (1, "post-copy"),
    "a-shared-prefix": (3, "pre-copy"),
    "back-one-column": (2, "pre-copy"),
    "padded-first-token": (2, "forward"),
    "drafts-wider-than-the-block": (1, "commit"),
    "draft-filled-blocks": (1, "commit"),
}


class PageState(BaseModel):
    """One view of one run. ``custom`` is None for a preset; ``request`` None means the one that
    the phase is about. With ``opening`` a run of the user's own shows its first copy: where that
    is, only the run can say. A ``lesson`` is the page reduced to its stops.

    The Metadata page shows ``own_batch``, or the preset ``batch`` where that is None; the Compare
    page shows ``compare``, the Kernels page ``kernels``, the Sizes page ``sizes``, the Reports page
    ``museum``, the Explorer page ``explorer``, the Learn page ``learn``, the About page ``about``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    preset: str = DEFAULT_PRESET
    custom: Scenario | None = None
    recording: str | None = None  # an example's name, or OWN_FILE; takes the place of both
    only: tuple[str, ...] = ()  # the recording's requests that are drawn; none: the first ones
    step: Annotated[int, Field(ge=0)] = OPENINGS[DEFAULT_PRESET][0]
    phase: PhaseName = OPENINGS[DEFAULT_PRESET][1]
    opening: bool = False
    request: str | None = None
    layer: Annotated[int, Field(ge=0)] = 0
    backend: BackendChoice = "auto"
    theme: ThemeName | None = None  # None: as the reader's own setting
    hide: tuple[Part, ...] = ()
    lesson: Lesson | None = None
    details: bool = False  # whether the stage's expert panels are unfolded
    tab: str | None = None  # open below the stage; None: the first one
    batch: str = DEFAULT_BATCH
    own_batch: Batch | None = None
    compare: CompareView = CompareView()
    kernels: KernelsView = KernelsView()
    sizes: SizesView = SizesView()
    museum: ReportsView = ReportsView()
    explorer: ExplorerView = ExplorerView()
    learn: LearnView = LearnView()
    about: AboutView = AboutView()

    @model_validator(mode="after")
    def _known_preset(self) -> Self:
        if self.preset not in PRESETS:
            raise ValueError(f"there is no preset {self.preset!r}")
        if self.batch not in BATCHES:
            raise ValueError(f"there is no batch {self.batch!r}")
        return self

    @property
    def scenario(self) -> Scenario:
        return self.custom or PRESETS[self.preset]

    @property
    def preset_shown(self) -> str | None:
        """Slug of the preset on screen; None for a scenario of the user's own."""
        return None if self.custom else self.preset

    @property
    def batch_shown(self) -> Batch:
        return self.own_batch or BATCHES[self.batch]

    def showing_batch(self, batch: Batch) -> PageState:
        """The same view with another batch; a preset's own content stays a preset."""
        wanted = batch.content_hash
        slug = next(
            (slug for slug, preset in BATCHES.items() if preset.content_hash == wanted), None
        )
        if slug is not None:
            return self.changed(batch=slug, own_batch=None)
        return self.changed(own_batch=batch)

    def changed(self, **changes: Any) -> PageState:
        """A validated copy with other values."""
        if changes.keys() & {"step", "phase"}:
            changes = {"opening": False, **changes}
        return PageState.model_validate({**dict(self), **changes})

    def showing(self, scenario: Scenario) -> PageState:
        """The same page where another run opens; a preset's own content stays a preset."""
        slug = next((slug for slug, preset in PRESETS.items() if preset == scenario), None)
        source = {"custom": scenario} if slug is None else {"preset": slug}
        kept = {name: value for name, value in self if name not in (*OF_A_RUN, "custom", "opening")}
        return opened(**source, **kept)


def opened(**values: Any) -> PageState:
    """The state with these values; without step and phase it stands where its run opens, a lesson
    at its first stop."""
    lesson = values.get("lesson")
    if lesson is not None and not values.keys() & {"step", "phase"}:
        return PageState(**{**dict(lesson.stops[0]), **values})
    if values.get("recording") is not None and not values.keys() & {"step", "phase"}:
        return PageState(**{"step": START[0], "phase": START[1], "opening": True, **values})
    preset = values.get("preset", DEFAULT_PRESET)
    from_start = values.keys() & {"custom", "step", "phase"}
    step, phase = START if from_start else OPENINGS.get(preset, START)
    opening = from_start == {"custom"} and values["custom"] is not None
    return PageState(**{"step": step, "phase": phase, "opening": opening, **values})


# --------------------------------------------------------------------------------------
# The link
# --------------------------------------------------------------------------------------


def to_link(state: PageState) -> dict[str, str]:
    """Query parameters of a link to exactly this view; what has its default is left out."""
    link: dict[str, str] = {}
    if state.recording is not None:
        link["recording"] = state.recording
    elif state.custom is not None:
        link["run"] = pack(state.custom)
    elif state.preset != DEFAULT_PRESET:
        link["preset"] = state.preset
    if state.recording is not None and not state.opening:
        link |= {"step": str(state.step), "phase": state.phase}
    if state.recording not in (None, OWN_FILE) and state.only:
        link["only"] = ",".join(state.only)
    source: dict[str, Any] = {"custom": state.custom} if state.custom else {"preset": state.preset}
    default = opened(**source, lesson=state.lesson)
    places = [(view.opening, view.step, view.phase) for view in (state, default)]
    other_request = state.lesson is not None and state.request != default.request
    if state.recording is None and (places[0] != places[1] or other_request):
        link |= {"step": str(state.step), "phase": state.phase}
        default = default.changed(request=None)  # what a link with a place and no request means
    for name in ("request", "layer", "backend", "theme"):
        value = getattr(state, name)
        if value != getattr(default, name):
            link[name] = str(value)
    if state.lesson is not None:
        link |= lesson_state.to_link(state.lesson)
    if state.details:
        link["details"] = OPEN
    if state.tab is not None:
        link["tab"] = state.tab
    if state.hide:
        link["hide"] = ",".join(part for part in PARTS if part in state.hide)
    if state.own_batch is not None:
        link["rows"] = pack(state.own_batch)
    elif state.batch != DEFAULT_BATCH:
        link["batch"] = state.batch
    link |= compare_state.to_link(state.compare) | kernels_state.to_link(state.kernels)
    link |= sizes_state.to_link(state.sizes) | reports_state.to_link(state.museum)
    link |= explorer_state.to_link(state.explorer)
    return link | learn_state.to_link(state.learn) | about_state.to_link(state.about)


@dataclass(frozen=True)
class Packed:
    """What is packed into one parameter: what it is, the parameters that mean nothing without it,
    and the button that saves it."""

    name: str
    what: str
    with_it: tuple[str, ...]
    button: str = "Save JSON"


def too_long(link: Mapping[str, str]) -> Packed | None:
    """The packed text that makes a link longer than browsers, proxies and servers take."""
    if len(urlencode(link)) <= LONGEST_LINK:
        return None
    return max(
        (one for one in PACKED if one.name in link),
        key=lambda one: len(link[one.name]),
        default=None,
    )


def short_enough(link: dict[str, str]) -> dict[str, str]:
    """The link without what makes it too long."""
    while (packed := too_long(link)) is not None:
        link = {name: text for name, text in link.items() if name not in packed.with_it}
    return link


def from_link(params: Mapping[str, str]) -> tuple[PageState, str]:
    """The view a link asks for, and a sentence about the first thing in it that makes no sense,
    with the names of what else makes none.

    What is damaged gets its default, the rest of the link still counts. A scenario that cannot
    be read takes its step, phase, request and layer with it: they belong to another run.
    """
    values: dict[str, Any] = {}
    problems: dict[str, str] = {}
    unknown = [name for name in params if name not in READERS and not is_foreign(name)]
    for name in READERS:
        if name in params:
            try:
                values[name] = READERS[name](params[name])
            except ValueError as error:
                problems[name] = " ".join(str(error).split())  # a line, whatever is quoted
    for own, named in INSTEAD.items():
        if own in values:
            values.pop(named, None)
    if problems.keys() & {"run", "preset", "recording"}:
        values = {name: values[name] for name in values if name not in OF_A_RUN}
    if "only" in values:
        problem = _not_in_recording(values["only"], values.get("recording"))
        if problem:
            problems["only"] = problem
            del values["only"]
    if "run" in values:
        values["custom"] = values.pop("run")
    if "details" in values:
        values["details"] = values["details"] == OPEN
    if "rows" in values:
        values["own_batch"] = values.pop("rows")
    taught = {name: values.pop(name) for name in lesson_state.READERS if name in values}
    values["lesson"] = lesson_state.from_values(taught)
    if "lesson" in taught and "stops" not in taught and "stops" not in problems:
        problems["stops"] = "This link names a lesson but no stops, so the whole page is shown."
    compared = {name: values.pop(name) for name in compare_state.READERS if name in values}
    if problems.keys() & {"runs", "compare"}:
        compared = {}  # the place belongs to the runs that could not be read
    values["compare"] = compare_state.from_values(compared)
    launched = {name: values.pop(name) for name in kernels_state.READERS if name in values}
    if problems.keys() & {"inputs", "launch"}:
        launched = {}  # the program belongs to the launch that could not be read
    values["kernels"] = kernels_state.from_values(launched)
    sized = {name: values.pop(name) for name in sizes_state.READERS if name in values}
    values["sizes"] = sizes_state.from_values(sized)
    reported = {name: values.pop(name) for name in reports_state.READERS if name in values}
    if "report" in problems:
        reported = {}  # the place belongs to the report that does not exist
    values["museum"] = reports_state.from_values(reported)
    if unknown:
        problems[unknown[0][:40]] = (
            f"This link has a parameter “{unknown[0][:40]}”, which no page here knows, "
            "so it is left out."
        )
    explored = {name: values.pop(name) for name in explorer_state.READERS if name in values}
    values["explorer"] = explorer_state.from_values(explored)
    learned = {name: values.pop(name) for name in learn_state.READERS if name in values}
    values["learn"] = learn_state.from_values(learned)
    told = {name: values.pop(name) for name in about_state.READERS if name in values}
    values["about"] = about_state.from_values(told)
    said, also = next(iter(problems.values()), ""), ", ".join([*problems][1:])
    if also:
        said += f" Nor does this make sense in it: {also}."
    return opened(**values), one_line(said)


def is_foreign(name: str) -> bool:
    """Whether a parameter is another's: Streamlit's own, or a mark that a mail or a site adds."""
    return name in ("embed", "embed_options", "ref") or name.startswith("utm_")


def unpack(packed: str) -> Scenario:
    """Inverse of `pack`. Raises ValueError with a sentence."""
    shown = f"so the preset “{PRESETS[DEFAULT_PRESET].name}” is shown."
    text = unpacked(packed, "The scenario in this link", shown)
    try:
        return within(parse(text), USUAL)
    except ScenarioError as error:
        raise ValueError(f"The scenario in this link cannot run ({error}), {shown}") from None


def unpack_batch(packed: str) -> Batch:
    """Inverse of `pack` for a batch. Raises ValueError with a sentence."""
    shown = f"so “{BATCHES[DEFAULT_BATCH].name}” is shown."
    text = unpacked(packed, "The batch in this link", shown)
    try:
        return batches.parse(text)
    except BatchError as error:
        raise ValueError(f"The batch in this link cannot be ({error}), {shown}") from None


def _read_preset(text: str) -> str:
    if text not in PRESETS:
        raise ValueError(
            f"This link asks for a preset “{text[:40]}”, which does not exist, "
            f"so “{PRESETS[DEFAULT_PRESET].name}” is shown."
        )
    return text


def _read_recording(text: str) -> str:
    if text == OWN_FILE:
        raise ValueError(
            "This link shows a recording that was opened from a file, which no link can hold: "
            "open the file again, or pass on the self-contained replay."
        )
    if text not in examples():
        raise ValueError(
            f"This link asks for a recording “{text[:40]}”, which does not exist, so "
            f"“{PRESETS[DEFAULT_PRESET].name}” is shown."
        )
    return text


def _read_only(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(text.split(",")))
    if len(names) > MOST_REQUESTS:
        raise ValueError(
            f"This link chooses {len(names)} requests, where {MOST_REQUESTS} can be, so the first "
            "ones are drawn."
        )
    return names


def _not_in_recording(names: tuple[str, ...], recording: str | None) -> str:
    """What is wrong with a choice of requests, once it is known of which recording; or empty."""
    if recording is None:
        return (
            "This link chooses requests with “only”, which is for recordings, and names none, so "
            "it is left out."
        )
    known = example_requests(recording)
    unknown = next((name for name in names if name not in known), None)
    if unknown is None:
        return ""
    return (
        f"This link chooses a request “{unknown[:40]}”, which the recording does not have (it has "
        f"{known[0]} to {known[-1]}), so the first ones are drawn."
    )


def _read_batch(text: str) -> str:
    if text not in BATCHES:
        raise ValueError(
            f"This link asks for a batch “{text[:40]}”, which does not exist, "
            f"so “{BATCHES[DEFAULT_BATCH].name}” is shown."
        )
    return text


def _read_count(name: str) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) <= 6):
            raise ValueError(
                f"This link's {name} “{text[:40]}” is no whole number from 0, so it is left out."
            )
        return int(text)

    return read


def _read_request(text: str) -> str:
    if not 0 < len(text) <= LONGEST_REQUEST:
        raise ValueError(
            f"This link's request “{text[:40]}” has {len(text)} characters where 1 to "
            f"{LONGEST_REQUEST} can be, so it is left out."
        )
    return text


def _read_choice(name: str, choices: tuple[str, ...]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in choices:
            raise ValueError(
                f"This link's {name} “{text[:40]}” is none of {', '.join(choices)}, "
                "so it is left out."
            )
        return text

    return read


def _read_hidden(text: str) -> tuple[str, ...]:
    asked = text.split(",")
    unknown = [part for part in asked if part not in PARTS]
    if unknown:
        raise ValueError(
            f"This link hides “{unknown[0][:40]}”, which is none of {', '.join(PARTS)}, "
            "so nothing is hidden."
        )
    return tuple(part for part in PARTS if part in asked)


# In the order in which what is wrong with a link is said.
READERS: Mapping[str, Callable[[str], Any]] = {
    "run": unpack,
    "preset": _read_preset,
    "recording": _read_recording,
    "only": _read_only,
    "step": _read_count("step"),
    "phase": _read_choice("phase", PHASES),
    "request": _read_request,  # whether the run has it shows when the run is there
    "layer": _read_count("layer"),
    "backend": _read_choice("back end", BACKEND_CHOICES),
    "theme": _read_choice("theme", get_args(ThemeName)),
    "hide": _read_hidden,
    **lesson_state.READERS,
    "details": _read_choice("details", DETAILS),
    "tab": _read_choice("tab", tuple({**RUN_TABS, **RECORDING_TABS})),
    "rows": unpack_batch,
    "batch": _read_batch,
    **compare_state.READERS,
    **kernels_state.READERS,
    **sizes_state.READERS,
    **reports_state.READERS,
    **explorer_state.READERS,
    **learn_state.READERS,
    **about_state.READERS,
}

# What belongs to the run that a link names, and goes with it if it cannot be read.
OF_A_RUN = (
    *("run", "preset", "recording", "only"),
    *("step", "phase", "request", "layer", "lesson", "stops"),
)

# What is packed takes the place of what is named.
INSTEAD = {
    "run": "preset",
    "rows": "batch",
    "runs": "compare",
    "inputs": "launch",
    "config": "model",
    "ranges": "scope",
}
PACKED: tuple[Packed, ...] = (
    Packed("run", "scenario", OF_A_RUN),
    Packed("rows", "batch", ("rows",)),
    Packed("inputs", "launch", tuple(kernels_state.READERS)),
    Packed("runs", "comparison", tuple(compare_state.READERS)),
    Packed("config", "model", ("config",)),
    Packed("ranges", "scope", ("ranges",), "Save scope"),
)

# What only one page shows, by its title; the Watch page's run is known to others too.
OF_A_PAGE: Mapping[str, tuple[str, ...]] = {
    "Metadata": ("rows", "batch"),
    "Compare": tuple(compare_state.READERS),
    "Kernels": tuple(kernels_state.READERS),
    "Reports": tuple(reports_state.READERS),
    "Sizes": tuple(sizes_state.READERS),
    "Learn": tuple(learn_state.READERS),
    "About": tuple(about_state.READERS),
}


def only_elsewhere(page: str) -> list[str]:
    """Parameters of the address that the page with this title does not show."""
    return [name for title, names in OF_A_PAGE.items() if title != page for name in names]


PLACE = {"step", "phase", "request", "layer", "only", "compare", "kernels", "museum", "learn"}


# --------------------------------------------------------------------------------------
# This browser session
# --------------------------------------------------------------------------------------

_KEY = "session"


@dataclass
class Session:
    """What one browser session holds between two runs of a page."""

    state: PageState = field(default_factory=PageState)
    page: str = ""  # the page shown last
    asked_page: str | None = None  # the one the browser asked for last, by Streamlit's own name
    notice: str = ""
    wanted_page: str = ""  # to go to at the next run
    wish: int = 0  # counts the places that anything but the reader's stepping has asked for
    written: list[dict[str, str]] = field(default_factory=list)  # addresses, newest last
    sent: dict[str, str] | None = None  # the one the browser was given last
    sent_in: object = None  # the run of the page in which that was
    arrived: bool = False  # whether the browser has reported it since


def session() -> Session:
    """This session's own. A callback without access to Streamlit's session can hold on to it."""
    return st.session_state.setdefault(_KEY, Session())


def current() -> PageState:
    """The view of this session. An address that is not one of ours wins: a link, an edited one.

    A browser sends the address it has with every click and step, and a slow answer lets it report
    one that we have replaced long ago. So an address written by this session is never a wish;
    going back to it in the history is, which the page's frame says (`went_to`).
    """
    asked, here = st.query_params.to_dict(), session()
    if asked in here.written:
        _send()
        return here.state
    return _open(asked)


def went_to(params: Mapping[str, str]) -> PageState:
    """The reader went back or forward in the browser's history."""
    return _open(dict(params))


def _open(params: dict[str, str]) -> PageState:
    state, problem = from_link(params)
    say(problem)
    session().wish += 1
    session().written.append(params)  # a damaged one is replaced, but can be reported again
    _keep(state)
    return state


def carry() -> None:
    """Once a run, before the navigation: the view goes along from page to page.

    The menu drops the query part of the address. The browser writes the address of another page
    when it hears of it, and what it knows of the query by then: told of the view only after that,
    it would put two addresses into its history, and the way back would lead to one without a view.
    """
    here, context = session(), get_script_run_ctx()
    before = here.asked_page
    here.asked_page = context.pages_manager.intended_page_script_hash if context else None
    if here.written and here.asked_page != before and not _names_a_view():
        _tell(here.written[-1])


def _names_a_view() -> bool:
    """Whether the address is a place in the browser's history, or a link: the menu's has no query
    part."""
    return bool(READERS.keys() & st.query_params.to_dict().keys())


def enter(page: str) -> None:
    """Once a run of a page, first."""
    before, session().page = session().page, page
    if before == page or not session().written:
        return
    session().wish += 1  # what stepped on that page is mounted anew
    asked = st.query_params.to_dict()
    if not _names_a_view():
        session().sent = None
        _keep(session().state)
    elif asked != session().written[-1]:
        went_to(asked)


def path_of(page: str) -> str:
    """The last part of the address of a page, by its title."""
    return "" if page == "Watch" else page.lower()


def go_to(page: str) -> None:
    """Have another page shown from the next run on, by its title."""
    session().wanted_page = page


def page_wanted() -> str:
    """The page asked for with `go_to`, once; else empty."""
    wanted, session().wanted_page = session().wanted_page, ""
    return wanted


def update(**changes: Any) -> PageState:
    """Change the view, and the address with it; another place is a wish."""
    session().wish += bool(changes.keys() & PLACE)
    return follow(**changes)


def follow(**changes: Any) -> PageState:
    """Take over where the reader has stepped to: the address follows, nothing is asked for."""
    state = current().changed(**changes)
    _keep(state)
    return state


def show(scenario: Scenario) -> PageState:
    """Look at another scenario."""
    state = current().showing(scenario)
    say("")
    session().wish += 1
    _keep(state)
    return state


def show_batch(batch: Batch) -> PageState:
    """Look at another batch on the Metadata page."""
    state = current().showing_batch(batch)
    say("")
    _keep(state)
    return state


def say(sentence: str) -> None:
    """Have a sentence shown above the page until another scenario is chosen."""
    session().notice = sentence


def notice() -> str:
    """The sentence to show: what was wrong with a link or a file; empty if nothing was."""
    return session().notice


def _keep(state: PageState) -> None:
    here, link = session(), short_enough(_foreign_params() | to_link(state))
    here.state = state
    if not here.written or here.written[-1] != link:
        here.written = [*here.written, link][-MOST_WRITTEN:]
    _send()


def _send() -> None:
    """Give the browser the address written last.

    A run of the page can be broken off for a newer one before this, and what it has sent can be
    lost with it: it is sent again until the browser has reported it. An address that the browser
    has reached by itself, in its history, is not written over: what lies ahead there would go.
    """
    here, link, shown = session(), session().written[-1], st.query_params.to_dict()
    if shown == here.sent and here.sent_in is not _this_run():
        here.arrived = True
    if here.sent != link:
        is_due = shown != link or (here.sent is not None and not here.arrived)
    else:
        is_due = shown != link and not here.arrived and not _is_from_history()
    if is_due:
        _tell(link)
    elif here.sent != link:
        here.sent, here.arrived = link, True


def _tell(link: dict[str, str]) -> None:
    here = session()
    st.query_params.from_dict(link)
    here.sent, here.sent_in, here.arrived = link, _this_run(), False


def _this_run() -> object:
    """What each run of the page, or of a part of it, has for itself."""
    context = get_script_run_ctx()
    return context.parallel_coordinator if context else None


def _is_from_history() -> bool:
    """Whether the browser asks for this run because the reader went back or forward."""
    context = get_script_run_ctx()
    return context is not None and context.is_history_navigation


def no_link() -> str:
    """Why the address does not hold all of this view, in a sentence; empty if it does."""
    link = to_link(session().state)
    packed = too_long(link)
    if packed is None:
        return ""
    return (
        f"This view is too long for a link: {len(urlencode(link)):,} characters, where "
        f"{LONGEST_LINK:,} can be. The address leaves the {packed.what} out; {packed.button} "
        "keeps it."
    )


def _foreign_params() -> dict[str, str]:
    """Parameters in the address that are another's, kept as they are."""
    return {name: text for name, text in st.query_params.to_dict().items() if is_foreign(name)}
