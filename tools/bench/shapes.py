# SPDX-License-Identifier: Apache-2.0
"""The compared models, by shape alone, and lower bounds of their arithmetic."""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """A decoder with gated MLPs or experts, one of FAMILIES; `ffn` is the width of one MLP."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    tied: bool = False
    family: str = "llama"
    experts: int = 0
    chosen: int = 1  # MLPs used by a row.

    @property
    def layer_weights(self) -> int:
        """Elements of all layers' matrices that one row is multiplied by."""
        return self.layer_weights_of(self.chosen)

    def layer_weights_of(self, mlps: float) -> float:
        attention = self.hidden * self.head_dim * 2 * (self.heads + self.kv_heads)
        return self.layers * (attention + self.hidden * (self.experts + 3 * mlps * self.ffn))

    def distinct_mlps(self, rows: int) -> float:
        """The number of MLPs that one step's rows use, if all experts are equally likely."""
        if self.experts == 0:
            return 1
        return self.experts * (1 - (1 - self.chosen / self.experts) ** rows)

    @property
    def head_weights(self) -> int:
        return self.hidden * self.vocab

    @property
    def kv_bytes(self) -> int:
        """Bytes per position, in a type of 16 bits, as in both programs."""
        return self.layers * 2 * self.kv_heads * self.head_dim * 2


@dataclass(frozen=True)
class Kind:
    """The storage of matrices; both programs use the same number of bits."""

    bits: float
    dot: str  # The kind in limits' figures whose peak bounds the arithmetic.
    gguf: str  # llama.cpp's name.
    flags: tuple[str, ...]  # lockstep's.


@dataclass(frozen=True)
class Family:
    architecture: str  # In a config.json.
    gguf: str  # llama.cpp's name.
    qkv_bias: bool = False
    head_norms: bool = False


FAMILIES = {
    "llama": Family("LlamaForCausalLM", "llama"),
    "qwen2": Family("Qwen2ForCausalLM", "qwen2", qkv_bias=True),
    "qwen3": Family("Qwen3ForCausalLM", "qwen3", head_norms=True),
    "qwen3_moe": Family("Qwen3MoeForCausalLM", "qwen3moe", head_norms=True),
}

SHAPES = {
    "tinyllama": Shape(2048, 22, 32, 4, 64, 5632, 32000),
    "llama32-1b": Shape(2048, 16, 32, 8, 64, 8192, 128256, tied=True),
    "llama31-8b": Shape(4096, 32, 32, 8, 128, 14336, 128256),
    "qwen25-05b": Shape(896, 24, 14, 2, 64, 4864, 151936, tied=True, family="qwen2"),
    "llama2-7b-q4": Shape(4096, 32, 32, 32, 128, 11008, 32000),
    # Four of Qwen3-30B-A3B's 48 layers, and a dense model with the same number of weights per row.
    "qwen3-30b-a3b": Shape(2048, 4, 32, 4, 128, 768, 151936, family="qwen3_moe", experts=128,
                           chosen=8),
    "qwen3-dense": Shape(2048, 4, 32, 4, 128, 8 * 768, 151936, family="qwen3"),
    "tiny": Shape(128, 2, 4, 2, 32, 256, 512),  # For testing the tool.
}

# Models with recurrent layers, by their config.json: RWKV 7 with 1.5 billion weights; eight of
# Qwen3.5's layers, six of them gated delta rules, with a smaller vocabulary.
RECURRENT = {
    "rwkv7-1b5": {
        "architectures": ["Rwkv7ForCausalLM"], "model_type": "rwkv7", "vocab_size": 65536,
        "hidden_size": 2048, "num_hidden_layers": 24, "head_size": 64, "num_attention_heads": 32,
        "intermediate_size": 8192, "layer_norm_epsilon": 1e-05, "tie_word_embeddings": False,
        "decay_low_rank_dim": 96, "a_low_rank_dim": 96, "v_low_rank_dim": 64,
        "gate_low_rank_dim": 256, "torch_dtype": "bfloat16",
    },
    "qwen3.5-2b": {
        "architectures": ["Qwen3_5ForCausalLM"], "model_type": "qwen3_5_text",
        "vocab_size": 65536, "hidden_size": 2048, "intermediate_size": 6144,
        "num_hidden_layers": 8, "num_attention_heads": 8, "num_key_value_heads": 2,
        "head_dim": 256, "hidden_act": "silu", "max_position_embeddings": 8192,
        "rms_norm_eps": 1e-06, "tie_word_embeddings": False, "full_attention_interval": 4,
        "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
        "linear_num_key_heads": 16, "linear_num_value_heads": 16, "torch_dtype": "bfloat16",
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000000.0,
                            "partial_rotary_factor": 0.25},
    },
}

KINDS = {
    "bf16": Kind(16, "bf16", "BF16", ()),
    "q8": Kind(8.5, "int8", "Q8_0", ("--quantize", "q8")),
    "q4": Kind(4.5, "int4", "Q4_0", ("--quantize", "q4")),
}

# int8 with one scale per row, which llama.cpp does not have.
INT8_ROWS = Kind(8, "int8", "", ("--quantize", "q8c"))

CONTEXT = 8192  # The context that both programs assume.


@dataclass(frozen=True)
class Case:
    """`batch` sequences: prompts of `prompt` tokens, then `steps` decode steps, if any."""

    name: str
    prompt: int
    steps: int
    batch: int

    @property
    def tokens(self) -> int:
        return self.batch * (self.steps or self.prompt)


def parse_case(name: str) -> Case:
    """Parses like `lockstep bench --cases`. ValueError if invalid."""
    match = re.fullmatch(r"(?:prefill:(\d+)|decode:(\d+)(?:@(\d+))?)(?:x(\d+))?", name)
    if not match or 0 in (int(number) for number in match.groups() if number):
        raise ValueError(f'must be a case such as prefill:512 or decode:128@4096x8, found "{name}"')
    prompt, steps, depth, batch = match.groups()
    return Case(name, int(prompt or depth or 1), int(steps or 0), int(batch or 1))


def config(shape: Shape) -> dict:
    """config.json of that shape."""
    experts = {
        "num_experts": shape.experts,
        "num_experts_per_tok": shape.chosen,
        "moe_intermediate_size": shape.ffn,
        "norm_topk_prob": True,
    }
    return {
        "architectures": [FAMILIES[shape.family].architecture],
        "model_type": shape.family,
        "hidden_size": shape.hidden,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "intermediate_size": shape.ffn,
        "vocab_size": shape.vocab,
        "tie_word_embeddings": shape.tied,
        "max_position_embeddings": CONTEXT,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-05,
        "rope_theta": 10000.0,
        "torch_dtype": "bfloat16",
        **(experts if shape.experts else {}),
    }


def case_bytes(shape: Shape, kind: Kind, case: Case) -> float:
    """Bytes that the timed part reads: weights once per step, keys and values per sequence. Only
    the experts chosen by a step's rows count.
    """
    steps = case.steps or 1
    depth = case.prompt + case.steps / 2 if case.steps else case.prompt / 2
    mlps = shape.distinct_mlps(case.batch if case.steps else case.tokens)
    weights = (shape.layer_weights_of(mlps) + shape.head_weights) * kind.bits / 8
    return steps * (weights + case.batch * depth * shape.kv_bytes)


def case_operations(shape: Shape, case: Case) -> float:
    """Multiplications and additions of matrices and attention; prompts need one row of logits."""
    depth = case.prompt + case.steps / 2 if case.steps else case.prompt / 2
    attention = 4 * shape.layers * shape.heads * shape.head_dim * depth
    rows = case.tokens * (2 * shape.layer_weights + attention)
    logits = case.tokens if case.steps else case.batch
    return rows + 2 * logits * shape.head_weights


def limit_seconds(shape: Shape, kind: Kind, case: Case, limits: dict) -> float:
    """The min time that the machine's limits (one row of them) allow."""
    dots = limits.get(f"{kind.dot}_gop_per_s", limits["fp32_gop_per_s"])
    return max(
        case_bytes(shape, kind, case) / (limits["read_gb_per_s"] * 1e9),
        case_operations(shape, case) / (dots * 1e9),
    )
