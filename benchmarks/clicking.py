"""A hand that clicks at random: every page, every knob, good and bad files, for 20 minutes each.

    python -m benchmarks.clicking                     the six segments that have not passed yet
    python -m benchmarks.clicking 3 4                 some of them
    python -m benchmarks.clicking 3 --seconds 120     a short try, which counts for nothing
    python -m benchmarks.clicking --replay FILE       a sequence that found something, once more:
                                                      benchmarks/clicking_found has what is mended
    python -m benchmarks.clicking --table             rewrite benchmarks/results/clicking.md alone

Each segment has a seed, a server and a browser of its own. It fails on an error in the browser's
console or in the server's log, on a traceback on screen, on a request to anywhere else, and on a
page that no longer answers. What it did is kept line by line in .artifacts/clicking; a segment
that passed is not repeated as long as the sources of the app are the same.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from playwright.sync_api import BrowserContext, ConsoleMessage, FileChooser, Page, sync_playwright
from playwright.sync_api import Error as BrowserError

from benchmarks.served import ROOT, Served, serve
from mambaviz.recording.shelf import examples
from mambaviz.scenario import PRESETS
from tools.get_browser import find_browser

RECORDS = ROOT / ".artifacts" / "clicking"
TABLE = ROOT / "benchmarks" / "results" / "clicking.md"
FIND = (Path(__file__).with_suffix(".js")).read_text(encoding="utf-8")
SEGMENTS = range(1, 7)
SECONDS = 1_200
LEFT = "context was destroyed"  # what the browser says of a page that is being left
FIRST_PATIENCE, PATIENCE = 120_000, 60_000  # ms: a page's first picture; any answer

PATHS = ("", "metadata", "kernels", "compare", "reports", "explorer", "sizes", "learn", "about")
KEYS = (
    *("ArrowRight", "ArrowLeft", "ArrowUp", "ArrowDown", "Home", "End", "PageUp", "PageDown"),
    *("Shift+ArrowRight", "Shift+ArrowLeft", "Tab", "Shift+Tab", "Enter", "Space", "Escape"),
    *("Backspace", "Delete", "d", "D", "f", "F", "e", "p", "r", "c", "?", "[", "]", "1", "0", "+"),
    *("Control+a", "Control+c", "Control+v", "Control+z", "-", ",", "."),
)
WORDS = (
    *("", "0", "1", "7", "-1", "3.5", "1e9", "99999999999999999999", "nan", "1, 2, 3", "0,,0"),
    *("A", "ä ∅ 漢字 🐍", "<script>alert(1)</script>", "'; --", "x" * 3000, "../../etc/passwd"),
    *("{}", "[]", "null", '{"requests": []}', "[" * 500, '{"a": NaN}', "\u202e\x00\ufeff"),
)
LINKS = (
    *("step=3&phase=pre-copy", "step=99999", "step=-1", "phase=nothing", "layer=7", "request=A"),
    *("theme=dark", "theme=light", "details=open", "hide=sidebar", "hide=tabs,legend,panels"),
    *("backend=reference", "backend=interpreter", "backend=cuda", "backend=abacus"),
    *("run=AAAA", "run=%00%ff", "rows=zz", "runs=plain-decode,shift-in-place", "runs=x,y,z"),
    *("lesson=L&stops=1.forward,2.pre-copy.A", "stops=99.commit", "report=S03", "report=Z99"),
    *("stop=checkpoint&moved=yes", "stop=nowhere", "topic=bias&seed=4", "topic=x&score=bias.1.2"),
    *("recording=chunks-inside-blocks", "recording=mamba2-crowded&step=40", "recording=none"),
    *("report=S07&revealed=yes", "lock=A&at=3", "at=9999", "unknown=1", "a=1&a=2", "compare=x"),
)
SIZES = ((1440, 900), (1280, 720), (1024, 768), (800, 600), (390, 844), (1920, 1080))
# How often each kind of action is taken, of a hundred.
WEIGHTS = {
    "click": 46, "key": 17, "type": 10, "drag": 5, "wheel": 4, "double": 3, "hover": 3, "open": 3,
    "back": 2, "forward": 1, "reload": 2, "theme": 1, "size": 1, "wait": 2,
}  # fmt: skip


@dataclass(frozen=True)
class Action:
    """One movement of the hand, with everything needed to do it again.

    ``kind`` is a key of ``WEIGHTS``; ``target`` says which thing on the page: its tag, role,
    words, and how many of the same kind come before it.
    """

    kind: str
    target: tuple[str, str, str, int] | None = None
    value: str = ""
    points: tuple[float, ...] = ()


class TroubleError(Exception):
    """Something that must not happen, in words."""


# ----------------------------------------------------------------------------------- choosing


def choose(draw: random.Random, page: Page) -> Action:
    """The next action, drawn from what is on the page."""
    kind = draw.choices(list(WEIGHTS), weights=list(WEIGHTS.values()))[0]
    match kind:
        case "click" | "double" | "hover" | "type":
            return _at_something(draw, page, kind)
        case "key":
            return Action(kind, value=" ".join(draw.choices(KEYS, k=draw.choice((1, 1, 1, 2, 5)))))
        case "drag":
            points = tuple(round(draw.random(), 3) for _ in range(4))
            return Action(kind, points=points)
        case "wheel":
            return Action(
                kind, points=(draw.random(), draw.random(), draw.choice((-900, 300, 900)))
            )
        case "open":
            return Action(kind, value=_address(draw))
        case "theme":
            return Action(kind, value=draw.choice(("light", "dark")))
        case "size":
            return Action(kind, points=draw.choice(SIZES))
        case _:
            return Action(kind)


def _at_something(draw: random.Random, page: Page, kind: str) -> Action:
    """A kind of thing first, then one of its kind, so that 300 tokens do not outweigh a button."""
    things = [thing for thing in looked_at(page) if _is_ours(thing, page)]
    if kind == "type":
        things = [t for t in things if t["tag"] in ("input", "textarea", "canvas")] or things
    if not things:
        return Action("wait")
    groups = sorted({(thing["tag"], thing["role"]) for thing in things})
    group = draw.choice(groups)
    among = [thing for thing in things if (thing["tag"], thing["role"]) == group]
    thing = draw.choice(among)
    same = [t for t in among if t["words"] == thing["words"]]
    target = (*group, thing["words"], same.index(thing))
    points = (round(draw.random(), 2), round(draw.random(), 2)) if group[0] == "canvas" else ()
    return Action(kind, target, draw.choice(WORDS) if kind == "type" else "", points)


def _is_ours(thing: dict[str, str], page: Page) -> bool:
    """Links that lead out of the app are left alone: the network is none of this test's."""
    if not thing["leads"]:
        return True
    return urlsplit(thing["leads"]).netloc in ("", urlsplit(page.url).netloc)


def _address(draw: random.Random) -> str:
    """A page with a link: good, bad, or of a preset."""
    parts = draw.choices(LINKS, k=draw.choice((0, 1, 1, 2, 3)))
    if draw.random() < 0.5:
        parts.append(f"preset={draw.choice(list(PRESETS))}")
    return f"{draw.choice(PATHS)}?{'&'.join(parts)}"


def looked_at(page: Page) -> list[dict[str, str]]:
    """What is on the page, as benchmarks/clicking.js describes it; nothing on one that is being
    left at this very moment."""
    try:
        return list(page.evaluate(FIND))
    except BrowserError as error:
        if LEFT in str(error):
            return []
        raise


# -------------------------------------------------------------------------------------- doing


class Hand:
    """Takes actions on a page, and watches what the page says to them."""

    def __init__(self, context: BrowserContext, served: Served, draw: random.Random) -> None:
        self.served, self.draw = served, draw
        self.complaints: list[str] = []
        self.page = context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.page.on("console", self._listen)
        self.page.on("pageerror", lambda error: self.complaints.append(f"page error: {error}"))
        self.page.on("crash", lambda _: self.complaints.append("the browser tab crashed"))
        self.page.on("dialog", lambda dialog: dialog.dismiss())
        self.page.on("filechooser", self._give_a_file)
        context.on("request", lambda request: self._watch(request.url))
        context.on("page", lambda other: other.close() if other is not self.page else None)

    def _listen(self, message: ConsoleMessage) -> None:
        place = message.location.get("url", "")
        # Streamlit looks for its server below the page's own path first (docs/links.md).
        own = "404" in message.text and place.endswith(("_stcore/health", "_stcore/host-config"))
        if message.type == "error" and not own:
            self.complaints.append(f"console: {message.text} ({place})")

    def _watch(self, url: str) -> None:
        parts = urlsplit(url)
        home = urlsplit(self.served.url)
        if parts.scheme not in ("data", "blob") and parts.netloc != home.netloc:
            self.complaints.append(f"a request to {url}")

    def _give_a_file(self, chooser: FileChooser) -> None:
        name, content = self.draw.choice(files())
        with suppress(BrowserError):
            chooser.set_files({"name": name, "mimeType": "application/json", "buffer": content})

    def open(self) -> None:
        """The first page, until it is drawn."""
        self.page.goto(self.served.url)
        self.page.wait_for_selector("[data-testid=stMain] *", timeout=FIRST_PATIENCE)

    def take(self, action: Action) -> bool:
        """Do it. False if what it is about is not there any more."""
        try:
            _DEEDS[action.kind](self, action)
        except BrowserError as error:
            text = str(error)
            if any(word in text for word in ("Timeout", "crash", "closed")):
                raise TroubleError(f"the page did not answer: {text.splitlines()[0]}") from error
            return False  # the thing went away while the hand was on its way
        return True

    def check(self) -> None:
        """Raise TroubleError if something is wrong."""
        seen = self._on_screen()
        if self.complaints:
            raise TroubleError("; ".join(self.complaints[:3]))
        if seen:
            raise TroubleError(f"on screen: {seen[:300]}")
        if self.served.process.poll() is not None:
            raise TroubleError("the server has ended")
        trouble = self.served.trouble()
        if trouble:
            raise TroubleError("in the server's log:\n" + "\n".join(trouble))

    def settle(self) -> None:
        """Wait until the page has been run to its end at least once."""
        self.page.wait_for_function(
            "() => document.querySelector('.stApp')?.dataset.testScriptState === 'notRunning'",
            timeout=FIRST_PATIENCE,
            polling=100,
        )

    def _on_screen(self) -> str:
        """An exception box or a traceback, if one is shown."""
        try:
            return self._asked_screen()
        except BrowserError as error:
            if LEFT in str(error):  # the next look says
                return ""
            raise

    def _asked_screen(self) -> str:
        handle = self.page.wait_for_function(
            """() => {
              const box = document.querySelector("[data-testid=stException]");
              const text = document.body ? document.body.innerText : "";
              const bad = /Traceback \\(most|defect of the program|encountered an error/;
              const at = text.search(bad);
              return [box ? box.innerText || "an exception" : at < 0 ? "" : text.slice(at)];
            }""",
            timeout=PATIENCE,
        )
        return str(handle.json_value()[0])

    # Each kind of action.

    def _find(self, action: Action) -> Any:
        """The thing, brought into view; None if the page has none like it."""
        if action.target is None:
            return None
        tag, role, words, nth = action.target
        things = looked_at(self.page)
        places = [
            at
            for at, thing in enumerate(things)
            if (thing["tag"], thing["role"], thing["words"]) == (tag, role, words)
        ]
        if nth >= len(places):
            return None
        handle = self.page.evaluate_handle("at => window.mvFound[at]", places[nth]).as_element()
        if handle is not None:
            handle.evaluate("node => node.scrollIntoView({block: 'nearest', inline: 'nearest'})")
        return handle

    def _place(self, action: Action) -> tuple[float, float] | None:
        handle = self._find(action)
        box = handle.bounding_box() if handle is not None else None
        if box is None:
            return None
        right, down = action.points or (0.5, 0.5)
        return box["x"] + box["width"] * right, box["y"] + box["height"] * down

    def _click(self, action: Action) -> None:
        place = self._place(action)
        if place is not None:
            self.page.mouse.click(*place, click_count=2 if action.kind == "double" else 1)

    def _hover(self, action: Action) -> None:
        place = self._place(action)
        if place is not None:
            self.page.mouse.move(*place)

    def _key(self, action: Action) -> None:
        for key in action.value.split(" "):
            self.page.keyboard.press(key)

    def _type(self, action: Action) -> None:
        place = self._place(action)
        if place is None or action.target is None:
            return
        canvas = action.target[0] == "canvas"
        self.page.mouse.click(*place, click_count=2 if canvas else 1)
        if not canvas:
            self.page.keyboard.press("Control+a")
        self.page.keyboard.insert_text(action.value)
        self.page.keyboard.press("Enter")

    def _drag(self, action: Action) -> None:
        size = self.page.viewport_size or {"width": 800, "height": 600}
        left, top, right, bottom = action.points
        self.page.mouse.move(left * size["width"], top * size["height"])
        self.page.mouse.down()
        self.page.mouse.move(right * size["width"], bottom * size["height"], steps=4)
        self.page.mouse.up()

    def _wheel(self, action: Action) -> None:
        size = self.page.viewport_size or {"width": 800, "height": 600}
        self.page.mouse.move(action.points[0] * size["width"], action.points[1] * size["height"])
        self.page.mouse.wheel(0, action.points[2])

    def _open(self, action: Action) -> None:
        self.page.goto(f"{self.served.url}/{quote(action.value, safe='?&=%,.-/')}")
        self.settle()

    def _back(self, action: Action) -> None:
        if action.kind == "back":
            self.page.go_back()
        else:
            self.page.go_forward()
        if not self.page.url.startswith(self.served.url):  # before the first page
            self.open()

    def _reload(self, _: Action) -> None:
        self.page.reload()
        self.settle()

    def _theme(self, action: Action) -> None:
        dark = action.value == "dark"
        self.page.emulate_media(color_scheme="dark" if dark else "light")

    def _size(self, action: Action) -> None:
        width, height = action.points
        self.page.set_viewport_size({"width": int(width), "height": int(height)})

    def _wait(self, _: Action) -> None:
        self.settle()


_DEEDS: dict[str, Callable[[Hand, Action], None]] = {
    "click": Hand._click,
    "double": Hand._click,
    "hover": Hand._hover,
    "key": Hand._key,
    "type": Hand._type,
    "drag": Hand._drag,
    "wheel": Hand._wheel,
    "open": Hand._open,
    "back": Hand._back,
    "forward": Hand._back,
    "reload": Hand._reload,
    "theme": Hand._theme,
    "size": Hand._size,
    "wait": Hand._wait,
}


def files() -> list[tuple[str, bytes]]:
    """Files to upload: a scenario, a recording, and what is neither."""
    good = PRESETS["shift-in-place"].model_dump_json().encode()
    recording = examples()["hybrid-drafts"].read_bytes()
    return [
        ("run.jsonl.gz", recording),
        ("run.jsonl", gzip.decompress(recording)[:20_000]),
        ("cut.gz", recording[:5_000]),
        ("scenario.json", good),
        ("cut.json", good[: len(good) // 2]),
        ("other.json", b'{"hello": "world"}'),
        ("list.json", b"[1, 2, 3]"),
        ("deep.json", b"[" * 5_000),
        ("not.json", b"\x00\xff\xfe not json"),
        ("empty.json", b""),
        ("<b>name</b>.json", good),
    ]


# ------------------------------------------------------------------------------------ running


@dataclass(frozen=True)
class Segment:
    """What came of one segment. ``trouble`` is empty if it passed."""

    number: int
    seconds: int
    actions: dict[str, int]
    missed: int
    trouble: str = ""


def run_segment(number: int, seconds: float, replay: list[Action] | None = None) -> Segment:
    """Click until the time is over, the replay is at its end, or something is wrong."""
    draw = random.Random(f"clicking/{number}")
    name = f"replay-{number}" if replay else f"segment-{number}"
    RECORDS.mkdir(parents=True, exist_ok=True)
    counts: Counter[str] = Counter()
    missed, trouble, start = 0, "", time.monotonic()
    with (
        sync_playwright() as playwright,
        serve(RECORDS / f"{name}.log") as served,
        (RECORDS / f"{name}.jsonl").open("w", encoding="utf-8") as notes,
    ):
        browser = playwright.chromium.launch(
            executable_path=find_browser(),
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        try:
            hand = Hand(context, served, draw)
            hand.open()
            start = time.monotonic()
            while time.monotonic() - start < seconds and (replay is None or replay):
                action = replay.pop(0) if replay else choose(draw, hand.page)
                notes.write(json.dumps(asdict(action)) + "\n")
                notes.flush()
                missed += not hand.take(action)
                counts[action.kind] += 1
                hand.check()
            hand.settle()
            hand.check()
            if not served.answers():
                trouble = "the server does not answer any more"
        except (TroubleError, BrowserError) as error:
            trouble = str(error)
        with suppress(BrowserError):
            browser.close()
    return Segment(number, round(time.monotonic() - start), dict(counts), missed, trouble)


def read_actions(path: Path) -> list[Action]:
    """The actions of an earlier call."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        target = tuple(entry["target"]) if entry["target"] else None
        found.append(Action(entry["kind"], target, entry["value"], tuple(entry["points"])))
    return found


def sources() -> str:
    """A short hash over what a reader of the app can meet."""
    digest = hashlib.sha256()
    for folder in ("kernels", "mambaviz", ".streamlit"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(path.read_bytes())
    digest.update((ROOT / "app.py").read_bytes())
    return digest.hexdigest()[:12]


def record_path(number: int, code: str) -> Path:
    return RECORDS / f"{number}.{code}.json"


def read_record(number: int, code: str) -> Segment | None:
    """What came of a segment on these sources; None if it was not done."""
    path = record_path(number, code)
    return Segment(**json.loads(path.read_text())) if path.exists() else None


def write_table(code: str) -> bool:
    """Rewrite the table from the segments done on these sources; True if all passed."""
    found = (read_record(number, code) for number in SEGMENTS)
    segments = [segment for segment in found if segment is not None]
    lines = [
        "# Random clicking",
        "",
        f"`python -m benchmarks.clicking`, code `{code}` (hash of the app's sources). Each segment "
        "has a seed, a server and a browser of its own. *errors*: in the browser's console, in "
        "the server's log, on screen, requests to other hosts, or a page that no longer answers.",
        "",
        "| segment | minutes | actions | clicks | keys | typed | opened, reloaded | errors |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
        *(_row(segment) for segment in segments),
        "",
        *(
            f"Segment {one.number} ended with: {one.trouble.splitlines()[0]}"
            for one in segments
            if one.trouble
        ),
    ]
    TABLE.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
    return len(segments) == len(SEGMENTS) and not any(one.trouble for one in segments)


def _row(segment: Segment) -> str:
    def taken(*kinds: str) -> int:
        return sum(segment.actions.get(kind, 0) for kind in kinds)

    cells = (
        segment.number,
        round(segment.seconds / 60),
        sum(segment.actions.values()),
        taken("click", "double"),
        taken("key"),
        taken("type"),
        taken("open", "reload", "back", "forward"),
        1 if segment.trouble else 0,
    )
    return f"| {' | '.join(map(str, cells))} |"


def main() -> int:
    """Exit code 1 if a segment found something."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.clicking", description=__doc__)
    parser.add_argument("numbers", nargs="*", type=int, help="segments; all six by default")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of a segment")
    parser.add_argument("--replay", type=Path, help="a .jsonl file of .artifacts/clicking")
    parser.add_argument("--table", action="store_true", help="only rewrite the table")
    options = parser.parse_args()
    code = sources()
    if options.table:
        return 0 if write_table(code) else 1
    if options.replay:
        segment = run_segment(0, float("inf"), read_actions(options.replay))
        print(segment)
        return 1 if segment.trouble else 0
    failed = False
    for number in options.numbers or SEGMENTS:
        done = read_record(number, code)
        if done is not None and not done.trouble and not options.numbers:
            continue
        segment = run_segment(number, options.seconds)
        print(f"segment {number}: {sum(segment.actions.values())} actions, ", end="")
        print(segment.trouble or f"all well after {segment.seconds} s", flush=True)
        failed |= bool(segment.trouble)
        if options.seconds >= SECONDS:
            record = json.dumps(asdict(segment)) + "\n"
            record_path(number, code).write_text(record, encoding="utf-8")
            write_table(code)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
