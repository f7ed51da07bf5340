#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that Lockstep reads what transformers writes, for every architecture of docs/models.md.

    tools/survey/survey.py [--transformers VERSION]... [--only NAME]... [--write FOLDER]

Checks for each small model of architectures.py: the config.json that its class saves is accepted;
parameters, names and shapes of tensors, rotary frequencies and windows by layer agree with the
class; tokens and logits agree with it, too, for every form that the class saves, on 1 and 3
workers. Prints one line per model: ok, or how it differs. The exit code is 1 if any model differs.
Makes an environment for each release of transformers under build/survey, which contains torch
(about 6 GB). --write writes the configs and facts to FOLDER. SurveyTest reads them from
tests/data/survey.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import venv

sys.path.append(str(pathlib.Path(__file__).parents[1]))

from architectures import REMOTE_CODE, ROWS
from golden_check import check
from tensor_names import fold

ROOT = pathlib.Path(__file__).parents[2]
BUILD = ROOT / "build/survey"
RELEASES = ("5.24.0", "4.57.1")  # Today's and last year's.
WORKERS = (1, 3)
NEAR = 1e-6  # Relative: frequencies are float32.


def say(text, end="\n"):
    """Prints to a terminal only, in place of the previous text."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end=end, file=sys.stderr, flush=True)


def interpreter(release):
    """Python with that release of transformers; installed if missing."""
    folder = BUILD / f"transformers-{release}"
    python = folder / "bin/python"
    if not python.exists():
        print(f"survey: installing torch and transformers {release} into {folder}", flush=True)
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "torch", "numpy",
                        f"transformers=={release}"], check=True)
    return python


def listed_architectures():
    """The supported architectures in docs/models.md."""
    page = (ROOT / "docs/models.md").read_text()
    runs = page[:page.index("These names are refused")]
    return re.findall(r"^(?:\||-) `(\w+)`", runs, re.MULTILINE)


def names_differ(found, wanted):
    """A short description of how two lists of tensors by name differ; "" if they do not."""
    missing = sorted(wanted.keys() - found.keys())
    extra = sorted(found.keys() - wanted.keys())
    shapes = [name for name in sorted(wanted.keys() & found.keys())
              if wanted[name] != found[name]]
    said = [f"{len(names)} {what}: {', '.join(names[:3])}"
            for what, names in (("tensors are not read", missing),
                                ("are missing in transformers", extra),
                                ("have other shapes", shapes)) if names]
    return ", ".join(said)


def rotary_differs(found, wanted):
    """Both tables if they differ, else "". A class without a table (`wanted` is empty) agrees."""
    alike = len(found) == len(wanted) and all(
        abs(one[key] - other[key]) <= NEAR * abs(other[key])
        for one, other in zip(found, wanted) for key in other)
    return "" if alike or not wanted else f"rotary tables {found}, wanted {wanted}"


def inspect(lockstep, folder):
    """The model's description by `lockstep inspect --json`, or the error."""
    ended = subprocess.run([lockstep, "inspect", folder, "--json"], capture_output=True, text=True)
    if ended.returncode != 0:
        return None, ended.stderr.strip().removeprefix("lockstep: ")
    return json.loads(ended.stdout), ""


def form_differs(lockstep, folder, facts):
    """How a folder differs from the class that saved it, as a list of texts."""
    found, refusal = inspect(lockstep, folder)
    if found is None:
        return [refusal]
    said = [names_differ(found["tensors"], facts["tensors"][folder.name])]
    if found["parameters"] != facts["parameters"]:
        said.append(f"{found['parameters']} parameters, wanted {facts['parameters']}")
    said.append(rotary_differs(found["rotary"], facts["rotary"]))
    windows = {layer: window for layer, window in found["windows"].items() if window}
    wanted = {layer: window for layer, window in facts["windows"].items()
              if layer in found["windows"]}
    if windows != wanted:
        said.append(f"windows {windows}, wanted {wanted}")
    for workers in WORKERS:
        try:
            good, how = check(lockstep, folder, ["--workers", str(workers)])
        except RuntimeError as error:
            good, how = False, str(error)
        said.append("" if good else f"{workers} workers: {how}")
    return [one for one in said if one]


def survey(release, lockstep, only):
    """(name, facts, differences) of every model that the release has."""
    folder = BUILD / f"models-{release}"
    command = [interpreter(release), ROOT / "tools/survey/reference.py", folder]
    for name in only:
        command += ["--only", name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as reference:
        for line in reference.stdout:
            name, _, failed = line.rstrip("\n").partition("\t")
            say(f"transformers {release}: {name}", end="")
            if failed == "not in this release":
                continue
            if failed:
                yield name, None, [f"the reference: {failed}"]
                continue
            facts = json.loads((folder / name / "facts.json").read_text())
            said = []
            for form in facts["tensors"]:
                said += [f"{form}: {one}" for one in
                         form_differs(lockstep, folder / name / form, facts)]
            facts["config"] = json.loads((folder / name / "published/config.json").read_text())
            yield name, facts, said
    say("", end="")
    if reference.returncode != 0:
        raise SystemExit(f"survey: the reference of transformers {release} failed")


def kept_line(name, facts):
    """A model's line in the tests' file; a form that repeats another one is left out."""
    tensors = {form: fold(shapes) for form, shapes in facts["tensors"].items()
               if form == "published" or shapes != facts["tensors"]["published"]}
    kept = {"name": name, **facts, "tensors": tensors}
    return json.dumps(kept, separators=(",", ":")) + "\n"


def write(path, lines, only):
    """Writes the models' lines, in the order of architectures.py. With `only`, other models keep
    their lines."""
    if only and path.exists():
        old = {json.loads(line)["name"]: line for line in path.read_text().splitlines(True)}
        lines = old | lines
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(lines[name] for name in ROWS if name in lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--transformers", action="append", metavar="VERSION",
                        help=f"default: {' and '.join(RELEASES)}")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", choices=ROWS)
    parser.add_argument("--lockstep", default=ROOT / "build/cpu/bin/lockstep", metavar="BINARY")
    parser.add_argument("--write", type=pathlib.Path, metavar="FOLDER",
                        help="write the data of SurveyTest, of all models or those of --only")
    parser.add_argument("--json", action="store_true", help="print a JSON object for every model")
    arguments = parser.parse_args()
    failures = models = 0
    for release in arguments.transformers or RELEASES:
        kept = {}
        for name, facts, said in survey(release, arguments.lockstep, arguments.only):
            models += 1
            failures += bool(said)
            if facts:
                kept[name] = kept_line(name, facts)
            if arguments.json:
                print(json.dumps({"transformers": release, "name": name,
                                  "architecture": ROWS[name].architecture, "differs": said}))
            else:
                say("", end="")
                print(f"{release} {name}: {'; '.join(said) or 'ok'}", flush=True)
        if arguments.write:
            write(arguments.write / f"transformers-{release}.jsonl", kept, arguments.only)
    surveyed = {row.architecture for row in ROWS.values()}
    for name in listed_architectures():
        if name not in surveyed and name not in REMOTE_CODE:
            failures += 1
            print(f"survey: {name} is in docs/models.md, but not in architectures.py",
                  file=sys.stderr)
    print(f"survey: {failures} of {models} models differ; not in transformers: "
          f"{', '.join(REMOTE_CODE)}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
