# SPDX-License-Identifier: Apache-2.0
"""Makes tests/data/templates/builtins.json: every filter, test, function and method of Python's
Jinja in the reference's environment, over one list of values.

"values" are expressions. "calls" has a list for each call: the texts of its results, where `v` is
each of the values in turn. A call without a list is an error for every value. A text is null for an
error, or true if it is not compared: Python shows its own objects' addresses, or Lockstep differs
on purpose (docs/chat_templates.md). Run it from the root of the repository after `pip install
transformers==5.24.0 jinja2==3.1.6`; with a file's name it writes there.
"""

import json
import pathlib
import re
import sys

import jinja2.defaults
from transformers.utils import chat_template_utils

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "data" / "templates" / "builtins.json"
VAGUE = re.compile(r"g.?e.?n.?e.?r.{0,3}t.?o.?r|object|<(built-in|bound|function|class|method)|"
                   r"\d{20}", re.I)

VALUES = [
    "'aB c-d'", "''", "' \\ta\\n\\nb\\n '", "'<p>Hi &amp; \\'x\\' <b class=\"y\">Z</b></p>'",
    "'ǆ éß Σς'",
    "'1_0'", "'-1.5e2'", "'items'", "0", "-7", "12345678", "2.5", "-0.0", "1e22", "true", "none",
    "missing", "[]",
    "[3, 1, 2]", "['b', 'A', 'a', 'B']", "[1, 'a', none]", "(1, 2.0, true)", "('x',)", "{}",
    "{'b': 1, 'A': [1, 2], 'a': none}",
    "[{'n': 2, 't': 'x'}, {'n': 1, 't': 'Y'}, {'n': 1, 't': 'y', 'o': {'p': [5]}}, {'t': 'X'}]",
    "range(5)", "[1, 2, 2.0, true]|map('abs')", "{'k': 'v'}.items()", "namespace(a=1, b='x')",
]

ARGUMENTS = {
    "attr": ["'upper'", "'keys'", "'a'", "'__class__'", "'n'"],
    "batch": ["2", "2, '-'", "3, none", "0"],
    "capitalize": [""],
    "center": ["", "9", "width=8", "-1", "'9'"],
    "default": ["", "'d'", "'d', true", "default_value=1, boolean=true", "boolean=true"],
    "dictsort": ["", "true", "by='value'", "false, 'key', true", "by='x'"],
    "float": ["", "1", "default=none"],
    "format": ["", "1", "'a', 2", "x=1"],
    "groupby": ["'n'", "'t'", "'t', case_sensitive=true", "'n', default=0", "'o.p'", "0", "none"],
    "indent": ["", "2", "'>', true", "width=1, blank=true", "2, true, true", "first=true"],
    "int": ["", "5", "default='x'", "0, 16", "base=0", "0, 37"],
    "join": ["", "', '", "'-', 't'", "attribute='n'", "1", "none"],
    "map": ["", "'upper'", "'int', default=9", "attribute='n'", "attribute='o.p.0'",
        "attribute='n', default=0",
            "'default', 'x'", "'join', '-'", "'nothing'", "attribute=0", "'attr', 'n'", "x=1"],
    "max": ["", "true", "attribute='n'", "attribute='t'", "case_sensitive=true, attribute='t'"],
    "min": ["", "true", "attribute='n'", "attribute='t'"],
    "reject": ["", "'odd'", "'none'", "'in', [1, 'a']", "'nothing'"],
    "rejectattr": ["", "'n'", "'n', 'equalto', 1", "'o.p', 'defined'"],
    "replace": ["'a', 'b'", "'', '-'", "'a', 'bb', 1", "1, 2", "old='b', new=''", "'a'",
        "'b', 'x', -1", "'b', 'x', 0"],
    "reverse": [""],
    "round": ["", "1", "1, 'ceil'", "-1, 'floor'", "method='floor'", "0, 'x'", "-3"],
    "select": ["", "'odd'", "'string'", "'gt', 1", "'sequence'"],
    "selectattr": ["", "'n'", "'n', 'gt', 1", "'t', 'in', 'xyz'", "'o.p.0', 'eq', 5"],
    "slice": ["2", "3, '-'", "0", "4", "-1"],
    "sort": ["", "true", "case_sensitive=true", "attribute='t'", "attribute='n,t'",
        "attribute='t', reverse=true"],
    "string": [""],
    "sum": ["", "'n'", "attribute='n', start=1", "start=0.5", "start=[]"],
    "tojson": ["", "true", "indent=2", "none, 1, (';', '=')", "sort_keys=true", "indent='\\t'",
        "indent=0",
               "separators=(',', ':')", "indent=-1"],
    "trim": ["", "'a'", "chars=' <'", "none"],
    "truncate": ["", "5", "5, true", "5, true, '', 0", "4, leeway=0", "length=8, end='..'", "2",
        "3, leeway=0"],
    "unique": ["", "true", "attribute='t'", "attribute='n'"],
}
TEST_ARGUMENTS = {
    "divisibleby": ["2", "0", "num=3"], "sameas": ["v", "none", "true",
        "1"], "in": ["[1, 'a', none]", "'abc'", "{'a': 1}", "1"],
    **{name: ["1", "'b'", "none", "v"] for name in
       ("eq", "equalto", "==", "ne", "!=", "lt", "lessthan", "<", "le", "<=", "gt",
       "greaterthan", ">", "ge", ">=")},
}
METHOD_ARGUMENTS = {
    "center": ["9", "9, '*'", "''", "9, ''"], "ljust": ["9", "9, '*'", "2"], "rjust": ["9",
        "9, '*'"],
    "count": ["'a'", "''", "'', 2", "1", "none", "'b', -3, -1"], "index": ["'a'", "1",
        "'b', 1, 9", "1, 1", "none", "1, -2"],
    "find": ["'a'", "''", "'b', 2", "'c', none, -1", "1"], "rfind": ["'b'", "''",
        "'b', 0, 3"], "rindex": ["'b'", "'zz'"],
    "startswith": ["'a'", "('x', 'a')", "'B', 1", "''", "['a']", "1"], "endswith": ["'d'",
        "('d', 'x')", "'', 99", "'c', 0, 4"],
    "expandtabs": ["", "4", "0", "tabsize=2"], "format": ["", "1, x=2"], "format_map": ["{}"],
    "get": ["'b'", "'x'", "'x', 1", "1", "[1]"], "join": ["['x', 'y']", "'xy'", "[1]",
        "{'x': 1}", "[]"],
    "lstrip": ["", "'a '", "none"], "rstrip": ["", "'d-'", "none"], "strip": ["", "'ad'", "none",
        "''"],
    "partition": ["' '", "''", "'zz'"], "rpartition": ["' '", "'zz'"], "removeprefix": ["'a'",
        "''"], "removesuffix": ["'d'", "''"],
    "replace": ["'a', 'b'", "'', '-'", "'a', 'b', 0", "'', '-', 2", "'a'"],
    "split": ["", "'a'", "' ', 1", "none, 1", "maxsplit=1", "sep='\\n'", "''"], "rsplit": ["",
        "' ', 1", "none, 1", "sep='-'"],
    "splitlines": ["", "true", "keepends=true"], 
    "zfill": ["9", "2", "-1"], "pop": ["", "0",
        "'b'"], "append": ["1"], "insert": ["0, 1"], "extend": ["[1]"],
    "remove": ["1"], "setdefault": ["'x', 1"], "update": ["{'x': 1}", "x=1"], "sort": ["",
        "reverse=true"],
}
# Everything without a table: operators, items, attributes, functions.
CALLS = [
    "v", "v ~ v", "v + v", "v * 2", "v - 1", "v / 2", "v // 2", "v % 2", "v ** 2", "-v", "+v",
    "not v", "v == v", "v < v", "v in v",
    "v[0]", "v[-1]", "v[1:]", "v[::-1]", "v[:-1]", "v['a']", "v.a", "v.n", "v.nothing",
    "v['items']", "v[1:9:2]", "v[none:2]",
    "v.real", "v.imag", "v.numerator", "v.denominator", "v.__class__",
    "v is defined and v is not none",
    "v()", "range(v)", "dict(v)", "dict(v, x=1)", "namespace(v).a", "joiner(v)()",
    "joiner()() ~ v", "cycler(v).next()",
    "cycler(v, 2).current", "raise_exception(v)", "v if v", "v if v else 1",
    "v is string or v is mapping",
    "v|groupby('n')|map('first')|list", "(v|groupby('t')|first).grouper",
    "(v|groupby('t')|first).list", "(v|groupby('n', default=0)|last)[0]",
    "(v|groupby('t')|first).count", "v|map('list')|list", "v|list|tojson", "[v]", "(v,)",
    "{'k': v}", "{v: 1}", "[v, v]|unique|list|length",
    "[v]|tojson", "'%s' % v", "'%r' % v", "'%d' % v", "'%5.1f' % v", "'%x' % v",
    "'{}'.format(v)", "'{!r:>9}'.format(v)", "'{:>9}'.format(v)",
    "'{0[0]}'.format(v)", "'{0.a}'.format(v)", "v|dictsort|list", "v|items|list", "v|length + 1",
    "v.items()|list", "v.keys()|list", "v.values()|sum",
    "v is sameas v", "v|first|default('x')", "v|last|default('x')",
    "v|map(attribute='t')|join(',')", "strftime_now(v)|length > 0", "v|reverse|list",
    "v.copy()", "v|batch(2)|map('list')|list", "v|slice(2)|map('join', '+')|list",
    "v|select|list", "v|unique|sort|list",
]
WALKED = {"batch", "slice", "map", "select", "reject", "selectattr", "rejectattr", "unique",
    "reverse", "items"}
# Functions that templates do not need.
UNSUPPORTED = {"filesizeformat", "pprint", "random", "striptags", "urlize", "wordwrap", "xmlattr",
               "as_integer_ratio", "encode", "from_bytes", "fromhex", "fromkeys", "hex",
               "maketrans",
               "to_bytes", "translate"}


def is_compared(value, call):
    """In Lockstep ranges, iterators and views are no keys and have no order, and a slice of a range
    is a list: such results differ on purpose."""
    kind = {"range(5)": "range", "{'k': 'v'}.items()": "view"}.get(value, "")
    kind = "iterator" if value.endswith("map('abs')") else kind
    is_slice = call.startswith("v[") and ":" in call
    is_key = call in ("{v: 1}", "[v, v]|unique|list|length", "v is in({'a': 1})", "v is filter",
    "v is test")
    is_order = re.search(r"[<>]=?.*\bv\b|\b(lt|le|gt|ge|lessthan|greaterthan)\(v\)", call)
    return not (kind == "range" and is_slice or kind in ("range", "iterator") and is_key or
                kind == "range" and call == "v.index(1, 1)" or kind == "view" and is_order or
                kind == "iterator" and call == "v|wordcount")


def calls():
    yield from CALLS
    for name in sorted(set(jinja2.defaults.DEFAULT_FILTERS) - UNSUPPORTED):
        for arguments in ARGUMENTS.get(name, ["", "1"]):
            call = f"v|{name}({arguments})" if arguments else f"v|{name}"
            yield f"({call})|list" if name in WALKED else call
    for name in sorted(jinja2.defaults.DEFAULT_TESTS):
        if not name.isalpha():
            for argument in TEST_ARGUMENTS[name]:
                yield f"[v]|select({json.dumps(name)}, {argument})|list|length"
            continue
        for arguments in TEST_ARGUMENTS.get(name, [""]):
            yield f"v is {name}({arguments})" if arguments else f"v is {name}"
    names = {name for kind in (str, list, dict, int, float, tuple, range) for name in dir(kind)}
    for name in sorted(name for name in names - UNSUPPORTED if not name.startswith("_")):
        for arguments in METHOD_ARGUMENTS.get(name, ["", "1"]):
            yield f"v.{name}({arguments})"


def render(value, call):
    if not is_compared(value, call):
        return True
    try:
        source = "{% set v = " + value + " %}{{ " + call + " }}"
        text = chat_template_utils._compile_jinja_template(source).render()
    except Exception:  # Any error counts as the same result.
        return None
    return True if VAGUE.search(text) else text


def shown(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def main():
    lines = []
    for call in dict.fromkeys(calls()):
        texts = [render(value, call) for value in VALUES]
        while texts and texts[-1] is None:
            texts.pop()
        if any(isinstance(text, str) for text in texts):
            lines.append(f" {shown(call)}: {shown(texts)}")
    path = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else OUT
    path.write_text('{"values": ' + shown(VALUES) + ', "calls": {\n' + ",\n".join(lines) + "\n}}\n")


if __name__ == "__main__":
    main()
