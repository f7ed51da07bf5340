# SPDX-License-Identifier: Apache-2.0
"""Makes tests/data/tokenizers/characters.json: the reference's results for every character.

Run it from the root of the repository after `pip install tokenizers==0.23.3`.
"""

import json
import pathlib

from tokenizers import normalizers, pre_tokenizers

OUT = (pathlib.Path(__file__).resolve().parents[2] / "tests" / "data" / "tokenizers"
       / "characters.json")

CHARACTERS = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
SCRIPTS = pre_tokenizers.UnicodeScripts()

SCRIPT_TEXTS = ["", " ", "  ", " a", "a ", "a b", "a, b", "1a", "a1б", "ab  你好ー ひカ 1,a б",
                "\u0301a\u0301", "\U000e0001a", "한국 日本 ニホン にほん", "αβ\nγ\tд", "a\ue000б", "🙂a🙂"]


def runs(values):
    """[[first character, value], ...] at each change of the value."""
    found = []
    for character, value in zip(CHARACTERS, values):
        if not found or found[-1][1] != value:
            found.append([ord(character), value])
    return found


def normalized(normalizer):
    """By character: its normalized form between two letters."""
    return [normalizer.normalize_str("a" + c + "b")[1:-1] for c in CHARACTERS]


def is_cut(first, second):
    return len(SCRIPTS.pre_tokenize_str(first + second)) == 2


def scripts():
    """By character: the number of its script; -1: it is split from no neighbour."""
    first_of = []  # A character of each script.
    numbers = []
    for c in CHARACTERS:
        if not is_cut(c, "a") and not is_cut(c, "б"):
            numbers.append(-1)
            continue
        if not numbers or numbers[-1] < 0 or is_cut(first_of[numbers[-1]], c):
            same = [i for i, other in enumerate(first_of) if not is_cut(other, c)]
            if not same:
                first_of.append(c)
            numbers.append(same[0] if same else len(first_of) - 1)
        else:
            numbers.append(numbers[-1])
    return numbers


def main():
    nmt = normalized(normalizers.Nmt())
    accents = normalized(normalizers.StripAccents())
    data = {
        "StripAccents": runs([made == c for c, made in zip(CHARACTERS, accents)]),
        "Nmt": [[ord(c), made] for c, made in zip(CHARACTERS, nmt) if made != c],
        "UnicodeScripts": runs(scripts()),
        "texts": [[text, [piece for piece, _ in SCRIPTS.pre_tokenize_str(text)]]
                  for text in SCRIPT_TEXTS]}
    assert all(made in ("", c) for c, made in zip(CHARACTERS, accents))
    OUT.write_text(json.dumps(data, separators=(",", ":")) + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
