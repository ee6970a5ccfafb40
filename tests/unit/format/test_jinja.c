// The template interpreter by itself: what it renders, what it refuses and with which line, its
// limits, and the marks of every byte. tests/format compares it with jinja2 on much more.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/jinja/jinja.h"
#include "json_doc.h"
#include "unit/cmocka_all.h"

#define COUNT(table) (sizeof(table) / sizeof *(table))

static const char context_json[] =
    "{\"s\": \"Hello\", \"u\": \"\\u00e9\\u20ac\\ud83e\\udd99\", \"i\": 7, \"f\": 2.5, \"t\": "
    "true, \"none_\": null,"
    " \"l\": [3, 1, 2], \"d\": {\"a\": 1, \"b\": \"two\", \"items\": 0}, \"evil\": \"{{ 7*7 "
    "}}<|x|>\","
    " \"people\": [{\"name\": \"Zoe\", \"age\": 3}, {\"name\": \"adam\", \"age\": 30}],"
    " \"messages\": [{\"role\": \"user\", \"content\": \"hi\"}, {\"role\": \"boss\", \"content\": "
    "\"yo\"}]}";

// Renders with the context above; own_ is "<|im|>" of the template's own.
static fx_status render(const char *template, size_t n, const fxi_jinja_limits *lim,
                        fxi_marked *out, fx_error *err)
{
    fxi_json_doc vars = json_doc_of(context_json), mark = json_doc_of("\"<|im|>\"");
    fxi_jinja_var var[32] = {{"own_", mark.root, FXI_JINJA_TEMPLATE}};
    fxi_jinja_context c = {.var = var, .n_var = 1, .limits = lim};
    fxi_jinja *t;
    assert_non_null(vars.root);
    for (fxi_json_iter it = fxi_json_members(vars.root); fxi_json_next(&it);) {
        fxi_jinja_owner owner = strcmp(it.key, "messages") ? FXI_JINJA_CALLER : FXI_JINJA_MESSAGES;
        var[c.n_var++] = (fxi_jinja_var){it.key, it.value, owner};
    }
    c.now.tm_year = 126;
    c.now.tm_mday = 3;
    fx_status st = fxi_jinja_compile(template, n, &t, err);
    if (st == FX_OK) st = fxi_jinja_render(t, &c, out, err);
    fxi_jinja_free(t);
    fxi_json_doc_free(&vars);
    fxi_json_doc_free(&mark);
    return st;
}

static fxi_marked rendered(const char *template)
{
    fxi_marked out = {0};
    fx_error err = {0};
    if (render(template, strlen(template), NULL, &out, &err) != FX_OK)
        fail_msg("%s: %s", template, err.text);
    assert_int_equal(out.text.n, out.own.n);
    return out;
}

static void expect(const char *template, const char *text)
{
    fxi_marked out = rendered(template);
    assert_string_equal(out.text.p ? out.text.p : "", text);
    fxi_marked_free(&out);
}

// ---- what is rendered ---------------------------------------------------------------------------

// A sample: tests/format/test_jinja_snippets.py has hundreds, against jinja2 itself.
FX_TEST(test_rendering)
{
    static const struct {
        const char *template, *text;
    } cases[] = {
        {"", ""},
        {"a\r\nb\rc", "a\nb\nc"},
        {"{{ s[1:-1] }} {{ s[::-1] }} {{ u[1] }} {{ u | length }} {{ l[-1] }} {{ l[5] }}.",
         "ell olleH \xE2\x82\xAC 3 2 ."},
        {"{{ none }} {{ 1.0 }} {{ 1e20 }} {{ [1, 'a', none, 2.5, {'k': (1,)}] }}",
         "None 1.0 1e+20 [1, 'a', None, 2.5, {'k': (1,)}]"},
        {"{% for k, v in d.items() %}{% if k == 'b' %}{% break %}{% endif %}{{ k }}{{ v }}{% "
         "endfor %}",
         "a1"},
        {"a\n  {% if t %}\n  b\n  {% endif %}\nc", "a\n  b\nc"},
        {"{{ d | tojson }} {{ l | tojson(indent=1) }}",
         "{\"a\": 1, \"b\": \"two\", \"items\": 0} [\n 3,\n 1,\n 2\n]"},
        {"{{ strftime_now('%d %Y') }}", "03 2026"},
        {"{{ evil }}{% set x = evil %}{{ x | upper }}", "{{ 7*7 }}<|x|>{{ 7*7 }}<|X|>"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) expect(cases[i].template, cases[i].text);
}

// ---- marks --------------------------------------------------------------------------------------

// The text with the template's own bytes in brackets: "[<|im_start|>]user".
static void expect_marks(const char *template, const char *marked)
{
    fxi_marked out = rendered(template);
    fxi_buf got = {0};
    for (size_t i = 0; i < out.text.n; i++) {
        bool begins = out.own.p[i] && (!i || !out.own.p[i - 1]);
        bool ends = out.own.p[i] && (i + 1 == out.text.n || !out.own.p[i + 1]);
        assert_true(fxi_buf_fmt(&got, "%s%c%s", begins ? "[" : "", out.text.p[i], ends ? "]" : ""));
    }
    assert_string_equal(got.p ? got.p : "", marked);
    fxi_buf_free(&got);
    fxi_marked_free(&out);
}

FX_TEST(test_marks)
{
    static const struct {
        const char *template, *marked;
    } cases[] = {
        {"a{{ s }}b", "[a]Hello[b]"},
        {"{{ own_ }}{{ s }}", "[<|im|>]Hello"},
        {"{{ 'a' + s + 'b' }}{{ 'c' ~ s }}", "[a]Hello[bc]Hello"},
        {"{{ ('a' + s)[0:3] }}{{ ('a' + s)[::-1] }}{{ ('a' + s)[0] }}", "[a]Heolle"
                                                                        "H[aa]"},
        {"{{ ('ab' + s).upper() }}{{ ('ab' + s) | title }}", "[AB]HELLO[Ab]hello"},
        {"{{ s.replace('l', 'L') }}{{ 'xlx'.replace('l', s) }}{{ s.replace('', '-', 2) }}",
         "He[LL]o[x]Hello[x-]H[-]ello"},
        {"{{ [s, 'b'] | join(', ') }}{{ ', '.join([s]) }}{{ s | list | join('-') }}",
         "Hello[, b]HelloH[-]e[-]l[-]l[-]o"},
        {"{{ (s ~ ',' ~ s).split(',') | first }}{{ ('a' ~ s).split('l')[0] }}", "Hello[a]He"},
        {"{{ ('  ' ~ s ~ ' ') | trim }}{{ ('x' ~ s ~ 'x').strip('H') }}", "Hello[x]Hello[x]"},
        {"{{ s | tojson }}{{ 'a' | tojson }}{{ '\\n' | tojson }}", "\"Hello\"\"[a]\"\"[\\n]\""},
        {"{{ [s, 'a'] }}{{ {'k': s} }}", "['Hello', '[a]']{'[k]': 'Hello'}"},
        {"{{ i }}{{ 5 }}{{ i + 1 }}{{ 5 + 1 }}{{ f }}{{ l | length }}", "7[5]8[6]2.5[3]"},
        {"{{ (s ~ '-x').removesuffix('x') }}{{ (s ~ '\\na').splitlines() | last }}", "Hello[-a]"},
        {"{% set x %}a{{ s }}{% endset %}{{ x }}{% filter upper %}b{{ s }}{% endfilter %}",
         "[a]Hello[B]HELLO"},
        {"{% macro m(v) %}<{{ v }}>{% endmacro %}{{ m(s) }}{{ m('a') }}", "[<]Hello[><a>]"},
        {"{% for c in s[:2] %}{{ c }}{{ loop.index }}{% endfor %}", "H[1]e[2]"},
        {"{% for k, v in d.items() %}{{ k }}{{ v }}{% endfor %}", "a1btwoitems0"},
        {"{{ s | indent(2, true) }}{{ s | capitalize }}", "[  ]HelloHello"},
        {"{% set n = namespace(t='') %}{% for c in ['a', s] %}{% set n.t = n.t ~ c %}{% endfor "
         "%}{{ n.t }}",
         "[a]Hello"},
        {"{{ s * 2 }}{{ 'ab' * 2 }}{{ s | reverse }}{{ s | string | lower }}",
         "HelloHello[abab]olleHhello"},
        {"{{ missing | default('x') }}{{ none_ | default(s, true) }}", "[x]Hello"},
        {"{{ messages[0].role }}{{ messages[1].role }}{{ messages[0].content }}", "[user]bosshi"},
        {"{{ evil }}", "{{ 7*7 }}<|x|>"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) expect_marks(cases[i].template, cases[i].marked);
}

// A concatenation that grows in place does not change earlier results.
FX_TEST(test_concatenations_apart)
{
    expect("{% set a = s + 'x' %}{% set b = a + '1' %}{% set c = a + '2' %}{{ a }} {{ b }} {{ c }} "
           "{{ a + b + c }}",
           "Hellox Hellox1 Hellox2 HelloxHellox1Hellox2");
    expect("{% set a = 'x' + s %}{% set b = a[1:] %}{% set c = a + '!' %}{{ b }}{{ c }}{{ b + '?' "
           "}}{{ c }}",
           "HelloxHello!Hello?xHello!");
}

// ---- errors -------------------------------------------------------------------------------------

// The output stays as it was.
static void expect_failure(const char *template, const fxi_jinja_limits *lim, fx_status status,
                           const char *text)
{
    fxi_marked out = {0};
    fx_error err = {0};
    assert_true(fxi_buf_str(&out.text, "before") && fxi_buf_str(&out.own, "\1\1\1\1\1\1"));
    assert_int_equal(render(template, strlen(template), lim, &out, &err), status);
    assert_string_equal(err.text, text);
    assert_int_equal(out.text.n, 6);
    assert_int_equal(out.own.n, 6);
    fxi_marked_free(&out);
}

static void expect_error(const char *template, fx_status status, const char *text)
{
    expect_failure(template, NULL, status, text);
}

#define AT(line) "chat template, line " #line ": "

FX_TEST(test_refused)
{
    static const struct {
        const char *template, *text;
    } cases[] = {
        {"a\n{% include 'x' %}", AT(2) "the tag 'include' is not supported here"},
        {"{% endfor %}", AT(1) "the tag 'endfor' is not supported here"},
        {"\n\n{{ s | shuffle }}", AT(3) "the filter 'shuffle' is not supported"},
        {"{{ s is nice }}", AT(1) "the test 'nice' is not supported"},
        {"{{ open('x') }}", AT(1) "the function 'open' is not supported"},
        {"{% for x in l recursive %}{% endfor %}", AT(1) "recursive loops are not supported"},
        {"{% for x in l %}{{ loop(x) }}{% endfor %}", AT(1) "recursive loops are not supported"},
        {"{{ dict(*l) }}", AT(1) "'*' in front of an argument is not supported"},
        {"{% break %}", AT(1) "'break' outside of a loop"},
        {"{% if t %}\n\n", AT(1) "a block has no 'endif'"},
        {"{{ 1 +\n}}", AT(2) "expected an expression, got '}}'"},
        {"{{ 1 2 }}", AT(1) "expected '}}', got '2'"},
        {"{{ (1 }}", AT(1) "unexpected '}'"},
        {"x\n{{ 'abc }}", AT(2) "unterminated string"},
        {"\n{{ 1", AT(2) "unterminated '{{'"},
        {"{# x", AT(1) "unterminated comment"},
        {"{% raw %}x", AT(1) "'raw' has no 'endraw'"},
        {"{{ a ! b }}", AT(1) "unexpected character '!'"},
        {"{{ '\\ud800' }}", AT(1) "invalid escape sequence"},
        {"{{ 99999999999999999999 }}", AT(1) "the number 99999999999999999999 is too large"},
        {"{% set 1 = 2 %}", AT(1) "expected a name to assign to, got '1'"},
        {"a\xFF", "chat template: bad UTF-8 at byte 1"},
        {"{% macro m(a=1, b) %}{% endmacro %}",
         AT(1) "a parameter without a default follows one with a default"},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        expect_error(cases[i].template, FX_EFORMAT, cases[i].text);
}

// Parts of jinja2 and Python that no published chat template uses get one line that names them, at
// compile time if the name is known then.
FX_TEST(test_unused_parts_are_named)
{
    static const struct {
        const char *kind, *names, *usage;
        fx_status status;
        const char *before, *after; // in the error, around "the KIND 'NAME' is not supported"
    } kinds[] = {
        {"tag", "autoescape block debug do extends from import include trans", "{%% %s x %%}",
         FX_EFORMAT, "", " here"},
        {"filter",
         "attr batch center e escape filesizeformat forceescape format groupby max min pprint "
         "random round slice striptags sum truncate urlencode urlize wordcount wordwrap xmlattr",
         "{{ s | %s }}", FX_EFORMAT, "", ""},
        {"test", "divisibleby escaped filter greaterthan lessthan lower sameas test upper",
         "{{ s is %s }}", FX_EFORMAT, "", ""},
        {"function", "cycler dict joiner lipsum", "{{ %s(1) }}", FX_EFORMAT, "", ""},
        {"filter", "batch round", "{{ l | map('%s') }}", FX_EINVAL, "map: ", ""},
        {"test", "< <= > >= sameas lower", "{{ l | select('%s', 1) }}", FX_EINVAL, "select: ", ""},
        {"method",
         "casefold center count encode expandtabs format format_map index isalnum isalpha isascii "
         "isdecimal isdigit isidentifier islower isnumeric isprintable isspace istitle isupper "
         "ljust maketrans partition rfind rindex rjust rpartition swapcase translate zfill",
         "{{ s.%s(1) }}", FX_EINVAL, "", ""},
        {"method", "clear copy fromkeys pop popitem setdefault update", "{{ d.%s(1) }}", FX_EINVAL,
         "", ""},
        {"method", "append clear copy count extend index insert pop remove reverse sort",
         "{{ l.%s(1) }}", FX_EINVAL, "", ""},
        {"method", "count index", "{{ (1, 2).%s(1) }}", FX_EINVAL, "", ""},
        {"method", "changed cycle", "{%% for x in l %%}{{ loop.%s(1) }}{%% endfor %%}", FX_EINVAL,
         "", ""},
    };
    for (size_t i = 0; i < COUNT(kinds); i++) {
        char names[512], template[128], text[128];
        snprintf(names, sizeof names, "%s", kinds[i].names);
        for (char *rest = names, *name; (name = strtok_r(rest, " ", &rest));) {
            snprintf(template, sizeof template, kinds[i].usage, name);
            snprintf(text, sizeof text, AT(1) "%sthe %s '%s' is not supported%s", kinds[i].before,
                     kinds[i].kind, name, kinds[i].after);
            expect_error(template, kinds[i].status, text);
        }
    }
}

FX_TEST(test_failures)
{
    static const struct {
        const char *template, *text;
    } cases[] = {
        {"\n{{ missing.x }}", AT(2) "'missing' is undefined"},
        {"{{ d.q.x }}", AT(1) "'q' is undefined"},
        {"{{ 'a' +\n1 }}", AT(1) "'+' is not supported between str and int"},
        {"{{ 1 // 0 }}", AT(1) "division by zero"},
        {"{{ 9223372036854775807 + 1 }}", AT(1) "a number is too large"},
        {"{{ '%d' % 1 }}", AT(1) "'%' is not supported between str and int"},
        {"{{ 1 < 'a' }}", AT(1) "'<' is not supported between int and str"},
        {"{% for x in i %}{% endfor %}", AT(1) "a int cannot be looped over"},
        {"{% for a, b in l %}{% endfor %}", AT(1) "a int cannot be looped over"},
        {"{{ s.upper(1) }}", AT(1) "upper: takes 0 arguments at most, got 1"},
        {"{{ s | trim(x=1) }}", AT(1) "trim: has no argument 'x'"},
        {"{{ missing | tojson }}", AT(1) "tojson: a Undefined cannot be converted"},
        {"{% set d.x = 1 %}", AT(1) "cannot assign to an attribute of a dict, only of a namespace"},
        {"{{ raise_exception('no ' + s) }}", AT(1) "no Hello"},
        {"{{ raise_exception('a\\nb\\x07c') }}", AT(1) "a b c"},
        {"{% macro m(x) %}{{ x }}{% endmacro %}{{ m(1, 2) }}",
         AT(1) "a macro got too many arguments"},
        {"{% set least = -9223372036854775807 - 1 %}{{ ('a' | indent(least)) ~ -least }}",
         AT(1) "a number is too large"},
        {"{{ range(9223372036854775800, 9223372036854775807, 5)[::1] }}",
         AT(1) "a number is too large"},
        {"{{ range(1000000) }}", AT(1) "range: longer than 100000"},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        expect_error(cases[i].template, FX_EINVAL, cases[i].text);
}

// ---- limits -------------------------------------------------------------------------------------

static void expect_limit(const char *template, fxi_jinja_limits lim, const char *text)
{
    expect_failure(template, &lim, FX_EINVAL, text);
}

// Work that shows neither in nodes nor in output counts too: uncounted, each of these would take
// ten seconds or more.
FX_TEST(test_work_counts)
{
    fxi_jinja_limits lim = fxi_jinja_usual_limits;
    lim.n_step = 4000000;
    static const char *const bodies[] = {
        "{{ range(100000)|unique|list|length }}",
        "{% set l = range(100000)|list %}{% for i in l %}{% if -1 in l %}{% endif %}{% endfor %}",
        "{{ b.strip(a) }}",
        "{{ b|trim(a) }}",
        "{{ b.rsplit('b' ~ b[:500000])|length }}{{ b.rsplit(b[:500000] ~ 'c')|length }}",
        "{% for i in range(99999) %}{% set x = b.removeprefix(c) %}{% endfor %}",
        "{% for i in range(99999) %}{% if b.startswith((c, c, c, c, c, c)) %}{% endif %}{% endfor "
        "%}",
        "{% for i in range(9999) %}{% if b.split() or b.splitlines() %}{% endif %}{% endfor %}",
        "{% for i in range(9999) %}{% if 'aab' in b or b.find('aab') %}{% endif %}{% endfor %}",
    };
    for (size_t i = 0; i < COUNT(bodies); i++) {
        char template[512];
        snprintf(template, sizeof template,
                 "{%% set b = 'a' * 1000000 %%}{%% set a = 'b' * 1000000 ~ 'a' %%}"
                 "{%% set c = 'a' * 999999 ~ 'b' %%}\n%s",
                 bodies[i]);
        expect_limit(template, lim, AT(2) "takes more than 4000000 steps");
    }
}

FX_TEST(test_limits)
{
    const fxi_jinja_limits usual = fxi_jinja_usual_limits;
    fxi_jinja_limits lim = usual;
    lim.n_step = 1000;
    expect_limit("\n{% for x in range(1000) %}{% endfor %}", lim,
                 AT(2) "takes more than 1000 steps");
    lim = usual;
    lim.memory_bytes = 100000;
    expect_limit("{% set n = namespace(x='a') %}\n{% for i in range(99) %}{% set n.x = n.x * 2 "
                 "%}{% endfor %}",
                 lim, AT(2) "takes more than 100000 bytes of memory");
    lim = usual;
    lim.output_bytes = 1000;
    expect_limit("{% for x in range(999) %}\nxx{% endfor %}", lim,
                 AT(2) "writes more than 1000 bytes");
    lim = usual;
    lim.depth = 50;
    expect_limit("{% macro m() %}\n{{ m() }}{% endmacro %}{{ m() }}", lim,
                 AT(2) "nests deeper than 50");
}

// Any template ends soon and in bounded memory.
FX_TEST(test_greedy_templates)
{
    static const char *const greedy[] = {
        "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% "
        "endfor %}{% endfor %}{% endfor %}",
        "{{ 'x' * 9223372036854775807 }}",
        "{{ [1] * 9223372036854775807 }}",
        "{{ '' * 9223372036854775807 ~ ('ab' * 99999999 * 9999) }}",
        "{% set n = namespace(x=[1]) %}{% for i in range(999) %}{% set n.x = n.x + n.x %}{% endfor "
        "%}",
        "{% set n = namespace(x=[]) %}{% for i in range(9999) %}{% set n.x = [n.x] %}{% endfor "
        "%}{{ n.x }}",
        "{% set n = namespace(x=[]) %}{% for i in range(9999) %}{% set n.x = [n.x] %}{% endfor "
        "%}{{ n.x == n.x | tojson }}{{ n.x | tojson }}",
        "{% macro m(x) %}{{ m(x + x) }}{% endmacro %}{{ m('x') }}",
        "{{ [1] | tojson(indent=9223372036854775807) }}",
        "{{ 'a' | indent(9223372036854775807) }}",
        "{{ range(99999) | map('string') | join('x' * 99999) }}",
        "{{ 'a'.replace('', 'b' * 9999999).replace('b', 'c' * 9999999) }}",
        "{{ 2 ** 9223372036854775807 }}",
    };
    for (size_t i = 0; i < COUNT(greedy); i++) {
        fxi_marked out = {0};
        fx_error err = {0};
        fxi_jinja_limits lim = fxi_jinja_usual_limits;
        lim.n_step = 300000;
        assert_int_equal(render(greedy[i], strlen(greedy[i]), &lim, &out, &err), FX_EINVAL);
        fxi_marked_free(&out);
    }
}

static char *repeated(const char *front, const char *unit, size_t n, const char *back)
{
    fxi_buf b = {0};
    assert_true(fxi_buf_str(&b, front));
    for (size_t i = 0; i < n; i++) assert_true(fxi_buf_str(&b, unit));
    assert_true(fxi_buf_str(&b, back));
    return b.p;
}

// Templates that nest deep or go on long are refused, or rendered, without a deep stack.
FX_TEST(test_large_templates)
{
    static const struct {
        const char *front, *unit;
        size_t n;
        const char *back;
        fx_status status;
    } cases[] = {
        {"{{ ", "(", 5000, "1", FX_EFORMAT},
        {"{{ ", "[", 5000, "", FX_EFORMAT},
        {"{{ ", "-", 50000, "1 }}", FX_EFORMAT},
        {"{{ ", "not ", 50000, "1 }}", FX_EFORMAT},
        {"{{ ", "1 if 1 else ", 20000, "1 }}", FX_EFORMAT},
        {"", "{% if t %}", 5000, "", FX_EFORMAT},
        {"", "{% for x in l %}", 5000, "", FX_EFORMAT},
        {"{{ 1", " + 1", 50000, " }}", FX_EINVAL},
        {"{{ s", " | upper", 20000, " }}", FX_EINVAL},
        {"{{ d", ".a", 50000, " }}", FX_EINVAL},
        {"{{ 1", " == 1", 20000, " }}", FX_OK},
        {"{{ [", "1,", 20000, "] | length }}", FX_OK},
        {"{% if none_ %}", "{% elif none_ %}", 20000, "{% endif %}", FX_OK},
        {"", "{{ s }}", 20000, "", FX_OK},
        {"", "{# c #}", 50000, "", FX_OK},
        {"{{ '", "a", 500000, "' | length }}", FX_OK},
        {"", "a", FXI_JINJA_MAX_BYTES + 1, "", FX_EFORMAT},
        {"", "{% set a", 20000, "", FX_EFORMAT},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char *text = repeated(cases[i].front, cases[i].unit, cases[i].n, cases[i].back);
        fxi_marked out = {0};
        fx_error err = {0};
        fx_status st = render(text, strlen(text), NULL, &out, &err);
        if (st != cases[i].status)
            fail_msg("%s %s ..: %d, %s", cases[i].front, cases[i].unit, (int)st, err.text);
        fxi_marked_free(&out);
        free(text);
    }
}

// Building a long text piece by piece takes linear time and memory.
FX_TEST(test_long_texts)
{
    static const char template[] =
        "{% set n = namespace(t='') %}{% for i in range(20000) %}{% set n.t = n.t + 'abc' ~ s %}"
        "{% endfor %}{{ n.t | length }}";
    fxi_jinja_limits lim = fxi_jinja_usual_limits;
    fxi_marked out = {0};
    fx_error err = {0};
    lim.memory_bytes = 20 << 20;
    if (render(template, strlen(template), &lim, &out, &err) != FX_OK) fail_msg("%s", err.text);
    assert_string_equal(out.text.p, "160000");
    fxi_marked_free(&out);
}

FX_RUN(test_jinja)
