# SPDX-License-Identifier: Apache-2.0
"""Makes the small tokenizers of tests/data/tokenizers, with cases from the reference.

Each folder gets tokenizer.json, tokenizer_config.json and cases.json: texts, and the results of
PyPI's `tokenizers` for them. Run it from the root of the repository after `pip install
tokenizers==0.23.3`; the same version writes the same files.
"""

import json
import pathlib
import random

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "data" / "tokenizers"

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")

CORPUS = """The worker joins the coordinator, and the coordinator sends the program to the worker.
Every rank computes its part of the product; the parts are gathered in the order of the ranks.
It's what they're for: we've said so, I'm sure, and you'd agree; they'll see 1234 or 567,890.
for (int i = 0; i < count; ++i) {\n    total += values[i] * weights[i];\n}\n\treturn total;
Der Läufer übergibt die Größe. Où est le café? ¿Cómo está? Привет, мир! 你好，世界。 こんにちは
The the the and and and of of of in in in to to to a token a token a token. ... !!! ??? --- === ###
""" * 4

TEXTS = [
    "", " ", "  ", "a", " a", "Hello, world!", "The worker joins the coordinator.",
    "  two blanks before", "two behind  ", "many          in between", "\n", "\n\n\n", " \n \n x",
    "a\tb\t\tc", "tabs\t \t and\r\nlines\r\n\r\n", "It's I'M we'VE they'll 'tis 'S 'x 'ſ",
    "1 22 333 4444 55555 ½ ² Ⅷ ٣٤٥٦ 1234567890", "price: $1,234.56 (50% off!)",
    "for (int i = 0; i < n; ++i) { x[i] += y; }", "naïve café ﬁne Å Å e\u0301 \u1e9b\u0323",
    "Привет, мир!", "你好，世界。这是一个测试", "こんにちは カタカナ ｶﾞ", "안녕하세요 \u1112\u1161\u11ab",
    "مرحبا بالعالم", "नमस्ते दुनिया", "🙂👩‍👩‍👧‍👦🇩🇪 👍🏽", "\u200b\u00a0\u3000\u2028x\u180ey\ufeff",
    "\x00\x01\x7f", "▁already▁marked ▁ ▁▁", "<s> not </s> a <unk> token <0x41>", "<|endoftext|>",
    "a<|endoftext|>b <|endoftext|> c", "<|im_start|>user\nhi<|im_end|>\n",
    "<|im_start|><|im_start|>",
    "  <mask>  fill  <mask>", "xword word wordy word.", "<|endof", "<tool> x </tool>x<TOOL>",
    "ÄÖÜ ẞ İstanbul ΑΣ", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𐐀 🜁", "a" * 200, "ab " * 60, "\U0001f600" * 20, " " * 40 + "x",
]


def train(tokenizer, size, **options):
    trainer = trainers.BpeTrainer(vocab_size=size, show_progress=False, **options)
    tokenizer.train_from_iterator(CORPUS.split("\n"), trainer)


def byte_level():
    """GPT-2's kind, with NFC and runs of blanks as non-special tokens, as in GPT-NeoX."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    train(tokenizer, 420, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.add_special_tokens(["<|endoftext|>", "<|padding|>"])
    tokenizer.add_tokens([AddedToken(" " * count, normalized=True) for count in (8, 4, 2)])
    tokenizer.add_tokens([AddedToken("<mask>", lstrip=True, normalized=False),
                          AddedToken("word", single_word=True, normalized=True)])
    return tokenizer, {"eos_token": "<|endoftext|>"}


def sentencepiece_like():
    """Llama 2's kind: blanks as marks, byte fallback, a begin token, no words."""
    pieces = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % byte for byte in range(256)]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    train(tokenizer, 500, special_tokens=pieces)
    spec = json.loads(tokenizer.to_str())
    spec["added_tokens"] = [token for token in spec["added_tokens"] if token["id"] < 3]
    spec["pre_tokenizer"] = None
    tokenizer = Tokenizer.from_str(json.dumps(spec))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence([
        decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
        decoders.Strip(" ", 1, 0)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    return tokenizer, {"bos_token": "<s>", "eos_token": "</s>", "add_bos_token": True}


def split_by(pattern, size):
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    train(tokenizer, size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    return tokenizer


def llama3_like():
    tokenizer = split_by(LLAMA3, 420)
    tokenizer.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>", "<|endoftext|>"])
    begin = tokenizer.token_to_id("<|begin_of_text|>")
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(
            single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A <|begin_of_text|> $B",
            special_tokens=[("<|begin_of_text|>", begin)])])
    return tokenizer, {"bos_token": {"content": "<|begin_of_text|>"},
                       "eos_token": "<|end_of_text|>"}


def qwen2_like():
    tokenizer = split_by(QWEN2, 420)
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tokenizer.add_tokens([AddedToken("<tool>", normalized=False),
                          AddedToken("</tool>", rstrip=True, normalized=False)])
    return tokenizer, {"eos_token": "<|im_end|>"}


def cases_of(tokenizer):
    """Texts with their ids, and random ids with their text."""
    draw = random.Random(1)
    cases = []
    for text in TEXTS:
        ids = tokenizer.encode(text).ids
        cases.append({
            "text": text, "ids": ids,
            "plain": tokenizer.encode(text, add_special_tokens=False).ids,
            "decoded": tokenizer.decode(ids, skip_special_tokens=True),
            "decoded_all": tokenizer.decode(ids, skip_special_tokens=False)})
    tokenizer.encode_special_tokens = True
    for case in cases:
        case["as_text"] = tokenizer.encode(case["text"], add_special_tokens=False).ids
    tokenizer.encode_special_tokens = False
    size = max(tokenizer.get_vocab().values()) + 3
    for _ in range(30):
        ids = [draw.randrange(size) for _ in range(draw.randrange(1, 12))]
        cases.append({"ids": ids, "decoded": tokenizer.decode(ids, skip_special_tokens=True),
                      "decoded_all": tokenizer.decode(ids, skip_special_tokens=False)})
    return cases


def write(folder, name, value):
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), sort_keys=False)
    (folder / name).write_text(text + "\n", encoding="ascii")


def main():
    for make in (byte_level, sentencepiece_like, llama3_like, qwen2_like):
        tokenizer, config = make()
        folder = OUT / make.__name__
        folder.mkdir(parents=True, exist_ok=True)
        write(folder, "tokenizer.json", json.loads(tokenizer.to_str()))
        write(folder, "tokenizer_config.json", config)
        write(folder, "cases.json",
              {"reference": "tokenizers " + tokenizers.__version__, "cases": cases_of(tokenizer)})


if __name__ == "__main__":
    main()
