"""Broken input by the thousand: mutated scenarios, configs, scopes and links, resumable.

    python -m benchmarks.mutations                 every kind, where it was broken off
    python -m benchmarks.mutations link            one of them
    python -m benchmarks.mutations run --seed 17   one input, shown with what became of it

An input is made from something that works (a preset, a batch, a launch, a report's link, a model)
by a few changes: values, types, keys, lengths, signs that no text should have, cut or flipped
text. What must hold: nothing breaks, a refusal is one sentence, the exit code is 0, 1 or 2, and
what is accepted comes to an end. The tests draw a few of the same seeds; every input that once
broke something is kept in tests/fuzz.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import hashlib
import io
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import traceback
import zlib
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest import mock

from mambaviz.limits import Bounds

ROOT = Path(__file__).resolve().parent.parent
RECORDS = ROOT / ".artifacts" / "mutations"
TABLE = ROOT / "benchmarks" / "results" / "mutations.md"
CHUNK = 20  # seeds a process takes at a time
LONGEST_REFUSAL = 1_000  # characters, a file's name included
PAGES = (
    "Watch", "Metadata", "Kernels", "Compare", "Reports", "Explorer", "Sizes", "Learn", "About",
)  # fmt: skip
WAITING = ":material/hourglass_top:"  # beside what a page says while it is not done
PATIENCE = 120  # seconds for a page

# What this campaign has the command line take, so that thousands of runs come to an end: the
# kinds of limits are the usual ones, the numbers are small.
SMALL = Bounds(
    state_bytes=200_000,
    steps=16,
    rows=60,
    recurrences=600,
    truth_bytes=2_000_000,
    watched_bytes=4_000_000,
    table_entries=4_000,
)


# ------------------------------------------------------------------------------------- changes

NASTY_TEXTS = (
    "",
    " ",
    "<script>window.hacked=1</script>",
    '"><img src=x onerror="window.hacked=1">',
    "</script><script>window.hacked=1</script>",
    "<!--",
    "]](javascript:window.hacked=1)",
    "[a](javascript:window.hacked=1)",
    "![x](http://127.0.0.1:1/x.png)",
    "{{7*7}}",
    "${7*7}",
    "%(x)s {0} {x!r}",
    "<b>bold</b><a href='http://127.0.0.1:1'>a</a>",
    "\u202egnp.exe",  # from right to left
    "a\0b",
    "line\nbreak\r\ttab\x1b[31m",
    "\U0001f9ec\U0001f469\u200d\U0001f52c",
    "e\u0301" * 20,
    "x" * 5_000,
    "../../../../etc/passwd",
    "__import__('os').system('true')",
    "'; DROP TABLE runs; --",
    "\ufeff\ufffd\uffff",
    "$x^2$ `code` :red[red] :smile: *a* _b_ ~c~ # d",
    "NaN",
    "null",
    "-0",
    "%2C%2E%00",
    "\u0663",  # a digit, but no ASCII one
)
NASTY_NUMBERS = (
    -1, 0, 1, 2, 3, 7, 63, 64, 65, 255, 4_096, 65_536, 65_537, 10**6, 2**31, -(2**31), 2**53, 2**63,
    2**64, 10**30, -(10**30), 0.5, -0.0, 1e308, 3.0000001,
)  # fmt: skip
# Where a value stands in the text of a JSON: what Python's own writer would not write.
RAW = (
    "NaN", "Infinity", "-Infinity", "1e400", "-1e400", "1" * 5_000, "-" + "9" * 4_301, "01", "+1",
    "0x10", ".5", "1.", "'single'", "undefined", "\u0001", '"\\ud800"', '"\\udc00\\ud800"',
    '"\\x41"',
    '"\\u0000"', "[" * 3_000, "[" * 100_000 + "]" * 100_000, '{"a":' * 1_000 + "1" + "}" * 1_000,
    "/* a */ 1", "1,", "[1,]", '{"a":1,"a":2}', "\ufeff1", "{}", "[]", "null", "true", '""',
)  # fmt: skip
MARK = "\u241f"  # stands for a raw text until the JSON is written


def mutated_text(rng: random.Random, data: Any) -> str:
    """The JSON of some data after one to four changes."""
    if rng.random() < 0.3:
        return json.dumps(_gently_changed(rng, copy.deepcopy(data)))
    tree = copy.deepcopy(data)
    raws: list[str] = []
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        tree = _changed(rng, tree, raws)
    text = json.dumps(tree, ensure_ascii=rng.random() < 0.5)
    for raw in raws:
        text = text.replace(json.dumps(MARK, ensure_ascii=True), raw, 1)
        text = text.replace(f'"{MARK}"', raw, 1)
    return _spoiled(rng, text) if rng.random() < 0.2 else text


# Words that a field takes in place of another.
ALTERNATIVES = (
    ("none", "align", "all"), ("v1", "v2"), ("SD", "DS"), ("both", "conv", "temporal"),
    ("float32", "float16", "bfloat16"), ("dense", "boundary"),
    ("preempt", "abort", "reset", "reset_running"),
    ("postprocess", "preprocess", "precopy", "memcpy"), ("mamba2", "mamba1", "base"),
)  # fmt: skip


def _gently_changed(rng: random.Random, tree: Any) -> Any:
    """A few values a little different: much of that still works."""
    for holder, key in rng.sample(places := list(_places(tree)), min(3, len(places))):
        old = holder[key]
        words = next((group for group in ALTERNATIVES if old in group), None)
        if isinstance(old, bool):
            holder[key] = not old
        elif isinstance(old, int):
            holder[key] = max(0, old + rng.choice((-2, -1, 1, 2)))
        elif words is not None:
            holder[key] = rng.choice(words)
        elif isinstance(old, str):
            holder[key] = rng.choice([text[:40] for text in NASTY_TEXTS if text.strip()])
    return tree


def _changed(rng: random.Random, tree: Any, raws: list[str]) -> Any:
    """The tree with one place of it changed."""
    places = list(_places(tree))
    if not places:
        return _value(rng, tree, raws)
    holder, key = rng.choice(places)
    how = rng.random()
    if how < 0.55:
        holder[key] = _value(rng, holder[key], raws)
    elif how < 0.65:
        del holder[key]
    elif how < 0.75 and isinstance(holder, dict):
        holder[_key(rng, str(key))] = holder.pop(key) if rng.random() < 0.5 else holder[key]
    elif how < 0.85 and isinstance(holder, list):
        holder[key:key] = [copy.deepcopy(holder[key])] * rng.choice((1, 1, 2, 70, 1_100))
    else:
        other, name = rng.choice(places)
        holder[key] = copy.deepcopy(other[name])
    return tree


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Every list and dict in the tree with each of its keys."""
    keys = (
        list(tree) if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    )
    for key in keys:
        yield tree, key
        yield from _places(tree[key])


def _value(rng: random.Random, old: Any, raws: list[str]) -> Any:
    how = rng.random()
    if isinstance(old, bool | int | float) and how < 0.4:
        return old + rng.choice((-2, -1, 1, 2)) if how < 0.25 else rng.choice(NASTY_NUMBERS)
    if how < 0.5:
        return rng.choice(NASTY_NUMBERS)
    if how < 0.7:
        return rng.choice(NASTY_TEXTS)
    if how < 0.85:
        raws.append(rng.choice(RAW))
        return MARK
    return rng.choice((None, True, [], {}, [old], [old] * 3, {"a": old}, str(old), [[old]]))


def _key(rng: random.Random, old: str) -> str:
    return rng.choice((old + "s", old.upper(), old[:-1], f" {old}", "__proto__", *NASTY_TEXTS))


def _spoiled(rng: random.Random, text: str) -> str:
    """A text cut, doubled, or with some characters of it exchanged."""
    if not text:
        return text
    place = rng.randrange(len(text))
    how = rng.randrange(6)
    if how == 0:
        return text[:place]
    if how == 1:
        return text[place:]
    if how == 2:
        return text[:place] + rng.choice(NASTY_TEXTS) + text[place:]
    if how == 3:
        return text + text[:place]
    if how == 4:
        return (
            text[:place]
            + chr(rng.choice((0, 10, 34, 44, 92, 127, 0x2028, 0x1F9EC)))
            + text[place + 1 :]
        )
    other = rng.randrange(len(text))
    return text[: min(place, other)] + text[max(place, other) :]


def as_bytes(rng: random.Random, text: str) -> bytes:
    """A text as a file might hold it: mostly UTF-8."""
    raw = text.encode("utf-8", "surrogatepass")
    how = rng.random()
    if how < 0.03:
        return text.encode("utf-16", "surrogatepass")
    if how < 0.06 and raw:
        place = rng.randrange(len(raw))
        return raw[:place] + bytes([rng.randrange(128, 256)]) + raw[place + 1 :]
    return b"\xef\xbb\xbf" + raw if how < 0.1 else raw


# ------------------------------------------------------------------------------- what is changed


def scenarios() -> list[Any]:
    from mambaviz.random_scenarios import random_scenario
    from mambaviz.scenario import PRESETS

    found = [*PRESETS.values(), *(random_scenario(random.Random(seed)) for seed in range(20))]
    return [
        one.model_dump(mode="json", exclude_defaults=bool(i % 2)) for i, one in enumerate(found)
    ]


def configs() -> list[Any]:
    """A config of every family, by the names that are understood everywhere."""
    from mambaviz.sizes.reader import DIALECTS

    layers = {"mamba": 6, "attention": 2}
    heads = {"num_key_value_heads": 4, "head_dim": 64, "num_attention_heads": 8, "hidden_size": 512}
    facts = {
        "mamba1": {"d_inner": 1024, "ssm_state_size": 16, "conv_kernel": 4},
        "mamba2": {
            "mamba_num_heads": 16, "mamba_head_dim": 64, "ssm_state_size": 128, "n_groups": 1,
            "conv_kernel": 4, "chunk_size": 256,
        },
        "gdn": {
            "linear_num_key_heads": 8, "linear_num_value_heads": 16, "linear_key_head_dim": 64,
            "linear_value_head_dim": 64, "linear_conv_kernel_dim": 4,
        },
        "kda": {"linear_num_heads": 8, "linear_head_dim": 64, "linear_conv_kernel_dim": 4},
        "short_conv": {"conv_dim": 512, "conv_kernel": 3},
        "linear_attention": {"linear_num_heads": 8, "linear_head_dim": 64},
    }  # fmt: skip
    found: list[Any] = [
        {"family": family, **own, **heads, "layers": layers, "torch_dtype": "bfloat16"}
        for family, own in facts.items()
    ]
    for name, dialect in list(DIALECTS.items())[::3]:
        found.append({"architectures": [name], **heads, **facts[dialect.family], "layers": layers})
    found.append({"text_config": found[0], "vision_config": {}, "model_type": "qwen3_5"})
    return found


def scopes() -> list[Any]:
    from mambaviz.explore.scope import find_scope

    return [find_scope("tiny").model_dump(mode="json", exclude_defaults=True)]


def packed_bases() -> dict[str, list[Any]]:
    """By parameter of a link: data that it packs."""
    from mambaviz.batch import BATCHES
    from mambaviz.launches.inputs import LAUNCHES
    from mambaviz.sizes.models import MODELS

    def plain(models: Any) -> list[Any]:
        return [one.model_dump(mode="json", exclude_defaults=True) for one in models]

    return {
        "run": scenarios(),
        "rows": plain(BATCHES.values()),
        "inputs": plain(LAUNCHES.values()),
        "config": plain(one.model for one in MODELS.values()),
        "ranges": scopes(),
    }


def packed(text: str) -> str:
    raw = zlib.compress(text.encode("utf-8", "surrogatepass"), 1)
    return urlsafe_b64encode(raw).decode().rstrip("=")


@dataclass(frozen=True)
class Bases:
    """Everything that is changed, made once."""

    run: list[Any]
    sizes: list[Any]
    explore: list[Any]
    packed: dict[str, list[Any]]
    plain: list[dict[str, str]]

    @classmethod
    def make(cls) -> Bases:
        return cls(scenarios(), configs(), scopes(), packed_bases(), plain_links())


def plain_links() -> list[dict[str, str]]:
    """Links without anything packed, of every page."""
    from mambaviz.recording.shelf import examples
    from mambaviz.reports import REPORTS
    from mambaviz.tour import NAMES

    reports = [
        {"report": slug, "report-step": "3", "report-phase": "forward", "revealed": "yes"}
        for slug in REPORTS
    ]
    return [
        *reports,
        {"preset": "plain-decode", "step": "2", "phase": "accept", "request": "A", "layer": "1"},
        {"backend": "reference", "theme": "dark", "hide": "sidebar,tabs", "details": "open"},
        {"lesson": "One", "stops": "1.accept,2.post-copy.A,3.commit.B%2C"},
        {"batch": "one-of-each-rule", "embed": "true", "utm_source": "x"},
        {"compare": "modes", "lock": "A", "at": "3", "after": "commit", "marks": "on"},
        {"runs": "plain-decode,shift-in-place", "at": "2"},
        {"launch": "every-outcome", "program": "1-0", "broken": "x", "path": "fast"},
        {"model": "qwen3-8-27b", "sizes": "tp:2,num_spec:7,block_size:816,mode:all,kv_dtype:fp8"},
        {"scope": "tiny", "fault": "bias-off-by-one", "find": "bias=3"},
        {"recording": next(iter(examples())), "step": "4", "request": "r1", "layer": "1"},
        {"topic": "columns", "seed": "7", "chosen": "b", "score": "columns.2.3,bias.1.1"},
        {"stop": NAMES[3], "moved": "yes", "seen": ".".join(NAMES[:3])},
        {"part": "glossary", "term": "bias"},
        {"read": "3.2"},
    ]


def mutated_link(rng: random.Random, bases: Bases) -> dict[str, str]:
    """Query parameters: some packed and changed inside, some spoiled, some plain ones changed."""
    link = dict(rng.choice(bases.plain)) if rng.random() < 0.6 else {}
    for name in rng.sample(sorted(bases.packed), rng.choice((0, 1, 1, 2))):
        text = mutated_text(rng, rng.choice(bases.packed[name]))
        link[name] = packed(text)
        if rng.random() < 0.3:
            link[name] = _spoiled(rng, link[name])
    if rng.random() < 0.2:
        parts = [packed(mutated_text(rng, rng.choice(bases.packed["run"]))) for _ in range(2)]
        link["runs"] = ",".join(["plain-decode", *parts][: rng.choice((1, 2, 3))])
    for name in [name for name in link if rng.random() < 0.3]:
        text = link.pop(name)
        how = rng.random()
        if how < 0.2:
            link[_key(rng, name)] = text
        else:
            link[name] = _spoiled(rng, text) if how < 0.6 else rng.choice(NASTY_TEXTS)
    return link


# --------------------------------------------------------------------------------- what must hold


@dataclass(frozen=True)
class Finding:
    """What one seed came to: accepted or refused; ``problem`` is empty where all is well."""

    seed: int
    outcome: str
    problem: str = ""


@dataclass(frozen=True)
class Ended:
    """A call of the command line that came to an end."""

    code: int
    out: str
    err: str


def called(arguments: list[str]) -> Ended:
    """`mambaviz.command_line.main` in this process, on streams as strict as a terminal's."""
    from mambaviz.command_line import main

    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2)]
    with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
        code = main(arguments)
    for stream in streams:
        stream.flush()
    out, err = (stream.buffer.getvalue().decode() for stream in streams)
    return Ended(code, out, err)


def judged(ended: Ended) -> tuple[str, str]:
    """The outcome, and what is wrong with it: empty if nothing is."""
    if ended.code in (0, 1):
        outcome = "accepted"
        wrong = "" if ended.out.strip() and not ended.err else "it says nothing, or complains"
    else:
        outcome = "refused"
        wrong = refusal_problem(ended.err.removesuffix("\n")) if ended.code == 2 else "exit code"
        wrong = wrong or ("it printed something" if ended.out else "")
    if "Traceback" in ended.err:
        wrong = "a traceback"
    return outcome, wrong and f"{wrong}: exit code {ended.code}, said {ended.err[:300]!r}"


def refusal_problem(sentence: str) -> str:
    """What is wrong with a sentence that refuses something; empty if nothing is."""
    if not sentence.strip():
        return "nothing is said"
    if not sentence.isprintable():
        return "no printable line"
    if len(sentence) > LONGEST_REFUSAL:
        return "too long"
    if any(word in sentence for word in ("validation error", "pydantic", "a defect of")):
        return "words of the program's insides"
    return ""


def check_file(command: Callable[[str], list[str]], base: Callable[[Bases], list[Any]]) -> Check:
    """A check of a command that reads a file."""

    def check(seed: int, bases: Bases) -> Finding:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "in.json"
            path.write_bytes(file_of(seed, base(bases)))
            with small_limits():
                outcome, problem = judged(called(command(str(path))))
        return Finding(seed, outcome, problem)

    return check


def file_of(seed: int, base: list[Any]) -> bytes:
    rng = random.Random(f"file/{seed}")
    return as_bytes(rng, mutated_text(rng, rng.choice(base)))


@contextlib.contextmanager
def small_limits() -> Iterator[None]:
    """The command line and the runs of the pages take what `SMALL` says instead of the usual."""
    from mambaviz import command_line
    from mambaviz.pages import runs

    with (
        mock.patch.object(command_line, "USUAL", SMALL),
        mock.patch.object(runs, "USUAL", SMALL),
    ):
        yield


def check_link(seed: int, bases: Bases) -> Finding:
    link = link_of(seed, bases)
    problem = link_problem(link)
    return Finding(seed, "refused" if state_of(link)[1] else "accepted", problem)


def link_of(seed: int, bases: Bases) -> dict[str, str]:
    return mutated_link(random.Random(f"link/{seed}"), bases)


def state_of(link: Mapping[str, str]) -> tuple[Any, str]:
    from mambaviz.pages.state import from_link

    return from_link(link)


def link_problem(link: Mapping[str, str]) -> str:
    """What is wrong with how a link is read: its sentence, its way back, what pages ask of it."""
    from mambaviz.explore.queries import AskedQuery
    from mambaviz.pages.sidebar import facts_table, requests_table
    from mambaviz.pages.state import from_link, short_enough, to_link
    from mambaviz.scenario import ScenarioError
    from mambaviz.sizes.families import SizesError
    from mambaviz.sizes.report import size
    from mambaviz.workload import expected_steps

    state, sentence = from_link(link)
    if sentence and (wrong := refusal_problem(sentence)):
        return f"{wrong}: {sentence[:300]!r}"
    again = to_link(state)
    if short_enough(again) is again and from_link(again) != (state, ""):
        return f"another view after its own link: {from_link(again)[1][:200]!r}"
    # What the pages work out of it before anything is run.
    facts_table(state.scenario)
    requests_table(state.scenario)
    expected_steps(state.scenario)
    for part in (state.compare.comparison, state.compare.marked, state.kernels.inputs):
        repr(part)
    state.batch_shown.decide()
    with contextlib.suppress(SizesError):
        size(state.sizes.shown, state.sizes.settings)
    with contextlib.suppress(ScenarioError):
        repr(state.explorer.order)
    if state.explorer.find is not None:
        AskedQuery.parse(state.explorer.find)
    return ""


def check_page(seed: int, bases: Bases) -> Finding:
    """A link opened on one page, which then takes the reader to another: whole runs of app.py."""
    rng = random.Random(f"page/{seed}")
    link = {"backend": "reference", **mutated_link(rng, bases)}  # the quickest of them
    first, second = rng.sample(PAGES, 2)
    main = sys.modules["__main__"]
    try:
        with small_limits():
            refused, problem = pages_problem(link, first, second)
    finally:
        sys.modules["__main__"] = main  # Streamlit has app.py there, and leaves it
    return Finding(seed, "refused" if refused else "accepted", problem)


def pages_problem(link: Mapping[str, str], first: str, second: str) -> tuple[bool, str]:
    """Whether a sentence refuses something of the link, and what is wrong with one of the pages."""
    from streamlit.testing.v1 import AppTest
    from streamlit.util import calc_hash

    from mambaviz.pages.state import path_of

    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=PATIENCE)
    app.query_params.update(link)
    app._page_hash = calc_hash(path_of(first))
    refused, problem = _page_problem(app, first)
    app._page_hash = ""  # from now on the page where the reader is
    if not problem:
        app.session_state["session"].wanted_page = second
        _, problem = _page_problem(app, second)
    return refused, problem


def _page_problem(app: Any, title: str) -> tuple[bool, str]:
    deadline = time.monotonic() + PATIENCE
    app.run()
    while any(one.icon == WAITING for one in app.info):
        if time.monotonic() > deadline:
            return False, f"{title} waits for ever: {app.info[0].value}"
        time.sleep(0.02)
        app.run()
    if app.exception:
        return False, f"{title} breaks off: {app.exception[0].message[:200]!r}"
    here = app.session_state["session"].page
    if here != title:
        return False, f"{here} where {title} was asked for"
    told = [one.value for one in (*app.warning, *app.error)]
    wrong = ((refusal_problem(text), text) for text in told)
    found = next((f"{title}, {problem}: {text[:300]!r}" for problem, text in wrong if problem), "")
    return bool(told), found


def check_pasted(seed: int, bases: Bases) -> Finding:
    """Texts as they are pasted into a page, or uploaded to it."""
    from mambaviz import batch
    from mambaviz.launches import inputs
    from mambaviz.pages.editor import read_upload
    from mambaviz.pages.editor_data import read_draft, to_draft
    from mambaviz.sizes.reader import parse_config

    rng = random.Random(f"pasted/{seed}")
    readers: dict[str, Callable[[str], Any]] = {
        "rows": batch.parse,
        "inputs": inputs.parse,
        "config": parse_config,
    }
    name = rng.choice(["run", *readers])
    base = bases.sizes if name == "config" else bases.packed[name]
    text = mutated_text(rng, rng.choice(base))
    try:
        if name == "run":
            scenario = read_upload(as_bytes(rng, text))
            if read_draft(to_draft(scenario)).engine != scenario.engine:
                return Finding(seed, "accepted", "the editor makes another scenario of it")
        else:
            readers[name](text)
    except ValueError as error:
        told = type(error).__name__ in (
            "ScenarioError",
            "BatchError",
            "LaunchError",
            "SizesError",
            "FieldError",
        )
        wrong = refusal_problem(str(error)) if told else f"a bare {type(error).__name__}"
        return Finding(seed, "refused", wrong and f"{wrong}: {str(error)[:300]!r}")
    return Finding(seed, "accepted")


def check_process(seed: int, bases: Bases) -> Finding:
    """A process of its own, as a person starts it."""
    rng = random.Random(f"process/{seed}")
    command = rng.choice(("run", "run", "sizes"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "in.json"
        path.write_bytes(file_of(seed, bases.run if command == "run" else bases.sizes))
        extra = ["--backend", "reference"] if command == "run" else []
        done = subprocess.run(
            [sys.executable, "-m", "mambaviz", command, str(path), *extra],
            capture_output=True,
            cwd=ROOT,
            check=False,
            timeout=1_200,
        )
    outcome, problem = judged(Ended(done.returncode, done.stdout.decode(), done.stderr.decode()))
    return Finding(seed, outcome, problem)


Check = Callable[[int, Bases], Finding]


@dataclass(frozen=True)
class Kind:
    """A check, how many seeds a proof takes, and what the table says about it."""

    check: Check
    seeds: int
    words: str


def _explored(path: str) -> list[str]:
    return ["explore", "--scope", path, "--fault", "no such fault", "--workers", "1"]


KINDS: dict[str, Kind] = {
    "run": Kind(
        check_file(lambda path: ["run", path, "--backend", "reference"], lambda b: b.run),
        4_000,
        "`mambaviz run` of a mutated scenario, in one process",
    ),
    "sizes": Kind(
        check_file(lambda path: ["sizes", path, "tp=1"], lambda b: b.sizes),
        2_000,
        "`mambaviz sizes` of a mutated config, in one process",
    ),
    "explore": Kind(
        check_file(_explored, lambda b: b.explore),
        1_000,
        "`mambaviz explore` of a mutated scope, read and judged, not explored",
    ),
    "link": Kind(check_link, 8_000, "a mutated link, through the state of every page"),
    "page": Kind(check_page, 3_000, "a mutated link, through whole runs of two of the nine pages"),
    "pasted": Kind(check_pasted, 5_000, "a mutated text pasted into a page or uploaded"),
    "process": Kind(check_process, 200, "`mambaviz run` and `sizes`, each a process of its own"),
}


def checked(name: str, seed: int, bases: Bases) -> Finding:
    """What a seed came to; whatever is raised is a problem."""
    try:
        return KINDS[name].check(seed, bases)
    except Exception as error:  # noqa: BLE001  # that nothing is raised is what is to be shown
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
        return Finding(seed, "broken", f"{type(error).__name__} at {where}: {str(error)[:200]}")


# ---------------------------------------------------------------------------------- going through


def sources() -> str:
    """A short hash over the code: findings count while it is the same."""
    digest = hashlib.sha256()
    for path in (*sorted((ROOT / "mambaviz").rglob("*.py")), Path(__file__)):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def record_path(name: str, code: str) -> Path:
    return RECORDS / f"{name}.{code}.jsonl"


def read_findings(path: Path) -> list[Finding]:
    """Findings of earlier calls; a line that was cut off is left out."""
    findings = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        with contextlib.suppress(json.JSONDecodeError, TypeError):
            findings.append(Finding(**json.loads(line)))
    return findings


@cache
def bases_here() -> Bases:
    return Bases.make()


def checked_here(name: str, seeds: list[int]) -> list[Finding]:
    """The findings of some seeds, in a process that has made its bases once."""
    return [checked(name, seed, bases_here()) for seed in seeds]


def go_through(name: str, code: str, workers: int) -> None:
    """All seeds of a kind that have no finding yet."""
    path = record_path(name, code)
    path.parent.mkdir(parents=True, exist_ok=True)
    done = {finding.seed for finding in read_findings(path)}
    seeds = [seed for seed in range(KINDS[name].seeds) if seed not in done]
    chunks = [seeds[start : start + CHUNK] for start in range(0, len(seeds), CHUNK)]
    since = time.monotonic()
    with (
        ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool,
        path.open("a", encoding="utf-8") as out,
    ):
        for number, findings in enumerate(pool.map(checked_here, repeat(name), chunks), 1):
            for finding in findings:
                out.write(json.dumps(asdict(finding)) + "\n")
                if finding.problem:
                    print(f"{name} {finding.seed}: {finding.problem}", flush=True)
            out.flush()
            rate = number * CHUNK / (time.monotonic() - since)
            print(
                f"{name}: {min(number * CHUNK, len(seeds))} of {len(seeds)}, {rate:.0f}/s",
                flush=True,
            )


def latest() -> dict[str, tuple[str, list[Finding]]]:
    """By kind: the code that it was gone through with last, and what was found."""
    found = {}
    for name in KINDS:
        paths = sorted(RECORDS.glob(f"{name}.*.jsonl"), key=lambda path: path.stat().st_mtime)
        if paths:
            found[name] = (paths[-1].suffixes[0][1:], read_findings(paths[-1]))
    return found


def write_table(found: Mapping[str, tuple[str, list[Finding]]]) -> None:
    lines = [
        "# Broken input",
        "",
        "Fixed seeds from 0; *code* is a hash of the sources. *broken*: a traceback, a "
        "refusal that is no sentence, another exit code than 0, 1, 2. What is accepted was run "
        "to its end, within the small limits of `benchmarks/mutations.py` (processes: the usual "
        "ones).",
        "",
        "| kind | what | code | inputs | accepted | refused | broken |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, (code, findings) in found.items():
        outcomes = [finding.outcome for finding in findings]
        counts = [len(findings), outcomes.count("accepted"), outcomes.count("refused")]
        broken = sum(bool(finding.problem) for finding in findings)
        lines.append(
            f"| {name} | {KINDS[name].words} | `{code}` | "
            + " | ".join(map(str, [*counts, broken]))
            + " |"
        )
    TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> int:
    """Exit code 1 if something broke."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutations", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(KINDS)}; all by default")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, help="this one alone, and what became of it")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in KINDS]:
        parser.error(f"no kind {unknown[0]!r}; choose from {', '.join(KINDS)}")
    names, code = options.names or list(KINDS), sources()
    if options.seed is not None:
        findings = [checked(name, options.seed, Bases.make()) for name in names]
        print(*findings, sep="\n")
        return int(any(finding.problem for finding in findings))
    for name in names:
        go_through(name, code, options.workers)
    found = latest()
    write_table(found)
    return int(any(finding.problem for name in names for finding in found[name][1]))


if __name__ == "__main__":
    sys.exit(main())
