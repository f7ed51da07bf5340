# SPDX-License-Identifier: Apache-2.0
"""The server's flags, variables and paths, read from its help and its source."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Server:
    flags: set  # "--http"
    variables: set  # "LOCKSTEP_HTTP"
    paths: set  # "/livez", from the tables of routes.


def read_server(lockstep, source):
    help_text = subprocess.run([lockstep, "serve", "--help"], capture_output=True, text=True,
                               check=True).stdout
    paths = set()
    for file in Path(source, "coordinator").rglob("*.cc"):
        # A row of a table of http::Route: method, path, handler.
        paths.update(re.findall(r'\{\s*"(?:GET|POST)",\s*"(/[^"]*)"', file.read_text()))
    return Server(flags=set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", help_text)),
                  variables=set(re.findall(r"\(Env:(\w+)\)", help_text)), paths=paths)
