# SPDX-License-Identifier: Apache-2.0
"""Tables in pages: a block between two comments, which the measuring command replaces."""

import subprocess
from datetime import date
from pathlib import Path

from environment import Problem


def commit_of(folder: Path) -> str:
    """The commit of the checkout with the folder, with "-dirty" if tracked files were changed."""
    git = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=10"]
    done = subprocess.run(git, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "no git checkout"


def measured_at(build: Path) -> str:
    return f"Measured at commit {commit_of(build)}, {date.today()}."


def split_page(page: Path, name: str) -> tuple[str, str, str]:
    """The page's text before, in and after the block. The block is between the lines
    `<!-- NAME: begin -->` and `<!-- NAME: end -->`."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"
    whole = page.read_text() if page.exists() else ""
    if whole.count(begin) != 1 or whole.count(end) != 1 or whole.index(end) < whole.index(begin):
        raise Problem(f"{page}: must have one {begin.strip()} and one {end.strip()} after it")
    before, rest = whole.split(begin)
    block, after = rest.split(end)
    return before + begin, block, end + after


def replace_block(page: Path, name: str, text: str) -> None:
    before, _, after = split_page(page, name)
    page.write_text(f"{before}{text.strip()}\n{after}")
