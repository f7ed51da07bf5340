# SPDX-License-Identifier: Apache-2.0
"""tools/bench/compare.py, as far as it works without llama.cpp and without measuring."""

import io
import json
import sys
import tempfile
import unittest
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools" / "bench"))

import against  # noqa: E402
import compare  # noqa: E402
import page  # noqa: E402
import report  # noqa: E402
from contestant import Contestant  # noqa: E402
from environment import Problem  # noqa: E402
from shapes import KINDS, SHAPES, case_bytes, case_operations  # noqa: E402
from shapes import limit_seconds, parse_case  # noqa: E402

# "placement" is a class of the two CPUs on which a run was placed: by the time that a cache line
# takes from one to the other (tools/bench/limits.cc). Only runs of one class are compared.
LIMITS = {"threads": 1, "placement": "B", "read_gb_per_s": 20.0, "fp32_gop_per_s": 100.0,
          "bf16_gop_per_s": 200.0}

# A fake build: `bin/lockstep bench --cases -` reports SECONDS seconds for every case.
FAKE_BUILD = """#!/bin/sh
echo '{"weight_bytes": 7}'
while read -r case; do echo "{\\"case\\": \\"$case\\", \\"seconds\\": [SECONDS]}"; done
"""

# Answers like `lockstep bench --cases - --json`. Each case takes a second more than the one before.
ECHO = """
import json, sys
print(json.dumps({"weight_bytes": 7}), flush=True)
for i, line in enumerate(sys.stdin):
    print(json.dumps({"case": line.strip(), "seconds": [float(i)]}), flush=True)
"""


class FakeContestant:
    """Its runs take 1, 2, 3 ... seconds."""

    def __init__(self):
        self.runs = 0

    def seconds(self, _case):
        self.runs += 1
        return float(self.runs)


def run_record(contestant, seconds, placement="B", case="decode:10"):
    return {"record": "run", "shape": "tinyllama", "kind": "bf16", "threads": 1, "case": case,
            "contestant": contestant, "seconds": seconds, "placement": placement}


def pair(this_s, other_s, case="decode:10"):
    return {"record": "pair", "shape": "tiny", "kind": "q4", "layout": "1x1", "case": case,
            "this_s": this_s, "other_s": other_s}


def fake_build(folder, name, seconds):
    """A build folder whose lockstep reports `seconds` for every case."""
    binary = Path(folder) / name / "bin" / "lockstep"
    binary.parent.mkdir(parents=True)
    binary.write_text(FAKE_BUILD.replace("SECONDS", str(seconds)))
    binary.chmod(0o755)
    return str(binary.parents[1])


def run_against(folder, this_s, other_s, *more):
    """The exit code and the output of a comparison of two fake builds."""
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(io.StringIO()):
        code = compare.main(["--build", fake_build(folder, "this", this_s),
                             "--against", fake_build(folder, "other", other_s),
                             "--work", str(Path(folder) / "work"), "--shape", "tiny",
                             "--kinds", "q4", "--threads", "1", "--cases", "decode:10", *more])
    return code, said.getvalue()


class CompareTest(unittest.TestCase):
    def test_a_case_is_parsed_like_in_lockstep_bench(self):
        case = parse_case("decode:128@4096x8")
        self.assertEqual((case.steps, case.prompt, case.batch, case.tokens), (128, 4096, 8, 1024))
        case = parse_case("prefill:512")
        self.assertEqual((case.steps, case.prompt, case.batch, case.tokens), (0, 512, 1, 512))
        for bad in ("", "prefill:0", "prefill:5@7", "decode:", "decode:1x0", "decode:1 "):
            with self.assertRaises(ValueError, msg=bad):
                parse_case(bad)

    def test_a_shape_has_the_weights_of_the_published_model(self):
        tinyllama = SHAPES["tinyllama"]
        weights = tinyllama.layer_weights + 2 * tinyllama.head_weights
        norms = (2 * tinyllama.layers + 1) * tinyllama.hidden
        self.assertEqual(weights + norms, 1_100_048_384)
        seven = SHAPES["llama2-7b-q4"]
        norms = (2 * seven.layers + 1) * seven.hidden
        self.assertEqual(seven.layer_weights + 2 * seven.head_weights + norms, 6_738_415_616)

    def test_a_step_reads_the_experts_that_its_rows_choose(self):
        shape, kind = SHAPES["qwen3-30b-a3b"], KINDS["q8"]
        self.assertAlmostEqual(shape.distinct_mlps(1), shape.chosen)
        self.assertAlmostEqual(shape.distinct_mlps(16), 82.4, places=1)
        one = case_bytes(shape, kind, parse_case("decode:1"))
        dense = case_bytes(SHAPES["qwen3-dense"], kind, parse_case("decode:1"))
        self.assertLess(abs(one / dense - 1), 0.01)  # Only the router differs.
        sixteen = case_bytes(shape, kind, parse_case("decode:1x16"))
        expert = 3 * shape.hidden * shape.ffn * kind.bits / 8
        self.assertAlmostEqual(sixteen - one, shape.layers * (82.4225 - 8) * expert
                               + 15 * 1.5 * shape.kv_bytes, delta=1e5)

    def test_decoding_one_sequence_is_bound_by_bytes_and_a_prompt_by_arithmetic(self):
        shape, kind = SHAPES["tinyllama"], KINDS["bf16"]
        decode, prefill = parse_case("decode:10"), parse_case("prefill:512")
        self.assertAlmostEqual(limit_seconds(shape, kind, decode, LIMITS),
                               case_bytes(shape, kind, decode) / 20e9)
        self.assertAlmostEqual(limit_seconds(shape, kind, prefill, LIMITS),
                               case_operations(shape, prefill) / 200e9)

    def test_a_machine_without_a_dot_product_is_bound_by_float32(self):
        shape, case = SHAPES["tinyllama"], parse_case("prefill:512")
        self.assertAlmostEqual(limit_seconds(shape, KINDS["q8"], case, LIMITS),
                               case_operations(shape, case) / 100e9)

    def test_a_run_during_which_the_placement_changed_is_repeated(self):
        contestant, said = FakeContestant(), iter(["B", "A", "A", "A"])
        self.assertEqual(compare.measure(contestant, "decode:1", lambda: next(said)), (2.0, "A"))

    def test_a_placement_that_never_stays_is_called_mixed(self):
        contestant, said = FakeContestant(), iter("ABABABABABAB")
        self.assertEqual(compare.measure(contestant, "decode:1", lambda: next(said))[1], "mixed")
        self.assertEqual(contestant.runs, compare.ATTEMPTS)

    def test_the_table_compares_medians_within_one_class(self):
        records = [{"record": "limits", "limits": [LIMITS]}]
        records += [run_record(report.PEER, s) for s in (2.0, 4.0, 100.0)]
        records += [run_record("lockstep 1x1", s) for s in (1.0, 2.0, 3.0)]
        records += [run_record("lockstep 1x1", 9.0, "A"), run_record("lockstep 1x1", 1.0, "mixed")]
        rows = [line for line in report.table(records).splitlines() if "decode:10" in line]
        self.assertEqual(len(rows), 2)  # One for placement B, one for A, and none for "mixed".
        self.assertIn("| B | 2.5 (", rows[0])
        self.assertIn("5.0 (", rows[0])
        self.assertIn("**2.00**", rows[0])
        self.assertIn("| A | - |", rows[1])
        self.assertNotIn("**", rows[1])

    def test_a_contestant_is_sent_one_case_at_a_time(self):
        with tempfile.TemporaryDirectory() as folder:
            one = Contestant("echo", [sys.executable, "-c", ECHO])
            one.start(Path(folder) / "log")
            self.assertEqual([one.seconds("decode:1"), one.seconds("decode:1")], [1.0, 2.0])
            self.assertGreater(one.memory_beyond_weights(), 0)
            one.stop()

    def test_a_contestant_that_ends_early_gives_its_last_output(self):
        with tempfile.TemporaryDirectory() as folder:
            one = Contestant("dead", [sys.executable, "-c", "import sys; sys.exit('no such kind')"])
            with self.assertRaisesRegex(Problem, "dead ended early: no such kind"):
                one.start(Path(folder) / "log")

    def test_records_are_added_to_a_file_and_printed_from_it(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "figures.jsonl"
            records = compare.Records(path)
            records.add({"record": "limits", "limits": [LIMITS]})
            records.add(run_record(report.PEER, 4.0))
            compare.Records(path).add(run_record("lockstep 1x1", 2.0))
            self.assertEqual(len(path.read_text().splitlines()), 3)
            json.loads(path.read_text().splitlines()[-1])
            printed = io.StringIO()
            with redirect_stdout(printed):
                self.assertEqual(compare.main(["--print", "--json", str(path)]), 0)
            self.assertIn("**2.00**", printed.getvalue())

    def test_bad_arguments_are_one_line_and_exit_code_2(self):
        for arguments in (["--kinds", "q5"], ["--cases", "decode"], ["--threads", "two"]):
            said = io.StringIO()
            with redirect_stderr(said):
                self.assertEqual(compare.main(arguments), 2, arguments)
            self.assertEqual(said.getvalue().count("\n"), 1, said.getvalue())

    def test_the_table_replaces_only_the_text_between_the_comments_of_a_page(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "figures.jsonl"
            records = compare.Records(path)
            records.add({"record": "build", "measured": "Measured at commit abc."})
            records.add({"record": "limits", "limits": [LIMITS]})
            records.add(run_record("lockstep 1x1", 2.0))
            text = Path(folder) / "page.md"
            text.write_text("# Before\n<!-- compare.py: begin -->\nold\n"
                            "<!-- compare.py: end -->\nafter\n")
            with redirect_stdout(io.StringIO()):
                self.assertEqual(compare.main(["--print", "--json", str(path),
                                               "--write-page", str(text)]), 0)
            written = text.read_text()
            self.assertTrue(written.startswith("# Before\n<!-- compare.py: begin -->\n"
                                               "Measured at commit abc.\n"), written)
            self.assertTrue(written.endswith("|\n<!-- compare.py: end -->\nafter\n"), written)
            self.assertIn("| lockstep, one worker |", written)
            self.assertNotIn("old", written)

    def test_a_page_without_the_comments_is_not_changed(self):
        with tempfile.TemporaryDirectory() as folder:
            text = Path(folder) / "page.md"
            text.write_text("nothing\n")
            with self.assertRaisesRegex(Problem, "must have one <!-- compare.py: begin -->"):
                page.replace_block(text, "compare.py", "new")
            self.assertEqual(text.read_text(), "nothing\n")

    def test_every_page_that_a_command_rewrites_has_the_comments(self):
        docs = Path(__file__).resolve().parents[2] / "docs"
        for name, block in (("performance.md", "compare.py"), ("quantization.md", "accuracy.py")):
            text = (docs / name).read_text()
            for side in ("begin", "end"):
                self.assertEqual(text.count(f"<!-- {block}: {side} -->\n"), 1, name)
            self.assertIn("commit ", text.split(f"<!-- {block}: begin -->")[1], name)

    def test_the_interval_of_the_median_is_between_sorted_ratios(self):
        # A ratio is above or below the true median with equal chance, like a coin that is tossed.
        # 2 * P(at most 1 head of 11) = 0.012, and 2 * P(at most 2) = 0.065. So the interval of 95 %
        # leaves out one ratio at each end.
        self.assertEqual(against.interval([float(i) for i in range(11)]), (1.0, 9.0))
        self.assertEqual(against.interval([float(i) for i in range(21)]), (5.0, 15.0))
        self.assertEqual(against.interval([3.0, 1.0, 2.0]), (1.0, 3.0))

    def test_a_case_fails_if_it_is_slower_in_the_median_and_in_the_whole_interval(self):
        def passed(*ratios):
            return against.verdict("decode:10", [pair(1.0, ratio) for ratio in ratios]).passed
        self.assertTrue(passed(*[1.0] * 11))
        self.assertTrue(passed(*[0.985] * 11))  # Certainly slower, but by less than 2 %.
        self.assertFalse(passed(*[0.97] * 11))
        self.assertFalse(passed(*[0.97] * 10, 1.2))  # One faster round changes no verdict.
        self.assertTrue(passed(*[0.97] * 8, *[1.2] * 3))  # It may be slower; it may be noise.
        self.assertTrue(passed(*[1.3] * 11))

    def test_rates_and_ratios_are_medians_of_the_rounds(self):
        one = against.verdict("decode:10", [pair(2.0, 4.0), pair(5.0, 5.0), pair(4.0, 6.0)])
        self.assertEqual((one.this_per_s, one.other_per_s, one.ratio), (2.5, 2.0, 1.5))

    def test_a_build_that_is_as_fast_passes_with_exit_code_0(self):
        with tempfile.TemporaryDirectory() as folder:
            code, said = run_against(folder, 2, 2)
            self.assertEqual(code, 0)
            self.assertIn("| tiny | q4 | 1x1 | decode:10 | 5.0 | 5.0 | 1.000 | 1.000 to 1.000 "
                          "| 11 | yes |", said)

    def test_a_build_that_is_slower_fails_with_exit_code_1_and_keeps_its_records(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "figures.jsonl"
            code, said = run_against(folder, 2, 1, "--json", str(path))
            self.assertEqual(code, 1)
            self.assertIn("| 0.500 | 0.500 to 0.500 | 11 | NO |", said)
            records = [json.loads(line) for line in path.read_text().splitlines()]
            self.assertEqual(sum(record["record"] == "pair" for record in records), 11)
            self.assertEqual(records[-1]["record"], "verdict")
            self.assertFalse(records[-1]["passed"])
            printed = io.StringIO()
            with redirect_stdout(printed):
                self.assertEqual(compare.main(["--print", "--json", str(path)]), 0)
            self.assertIn("| 0.500 | 0.500 to 0.500 | 11 | NO |", printed.getvalue())

    def test_an_earlier_run_in_the_same_file_is_ignored_by_the_gate(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "figures.jsonl"
            path.write_text("".join(json.dumps(pair(2.0, 1.0)) + "\n" for _ in range(50)))
            self.assertEqual(run_against(folder, 1, 1, "--json", str(path))[0], 0)

    def test_fewer_rounds_than_the_gate_needs_and_a_missing_build_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(run_against(folder, 1, 1, "--rounds", "3")[0], 2)
            said = io.StringIO()
            with redirect_stderr(said):
                self.assertEqual(compare.main(["--against", f"{folder}/none", "--work", folder,
                                               "--build", f"{folder}/this"]), 2)
            self.assertIn("none/bin/lockstep: must be a built program", said.getvalue())


if __name__ == "__main__":
    unittest.main()
