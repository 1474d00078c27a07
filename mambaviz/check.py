"""`python -m mambaviz check`: is everything here that the app needs, and do the kernels work?

Every finding that is not well comes with advice. Each look takes the folder, settings or numbers
that it looks at, with the installed ones as defaults.
"""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import os
import platform
import re
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from mambaviz.limits import MOST_RECORDING_MB
from mambaviz.scenario import DEFAULT_PRESET, PRESETS, one_line
from mambaviz.sources import SOURCES, sources_hash

PACKAGES = ("torch", "triton", "numpy", "pydantic", "plotly", "streamlit")
ROOT = SOURCES.parent
FIRST_ABOVE = "See to what fails above first."
RESTORE = "restore it from git, or install the project again"


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
    yield from imports()
    yield from backends()
    yield from assets()
    yield from recordings()
    yield from settings()
    yield from places()
    yield self_test()
    yield launches_test()


def code() -> Finding:
    return Finding("mambaviz", f"code {sources_hash()} (hash of the sources without the pictures)")


# --------------------------------------------------------------------------------------
# Versions
# --------------------------------------------------------------------------------------


def versions(
    root: Path = ROOT, installed: Callable[[str], str] = importlib.metadata.version
) -> Iterator[Finding]:
    """Python and every package: there, in the project's range, and whether it is the tested one."""
    python = platform.python_version()
    yield Finding(
        "python",
        f"{python} on {platform.system()} {platform.machine()}",
        sys.version_info >= (3, 11),
        "mambaviz needs Python 3.11 or later.",
    )
    pins, ranges = tested_versions(root), allowed_versions(root)
    for package in PACKAGES:
        install = f"pip install {package}=={pins[package]}" if package in pins else "make app"
        try:
            found = installed(package)
        except importlib.metadata.PackageNotFoundError:
            # Triton has wheels for Linux only; the plain twins run without it.
            needed = package != "triton" or platform.system() == "Linux"
            yield Finding(
                package,
                "not installed" if needed else "not installed (the plain twins run instead)",
                False if needed else None,
                f"Install it: {install}.",
            )
            continue
        yield _version(package, found, pins.get(package), ranges.get(package, ""), install)


def imports(load: Callable[[str], Any] = importlib.import_module) -> Iterator[Finding]:
    """Every package that is installed and still cannot be imported: its files are damaged, or
    another one does not go with it."""
    pins = tested_versions(ROOT)
    for package in PACKAGES:
        if importlib.util.find_spec(package) is None:
            continue  # said above
        try:
            load(package)
        except Exception as error:  # noqa: BLE001  # whatever stops the import is the finding
            name = f"{package}=={pins[package]}" if package in pins else package
            yield Finding(
                package,
                f"cannot be imported: {_said(error)}",
                False,
                f"Install it anew: pip install --force-reinstall {name}.",
            )


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {one_line(str(error), limit=200)}"


def _version(package: str, found: str, pin: str | None, allowed: str, install: str) -> Finding:
    number = found.partition("+")[0]  # what stands behind says for which hardware it was built
    if not in_range(number, allowed):
        text = f"{found}, where the project needs {allowed.replace(',', ', ')}"
        return Finding(package, text, False, f"Install the tested version: {install}.")
    if pin is not None and number != pin:
        return Finding(package, f"{found} (in the project's range; tested with {pin})", True)
    return Finding(package, found, True)


def tested_versions(root: Path) -> dict[str, str]:
    """The pins of requirements.txt; empty where the file is not."""
    file = root / "requirements.txt"
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    return dict(re.findall(r"^([\w-]+)==([\w.]+)", text, flags=re.MULTILINE))


def allowed_versions(root: Path) -> dict[str, str]:
    """The ranges of pyproject.toml, such as ``>=2.0,<3``; empty where the file is not."""
    file = root / "pyproject.toml"
    if not file.is_file():
        return {}
    project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
    lines = project["optional-dependencies"]["app"]
    parts = (re.match(r"([\w-]+)([^;]*)", line) for line in lines)
    return {part[1]: part[2].strip() for part in parts if part is not None}


def in_range(version: str, allowed: str) -> bool:
    """Whether a version lies in a range of ``>=`` and ``<``; an empty one holds everything."""
    number = _numbers(version)
    for bound in filter(None, allowed.split(",")):
        sign, least = re.fullmatch(r"\s*(>=|<)\s*([\d.]+)\s*", bound).groups()  # type: ignore[union-attr]
        if (number < _numbers(least)) == (sign == ">="):
            return False
    return True


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


# --------------------------------------------------------------------------------------
# Back ends
# --------------------------------------------------------------------------------------


def backends() -> Iterator[Finding]:
    if importlib.util.find_spec("torch") is None:
        return  # said above
    try:
        from kernels.backend import BACKEND, BACKENDS, why_not
    except Exception as error:  # noqa: BLE001  # whatever stops the import is the finding
        asked = type(error).__name__ == "BackendError"  # of a module that cannot be imported here
        advice = "Correct or unset MAMBAVIZ_BACKEND and TRITON_INTERPRET." if asked else FIRST_ABOVE
        yield Finding("back end", one_line(str(error)), False, advice)
        return
    yield Finding("back end", f"{BACKEND} (what 'auto' means in this process)", True)
    for backend in BACKENDS:
        if backend != BACKEND:
            yield Finding(backend, why_not(backend))


# --------------------------------------------------------------------------------------
# Files
# --------------------------------------------------------------------------------------

ASSET = re.compile(r"[\w-]+\.(?:js|css|html|svg)")


def assets(root: Path = SOURCES) -> Iterator[Finding]:
    """Every script, style sheet, page and picture that the code names: there, and text."""
    named = list(named_assets(root))
    bad = [finding for finding in (_asset(*one) for one in named) if finding is not None]
    yield from bad
    if not bad:
        yield Finding("assets", f"{len(named)} files for the browser", True)


def named_assets(root: Path) -> Iterator[tuple[Path, str]]:
    """Folders of the pictures and pages with the file names that their code says."""
    for room in ("viz", "pages"):
        for path in sorted((root / room).rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            texts = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
            found = {text for text in texts if isinstance(text, str) and ASSET.fullmatch(text)}
            # `export_menu` names what it writes, with a dash in front.
            yield from ((path.parent, name) for name in sorted(found) if not name.startswith("-"))


def _asset(folder: Path, name: str) -> Finding | None:
    """What is wrong with a file that stands in a folder or below it; None if nothing is."""
    found = sorted(folder.rglob(name))
    if not found:
        return Finding("asset", f"{name} is missing below {folder}", False, f"{name}: {RESTORE}.")
    for path in found:
        try:
            empty = not path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeError) as error:
            return Finding("asset", f"{path}: {error}", False, f"{name}: {RESTORE}.")
        if empty:
            return Finding("asset", f"{path} is empty", False, f"{name}: {RESTORE}.")
    return None


def recordings() -> Iterator[Finding]:
    """Every recorded run, build and launch that the pages show: readable, and of its scenario."""
    try:
        from mambaviz.pages import record, runs
    except Exception as error:  # noqa: BLE001  # such as a package that is said above
        text = f"cannot be looked at: {_said(error)}"
        yield Finding("recordings", text, False, FIRST_ABOVE)
        return
    from mambaviz import batch, batch_record
    from mambaviz.launches import inputs
    from mambaviz.launches import record as launch_record

    looks: list[tuple[str, Callable[[], Any], str]] = [
        (
            name,
            partial(runs.read_recording, name, scenario.content_hash),
            f"python -m mambaviz.pages.record {name}",
        )
        for name, scenario in record.recordings().items()
    ]
    builds, launches = "python -m mambaviz.batch_build", "python -m mambaviz.launches.run"
    looks += [(f"batch {s}", partial(batch_record.recorded, s), builds) for s in batch.BATCHES]
    looks += [
        (f"launch {s}", partial(launch_record.recorded, s), launches) for s in inputs.LAUNCHES
    ]
    bad = 0
    for name, read, again in looks:
        problem = _recording_problem(read)
        if problem:
            bad += 1
            yield Finding("recording", f"{name}: {problem}", False, f"Record it anew: {again}")
    if not bad:
        yield Finding("recordings", f"{len(looks)} runs, batches and launches", True)


def _recording_problem(read: Callable[[], Any]) -> str:
    try:
        found = read()
    except Exception as error:  # noqa: BLE001  # whatever it is, it is the finding
        return f"cannot be read: {_said(error)}"
    return "" if found is not None else "missing, or of another scenario than the code has"


# --------------------------------------------------------------------------------------
# Settings and places
# --------------------------------------------------------------------------------------

# What makes the app safe to show: option, value, and what it is for.
WANTED: Mapping[tuple[str, str], tuple[Any, str]] = {
    ("browser", "gatherUsageStats"): (False, "no usage statistics are sent"),
    ("client", "showErrorDetails"): ("none", "a traceback stays in the log"),
    ("server", "maxUploadSize"): (MOST_RECORDING_MB, "no file larger than a recording is taken"),
    ("server", "enableXsrfProtection"): (True, "other sites cannot upload"),
    ("server", "enableCORS"): (True, "other sites cannot connect"),
}
# Options that are right where the file says nothing.
DEFAULTS = {("server", "enableXsrfProtection"), ("server", "enableCORS")}


def settings(root: Path = ROOT, environment: Mapping[str, str] = os.environ) -> Iterator[Finding]:
    """Streamlit's settings, those of the file overridden by environment variables."""
    file = root / ".streamlit" / "config.toml"
    try:
        config = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        yield Finding("settings", f"{file}: {error}", False, f"The settings are gone: {RESTORE}.")
        return
    bad = 0
    for (section, name), (wanted, purpose) in WANTED.items():
        variable = f"STREAMLIT_{section.upper()}_{_upper(name)}"
        default = wanted if (section, name) in DEFAULTS else None
        found = environment.get(variable, config.get(section, {}).get(name, default))
        if str(found).lower() != str(wanted).lower():
            bad += 1
            where = f"Unset {variable}" if variable in environment else f"Correct {file}"
            shown = str(wanted).lower()
            yield Finding(
                "settings",
                f"{section}.{name} = {found}, so it is not sure that {purpose}",
                False,
                f"{where}: it must be {shown}.",
            )
    if not bad:
        yield Finding("settings", "; ".join(purpose for _, purpose in WANTED.values()), True)


def _upper(name: str) -> str:
    """As an environment variable has it: ``gatherUsageStats`` is GATHER_USAGE_STATS."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()


def places(folders: Mapping[str, Path] | None = None) -> Iterator[Finding]:
    """Where the app writes: temporary files, and explorations that were stopped."""
    from mambaviz.explore.child import RECORDS

    known = {"temporary files": Path(tempfile.gettempdir()), "stopped explorations": RECORDS}
    for what, folder in (known if folders is None else folders).items():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=folder) as file:
                file.write(b"x" * 4096)
        except OSError as error:
            yield Finding(
                "place",
                f"{folder}, for {what}: {error.strerror or error}",
                False,
                "Make room there, or allow this user to write; TMPDIR names another place for "
                "temporary files.",
            )
        else:
            yield Finding("place", f"{folder} takes {what}", True)


# --------------------------------------------------------------------------------------
# Kernels
# --------------------------------------------------------------------------------------

WRONG = (
    "The kernels compute wrongly here: compare the versions above with requirements.txt, and run "
    "the tests in tests/kernels."
)
BROKE_OFF = (
    f"{FIRST_ABOVE} If nothing does, try MAMBAVIZ_BACKEND=reference; if that works, Triton is at "
    "fault: install the pinned pair of torch and triton from requirements.txt."
)


def self_test() -> Finding:
    """Run the default preset: every step against the oracle, the whole against its recording."""
    try:
        from mambaviz.compare import compare_traces
        from mambaviz.engine import run
        from mambaviz.oracle import tolerance
        from mambaviz.pages.runs import recorded

        trace, known = run(PRESETS[DEFAULT_PRESET]), recorded(DEFAULT_PRESET)
    except Exception as error:  # noqa: BLE001  # whatever it is, it is the finding
        text = f"the self-test broke off: {type(error).__name__}: {error}"
        return Finding("kernels", text, False, BROKE_OFF)
    phases = [phase for step in trace.steps for phase in step.phases]
    launches = [launch for phase in phases for launch in phase.launches]
    unexplained = sum(phase.bytes_unexplained or 0 for phase in phases)
    text = f"{len(launches)} launches over {len(trace.steps)} steps on {trace.backend}"
    if trace.violations or unexplained:
        return Finding(
            "kernels",
            f"{text}: {unexplained} bytes changed without a copy, {len(trace.violations)} "
            "invariants broken",
            False,
            WRONG,
        )
    allowed = tolerance(trace.scenario.layer.cache_dtype)
    other = compare_traces(known.trace, trace, allowed).problems if known is not None else []
    if other:
        return Finding(
            "kernels",
            f"{text}: not the recorded run: {other[0]}",
            False,
            f"The recording is of another engine: python -m mambaviz.pages.record {DEFAULT_PRESET}",
        )
    return Finding("kernels", f"{text}: as their decisions, the oracle and the recording say", True)


def launches_test() -> Finding:
    """Every launch of the Kernels page: the bytes after it against the plain twin's."""
    try:
        from mambaviz.launches.inputs import LAUNCHES
        from mambaviz.launches.run import launch

        records = {slug: launch(inputs) for slug, inputs in LAUNCHES.items()}
    except Exception as error:  # noqa: BLE001  # whatever it is, it is the finding
        text = f"a launch broke off: {type(error).__name__}: {error}"
        return Finding("launches", text, False, BROKE_OFF)
    for slug, record in records.items():
        if record.unexplained:
            text = f"{record.function} of {slug}: {record.unexplained} bytes are not its twin's"
            return Finding("launches", text, False, WRONG)
    return Finding("launches", f"{len(records)} launches leave the bytes of their twins", True)
