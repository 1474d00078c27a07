"""Arrows point to the right only: model → trace → figure → page. Who may import what."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.project.sources import ROOT, Import, imports, python_files, room_imports

# Importable where only torch, triton and numpy are installed, a GPU machine for one (section 6);
# beside each room, what of this repository it may know.
KERNEL_SIDE = {
    "kernels": {"kernels"},
    "mambaviz/config.py": set(),
    "mambaviz/attention": {"kernels", "mambaviz.config", "mambaviz.attention"},
    "mambaviz/worker": {"kernels", "mambaviz.config", "mambaviz.attention", "mambaviz.worker"},
}
KERNEL_SIDE_TESTS = ("tests/kernels", "tests/worker", "tests/attention")
KERNEL_SIDE_PACKAGES = {"torch", "triton", "numpy"}
# The back end of section 4.8 that exists on NVIDIA machines only, and is asked for by name there.
OPTIONAL_PACKAGES = {"mambaviz/attention": {"flashinfer"}}

MODEL_SIDE = (
    *KERNEL_SIDE,
    "mambaviz/cache",
    "mambaviz/scenario.py",
    "mambaviz/scheduler.py",
    "mambaviz/mixer.py",
    "mambaviz/oracle.py",
    "mambaviz/engine.py",
    "mambaviz/trace.py",
    "mambaviz/launches",
    "mambaviz/explore",
)
# What computes something about Mamba; figures may know the trace and the scenario only.
COMPUTING = (
    "kernels",
    "mambaviz.cache",
    "mambaviz.worker",
    "mambaviz.attention",
    "mambaviz.scheduler",
    "mambaviz.mixer",
    "mambaviz.oracle",
    "mambaviz.engine",
    "mambaviz.launches.run",
    "mambaviz.launches.simulate",
)
PICTURE_SIDE = ("mambaviz/viz", "mambaviz/pages", "app.py")
# Outermost, as the pages are: they may use whatever they report about.
COMMAND_LINE = ("mambaviz/command_line.py", "mambaviz/check.py", "mambaviz/recording/command.py")
# Outermost too: they run the engine, and explain with the words of its pictures.
TEACHING = ("mambaviz/questions.py", "mambaviz/exercises.py", "mambaviz/tour.py")

# Rooms whose tests stand in tests/<name>.
TESTED_ROOMS = (
    "kernels",
    "worker",
    "attention",
    "cache",
    "launches",
    "sizes",
    "recorder",
    "explore",
    "viz",
    "pages",
    "browser",
    "project",
)


@pytest.mark.parametrize("room", [*MODEL_SIDE, *PICTURE_SIDE, *COMMAND_LINE, *TEACHING])
def test_room_exists(room):
    assert python_files(room)


@pytest.mark.parametrize("room", TESTED_ROOMS)
def test_tests_mirror_the_tree(room):
    assert list((ROOT / "tests" / room).glob("test_*.py")), f"tests/{room} holds no test"


@pytest.mark.parametrize("room", KERNEL_SIDE)
def test_kernel_side_needs_torch_triton_and_numpy_only(room):
    packages = KERNEL_SIDE_PACKAGES | OPTIONAL_PACKAGES.get(room, set())
    assert strangers(room_imports(room), packages, KERNEL_SIDE[room]) == []


@pytest.mark.parametrize("room", KERNEL_SIDE_TESTS)
def test_kernel_side_tests_need_pytest_and_hypothesis_besides(room):
    packages = KERNEL_SIDE_PACKAGES | {"pytest", "hypothesis"}
    own_tests = {tests.replace("/", ".") for tests in KERNEL_SIDE_TESTS}
    ours = {"kernels", "mambaviz.config", "mambaviz.worker", "mambaviz.attention"} | own_tests
    assert strangers(room_imports(room), packages, ours) == []


def test_shared_test_settings_need_no_more_than_the_kernel_side():
    packages = KERNEL_SIDE_PACKAGES | {"pytest", "hypothesis"}
    assert strangers(imports(ROOT / "tests/conftest.py"), packages, set()) == []


def test_importing_the_package_imports_nothing():
    assert imports(ROOT / "mambaviz/__init__.py") == ()


def test_nothing_left_of_the_trace_knows_of_pictures():
    """Every file but the pictures and what shows them, so that a new room need not be listed."""
    pictures = ("mambaviz.viz", "mambaviz.pages", "app", "streamlit", "plotly")
    files = {*python_files("kernels"), *python_files("mambaviz")}
    outer = (*PICTURE_SIDE, *COMMAND_LINE, *TEACHING)
    shell = {file for room in outer for file in python_files(room)}
    left = [file.relative_to(ROOT).as_posix() for file in sorted(files - shell)]
    assert [breach for file in left for breach in breaches(file, pictures)] == []


def test_figures_know_neither_streamlit_nor_how_mamba_is_computed():
    pages = ("streamlit", "mambaviz.pages", "app")
    texts = "mambaviz.attention.fields"  # what each metadata field means, in words: it lives once
    found = breaches("mambaviz/viz", (*pages, "torch", "triton", *COMPUTING))
    assert [breach for breach in found if not breach.endswith(texts)] == []


def test_sizes_are_arithmetic_alone():
    assert breaches("mambaviz/sizes", ("torch", "triton", *COMPUTING)) == []


def test_oracle_shares_no_code_with_the_path_it_checks():
    """Section 5.3: except the layer's parameters, which the mixer does not own either."""
    path = ("kernels", "mambaviz.worker", "mambaviz.attention", "mambaviz.cache", "mambaviz.engine")
    assert breaches("mambaviz/oracle.py", path) == []


def test_a_saved_trace_is_drawn_without_torch():
    """Torch takes two seconds to import: the first picture does not wait for it."""
    names = [".".join(path.relative_to(ROOT).parts) for path in python_files("mambaviz/viz")]
    modules = [name.removesuffix(".py").removesuffix(".__init__") for name in names]
    draw = f"import sys, mambaviz.trace, {', '.join(modules)}; sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", draw], cwd=ROOT, check=False)
    assert done.returncode == 0


def strangers(found: tuple[Import, ...] | list[Import], packages: set, ours: set) -> list[str]:
    """Imports that are neither of these packages nor of these rooms of the repository."""
    return [
        str(one)
        for one in found
        if one.top not in sys.stdlib_module_names
        and one.top not in packages
        and not any(one.inside(room) for room in ours)
    ]


def breaches(room: str, forbidden: tuple[str, ...]) -> list[str]:
    """Imports of forbidden modules in a room."""
    return [
        str(one) for one in room_imports(room) if any(one.inside(module) for module in forbidden)
    ]
