// api_fields.c - the fields of a request as one table: name, APIs that have it, JSON types, bounds,
// effect.
//
// null equals absent. A field that is not in the table is ignored: clients send many. A field that
// would change the answer, but is not supported, has a row with an only_* setter: its neutral
// values are accepted, any other is 501. A wrong type or value is 400 and outranks that, so the
// first 501 is kept until all fields have been checked.
#include "server/request/api_fields.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define COMPLETIONS (1u << FXI_API_COMPLETIONS)
#define CHAT        (1u << FXI_API_CHAT)
#define BOTH        (COMPLETIONS | CHAT)

// ---- plain values -----------------------------------------------------------------------------

// An integer, or a number without a fraction that a double holds exactly ("16.0").
static bool is_whole_number(const json_t *v)
{
    if (json_is_integer(v)) return true;
    double d = json_is_real(v) ? json_real_value(v) : 0.5;
    return d == floor(d) && fabs(d) <= 9007199254740992.0;
}

static int64_t whole_of(const json_t *v)
{
    return json_is_integer(v) ? json_integer_value(v) : (int64_t)json_real_value(v);
}

static void *member_of(fxi_parse *p, const fxi_field *f)
{
    return (char *)p->par + f->at;
}

static bool set_integer(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    *(int64_t *)member_of(p, f) = whole_of(v);
    return true;
}

static bool set_number(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    *(double *)member_of(p, f) = json_number_value(v);
    return true;
}

static bool set_bool(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    *(bool *)member_of(p, f) = json_is_true(v);
    return true;
}

static bool set_seed(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    p->par->has_seed = true;
    return set_integer(p, f, v);
}

static bool set_text(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    *(const char **)member_of(p, f) = json_string_value(v);
    return true;
}

static bool set_early_stop(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    const char *word = json_string_value(v);
    if (word && strcmp(word, "never"))
        return fxi_bad_value(p, f->name, "'%s' must be true, false or \"never\"", f->name);
    p->par->early_stop = word ? FX_STOP_NEVER : json_is_true(v) ? FX_STOP_EARLY : FX_STOP_HEURISTIC;
    return true;
}

static bool ignore_value(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    (void)p, (void)f, (void)v;
    return true;
}

static bool check_model(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    if (!strcmp(json_string_value(v), p->lim->model_id)) return true;
    return fxi_http_fail(p->err, 404, "model_not_found", f->name,
                         "the model '%.100s' does not exist; this server has '%.100s'",
                         json_string_value(v), p->lim->model_id);
}

// ---- fields that are not supported -------------------------------------------------------------

static bool only_if(fxi_parse *p, const fxi_field *f, bool neutral)
{
    return neutral || fxi_not_supported(p, f->name);
}

static bool only_false(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    return only_if(p, f, json_is_false(v));
}

static bool only_true(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    return only_if(p, f, json_is_true(v));
}

static bool only_zero(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    return only_if(p, f, json_number_value(v) == 0);
}

static bool only_empty(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    bool empty = json_is_array(v)    ? !json_array_size(v)
                 : json_is_object(v) ? !json_object_size(v)
                                     : json_is_string(v) && !json_string_length(v);
    return only_if(p, f, empty);
}

static bool only_absent(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    (void)v;
    return only_if(p, f, false);
}

static bool only_logprobs_off(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    p->par->logprobs = !json_is_false(v);
    return only_if(p, f, !p->par->logprobs);
}

static bool only_prompt_logprobs_off(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    p->par->prompt_logprobs = true;
    return only_absent(p, f, v);
}

// A string: a neutral word, one of the known others (501), or wrong (400).
static bool only_word(fxi_parse *p, const fxi_field *f, const char *word, const char *neutral,
                      const char *others)
{
    char quoted[40];
    if (strlen(word) < sizeof quoted - 2) {
        snprintf(quoted, sizeof quoted, " %s ", word);
        if (strstr(neutral, quoted)) return true;
        if (strstr(others, quoted)) return fxi_not_supported(p, f->name);
    }
    return fxi_bad_value(p, f->name, "'%s' must be one of:%s%s", f->name, neutral, others + 1);
}

static bool only_text_format(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    const char *type = json_string_value(json_object_get(v, "type"));
    if (!type) return fxi_bad_value(p, f->name, "'response_format' needs a 'type'");
    return only_word(p, f, type, " text ", " json_object json_schema ");
}

static bool only_free_choice(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    if (json_is_object(v)) return fxi_not_supported(p, f->name);
    return only_word(p, f, json_string_value(v), " none auto ", " required ");
}

static bool set_tool_choice(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    const char *word = json_string_value(v);
    p->par->hide_tools = word && !strcmp(word, "none");
    return only_free_choice(p, f, v);
}

// ---- the table --------------------------------------------------------------------------------

static bool set_stream_options(fxi_parse *p, const fxi_field *f, const json_t *v);

#define AT(member) offsetof(fxi_params, member)
#define B          FXI_T_BOOL
#define I          FXI_T_INT
#define N          FXI_T_NUM
#define S          FXI_T_STR
#define A          FXI_T_ARR
#define O          FXI_T_OBJ

static const fxi_field fields[] = {
    {"model", BOTH, S, 0, 0, check_model, 0},
    {"prompt", COMPLETIONS, S | A | FXI_T_REQUIRED, 0, 0, fxi_set_prompt, 0},
    {"messages", CHAT, A | FXI_T_REQUIRED, 0, 0, fxi_set_messages, 0},
    {"tools", CHAT, A, 0, 0, fxi_set_tools, 0},
    {"tool_choice", CHAT, S | O, 0, 0, set_tool_choice, 0},
    {"chat_template_kwargs", CHAT, O, 0, 0, fxi_set_kwargs, 0},
    {"add_generation_prompt", CHAT, B, 0, 0, set_bool, AT(add_generation_prompt)},
    {"max_tokens", BOTH, I, 0, 1e300, set_integer, AT(max_tok)},
    {"max_completion_tokens", CHAT, I, 0, 1e300, set_integer, AT(max_completion_tok)},
    {"temperature", BOTH, N, 0, 2, set_number, AT(temperature)},
    {"top_p", BOTH, N | FXI_T_ABOVE, 0, 1, set_number, AT(top_p)},
    {"top_k", BOTH, I, -1, INT32_MAX, set_integer, AT(top_k)},
    {"min_p", BOTH, N, 0, 1, set_number, AT(min_p)},
    {"typical_p", BOTH, N | FXI_T_ABOVE, 0, 1, set_number, AT(typical_p)},
    {"presence_penalty", BOTH, N, -2, 2, set_number, AT(presence_penalty)},
    {"frequency_penalty", BOTH, N, -2, 2, set_number, AT(frequency_penalty)},
    {"repetition_penalty", BOTH, N | FXI_T_ABOVE, 0, 1e30, set_number, AT(repetition_penalty)},
    {"logit_bias", BOTH, O, 0, 0, fxi_set_bias, 0},
    {"allowed_token_ids", BOTH, A, 1, 1e300, fxi_set_ids, AT(allow)},
    {"n", BOTH, I, 1, FX_MAX_CHOICE, set_integer, AT(n)},
    {"best_of", COMPLETIONS, I, 1, FX_MAX_CHOICE, set_integer, AT(best_of)},
    {"use_beam_search", BOTH, B, 0, 0, set_bool, AT(beam)},
    {"length_penalty", BOTH, N, -100, 100, set_number, AT(length_penalty)},
    {"early_stopping", BOTH, B | S, 0, 0, set_early_stop, 0},
    {"seed", BOTH, I, 0, 0, set_seed, AT(seed)},
    {"stop", BOTH, S | A, 0, 0, fxi_set_stop, 0},
    {"stop_token_ids", BOTH, A, 0, 1024, fxi_set_ids, AT(stop_token)},
    {"include_stop_str_in_output", BOTH, B, 0, 0, set_bool, AT(include_stop)},
    {"min_tokens", BOTH, I, 0, INT32_MAX, set_integer, AT(min_tok)},
    {"stream", BOTH, B, 0, 0, set_bool, AT(stream)},
    {"stream_options", BOTH, O, 0, 0, set_stream_options, 0},
    {"ignore_eos", BOTH, B, 0, 0, set_bool, AT(ignore_eos)},
    {"priority", BOTH, I, -FX_MAX_PRIORITY, FX_MAX_PRIORITY, set_integer, AT(priority)},
    {"cache_salt", BOTH, S, 1, 1024, set_text, AT(cache_salt)},
    {"cache_prompt", BOTH, B, 0, 0, set_bool, AT(cache_prompt)},
    {"user", BOTH, S, 0, 0, ignore_value, 0},
    // Not supported yet.
    {"logprobs", COMPLETIONS, I, 0, 20, only_logprobs_off, 0},
    {"logprobs", CHAT, B, 0, 0, only_logprobs_off, 0},
    {"top_logprobs", CHAT, I, 0, 20, set_integer, AT(top_logprobs)},
    {"prompt_logprobs", BOTH, I, 0, 20, only_prompt_logprobs_off, 0},
    {"echo", BOTH, B, 0, 0, only_false, 0},
    {"suffix", COMPLETIONS, S, 0, 0, only_empty, 0},
    {"skip_special_tokens", BOTH, B, 0, 0, only_true, 0},
    {"add_special_tokens", COMPLETIONS, B, 0, 0, only_true, 0},
    {"add_special_tokens", CHAT, B, 0, 0, only_false, 0},
    {"truncate_prompt_tokens", BOTH, I, 0, 0, only_absent, 0},
    {"bad_words", BOTH, A, 0, 0, only_empty, 0},
    {"return_token_ids", BOTH, B, 0, 0, only_false, 0},
    {"response_format", BOTH, O, 0, 0, only_text_format, 0},
    {"structured_outputs", BOTH, O, 0, 0, only_empty, 0},
    {"guided_json", BOTH, S | O, 0, 0, only_empty, 0},
    {"guided_regex", BOTH, S, 0, 0, only_empty, 0},
    {"guided_choice", BOTH, A, 0, 0, only_empty, 0},
    {"guided_grammar", BOTH, S, 0, 0, only_empty, 0},
    {"grammar", BOTH, S, 0, 0, only_empty, 0},
    {"json_schema", BOTH, O, 0, 0, only_empty, 0},
    {"mirostat", BOTH, I, 0, 2, only_zero, 0},
    {"dry_multiplier", BOTH, N, 0, 0, only_zero, 0},
    {"functions", CHAT, A, 0, 0, only_empty, 0},
    {"function_call", CHAT, S | O, 0, 0, only_free_choice, 0},
    {"audio", CHAT, O, 0, 0, only_absent, 0},
    {"web_search_options", CHAT, O, 0, 0, only_absent, 0},
    {"continue_final_message", CHAT, B, 0, 0, only_false, 0},
    {"chat_template", CHAT, S, 0, 0, only_absent, 0},
};

static const fxi_field stream_fields[] = {
    {"include_usage", BOTH, B, 0, 0, set_bool, AT(include_usage)},
    {"continuous_usage_stats", BOTH, B, 0, 0, set_bool, AT(continuous_usage)},
};

#undef B
#undef I
#undef N
#undef S
#undef A
#undef O

// ---- running the table ------------------------------------------------------------------------

static const struct type_name {
    unsigned bit;
    const char *text;
} type_names[] = {
    {FXI_T_BOOL, "true or false"}, {FXI_T_INT, "an integer"}, {FXI_T_NUM, "a number"},
    {FXI_T_STR, "a string"},       {FXI_T_ARR, "an array"},   {FXI_T_OBJ, "an object"},
};

static unsigned types_of(const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_TRUE:
    case JSON_FALSE: return FXI_T_BOOL;
    case JSON_INTEGER: return FXI_T_INT | FXI_T_NUM;
    case JSON_REAL: return FXI_T_NUM | (is_whole_number(v) ? FXI_T_INT : 0);
    case JSON_STRING: return FXI_T_STR;
    case JSON_ARRAY: return FXI_T_ARR;
    case JSON_OBJECT: return FXI_T_OBJ;
    case JSON_NULL: break;
    }
    return 0;
}

static bool check_type(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    if (types_of(v) & f->types) return true;
    char want[96] = "";
    for (size_t i = 0; i < sizeof type_names / sizeof type_names[0]; i++) {
        if (!(f->types & type_names[i].bit)) continue;
        size_t n = strlen(want);
        snprintf(want + n, sizeof want - n, "%s%s", n ? " or " : "", type_names[i].text);
    }
    return fxi_http_fail(p->err, 400, "invalid_type", f->name, "'%s' must be %s", f->name, want);
}

// Characters of valid UTF-8.
static size_t count_chars(const json_t *v)
{
    size_t n = 0;
    for (const char *s = json_string_value(v); *s; s++) n += (*s & 0xc0) != 0x80;
    return n;
}

// The quantity that the bounds of a field limit.
typedef struct amount {
    double x;
    const char *verb, *unit; // "must VERB at least 1UNIT"
} amount;

static amount amount_of(const json_t *v)
{
    if (json_is_string(v)) return (amount){(double)count_chars(v), "have", " characters"};
    if (json_is_array(v)) return (amount){(double)json_array_size(v), "have", " members"};
    return (amount){json_number_value(v), "be", ""};
}

static bool check_bounds(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    if (f->lo == f->hi) return true;
    amount a = amount_of(v);
    bool above = f->types & FXI_T_ABOVE;
    if ((above ? a.x > f->lo : a.x >= f->lo) && a.x <= f->hi) return true;
    const char *least = above ? "greater than" : "at least";
    if (f->hi >= 1e300)
        return fxi_bad_value(p, f->name, "'%s' must %s %s %g%s", f->name, a.verb, least, f->lo,
                             a.unit);
    return fxi_bad_value(p, f->name, "'%s' must %s %s %g and at most %.10g%s", f->name, a.verb,
                         least, f->lo, f->hi, a.unit);
}

static bool run_table(fxi_parse *p, const fxi_field *row, size_t n_row, const json_t *from)
{
    for (const fxi_field *f = row; f < row + n_row; f++) {
        if (!(f->apis & 1u << p->par->api)) continue;
        const json_t *v = json_object_get(from, f->name);
        if (!v || json_is_null(v)) {
            if (!(f->types & FXI_T_REQUIRED)) continue;
            return fxi_http_fail(p->err, 400, "missing_required_parameter", f->name,
                                 "'%s' is required", f->name);
        }
        if (!check_type(p, f, v) || !check_bounds(p, f, v) || !f->set(p, f, v)) return false;
    }
    return true;
}

static bool set_stream_options(fxi_parse *p, const fxi_field *f, const json_t *v)
{
    (void)f;
    p->par->has_stream_options = true;
    return run_table(p, stream_fields, sizeof stream_fields / sizeof stream_fields[0], v);
}

bool fxi_fields_read(fxi_parse *p)
{
    return run_table(p, fields, sizeof fields / sizeof fields[0], p->par->root);
}
