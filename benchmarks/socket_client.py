"""A session without a browser: it speaks Streamlit's websocket protocol as the browser does.

It opens the Watch page with a link, keeps the long messages that it has had, repeats the fragments
that ask to be repeated, and steps the stage by reporting where it stands.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import time
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from mambaviz.trace import PHASES

STAGE = "mambaviz_stage"
PATIENCE = 120.0  # seconds for any answer


@dataclass
class Stage:
    """What the server has last said about the stage of the Watch page."""

    widget: str
    asked: dict[str, Any]
    payload: str

    @property
    def steps(self) -> int:
        """How many steps the run on the stage has."""
        text = self.payload
        if not text.startswith("{"):
            text = gzip.decompress(base64.b64decode(text)).decode()
        return len(json.loads(text)["steps"])


@dataclass
class Client:
    """One session. ``problems`` are errors, in words; ``latencies`` of steps, in seconds."""

    url: str
    problems: list[str] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)
    opened: list[float] = field(default_factory=list)
    stage: Stage | None = None
    query: str = ""
    _kept: dict[str, ForwardMsg] = field(default_factory=dict)  # long messages by hash
    _repeats: dict[str, float] = field(default_factory=dict)  # fragment: seconds
    _fragments: dict[str, str] = field(default_factory=dict)  # widget: the fragment it is in
    _states: dict[str, str] = field(default_factory=dict)  # widget: what it reports, as JSON
    _finished: asyncio.Event = field(default_factory=asyncio.Event)
    _drawn: asyncio.Event = field(default_factory=asyncio.Event)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _socket: ClientConnection | None = None
    _script: str = ""
    _wanted: str = ""  # the hash of the scenario that was asked for
    _awaited: str = ""  # the fragment whose end is waited for
    _place: int = 0  # a frame of the run on the stage
    _frames: int = 0  # how many it has

    async def __aenter__(self) -> Client:
        parts = urlsplit(self.url)
        self._socket = await connect(
            f"ws://{parts.netloc}/_stcore/stream",
            subprotocols=["streamlit"],  # type: ignore[list-item]
            max_size=None,
            origin=f"http://{parts.netloc}",  # type: ignore[arg-type]
        )
        self._begin(self._listen())
        self._begin(self._repeat())
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._socket is not None:
            await self._socket.close()

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.add(asyncio.create_task(self._noting(work)))

    async def _noting(self, work: Coroutine[Any, Any, None]) -> None:
        """What goes wrong in a task of its own is a problem like any other."""
        try:
            await work
        except Exception as error:  # noqa: BLE001
            self.problems.append(f"{type(error).__name__}: {error}")

    # What a reader does.

    async def open(self, query: str, wanted: str) -> None:
        """Follow a link to a run, until that run is on the stage. ``wanted`` is its hash."""
        self.query, self._wanted, start = query, wanted, time.monotonic()
        self._awaited = ""
        self._finished.clear()
        self._drawn.clear()
        await self._send()
        await self._until(self._finished, f"?{query[:60]}")
        if await self._until(self._drawn, f"the stage of ?{query[:60]}"):
            self.opened.append(time.monotonic() - start)

    async def step(self) -> None:
        """One phase further on, as the browser reports it; waits until the page has followed."""
        if self.stage is None:
            return
        self._place = (self._place + 1) % self._frames
        step, phase = divmod(self._place, len(PHASES))
        stage, start = self.stage, time.monotonic()
        view: dict[str, Any] = {"step": step, "phase": PHASES[phase], "request": None}
        asked = {"run": stage.asked["run"], "wish": stage.asked["wish"]}
        drawn = str(stage.asked["run"]).partition(":")[0]
        view |= {"layer": 0, "details": False, "asked": asked}
        self._states[stage.widget] = json.dumps({"view": view, "drawn": drawn})
        self._awaited = self._fragments.get(stage.widget, "")
        self._finished.clear()
        await self._send(self._awaited)
        if await self._until(self._finished, "a step"):
            self.latencies.append(time.monotonic() - start)

    async def _until(self, event: asyncio.Event, what: str) -> bool:
        try:
            await asyncio.wait_for(event.wait(), PATIENCE)
        except TimeoutError:
            self.problems.append(f"no answer to {what} within {PATIENCE:.0f} s")
            return False
        return True

    # The protocol.

    async def _send(self, fragment: str = "", *, repeated: bool = False) -> None:
        message = BackMsg()
        rerun = message.rerun_script
        rerun.query_string = self.query
        rerun.page_script_hash = self._script
        rerun.fragment_id = fragment
        rerun.is_auto_rerun = repeated
        rerun.cached_message_hashes.extend(self._kept)
        for widget, state in self._states.items():
            rerun.widget_states.widgets.add(id=widget, json_value=state)
        assert self._socket is not None
        try:
            await self._socket.send(message.SerializeToString())
        except ConnectionClosed as error:
            self.problems.append(f"the connection is gone: {error}")

    async def _repeat(self) -> None:
        """Send what asks to be repeated, as long as it does."""
        due: dict[str, float] = {}
        while True:
            await asyncio.sleep(0.05)
            now = time.monotonic()
            due = {name: due.get(name, now + every) for name, every in self._repeats.items()}
            for name, when in due.items():
                if now >= when:
                    due[name] = now + self._repeats[name]
                    await self._send(name, repeated=True)

    async def _listen(self) -> None:
        assert self._socket is not None
        try:
            async for data in self._socket:
                assert isinstance(data, bytes)
                self._take(ForwardMsg.FromString(data))
        except ConnectionClosed as error:
            self.problems.append(f"the connection was lost: {error}")

    def _take(self, message: ForwardMsg) -> None:
        kind = message.WhichOneof("type")
        if kind == "ref_hash":
            if message.ref_hash not in self._kept:
                self.problems.append("the server names a message that this session never had")
                return
            path = message.metadata
            message = ForwardMsg.FromString(self._kept[message.ref_hash].SerializeToString())
            message.metadata.CopyFrom(path)
            kind = message.WhichOneof("type")
        elif message.metadata.cacheable:
            self._kept[message.hash] = message
        match kind:
            case "new_session":
                self._new_session(message)
            case "delta":
                self._delta(message)
            case "auto_rerun":
                self._repeats[message.auto_rerun.fragment_id] = message.auto_rerun.interval
            case "stop_auto_rerun":
                for fragment in message.stop_auto_rerun.fragment_ids:
                    self._repeats.pop(fragment, None)
            case "page_info_changed":
                self.query = message.page_info_changed.query_string
            case "session_event":
                if message.session_event.WhichOneof("type") == "script_compilation_exception":
                    self.problems.append("the page could not be compiled")
            case "script_finished":
                if message.script_finished == ForwardMsg.FINISHED_WITH_COMPILE_ERROR:
                    self.problems.append("the page ended with an error")
                if message.script_finished != ForwardMsg.FINISHED_EARLY_FOR_RERUN:
                    ran = message.metadata.run.fragment_ids
                    if not ran or self._awaited in ran:
                        self._finished.set()

    def _new_session(self, message: ForwardMsg) -> None:
        self._script = message.new_session.page_script_hash
        if not message.metadata.run.fragment_ids:
            self._repeats.clear()

    def _delta(self, message: ForwardMsg) -> None:
        delta = message.delta
        if delta.WhichOneof("type") != "new_element":
            return
        element = delta.new_element
        if element.WhichOneof("type") == "exception":
            self.problems.append(f"on screen: {element.exception.message[:200]}")
        if element.WhichOneof("type") == "bidi_component":
            component = element.bidi_component
            if component.component_name.endswith(STAGE):
                self._fragments[component.id] = delta.fragment_id
                self._stage(component.id, component.json or component.mixed.json)

    def _stage(self, widget: str, text: str) -> None:
        data = json.loads(text)
        other = self.stage is None or self.stage.asked["run"] != data["asked"]["run"]
        self.stage = Stage(widget, data["asked"], data["payload"])
        if other:
            self._frames = max(1, self.stage.steps) * len(PHASES)
            self._place = data["asked"]["step"] * len(PHASES)
        if str(data["asked"]["run"]).partition(":")[0] == self._wanted:
            self._drawn.set()
