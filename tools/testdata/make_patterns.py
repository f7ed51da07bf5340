# SPDX-License-Identifier: Apache-2.0
"""Makes tests/data/patterns: patterns, texts, and where the reference cuts them.

published.json has the split patterns of published tokenizers, dialect.json every construct of
Oniguruma's dialect, random.json random patterns. A case is a pattern and texts. Each text has the
ends of its parts, counted in characters; an end is negative if the part is not a match. A case
without texts is a pattern that the reference refuses. Run it from the root of the repository after
`pip install tokenizers==0.23.3`; the same version writes the same files.
"""

import json
import pathlib
import random

from tokenizers import Regex, pre_tokenizers

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "data" / "patterns"

CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
UPPER, LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
NO_HAN = r"&&[^\p{Han}]"
BLANKS = r"|\s*[\r\n]+|\s+(?!\S)|\s+"


def cased(upper, lower, end):
    """Words of any capitals and then small letters."""
    return (rf"[^\r\n\p{{L}}\p{{N}}]?[{upper}]*[{lower}]+{end}"
            rf"|[^\r\n\p{{L}}\p{{N}}]?[{upper}]+[{lower}]*{end}")


PUBLISHED = [
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + BLANKS,
    CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*" + BLANKS,
    CONTRACTION + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*" + BLANKS,
    CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{L}{1}|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+" + BLANKS,
    cased(UPPER, LOWER, CONTRACTION + "?") + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + BLANKS,
    cased(UPPER, LOWER, "") + r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + BLANKS,
    r"[\p{Han}]+|" + cased(UPPER + NO_HAN, LOWER + NO_HAN, CONTRACTION + "?")
    + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + BLANKS,
    r"[\p{Han}]+|[\p{L}&&[^\p{Han}]]+|\p{N}{1,3}|\s+",
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
    r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]"
    r"|\s+(?!\S)|\s+",
    r" ?[^(\s|[.,!?…。，、।۔،])]+",
    r" ?[^(\s|.,!?…。，、।۔،)]+",
    r"\d{1,3}(?=(?:\d{3})*\b)",
    r"(?=(\d{3})+(?!\d))",
    r"\p{N}{1,3}", r"\p{N}+", r"\p{N}", r"[0-9][0-9][0-9]", r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+",
    r"\s+$", r"[\p{P}\$\+<=>\^~\|`]+", r"[一-龥぀-ゟ゠-ヿ]+", r"[一-龥ࠀ-一가-\x{D7FF}]+",
    r"\s?[!-/:-~！-／：-～‘-‟　-。]+", r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯ]+",
    r"[!" + '"' + r"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^" + "\r\n"
    + r"\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[" + "\r\n" + r"]*" + BLANKS,
    r"<sentinel:[0-9]+>", r"(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", r"([\t\n]|    |  )",
    r"[\p{P}!-/:-@\[-`{-~]", r"<0x[0-9A-F]{2}>", r" {2,}|\n", r"▁",
]

DIALECT = [
    # Counts and repeats: "{n,m}+" is a repeat of a repeat, "{n}?" an optional one.
    r"a{1,3}+", r"a{2}?", r"a{,2}", r"a{3,1}", r"a{2,}?b", r"a{,3}?b", r"a{3}+", r"a{1,2}{3}?",
    r"(?:a{2})?+a", r"a{0}b", r"a++", r"a?+a", r"a*+a", r"a**", r"a+?", r"a??", r"x?*",
    r"(?:x+)??x",
    r"a{", r"{", r"a{,}", r"a{ 1}", r"a{1,2", r"(?:a?)*b", r"(?:|a)+b?", r"(?:a*b?)*c", r"(a|b?)+",
    # Classes.
    r"[a-z&&[^aeiou]]", r"[^a&&b]", r"[a&&]", r"[&&a]", r"[a-z&&b-y&&c]", r"[^a-z&&b]", r"[[^a]b]",
    r"[^[^a]b]", r"[a[b&&c]]", r"[[a-c]&&[b-d]]", r"[]a]", r"[^]]", r"[a-]", r"[-a]", r"[a-c-]",
    r"[a-c-e]", r"[+--]", r"[--/]", r"[a&b]", r"[\b]", r"[\R]", r"[\w\-.]", r"[^\w\s]", r"[a]]",
    r"[[:alpha:]]", r"[[:^alpha:]1]", r"[[:punct:]]", r"[[:upper:][:digit:]]", r"[[:space:]]+",
    r"[[:xdigit:]]+", r"[[:word:]]+", r"[[:graph:]]+", r"[[:cntrl:]]", r"[[:print:]]+",
    r"[[:blank:]]", r"[[:alnum:]]+", r"[[:ascii:]]+", r"[[:lower:]]+",
    # Properties.
    r"\p{^L}", r"\P{^L}", r"\pL", r"\p{Hiragana}+", r"\p{katakana}", r"\p{Script_Extensions}",
    r"\p{Latin}+", r"\p{In_Hiragana}", r"\p{Letter}+", r"\p{lowercase-letter}", r"\p{ l u }",
    r"\p{Alphabetic}+", r"\p{Emoji}", r"\p{punct}", r"\p{Any}", r"\p{Kawi}", r"\p{Garay}",
    r"[\p{^Han}]", r"\p{Arabic}", r"\p{Foo}", r"\p{Word}+", r"\p{Greek}+", r"\p{Cyrillic}+",
    # Escapes.
    r"\h+", r"\H+", r"\R", r"\N+", r"\O+", r"\x41", r"\x{e9}", r"\u0041", r"\t|\v|\a|\e|\f",
    r"\_\é\.", r"\X", r"\K", r"a\Kb", r"\Gx", r"\101", r"\0", r"\cA", r"\w+", r"\W", r"²\b",
    # Anchors and looks.
    r"\b", r"\B", r"\Aa", r"a\z", r"a\Z", r"^a", r"a$", r"$", r"^", r"\Z", r"(?<=a|bc)d",
    r"(?<=a*)d", r"(?<!a|bc)d", r"(?<=^)a", r"(?<=a.*)b", r"a(?=b)", r"a(?!b)", r"(?<=\s)\S+",
    r"(?=a)*b", r"(?<=(?=a))a",
    # Groups.
    r"(?>a+)b", r"(?>a|ab)c", r"(?<n>a)b", r"(?'n'a)b", r"a(?#c)b", r"(?x: a b # c)", r"(?m:.)",
    r"(?s:.)", r"(?:)", "", r"a||b", r"(?~b)", r"(a)\1", r"(?<n>a)\k<n>", r"(?(1)a|b)",
    r"(*FAIL)|a",
    r"(a", r"a)", r"(?P<n>a)",
    # Case.
    r"(?i)ss", r"(?i:[ß])", r"(?i)[\p{L}]+", r"(?i)\p{Lu}", r"(?i)[\p{Lu}]", r"(?i)[^s]", r"(?i:K)",
    r"(?i:st)", r"(?i)a(?-i)b", r"a(?i)b|c", r"(?im-x:A.)", r"(?i)ss+", r"(?i)[aß]b", r"(?i:ﬁ)",
    r"(?i)\x{df}", r"(?i:ŉ)", r"(?i)[^ß]",
    # Not well-formed.
    "a\\", r"[a", r"[z-a]", r"*a", r"[a-\d]", r"[\d-a]", r"[[:foo:]]", r"\k<x>",
]

CHARACTERS = list("aabbcdAB1 2-_'\n\r.s") + [
    "é", "ß", "漢", "あ", "ア", "\u0301", "²", "\u180e", "\u3000", "Σ", "ſ", "ﬁ", "\u0085", "٣", "ж",
    "😀", "k", "K", "\u212a", "\u200d"]
TEXTS = [
    "It's 1234567 TOKENS,  it'Ll cost $1,234.50!\n\n  you'VE\tseen\r\n", "aabab xaxb aaaa bcd abcd",
    "漢字かなカナ 中a1 naïve Ａ Ⅷ½² ٣٤٥ привет ΣΑΣ", "a0fzg {1} a{ a{,} ]-& xx\x07\x1b\x01",
    "ss SS ß ﬁ fi ſT st sS kK\u212a ŉ ʼn", "a\r\nb\n\n\u0085c\u2028 ^$ \u200b\u180e\u3000x \n",
    "e\u0301 😀👍🏽 \U00011380\U00011f04\U00010d50 \U0001e030", "   a  12 345a 6789  .,;  ",
    "ABCdefGHI camelCase HTTPServer_x A", "<0x0A>IMGIMGABZ ▁▁a<sentinel:12>",
]
# Text in which nearly every character begins or ends a possible match.
UNITS = ["A", "a", "1", " ", "\n", " \n", "'", "漢", "e\u0301", "aB", "1,"]


def cuts(pattern, text):
    """None if the reference fails."""
    try:
        parts = pre_tokenizers.Split(pattern, "isolated").pre_tokenize_str(text)
        matches = {place for _, place in
                   pre_tokenizers.Split(pattern, "removed", invert=True).pre_tokenize_str(text)}
    except BaseException:  # pylint: disable=broad-except  (a panic of the reference)
        return None
    return [end if (begin, end) in matches else -end for _, (begin, end) in parts]


def case(pattern, texts):
    try:
        compiled = Regex(pattern)
    except Exception:  # pylint: disable=broad-except
        return [pattern]
    found = [[text, cuts(compiled, text)] for text in texts]
    return [pattern, *[pair for pair in found if pair[1] is not None]]


class RandomPatterns:
    """Patterns of all constructs, without those in which the reference has bugs: a set that is all
    of Unicode, and counts of expressions that may be empty."""

    def __init__(self, seed):
        self.draw = random.Random(seed)

    def letter(self):
        c = self.draw.choice(CHARACTERS)
        return "\\" + c if c in ".-'" else c

    def named(self):
        return self.draw.choice([
            r"\p{L}", r"\p{N}", r"\p{Lu}", r"\p{Ll}", r"\P{L}", r"\p{M}", r"\p{P}", r"\p{Han}",
            r"\p{^Han}", r"\p{Hiragana}", r"\p{Latin}", r"\s", r"\S", r"\d", r"\D", r"\w", r"\W",
            r"\h", r"\p{Zs}"])

    def char_class(self, depth=0):
        items = "^" if depth == 0 and self.draw.random() < 0.3 else ""
        for _ in range(self.draw.randint(1, 3)):
            kind = self.draw.random()
            if kind < 0.45:
                items += self.letter()
            elif kind < 0.6:
                items += self.draw.choice(["a-c", "A-Z", "0-9", "a-z", "あ-ん"])
            elif kind < 0.8:
                items += self.named()
            elif kind < 0.9 and depth < 2:
                items += self.char_class(depth + 1)
            else:
                items += self.draw.choice(["[:alpha:]", "[:digit:]", "[:punct:]", "[:upper:]"])
        if self.draw.random() < 0.2:
            items += "&&" + self.named()
        return "[" + items + "]"

    def atom(self, depth, behind):
        kind = self.draw.random()
        if kind < 0.4 or depth > 3:
            return self.letter(), True
        if kind < 0.55:
            return self.named(), True
        if kind < 0.7:
            return self.char_class(), True
        if kind < 0.75:
            return self.draw.choice([".", r"\N", "\\R" if not behind else "."]), True
        opening = "(?:" if behind else self.draw.choice(
            ["(", "(?:", "(?i:", "(?m:", "(?-i:", "(?>", "(?<n>"])
        return opening + self.alternatives(depth + 1, behind) + ")", False

    def zero_width(self, depth):
        kind = self.draw.random()
        if kind < 0.4:
            return self.draw.choice([r"\b", r"\B", "^", "$", r"\A", r"\z", r"\Z"])
        behind = kind > 0.75
        opening = self.draw.choice(["(?<=", "(?<!"] if behind else ["(?=", "(?!"])
        return opening + self.alternatives(depth + 2, behind) + ")"

    def sequence(self, depth, behind):
        items = ""
        for _ in range(self.draw.choice([1, 1, 2, 2, 3, 4])):
            if self.draw.random() < 0.13 and depth < 3 and not behind:
                items += self.zero_width(depth)
                continue
            atom, is_single = self.atom(depth, behind)
            items += atom
            if self.draw.random() < 0.5:
                counts = ["{2}", "{1,3}", "{,2}", "{2,}"] if is_single else []
                items += self.draw.choice(["*", "+", "?", "*", "+", "?", *counts])
                items += self.draw.choice(["", "", "", "?"] + ([] if behind else ["+"]))
        return items

    def alternatives(self, depth=0, behind=False):
        return "|".join(self.sequence(depth, behind)
                        for _ in range(self.draw.choice([1, 1, 1, 2, 3])))

    def text(self):
        letters = [self.draw.choice(CHARACTERS) for _ in range(self.draw.choice([2, 4, 8, 20]))]
        return "".join(self.draw.choice(letters) for _ in range(self.draw.randint(1, 25)))


def random_cases(seed, count):
    patterns = RandomPatterns(seed)
    cases = []
    while len(cases) < count:
        pattern = patterns.alternatives()
        if len(pattern) <= 50:
            cases.append(case(pattern, [patterns.text() for _ in range(6)]))
    return cases


def write(name, cases):
    lines = [json.dumps(row, ensure_ascii=True, separators=(",", ":")) for row in cases]
    (OUT / name).write_text("[" + ",\n".join(lines) + "]\n", encoding="ascii")


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    long = [unit * 12 + tail for unit in UNITS for tail in ("", "a", "1", "!")]
    write("published.json", [case(pattern, TEXTS + long) for pattern in PUBLISHED])
    write("dialect.json", [case(pattern, TEXTS) for pattern in DIALECT])
    write("random.json", random_cases(31, 300))


if __name__ == "__main__":
    main()
