// test_output_golden.c - golden transcripts: what a model writes in, events out, however the text
// is cut.
//
// tests/vectors/answers/golden.events has the cases; its head says how they are written.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/buf.h"
#include "base/text/str.h"
#include "output_parser/output_parser.h"
#include "unit/cmocka_all.h"

#define GOLDEN FX_SOURCE_DIR "/tests/vectors/answers/golden.events"

typedef struct golden {
    char name[128], calls[32], reasoning[32];
    bool open, unmarked, cut;
    fxi_buf in, out;
} golden;

// ---- the tools f, get_weather and add; "city", "text" and "path" are text -----------------------

static bool has_tool(void *ud, const char *name, size_t n)
{
    static const char *const names[] = {"f", "get_weather", "add"};
    (void)ud;
    return fxi_str_is_any((fxi_str){name, n}, names, 3);
}

static fxi_param_kind param_kind(void *ud, const char *name, size_t n, const char *param,
                                 size_t n_param)
{
    static const char *const texts[] = {"city", "text", "path"};
    (void)ud;
    assert_true(n == 0 || name[0]);
    if (fxi_str_is_any((fxi_str){param, n_param}, texts, 3)) return FXI_PARAM_TEXT;
    return fxi_str_is((fxi_str){param, n_param}, "unknown") ? FXI_PARAM_UNKNOWN : FXI_PARAM_OTHER;
}

// Arguments that fit have no "wrong".
static fxi_args_fit args_fit(void *ud, const char *name, size_t n, const char *args, size_t n_args)
{
    (void)ud;
    assert_true(n && name[0] && args[0] == '{');
    return memmem(args, n_args, "wrong", 5) ? FXI_ARGS_BAD : FXI_ARGS_FIT;
}

static fxi_output_spec spec_of(const golden *g)
{
    fxi_output_spec spec = {.has_tool = has_tool, .param = param_kind};
    if (g->unmarked) spec.fits = args_fit;
    if (strcmp(g->calls, "-") != 0) {
        spec.calls = fxi_call_format_named(g->calls);
        assert_non_null(spec.calls);
    }
    if (strcmp(g->reasoning, "-") != 0) {
        spec.reasoning = fxi_reason_format_named(g->reasoning);
        assert_non_null(spec.reasoning);
    }
    return spec;
}

// ---- events as lines ----------------------------------------------------------------------------

typedef struct heard {
    fxi_buf out;
    int last; // kind of the last line; -1: none
} heard;

static void add_shown(fxi_buf *b, const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (p[i] == '\n')
            fxi_buf_str(b, "\\n");
        else if (p[i] == '\\')
            fxi_buf_str(b, "\\\\");
        else
            fxi_buf_add(b, p + i, 1);
    }
}

static bool hear(void *ud, const fxi_output_event *ev)
{
    static const char *const words[] = {"text ", "reasoning ", "call ", "args ", "done", "broken "};
    heard *h = ud;
    const bool joins = ev->kind == FXI_OUTPUT_TEXT || ev->kind == FXI_OUTPUT_REASONING ||
                       ev->kind == FXI_OUTPUT_ARGS;
    if (!joins || h->last != (int)ev->kind)
        fxi_buf_fmt(&h->out, "%s%s", h->out.n ? "\n" : "", words[ev->kind]);
    h->last = ev->kind;
    add_shown(&h->out, ev->p, ev->n_emitted);
    if (ev->kind == FXI_OUTPUT_BROKEN) fxi_buf_str(&h->out, "|");
    add_shown(&h->out, ev->p + ev->n_emitted, ev->n - ev->n_emitted);
    if (ev->n_id) fxi_buf_str(&h->out, " id ");
    add_shown(&h->out, ev->id, ev->n_id);
    return true;
}

// Feeds it in pieces: up to `cut`, then `step` bytes each. False, and a line: it is heard
// otherwise.
static bool run_cut(const golden *g, size_t cut, size_t step)
{
    const fxi_output_spec spec = spec_of(g);
    fxi_output_parser *a = fxi_output_parser_new(&spec);
    heard h = {.last = -1};
    assert_non_null(a);
    if (g->open) fxi_output_parser_open_reasoning(a);
    assert_true(fxi_output_parser_add(a, g->in.p, cut, hear, &h));
    for (size_t i = cut; i < g->in.n; i += step)
        assert_true(fxi_output_parser_add(a, g->in.p + i, g->in.n - i < step ? g->in.n - i : step,
                                          hear, &h));
    assert_true(fxi_output_parser_end(a, g->cut, hear, &h));
    const bool same = !strcmp(h.out.p ? h.out.p : "", g->out.p ? g->out.p : "");
    if (!same)
        print_error("%s, cut at %zu, then by %zu:\n%.*s\nis heard as\n%s\ninstead of\n%s\n\n",
                    g->name, cut, step, (int)g->in.n, g->in.p, h.out.p, g->out.p);
    fxi_buf_free(&h.out);
    fxi_output_parser_free(a);
    return same;
}

// ---- the file -----------------------------------------------------------------------------------

static bool read_case(fxi_str *rest, golden *g)
{
    fxi_str line;
    *g = (golden){0};
    do {
        if (!fxi_str_next_line(rest, &line)) return false;
    } while (line.n < 4 || memcmp(line.p, "=== ", 4) != 0);
    char open[8] = "", head[256];
    snprintf(head, sizeof head, "%.*s", (int)line.n, line.p);
    assert_true(sscanf(head, "=== %31s %31s %7s", g->calls, g->reasoning, open) >= 2);
    snprintf(g->name, sizeof g->name, "%.100s", head);
    g->open = !strcmp(open, "open");
    g->unmarked = !strcmp(open, "json");
    g->cut = !strcmp(open, "cut");
    while (fxi_str_next_line(rest, &line) && !fxi_str_is(line, "---")) {
        const bool joined = line.n && line.p[line.n - 1] == '\\'; // no line break after it
        fxi_buf_add(&g->in, line.p, line.n - joined);
        if (!joined) fxi_buf_str(&g->in, "\n");
    }
    while (fxi_str_next_line(rest, &line) && line.n) {
        if (g->out.n) fxi_buf_str(&g->out, "\n");
        fxi_buf_add(&g->out, line.p, line.n);
    }
    if (g->in.n && g->in.p[g->in.n - 1] == '\n') g->in.n--; // of the last line
    return true;
}

static fxi_buf read_golden(void)
{
    fxi_buf b = {0};
    FILE *f = fopen(GOLDEN, "rb");
    assert_non_null(f);
    size_t n;
    do {
        assert_true(fxi_buf_reserve(&b, 4096));
        n = fread(b.p + b.n, 1, 4096, f);
        b.n += n;
        b.p[b.n] = 0;
    } while (n);
    fclose(f);
    return b;
}

FX_TEST(test_each_golden_answer_is_heard_however_it_is_cut)
{
    fxi_buf file = read_golden();
    fxi_str rest = {file.p, file.n};
    golden g;
    int n = 0, n_wrong = 0;
    for (; read_case(&rest, &g); n++) {
        bool same = run_cut(&g, 0, g.in.n + 1) && run_cut(&g, 0, 1);
        for (size_t cut = 1; same && cut < g.in.n; cut++) same = run_cut(&g, cut, g.in.n);
        n_wrong += !same;
        fxi_buf_free(&g.in);
        fxi_buf_free(&g.out);
    }
    assert_true(n > 60);
    assert_int_equal(n_wrong, 0);
    fxi_buf_free(&file);
}

FX_TEST(test_every_format_has_golden_answers)
{
    fxi_buf file = read_golden();
    for (size_t i = 0; fxi_call_format_at(i); i++) {
        char head[64];
        snprintf(head, sizeof head, "\n=== %s ", fxi_call_format_at(i)->name);
        if (!strstr(file.p, head)) fail_msg("no golden answer of %s", fxi_call_format_at(i)->name);
    }
    fxi_buf_free(&file);
}

// ---- formats ------------------------------------------------------------------------------------

static void assert_no_prefix(const char *format, const char *const *mark, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++)
            if (i != k && mark[i] && mark[k] && strcmp(mark[i], mark[k]) != 0 &&
                !strncmp(mark[i], mark[k], strlen(mark[i])))
                fail_msg("%s: %s begins with %s", format, mark[k], mark[i]);
}

FX_TEST(test_no_mark_of_a_place_begins_with_another)
{
    for (size_t i = 0; fxi_call_format_at(i); i++) {
        const fxi_call_format *f = fxi_call_format_at(i);
        const char *between[] = {f->again[0], f->skip[0],  f->skip[1], f->skip[2],
                                 f->close[0], f->close[1], f->close[2]};
        const char *next[] = {f->key_open, f->call_end};
        assert_no_prefix(f->name, f->open, 3);
        assert_no_prefix(f->name, between, 7);
        assert_no_prefix(f->name, next, 2);
        assert_ptr_equal(fxi_call_format_named(f->name), f);
    }
}

static const char *calls_of(const char *jinja)
{
    const fxi_call_format *f = fxi_call_format_of(jinja, strlen(jinja));
    return f ? f->name : "none";
}

static const char *reasoning_of(const char *jinja)
{
    const fxi_reason_format *f = fxi_reason_format_of(jinja, strlen(jinja));
    return f ? f->name : "none";
}

FX_TEST(test_a_template_chooses_its_format)
{
    assert_string_equal(calls_of("{{ '<tool_call>\\n' }}"), "hermes");
    assert_string_equal(calls_of("<tool_call> <function=a> <parameter=b>"), "qwen3_coder");
    assert_string_equal(calls_of("<tool_call>{name}<arg_key>"), "glm45");
    assert_string_equal(calls_of("[AVAILABLE_TOOLS] [TOOL_CALLS] "), "mistral");
    assert_string_equal(calls_of("<|start_header_id|> {\"name\": f, \"parameters\": d}"),
                        "llama3_json");
    assert_string_equal(calls_of("<|tool|>..<|/tool|>"), "phi4_mini");
    assert_string_equal(calls_of("<|start_of_role|> <|tool_call|>"), "granite");
    assert_string_equal(calls_of("<|channel|>commentary to=functions.x"), "harmony");
    assert_string_equal(calls_of("{{ message.content }}"), "none");
    assert_string_equal(reasoning_of("a</think>"), "think");
    assert_string_equal(reasoning_of("<think></think> <response></response>"), "granite33");
    assert_string_equal(reasoning_of("<tool_response> <think></think>"), "think");
    assert_string_equal(reasoning_of("<think></think><answer>"), "hunyuan");
    assert_string_equal(reasoning_of("<|channel>thought\n<channel|>"), "gemma4");
    assert_string_equal(reasoning_of("<|channel|>analysis<|message|>"), "harmony");
    assert_string_equal(reasoning_of("<|START_THINKING|>"), "cohere");
    assert_string_equal(reasoning_of("plain"), "none");
    assert_null(fxi_call_format_named("none"));
    assert_null(fxi_reason_format_named("none"));
}

FX_TEST(test_the_end_of_a_prompt_opens_reasoning)
{
    const fxi_output_spec spec = {.reasoning = fxi_reason_format_named("think")};
    const char open[] = "<|im_start|>assistant\n<think>\n", shut[] = "<think>\n\n</think>\n\n";
    assert_true(fxi_output_parser_opens_reasoning(&spec, open, strlen(open)));
    assert_false(fxi_output_parser_opens_reasoning(&spec, shut, strlen(shut)));
    assert_false(fxi_output_parser_opens_reasoning(&spec, "", 0));
    assert_false(fxi_output_parser_opens_reasoning(&(fxi_output_spec){0}, open, strlen(open)));
}

static bool hear_nothing(void *ud, const fxi_output_event *ev)
{
    (void)ud, (void)ev;
    return true;
}

FX_TEST(test_it_is_known_whether_an_answer_reasons)
{
    const fxi_output_spec spec = {.reasoning = fxi_reason_format_named("think")};
    fxi_output_parser *a = fxi_output_parser_new(&spec);
    assert_false(fxi_output_parser_is_reasoning(a));
    assert_true(fxi_output_parser_add(a, "<think>x", 8, hear_nothing, NULL));
    assert_true(fxi_output_parser_is_reasoning(a));
    assert_true(fxi_output_parser_add(a, "</think>y", 9, hear_nothing, NULL));
    assert_false(fxi_output_parser_is_reasoning(a));
    assert_true(fxi_output_parser_bytes(a) > 0);
    fxi_output_parser_free(a);
}

FX_RUN(test_output_golden)
