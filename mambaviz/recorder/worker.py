"""What the seams of both runners share: the step a worker is in, its builders, its head."""

from __future__ import annotations

import dataclasses
from typing import Any

from mambaviz.recorder.head import group_kind, groups_of, process_of, read, settings_of
from mambaviz.recorder.seams import Bound, Seam, SeamError, Wrapped, wrap
from mambaviz.recorder.session import MARK, Session, head_lines
from mambaviz.recorder.state_bytes import StateBytes
from mambaviz.recorder.values import Later, plain_value

# Where the seams of each runner are.
MODULES = {
    "v1": ("vllm.v1.worker.gpu_model_runner", "vllm.v1.worker.mamba_utils"),
    "v2": ("vllm.v1.worker.gpu.model_runner", "vllm.v1.worker.gpu.model_states.mamba_hybrid"),
}
# What the builder reads (section 4.1); the rest of the engine's object is not ours to show.
INPUTS = (
    "num_reqs",
    "num_actual_tokens",
    "max_query_len",
    "query_start_loc",
    "seq_lens",
    "is_prefilling",
    "seq_lens_cpu_upper_bound",
    "replayssm_decode_base_cpu",
)
KEYWORDS = {
    "num_accepted_tokens": "num_accepted_tokens",
    "prev_last_scheduled_idx": "prev_last_scheduled_idx",
    "num_decode_draft_tokens_cpu": "num_decode_draft_tokens",
}


class Worker:
    """A worker as the recorder knows it, whichever of the runners it has."""

    def __init__(self, session: Session, version: str) -> None:
        self.session = session
        self.step = -1
        self.runner: Any = None
        self.states = StateBytes(session)
        self.wrapped: list[Wrapped] = []
        self._version = version
        self._group_of: dict[int, int] = {}  # id of a builder -> its cache group

    def meet(self, runner: Any, kind: str) -> None:
        """A runner has its builders: hook the classes that it really uses."""
        self.session.runner = kind
        self.runner = runner
        self._rule_out("v1" if kind == "v2" else "v2")
        self._group_of = {}
        seen: set[type] = set()
        groups = runner.kv_cache_config.kv_cache_groups
        for group_index, attention_groups in enumerate(runner.attn_groups):
            if group_kind(groups[group_index].kv_cache_spec) != "mamba":
                continue
            for attention_group in attention_groups:
                for builder in attention_group.metadata_builders:
                    self._group_of[id(builder)] = group_index
                    if type(builder) not in seen:
                        seen.add(type(builder))
                        self._hook_builder(type(builder))

    def _rule_out(self, other: str) -> None:
        """The head says that nobody will pass the seams of the other runner."""
        modules = tuple(f"{module}." for module in MODULES[other])
        for entry in self.session.hooks:
            if entry["where"].startswith(modules):
                used = str(self.session.runner).upper()
                entry |= {"hooked": False, "why": f"the engine uses its {used} runner"}

    def _hook_builder(self, builder: type) -> None:
        for name, needs in (
            ("build", ("common_attn_metadata",)),
            ("update_block_table", ("metadata", "blk_table")),
        ):
            owner = next((base for base in builder.__mro__ if name in vars(base)), builder)
            target = f"{owner.__name__}.{name}"
            seam = Seam("metadata", owner.__module__, target, needs, after=self.metadata_built)
            if any(entry["where"] == seam.where for entry in self.session.hooks):
                continue
            entry: dict[str, Any] = {"seam": "metadata", "hooked": True, "where": seam.where}
            try:
                self.wrapped.append(wrap(owner, name, seam, self.session))
            except SeamError as error:
                entry |= {"hooked": False, "why": str(error)}
            self.session.hooks.append(entry)

    def begin(self) -> None:
        """A worker in a process of its own has no scheduler: its file begins here."""
        session, runner = self.session, self.runner
        if session.begun:
            return
        config = runner.kv_cache_config
        settings = settings_of(runner.vllm_config, config, None, session.runner)
        head = head_lines(session, self._version, settings, groups_of(config))
        rank = read(runner.vllm_config, "parallel_config.rank")
        process, suffix = process_of(
            runner.vllm_config, "worker", rank if isinstance(rank, int) else -1
        )
        session.begin(head | {"process": process}, suffix)

    def take_step(self, scheduler_output: Any) -> int:
        """The step that an output belongs to, by the mark that the scheduler's seam left."""
        step, names = getattr(scheduler_output, MARK, (None, {}))
        if step is None:
            step = self.step + 1
        elif step > self.session.step:  # another process counts; here only its marks come
            self.session.step = step - 1
            self.session.next_step()
            self.session.aliases.adopt(names)
        self.step = step
        return step

    def names(self, engine_ids: list[str]) -> list[str]:
        return [self.session.aliases.request(engine_id) for engine_id in engine_ids]

    def metadata_built(self, bound: Bound, _found: Any, result: Any) -> None:
        group = self._group_of.get(id(bound["self"]))
        if group is None or self.step < 0 or not dataclasses.is_dataclass(result):
            return  # a warm-up, or a draft model's own
        inputs = _inputs(bound)
        fields = {
            field.name: plain_value(getattr(result, field.name))
            for field in dataclasses.fields(result)
        }
        head = {
            "event": "metadata",
            "step": self.step,
            "group": group,
            "builder": type(bound["self"]).__name__,
        }
        self.session.emit(
            lambda: (
                head
                | {
                    "inputs": {name: value() for name, value in inputs.items()},
                    "fields": {n: value() for n, value in fields.items() if value is not None},
                }
            )
        )


def _inputs(bound: Bound) -> dict[str, Later]:
    common = bound.get("common_attn_metadata")
    values = {name: plain_value(getattr(common, name)) for name in INPUTS if hasattr(common, name)}
    keywords = {**bound, **bound.get("kwargs", {})}
    for keyword, name in KEYWORDS.items():
        values[name] = plain_value(keywords.get(keyword))  # null: not passed in this step
    return {name: value for name, value in values.items() if value is not None}
