"""What a session takes in memory: one server, with more and more sessions that step.

    python -m benchmarks.session_memory     rewrites benchmarks/results/session_memory.md

First everybody looks at the same recorded run, then each at a scenario of their own, which has to
be computed. Every session steps a few times (`benchmarks.socket_client`), then the memory of the
server is read.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack
from pathlib import Path

from benchmarks.app_start import conditions
from benchmarks.load import link, sample, scenarios
from benchmarks.served import ROOT, Served, serve
from benchmarks.socket_client import Client
from mambaviz.scenario import DEFAULT_PRESET, PRESETS, Scenario

TABLE = ROOT / "benchmarks" / "results" / "session_memory.md"
LOG = ROOT / ".artifacts" / "session_memory.log"
SESSIONS = (1, 5, 10)
STEPS = 12
SETTLED = 3.0  # seconds after the last step

Row = tuple[str, int]  # what the sessions do, bytes of the server


async def measure(served: Served, problems: list[str]) -> list[Row]:
    """The server's memory, row by row of the table."""
    rows = [("no session yet", _memory(served))]
    own = scenarios()[len(PRESETS) :]
    async with AsyncExitStack() as stack:
        clients: list[Client] = []
        for number in SESSIONS:
            while len(clients) < number:
                clients.append(await stack.enter_async_context(Client(served.url, problems)))
                await _read(clients[-1], PRESETS[DEFAULT_PRESET])
            rows.append((f"{number} at the same recorded run", await _settled(served)))
        done = 0
        for number in SESSIONS:
            for client, scenario in zip(clients[done:number], own[done:number], strict=True):
                await _read(client, scenario)
            done = number
            what = f"{len(clients)}, {number} of them at a run of their own"
            rows.append((what, await _settled(served)))
    return rows


async def _read(client: Client, scenario: Scenario) -> None:
    await client.open(link(scenario), scenario.content_hash)
    for _ in range(STEPS):
        await client.step()


async def _settled(served: Served) -> int:
    await asyncio.sleep(SETTLED)
    return _memory(served)


def _memory(served: Served) -> int:
    return sample(served.process.pid, 0).memory


def write_table(rows: list[Row], path: Path = TABLE) -> None:
    lines = [
        "# Memory of sessions",
        "",
        f"`python -m benchmarks.session_memory`: one server, clients of its websocket that each "
        f"take {STEPS} steps; resident memory of the server's process. {conditions()}",
        "",
        "| sessions | MB |",
        "| --- | --- |",
        *(f"| {what} | {memory / 1e6:.0f} |" for what, memory in rows),
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> int:
    """Exit code 1 on an error."""
    problems: list[str] = []
    with serve(LOG) as served:
        rows = asyncio.run(measure(served, problems))
        problems += served.trouble()
    write_table(rows)
    print(TABLE.read_text(encoding="utf-8"), *problems, sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
