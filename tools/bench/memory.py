# SPDX-License-Identifier: Apache-2.0
"""The memory of processes."""

from pathlib import Path


def children(pid: int) -> list[int]:
    """The process and its descendants."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found += children(int(child))
    return found


def pss_bytes(pids: list) -> int:
    """The memory of all processes together; pages that they share count once."""
    total = 0
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1]) * 1024
    return total
