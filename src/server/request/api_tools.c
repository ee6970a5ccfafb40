// api_tools.c - which tools an answer may call, whether strictly, and in which format; the formats
// of the served model.
#include "base/fail.h"     // defines: fxi_fail
#include "base/text/buf.h" // defines: fxi_buf_fmt
#include "server/request/api_fields.h"

#include <string.h>

bool fxi_tool_is_wanted(const fxi_params *par, const fxi_json *tool)
{
    const char *name = fxi_tool_name(tool);
    if (par->only_tool) return !strcmp(par->only_tool, name);
    return !par->allowed_tools || fxi_tools_include(par->allowed_tools, name);
}

bool fxi_tool_is_strict(const fxi_json *tool)
{
    return fxi_json_is_true(fxi_json_get(fxi_json_get(tool, "function"), "strict"));
}

static bool may_call_tools(const fxi_params *par)
{
    return fxi_api_is_chat(par->api) && fxi_json_array_size(par->tools) && !par->hide_tools;
}

bool fxi_params_unmarked(const fxi_params *par)
{
    return may_call_tools(par) && !par->marked_calls_only && !par->must_call && !par->form.field;
}

const fxi_call_format *fxi_params_calls(const fxi_params *par)
{
    const bool may_call = may_call_tools(par);
    const fxi_call_format *f = may_call && par->formats ? par->formats->calls : NULL;
    const bool needs_plain = may_call && par->must_call && (!f || par->plain_calls);
    return needs_plain ? fxi_call_format_plain() : f;
}

bool fxi_tools_are_strict(const fxi_params *par)
{
    if (!fxi_params_calls(par)) return false;
    if (par->allowed_tools) return true;
    for (size_t i = 0; i < fxi_json_array_size(par->tools); i++)
        if (fxi_tool_is_strict(fxi_json_at(par->tools, i))) return true;
    return false;
}

const fxi_reason_format *fxi_params_reasoning(const fxi_params *par)
{
    const bool splits = fxi_api_is_chat(par->api) && par->separate_reasoning;
    return splits && par->formats ? par->formats->reasoning : NULL;
}

// ---- the formats of the served model ------------------------------------------------------------

// The formats of a model's answers: by name, or by its chat template; and its marks for filling
// in, by its vocabulary.

static bool is_usual_name(const char *name)
{
    return !name || !strcmp(name, "auto") || !strcmp(name, "none");
}

static const char *call_name(size_t i)
{
    const fxi_call_format *f = fxi_call_format_at(i);
    return f ? f->name : NULL;
}

static const char *reason_name(size_t i)
{
    const fxi_reason_format *f = fxi_reason_format_at(i);
    return f ? f->name : NULL;
}

static fx_status refuse_name(const char *option, const char *name, const char *(*name_at)(size_t),
                             fx_error *err)
{
    fxi_buf b = {0};
    for (size_t i = 0; name_at(i); i++) fxi_buf_fmt(&b, " %s", name_at(i));
    const fx_status st = fxi_fail(err, FX_EINVAL, "%s: '%.40s' is none of auto none%s", option,
                                  name, b.p ? b.p : "");
    fxi_buf_free(&b);
    return st;
}

fx_status fxi_formats_check(const char *tool_parser, const char *reasoning_parser, fx_error *err)
{
    if (!is_usual_name(tool_parser) && !fxi_call_format_named(tool_parser))
        return refuse_name("tool-parser", tool_parser, call_name, err);
    if (!is_usual_name(reasoning_parser) && !fxi_reason_format_named(reasoning_parser))
        return refuse_name("reasoning-parser", reasoning_parser, reason_name, err);
    return FX_OK;
}

// The control token that is spelled like this; -1: there is none.
static int32_t control_token(const fx_engine *eng, const char *mark)
{
    fx_tokens t = {0};
    size_t n_bytes = 1;
    const unsigned flags = FX_TOKENIZE_CONTROL | FX_TOKENIZE_INNER;
    const bool is_one = fx_tokenize(eng, mark, strlen(mark), flags, &t, NULL) == FX_OK && t.n == 1;
    const int32_t id = is_one ? t.id[0] : -1;
    if (is_one) (void)fx_token_bytes(eng, id, &n_bytes);
    fx_tokens_free(&t);
    return n_bytes ? -1 : id;
}

static void add_control_mark(fxi_formats *f, const fx_engine *eng, const char *mark)
{
    const bool fits = f->n_mark < sizeof f->mark / sizeof f->mark[0];
    const int32_t id = fits ? control_token(eng, mark) : -1;
    if (id >= 0) f->mark[f->n_mark++] = id;
}

void fxi_formats_choose(fxi_formats *f, const fx_engine *eng, const char *tool_parser,
                        const char *reasoning_parser)
{
    enum { MAX_MARK = 32 };
    const char *mark[MAX_MARK];
    size_t n;
    const char *jinja = fx_chat_template(eng, true, &n);
    *f = (fxi_formats){.template_reads_effort = memmem(jinja, n, "reasoning_effort", 16)};
    if (!tool_parser || !strcmp(tool_parser, "auto"))
        f->calls = fxi_call_format_of(jinja, n);
    else
        f->calls = fxi_call_format_named(tool_parser);
    if (!reasoning_parser || !strcmp(reasoning_parser, "auto"))
        f->reasoning = fxi_reason_format_of(jinja, n);
    else
        f->reasoning = fxi_reason_format_named(reasoning_parser);
    const size_t n_mark = fxi_format_marks(f->calls, f->reasoning, mark, MAX_MARK);
    for (size_t i = 0; i < n_mark; i++) add_control_mark(f, eng, mark[i]);
}

// In the order in which all of these models were trained: what stands before, what stands after.
const fxi_infill *fxi_infill_find(const fx_engine *eng)
{
    static const fxi_infill known[] = {
        {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},    // Qwen coder
        {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},          // StarCoder, Granite code
        {"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},          // SantaCoder
        {"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"}, // GLM
        {"\u2581<PRE>", "\u2581<SUF>", "\u2581<MID>"},             // Code Llama
        {"<\uff5cfim\u2581begin\uff5c>", "<\uff5cfim\u2581hole\uff5c>",
         "<\uff5cfim\u2581end\uff5c>"}, // DeepSeek coder
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (control_token(eng, known[i].before) >= 0 && control_token(eng, known[i].after) >= 0 &&
            control_token(eng, known[i].between) >= 0)
            return &known[i];
    return NULL;
}
