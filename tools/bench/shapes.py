# SPDX-License-Identifier: Apache-2.0
"""The models that are compared, by shape alone, and what their arithmetic costs at least."""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """A decoder of the Llama family; `family` is llama or qwen2 (biases of q, k and v)."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    tied: bool = False
    family: str = "llama"

    @property
    def layer_weights(self) -> int:
        """Elements of the matrices of all layers."""
        attention = self.hidden * self.head_dim * 2 * (self.heads + self.kv_heads)
        return self.layers * (attention + 3 * self.hidden * self.ffn)

    @property
    def head_weights(self) -> int:
        return self.hidden * self.vocab

    @property
    def kv_bytes(self) -> int:
        """Of one position, in a type of 16 bits, as both programs keep it."""
        return self.layers * 2 * self.kv_heads * self.head_dim * 2


@dataclass(frozen=True)
class Kind:
    """How matrices are stored; both programs take the same number of bits."""

    bits: float
    dot: str  # Whose peak in limits' figures bounds the arithmetic.
    gguf: str  # llama.cpp's name.
    flags: tuple[str, ...]  # lockstep's.


SHAPES = {
    "tinyllama": Shape(2048, 22, 32, 4, 64, 5632, 32000),
    "llama32-1b": Shape(2048, 16, 32, 8, 64, 8192, 128256, tied=True),
    "qwen25-05b": Shape(896, 24, 14, 2, 64, 4864, 151936, tied=True, family="qwen2"),
    "llama2-7b-q4": Shape(4096, 32, 32, 32, 128, 11008, 32000),
    "tiny": Shape(128, 2, 4, 2, 32, 256, 512),  # For trying the tool itself.
}

KINDS = {
    "bf16": Kind(16, "bf16", "BF16", ()),
    "q8": Kind(8.5, "int8", "Q8_0", ("--quantize", "q8")),
    "q4": Kind(4.5, "int4", "Q4_0", ("--quantize", "q4")),
}

CONTEXT = 8192  # That both are told the models have.


@dataclass(frozen=True)
class Case:
    """`batch` sequences: prompts of `prompt` tokens, or (steps > 0) steps of decoding behind."""

    name: str
    prompt: int
    steps: int
    batch: int

    @property
    def tokens(self) -> int:
        return self.batch * (self.steps or self.prompt)


def parse_case(name: str) -> Case:
    """As `lockstep bench --cases` reads it. ValueError where it is none."""
    match = re.fullmatch(r"(?:prefill:(\d+)|decode:(\d+)(?:@(\d+))?)(?:x(\d+))?", name)
    if not match or 0 in (int(number) for number in match.groups() if number):
        raise ValueError(f'wanted a case such as prefill:512 or decode:128@4096x8, found "{name}"')
    prompt, steps, depth, batch = match.groups()
    return Case(name, int(prompt or depth or 1), int(steps or 0), int(batch or 1))


def config(shape: Shape) -> dict:
    """config.json of that shape."""
    qwen = shape.family == "qwen2"
    return {
        "architectures": ["Qwen2ForCausalLM" if qwen else "LlamaForCausalLM"],
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
    }


def case_bytes(shape: Shape, kind: Kind, case: Case) -> float:
    """Bytes that the timed part reads: weights once per step, keys and values per sequence."""
    steps = case.steps or 1
    depth = case.prompt + case.steps / 2 if case.steps else case.prompt / 2
    weights = (shape.layer_weights + shape.head_weights) * kind.bits / 8
    return steps * (weights + case.batch * depth * shape.kv_bytes)


def case_operations(shape: Shape, case: Case) -> float:
    """Multiplications and additions of matrices and attention; prompts need one row of logits."""
    depth = case.prompt + case.steps / 2 if case.steps else case.prompt / 2
    attention = 4 * shape.layers * shape.heads * shape.head_dim * depth
    rows = case.tokens * (2 * shape.layer_weights + attention)
    logits = case.tokens if case.steps else case.batch
    return rows + 2 * logits * shape.head_weights


def limit_seconds(shape: Shape, kind: Kind, case: Case, limits: dict) -> float:
    """The least time that the machine's limits (one row of them) allow."""
    dots = limits.get(f"{kind.dot}_gop_per_s", limits["fp32_gop_per_s"])
    return max(
        case_bytes(shape, kind, case) / (limits["read_gb_per_s"] * 1e9),
        case_operations(shape, case) / (dots * 1e9),
    )
