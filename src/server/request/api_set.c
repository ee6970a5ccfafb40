// api_set.c - the setters of the table of fields: a checked JSON value into fxi_params.
//
// The parameters own arrays of ids and biases; texts stay in the JSON tree.
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h" // defines: fxi_utf8_count
#include "server/request/api_fields.h"

// ---- plain values -----------------------------------------------------------------------------

static void *member_of(fxi_parse *p, const fxi_field *f)
{
    return (char *)p->par + f->at;
}

bool fxi_set_integer(fxi_parse *p, const fxi_field *f, const fxi_json *v)
{
    *(int64_t *)member_of(p, f) =
        fxi_json_is_int(v) ? fxi_json_int(v) : (int64_t)fxi_json_number(v);
    return true;
}

bool fxi_set_int(fxi_parse *p, const fxi_field *f, const fxi_json *v)
{
    *(int *)member_of(p, f) = (int)fxi_json_number(v);
    return true;
}

// A tiny number above 0 would become 0.
bool fxi_set_float(fxi_parse *p, const fxi_field *f, const fxi_json *v)
{
    const double d = fxi_json_number(v);
    *(float *)member_of(p, f) = f->types & FXI_T_ABOVE && d < FLT_MIN ? FLT_MIN : (float)d;
    return true;
}

bool fxi_set_bool(fxi_parse *p, const fxi_field *f, const fxi_json *v)
{
    *(bool *)member_of(p, f) = fxi_json_is_true(v);
    return true;
}

bool fxi_set_text(fxi_parse *p, const fxi_field *f, const fxi_json *v)
{
    *(const char **)member_of(p, f) = fxi_json_text(v);
    return true;
}

bool fxi_set_json(fxi_parse *p, const fxi_field *f, const fxi_json *v)
{
    *(const fxi_json **)member_of(p, f) = v;
    return true;
}

bool fxi_set_seed(fxi_parse *p, const fxi_field *f, const fxi_json *v)
{
    p->par->has_seed = true;
    return fxi_set_integer(p, f, v);
}

bool fxi_set_early_stop(fxi_parse *p, const fxi_field *f, const fxi_json *v)
{
    (void)f;
    p->par->request.early_stop = fxi_json_is_string(v) ? FX_STOP_NEVER
                                 : fxi_json_is_true(v) ? FX_STOP_EARLY
                                                       : FX_STOP_HEURISTIC;
    return true;
}

bool fxi_set_encoding(fxi_parse *p, const fxi_field *f, const fxi_json *v)
{
    (void)f;
    p->par->reply.base64 = !strcmp(fxi_json_text(v), "base64");
    return true;
}

bool fxi_set_model(fxi_parse *p, const fxi_field *f, const fxi_json *v)
{
    p->par->model = fxi_limits_model(p->lim, fxi_json_text(v));
    return p->par->model || fxi_limits_no_model(p->lim, f->name, fxi_json_text(v), p->err);
}

bool fxi_set_suffix(fxi_parse *p, const fxi_field *f, const fxi_json *v)
{
    if (!fxi_json_string(v).n) return true;
    p->par->suffix = v;
    return p->lim->infill ||
           fxi_not_supported(p, f->name, "not supported: this model has no tokens for it");
}

// ---- fields that are not supported -------------------------------------------------------------

// false, 0, [].
bool fxi_only_neutral(fxi_parse *p, const fxi_field *f, const fxi_json *v)
{
    return fxi_json_is_false(v) || (fxi_json_is_number(v) && fxi_json_number(v) == 0) ||
           (fxi_json_is_array(v) && !fxi_json_array_size(v)) ||
           fxi_not_supported(p, f->name, f->about);
}

bool fxi_only_absent(fxi_parse *p, const fxi_field *f, const fxi_json *v)
{
    (void)v;
    return fxi_not_supported(p, f->name, f->about);
}

bool fxi_only_free_choice(fxi_parse *p, const fxi_field *f, const fxi_json *v)
{
    return (fxi_json_is_string(v) && strcmp(fxi_json_text(v), "required") != 0) ||
           fxi_not_supported(p, f->name, f->about);
}

// ---- token ids --------------------------------------------------------------------------------

// At least one; `want` says what the field must be, for the message.
static bool read_token_ids(fxi_parse *p, const char *param, const char *want, const fxi_json *v,
                           fxi_id_list *out)
{
    size_t n = fxi_json_array_size(v);
    if (!fxi_charge_list(p, n * sizeof *out->id)) return false;
    out->id = malloc(n * sizeof *out->id);
    if (!out->id) return fxi_no_memory(p);
    for (; out->n < n; out->n++) {
        const fxi_json *id = fxi_json_at(v, out->n);
        if (!fxi_json_is_int(id)) return fxi_bad_type(p, param, want);
        if (fxi_json_int(id) < 0 || fxi_json_int(id) >= p->lim->n_vocab)
            return fxi_bad_value(p, param, "token id %lld is outside the vocabulary (0 to %d)",
                                 (long long)fxi_json_int(id), p->lim->n_vocab - 1);
        out->id[out->n] = (int32_t)fxi_json_int(id);
    }
    return true;
}

bool fxi_set_ids(fxi_parse *p, const fxi_field *f, const fxi_json *v)
{
    fxi_id_list *out = (fxi_id_list *)((char *)p->par + f->at);
    return !fxi_json_array_size(v) || read_token_ids(p, f->name, "an array of token ids", v, out);
}

// ---- prompt and input ---------------------------------------------------------------------------

// `prompt` and `input`: one text, one list of token ids, or several of either.

static bool add_prompt(fxi_parse *p, const fxi_field *f, const fxi_json *v)
{
    fxi_prompt *out = &p->par->prompt[p->par->n_prompt++];
    out->text = fxi_json_text(v);
    out->n_bytes = fxi_json_string(v).n;
    if (out->text) return true;
    if (!fxi_json_is_array(v))
        return fxi_bad_type(p, f->name,
                            "a string, an array of strings, of token ids, or of arrays of ids");
    if (!fxi_json_array_size(v)) return fxi_bad_value(p, f->name, "a prompt has no tokens");
    return read_token_ids(p, f->name, "all token ids, or all strings", v, &out->ids);
}

// str and [int] are one prompt; [str] and [[int]] are one prompt per member. Members must not mix
// text and ids.
bool fxi_set_prompt(fxi_parse *p, const fxi_field *f, const fxi_json *v)
{
    const fxi_json *first = fxi_json_is_array(v) ? fxi_json_at(v, 0) : NULL;
    bool several = fxi_json_is_string(first) || fxi_json_is_array(first);
    size_t n = several ? fxi_json_array_size(v) : 1;
    if (p->par->n_prompt)
        return fxi_bad_value(p, f->name, "'%s' and '%s' exclude each other", p->par->input,
                             f->name);
    if (n > (size_t)p->lim->max_choice)
        return fxi_bad_value(p, f->name, "at most %d prompts at once", p->lim->max_choice);
    p->par->prompt = calloc(n, sizeof *p->par->prompt);
    if (!p->par->prompt) return fxi_no_memory(p);
    p->par->input = f->name;
    if (!several) return add_prompt(p, f, v);
    for (size_t i = 0; i < n; i++) {
        const fxi_json *one = fxi_json_at(v, i);
        if (fxi_json_type_of(one) != fxi_json_type_of(first))
            return fxi_bad_type(p, f->name, "all token ids, or all strings");
        if (!add_prompt(p, f, one)) return false;
    }
    return true;
}

// ---- strings ------------------------------------------------------------------------------------

static bool append_stop(fxi_parse *p, const fxi_json *v)
{
    if (!fxi_json_is_string(v)) return fxi_bad_type(p, "stop", "a string or an array of strings");
    if (!fxi_json_string(v).n) return fxi_bad_value(p, "stop", "a stop string is empty");
    if (fxi_utf8_count(fxi_json_text(v), fxi_json_string(v).n) > FXI_MAX_STOP_CHARS)
        return fxi_bad_value(p, "stop", "a stop string has more than %d characters",
                             FXI_MAX_STOP_CHARS);
    p->par->stop[p->par->n_stop++] = fxi_json_text(v);
    return true;
}

bool fxi_set_stop(fxi_parse *p, const fxi_field *f, const fxi_json *v)
{
    if (fxi_json_is_string(v)) return append_stop(p, v);
    if (fxi_json_array_size(v) > FXI_MAX_STOP)
        return fxi_bad_value(p, f->name, "at most %d stop strings", FXI_MAX_STOP);
    for (fxi_json_iter it = fxi_json_items(v); fxi_json_next(&it);)
        if (!append_stop(p, it.value)) return false;
    return true;
}

bool fxi_set_breakers(fxi_parse *p, const fxi_field *f, const fxi_json *v)
{
    p->par->has_breakers = true;
    for (fxi_json_iter it = fxi_json_items(v); fxi_json_next(&it);) {
        const fxi_str text = fxi_json_string(it.value);
        const fxi_place at = fxi_place_at("%s[%zu]", f->name, it.i);
        if (!fxi_json_is_string(it.value)) return fxi_bad_type(p, at.text, "a string");
        if (!text.n || fxi_utf8_count(text.p, text.n) > FXI_MAX_BREAKER_CHARS)
            return fxi_bad_value(p, at.text, "'%s' must have at least 1 and at most %d characters",
                                 at.text, FXI_MAX_BREAKER_CHARS);
        p->par->breaker[p->par->n_breaker++] = text.p;
    }
    return true;
}

bool fxi_set_bad_words(fxi_parse *p, const fxi_field *f, const fxi_json *v)
{
    for (size_t i = 0; i < fxi_json_array_size(v); i++) {
        const fxi_json *word = fxi_json_at(v, i);
        if (!fxi_json_is_string(word)) return fxi_bad_type(p, f->name, "an array of strings");
        if (!fxi_json_string(word).n) return fxi_bad_value(p, f->name, "a bad word is empty");
        if (fxi_json_string(word).n > FXI_MAX_STOP_CHARS)
            return fxi_bad_value(p, f->name, "a bad word has more than %d bytes",
                                 FXI_MAX_STOP_CHARS);
    }
    p->par->bad_words = v;
    return true;
}

// ---- biases -----------------------------------------------------------------------------------

// The token id, written as JSON writes numbers so that no token appears twice; -1: not a token id.
static int32_t id_of_key(const char *key, int n_vocab)
{
    char same[24];
    long id = strtol(key, NULL, 10);
    if (id < 0 || id >= n_vocab) return -1;
    snprintf(same, sizeof same, "%ld", id);
    return strcmp(same, key) ? -1 : (int32_t)id;
}

static bool append_bias(fxi_parse *p, const char *key, const fxi_json *v)
{
    int32_t id = id_of_key(key, p->lim->n_vocab);
    if (id < 0)
        return fxi_bad_value(p, "logit_bias", "'logit_bias' has a key that is not a token id");
    if (!fxi_json_is_number(v) || fabs(fxi_json_number(v)) > 100)
        return fxi_bad_value(p, "logit_bias", "a bias must be a number from -100 to 100");
    p->par->bias[p->par->n_bias++] = (fx_bias){id, (float)fxi_json_number(v)};
    return true;
}

bool fxi_set_bias(fxi_parse *p, const fxi_field *f, const fxi_json *v)
{
    (void)f;
    if (!fxi_json_object_size(v)) return true;
    if (!fxi_charge_list(p, fxi_json_object_size(v) * sizeof *p->par->bias)) return false;
    p->par->bias = malloc(fxi_json_object_size(v) * sizeof *p->par->bias);
    if (!p->par->bias) return fxi_no_memory(p);
    for (fxi_json_iter it = fxi_json_members(v); fxi_json_next(&it);)
        if (!append_bias(p, it.key, it.value)) return false;
    return true;
}

// ---- messages, tools and variables --------------------------------------------------------------
//
// The rules for what OpenAI's clients may send. The engine fits the messages to the template.
// Unknown members pass unchecked.

// The place of a message's member is its number and the member's name.
#define MEMBER(i, name) (fxi_place_at("messages[%zu].%s", (i), (name)).text)

static bool check_role(fxi_parse *p, size_t i_msg, const fxi_json *v)
{
    static const char *const known[] = {"system",    "developer", "user",
                                        "assistant", "tool",      "function"};
    const char *name = fxi_json_text(v);
    if (!name) return fxi_bad_type(p, MEMBER(i_msg, "role"), "a string");
    return fxi_str_is_any(fxi_str_of(name), known, sizeof known / sizeof known[0]) ||
           fxi_bad_value(p, MEMBER(i_msg, "role"), "unknown role '%.*s'", FXI_UTF8_HEAD(name, 40));
}

static bool check_part(fxi_parse *p, size_t i_msg, const fxi_json *v)
{
    static const char *const known[] = {"image_url", "input_audio", "file", "refusal"};
    const char *type = fxi_json_text(fxi_json_get(v, "type"));
    if (!type)
        return fxi_bad_type(p, MEMBER(i_msg, "content"), "a string or parts that have a 'type'");
    if (fxi_str_is_any(fxi_str_of(type), known, sizeof known / sizeof known[0]))
        return fxi_part_not_supported(p, MEMBER(i_msg, "content"), type);
    if (strcmp(type, "text"))
        return fxi_bad_value(p, MEMBER(i_msg, "content"), "unknown kind of part '%.*s'",
                             FXI_UTF8_HEAD(type, 40));
    if (!fxi_json_is_string(fxi_json_get(v, "text")))
        return fxi_bad_type(p, MEMBER(i_msg, "content"), "parts whose 'text' is a string");
    return true;
}

static bool check_content(fxi_parse *p, size_t i_msg, const fxi_json *v)
{
    if (fxi_json_is_string(v)) return true;
    if (!fxi_json_is_array(v))
        return fxi_bad_type(p, MEMBER(i_msg, "content"), "a string or an array of parts");
    if (!fxi_json_array_size(v))
        return fxi_bad_type(p, MEMBER(i_msg, "content"), "a string or at least one part");
    for (size_t i = 0; i < fxi_json_array_size(v); i++)
        if (!check_part(p, i_msg, fxi_json_at(v, i))) return false;
    return true;
}

// A member that is a string, null or absent.
static bool check_text(fxi_parse *p, const char *param, const fxi_json *v)
{
    return !v || fxi_json_is_null(v) || fxi_json_is_string(v) || fxi_bad_type(p, param, "a string");
}

static bool check_call(fxi_parse *p, size_t i_msg, const fxi_json *call)
{
    const fxi_json *function = fxi_json_get(call, "function");
    const char *type = fxi_json_text(fxi_json_get(call, "type"));
    if (type && strcmp(type, "function"))
        return fxi_bad_value(p, MEMBER(i_msg, "tool_calls"), "unknown kind of call '%.*s'",
                             FXI_UTF8_HEAD(type, 40));
    if (!fxi_json_is_string(fxi_json_get(function, "name")))
        return fxi_bad_type(
            p, MEMBER(i_msg, "tool_calls"),
            "an array of objects {\"id\", \"function\": {\"name\", \"arguments\"}}");
    if (!check_text(p, MEMBER(i_msg, "tool_calls"), fxi_json_get(call, "id"))) return false;
    const fxi_json *args = fxi_json_get(function, "arguments");
    return fxi_json_is_object(args) || !args || fxi_json_is_null(args) ||
           fxi_json_is_string(args) ||
           fxi_bad_type(p, MEMBER(i_msg, "tool_calls"),
                        "calls whose 'arguments' are text or an object");
}

static bool check_message(fxi_parse *p, size_t i_msg, const fxi_json *m)
{
    static const char *const texts[] = {"name", "tool_call_id", "reasoning_content"};
    if (!fxi_json_is_object(m)) return fxi_bad_type(p, "messages", "an array of objects");
    if (!check_role(p, i_msg, fxi_json_get(m, "role"))) return false;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (!check_text(p, MEMBER(i_msg, texts[i]), fxi_json_get(m, texts[i]))) return false;
    const fxi_json *calls = fxi_json_get(m, "tool_calls"), *content = fxi_json_get(m, "content");
    if (calls && !fxi_json_is_null(calls) && !fxi_json_is_array(calls))
        return fxi_bad_type(p, MEMBER(i_msg, "tool_calls"), "an array");
    for (fxi_json_iter it = fxi_json_items(calls); fxi_json_next(&it);)
        if (!check_call(p, i_msg, it.value)) return false;
    const bool may_be_empty = fxi_json_array_size(calls) > 0;
    if (may_be_empty && (!content || fxi_json_is_null(content))) return true;
    return check_content(p, i_msg, content);
}

bool fxi_set_messages(fxi_parse *p, const fxi_field *f, const fxi_json *v)
{
    if (!fxi_json_array_size(v)) return fxi_bad_value(p, f->name, "'messages' is empty");
    if (p->par->n_prompt)
        return fxi_bad_value(p, f->name, "'%s' and '%s' exclude each other", p->par->input,
                             f->name);
    p->par->n_prompt = 1;
    p->par->input = f->name;
    for (size_t i = 0; i < fxi_json_array_size(v); i++)
        if (!check_message(p, i, fxi_json_at(v, i))) return false;
    p->par->messages = v;
    return true;
}

static bool check_tool(fxi_parse *p, size_t i, const fxi_json *tool)
{
    const fxi_json *function = fxi_json_get(tool, "function");
    const fxi_json *parameters = fxi_json_get(function, "parameters");
    const char *type = fxi_json_text(fxi_json_get(tool, "type"));
    if (!type) return fxi_bad_type(p, fxi_place_at("tools[%zu].type", i).text, "a string");
    if (strcmp(type, "function"))
        return fxi_bad_value(p, fxi_place_at("tools[%zu].type", i).text,
                             "unknown kind of tool '%.*s'", FXI_UTF8_HEAD(type, 40));
    if (!fxi_json_is_string(fxi_json_get(function, "name")))
        return fxi_bad_type(p, fxi_place_at("tools[%zu].function.name", i).text, "a string");
    return !parameters || fxi_json_is_null(parameters) || fxi_json_is_object(parameters) ||
           fxi_bad_type(p, fxi_place_at("tools[%zu].function.parameters", i).text, "an object");
}

bool fxi_set_tools(fxi_parse *p, const fxi_field *f, const fxi_json *v)
{
    (void)f;
    for (size_t i = 0; i < fxi_json_array_size(v); i++)
        if (!check_tool(p, i, fxi_json_at(v, i))) return false;
    if (fxi_json_array_size(v)) p->par->tools = v;
    return true;
}

bool fxi_set_kwargs(fxi_parse *p, const fxi_field *f, const fxi_json *v)
{
    static const char *const own[] = {"messages", "tools"};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (fxi_json_get(v, own[i]))
            return fxi_bad_value(p, f->name, "'%s' cannot be in '%s'", own[i], f->name);
    p->par->kwargs = v;
    return true;
}

bool fxi_chat_write(fxi_parse *p)
{
    fxi_params *par = p->par;
    const fxi_json *const values[] = {par->messages, par->hide_tools ? NULL : par->tools,
                                      par->kwargs};
    bool ok = true;
    for (size_t i = 0; ok && i < 3; i++)
        ok = !values[i] || ((fxi_json_value(&par->chat[i], values[i]) || fxi_no_memory(p)) &&
                            fxi_charge_list(p, par->chat[i].cap));
    return ok;
}

fx_chat_request fxi_params_chat(const fxi_params *par)
{
    const fxi_buf *const chat = par->chat;
    return (fx_chat_request){.messages = chat[0].p,
                             .messages_bytes = chat[0].n,
                             .tools = chat[1].p,
                             .tools_bytes = chat[1].n,
                             .kwargs = chat[2].p,
                             .kwargs_bytes = chat[2].n,
                             .no_answer = !par->add_generation_prompt,
                             .continue_final = par->continue_final};
}
