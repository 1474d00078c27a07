"""`python -m benchmarks`: run every measurement and rewrite its table in benchmarks/results."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

import kernels
from benchmarks import copies, copy_speed, engine_cost, metadata_build

RESULTS = Path(__file__).resolve().parent / "results"
MEASUREMENTS = {"copies": copies, "engine_cost": engine_cost}


def conditions() -> str:
    """What a number depends on: back end, processor, versions."""
    on_gpu = kernels.device().type == "cuda"
    processor = torch.cuda.get_device_name() if on_gpu else f"CPU ({platform.machine()})"
    try:
        triton = version("triton")
    except PackageNotFoundError:
        triton = "none"
    return (
        f"Back end `{kernels.BACKEND}` on {processor}; Python {platform.python_version()}, "
        f"torch {torch.__version__}, triton {triton}. Medians; absolute times differ by machine."
    )


def main() -> None:
    """One file for each measurement and back end."""
    torch.set_num_threads(1)
    RESULTS.mkdir(exist_ok=True)
    for name, measurement in MEASUREMENTS.items():
        title = (measurement.__doc__ or name).partition("\n")[0]
        text = f"# {title}\n\n{conditions()}\n\n{measurement.table()}\n"
        (RESULTS / f"{name}-{kernels.BACKEND}.md").write_text(text, encoding="utf-8")
        print(text)
    metadata_build.main()  # these write pages of their own
    copy_speed.main()


if __name__ == "__main__":
    main()
