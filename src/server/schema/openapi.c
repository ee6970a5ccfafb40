// openapi.c - the paths of the API, and the schemas of request bodies from the table of fields.
#include <string.h>

#include "base/json/json.h"
#include "server/request/api_fields.h"
#include "server/schema/openapi.h"

// What is done to a path, and what is sent and answered.
// ---- the schemas of answers ---------------------------------------------------------------------

// What answers look like, as a table of members. Their writers are in reply/ and
// endpoint/.

#define STR             "{\"type\":\"string\"}"
#define INT             "{\"type\":\"integer\"}"
#define NUM             "{\"type\":\"number\"}"
#define BOOL            "{\"type\":\"boolean\"}"
#define NULLS           "{\"type\":\"null\"}"
#define NULL_STR        "{\"type\":[\"string\",\"null\"]}"
#define NULL_NUM        "{\"type\":[\"number\",\"null\"]}"
#define MAP             "{\"type\":\"object\"}"
#define NULL_MAP        "{\"type\":[\"object\",\"null\"]}"
#define CONST(s)        "{\"const\":\"" s "\"}"
#define LIST(of)        "{\"type\":\"array\",\"items\":" of "}"
#define REF(name)       "{\"$ref\":\"#/components/schemas/" name "\"}"
#define OR_NULL(schema) "{\"anyOf\":[" schema "," NULLS "]}"

// Rows of one component stand together.
static const struct answer_member {
    const char *of, *name;
    bool always;
    const char *schema;
} members[] = {
    {"Status", "status", true, STR},
    {"Version", "version", true, STR},
    {"Prompt", "prompt", true, STR},
    {"Text", "prompt", true, STR},
    {"Text", "content", true, STR},
    {"Tokens", "count", true, INT},
    {"Tokens", "max_model_len", true, INT},
    {"Tokens", "tokens", true, LIST(INT)},
    {"Tokens", "token_strs", true, OR_NULL(LIST(STR))},

    {"Model", "id", true, STR},
    {"Model", "object", true, CONST("model")},
    {"Model", "created", true, INT},
    {"Model", "owned_by", true, STR},
    {"Model", "max_model_len", true, INT},
    {"Model", "root", true, STR},
    {"Model", "parent", true, NULL_STR},
    {"Models", "object", true, CONST("list")},
    {"Models", "data", true, LIST(REF("Model"))},
    {"Properties", "model", true, STR},
    {"Properties", "architecture", true, STR},
    {"Properties", "max_model_len", true, INT},
    {"Properties", "generates", true, BOOL},
    {"Properties", "embeds", true, BOOL},
    {"Properties", "embedding_length", true, INT},

    {"TokenizerInfo", "bos_token", true, NULL_STR},
    {"TokenizerInfo", "eos_token", true, NULL_STR},
    {"TokenizerInfo", "max_model_len", true, INT},
    {"TokenizerInfo", "vocabulary", true, INT},

    {"CachedTokens", "cached_tokens", true, INT},
    {"ReasoningTokens", "reasoning_tokens", true, INT},
    {"Usage", "prompt_tokens", true, INT},
    {"Usage", "completion_tokens", true, INT},
    {"Usage", "total_tokens", true, INT},
    {"Usage", "prompt_tokens_details", true, REF("CachedTokens")},
    {"Usage", "completion_tokens_details", false, REF("ReasoningTokens")},
    {"Timings", "cache_n", true, INT},
    {"Timings", "prompt_n", true, INT},
    {"Timings", "prompt_ms", true, NUM},
    {"Timings", "prompt_per_token_ms", true, NUM},
    {"Timings", "prompt_per_second", true, NUM},
    {"Timings", "predicted_n", true, INT},
    {"Timings", "predicted_ms", true, NUM},
    {"Timings", "predicted_per_token_ms", true, NUM},
    {"Timings", "predicted_per_second", true, NUM},
    {"PromptUsage", "prompt_tokens", true, INT},
    {"PromptUsage", "total_tokens", true, INT},

    {"TextLogprobs", "tokens", true, LIST(STR)},
    {"TextLogprobs", "token_logprobs", true, LIST(NULL_NUM)},
    {"TextLogprobs", "top_logprobs", true, LIST(NULL_MAP)},
    {"TextLogprobs", "text_offset", true, LIST(INT)},
    {"TextChoice", "index", true, INT},
    {"TextChoice", "text", true, STR},
    {"TextChoice", "logprobs", true, OR_NULL(REF("TextLogprobs"))},
    {"TextChoice", "finish_reason", true, "{\"enum\":[\"stop\",\"length\"]}"},
    {"TextChoice", "stop_reason", true, "{\"type\":[\"string\",\"integer\",\"null\"]}"},
    {"TextChoice", "token_ids", false, LIST(INT)},
    {"TextChoice", "prompt_token_ids", false, LIST(INT)},
    {"TextChoice", "prompt_logprobs", false, LIST(NULL_MAP)},
    {"Completion", "id", true, STR},
    {"Completion", "object", true, CONST("text_completion")},
    {"Completion", "created", true, INT},
    {"Completion", "model", true, STR},
    {"Completion", "system_fingerprint", true, STR},
    {"Completion", "choices", true, LIST(REF("TextChoice"))},
    {"Completion", "usage", true, REF("Usage")},
    {"Completion", "timings", false, REF("Timings")},

    {"TopLogprob", "token", true, STR},
    {"TopLogprob", "logprob", true, NUM},
    {"TopLogprob", "bytes", true, LIST(INT)},
    {"TokenLogprob", "token", true, STR},
    {"TokenLogprob", "logprob", true, NUM},
    {"TokenLogprob", "bytes", true, LIST(INT)},
    {"TokenLogprob", "top_logprobs", true, LIST(REF("TopLogprob"))},
    {"ChatLogprobs", "content", true, LIST(REF("TokenLogprob"))},
    {"ChatLogprobs", "refusal", true, NULLS},
    {"CalledFunction", "name", true, STR},
    {"CalledFunction", "arguments", true, STR},
    {"ToolCall", "id", true, STR},
    {"ToolCall", "type", true, CONST("function")},
    {"ToolCall", "function", true, REF("CalledFunction")},
    {"Message", "role", true, CONST("assistant")},
    {"Message", "content", true, NULL_STR},
    {"Message", "refusal", true, NULL_STR},
    {"Message", "reasoning_content", false, STR},
    {"Message", "tool_calls", false, LIST(REF("ToolCall"))},
    {"ChatChoice", "index", true, INT},
    {"ChatChoice", "message", true, REF("Message")},
    {"ChatChoice", "logprobs", true, OR_NULL(REF("ChatLogprobs"))},
    {"ChatChoice", "finish_reason", true, "{\"enum\":[\"stop\",\"length\",\"tool_calls\"]}"},
    {"ChatChoice", "stop_reason", true, "{\"type\":[\"string\",\"integer\",\"null\"]}"},
    {"ChatChoice", "token_ids", false, LIST(INT)},
    {"ChatCompletion", "id", true, STR},
    {"ChatCompletion", "object", true, CONST("chat.completion")},
    {"ChatCompletion", "created", true, INT},
    {"ChatCompletion", "model", true, STR},
    {"ChatCompletion", "system_fingerprint", true, STR},
    {"ChatCompletion", "choices", true, LIST(REF("ChatChoice"))},
    {"ChatCompletion", "usage", true, REF("Usage")},
    {"ChatCompletion", "timings", false, REF("Timings")},
    {"ChatCompletion", "prompt_token_ids", false, LIST(INT)},
    {"ChatCompletion", "prompt_logprobs", false, LIST(NULL_MAP)},

    {"Response", "id", true, STR},
    {"Response", "object", true, CONST("response")},
    {"Response", "created_at", true, INT},
    {"Response", "status", true, "{\"enum\":[\"completed\",\"incomplete\",\"failed\"]}"},
    {"Response", "error", true, NULL_MAP},
    {"Response", "incomplete_details", true, NULL_MAP},
    {"Response", "model", true, STR},
    {"Response", "output", true, LIST(MAP)},
    {"Response", "parallel_tool_calls", true, BOOL},
    {"Response", "tools", true, LIST(MAP)},
    {"Response", "usage", true, MAP},
    {"AnthropicUsage", "input_tokens", true, INT},
    {"AnthropicUsage", "cache_creation_input_tokens", true, INT},
    {"AnthropicUsage", "cache_read_input_tokens", true, INT},
    {"AnthropicUsage", "output_tokens", true, INT},
    {"AnthropicMessage", "id", true, STR},
    {"AnthropicMessage", "type", true, CONST("message")},
    {"AnthropicMessage", "role", true, CONST("assistant")},
    {"AnthropicMessage", "model", true, STR},
    {"AnthropicMessage", "content", true, LIST(MAP)},
    {"AnthropicMessage", "stop_reason", true,
     "{\"enum\":[\"end_turn\",\"max_tokens\",\"stop_sequence\",\"tool_use\"]}"},
    {"AnthropicMessage", "stop_sequence", true, NULL_STR},
    {"AnthropicMessage", "usage", true, REF("AnthropicUsage")},
    {"InputTokens", "input_tokens", true, INT},

    {"Embedding", "object", true, CONST("embedding")},
    {"Embedding", "index", true, INT},
    {"Embedding", "embedding", true, "{\"type\":[\"array\",\"string\"],\"items\":" NUM "}"},
    {"Embeddings", "object", true, CONST("list")},
    {"Embeddings", "data", true, LIST(REF("Embedding"))},
    {"Embeddings", "model", true, STR},
    {"Embeddings", "usage", true, REF("PromptUsage")},

    {"Prefix", "object", true, CONST("cache.prefix")},
    {"Prefix", "index", true, INT},
    {"Prefix", "tokens", true, INT},
    {"Prefix", "cached_tokens", true, INT},
    {"Prefixes", "object", true, CONST("list")},
    {"Prefixes", "data", true, LIST(REF("Prefix"))},
    {"Cache", "kv_memory_bytes", true, INT},
    {"Cache", "mapped_bytes", true, INT},
    {"Cache", "cached_bytes", true, INT},
    {"Budget", "kv_memory_bytes", true, INT},
    {"Aborted", "aborted", true, INT},
    {"Slot", "id", true, STR},
    {"Slot", "request_id", true, STR},
    {"Slot", "path", true, STR},
    {"Slot", "tenant", true, STR},
    {"Slot", "state", true,
     "{\"enum\":[\"reading\",\"queued\",\"prefill\",\"decode\",\"sending\"]}"},
    {"Slot", "age_s", true, NUM},
    {"Slot", "choices", true, INT},
    {"Slot", "prompt_tokens", true, INT},
    {"Slot", "completion_tokens", true, INT},
    {"Slots", "object", true, CONST("list")},
    {"Slots", "data", true, LIST(REF("Slot"))},
    {"Limits", "max_model_len", true, INT},
    {"Limits", "max_choices", true, INT},
    {"Limits", "max_logprobs", true, INT},
    {"Limits", "max_body_bytes", true, INT},
    {"Limits", "max_queue_bytes", true, INT},
    {"Limits", "max_connections", true, INT},
    {"Limits", "header_timeout_s", true, NUM},
    {"Limits", "body_timeout_s", true, NUM},
    {"Limits", "read_timeout_s", true, NUM},
    {"Sleep", "is_sleeping", true, BOOL},
    {"Object", NULL, false, MAP},

    {"ErrorDetail", "message", true, STR},
    {"ErrorDetail", "type", true, STR},
    {"ErrorDetail", "param", true, NULL_STR},
    {"ErrorDetail", "code", true, NULL_STR},
    {"Error", "error", true, REF("ErrorDetail")},
    {"AnthropicErrorDetail", "type", true, STR},
    {"AnthropicErrorDetail", "message", true, STR},
    {"AnthropicError", "type", true, CONST("error")},
    {"AnthropicError", "error", true, REF("AnthropicErrorDetail")},
    {"AnthropicError", "request_id", true, STR},
};

static const struct answer_member *const members_end = members + sizeof members / sizeof *members;

static bool is_of_same(const struct answer_member *a, const struct answer_member *b)
{
    return a < members_end && !strcmp(a->of, b->of);
}

static bool add_required(fxi_buf *b, const struct answer_member *first)
{
    const char *comma = "";
    bool ok = fxi_buf_str(b, "\"required\":[");
    for (const struct answer_member *m = first; ok && is_of_same(m, first); m++) {
        if (!m->always) continue;
        ok = fxi_buf_fmt(b, "%s\"%s\"", comma, m->name);
        comma = ",";
    }
    return ok && fxi_buf_str(b, "]");
}

static bool add_component(fxi_buf *b, const struct answer_member *first)
{
    if (!first->name) return fxi_buf_fmt(b, "\"%s\":%s", first->of, first->schema);
    bool ok = fxi_buf_fmt(b, "\"%s\":{\"type\":\"object\",", first->of) && add_required(b, first) &&
              fxi_buf_str(b, ",\"properties\":{");
    for (const struct answer_member *m = first; ok && is_of_same(m, first); m++)
        ok = fxi_buf_fmt(b, "%s\"%s\":%s", m > first ? "," : "", m->name, m->schema);
    return ok && fxi_buf_str(b, "}}");
}

static bool add_answers(fxi_buf *b)
{
    bool ok = true;
    for (const struct answer_member *m = members, *next; ok && m < members_end; m = next) {
        for (next = m; is_of_same(next, m);) next++;
        ok = (m == members || fxi_buf_str(b, ",")) && add_component(b, m);
    }
    return ok;
}

// ---- the document -------------------------------------------------------------------------------

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
    {"POST", "/admin/cache/clear", -1, "Status", "admin: forget unused prefixes"},
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
    fxi_setter *set;
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

static bool add_shape(fxi_buf *b, const fxi_field *f, const fxi_limits *lim)
{
    if (f->set == fxi_set_model) {
        bool ok = fxi_buf_str(b, "\"enum\":[null,") && fxi_json_cstr(b, lim->model_id);
        for (size_t i = 0; ok && i < lim->n_alias; i++)
            ok = fxi_buf_str(b, ",") && fxi_json_cstr(b, lim->alias[i]);
        return ok && fxi_buf_str(b, "]");
    }
    const bool fills_in = f->set == fxi_set_suffix && lim->infill;
    for (size_t i = 0; !fills_in && i < sizeof neutrals / sizeof neutrals[0]; i++)
        if (neutrals[i].set == f->set) return fxi_buf_str(b, neutrals[i].schema);
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
              add_answers(b);
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

bool fxi_openapi_write(fxi_buf *b, const char *version, const fxi_limits *lim)
{
    bool ok =
        fxi_buf_str(b, "{\"openapi\":\"3.1.0\",\"info\":{\"title\":\"flexinfer\",\"version\":") &&
        fxi_json_cstr(b, version) && fxi_buf_str(b, "},\"paths\":{");
    for (size_t i = 0; ok && i < sizeof operations / sizeof operations[0]; i++) {
        size_t first = 0;
        while (strcmp(operations[first].path, operations[i].path) != 0) first++;
        if (first == i) ok = (!i || fxi_buf_str(b, ",")) && add_path(b, i);
    }
    return ok && fxi_buf_str(b, "},") && add_components(b, lim) && fxi_buf_str(b, "}");
}
