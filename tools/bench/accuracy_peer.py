# SPDX-License-Identifier: Apache-2.0
"""Compares llama.cpp's Q8_0 and Q4_0 of a Llama with its own float32: accuracy_peer.py MODEL.

Standard input has windows of token ids as JSON; a JSON object of figures is printed. The model is
written as a GGUF in float32 and quantized by llama.cpp itself.
"""

import ctypes
import json
import sys
import tempfile
from pathlib import Path

import llama_cpp as api
import numpy as np
from gguf import GGUFWriter

from gguf_model import add_settings
from peer import Batch, only_errors
from shapes import Shape, config as config_of

# The block size of Q8_0 and Q4_0. A matrix whose columns are not a multiple of it is not quantized.
BLOCK = 32
FILE_TYPES = {"Q8_0": api.LLAMA_FTYPE_MOSTLY_Q8_0, "Q4_0": api.LLAMA_FTYPE_MOSTLY_Q4_0}
NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


def read_tensors(path: Path) -> dict[str, np.ndarray]:
    """The tensors of a safetensors file in F32 or BF16, as float32."""
    data = path.read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    tensors = {}
    for name, info in json.loads(data[8:begin]).items():
        if name == "__metadata__":
            continue
        first, last = info["data_offsets"]
        stored = data[begin + first:begin + last]
        if info["dtype"] == "BF16":
            wide = np.frombuffer(stored, np.uint16).astype(np.uint32) << 16
            values = wide.view(np.float32)
        elif info["dtype"] == "F32":
            values = np.frombuffer(stored, np.float32)
        else:
            sys.exit(f"{path}: {name}: must be F32 or BF16, found {info['dtype']}")
        tensors[name] = values.reshape(info["shape"])
    return tensors


def read_shape(config: dict) -> Shape:
    heads = config["num_attention_heads"]
    shape = Shape(
        hidden=config["hidden_size"], layers=config["num_hidden_layers"], heads=heads,
        kv_heads=config["num_key_value_heads"],
        head_dim=config.get("head_dim", config["hidden_size"] // heads),
        ffn=-(-config["intermediate_size"] // BLOCK) * BLOCK,
        vocab=config["vocab_size"], tied=config["tie_word_embeddings"])
    for key, wanted in config_of(shape).items():
        same = key in ("intermediate_size", "max_position_embeddings", "torch_dtype", "head_dim")
        if not same and config.get(key) != wanted:
            sys.exit(f"config.json: {key}: must be {wanted}, found {config.get(key)}")
    return shape


def by_pairs(rows: np.ndarray, heads: int) -> np.ndarray:
    """llama.cpp rotates pairs of neighbours; in checkpoints a pair is half a head apart."""
    halves = rows.reshape(heads, 2, -1, rows.shape[1])
    return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(rows.shape)


def padded(values: np.ndarray, shape: Shape, axis: int) -> np.ndarray:
    """`values` with zeros appended along the axis of ffn, up to whole blocks. The zeros do not
    change results."""
    missing = [(0, 0), (0, 0)]
    missing[axis] = (0, shape.ffn - values.shape[axis])
    return np.pad(values, missing)


def converted(tensors: dict[str, np.ndarray], shape: Shape):
    """Names and values in llama.cpp's form."""
    yield "token_embd.weight", tensors["model.embed_tokens.weight"]
    yield "output_norm.weight", tensors["model.norm.weight"]
    if not shape.tied:
        yield "output.weight", tensors["lm_head.weight"]
    for layer in range(shape.layers):
        for name, theirs in NAMES.items():
            values = tensors[f"model.layers.{layer}.{name}.weight"]
            if theirs in ("attn_q", "attn_k"):
                values = by_pairs(values, shape.heads if theirs == "attn_q" else shape.kv_heads)
            elif theirs.startswith("ffn_") and theirs != "ffn_norm":
                values = padded(values, shape, axis=1 if theirs == "ffn_down" else 0)
            yield f"blk.{layer}.{theirs}.weight", values


def write_gguf(path: Path, folder: Path) -> None:
    shape = read_shape(json.loads((folder / "config.json").read_text()))
    writer = GGUFWriter(path, shape.family)
    add_settings(writer, shape)
    for name, values in converted(read_tensors(folder / "model.safetensors"), shape):
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def quantize(source: Path, name: str) -> Path:
    out = source.with_name(f"{name}.gguf")
    params = api.llama_model_quantize_default_params()
    params.ftype = FILE_TYPES[name]
    if api.llama_model_quantize(str(source).encode(), str(out).encode(), ctypes.byref(params)):
        sys.exit(f"llama.cpp does not quantize to {name}")
    return out


class Model:
    """Computes the logits of windows one after the other, keys and values in float32."""

    def __init__(self, path: Path, window: int):
        params = api.llama_model_default_params()
        self.model = api.llama_model_load_from_file(str(path).encode(), params)
        self.vocab = api.llama_vocab_n_tokens(api.llama_model_get_vocab(self.model))
        params = api.llama_context_default_params()
        params.n_ctx = params.n_batch = params.n_ubatch = window
        params.type_k = params.type_v = api.GGML_TYPE_F32
        params.flash_attn_type = api.LLAMA_FLASH_ATTN_TYPE_DISABLED
        self.context = api.llama_init_from_model(self.model, params)
        if not self.context:
            sys.exit(f"llama.cpp has no context for {path}")

    @property
    def weight_bytes(self) -> int:
        return api.llama_model_size(self.model)

    def log_probabilities(self, ids: list[int]) -> np.ndarray:
        """[ids, vocab] in float64."""
        api.llama_memory_clear(api.llama_get_memory(self.context), True)
        batch = Batch([(token, i, 0) for i, token in enumerate(ids)], all_logits=True)
        batch.run(self.context)
        values = api.llama_get_logits(self.context)
        logits = np.ctypeslib.as_array(values, (len(ids), self.vocab)).astype(np.float64)
        batch.free()
        logits -= logits.max(axis=1, keepdims=True)
        return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def perplexity(found: list[np.ndarray], windows: list[list[int]]) -> float:
    surprise = [-q[np.arange(len(ids) - 1), ids[1:]] for q, ids in zip(found, windows)]
    return float(np.exp(np.concatenate(surprise).mean()))


def compare(exact: list[np.ndarray], model: Model, windows: list[list[int]]) -> dict:
    found = [model.log_probabilities(ids) for ids in windows]
    kl = np.sort(np.concatenate(
        [(np.exp(p) * (p - q)).sum(axis=1) for p, q in zip(exact, found)]).clip(0))
    same = np.concatenate([p.argmax(axis=1) == q.argmax(axis=1) for p, q in zip(exact, found)])
    return {
        "weight_bytes": model.weight_bytes,
        "kl_mean": kl.mean(),
        "kl_median": kl[int(0.5 * (len(kl) - 1))],
        "kl_p99": kl[int(0.99 * (len(kl) - 1))],
        "same_top1": same.mean(),
        "perplexity": perplexity(found, windows),
    }


def main() -> None:
    windows = json.load(sys.stdin)
    api.llama_log_set(only_errors, ctypes.c_void_p())
    api.llama_backend_init()
    longest = max(map(len, windows))
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "F32.gguf"
        write_gguf(source, Path(sys.argv[1]))
        model = Model(source, longest)
        exact = [model.log_probabilities(ids) for ids in windows]
        kinds = {name: compare(exact, Model(quantize(source, name), longest), windows)
                 for name in FILE_TYPES}
    print(json.dumps({"perplexity_float32": perplexity(exact, windows), "kinds": kinds}))


if __name__ == "__main__":
    main()
