"""Expressions and small templates: the same text as jinja2, and failure where it fails."""
import random
import sys
import unittest

try:
    import jinja_reference as jr
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

CONTEXT = {
    "s": "Hello, World", "empty": "", "u": "na\u00efve \u20ac \U0001f999 \u00dcber\n\tx", "w": "  pad \n",
    "i": 7, "neg": -3, "zero": 0, "f": 2.5, "big": 123456789012, "t": True, "no": False, "nothing": None,
    "l": [3, 1, 2], "ls": ["b", "A", "c"], "mixed": [1, "a", None, 2.0, True], "nested": [[1, 2], [3, [4]]],
    "d": {"a": 1, "b": "two", "c": [1, 2], "items": "hidden", "x y": None},
    "people": [{"name": "Zoe", "age": 3, "tag": {"k": 1}}, {"name": "adam", "age": 30, "tag": {"k": 0}},
               {"name": "Bob", "age": 3}],
    "quote": "it's \"q\" \\ \u0007\u00a0\u2028", "html": "<a href='x'>&\"</a>", "lines": "a\nb\r\nc\n\nd",
    "lit": "lit", "three": 3, "minus": -1, "half": 2.5, "pair": [1, 2], "nil": [], "kv": {"k": "v"},
    "evil": "{{ 7*7 }}{% raw %}<|im_end|>", "digits": "12_3", "num": " 42 ", "words": "the quick  brown-fox (jumps)",
}

EXPRESSIONS = r"""
1 + 2 * 3 - 4 / 2
7 // 2, -7 // 2, 7 % 3, -7 % 3, 7 % -3, 7.5 // 2, -7.5 % 2, 2 ** 10, 2 ** -1, -2 ** 2, 2 ** 3 ** 2
1 / 3, 2 / 1, 1e20, 1e16, 123456789.123, 1e-5, 0.1 + 0.2, 100.0, 1.5e300 * 1e10, -0.0, 1e15, 12345678901234567.0
1 // 0
1 % 0
1.0 / 0
9223372036854775807 + 0
1 < 2 < 3, 1 < 3 < 2, 1 == 1.0, 1 == True, "a" < "b", [1, 2] < [1, 3], "1" == 1, none == none
1 < "a"
none < 1
not true, not not 0, not (1 == 2), true and 0 or "x", none or "" or "z", 1 and [] and 2
"a" in "abc", "d" not in "abc", 1 in [1.0], "a" in d, "q" not in d, 1 in d.values(), none in mixed
1 in "abc"
1 in 5
"a" ~ 1 ~ none ~ 2.5 ~ true ~ [1, "x"] ~ {"k": "v"}
"a" + 1
1 + "a"
[1] + [2], (1,) + (2, 3), "ab" * 3, 2 * "xy", [0] * 3, "x" * -1, (1, 2) * 2
[1] + (2,)
"x" if t else "y", "x" if no, "a" if no else "b" if no else "c"
("x" if no) is undefined, ("x" if no) ~ "."
s[0], s[-1], s[100], s[1:4], s[:-1], s[::-1], s[::2], s[-3:], s[10:2], s[5:1:-2], s[100:], u[2:4], u[::-1]
l[0], l[-1], l[5], l[1:], l[::-1], l[:2], l[-2:], l[::2], l[3:0:-1], (1, 2, 3)[::-1], l[None:None]
l["0"], l["length"], s["x"], l[1.0], l[true], d[0], none[0], i[0], i.foo, none.foo
d.a, d["b"], d.missing, d["missing"], d.items is callable, d["items"], d.keys() | list, d.values() | list
d.items() | list, d.get("a"), d.get("zz"), d.get("zz", 5), d.get("b", default=1)
d["x y"], {"a": {"b": {"c": 5}}}.a.b.c, {1: "one", "1": "str"}[1], {1: 2}[1.0], {true: 1}[1]
missing.foo
missing["foo"]
missing()
missing + 1
missing < 1
-missing
missing, missing ~ "x", missing == missing, missing == none, not missing, missing | length, missing | list
missing is defined, i is defined, d.q is defined, d.a.b is defined, missing is none, missing is string
missing.x is defined
s.foo.bar
none.foo.bar
{}, [], (), (1,), {"a": [1, (2,)]}, [none, true, "q'", 'd"', 'b\'"']
[1, 2,], (1, 2,), {"a": 1,}
"\n\t\\\"\'\x41\u00e9\U0001f600\101\q\a\b\f\v\r", 'it''s' "joined"
1_000, 0, 00, 3.0, 1e3, 1.5e-7, 1E5
s.upper(), s.lower(), s.title(), "hELLO wORLD".capitalize(), u.upper(), "straße".upper()
s.startswith("Hell"), s.startswith("ell", 1), s.endswith("ld"), s.endswith(("x", "ld")), s.startswith(("x", "y"))
s.startswith(1)
s.startswith()
w.strip() ~ "|", w.lstrip() ~ "|", w.rstrip() ~ "|", "xxaxx".strip("x"), "abcab".strip("ab"), "xyz".lstrip("yx")
s.split(), s.split(","), s.split("l", 1), s.rsplit("l", 1), "a  b c".split(" "), "".split(), "".split(",")
" a b ".split(none, 1)
" a b c ".rsplit(none, 1), "a,b,c".rsplit(",", 5), "a,b,c".split(",", maxsplit=1), "a b".split(sep=" "), "abc".split("")
"abc".split("")
lines.splitlines(), lines.splitlines(true), "".splitlines(), "a\x0bb\x1cc\u2028d".splitlines()
s.replace("l", "L"), s.replace("l", "L", 1), "aaa".replace("", "-"), "aaa".replace("a", ""), "".replace("", "x")
"abc".replace("", "-", 2)
s.find("o"), s.find("o", 5), s.find("zz"), u.find("\u20ac")
s.index("zz")
", ".join(ls), "".join([]), "-".join("abc"), ",".join(d)
",".join([1])
"prefix".removeprefix("pre"), "suffix".removesuffix("fix"), "abc".removeprefix("x")
"{}".format()
"%d" % "x"
"%s %s" % ("a",)
"%s" % ("a", "b")
s.foo()
l.append(1)
l.pop()
d.update({"a": 2})
d.pop("a")
l.index(99)
s | upper, s | lower, s | title, s | capitalize, words | title, words | capitalize, "ab CD" | title
w | trim, "xxaxx" | trim("x"), missing | trim, 5 | trim
s | length, l | count, d | length, u | length, missing | length, range(5) | length
i | length
none | length
"abc" | reverse, l | reverse | list, (1, 2) | reverse | list
l | first, l | last, [] | first, [] | last, s | first, "" | first, d | first, range(3) | last
l | join(", "), ls | join, mixed | join("-"), people | join(", ", attribute="name"), "abc" | join(".")
missing | join(",")
l | sort, ls | sort, ls | sort(case_sensitive=true), l | sort(reverse=true)
people | sort(attribute="age") | map(attribute="name") | list
people | sort(attribute="age,name") | map(attribute="name") | list
people | sort(attribute="name", reverse=true) | map(attribute="name") | list
[1, "a"] | sort
[2, 1, 2, 3, 1] | unique | list, ["a", "A", "b"] | unique | list, ["a", "A"] | unique(case_sensitive=true) | list
["a"] | sum
people | map(attribute="name") | list, people | map(attribute="tag.k") | list
people | map(attribute="tag", default="-") | list
[{"a": {"b": 1}}, {}, {"a": {}}, {"a": none}, 7] | map(attribute="a.b", default="x") | list
[{"a": {"b": none}}, {}] | map(attribute="a.b", default={"b": 5}) | list
[{"a": [1]}, {"a": []}, {}] | map(attribute="a.0", default=7) | list
[{"a": {"b": 1}}, {}] | map(attribute="a.b") | list
[{"a": 1}, {}] | map(attribute="a", default=none) | list | length
ls | map("upper") | list, ls | map("replace", "b", "X") | list, l | map("string") | join("+")
nested | map("first") | list
people | map(attribute="nope") | list
ls | map("nofilter") | list
people | selectattr("age", "equalto", 3) | map(attribute="name") | list, people | selectattr("tag") | list | length
people | rejectattr("age", "gt", 5) | map(attribute="name") | list, people | rejectattr("tag") | list | length
people | selectattr("tag", "defined") | list | length
people | selectattr("name", "in", ["Bob", "Zoe"]) | map(attribute="name") | join
l | select("odd") | list, l | reject("odd") | list, mixed | select | list, mixed | reject | list
mixed | select("string") | list
l | select("notest") | list
(l | select("odd")) is iterable, true if l | select("gt", 100) else false
(l | select("odd")) | length
d | items | list, d | dictsort, d | dictsort(reverse=true), {"b": 1, "A": 2} | dictsort
{"b": 1, "a": 2} | dictsort(false, "value"), missing | items | list
l | items | list
i | string, 2.0 | string, none | string, l | string, s | string, missing | string ~ "."
"42" | int, num | int, "x" | int, "x" | int(5), "3.9" | int, 3.9 | int, -3.9 | int, none | int, true | int
digits | int, "ff" | int(base=16), "0x1f" | int(base=16), [] | int
"4.5" | float, "x" | float, "x" | float(1.5), 3 | float, none | float, "1e3" | float, "inf" | float, "nan" | float
" 2 " | float
missing | int
missing | float
neg | abs, 2.5 | abs, -0.5 | abs, true | abs
"x" | abs
2.5 | round(method="x")
s | replace("l", "1"), s | replace("l", "1", 1), 12321 | replace(2, 5), s | replace("", "-")
missing | default("x"), none | default("x"), none | default("x", true), "" | d("e", boolean=true), i | default(3)
missing | default, d.q | d
l | list, "abc" | list, d | list, range(3) | list, missing | list, (1, 2) | list
5 | list
lines | indent, lines | indent(2), lines | indent(2, true), lines | indent(2, blank=true), lines | indent(">> ")
"x" | indent(width=3, first=true), "" | indent, "a\n" | indent
d | tojson, l | tojson, s | tojson, u | tojson, none | tojson, true | tojson, 1.0 | tojson, 1e100 | tojson
quote | tojson, html | tojson, mixed | tojson, (1, 2) | tojson
d | tojson(indent=2), people | tojson(indent=4), {} | tojson(indent=2), [] | tojson(indent=2), [[]] | tojson(indent=1)
d | tojson(indent="\t"), d | tojson(indent=0)
u | tojson(ensure_ascii=true), u | tojson(true), d | tojson(separators=(",", ":"))
d | tojson(separators=[", ", "="], indent=1), {"b": 1, "a": 2} | tojson(sort_keys=true)
{1: 2, none: 3, true: 4, 1.5: 5} | tojson, {"a": {"b": (1, [2])}} | tojson
missing | tojson
d.items() | tojson
{"a": missing} | tojson
quote, quote | list, [quote], [html, u, evil], {"k": quote}, d, people, mixed, nested
range(3), range(1, 4) | list, range(5, 0, -2) | list, range(0) | list, range(10)[2], range(3) | join, range(1, 9, 3)
range(10, 0) | list, 3 in range(5), range(3) == range(3), range(5)[-1], range(4)[1:3] | list
range(1000000)
range("a")
d.keys(), d.values(), {"a": 1}.items()
s is string, i is number, i is integer, t is integer, t is boolean, t is number, f is float, f is number, i is float
d is mapping, l is mapping
l is iterable, s is iterable, i is iterable, d is iterable, none is iterable, l is sequence, s is sequence
d is sequence, i is sequence, missing is iterable, missing is sequence
none is none, i is none, t is true, 1 is true, no is false, 0 is false
i is odd, i is even, 6 is even, i is not odd, -3 is odd
"x" is odd
i is divisibleby 0
i is eq 7, i is equalto 7, i == 7, i is ne 8, i is lt 8, i is gt 8, i is le 7, i is ge 7, 1 is in [1, 2]
"a" is in "abc", 1 is not in [2]
range is callable, s.upper is callable, s is callable, namespace is callable, missing is callable
1 is not defined
i is string or i is number, i is string and true, not i is string, i is number == true
i is odd is even
namespace(a=1).a, namespace(a=1).b is defined, namespace({"x": 5}).x
l|length == 3 and l|first == 3, l|length + 1, -l|first, l|sum * 2, not l|first, (l|first) ** 2, -1|abs, 2 - -1
"a" "b" | upper ~ "c", "x" ~ 1 + 2 ~ "y", 1 + 2 ~ 3, "a" ~ "b" == "ab"
l.0, nested.0.1, nested[1][1].0, d.c.0, people.0.name, people[0]["tag"].k
people[0].name.upper().lower() | title | length
strftime_now("%d %b %Y"), strftime_now("%Y-%m-%d %H:%M:%S"), strftime_now("%A %j"), strftime_now("")
raise_exception("boom")
raise_exception()
namespace(1)
dict(1)
d(1)
range()
s | upper(1)
s | trim(nope=1)
s | nofilter
s is notest
nofunction(1)
s | join(1, 2, 3)
1 +
(1
[1, 2
{"a" 1}
"abc
1 2
a.
.a
a[
a[]
foo(a=1, 2)
1 if
=
!
a ! b
not
{{ 1 }}
*
x for x in y
evil, evil ~ "{{", evil | upper, evil.split("%")
u[0:5] | upper, u.split(), u | title, u.title(), u | capitalize
mixed | map("string") | list, mixed | map("tojson") | join(" "), [true, false, none] | map("string") | join
"1" + "2" | int, ("1" + "2") | int + 1, "5" * 2 | int
true + 1, true * 3, -true, +true, true / 2, true ~ "", [true, 1] | unique | list
1.0 | int, 1e3 | int, 1e300 | int is number, "1.5" | int, "-7" | int, "+7" | int, "- 7" | int
[1, [2, [3, [4]]]] | string, {"a": {"b": [1, 2, {"c": none}]}} | string, ((1, 2), (3,)) | string
"\u0000" | length, "\x7f\x80\xad\u200b" | list, ["\x7f\x80\xad\u200b\ufeff\U000e0001"]
"a" < "B", "Z" < "a", "é" > "z", "" < "a", [] < [1], (1, 2) == (1, 2), (1, 2) == [1, 2], {"a": 1} == {"a": 1.0}
[1, [2]] == [1, [2]]
1 == none, none != 1, "a" != "b", 1 != 1.0, [] == missing, nan is defined
d | length > 3 and d is mapping and "a" in d
messages is defined and messages[0] is defined
(missing | default({})).foo is defined, (missing or {}).get("x", "dflt")
lines.split("\n")[-1], lines.split("\n")[0].strip(), s.split(",")[1].strip(), s.split("zz")[0], s.split("o")[-1]
"".join(["a", "b"]) ~ ["x"][0], ("a", "b") | join, l | select("gt", 1) | sort | first
"ǆ" | title, "ǆ".upper(), "ﬁ" | lower, "İ" | length, "Σ".lower()
"日本語 テキスト" | length, "日本語"[1], "日本語"[::-1], "日本語" | list | last, "日本" in "日本語", "e\u0301" | length
"""

SNIPPETS = [
    "a\n{% if t %}\nb\n{% endif %}\nc\n",
    "  {% if t %}  x{% endif %}  \n  y",
    "  {%- if t -%}  x  {%- endif -%}  \n  y",
    "  {%+ if t +%}\n  x{%+ endif %}  \n  y",
    "a \n\t {# c #} \n b {#- d -#} \n e {# f\ng #}\nh",
    "x {{- 1 -}} y {{+ 2 }} z  {{ 3 }}\n\n{{ 4 }}\n",
    "a\r\nb\rc\n{{ 'x\\r\\ny' }}\r\n",
    "\n\n", "", "\n", "x\n\n", " \n{% if t %}\n", "{{ }}", "{% %}", "{{", "{%", "}}", "{ { } }", "{{ '}}' }}",
    "{{ {'a': {}} }}",
    "{% raw %}{{ x }} {% if %}\n{% endraw %}\ny", "a  {%- raw -%}  b  {%- endraw -%}  c",
    " {% raw %}\n x {% endraw %}\n",
    "{% for x in l %}{{ x }},{% endfor %}", "{% for x in l %}\n{{ x }}\n{% endfor %}\n.",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k in d %}{{ k }} {% endfor %}",
    "{% for (a, b) in [(1, 2), [3, 4]] %}{{ a }}{{ b }} {% endfor %}", "{% for a, b in [(1, 2, 3)] %}{% endfor %}",
    "{% for a, b in [1] %}{% endfor %}", "{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for x in [] %}a{% else %}none{% endfor %}", "{% for x in missing %}a{% else %}none{% endfor %}",
    "{% for x in none %}a{% endfor %}", "{% for x in 5 %}a{% endfor %}", "{% for c in u %}[{{ c }}]{% endfor %}",
    "{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}"
    "{{ loop.revindex0 }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.depth }} {% endfor %}",
    "{% for x in l if x > 1 %}{{ loop.index }}/{{ loop.length }}:{{ x }} {% endfor %}",
    "{% for x in l if x > 100 %}{{ x }}{% else %}no{% endfor %}", "{% for x in l if loop.first %}{{ x }}{% endfor %}",
    "{% for x in l | select('odd') %}{{ loop.length }}{{ loop.last }}{% endfor %}",
    "{% for x in l %}{% for y in ls %}{{ loop.index }}{{ x }}{{ y }} {% endfor %}{{ loop.index }}{% endfor %}",
    "{% for x in l %}{% set o = loop %}{% for y in l %}{{ o.index }}{{ loop.index }} {% endfor %}{% endfor %}",
    "{% for x in l %}{{ loop(x) }}{% endfor %}",
    "{% for x in range(10) %}{% if x == 3 %}{% continue %}{% endif %}{% if x == 6 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% break %}", "{% continue %}", "{% for x in l %}{% for y in l %}{% break %}{% endfor %}{{ x }}{% endfor %}",
    "{{ loop }}", "{{ loop.index }}",
    "{% for x in l %}{{ x }}", "{% endfor %}", "{% for %}", "{% for x %}", "{% for x in %}",
    "{% for 1 in l %}{% endfor %}",
    "{% if a %}x{% elif t %}y{% else %}z{% endif %}", "{% if no %}{% elif no %}{% else %}z{% endif %}",
    "{% if %}{% endif %}",
    "{% if t %}{% else %}{% else %}{% endif %}", "{% if t %}{% endfor %}", "{% if t %}{% endif x %}", "{% else %}",
    "{% elif t %}",
    "{% set x = 1 %}{{ x }}", "{% set x, y = 1, 2 %}{{ x }}{{ y }}", "{% set x = 1, 2 %}{{ x }}",
    "{% set x %}a{{ i }}b{% endset %}[{{ x }}]",
    "{% set x | upper %}abc{% endset %}{{ x }}", "{% set x | replace('a', 'b') | upper %}aa{% endset %}{{ x }}",
    "{% set true = 1 %}",
    "{% set x = 1 %}{% if t %}{% set x = 2 %}{% endif %}{{ x }}",
    "{% set x = 1 %}{% for y in l %}{% set x = y %}{{ x }}{% endfor %}{{ x }}",
    "{% for y in l %}{{ x is defined }}{% set x = y %}{{ x }}{% endfor %}",
    "{% set ns = namespace(n=0) %}{% for y in l %}{% set ns.n = ns.n + y %}{% endfor %}{{ ns.n }}",
    "{% set d.a = 5 %}",
    "{% set ns = namespace() %}{% set ns.x = 1 %}{% set ns.y = 2 %}{{ ns.x }}{{ ns.y }}{{ ns.z }}",
    "{% set i.x = 1 %}", "{% set missing.x = 1 %}",
    "{% set ns = namespace(a=1) %}{% set ns.a, b = 3, 4 %}{{ ns.a }}{{ b }}",
    "{% set x %}{% set z = 1 %}{{ z }}{% endset %}{{ x }}{{ z }}",
    "{% set ns = namespace(t='') %}{% for x in ls %}{% set ns.t = ns.t ~ x %}{% endfor %}{{ ns.t }}",
    "{% set ns = namespace() %}{% set ns.t %}abc{% endset %}{{ ns.t }}",
    "{% macro m(a, b=2, c=a) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }} {{ m(1, 3) }} {{ m(1, c=5) }} {{ m(b=1) }} {{ m() }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(x=2) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}",
    "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}",
    "{% macro m(a) %}{{ g }}{% endmacro %}{% set g = 5 %}{{ m() }}",
    "{% macro m(n) %}{{ n }}{% if n > 0 %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(5) }}",
    "{{ m(1) }}{% macro m(a) %}{% endmacro %}",
    "{% macro m(x) %}<{{ caller(x) }}>{% endmacro %}{% call(y) m(5) %}[{{ y }}]{% endcall %}",
    "{% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}x{{ i }}{% endcall %}",
    "{% macro m() %}x{% endmacro %}{% call m() %}y{% endcall %}",
    "{% macro m() %}\n  x\n{% endmacro %}[{{ m() }}]{{ m() | trim }}{{ m() | length }}",
    "{% macro m() %}{% set x = 9 %}{% endmacro %}{% set x = 1 %}{{ m() }}{{ x }}",
    "{% macro m(a, b) %}{{ a ~ b }}{% endmacro %}{{ m(b='x', a='y') }}{{ m is callable }}",
    "{% macro m(a=1, b) %}{% endmacro %}", "{% macro %}",
    "{% for x in l %}{% macro q() %}{{ x }}{% endmacro %}{{ q() }}{% endfor %}",
    "{% macro m() %}{% for x in l %}{{ x }}{% endfor %}{% endmacro %}{% for x in ls %}{{ m() }}{% endfor %}",
    "{% filter upper %}ab{{ s }}{% endfilter %}", "{% filter replace('a', 'b') | upper %}aa{% endfilter %}",
    "{% filter nope %}{% endfilter %}",
    "{% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q }}",
    "{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a }}", "{% with a = i, b = a %}{{ b }}{% endwith %}",
    "{% generation %}x{{ i }}{% set q = 1 %}{% endgeneration %}{{ q }}",
    "{%- generation -%}\n x \n{%- endgeneration %}\ny",
    "{% include 'x' %}", "{% import 'x' as y %}", "{% extends 'x' %}", "{% do 1 %}", "{% nonsense %}", "{% 1 %}",
    "{% trans %}x{% endtrans %}",
    "{{ d.items }}" if False else "{{ d['items'] }}", "{{ s.upper is callable }}",
    "{% if missing %}a{% else %}b{% endif %}", "{{ 1 }}{{ '' }}{{ none }}",
    "{{ evil }}{{ evil | trim }}", "{% set x = evil %}{{ x }}", "{% for c in evil %}{{ c }}{% endfor %}",
    "line1\nline2 {{ missing.x }}\n", "{{ raise_exception('Only user and assistant roles are supported!') }}",
    "{% if t %}{{ raise_exception(s ~ '!') }}{% endif %}",
    "{%- for p in people -%}\n  {{- p.name }}: {{ p.age }}\n{% endfor -%}\nend",
    "{% for p in people %}{{ p['name'] if p.tag is defined else '-' }}{% endfor %}",
    "{%- set loop_messages = people[1:] -%}{%- for m in loop_messages -%}{{ m['name'] + '\\n' }}{%- endfor -%}",
    "{% set x = [] %}{% set x = x + [1] %}{{ x }}",
    "{% set ns = namespace(found=false) %}{% for p in people %}{% if p.age > 10 %}{% set ns.found = true %}{% endif %}{% endfor %}{{ ns.found }}",
    "{% if 'a' in d and d.a is not none %}ok{% endif %}", "{% for x in d | dictsort %}{{ x[0] }}{{ x.1 }}{% endfor %}",
    "{{ people | map(attribute='name') | map('upper') | join(', ') }}",
    "{% set g = l | select('odd') %}{{ g | list }}{{ g | list }}",
    "{% set g = l | map('string') %}{{ g | first }}{{ g | list }}",
    "{% set x = l | map('string') %}{% if x %}true{% endif %}",
]

# Variables, not literals: jinja2 computes constants when it compiles, and then some do not fail as they would later.
ATOMS = ["s", "u", "i", "neg", "f", "t", "nothing", "l", "ls", "mixed", "d", "missing", "lit", "empty", "three", "minus", "half", "pair", "nil",
         "kv", "(three, s)", "people", "people[0]", "num", "words", "html", "quote", "range(three)", "zero", "w"]
FILTERS = ["upper", "lower", "trim", "length", "list", "first", "last", "string", "int", "float", "tojson", "default('dd')", "join('-')", "sort", "reverse",
           "unique", "abs", "title", "capitalize", "items", "map('string')", "select('string')",
           "replace('l', 'LL')", "indent(2)",
           "map(attribute='name')", "selectattr('age')", "d('x', true)", "tojson(indent=1)", "dictsort", "count"]
TESTS = ["defined", "none", "string", "number", "mapping", "iterable", "sequence", "true", "odd", "eq 3", "in [1, 3, 7]", "boolean", "integer", "float",
         "undefined", "callable", "gt 2"]
METHODS = ["upper()", "split()", "split('l')", "strip()", "items()", "keys()", "get('a', 1)", "startswith('H')", "replace('o', '0')", "title()", "get('name')",
           "splitlines()", "rstrip('d')", "find('l')", "values()"]
OPERATORS = ["+", "-", "*", "/", "//", "~", "==", "!=", "<", "<=", ">", "in", "not in", "and", "or"]


def random_expression(rng, depth):
    if depth == 0:
        return rng.choice(ATOMS)
    inner = lambda: random_expression(rng, depth - 1)
    kind = rng.randrange(11)
    if kind < 3:
        return f"{inner()} | {rng.choice(FILTERS)}"
    if kind < 5:
        return f"({inner()} {rng.choice(OPERATORS)} {inner()})"
    if kind == 5:
        return f"({inner()} is {rng.choice(['', 'not '])}{rng.choice(TESTS)})"
    if kind == 6:
        return f"({inner()}).{rng.choice(METHODS)}"
    if kind == 7:
        return f"({inner()})[{rng.choice(['0', '-1', '1:', '::-1', ':2', chr(39) + 'a' + chr(39), '1:3', '-2:', '::2'])}]"
    if kind == 8:
        return f"({inner()} if {inner()} else {inner()})"
    if kind == 9:
        return f"[{inner()}, {inner()}]"
    return f"(not {inner()})"


# Python prints generators and functions with their addresses.
def comparable(text):
    return not any(word in text for word in ("<generator", "<built-in", "<bound", "<function", "object at", "<class", "<reverse", "<list_rev"))


class Snippets(jr.ReferenceTest):
    def differs(self, template):
        want, got = (jr.outcome(side, template, CONTEXT) for side in (self.reference, self.ours))
        if want[0] and not got[0] and got[1].endswith("cannot be printed"):
            return None  # jinja2 prints the addresses of generators and functions
        if want[0] != got[0] or (want[0] and want[1] != got[1]):
            return f"{template!r}\n    jinja2: {want[1]!r}\n    ours:   {got[1]!r}"
        return None

    def none_differ(self, templates):
        wrong = [w for w in map(self.differs, templates) if w]
        if wrong:
            self.fail(f"{len(wrong)} of {len(templates)}:\n" + "\n".join(wrong[:40]))

    def test_expressions(self):
        self.none_differ(["{{ " + line + " }}" for line in EXPRESSIONS.strip().split("\n")])

    def test_snippets(self):
        self.none_differ(SNIPPETS)

    def test_random_expressions(self):
        rng = random.Random(6)
        templates = []
        while len(templates) < 1500:
            template = "{{ " + random_expression(rng, rng.randrange(1, 4)) + " }}"
            ok, text = jr.outcome(self.reference, template, CONTEXT)
            if not ok or comparable(text):
                templates.append(template)
        self.none_differ(templates)


unittest.main(verbosity=1)
