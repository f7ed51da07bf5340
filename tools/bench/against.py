# SPDX-License-Identifier: Apache-2.0
"""Two builds of lockstep, interleaved: the ratio of their times, and whether one became slower.

Both builds are loaded at once and measure each case once per round, in alternating order. A round
gives one ratio per case: the other build's time divided by this build's, above 1 if this build is
faster. The gate uses the median of the rounds' ratios and its 95 % confidence interval. The ends of
the interval are two of the sorted ratios, chosen by the binomial distribution, so the confidence
holds for any distribution of ratios.
"""

from dataclasses import asdict, dataclass
from math import comb
from pathlib import Path
from statistics import median

from contestant import Contestant
from environment import Problem, built, say
from page import commit_of
from report import markdown
from shapes import CONTEXT, KINDS, SHAPES, parse_case

CASES = ("decode:64", "prefill:512", "decode:16x16")
QUICK_CASES = ("decode:16", "prefill:128", "decode:4x16")
KINDS_COMPARED = "q4,q8,bf16"
MIN_ROUNDS = 11
MIN_RATIO = 0.98
CONFIDENCE = 0.95


def interval(ratios: list[float]) -> tuple[float, float]:
    """The confidence interval of the true median. With few rounds it covers all ratios."""
    ordered, count = sorted(ratios), len(ratios)
    outside, index = 2 * 0.5 ** count, 0
    while outside + 2 * comb(count, index + 1) * 0.5 ** count <= 1 - CONFIDENCE:
        index += 1
        outside += 2 * comb(count, index) * 0.5 ** count
    return ordered[index], ordered[-1 - index]


@dataclass(frozen=True)
class Verdict:
    """The result of one case's rounds."""

    this_per_s: float
    other_per_s: float
    ratio: float
    low: float
    high: float
    rounds: int

    @property
    def passed(self) -> bool:
        return self.ratio >= MIN_RATIO or self.low <= 1 <= self.high


def verdict(case: str, pairs: list[dict]) -> Verdict:
    ratios = [pair["other_s"] / pair["this_s"] for pair in pairs]
    tokens = parse_case(case).tokens
    return Verdict(tokens / median(pair["this_s"] for pair in pairs),
                   tokens / median(pair["other_s"] for pair in pairs),
                   median(ratios), *interval(ratios), len(ratios))


def verdicts(records: list[dict]) -> dict:
    """By shape, kind, layout of workers and case, in the order of measuring."""
    groups: dict = {}
    for record in records:
        if record["record"] == "pair":
            key = (record["shape"], record["kind"], record["layout"], record["case"])
            groups.setdefault(key, []).append(record)
    return {key: verdict(key[3], pairs) for key, pairs in groups.items()}


def table(records: list[dict]) -> str:
    rows = [(*key, f"{one.other_per_s:.1f}", f"{one.this_per_s:.1f}", f"{one.ratio:.3f}",
             f"{one.low:.3f} to {one.high:.3f}", str(one.rounds), "yes" if one.passed else "NO")
            for key, one in verdicts(records).items()]
    return markdown(("shape", "kind", "workers x threads", "case", "other, tokens/s",
                     "this, tokens/s", "ratio", "95 % interval", "rounds", "gate"), rows)


def command(options, build: Path, kind: str, threads: int) -> list[str]:
    """A build's `lockstep bench`, which reads cases."""
    shape = SHAPES[options.shape]
    positions = max(case.batch * (case.prompt + case.steps + 64) for case in options.cases)
    return [str(built(build, "lockstep")), "bench", str(options.work / options.shape),
            "--random-weights", "1", "--weight-cache", "off",
            "--workers", str(options.workers), "--threads", str(threads),
            # Twice the memory: the first sequences continue until the last one has its steps.
            "--max-context", str(CONTEXT), "--kv-memory", str(2 * positions * shape.kv_bytes),
            "--cases", "-", "--repeat", "1", "--json", *KINDS[kind].flags]


def measure_kind(options, kind: str, threads: int, records) -> None:
    """All rounds of one kind of weights and one number of threads."""
    this = Contestant("this build", command(options, options.build, kind, threads))
    other = Contestant("other build", command(options, options.against, kind, threads))
    common = {"record": "pair", "shape": options.shape, "kind": kind,
              "layout": f"{options.workers}x{threads}"}
    try:
        for one in (this, other):
            one.start(options.work / "contestants.log")
        say(f"{options.shape} {kind}, {common['layout']}: both builds are loaded")
        for turn in range(options.rounds):
            for case in options.cases:
                seconds = {}
                for one in (this, other) if turn % 2 == 0 else (other, this):
                    seconds[one.name] = one.seconds(case.name)
                pair = {**common, "case": case.name, "round": turn,
                        "this_s": seconds[this.name], "other_s": seconds[other.name]}
                records.add(pair)
                say(f"round {turn + 1} of {options.rounds}: {case.name} "
                    f"ratio {pair['other_s'] / pair['this_s']:.3f}")
    finally:
        this.stop()
        other.stop()


def measure(options, records) -> bool:
    """Whether every case passed the gate. Prints the table of this run; all records are kept."""
    if options.rounds < MIN_ROUNDS:
        raise Problem(f"--rounds: must be {MIN_ROUNDS} or more, found {options.rounds}")
    before = len(records.all)
    builds = {"this": f"{options.build} ({commit_of(options.build)})",
              "other": f"{options.against} ({commit_of(options.against)})"}
    records.add({"record": "builds", **builds})
    for kind in options.kinds:
        for threads in options.threads:
            measure_kind(options, kind, threads, records)
    found = records.all[before:]
    for key, one in verdicts(found).items():
        shape, kind, layout, case = key
        records.add({"record": "verdict", "shape": shape, "kind": kind, "layout": layout,
                     "case": case, **asdict(one), "passed": one.passed})
    print(f"this: {builds['this']}\nother: {builds['other']}\n\n{table(found)}")
    return all(one.passed for one in verdicts(found).values())
