// fuzz_output_parser.c - any text in any format: its events are the same however it is cut, names
// are not empty, and the arguments of every complete call are one JSON object.
//
// The first two bytes choose the formats, the third how the text is cut, whether JSON without
// marks may be a call, and whether calls are forced and cut off.
#include <string.h>

#include "base/number/rng.h"
#include "fuzz.h"
#include "output_parser/json_scan.h"
#include "output_parser/output_parser.h"

FUZZ_TARGET(fuzz_output_parser);

enum { UNMARKED = 128, FORCED = 64 };

typedef struct heard {
    fxi_buf log, args;
    int last; // kind of the last event; -1: none
    bool in_call;
} heard;

static void check_event(heard *h, const fxi_output_event *ev)
{
    FUZZ_CHECK(ev->n_emitted <= ev->n);
    FUZZ_CHECK((ev->kind == FXI_OUTPUT_CALL || ev->kind == FXI_OUTPUT_TEXT ||
                ev->kind == FXI_OUTPUT_REASONING) == !h->in_call);
    if (ev->kind == FXI_OUTPUT_CALL) FUZZ_CHECK(ev->n > 0);
    if (ev->kind == FXI_OUTPUT_DONE)
        FUZZ_CHECK(h->args.n && h->args.p[0] == '{' && fxi_json_scan_all(h->args.p, h->args.n));
}

static bool hear(void *ud, const fxi_output_event *ev)
{
    heard *h = ud;
    const char mark[] = {1, (char)('0' + ev->kind)};
    check_event(h, ev);
    if ((int)ev->kind != h->last && !fxi_buf_add(&h->log, mark, 2)) return false;
    h->last = ev->kind;
    if (ev->kind == FXI_OUTPUT_CALL) fxi_buf_clear(&h->args);
    if (ev->kind == FXI_OUTPUT_CALL || ev->kind == FXI_OUTPUT_ARGS) h->in_call = true;
    if (ev->kind == FXI_OUTPUT_DONE || ev->kind == FXI_OUTPUT_BROKEN) h->in_call = false;
    return (ev->kind != FXI_OUTPUT_ARGS || fxi_buf_add(&h->args, ev->p, ev->n)) &&
           (!ev->n || fxi_buf_add(&h->log, ev->p, ev->n)) &&
           (!ev->n_id || fxi_buf_add(&h->log, ev->id, ev->n_id));
}

static fxi_param_kind any_param(void *ud, const char *name, size_t n, const char *param, size_t m)
{
    (void)ud, (void)name;
    return (fxi_param_kind)((n + m + (m ? (unsigned char)param[0] : 0)) % 3);
}

static bool has_any_tool(void *ud, const char *name, size_t n)
{
    (void)ud;
    return n && name[0] != 'x';
}

static fxi_args_fit fits_any(void *ud, const char *name, size_t n, const char *args, size_t n_args)
{
    (void)ud, (void)name, (void)args;
    return (n + n_args) % 5 ? FXI_ARGS_FIT : FXI_ARGS_BAD;
}

static void hear_all(heard *h, const fxi_output_spec *spec, const uint8_t *p, size_t n,
                     unsigned max_piece)
{
    fxi_output_parser *a = fxi_output_parser_new(spec);
    bool ok = a != NULL;
    h->last = -1;
    for (size_t i = 0, k = 0; ok && i < n; k++) {
        size_t piece = max_piece ? 1 + fxi_rng_u64(1, 2, k) % max_piece : n;
        if (piece > n - i) piece = n - i;
        ok = fxi_output_parser_add(a, (const char *)p + i, piece, hear, h);
        i += piece;
    }
    FUZZ_CHECK(ok && fxi_output_parser_end(a, spec->forced, hear, h));
    fxi_output_parser_free(a);
}

static size_t count_calls(void)
{
    size_t n = 0;
    while (fxi_call_format_at(n)) n++;
    return n;
}

static size_t count_reasonings(void)
{
    size_t n = 0;
    while (fxi_reason_format_at(n)) n++;
    return n;
}

int fuzz_output_parser_run(const uint8_t *data, size_t n_bytes)
{
    if (n_bytes < 3) return 0;
    fxi_output_spec spec = {.calls = fxi_call_format_at(data[0] % (count_calls() + 1)),
                            .reasoning = fxi_reason_format_at(data[1] % (count_reasonings() + 1)),
                            .param = any_param};
    spec.forced = data[2] & FORCED;
    if (data[2] & UNMARKED) {
        spec.has_tool = has_any_tool;
        spec.fits = fits_any;
    }
    heard whole = {0}, cut = {0};
    hear_all(&whole, &spec, data + 3, n_bytes - 3, 0);
    hear_all(&cut, &spec, data + 3, n_bytes - 3, 1 + data[2] % 32);
    FUZZ_CHECK(whole.log.n == cut.log.n &&
               (!cut.log.n || !memcmp(whole.log.p, cut.log.p, cut.log.n)));
    fxi_buf_free(&whole.log);
    fxi_buf_free(&whole.args);
    fxi_buf_free(&cut.log);
    fxi_buf_free(&cut.args);
    return 0;
}

// One of each body, after the numbers of its row and of "think".
bool fuzz_output_parser_seed(unsigned i, fxi_buf *out)
{
    static const struct seed {
        const char *calls, *text;
    } seeds[] = {
        {"hermes", "<think>a</think>b <tool_call>{\"name\": \"f\", \"arguments\": {\"a\": [1]}}"
                   "</tool_call>"},
        {"hermes", "<tool_call>[{\"arguments\": \"{}\", \"name\": \"f\"}, {\"name\": \"g\"}]"},
        {"qwen3_coder", "<tool_call>\n<function=f>\n<parameter=a>\nTrue\n</parameter>\n"
                        "</function>\n</tool_call>"},
        {"glm45", "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>"},
        {"mistral",
         "[TOOL_CALLS]f[CALL_ID]a[ARGS]{\"a\": \"\\u00e9\"}[TOOL_CALLS][{\"name\": \"f\"}]"},
        {"kimi_k2", "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0"
                    "<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>"},
        {"harmony", "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>commentary "
                    "to=functions.f <|constrain|>json<|message|>{\"a\":1}<|call|>"},
        {"pythonic", "[f(a=[1, {'b': True}], c=\"x\\'\\x41\"), g()]"},
        {"llama3_json", "{\"name\": \"f\", \"parameters\": {\"a\": null}}; {\"name\": \"g\"}"},
        {"hermes", "Yes.\n```json\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n{\"id\": 1, "
                   "\"arguments\": \"{}\", \"name\": \"g\"}\n```\n[{\"name\": \"f\", "
                   "\"parameters\": {}}, {\"name\": \"x\"}]"},
    };
    if (i >= sizeof seeds / sizeof *seeds) return false;
    size_t row = 0;
    while (strcmp(fxi_call_format_at(row)->name, seeds[i].calls) != 0) row++;
    const char head[] = {(char)row, (char)(count_reasonings() - 1), (char)(UNMARKED | 3)};
    return fxi_buf_add(out, head, 3) && fxi_buf_str(out, seeds[i].text);
}
