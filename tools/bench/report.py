# SPDX-License-Identifier: Apache-2.0
"""Converts records of runs to a table of medians, shares of the machine's limits and ratios."""

from statistics import median

from shapes import KINDS, SHAPES, limit_seconds, parse_case

PEER = "llama.cpp"
ONE_WORKER, WORKERS = "lockstep, one worker", "lockstep, one worker per thread"
COLUMNS = (PEER, ONE_WORKER, WORKERS)


def column_of(contestant: str) -> str:
    """The column of "lockstep WORKERSxTHREADS", or of another program."""
    if not contestant.startswith("lockstep "):
        return contestant
    return ONE_WORKER if contestant.startswith("lockstep 1x") else WORKERS


def markdown(header: tuple, rows: list[tuple]) -> str:
    """A table; "" without rows."""
    if not rows:
        return ""
    lines = [" | ".join(header), " | ".join(["---"] * len(header)), *map(" | ".join, rows)]
    return "\n".join(f"| {line} |" for line in lines)


def medians(records: list[dict], key) -> dict:
    """The median of the records' values, by key(record) -> (group, value)."""
    groups: dict = {}
    for record in records:
        group, value = key(record)
        groups.setdefault(group, []).append(value)
    return {group: median(values) for group, values in groups.items()}


def limits_of(records: list[dict], threads: int, placement: str) -> dict:
    """Median limits of that class of placement; of all classes if it never occurred."""
    rows = [row for record in records for row in record["limits"] if row["threads"] == threads]
    of_class = [row for row in rows if row["placement"] == placement]
    names = [name for name in rows[0] if name.endswith("_per_s")]
    return {name: median(row[name] for row in of_class or rows) for name in names}


def cell(tokens_per_s: float | None, share: float, ratio: float | None) -> str:
    if tokens_per_s is None:
        return "-"
    text = f"{tokens_per_s:.1f} ({100 * share:.0f} %)"
    return text if ratio is None else f"{text} **{ratio:.2f}**"


def row_of(record: dict) -> tuple:
    return (record["shape"], record["kind"], record["threads"], record["case"],
            record["placement"])


def table(records: list[dict]) -> str:
    """One row per case and class of placement."""
    runs = [record for record in records if record["record"] == "run"]
    limits = [record for record in records if record["record"] == "limits"]
    times = medians(runs, lambda r: ((row_of(r), column_of(r["contestant"])), r["seconds"]))
    found = {column_of(r["contestant"]) for r in runs}
    names = [name for name in COLUMNS if name in found]
    rows = []
    for row in dict.fromkeys(row_of(r) for r in runs):
        shape, kind, threads, case, placement = row
        if placement == "mixed":
            continue
        least = limit_seconds(SHAPES[shape], KINDS[kind], parse_case(case),
                              limits_of(limits, threads, placement))
        cells = []
        for name in names:
            seconds = times.get((row, name))
            peer = times.get((row, PEER))
            rate = parse_case(case).tokens / seconds if seconds else None
            ratio = peer / seconds if seconds and peer and name != PEER else None
            cells.append(cell(rate, least / seconds if seconds else 0, ratio))
        rows.append((shape, kind, str(threads), case, placement, *cells))
    return markdown(("shape", "kind", "threads", "case", "placement", *names), rows)


def start_table(records: list[dict]) -> str:
    """Seconds to the first token, and memory without weights and KV cache: medians."""
    starts = [record for record in records if record["record"] == "start"]

    def key(name: str):
        return lambda r: ((r["shape"], r["kind"], f"{r['threads']} threads, {r['contestant']}"),
                          r[name])

    seconds = medians(starts, key("first_token_s"))
    memory = medians(starts, key("memory_beyond_weights_and_kv"))
    header = ("shape", "kind", "", "to the first token", "memory beyond weights, keys and values")
    return markdown(header, [(*group, f"{value:.2f} s", f"{memory[group] / 1e6:.0f} MB")
                             for group, value in seconds.items()])


def limit_table(records: list[dict]) -> str:
    """The machine's limits during the runs."""
    rows = [row for r in records if r["record"] == "limits" for row in r["limits"]]
    if not rows:
        return ""
    names = [name for name in rows[0] if name.endswith("_per_s")]
    lines = []
    for group in dict.fromkeys((row["threads"], row["placement"]) for row in rows):
        of_group = [row for row in rows if (row["threads"], row["placement"]) == group]
        values = [f"{median(row[name] for row in of_group):.1f}" for name in names]
        lines.append((str(group[0]), group[1], *values))
    return markdown(("threads", "placement", *names), lines)


def report(records: list[dict]) -> str:
    parts = [limit_table(records), table(records), start_table(records)]
    return "\n\n".join(part for part in parts if part)
