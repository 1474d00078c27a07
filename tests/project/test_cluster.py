"""The extra for a cluster: pinned, within the project's range, and no part of the app."""

from __future__ import annotations

import tomllib

from packaging.requirements import Requirement

from tests.project.sources import ROOT


def test_the_pin_lies_in_the_range_of_the_project() -> None:
    table = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (allowed,) = map(Requirement, table["optional-dependencies"]["cluster"])
    lines = (ROOT / "requirements-cluster.txt").read_text().splitlines()
    (pinned,) = (Requirement(line) for line in lines if line and not line.startswith(("#", "-r ")))
    (exact,) = pinned.specifier
    assert (pinned.name, exact.operator) == (allowed.name, "==")
    assert exact.version in allowed.specifier


def test_the_app_does_without_it() -> None:
    app = (ROOT / "requirements.txt").read_text().splitlines()
    assert not [line for line in app if line.startswith(("distributed", "dask"))]
