"""`python -m mambaviz check`: is everything here that the app needs, and do the kernels work?

Every finding that is not well comes with advice.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TextIO

from mambaviz.scenario import DEFAULT_PRESET, PRESETS
from mambaviz.sources import sources_hash

PACKAGES = ("torch", "triton", "numpy", "pydantic", "plotly", "streamlit")


@dataclass(frozen=True)
class Finding:
    """``ok`` None: for information only. ``advice`` says what to do when it is not well."""

    subject: str
    text: str
    ok: bool | None = None
    advice: str = ""


def report(out: TextIO) -> bool:
    """Print every finding as it comes; whether none was bad."""
    well = True
    for finding in findings():
        mark = {True: "ok  ", False: "FAIL", None: "    "}[finding.ok]
        print(f"{mark} {finding.subject:<12} {finding.text}", file=out, flush=True)
        if finding.ok is False:
            well = False
            print(f"     {'':<12} {finding.advice}", file=out, flush=True)
    return well


def findings() -> Iterator[Finding]:
    yield code()
    yield from versions()
    yield from backends()
    yield from assets()
    yield self_test()


def code() -> Finding:
    return Finding("mambaviz", f"code {sources_hash()} (hash of the sources without the pictures)")


def versions() -> Iterator[Finding]:
    python = platform.python_version()
    yield Finding(
        "python",
        f"{python} on {platform.system()} {platform.machine()}",
        sys.version_info >= (3, 11),
        "mambaviz needs Python 3.11 or later.",
    )
    for package in PACKAGES:
        try:
            yield Finding(package, importlib.metadata.version(package), True)
        except importlib.metadata.PackageNotFoundError:
            # Triton has wheels for Linux only; the plain twins run without it.
            needed = package != "triton" or platform.system() == "Linux"
            yield Finding(
                package,
                "not installed" if needed else "not installed (the plain twins run instead)",
                False if needed else None,
                f"Install it: pip install {package} (the tested versions are in requirements.txt).",
            )


def backends() -> Iterator[Finding]:
    if importlib.util.find_spec("torch") is None:
        return  # said above
    try:
        from kernels.backend import BACKEND, BACKENDS, why_not
    except Exception as error:  # noqa: BLE001  # whatever stops the import is the finding
        yield Finding(
            "back end", str(error), False, "Correct or unset MAMBAVIZ_BACKEND and TRITON_INTERPRET."
        )
        return
    yield Finding("back end", f"{BACKEND} (what 'auto' means in this process)", True)
    for backend in BACKENDS:
        if backend != BACKEND:
            yield Finding(backend, why_not(backend))


def assets() -> Iterator[Finding]:
    from mambaviz.pages.assets import ASSETS

    for path in ASSETS:
        yield Finding(
            "asset",
            path.name,
            path.is_file() and path.stat().st_size > 0,
            f"{path} is missing or empty: install the package again, or restore it from git.",
        )


def self_test() -> Finding:
    """Run the default preset: kernels against their twins, every step against the oracle."""
    try:
        from mambaviz.engine import run

        trace = run(PRESETS[DEFAULT_PRESET])
    except Exception as error:  # noqa: BLE001  # whatever it is, it is the finding
        return Finding(
            "kernels",
            f"the self-test broke off: {type(error).__name__}: {error}",
            False,
            "Try MAMBAVIZ_BACKEND=reference; if that works, Triton is at fault: install the pinned "
            "pair of torch and triton from requirements.txt.",
        )
    phases = [phase for step in trace.steps for phase in step.phases]
    launches = [launch for phase in phases for launch in phase.launches]
    unexplained = sum(phase.bytes_unexplained or 0 for phase in phases)
    well = not trace.violations and not unexplained
    text = f"{len(launches)} launches over {len(trace.steps)} steps on {trace.backend}"
    if well:
        return Finding("kernels", f"{text}: as their decisions and the oracle say", True)
    return Finding(
        "kernels",
        f"{text}: {unexplained} bytes changed without a copy, {len(trace.violations)} invariants "
        "broken",
        False,
        "The kernels compute wrongly here: compare the versions above with requirements.txt, and "
        "run the tests in tests/kernels.",
    )
