// api_set.c - the setters of the table of fields: a checked JSON value into fxi_params.
//
// The parameters own arrays of ids and biases; texts stay in the JSON tree.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h" // defines: fxi_utf8_count
#include "server/request/api_fields.h"

// ---- plain values -----------------------------------------------------------------------------

static int64_t whole_of(const json_t *v)
{
    return json_is_integer(v) ? json_integer_value(v) : (int64_t)json_real_value(v);
}

static void *member_of(fxi_parse *p, const fxi_field *f)
{
    return (char *)p->par + f->at;
}

bool fxi_set_integer(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    *(int64_t *)member_of(p, f) = whole_of(v);
    return true;
}

bool fxi_set_number(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    *(double *)member_of(p, f) = json_number_value(v);
    return true;
}

bool fxi_set_bool(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    *(bool *)member_of(p, f) = json_is_true(v);
    return true;
}

bool fxi_set_text(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    *(const char **)member_of(p, f) = json_string_value(v);
    return true;
}

bool fxi_set_json(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    *(const json_t **)member_of(p, f) = v;
    return true;
}

bool fxi_set_seed(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    p->par->has_seed = true;
    return fxi_set_integer(p, f, v);
}

bool fxi_set_early_stop(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    (void)f;
    p->par->early_stop = json_is_string(v) ? FX_STOP_NEVER
                         : json_is_true(v) ? FX_STOP_EARLY
                                           : FX_STOP_HEURISTIC;
    return true;
}

bool fxi_set_encoding(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    (void)f;
    p->par->base64 = !strcmp(json_string_value(v), "base64");
    return true;
}

bool fxi_set_nothing(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    (void)p, (void)f, (void)v;
    return true;
}

bool fxi_set_model(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    p->par->model = fxi_limits_model(p->lim, json_string_value(v));
    return p->par->model || fxi_limits_no_model(p->lim, f->name, json_string_value(v), p->err);
}

bool fxi_set_suffix(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    if (!json_string_length(v)) return true;
    p->par->suffix = v;
    return p->lim->infill || fxi_not_supported(p, f->name);
}

// ---- fields that are not supported -------------------------------------------------------------

static bool only_if(fxi_parse *p, const fxi_field *f, bool neutral)
{
    return neutral || fxi_not_supported(p, f->name);
}

bool fxi_only_false(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    return only_if(p, f, json_is_false(v));
}

bool fxi_only_zero(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    return only_if(p, f, json_number_value(v) == 0);
}

bool fxi_only_empty(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    bool empty = json_is_array(v)    ? !json_array_size(v)
                 : json_is_object(v) ? !json_object_size(v)
                                     : json_is_string(v) && !json_string_length(v);
    return only_if(p, f, empty);
}

bool fxi_only_absent(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    (void)v;
    return only_if(p, f, false);
}

bool fxi_only_free_choice(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    return only_if(p, f, json_is_string(v) && strcmp(json_string_value(v), "required") != 0);
}

// ---- prompt and input ---------------------------------------------------------------------------

// `prompt` and `input`: one text, one list of token ids, or several of either.

static bool set_prompt_text(fxi_prompt *out, const json_t *v)
{
    out->text = json_string_value(v);
    out->n_bytes = json_string_length(v);
    return true;
}

static bool set_prompt_ids(fxi_parse *p, const fxi_field *f, fxi_prompt *out, const json_t *v)
{
    if (!json_array_size(v)) return fxi_bad_value(p, f->name, "a prompt has no tokens");
    return fxi_read_ids(p, f->name, "all token ids, or all strings", v, &out->ids);
}

static bool add_prompt(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    fxi_prompt *out = &p->par->prompt[p->par->n_prompt++];
    if (json_is_string(v)) return set_prompt_text(out, v);
    if (json_is_array(v)) return set_prompt_ids(p, f, out, v);
    return fxi_bad_type(p, f->name,
                        "a string, an array of strings, of token ids, or of arrays of ids");
}

// str and [int] are one prompt; [str] and [[int]] are one prompt per member. Members must not mix
// text and ids.
bool fxi_set_prompt(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    const json_t *first = json_is_array(v) ? json_array_get(v, 0) : NULL;
    bool several = json_is_string(first) || json_is_array(first);
    size_t n = several ? json_array_size(v) : 1;
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
        const json_t *one = json_array_get(v, i);
        if (json_typeof(one) != json_typeof(first))
            return fxi_bad_type(p, f->name, "all token ids, or all strings");
        if (!add_prompt(p, f, one)) return false;
    }
    return true;
}

// ---- lists --------------------------------------------------------------------------------------

// Fields that are lists: strings, token ids, and biases by token id.
//
// The parameters own the arrays of ids and biases; strings stay in the JSON tree.

// ---- strings ------------------------------------------------------------------------------------

static bool append_stop(fxi_parse *p, const json_t *v)
{
    if (!json_is_string(v)) return fxi_bad_type(p, "stop", "a string or an array of strings");
    if (!json_string_length(v)) return fxi_bad_value(p, "stop", "a stop string is empty");
    if (fxi_utf8_count(json_string_value(v), json_string_length(v)) > FXI_MAX_STOP_CHARS)
        return fxi_bad_value(p, "stop", "a stop string has more than %d characters",
                             FXI_MAX_STOP_CHARS);
    p->par->stop[p->par->n_stop++] = json_string_value(v);
    return true;
}

bool fxi_set_stop(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    if (json_is_string(v)) return append_stop(p, v);
    if (json_array_size(v) > FXI_MAX_STOP)
        return fxi_bad_value(p, f->name, "at most %d stop strings", FXI_MAX_STOP);
    for (size_t i = 0; i < json_array_size(v); i++)
        if (!append_stop(p, json_array_get(v, i))) return false;
    return true;
}

bool fxi_set_bad_words(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *word = json_array_get(v, i);
        if (!json_is_string(word)) return fxi_bad_type(p, f->name, "an array of strings");
        if (!json_string_length(word)) return fxi_bad_value(p, f->name, "a bad word is empty");
        if (json_string_length(word) > FXI_MAX_STOP_CHARS)
            return fxi_bad_value(p, f->name, "a bad word has more than %d bytes",
                                 FXI_MAX_STOP_CHARS);
    }
    p->par->bad_words = v;
    return true;
}

// ---- token ids --------------------------------------------------------------------------------

bool fxi_read_ids(fxi_parse *p, const char *param, const char *want, const json_t *v,
                  fxi_id_list *out)
{
    size_t n = json_array_size(v);
    if (!fxi_charge_list(p, n * sizeof *out->id)) return false;
    out->id = malloc(n * sizeof *out->id);
    if (!out->id) return fxi_no_memory(p);
    for (; out->n < n; out->n++) {
        const json_t *id = json_array_get(v, out->n);
        if (!json_is_integer(id)) return fxi_bad_type(p, param, want);
        if (json_integer_value(id) < 0 || json_integer_value(id) >= p->lim->n_vocab)
            return fxi_bad_value(p, param, "token id %lld is outside the vocabulary (0 to %d)",
                                 (long long)json_integer_value(id), p->lim->n_vocab - 1);
        out->id[out->n] = (int32_t)json_integer_value(id);
    }
    return true;
}

bool fxi_set_ids(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    fxi_id_list *out = (fxi_id_list *)((char *)p->par + f->at);
    return !json_array_size(v) || fxi_read_ids(p, f->name, "an array of token ids", v, out);
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

static bool append_bias(fxi_parse *p, const char *key, const json_t *v)
{
    int32_t id = id_of_key(key, p->lim->n_vocab);
    if (id < 0)
        return fxi_bad_value(p, "logit_bias", "'logit_bias' has a key that is not a token id");
    if (!json_is_number(v) || fabs(json_number_value(v)) > 100)
        return fxi_bad_value(p, "logit_bias", "a bias must be a number from -100 to 100");
    p->par->bias[p->par->n_bias++] = (fx_bias){id, (float)json_number_value(v)};
    return true;
}

bool fxi_set_bias(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    (void)f;
    const char *key;
    json_t *bias;
    if (!json_object_size(v)) return true;
    if (!fxi_charge_list(p, json_object_size(v) * sizeof *p->par->bias)) return false;
    p->par->bias = malloc(json_object_size(v) * sizeof *p->par->bias);
    if (!p->par->bias) return fxi_no_memory(p);
    json_object_foreach((json_t *)v, key, bias) if (!append_bias(p, key, bias)) return false;
    return true;
}

// ---- messages, tools and variables --------------------------------------------------------------

// A conversation: messages, tools and the template's further variables, checked.
//
// These are the rules for what OpenAI's clients may send. The engine fits the messages to the
// template. Unknown members pass unchecked.

typedef struct message_place { // for `param`: "messages[2].content"
    size_t i;
    char text[64];
} message_place;

static const char *member_param(message_place *w, const char *member)
{
    snprintf(w->text, sizeof w->text, "messages[%zu].%s", w->i, member);
    return w->text;
}

// ---- role and content -------------------------------------------------------------------------

static bool check_role(fxi_parse *p, message_place *w, const json_t *v)
{
    static const char *const known[] = {"system",    "developer", "user",
                                        "assistant", "tool",      "function"};
    const char *name = json_string_value(v);
    if (!name) return fxi_bad_type(p, member_param(w, "role"), "a string");
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (!strcmp(name, known[i])) return true;
    return fxi_bad_value(p, member_param(w, "role"), "unknown role '%.*s'",
                         FXI_UTF8_HEAD(name, 40));
}

static bool is_known_part(const char *type)
{
    static const char *const known[] = {"image_url", "input_audio", "file", "refusal"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (!strcmp(type, known[i])) return true;
    return false;
}

static bool check_part(fxi_parse *p, message_place *w, const json_t *v)
{
    const char *type = json_string_value(json_object_get(v, "type"));
    if (!type)
        return fxi_bad_type(p, member_param(w, "content"), "a string or parts that have a 'type'");
    if (is_known_part(type)) return fxi_part_not_supported(p, member_param(w, "content"), type);
    if (strcmp(type, "text"))
        return fxi_bad_value(p, member_param(w, "content"), "unknown kind of part '%.*s'",
                             FXI_UTF8_HEAD(type, 40));
    if (!json_is_string(json_object_get(v, "text")))
        return fxi_bad_type(p, member_param(w, "content"), "parts whose 'text' is a string");
    return true;
}

static bool check_content(fxi_parse *p, message_place *w, const json_t *v)
{
    if (json_is_string(v)) return true;
    if (!json_is_array(v))
        return fxi_bad_type(p, member_param(w, "content"), "a string or an array of parts");
    if (!json_array_size(v))
        return fxi_bad_type(p, member_param(w, "content"), "a string or at least one part");
    for (size_t i = 0; i < json_array_size(v); i++)
        if (!check_part(p, w, json_array_get(v, i))) return false;
    return true;
}

// ---- tool calls -------------------------------------------------------------------------------

// A member that is a string, null or absent.
static bool check_text(fxi_parse *p, const char *param, const json_t *v)
{
    return !v || json_is_null(v) || json_is_string(v) || fxi_bad_type(p, param, "a string");
}

static bool check_arguments(fxi_parse *p, message_place *w, const json_t *v)
{
    if (!v || json_is_null(v) || json_is_object(v) || json_is_string(v)) return true;
    return fxi_bad_type(p, member_param(w, "tool_calls"),
                        "calls whose 'arguments' are text or an object");
}

static bool check_call(fxi_parse *p, message_place *w, const json_t *call)
{
    const json_t *function = json_object_get(call, "function");
    const char *type = json_string_value(json_object_get(call, "type"));
    if (type && strcmp(type, "function"))
        return fxi_bad_value(p, member_param(w, "tool_calls"), "unknown kind of call '%.*s'",
                             FXI_UTF8_HEAD(type, 40));
    if (!json_is_string(json_object_get(function, "name")))
        return fxi_bad_type(
            p, member_param(w, "tool_calls"),
            "an array of objects {\"id\", \"function\": {\"name\", \"arguments\"}}");
    if (!check_text(p, member_param(w, "tool_calls"), json_object_get(call, "id"))) return false;
    return check_arguments(p, w, json_object_get(function, "arguments"));
}

static bool check_calls(fxi_parse *p, message_place *w, const json_t *calls)
{
    if (!calls || json_is_null(calls)) return true;
    if (!json_is_array(calls)) return fxi_bad_type(p, member_param(w, "tool_calls"), "an array");
    for (size_t i = 0; i < json_array_size(calls); i++)
        if (!check_call(p, w, json_array_get(calls, i))) return false;
    return true;
}

// ---- messages ---------------------------------------------------------------------------------

static bool check_message(fxi_parse *p, message_place *w, const json_t *m)
{
    static const char *const texts[] = {"name", "tool_call_id", "reasoning_content"};
    if (!json_is_object(m)) return fxi_bad_type(p, "messages", "an array of objects");
    if (!check_role(p, w, json_object_get(m, "role"))) return false;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (!check_text(p, member_param(w, texts[i]), json_object_get(m, texts[i]))) return false;
    const json_t *calls = json_object_get(m, "tool_calls"),
                 *content = json_object_get(m, "content");
    if (!check_calls(p, w, calls)) return false;
    const bool may_be_empty = json_array_size(calls) > 0;
    if (may_be_empty && (!content || json_is_null(content))) return true;
    return check_content(p, w, content);
}

bool fxi_set_messages(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    if (!json_array_size(v)) return fxi_bad_value(p, f->name, "'messages' is empty");
    if (p->par->n_prompt)
        return fxi_bad_value(p, f->name, "'%s' and '%s' exclude each other", p->par->input,
                             f->name);
    p->par->n_prompt = 1;
    p->par->input = f->name;
    for (size_t i = 0; i < json_array_size(v); i++) {
        message_place w = {.i = i};
        if (!check_message(p, &w, json_array_get(v, i))) return false;
    }
    p->par->messages = v;
    return true;
}

// ---- tools and variables ----------------------------------------------------------------------

static bool check_tool(fxi_parse *p, size_t i, const json_t *tool)
{
    char param[48];
    const json_t *function = json_object_get(tool, "function");
    const json_t *parameters = json_object_get(function, "parameters");
    const char *type = json_string_value(json_object_get(tool, "type"));
    snprintf(param, sizeof param, "tools[%zu].type", i);
    if (!type) return fxi_bad_type(p, param, "a string");
    if (strcmp(type, "function"))
        return fxi_bad_value(p, param, "unknown kind of tool '%.*s'", FXI_UTF8_HEAD(type, 40));
    snprintf(param, sizeof param, "tools[%zu].function.name", i);
    if (!json_is_string(json_object_get(function, "name")))
        return fxi_bad_type(p, param, "a string");
    snprintf(param, sizeof param, "tools[%zu].function.parameters", i);
    if (parameters && !json_is_null(parameters) && !json_is_object(parameters))
        return fxi_bad_type(p, param, "an object");
    return true;
}

bool fxi_set_tools(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    (void)f;
    for (size_t i = 0; i < json_array_size(v); i++)
        if (!check_tool(p, i, json_array_get(v, i))) return false;
    if (json_array_size(v)) p->par->tools = v;
    return true;
}

bool fxi_set_kwargs(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    static const char *const own[] = {"messages", "tools"};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (json_object_get(v, own[i]))
            return fxi_bad_value(p, f->name, "'%s' cannot be in '%s'", own[i], f->name);
    p->par->kwargs = v;
    return true;
}

fx_chat_request fxi_params_chat(const fxi_params *par)
{
    return (fx_chat_request){.messages = par->messages,
                             .tools = par->hide_tools ? NULL : par->tools,
                             .kwargs = par->kwargs,
                             .no_answer = !par->add_generation_prompt,
                             .continue_final = par->continue_final};
}
