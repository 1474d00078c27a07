"""What the engine is asked to do: models, settings, requests. Plain data, for `drive`."""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass, field
from typing import Any

MAMBA2: dict[str, Any] = {
    "architectures": ["Mamba2ForCausalLM"],
    "model_type": "mamba2",
    "vocab_size": 128,
    "hidden_size": 64,
    "expand": 2,
    "num_heads": 4,
    "head_dim": 32,
    "state_size": 16,
    "n_groups": 1,
    "conv_kernel": 4,
    "num_hidden_layers": 2,
    "chunk_size": 4,
    "use_bias": False,
    "use_conv_bias": True,
    "hidden_act": "silu",
    "layer_norm_epsilon": 1e-5,
    "rms_norm": True,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 0,
    "max_position_embeddings": 1024,
    "time_step_limit": [0.0, 1e9],
}
HYBRID: dict[str, Any] = {
    "architectures": ["GraniteMoeHybridForCausalLM"],
    "model_type": "granitemoehybrid",
    "vocab_size": 128,
    "hidden_size": 64,
    "intermediate_size": 64,
    "shared_intermediate_size": 64,
    "num_local_experts": 0,
    "num_experts_per_tok": 0,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "layer_types": ["mamba", "attention", "mamba"],
    "mamba_n_heads": 4,
    "mamba_d_head": 32,
    "mamba_d_state": 16,
    "mamba_n_groups": 1,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "mamba_chunk_size": 4,
    "mamba_conv_bias": True,
    "mamba_proj_bias": False,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "position_embedding_type": "nope",
    "embedding_multiplier": 1.0,
    "logits_scaling": 1.0,
    "residual_multiplier": 1.0,
    "attention_multiplier": 0.25,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "max_position_embeddings": 1024,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 0,
    "attention_bias": False,
    "attention_dropout": 0.0,
}
# One layer of each kind: half the launches of an interpreter.
SMALL_HYBRID = HYBRID | {"num_hidden_layers": 2, "layer_types": ["mamba", "attention"]}


@dataclass(frozen=True)
class Ask:
    """A request: when it comes (step of this run), its prompt, and how it samples."""

    arrive: int
    prompt: list[int]
    max_tokens: int
    temperature: float = 0.0


@dataclass(frozen=True)
class Run:
    """One stretch of the engine's life, recorded into a file of its own.

    ``actions`` are (step, "reset" | "reset_running" | "abort", index of the request or None).
    ``fault`` names a mistake of `drive.FAULTS`, planted at ``fault_step``. ``recorded`` off: the
    same without a recorder, to be compared with.
    """

    name: str
    asks: list[Ask]
    actions: list[tuple[int, str, int | None]] = field(default_factory=list)
    fault: str | None = None
    fault_step: int = 0
    states: bool = False
    recorded: bool = True


@dataclass(frozen=True)
class Plan:
    """One engine process: a model, its settings, and the runs it makes one after another.

    ``asynchronous``: a step is scheduled while the one before it runs.
    """

    model: dict[str, Any]
    engine: dict[str, Any]
    runs: list[Run]
    runner: str = "v1"
    asynchronous: bool = False

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def mixed(seed: int, count: int, longest: int, every: int, temperature: float = 0.0) -> list[Ask]:
    """Requests of all lengths; each second one shares the beginning of one before it."""
    chance = random.Random(seed)
    asks: list[Ask] = []
    for index in range(count):
        length = chance.randint(3, longest)
        prompt = [chance.randint(2, 127) for _ in range(length)]
        if index % 2 and asks:
            earlier = asks[chance.randrange(len(asks))].prompt
            kept = chance.randint(len(earlier) // 2, len(earlier))
            prompt = [*earlier[:kept], *prompt][: max(longest, 4)]
        asks.append(
            Ask(
                arrive=index * every + chance.randint(0, every),
                prompt=prompt,
                max_tokens=chance.randint(4, 24),
                temperature=temperature if index % 3 == 2 else 0.0,
            )
        )
    return asks


def repeating(
    seed: int, count: int, longest: int, every: int, temperature: float = 0.3
) -> list[Ask]:
    """Prompts that repeat themselves, so that n-gram drafts are found; some sampled hot."""
    chance = random.Random(seed)
    asks = []
    for index in range(count):
        pattern = [chance.randint(2, 127) for _ in range(chance.randint(2, 5))]
        length = chance.randint(6, longest)
        prompt = [pattern[position % len(pattern)] for position in range(length)]
        hot = 0.0 if index % 2 else temperature
        asks.append(Ask(index * every, prompt, chance.randint(8, 40), hot))
    return asks


SMALL = {
    "max_model_len": 128,
    "max_num_seqs": 4,
    "enable_prefix_caching": True,
    "mamba_cache_mode": "align",
}
DRAFTS = {
    "method": "ngram",
    "num_speculative_tokens": 2,
    "prompt_lookup_max": 3,
    "prompt_lookup_min": 1,
}


def mamba2_settings(num_blocks: int, budget: int, **more: Any) -> dict[str, Any]:
    """A Mamba-2 model in blocks of 8 tokens, every boundary kept."""
    return {
        **SMALL,
        "block_size": 8,
        "mamba_block_size": 8,
        "num_gpu_blocks_override": num_blocks,
        "max_num_batched_tokens": budget,
        "prefix_cache_retention_interval": None,
        **more,
    }


def hybrid_settings(num_blocks: int, budget: int, **more: Any) -> dict[str, Any]:
    """A hybrid model with n-gram drafts, in blocks of 32 tokens: the least its attention takes."""
    return {
        **SMALL,
        "block_size": 32,
        "num_gpu_blocks_override": num_blocks,
        "max_num_batched_tokens": budget,
        "prefix_cache_retention_interval": None,
        "speculative_config": DRAFTS,
        **more,
    }
