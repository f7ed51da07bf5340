# SPDX-License-Identifier: Apache-2.0
"""Writes a GGUF of a shape with random weights: gguf_model.py OUT SHAPE KIND [--vocabulary].
Weights are random bits of the stored type: the time does not depend on their values, as long as
they are normal numbers. Without --vocabulary the tokens have no texts.
"""

import sys
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter, TokenType

from shapes import CONTEXT, FAMILIES, KINDS, SHAPES, Shape
from vocabulary import SPECIAL, pieces

SCALE = np.float16(0.002)  # For a block of small integers.


def random_rows(rng: np.random.Generator, name: str, rows: int, cols: int) -> np.ndarray:
    """Rows of bytes in the layout of the type `name`."""
    if name == "BF16":
        values = rng.standard_normal((rows, cols), dtype=np.float32) * np.float32(0.02)
        return (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    code_bytes = {"Q8_0": 32, "Q4_0": 16}[name]
    codes = rng.integers(0, 256, (rows, cols // 32, code_bytes), dtype=np.uint8)
    if name == "Q8_0":
        codes[codes == 128] = 127  # -128 is not one of its codes.
    scales = np.broadcast_to(np.array([SCALE]).view(np.uint8), (rows, cols // 32, 2))
    return np.concatenate([scales, codes], axis=2).reshape(rows, -1)


def mlp_matrices(shape: Shape) -> list[tuple[str, int, int, int]]:
    """For one layer: name, the number of matrices in one tensor, rows, columns."""
    end = "_exps" if shape.experts else ""
    count = shape.experts or 1
    return [
        (f"ffn_gate{end}", count, shape.ffn, shape.hidden),
        (f"ffn_up{end}", count, shape.ffn, shape.hidden),
        (f"ffn_down{end}", count, shape.hidden, shape.ffn),
    ]


def matrices(shape: Shape) -> list[tuple[str, int, int, int]]:
    """Every matrix: name, the number of matrices in one tensor, rows, columns."""
    q, kv = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    found = [("token_embd", 1, shape.vocab, shape.hidden)]
    if not shape.tied:
        found.append(("output", 1, shape.vocab, shape.hidden))
    for layer in range(shape.layers):
        for name, count, rows, cols in (
            ("attn_q", 1, q, shape.hidden),
            ("attn_k", 1, kv, shape.hidden),
            ("attn_v", 1, kv, shape.hidden),
            ("attn_output", 1, shape.hidden, q),
            *mlp_matrices(shape),
        ):
            found.append((f"blk.{layer}.{name}", count, rows, cols))
    return found


def float32(shape: Shape, rng: np.random.Generator) -> list[tuple[str, np.ndarray]]:
    """Unquantized tensors: norms, routers, and biases if the family has them."""
    ones = np.ones(shape.hidden, dtype=np.float32)
    found = [("output_norm.weight", ones)]
    q, kv = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    family = FAMILIES[shape.family]
    for layer in range(shape.layers):
        found += [(f"blk.{layer}.{name}.weight", ones) for name in ("attn_norm", "ffn_norm")]
        if family.head_norms:
            found += [(f"blk.{layer}.attn_{name}_norm.weight", ones[: shape.head_dim])
                      for name in ("q", "k")]
        if shape.experts:
            router = rng.standard_normal((shape.experts, shape.hidden), dtype=np.float32)
            found.append((f"blk.{layer}.ffn_gate_inp.weight", router * np.float32(0.02)))
        if family.qkv_bias:
            found += [
                (f"blk.{layer}.attn_{name}.bias", np.zeros(size, dtype=np.float32))
                for name, size in (("q", q), ("k", kv), ("v", kv))
            ]
    return found


def add_vocabulary(writer: GGUFWriter, size: int) -> None:
    """Adds the vocabulary of vocabulary.py in SentencePiece's form."""
    texts = pieces(size)
    byte, normal = TokenType.BYTE, TokenType.NORMAL
    kinds = [TokenType.UNKNOWN] + [TokenType.CONTROL] * (len(SPECIAL) - 1)
    kinds += [byte] * 256 + [normal] * (size - len(SPECIAL) - 256)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(texts)
    writer.add_token_scores([0.0] * size)
    writer.add_token_types(kinds)
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(False)
    writer.add_add_space_prefix(False)


def add_settings(writer: GGUFWriter, shape: Shape, vocabulary: bool = False) -> None:
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(shape.hidden)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.ffn)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_key_length(shape.head_dim)
    writer.add_value_length(shape.head_dim)
    writer.add_rope_dimension_count(shape.head_dim)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(shape.vocab)
    if shape.experts:
        writer.add_expert_count(shape.experts)
        writer.add_expert_used_count(shape.chosen)
        writer.add_expert_feed_forward_length(shape.ffn)
    if vocabulary:
        add_vocabulary(writer, shape.vocab)
    else:
        writer.add_tokenizer_model("no_vocab")


def write(path: Path, shape: Shape, type_name: str, vocabulary: bool) -> None:
    """Writes a temporary file first, so that a file of that name is complete."""
    partial = path.with_suffix(".partial")
    writer = GGUFWriter(partial, FAMILIES[shape.family].gguf)
    add_settings(writer, shape, vocabulary)
    rng = np.random.default_rng(1)
    stored = GGMLQuantizationType[type_name]
    for name, count, rows, cols in matrices(shape):
        data = random_rows(rng, type_name, count * rows, cols)
        if name.endswith("_exps"):
            data = data.reshape(count, rows, -1)
        writer.add_tensor(f"{name}.weight", data, raw_dtype=stored)
    for name, values in float32(shape, rng):
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    partial.rename(path)


if __name__ == "__main__":
    _, out, shape_name, kind, *flags = sys.argv
    write(Path(out), SHAPES[shape_name], KINDS[kind].gguf, "--vocabulary" in flags)
