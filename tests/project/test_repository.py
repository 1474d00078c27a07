"""House checks on the repository itself: twins, requirements, paths, links, colours."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from kernels.pieces import NOT_OF_FAST_KERNELS
from mambaviz.viz.theme import THEMES
from tests.project.sources import ROOT, from_elsewhere, python_files, repository_files, room_imports

APP_ROOMS = ("kernels", "mambaviz", "app.py")
# Where a requirement is imported under another name, or is there for a tool that is only run.
RUN_ONLY = {"ipykernel", "mypy", "ruff", "pytest-timeout", "pytest-xdist"}


# ---- kernels and their twins ----------------------------------------------------------------


def functions(path: Path) -> list[ast.FunctionDef]:
    return [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)]


def is_jitted(function: ast.FunctionDef) -> bool:
    return any("jit" in ast.unparse(decorator) for decorator in function.decorator_list)


def launchable_kernels() -> dict[str, ast.FunctionDef]:
    """Kernels that are launched, by name; jitted helpers do not end in `_kernel`."""
    return {
        function.name: function
        for path in python_files("kernels")
        for function in functions(path)
        if is_jitted(function) and function.name.endswith("_kernel")
    }


def test_the_kernels_of_the_specification_exist():
    expected = {
        "postprocess_mamba_fused_kernel",
        "preprocess_mamba_align_fused_kernel",
        "precopy_mamba_align_fused_kernel",
        "batch_memcpy_kernel",
    }
    assert expected <= set(launchable_kernels())


def plain_twins() -> dict[str, ast.FunctionDef]:
    """Functions of `kernels` that bear a kernel's name and are plain Python."""
    return {
        function.name: function
        for path in python_files("kernels")
        for function in functions(path)
        if not is_jitted(function) and function.name.endswith("_kernel")
    }


def test_every_kernel_has_a_plain_twin_with_its_arguments():
    """A fast kernel has that of the readable one, but gets records of pieces for the states."""
    twins = plain_twins()
    for name, kernel in launchable_kernels().items():
        readable = name.replace("_pieces_kernel", "_fused_kernel")
        assert readable in twins, f"{name} has no plain twin"
        arguments = [argument.arg for argument in kernel.args.args]
        twin_arguments = [argument.arg for argument in twins[readable].args.args]
        if name == readable:
            assert twin_arguments == ["grid", *arguments], f"{name}: its twin differs in arguments"
        else:
            missing = set(twin_arguments) - {"grid", *NOT_OF_FAST_KERNELS} - set(arguments)
            assert not missing, f"{name} lacks {missing}"


# ---- requirements ---------------------------------------------------------------------------


def pins(file: str) -> dict[str, Requirement]:
    lines = [line.strip() for line in (ROOT / file).read_text().splitlines()]
    found = [Requirement(line) for line in lines if line and not line.startswith(("#", "-r "))]
    return {requirement.name: requirement for requirement in found}


def project_table() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.mark.parametrize(
    ("file", "ranges"),
    [
        ("requirements.txt", project_table()["optional-dependencies"]["app"]),
        ("requirements-dev.txt", project_table()["optional-dependencies"]["dev"]),
    ],
)
def test_pins_lie_in_the_ranges_of_the_project(file, ranges):
    allowed = {requirement.name: requirement for requirement in map(Requirement, ranges)}
    assert pins(file).keys() == allowed.keys()
    for name, pinned in pins(file).items():
        (exact,) = pinned.specifier
        assert exact.operator == "==", f"{file}: {name} is not pinned exactly"
        assert exact.version in allowed[name].specifier
        assert str(pinned.marker) == str(allowed[name].marker)


# Imported in one place each, by who asks for it by name; the app does without.
OPTIONAL = {
    "flashinfer": "mambaviz/attention/replayssm.py",
    "distributed": "mambaviz/explore/pool.py",
}


def test_requirements_are_what_the_app_imports_and_nothing_else():
    used = {
        found.top for room in APP_ROOMS for found in room_imports(room) if from_elsewhere(found)
    }
    assert used - OPTIONAL.keys() == pins("requirements.txt").keys()


@pytest.mark.parametrize(("package", "place"), OPTIONAL.items())
def test_an_optional_package_is_imported_in_one_place(package, place):
    found = [one for room in APP_ROOMS for one in room_imports(room) if one.top == package]
    assert {one.file for one in found} == {place}


def test_dev_requirements_are_what_tests_and_tools_import():
    rooms = ("tests", "tools", "benchmarks")
    used = {found.top for room in rooms for found in room_imports(room) if from_elsewhere(found)}
    used.remove("vllm")  # tools/engine/drive.py runs in an environment of its own
    assert used - pins("requirements.txt").keys() == pins("requirements-dev.txt").keys() - RUN_ONLY


# ---- what must not stand in a file ----------------------------------------------------------

# Character classes keep the patterns from finding themselves.
FORBIDDEN = {
    "a path of one machine": r"(?<![\w.])/(?:wor[k]|roo[t]|home/\w+|Users/\w+|op[t])/",
    "a folder outside the repository": r"\.\./share[d]\b",
    "a package index": r"pypi\.or[g]|pythonhosted\.or[g]|download\.pytorch\.or[g]|npmjs\.or[g]|"
    r"deb\.debian\.or[g]|--(?:extra-)?index-ur[l]|--find-link[s]",
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_file_names(what):
    pattern = re.compile(FORBIDDEN[what])
    assert repository_files()
    found = []
    for path in repository_files():
        for number, line in enumerate(text(path).splitlines(), start=1):
            if match := pattern.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {match.group()}")
    assert found == []


def text(path: Path) -> str:
    """A file's text; empty for pictures and other binary files."""
    content = path.read_bytes()
    return "" if b"\0" in content[:8192] else content.decode()


# ---- documents ------------------------------------------------------------------------------

CODE = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)  # where `kernel[grid](...)` is no link
LINK = re.compile(r"\]\(([^)\s]+)\)|(?:src|srcset|href)=\"([^\"]+)\"")


def documents() -> list[Path]:
    return [path for path in repository_files() if path.suffix == ".md"]


def headings(document: Path) -> set[str]:
    """Anchors of a document's headings, as code hosts form them."""
    lines = re.findall(r"^#+ +(.+)$", document.read_text(), flags=re.MULTILINE)
    kept = (re.sub(r"[^\w\- ]", "", line.lower()) for line in lines)
    return {line.strip().replace(" ", "-") for line in kept}


@pytest.mark.parametrize("document", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document):
    for groups in LINK.findall(re.sub(CODE, "", document.read_text())):
        link = "".join(groups)
        if link.startswith(("http:", "https:", "mailto:")):
            continue
        name, _, anchor = link.partition("#")
        target = (document.parent / name).resolve() if name else document
        assert target.exists(), f"{link} leads nowhere"
        assert target.is_relative_to(ROOT), f"{link} leads out of the repository"
        if anchor:
            assert anchor in headings(target), f"{link}: no such heading"


def test_readme_names_real_make_targets():
    named = set(re.findall(r"^make (\w+)|`make (\w+)", (ROOT / "README.md").read_text(), re.M))
    targets = set(re.findall(r"^([a-z]+):.*## ", (ROOT / "Makefile").read_text(), re.M))
    assert {"app", "test", "lint", "proof", "bench", "help"} <= targets
    assert {"".join(pair) for pair in named} <= targets
    assert {"app", "test"} <= {"".join(pair) for pair in named}


def test_specification_is_complete_and_indexed():
    index = (ROOT / "docs/spec/README.md").read_text()
    sections = sorted(path.name for path in (ROOT / "docs/spec").glob("0*.md"))
    assert [name[:2] for name in sections] == ["01", "02", "03", "04", "05", "06"]
    assert [name for name in sections if f"({name})" not in index] == []


def test_readme_asks_for_the_python_that_the_project_needs():
    needed = project_table()["requires-python"].removeprefix(">=")
    major, minor = map(int, needed.split("."))
    assert f"version {needed} or later" in (ROOT / "README.md").read_text()
    assert f"({major}, {minor})" in (ROOT / "Makefile").read_text()
    assert sys.version_info >= (major, minor)


def test_what_others_can_reach_is_safe_without_a_word():
    """docs/hosting.md, section "What is set already"."""
    config = tomllib.loads((ROOT / ".streamlit/config.toml").read_text())
    assert config["browser"]["gatherUsageStats"] is False
    assert config["server"]["address"] == "localhost"
    assert config["server"]["enableCORS"] is True
    assert config["server"]["enableXsrfProtection"] is True
    assert config["client"]["showErrorDetails"] == "none"
    told = (ROOT / "docs/hosting.md").read_text()
    for section in ("browser", "server", "client", "global"):
        for name in config[section].keys() & {
            "gatherUsageStats", "address", "enableCORS", "enableXsrfProtection",
            "showErrorDetails", "maxUploadSize", "maxCachedMessageAge",
        }:  # fmt: skip
            assert f"`{section}.{name}`" in told


# ---- colours --------------------------------------------------------------------------------

HUES = {
    "blue": "move",
    "green": "cached",
    "orange": "running",
    "red": "wrong",
    "violet": "speculative",
    "gray": "null",
}


@pytest.mark.parametrize("name", THEMES)
def test_streamlit_has_the_colours_of_the_figures(name):
    palette = THEMES[name]
    expected = {
        "primaryColor": palette.move.line,
        "backgroundColor": palette.background,
        "secondaryBackgroundColor": palette.panel,
        "textColor": palette.text,
        "borderColor": palette.line,
        "linkColor": palette.move.text,
    }
    for hue, role in HUES.items():
        ink = getattr(palette, role)
        expected[f"{hue}Color"] = ink.line
        expected[f"{hue}BackgroundColor"] = ink.fill
        expected[f"{hue}TextColor"] = ink.text
    config = tomllib.loads((ROOT / ".streamlit/config.toml").read_text())
    assert config["theme"][name] == expected
