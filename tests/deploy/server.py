# SPDX-License-Identifier: Apache-2.0
"""The server's flags, variables and paths, read from its help and its source."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import yaml

from flows import read_table

TOKEN = "LOCKSTEP_JOIN_TOKEN"  # It has no flag, so that no list of processes shows it.


@dataclass
class Command:
    flags: set  # "--http"
    variables: set  # "LOCKSTEP_HTTP"


@dataclass
class Server:
    serve: Command
    worker: Command
    paths: set  # "/livez", from the tables of routes.
    secrets: list  # The secrets that the user makes.
    metrics: set  # "num_requests_waiting", from the page that has all of them.
    health: set  # "live": the services of a worker's health port.
    flows: list  # The table of flows of deploy/k8s/README.md.


def read_help(lockstep, name):
    return subprocess.run([lockstep, name, "--help"], capture_output=True, text=True,
                          check=True).stdout


def read_command(text):
    return Command(flags=set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text)),
                   variables=set(re.findall(r"\(Env:(\w+)\)", text)) | {TOKEN})


def read_server(lockstep, source):
    paths = set()
    for file in Path(source, "coordinator").rglob("*.cc"):
        # A row of a table of http::Route: method, path, handler.
        paths.update(re.findall(r'\{\s*"(?:GET|POST)",\s*"(/[^"]*)"', file.read_text()))
    metrics = Path(source, "docs", "metrics.md").read_text()
    examples = Path(source, "deploy", "k8s", "secrets.example.yaml").read_text()
    worker = read_help(lockstep, "worker")
    health = re.search(r"two services, named (\w+) and (\w+)", worker)
    return Server(serve=read_command(read_help(lockstep, "serve")), worker=read_command(worker),
                  health=set(health.groups()), paths=paths,
                  secrets=list(yaml.safe_load_all(examples)),
                  metrics=set(re.findall(r"^\| `(\w+)[`{]", metrics, re.M)),
                  flows=read_table(Path(source, "deploy", "k8s", "README.md").read_text()))
