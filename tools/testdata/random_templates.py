# SPDX-License-Identifier: Apache-2.0
"""Random templates for make_templates.py: expressions and statements over a few variables."""

VARIABLES = {
    "s": "Hello wörld", "e": "", "n": 7, "z": 0, "neg": -3, "f": 2.5, "t": True, "no": None,
    "l": [3, 1, 2], "ls": ["b", "A", "c"],
    "d": {"a": 1, "b": [1, 2], "c": {"x": None}}, "em": [],
    "users": [{"role": "user", "content": " Hi there ", "n": 2},
              {"role": "assistant", "content": "Yo\n", "n": 1},
              {"role": "user", "content": "it's \"q\"", "n": 3}],
    "ml": "line one\n  two\n\nthree ", "sc": "<b>&\"'",
}
LITERALS = [
    "'a'", "'it\\'s'", "'x y'", "''", "'aXbXc'", "1", "0", "-2", "3.0", "0.1", "1e20", "true",
    "none", "[]", "[1,2,3]", "['x','y']", "(1,2)", "{'k':1}", "{}", "'%s-%d'", "'日本'",
    "' pad '", "1_000", "0x1F", "'a,b,,c'", "{'b':2,'a':1}", "[[1,'a'],[2,'b']]", "1.5e-7",
    "'\\n'", "'ß'",
]
METHODS = [
    "upper()", "lower()", "strip()", "title()", "capitalize()", "split()", "split(' ')",
    "split(',',1)", "rsplit('X',1)", "replace('a','b')", "replace('l','L',1)", "startswith('H')",
    "endswith(('d','x'))", "find('o')", "count('l')", "join(['1','2'])", "lstrip('H')", "rstrip()",
    "isdigit()", "isalpha()", "isupper()", "splitlines()", "splitlines(true)", "zfill(6)",
    "center(9,'*')", "ljust(8)", "rjust(8)", "swapcase()", "partition(' ')", "rpartition('l')",
    "removeprefix('He')", "removesuffix('d')", "rfind('l')", "format(1,'x')", "istitle()",
    "casefold()", "expandtabs(4)", "islower()", "isalnum()", "items()", "keys()", "values()",
    "get('a')", "get('zz')", "get('zz',5)", "index(1)", "count(1)", "append(1)", "a", "role",
    "content", "x",
]
FILTERS = [
    "upper", "lower", "trim", "length", "first", "last", "list", "join(',')", "join", "sort",
    "sort(reverse=true)", "unique|list", "reverse|list", "tojson", "tojson(indent=2)", "string",
    "int", "float", "default('D')", "default('D',true)", "d(1)", "abs", "round", "round(1)",
    "round(2,'floor')", "capitalize", "title", "replace('a','z')", "map('upper')|list",
    "map(attribute='role')|list", "map(attribute='zz',default='q')|list", "select|list",
    "reject|list", "select('odd')|list", "selectattr('role','equalto','user')|list",
    "rejectattr('n','gt',1)|map(attribute='n')|list", "sum", "min", "max", "groupby('role')",
    "dictsort", "dictsort(by='value')", "items|list", "batch(2,'-')|list", "slice(2)|list",
    "indent", "indent(2,true)", "indent('--',blank=true)", "truncate(5)", "truncate(5,true,'')",
    "wordcount", "e", "format(1,2)", "center(11)", "sort(attribute='n')|map(attribute='n')|list",
    "sum(attribute='n')", "tojson(sort_keys=true)", "tojson(ensure_ascii=true)",
    "tojson(separators=(',',':'))", "urlencode", "max(attribute='n')", "map('int')|sum",
]
TESTS = [
    "defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "true",
    "false", "mapping", "sequence", "iterable", "odd", "even", "divisibleby 3", "in [1,2]", "eq 1",
    "sameas none", "lower", "upper", "callable", "ne 'a'", "gt 2", "not none", "not defined",
]
OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", ">", "<=", ">=", "in",
             "not in", "and", "or"]
SLICES = ["[0]", "[-1]", "[9]", "['a']", "['items']", "[s]"]
PRINTED = ["v", "w", "loop.index", "loop.last", "loop.previtem", "ns.q", "loop.length",
           "loop.revindex", "loop.cycle(1,2)", "loop.changed(v)", "loop.first", "loop.nextitem",
           "caller()", "mac(1)", "mac(1,b=n)", "loop.depth"]
BLANKS = ["", " ", "\n", "\n  ", "  \n", "text", "a\n\n", " x "]


class Generator:
    def __init__(self, random):
        self.random = random

    def choice(self, items):
        return self.random.choice(items)

    def atom(self):
        return self.choice([self.choice(LITERALS), self.choice(list(VARIABLES)), "undef"])

    def wrapped(self, depth):
        return f"({self.expression(depth)})" if self.random.random() < 0.8 else self.atom()

    def expression(self, depth):
        if depth <= 0 or self.random.random() < 0.1:
            return self.atom()
        inner = depth - 1
        a, b, c = (self.expression(inner) for _ in range(3))
        return self.choice([
            f"{self.wrapped(inner)}|{self.choice(FILTERS)}",
            f"{self.wrapped(inner)}.{self.choice(METHODS)}",
            f"{a} {self.choice(OPERATORS)} {b}",
            f"{self.choice(['l', 's', 'ls', 'users', 'd'])}{self.choice(SLICES)}",
            f"s[{self.choice(['', '1', '-3'])}:{self.choice(['', '5', '-1'])}:"
            f"{self.choice(['', '2', '-1'])}]",
            f"{self.wrapped(inner)} is {self.choice(TESTS)}",
            f"not {a}", f"-{a}", f"({a} if {b} else {c})", f"[{a}, {b}]", f"{{'k': {a}}}",
        ])

    def blanks(self):
        return self.choice(BLANKS)

    def tag(self, text):
        sign = ["", "-", "", "+"]
        return "{%" + self.choice(sign) + f" {text} " + self.choice(sign) + "%}"

    def output(self, text):
        return "{{" + self.choice(["", "-", ""]) + f" {text} " + self.choice(["", "-", ""]) + "}}"

    def block(self, depth):
        count = self.random.randint(1, 3)
        return (self.blanks() + "".join(self.statement(depth) for _ in range(count)) +
                self.blanks())

    def pair(self, begin, end, depth):
        return self.tag(begin) + self.block(depth) + self.tag(end)

    def statement(self, depth):
        value = self.expression(1)
        printed = self.blanks() + self.output(self.choice([value, self.choice(PRINTED)]))
        if depth <= 0 or self.random.random() < 0.3:
            return printed + self.blanks()
        inner = depth - 1
        items = self.choice(["l", "users", "d", "range(3)", "em", "s", "undef", "[[1,2],[3,4]]"])
        condition = self.choice(["", " if v", " if v is odd"])
        return self.choice([
            self.tag(f"set v = {value}") + self.blanks(), self.tag(f"set ns.q = {value}"),
            self.pair(f"if {value}", "endif", inner),
            self.tag(f"if {value}") + self.block(inner) + self.pair("else", "endif", inner),
            self.pair(f"for v in {items}{condition}", "endfor", inner),
            self.tag(f"for v in {items}{condition}") + self.block(inner) +
            self.pair("else", "endfor", inner),
            self.pair("for k, v in d.items()", "endfor", inner),
            self.pair(self.choice(["set v", "set w | upper"]), "endset", inner),
            self.pair(self.choice(["filter upper", "filter indent(2)|trim"]), "endfilter", inner),
            self.pair(f"with v = {value}, w = v", "endwith", inner),
            self.pair(self.choice(["macro mac()", "macro mac(a, b=2)", "macro mac(a=v, b=a)"]),
                      "endmacro", inner),
            self.pair(self.choice(["call mac(1)", "call(v) mac()"]), "endcall", inner),
            self.pair("generation", "endgeneration", inner),
            "{#" + self.choice(["", "-"]) + " c " + self.choice(["", "-"]) + "#}" + self.blanks(),
            self.tag("raw") + self.blanks() + "{{ x }}" + self.tag("endraw"),
        ])
