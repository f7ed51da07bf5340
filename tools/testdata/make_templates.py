# SPDX-License-Identifier: Apache-2.0
"""Makes tests/data/templates: templates, variables, and the reference's output.

A case has a template, variables in addition to those of its file, and the result: its text, or
"error": true. language.json, chats.json and conversations.json are written by hand except for the
results: to add a case, add its template and run this. A case of conversations.json also has the
request from which Lockstep makes the variables. The cases of other files are random. Run it from
the root of the repository after `pip install transformers==5.23.0 jinja2==3.1.6`: the renderer is
the environment of transformers' chat templates.
"""

import json
import pathlib
import random
import re

from transformers.utils import chat_template_utils

import random_templates

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "data" / "templates"
# Output that differs between runs, or shows Python's own objects.
VAGUE = re.compile(r"object at 0x|<built-in|<bound|<Macro|<function|Loop|Markup")


def render(template, variables):
    try:
        compiled = chat_template_utils._compile_jinja_template(template)
        return {"text": compiled.render(**variables)}
    except Exception:  # Any error counts as the same result.
        return {"error": True}


def random_cases(seed, count, make):
    """`count` random cases that render, and up to `count` of the failures until then."""
    generator = random_templates.Generator(random.Random(seed))
    kept = {"text": [], "error": []}
    while len(kept["text"]) < count:
        template = make(generator)
        result = render(template, random_templates.VARIABLES)
        kind = next(iter(result))
        if len(kept[kind]) < count and not VAGUE.search(str(result[kind])):
            kept[kind].append({"template": template, **result})
    return kept["text"] + kept["error"]


def write(name, variables, cases):
    text = json.dumps({"variables": variables, "cases": cases}, ensure_ascii=False, indent=1)
    (OUT / f"{name}.json").write_text(text + "\n")


def render_again(name):
    file = json.loads((OUT / f"{name}.json").read_text())
    for case in file["cases"]:
        case.pop("text", None)
        case.pop("error", None)
        case.update(render(case["template"], {**file["variables"], **case.get("variables", {})}))
    write(name, file["variables"], file["cases"])


def main():
    render_again("language")
    render_again("chats")
    render_again("conversations")
    write("random_expressions", random_templates.VARIABLES, random_cases(
        1, 250, lambda g: "{{ " + g.expression(g.random.randint(1, 3)) + " }}"))
    write("random_statements", random_templates.VARIABLES, random_cases(
        2, 120, lambda g: g.tag("set ns = namespace(q=0)") + g.block(g.random.randint(1, 3))))


if __name__ == "__main__":
    main()
