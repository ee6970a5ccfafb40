// openapi.c - the paths of the API, and the schemas of request bodies from the table of fields.
#include "server/schema/openapi.h"

#include <string.h>

#include "server/reply/json_out.h"
#include "server/request/api_fields.h"
#include "server/schema/answers.h"

// What is done to a path, and what is sent and answered.
typedef struct api_operation {
    const char *method, *path;
    int api;            // fxi_api of the body; -1: there is none
    const char *answer; // a component of the schema, or a type of text
    const char *about;
} api_operation;

static const api_operation operations[] = {
    {"POST", "/v1/completions", FXI_API_COMPLETIONS, "Completion", "complete one or several texts"},
    {"POST", "/v1/chat/completions", FXI_API_CHAT, "ChatCompletion", "answer a conversation"},
    {"POST", "/v1/responses", FXI_API_RESPONSES, "Response",
     "answer a conversation: OpenAI's responses"},
    {"POST", "/v1/messages", FXI_API_MESSAGES, "AnthropicMessage",
     "answer a conversation: Anthropic's messages"},
    {"POST", "/v1/messages/count_tokens", FXI_API_COUNT, "InputTokens",
     "the tokens of such a conversation"},
    {"POST", "/v1/embeddings", FXI_API_EMBEDDINGS, "Embeddings", "turn texts into vectors"},
    {"GET", "/v1/models", -1, "Models", "the served model under each of its names"},
    {"GET", "/v1/models/{id}", -1, "Model", "the served model"},
    {"POST", "/tokenize", FXI_API_TOKENIZE, "Tokens", "text or conversation to token ids"},
    {"POST", "/detokenize", FXI_API_DETOKENIZE, "Text", "token ids to text"},
    {"POST", "/apply-template", FXI_API_CHAT, "Prompt", "what the model reads of a conversation"},
    {"GET", "/health", -1, "Status", "whether requests are served"},
    {"GET", "/ready", -1, "Status", "whether new requests are accepted"},
    {"GET", "/ping", -1, "Status", "whether the server answers"},
    {"GET", "/version", -1, "Version", "the program's version"},
    {"GET", "/props", -1, "Properties", "properties of the served model"},
    {"GET", "/tokenizer_info", -1, "TokenizerInfo", "the tokens that begin and end a text"},
    {"GET", "/stats", -1, "Object", "the engine's figures"},
    {"GET", "/metrics", -1, "text/plain", "the server's figures for Prometheus"},
    {"GET", "/openapi.json", -1, "Object", "this document"},
    {"GET", "/", -1, "text/plain", "the list of paths; for browsers, the page"},
    {"GET", "/web/{id}", -1, "text/plain", "a file of the page"},
    {"GET", "/admin/cache", -1, "Cache", "admin: what the KV cache holds"},
    {"POST", "/admin/cache/clear", -1, "Status", "admin: forget prefixes that nobody uses"},
    {"POST", "/reset_prefix_cache", -1, "Status", "admin: the same, by vLLM's name"},
    {"POST", "/admin/cache/retain", FXI_API_RETAIN, "Prefixes", "admin: keep prompts in the cache"},
    {"GET", "/admin/budget", -1, "Budget", "admin: the budget of the KV cache"},
    {"POST", "/admin/budget", FXI_API_BUDGET, "Budget", "admin: change the budget of the KV cache"},
    {"GET", "/admin/trace", -1, "Object",
     "admin where there are keys: what the engine did last, as a Chrome trace"},
    {"POST", "/admin/abort", FXI_API_ABORT, "Aborted", "admin: end a request"},
    {"POST", "/abort", FXI_API_ABORT, "Aborted", "admin: the same, by a shorter name"},
    {"GET", "/slots", -1, "Slots", "admin: the requests that are being served"},
    {"GET", "/kv", -1, "Cache", "admin: what the KV cache holds"},
    {"GET", "/kv/stream", -1, "text/event-stream",
     "admin where there are keys: the KV memory, live"},
    {"GET", "/kv/snapshot", -1, "Object", "admin where there are keys: the KV memory now"},
    {"GET", "/limits", -1, "Limits", "admin: the server's limits"},
    {"POST", "/sleep", -1, "Sleep", "admin: refuse requests, give memory back"},
    {"POST", "/wake_up", -1, "Sleep", "admin: serve requests again"},
    {"GET", "/is_sleeping", -1, "Sleep", "admin: whether it sleeps"},
};

static const char *const body_names[FXI_N_API] = {
    [FXI_API_COMPLETIONS] = "CompletionRequest",
    [FXI_API_CHAT] = "ChatRequest",
    [FXI_API_EMBEDDINGS] = "EmbeddingRequest",
    [FXI_API_RETAIN] = "RetainRequest",
    [FXI_API_TOKENIZE] = "TokenizeRequest",
    [FXI_API_DETOKENIZE] = "DetokenizeRequest",
    [FXI_API_RESPONSES] = "ResponseRequest",
    [FXI_API_MESSAGES] = "MessageRequest",
    [FXI_API_COUNT] = "CountRequest",
    [FXI_API_BUDGET] = "BudgetRequest",
    [FXI_API_ABORT] = "AbortRequest",
};

// ---- a field ------------------------------------------------------------------------------------

static const struct type_word {
    unsigned bit;
    const char *text;
} type_words[] = {
    {FXI_T_BOOL, "boolean"}, {FXI_T_INT, "integer"}, {FXI_T_NUM, "number"},
    {FXI_T_STR, "string"},   {FXI_T_ARR, "array"},   {FXI_T_OBJ, "object"},
};

// null equals absent, but not where the field is required.
static bool add_types(fxi_buf *b, const fxi_field *f)
{
    bool ok = fxi_buf_str(b, "\"type\":["), first = true;
    for (size_t i = 0; ok && i < sizeof type_words / sizeof type_words[0]; i++) {
        if (!(f->types & type_words[i].bit)) continue;
        ok = fxi_buf_fmt(b, "%s\"%s\"", first ? "" : ",", type_words[i].text);
        first = false;
    }
    return ok && fxi_buf_str(b, f->types & FXI_T_REQUIRED ? "]" : ",\"null\"]");
}

static bool add_bounds(fxi_buf *b, const fxi_field *f)
{
    const bool string = f->types & FXI_T_STR, array = f->types & FXI_T_ARR;
    const char *least = string                   ? "minLength"
                        : array                  ? "minItems"
                        : f->types & FXI_T_ABOVE ? "exclusiveMinimum"
                                                 : "minimum";
    const char *most = string ? "maxLength" : array ? "maxItems" : "maximum";
    if (f->lo == f->hi) return true;
    return fxi_buf_fmt(b, ",\"%s\":%.0f", least, f->lo) &&
           (f->hi >= FXI_NO_MAX || fxi_buf_fmt(b, ",\"%s\":%.17g", most, f->hi));
}

// The words that its string may be; other types beside the string stay free.
static bool add_words(fxi_buf *b, const fxi_field *f)
{
    bool ok = fxi_buf_str(b, "\"anyOf\":[{\"enum\":[null"), more = true;
    for (const char *w = f->words + 1; ok && *w; w += strcspn(w, " ") + 1)
        ok = fxi_buf_str(b, ",") && fxi_json_str(b, w, strcspn(w, " "));
    ok = ok && fxi_buf_str(b, "]}");
    for (size_t i = 0; ok && more && i < sizeof type_words / sizeof type_words[0]; i++)
        if (type_words[i].bit != FXI_T_STR && f->types & type_words[i].bit)
            ok = fxi_buf_fmt(b, ",{\"type\":\"%s\"}", type_words[i].text);
    return ok && fxi_buf_str(b, "]");
}

// What is accepted of a field that is not supported.
static const struct neutral {
    bool (*set)(fxi_parse *p, const fxi_field *f, const json_t *v);
    const char *schema;
} neutrals[] = {
    {fxi_only_absent, "\"type\":\"null\""},
    {fxi_only_false, "\"enum\":[false,null]"},
    {fxi_only_zero, "\"enum\":[0,null]"},
    {fxi_only_empty,
     "\"anyOf\":[{\"type\":\"string\",\"maxLength\":0},{\"type\":\"array\",\"maxItems\":0},"
     "{\"type\":\"object\",\"maxProperties\":0},{\"type\":\"null\"}]"},
    {fxi_set_suffix, "\"type\":[\"string\",\"null\"],\"maxLength\":0"},
    {fxi_only_free_choice, "\"enum\":[\"none\",\"auto\",null]"},
};

static const char *neutral_shape(const fxi_field *f)
{
    for (size_t i = 0; i < sizeof neutrals / sizeof neutrals[0]; i++)
        if (neutrals[i].set == f->set) return neutrals[i].schema;
    return NULL;
}

static bool add_models(fxi_buf *b, const fxi_limits *lim)
{
    bool ok = fxi_buf_str(b, "\"enum\":[null,") && fxi_json_cstr(b, lim->model_id);
    for (size_t i = 0; ok && i < lim->n_alias; i++)
        ok = fxi_buf_str(b, ",") && fxi_json_cstr(b, lim->alias[i]);
    return ok && fxi_buf_str(b, "]");
}

static bool add_shape(fxi_buf *b, const fxi_field *f, const fxi_limits *lim)
{
    if (f->set == fxi_set_model) return add_models(b, lim);
    const bool fills_in = f->set == fxi_set_suffix && lim->infill;
    const char *neutral = fills_in ? NULL : neutral_shape(f);
    if (neutral) return fxi_buf_str(b, neutral);
    if (f->words) return add_words(b, f);
    if (!f->shape) return add_types(b, f) && add_bounds(b, f);
    return fxi_buf_fmt(b, "\"anyOf\":[%s%s]", f->shape,
                       f->types & FXI_T_REQUIRED ? "" : ",{\"type\":\"null\"}") &&
           add_bounds(b, f);
}

static bool add_field(fxi_buf *b, const fxi_field *f, const fxi_limits *lim)
{
    return fxi_buf_fmt(b, "\"%s\":{", f->name) && add_shape(b, f, lim) &&
           fxi_buf_str(b, ",\"description\":") && fxi_json_cstr(b, f->about) &&
           (!f->preset || fxi_buf_fmt(b, ",\"default\":%s", f->preset)) && fxi_buf_str(b, "}");
}

// ---- bodies -------------------------------------------------------------------------------------

static bool add_body(fxi_buf *b, fxi_api api, const fxi_limits *lim)
{
    size_t n;
    const fxi_field *rows = fxi_field_rows(&n);
    const char *comma = "";
    bool ok = fxi_buf_fmt(b, "\"%s\":{\"type\":\"object\",\"properties\":{", body_names[api]);
    for (const fxi_field *f = rows; ok && f < rows + n; f++) {
        if (!(f->apis & 1u << api)) continue;
        ok = fxi_buf_str(b, comma) && add_field(b, f, lim);
        comma = ",";
    }
    ok = ok && fxi_buf_str(b, "},\"required\":[");
    comma = "";
    for (const fxi_field *f = rows; ok && f < rows + n; f++) {
        if (!(f->apis & 1u << api) || !(f->types & FXI_T_REQUIRED)) continue;
        ok = fxi_buf_fmt(b, "%s\"%s\"", comma, f->name);
        comma = ",";
    }
    return ok && fxi_buf_str(b, "]}");
}

static bool add_components(fxi_buf *b, const fxi_limits *lim)
{
    bool ok = fxi_buf_str(b, "\"components\":{\"securitySchemes\":{\"key\":{\"type\":\"http\","
                             "\"scheme\":\"bearer\"}},\"schemas\":{") &&
              fxi_openapi_answers(b);
    for (int api = 0; ok && api < FXI_N_API; api++)
        ok = fxi_buf_str(b, ",") && add_body(b, (fxi_api)api, lim);
    return ok && fxi_buf_str(b, "}}");
}

// ---- paths --------------------------------------------------------------------------------------

static bool add_answer(fxi_buf *b, const api_operation *o)
{
    if (strchr(o->answer, '/'))
        return fxi_buf_fmt(b, "\"%s\":{\"schema\":{\"type\":\"string\"}}", o->answer);
    bool ok = fxi_buf_fmt(
        b, "\"application/json\":{\"schema\":{\"$ref\":\"#/components/schemas/%s\"}}", o->answer);
    if (o->api == FXI_API_COMPLETIONS || o->api == FXI_API_RESPONSES ||
        o->api == FXI_API_MESSAGES || !strcmp(o->answer, "ChatCompletion"))
        ok = ok && fxi_buf_str(b, ",\"text/event-stream\":{\"schema\":{}}");
    return ok;
}

static bool add_operation(fxi_buf *b, const api_operation *o)
{
    static const char usual[] =
        "\"content\":{\"application/json\":{\"schema\":{\"$ref\":\"#/components/schemas/Error\"}}}";
    static const char anthropic[] = "\"content\":{\"application/json\":{\"schema\":{\"$ref\":"
                                    "\"#/components/schemas/AnthropicError\"}}}";
    const bool other = o->api == FXI_API_MESSAGES || o->api == FXI_API_COUNT;
    const char *error = other ? anthropic : usual;
    const char *method = strcmp(o->method, "GET") ? "post" : "get";
    bool ok = fxi_buf_fmt(b, "\"%s\":{\"summary\":", method) && fxi_json_cstr(b, o->about);
    if (ok && strchr(o->path, '{'))
        ok = fxi_buf_str(b, ",\"parameters\":[{\"name\":\"id\",\"in\":\"path\",\"required\":true,"
                            "\"schema\":{\"type\":\"string\",\"minLength\":1}}]");
    if (ok && o->api >= 0)
        ok = fxi_buf_fmt(b,
                         ",\"requestBody\":{\"required\":true,\"content\":{\"application/json\":"
                         "{\"schema\":{\"$ref\":\"#/components/schemas/%s\"}}}}",
                         body_names[o->api]);
    return ok &&
           fxi_buf_str(b, ",\"security\":[{},{\"key\":[]}],\"responses\":{\"200\":{\"description\":"
                          "\"the answer\",\"content\":{") &&
           add_answer(b, o) &&
           fxi_buf_fmt(b,
                       "}},\"4XX\":{\"description\":\"the client's fault\",%s},\"5XX\":{"
                       "\"description\":\"the server's fault, or later\",%s}}}",
                       error, error);
}

// Rows of one path stand in one object, under their methods.
static bool add_path(fxi_buf *b, size_t first)
{
    const size_t n = sizeof operations / sizeof operations[0];
    const char *path = operations[first].path, *comma = "";
    bool ok = fxi_buf_fmt(b, "\"%s\":{", path);
    for (size_t i = first; ok && i < n; i++) {
        if (strcmp(operations[i].path, path) != 0) continue;
        ok = fxi_buf_str(b, comma) && add_operation(b, &operations[i]);
        comma = ",";
    }
    return ok && fxi_buf_str(b, "}");
}

static bool is_first_of_path(size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (!strcmp(operations[k].path, operations[i].path)) return false;
    return true;
}

bool fxi_openapi_write(fxi_buf *b, const char *version, const fxi_limits *lim)
{
    bool ok =
        fxi_buf_str(b, "{\"openapi\":\"3.1.0\",\"info\":{\"title\":\"flexinfer\",\"version\":") &&
        fxi_json_cstr(b, version) && fxi_buf_str(b, "},\"paths\":{");
    for (size_t i = 0; ok && i < sizeof operations / sizeof operations[0]; i++)
        if (is_first_of_path(i)) ok = (!i || fxi_buf_str(b, ",")) && add_path(b, i);
    return ok && fxi_buf_str(b, "},") && add_components(b, lim) && fxi_buf_str(b, "}");
}
