"""What is read at the scheduler and its cache manager: requests, output, lists, registrations."""

from __future__ import annotations

from typing import Any

from mambaviz.recorder.block_lists import BlockLists
from mambaviz.recorder.head import group_kind, groups_of, process_of, read, settings_of
from mambaviz.recorder.seams import Bound, Seam
from mambaviz.recorder.session import MARK, Session, head_lines

SCHEDULER = "vllm.v1.core.sched.scheduler"
POOL = "vllm.v1.core.block_pool"


class SchedulerSeams:
    """Turns calls of the scheduler into lines."""

    def __init__(self, session: Session, version: str) -> None:
        self._session = session
        self._version = version
        self._lists = BlockLists(session)
        self._preempted: list[str] = []
        self._new_names: dict[str, str] = {}

    def seams(self) -> list[Seam]:
        lists = self._lists
        return [
            Seam("head", SCHEDULER, "Scheduler.__init__", (), after=self.began),
            Seam(
                "request", SCHEDULER, "Scheduler.add_request", ("request",), after=self.request_came
            ),
            Seam(
                "action",
                SCHEDULER,
                "Scheduler.finish_requests",
                ("request_ids",),
                after=self.ended_from_outside,
                before=self.still_there,
            ),
            Seam(
                "action",
                SCHEDULER,
                "Scheduler.reset_prefix_cache",
                ("reset_running_requests",),
                after=self.cache_dropped,
            ),
            Seam(
                "schedule",
                SCHEDULER,
                "Scheduler._preempt_request",
                ("request",),
                after=self.request_preempted,
            ),
            Seam("schedule", SCHEDULER, "Scheduler.schedule", (), after=self.scheduled),
            Seam(
                "commit",
                SCHEDULER,
                "Scheduler.update_from_output",
                ("scheduler_output", "model_runner_output"),
                after=self.updated,
                before=self.updating,
            ),
            Seam("end", SCHEDULER, "Scheduler.shutdown", (), after=self.shut_down),
            Seam(
                "blocks",
                POOL,
                "BlockPool.cache_full_blocks",
                ("request", "blocks", "num_cached_blocks", "num_full_blocks", "block_size"),
                after=lists.registered_full,
            ),
            Seam(
                "blocks",
                POOL,
                "BlockPool.cache_partial_block",
                ("request",),
                after=lists.registered_partial,
            ),
            Seam(
                "blocks",
                POOL,
                "BlockPool.move_block_hashes",
                (),
                after=lists.registrations_moved,
            ),
            Seam("blocks", POOL, "BlockPool.get_new_blocks", (), after=lists.blocks_taken),
            Seam("blocks", POOL, "BlockPool.evict_blocks", (), after=lists.looked_over),
            Seam("blocks", POOL, "BlockPool.reset_prefix_cache", (), after=lists.looked_over),
        ]

    # ----------------------------------------------------------------------------- head

    def began(self, bound: Bound, _found: Any, _result: Any) -> None:
        """A scheduler stands: everything that the head says is known."""
        scheduler, session = bound["self"], self._session
        vllm_config = scheduler.vllm_config
        kv_cache_config = scheduler.kv_cache_config
        session.async_scheduling = bool(read(vllm_config, "scheduler_config.async_scheduling"))
        settings = settings_of(vllm_config, kv_cache_config, scheduler, session.runner)
        head = head_lines(session, self._version, settings, groups_of(kv_cache_config))
        process, suffix = process_of(vllm_config, "engine", 0)
        session.begin(head | {"process": process}, suffix)
        self._lists.watch(
            scheduler.kv_cache_manager.block_pool,
            [group_kind(group.kv_cache_spec) for group in kv_cache_config.kv_cache_groups],
        )

    # ------------------------------------------------------------------------- requests

    def request_came(self, bound: Bound, _found: Any, _result: Any) -> None:
        request, session = bound["request"], self._session
        name = session.aliases.arrives(request.request_id)
        if name is None:
            return  # another part of a streamed prompt
        self._new_names[request.request_id] = name
        hashes = list(read(request, "block_hashes") or [])
        event: dict[str, Any] = {
            "event": "request",
            "step": session.step + 1,
            "id": name,
            "prompt": int(request.num_prompt_tokens),
        }
        limit = read(request, "max_tokens")
        if isinstance(limit, int):
            event["max_tokens"] = limit
        if hashes:
            event["prefix"] = [session.aliases.prefix(chain) for chain in hashes]
            for prefix in event["prefix"]:
                session.aliases.owner(prefix, name)
        if read(request, "cache_salt") is not None:
            event["salted"] = True
        if session.options.tokens and request.prompt_token_ids is not None:
            event["tokens"] = [int(token) for token in request.prompt_token_ids]
        session.emit(event)

    def still_there(self, bound: Bound) -> list[str]:
        """Requests that a call of `finish_requests` will end; the others are over already."""
        scheduler, ids = bound["self"], bound["request_ids"]
        if isinstance(ids, str):
            ids = [ids]
        chosen = set(scheduler.requests if ids is None else ids)
        if ids is not None and not isinstance(ids, list | set | tuple | dict):
            bound["request_ids"] = ids  # an iterator: looking would use it up
            return []
        return [
            name
            for name, request in scheduler.requests.items()
            if name in chosen and not request.is_finished()
        ]

    def ended_from_outside(self, _bound: Bound, found: list[str], _result: Any) -> None:
        for engine_id in found:
            self._action("abort", engine_id)

    def cache_dropped(self, bound: Bound, _found: Any, result: Any) -> None:
        if bound.get("reset_running_requests"):
            self._action("reset_running")
        elif result:
            self._action("reset")

    def request_preempted(self, bound: Bound, _found: Any, _result: Any) -> None:
        name = self._session.aliases.request(bound["request"].request_id)
        self._preempted.append(name)
        self._lists.preempted(name)

    def _action(self, kind: str, engine_id: str | None = None) -> None:
        session = self._session
        event = {"event": "action", "step": session.step + 1, "kind": kind}
        if engine_id is not None:
            event["request"] = session.aliases.request(engine_id)
        session.emit(event)

    # ------------------------------------------------------------------------- schedule

    def scheduled(self, bound: Bound, _found: Any, output: Any) -> None:
        scheduler, session = bound["self"], self._session
        if not session.begun:  # it was there before the recorder was
            for request in scheduler.requests.values():
                self.request_came({"request": request}, None, None)
            self.began(bound, None, None)
            self._lists.take_stock(scheduler)
        step = session.next_step()
        setattr(output, MARK, (step, self._new_names))
        self._new_names = {}
        name = session.aliases.request
        event: dict[str, Any] = {
            "event": "schedule",
            "step": step,
            "requests": self._scheduled_requests(scheduler, output),
        }
        if output.finished_req_ids:
            event["finished"] = sorted(map(name, output.finished_req_ids))
        preempted = self._preempted or sorted(map(name, output.preempted_req_ids or ()))
        self._preempted = []
        if preempted:
            event["preempted"] = preempted
        waiting = [name(request.request_id) for request in scheduler.waiting]
        waiting += [
            name(request.request_id) for request in read(scheduler, "skipped_waiting") or ()
        ]
        if waiting:
            event["waiting"] = waiting
        pool = scheduler.kv_cache_manager.block_pool
        event["free_count"] = int(pool.get_num_free_blocks())
        session.emit(event)
        self._lists.after_schedule(step, scheduler, list(output.num_scheduled_tokens))
        for engine_id in output.finished_req_ids:
            if engine_id not in scheduler.requests:
                session.aliases.retire(engine_id)

    def _scheduled_requests(self, scheduler: Any, output: Any) -> list[dict[str, Any]]:
        cached = output.scheduled_cached_reqs
        computed = dict(zip(cached.req_ids, cached.num_computed_tokens, strict=True))
        new = {request.req_id: request.num_computed_tokens for request in output.scheduled_new_reqs}
        drafts = output.scheduled_spec_decode_tokens
        entries = []
        for engine_id, scheduled in output.num_scheduled_tokens.items():
            resumed = engine_id in cached.resumed_req_ids
            kind = "new" if engine_id in new else ("resumed" if resumed else "running")
            before = new[engine_id] if kind == "new" else computed[engine_id]
            entry: dict[str, Any] = {
                "id": self._session.aliases.request(engine_id),
                "kind": kind,
                "computed": int(before),
                "scheduled": int(scheduled),
            }
            if drafts.get(engine_id):
                entry["drafts"] = len(drafts[engine_id])
                if kind != "running":  # a request gets no drafts of its own before it ran
                    entry["padded_tail"] = True
            request = scheduler.requests.get(engine_id)
            if request is not None:
                entry["known"] = int(request.num_tokens)
                entry["prompt"] = int(request.num_prompt_tokens)
                if self._session.options.tokens:
                    tokens = request.all_token_ids[before : before + scheduled]
                    kept = [int(token) for token in tokens]
                    kept += [int(token) for token in drafts.get(engine_id, ())]
                    entry["tokens"] = kept[:scheduled]
            entries.append(entry)
        return entries

    # --------------------------------------------------------------------------- commit

    def updating(self, bound: Bound) -> dict[str, Any]:
        """The requests of a step; a finished one is gone from the scheduler afterwards."""
        requests = bound["self"].requests
        ids = bound["scheduler_output"].num_scheduled_tokens
        return {engine_id: requests[engine_id] for engine_id in ids if engine_id in requests}

    def updated(self, bound: Bound, requests: dict[str, Any], _result: Any) -> None:
        session, output = self._session, bound["scheduler_output"]
        name = session.aliases.request
        if not output.num_scheduled_tokens or not hasattr(output, MARK):
            return  # without a mark: of a step from before the recording
        step = getattr(output, MARK)[0]
        if session.accept_step < step:  # the worker's seam said nothing about this step
            sampled = self._sampled(bound["model_runner_output"], requests)
            if sampled:
                session.emit({"event": "accept", "step": step, "sampled": sampled})
        event: dict[str, Any] = {"event": "commit", "step": step}
        if not session.async_scheduling:  # else the count is ahead by the next step's tokens
            event["computed"] = {name(i): int(r.num_computed_tokens) for i, r in requests.items()}
        event["known"] = {name(i): int(r.num_tokens) for i, r in requests.items()}
        finished = [name(i) for i, request in requests.items() if request.is_finished()]
        if finished:
            event["finished"] = finished
        session.emit(event)

    def shut_down(self, _bound: Bound, _found: Any, _result: Any) -> None:
        """An engine in a process of its own is over here: it runs no exit functions."""
        self._session.end("exit")

    def _sampled(self, output: Any, requests: dict[str, Any]) -> dict[str, int]:
        tokens = read(output, "sampled_token_ids")
        if not isinstance(tokens, list) or len(tokens) != len(output.req_ids):
            return {}
        name = self._session.aliases.request
        return {
            name(engine_id): len(sampled)
            for engine_id, sampled in zip(output.req_ids, tokens, strict=True)
            if engine_id in requests
        }
