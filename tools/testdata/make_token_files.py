# SPDX-License-Identifier: Apache-2.0
"""Makes tests/data/tokenizers/token_files.json: tokens named by files next to tokenizer.json.

Each case has such files and AutoTokenizer's result: names, ids, texts. Run it from the root of the
repository after `pip install transformers==5.24.0`; the same version writes the same file. Cases
that the reference refuses are left out. So are ids with gaps: the reference closes the gaps, and
Lockstep keeps them.
"""

import json
import pathlib
import random
import tempfile

import transformers
from transformers import AutoTokenizer

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "data" / "tokenizers"
FLAGS = ("lstrip", "rstrip", "single_word", "normalized", "special")
NAMES = ("bos_token", "eos_token", "unk_token", "pad_token", "image_token", "boi_token")
CHARACTERS = "abcdxyzABCDXYZ<>/_ ."
BASE = {
    "version": "1.0", "normalizer": {"type": "Lowercase"}, "pre_tokenizer": None,
    "post_processor": None, "decoder": {"type": "Fuse"},
    "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
              "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
              "ignore_merges": False, "merges": [["a", "b"]],
              "vocab": {text: i for i, text in enumerate([*CHARACTERS, "ab"])}}}
TOKENS = ("<a>", "<b>", "<c>", "<d>", "<X>", "<ab>", "ab", "<y>")
TEXTS = ("<a>ab<b> <c>. <d>", "a <a> a<X>b<x> <ab>", "<y><Y>  ab.ab ABx <B>",
         " <c> <c>a<c>", "x<d>y <d> <y>.")


def token(text, **flags):
    return {"content": text, **{flag: False for flag in FLAGS}, "special": True, **flags}


def rows(*tokens):
    """Rows for added_tokens in tokenizer.json. decoder() makes an added_tokens_decoder of them."""
    first = len(BASE["model"]["vocab"])
    return [{"id": first + i, **one} for i, one in enumerate(tokens)]


def decoder(listed):
    return {str(row["id"]): {k: v for k, v in row.items() if k != "id"} for row in listed}


def written_cases():
    typed = {"__type": "AddedToken", **token("<c>", rstrip=True)}
    in_json = rows(token("<a>"))
    both = rows(token("<a>", rstrip=True), token("<b>"))
    plain = rows(token("<a>", special=False))
    config, special_map, added = ("tokenizer_config.json", "special_tokens_map.json",
                                  "added_tokens.json")
    yield "named only in the map", in_json, {special_map: {"bos_token": "<a>", "eos_token": "<b>"}}
    yield "objects in the map", in_json, {special_map: {"bos_token": {
        "content": "<b>", "lstrip": True, "rstrip": False, "normalized": True,
        "single_word": False}}}
    yield "the map over the config", in_json, {
        config: {"bos_token": "<a>", "pad_token": "<c>"},
        special_map: {"bos_token": "<b>", "pad_token": None}}
    yield "the map beside a decoder", in_json, {
        config: {"added_tokens_decoder": decoder(in_json)}, special_map: {"bos_token": "<b>"}}
    yield "rows of the decoder", in_json, {config: {"added_tokens_decoder": decoder(both)}}
    yield "a named row of the decoder", plain, {
        config: {"bos_token": "<a>", "added_tokens_decoder": decoder(plain)}}
    yield "named outside of the decoder", plain, {
        config: {"bos_token": "<a>", "added_tokens_decoder": {}}}
    yield "named without a decoder", plain, {config: {"bos_token": "<a>"}}
    yield "added tokens", in_json, {
        config: {"extra_special_tokens": ["<c>"]}, added: {"<b>": 22, "<c>": 23}}
    yield "added tokens of another tokenizer", in_json, {added: {"<b>": 21, "<c>": 5}}
    yield "additional tokens", in_json, {config: {"additional_special_tokens": ["<b>", typed]}}
    yield "additional beside extra ones", in_json, {
        config: {"additional_special_tokens": ["<b>"], "extra_special_tokens": ["<c>"]}}
    yield "additional beside no extra ones", in_json, {
        config: {"additional_special_tokens": ["<b>"], "extra_special_tokens": {}}}
    yield "additional tokens of the map", in_json, {
        special_map: {"additional_special_tokens": ["<b>"]}}
    yield "extra tokens by name", in_json, {
        config: {"extra_special_tokens": {"image_token": "<b>", "other": "<c>"}}}
    yield "extra tokens of both", in_json, {
        config: {"extra_special_tokens": ["<b>"]}, special_map: {"extra_special_tokens": ["<c>"]}}
    yield "named in the vocabulary", in_json, {config: {"unk_token": "ab", "add_bos_token": True}}
    yield "named twice", in_json, {
        config: {"bos_token": "<b>", "eos_token": "<b>", "extra_special_tokens": ["<b>", "<c>"]}}
    yield "ids by order of names", [], {
        config: {"image_token": "<a>", "pad_token": "<b>", "bos_token": "<c>",
                 "extra_special_tokens": ["<d>"]}}


def random_cases(draw):
    def flags():
        return {flag: draw.random() < 0.3 for flag in FLAGS[:4]} | {
            "special": draw.random() < 0.6}

    def some(limit):
        return draw.sample([text for text in TOKENS if text != "ab"], draw.randrange(limit))

    for number in range(60):
        listed = rows(*(token(text, **flags()) for text in some(5)))
        known = [row["content"] for row in listed]
        new = [text for text in some(5) if text not in known]
        named = {name: draw.choice(TOKENS) for name in NAMES if draw.random() < 0.3}
        config = dict(named)
        if draw.random() < 0.5:
            config[draw.choice(("extra_special_tokens", "additional_special_tokens"))] = some(4)
        files = {"tokenizer_config.json": config}
        more = rows(*(token(text, **flags()) for text in known + new))
        for row, old in zip(more, listed):
            # With another value the reference would decode the token by tokenizer.json's row.
            row["normalized"] = old["normalized"]
        if draw.random() < 0.5:
            kept = [row for row in more if row["content"] not in known or draw.random() < 0.6]
            config["added_tokens_decoder"] = decoder(kept)
        elif draw.random() < 0.7:
            files["added_tokens.json"] = {row["content"]: row["id"] for row in more}
        if draw.random() < 0.4:
            files["special_tokens_map.json"] = {
                name: draw.choice(TOKENS) for name in NAMES if draw.random() < 0.3}
        yield f"random {number}", listed, files


def answered(name, listed, files):
    with tempfile.TemporaryDirectory() as folder:
        def write(file, value):
            (pathlib.Path(folder) / file).write_text(json.dumps(value), encoding="utf-8")

        write("tokenizer.json", {**BASE, "added_tokens": listed})
        write("tokenizer_config.json", {})
        for file, value in files.items():
            write(file, value)
        config = json.loads((pathlib.Path(folder) / "tokenizer_config.json").read_text())
        write("tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", **config})
        write("config.json", {"model_type": "llama"})
        tokenizer = AutoTokenizer.from_pretrained(folder)
        texts = []
        for text in TEXTS:
            ids = tokenizer.encode(text, add_special_tokens=False)
            texts.append({
                "text": text, "ids": ids,
                "as_text": tokenizer(text, add_special_tokens=False,
                                     split_special_tokens=True)["input_ids"],
                "decoded": tokenizer.decode(ids, skip_special_tokens=True)})
        return {"name": name, "added_tokens": listed, "files": files,
                "names": tokenizer.special_tokens_map, "texts": texts}


def main():
    cases = [*written_cases(), *random_cases(random.Random(31))]
    value = {"reference": "transformers " + transformers.__version__, "tokenizer": BASE,
             "cases": [answered(*case) for case in cases]}
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":")).replace(
        '{"name"', '\n{"name"')
    (OUT / "token_files.json").write_text(text + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
