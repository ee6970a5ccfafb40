// fuzz_jinja.c - a template and, after a byte 0, its variables as JSON. Rendering any of them ends
// within its limits; the output is UTF-8 with a mark for each byte, and the same the next time.
#include <string.h>

#include "base/text/utf8.h"
#include "format/jinja/jinja.h"
#include "fuzz.h"
#include "json_doc.h"

FUZZ_TARGET(fuzz_jinja);

enum { MAX_VAR = 16 };

static const fxi_jinja_limits limits = {
    .n_step = 20000, .memory_bytes = 1 << 20, .output_bytes = 1 << 16, .depth = 100};

static fx_status render(const fxi_jinja *t, const fxi_json *vars, fxi_marked *out)
{
    fxi_jinja_var var[MAX_VAR];
    fxi_jinja_context c = {.var = var, .limits = &limits};
    for (fxi_json_iter it = fxi_json_members(vars); fxi_json_next(&it);) {
        if (c.n_var < MAX_VAR) {
            var[c.n_var] = (fxi_jinja_var){it.key, it.value, (fxi_jinja_owner)(c.n_var % 3)};
            c.n_var++;
        }
    }
    fx_error err;
    fx_status st = fxi_jinja_render(t, &c, out, &err);
    FUZZ_CHECK(st == FX_OK || (st == FX_EINVAL && !strncmp(err.text, "chat template, line ", 20)));
    return st;
}

static void check(const fxi_jinja *t, const fxi_json *vars)
{
    fxi_marked one = {0}, two = {0};
    fx_status st = render(t, vars, &one);
    FUZZ_CHECK(one.text.n == one.own.n && one.text.n <= limits.output_bytes);
    FUZZ_CHECK(st == FX_OK || !one.text.n);
    FUZZ_CHECK(fxi_utf8_check(one.text.p, one.text.n) == one.text.n);
    FUZZ_CHECK(render(t, vars, &two) == st);
    FUZZ_CHECK(one.text.n == two.text.n &&
               (!one.text.n || !memcmp(one.text.p, two.text.p, one.text.n)));
    FUZZ_CHECK(!one.own.n || !memcmp(one.own.p, two.own.p, one.own.n));
    fxi_marked_free(&one);
    fxi_marked_free(&two);
}

int fuzz_jinja_run(const uint8_t *data, size_t n_bytes)
{
    const uint8_t *zero = n_bytes ? memchr(data, 0, n_bytes) : NULL;
    const size_t n = zero ? (size_t)(zero - data) : n_bytes;
    fxi_jinja *t;
    fx_error err;
    fx_status st = fxi_jinja_compile((const char *)data, n, &t, &err);
    FUZZ_CHECK(st == FX_OK || (st == FX_EFORMAT && !t && !strncmp(err.text, "chat template", 13)));
    if (st != FX_OK) return 0;
    fxi_json_doc vars = {0};
    if (zero) vars = json_doc_sized((const char *)zero + 1, n_bytes - n - 1);
    check(t, vars.root);
    fxi_json_doc_free(&vars);
    fxi_jinja_free(t);
    return 0;
}

#define VARS                                                                                      \
    "\0{\"messages\":[{\"role\":\"user\",\"content\":\"hi \\u20ac {{ 1 "                          \
    "}}\"},{\"role\":\"assistant\",\"content\":\"yo\","                                           \
    "\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{\"a\":[1,2.5,null,true]}}}]}]," \
    "\"tools\":[{\"name\":\"f\","                                                                 \
    "\"x\":{\"y\":[]}}],\"s\":\"Hello\",\"n\":7,\"bos_token\":\"<s>\"}"

bool fuzz_jinja_seed(unsigned i, fxi_buf *out)
{
#define SEED(text)                       \
    {                                    \
        text VARS, sizeof(text VARS) - 1 \
    }
    static const struct {
        const char *p;
        size_t n;
    } seeds[] = {
        SEED("{{ bos_token }}{% for m in messages %}{{ '<|' + m.role + '|>' + m['content'] | trim "
             "}}{% endfor %}"),
        SEED("{%- set ns = namespace(a=1, b='x') -%}{% for m in messages[::-1] if m.role != 'x' "
             "%}{% set ns.a = ns.a + 1 %}"
             "{{ loop.index }}{{ loop.last }}{{ loop.previtem }}{% else %}none{% endfor %}{{ ns.a "
             "}}"),
        SEED("{% macro m(a, b=2, c=a) %}{{ a ~ b }}{{ caller(c) }}{{ varargs }}{% endmacro %}{% "
             "call(x) m(1, 2) %}{% endcall %}"
             "{% macro r(n) %}{{ n }}{{ r(n - 1) if n > 0 }}{% endmacro %}{{ r(5) }}"),
        SEED("{{ messages | map(attribute='role') | join(', ') | upper }}{{ tools | "
             "tojson(indent=2) }}{{ s[1:-1:2] }}"
             "{{ messages | selectattr('role', 'equalto', 'user') | list | length }}{{ s | "
             "indent(3) | title }}"),
        SEED("{{ s.split('l') }}{{ s.replace('l', 'L', 1) }}{{ s.find('o') }}{{ '%s-%5.2f|%03d' % "
             "(s, n, n) }}{{ '{}'.format(n) }}"
             "{{ s.center(20, '*') }}{{ s.startswith(('a', 'H')) }}{{ s.partition('l') }}{{ ' a b "
             "'.rsplit(none, 1) }}"),
        SEED("{% set x %}a{{ n }}{% endset %}{% filter replace('a', 'b') | upper %}{{ x }}{% "
             "endfilter %}{% raw %}{{{% endraw %}"
             "{% generation %}y{% endgeneration %}{% with q = 1, w = x %}{{ q ~ w }}{% endwith "
             "%}{# c #}"),
        SEED("{{ n + 1 - 2 * 3 / 4 // 5 % 6 ** 2 }}{{ 1 < n <= 7 and not s in 'x' or n is odd }}{{ "
             "-n | abs }}{{ 2.5 | round(1) }}"
             "{{ [1, (2,), {'k': n}] }}{{ n if s is string else none }}{{ '7' | int + '1.5' | "
             "float }}{{ n is divisibleby 7 }}"),
        SEED("{{ [3, 1, 2] | sort(reverse=true) }}{{ {'b': 1, 'a': 2} | dictsort }}{{ [1, 1] | "
             "unique | list }}{{ 'abc' | list | batch(2)"
             " | list }}{{ messages | groupby('role') }}{{ [1, 2] | sum }}{{ ['b', 'A'] | min }}{{ "
             "range(5, 0, -2) | list }}"),
        SEED("{%- for k, v in tools[0].items() %}{{ k }}: {{ v if v is not mapping else v | items "
             "| list }}{% if loop.first %}"
             "{% continue %}{% endif %}{% break %}{% endfor %}{{ raise_exception('no ' ~ s) }}"),
        SEED("{{ strftime_now('%d %b %Y') }}{{ cycler(1, 2).next() }}{{ joiner('-')() }}{{ "
             "dict(a=1, b=[2]) }}{{ s | e }}"
             "{{ '\\n\\x41\\u20ac\\'' }}{{ s ~ n ~ none }}{{ s * 3 }}{{ missing.x }}"),
    };
    if (i >= sizeof seeds / sizeof *seeds) return false;
    if (!fxi_buf_add(out, seeds[i].p, seeds[i].n)) abort();
    return true;
}
