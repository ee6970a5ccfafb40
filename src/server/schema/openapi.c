// openapi.c - the paths of the API, the schemas of answers, and those of request bodies from the
// table of fields.
#include <string.h>

#include "base/json/json.h"
#include "server/request/api_fields.h"
#include "server/schema/openapi.h"

// ---- the schemas of answers ---------------------------------------------------------------------

// What answers look like, member by member; "name?" may be missing. Their writers are in reply/ and
// endpoint/. A type is written as
//
//     integer   string|null   'list'   'stop'|'length'   a type of JSON, or several; a text
//     Usage   [Usage]   ?Usage                           a component; a list of it; it, or null
//     array|string[number]                               whose elements are numbers
static const struct answer {
    const char *name, *members;
} answers[] = {
    {"Status", "status: string"},
    {"Version", "version: string"},
    {"Prompt", "prompt: string"},
    {"Text", "prompt: string, content: string"},
    {"Tokens", "count: integer, max_model_len: integer, tokens: [integer], token_strs: ?[string]"},
    {"Model",
     "id: string, object: 'model', created: integer, owned_by: string, max_model_len: integer, "
     "root: string, parent: string|null"},
    {"Models", "object: 'list', data: [Model]"},
    {"Properties",
     "model: string, architecture: string, max_model_len: integer, generates: boolean, "
     "embeds: boolean, scores: boolean, embedding_length: integer"},
    {"TokenizerInfo", "bos_token: string|null, eos_token: string|null, max_model_len: integer, "
                      "vocabulary: integer"},
    {"CachedTokens", "cached_tokens: integer"},
    {"ReasoningTokens", "reasoning_tokens: integer"},
    {"Usage", "prompt_tokens: integer, completion_tokens: integer, total_tokens: integer, "
              "prompt_tokens_details: CachedTokens, completion_tokens_details?: ReasoningTokens"},
    {"Timings",
     "cache_n: integer, prompt_n: integer, prompt_ms: number, prompt_per_token_ms: number, "
     "prompt_per_second: number, predicted_n: integer, predicted_ms: number, "
     "predicted_per_token_ms: number, predicted_per_second: number"},
    {"PromptUsage", "prompt_tokens: integer, total_tokens: integer"},
    {"TextLogprobs",
     "tokens: [string], token_logprobs: [number|null], top_logprobs: [object|null], "
     "text_offset: [integer]"},
    {"TextChoice",
     "index: integer, text: string, logprobs: ?TextLogprobs, finish_reason: 'stop'|'length', "
     "stop_reason: string|integer|null, token_ids?: [integer], prompt_token_ids?: [integer], "
     "prompt_logprobs?: [object|null]"},
    {"Completion",
     "id: string, object: 'text_completion', created: integer, model: string, "
     "system_fingerprint: string, choices: [TextChoice], usage: Usage, timings?: Timings"},
    {"TopLogprob", "token: string, logprob: number, bytes: [integer]"},
    {"TokenLogprob",
     "token: string, logprob: number, bytes: [integer], top_logprobs: [TopLogprob]"},
    {"ChatLogprobs", "content: [TokenLogprob], refusal: null"},
    {"CalledFunction", "name: string, arguments: string"},
    {"ToolCall", "id: string, type: 'function', function: CalledFunction"},
    {"Message", "role: 'assistant', content: string|null, refusal: string|null, "
                "reasoning_content?: string, tool_calls?: [ToolCall]"},
    {"ChatChoice", "index: integer, message: Message, logprobs: ?ChatLogprobs, "
                   "finish_reason: 'stop'|'length'|'tool_calls', stop_reason: string|integer|null, "
                   "token_ids?: [integer]"},
    {"ChatCompletion",
     "id: string, object: 'chat.completion', created: integer, model: string, "
     "system_fingerprint: string, choices: [ChatChoice], usage: Usage, timings?: Timings, "
     "prompt_token_ids?: [integer], prompt_logprobs?: [object|null]"},
    {"Response", "id: string, object: 'response', created_at: integer, "
                 "status: 'completed'|'incomplete'|'failed', error: object|null, "
                 "incomplete_details: object|null, model: string, output: [object], "
                 "parallel_tool_calls: boolean, tools: [object], usage: object"},
    {"AnthropicUsage", "input_tokens: integer, cache_creation_input_tokens: integer, "
                       "cache_read_input_tokens: integer, output_tokens: integer"},
    {"AnthropicMessage",
     "id: string, type: 'message', role: 'assistant', model: string, content: [object], "
     "stop_reason: 'end_turn'|'max_tokens'|'stop_sequence'|'tool_use', "
     "stop_sequence: string|null, usage: AnthropicUsage"},
    {"InputTokens", "input_tokens: integer"},
    {"Embedding", "object: 'embedding', index: integer, embedding: array|string[number]"},
    {"Embeddings", "object: 'list', data: [Embedding], model: string, usage: PromptUsage"},
    {"Document", "text: string"},
    {"RankedDocument", "index: integer, document?: Document, relevance_score: number"},
    {"Rerank",
     "id: string, object: 'list', model: string, results: [RankedDocument], usage: PromptUsage"},
    {"Score", "index: integer, object: 'score', score: number"},
    {"Scores", "id: string, object: 'list', created: integer, model: string, data: [Score], "
               "usage: PromptUsage"},
    {"Prefix", "object: 'cache.prefix', index: integer, tokens: integer, cached_tokens: integer"},
    {"Prefixes", "object: 'list', data: [Prefix]"},
    {"Cache", "kv_memory_bytes: integer, mapped_bytes: integer, cached_bytes: integer"},
    {"Budget", "kv_memory_bytes: integer"},
    {"Aborted", "aborted: integer"},
    {"Slot",
     "id: string, request_id: string, path: string, tenant: string, "
     "state: 'reading'|'queued'|'prefill'|'decode'|'sending', age_s: number, choices: integer, "
     "prompt_tokens: integer, completion_tokens: integer"},
    {"Slots", "object: 'list', data: [Slot]"},
    {"Limits", "max_model_len: integer, max_choices: integer, max_logprobs: integer, "
               "max_body_bytes: integer, max_queue_bytes: integer, max_connections: integer, "
               "header_timeout_s: number, body_timeout_s: number, read_timeout_s: number"},
    {"Sleep", "is_sleeping: boolean"},
    {"Object", ""},
    {"ErrorDetail", "message: string, type: string, param: string|null, code: string|null"},
    {"Error", "error: ErrorDetail"},
    {"AnthropicErrorDetail", "type: string, message: string"},
    {"AnthropicError", "type: 'error', error: AnthropicErrorDetail, request_id: string"},
};

static bool add_type(fxi_buf *b, const char **at);

// Words with | between them.
static bool add_words_type(fxi_buf *b, const char **at)
{
    const bool quoted = **at == '\'';
    const bool several = (*at)[strcspn(*at, "|,]")] == '|';
    const char *key = !quoted ? "type" : several ? "enum" : "const", *before = several ? "[" : "";
    bool ok = fxi_json_fmt(b, "{%q:", key);
    for (bool more = true; ok && more; before = ",") {
        const size_t n = strcspn(*at, "|,[]");
        ok = fxi_json_fmt(b, "%s%t", before, (fxi_str){*at + quoted, n - 2 * quoted});
        *at += n;
        more = **at == '|';
        *at += more;
    }
    ok = ok && fxi_buf_str(b, several ? "]" : "");
    if (**at == '[') {
        ++*at;
        ok = ok && fxi_json_fmt(b, ",'items':") && add_type(b, at);
        ++*at;
    }
    return ok && fxi_buf_str(b, "}");
}

// Moves *at past the type.
static bool add_type(fxi_buf *b, const char **at)
{
    const char first = **at;
    if (first >= 'A' && first <= 'Z') {
        const fxi_str name = {*at, strcspn(*at, ",]")};
        *at += name.n;
        return fxi_json_fmt(b, "{'$ref':'#/components/schemas/") &&
               fxi_buf_add(b, name.p, name.n) && fxi_json_fmt(b, "'}");
    }
    if (first != '?' && first != '[') return add_words_type(b, at);
    ++*at;
    if (first == '?')
        return fxi_json_fmt(b, "{'anyOf':[") && add_type(b, at) &&
               fxi_json_fmt(b, ",{'type':'null'}]}");
    const bool ok = fxi_json_fmt(b, "{'type':'array','items':") && add_type(b, at);
    ++*at;
    return ok && fxi_buf_str(b, "}");
}

static bool add_answer_schema(fxi_buf *b, const struct answer *a)
{
    fxi_buf required = {0}, properties = {0};
    const char *comma = "";
    bool ok = true;
    for (const char *at = a->members; ok && *at; comma = ",") {
        const fxi_str name = {at, strcspn(at, "?:")};
        const bool may_miss = at[name.n] == '?';
        at += name.n + may_miss + strlen(": ");
        ok = fxi_json_fmt(&properties, "%s%t:", comma, name) && add_type(&properties, &at) &&
             (may_miss || fxi_json_fmt(&required, "%s%t", required.n ? "," : "", name));
        at += strspn(at, ", ");
    }
    if (ok && !properties.n)
        ok = fxi_json_fmt(b, "%q:{'type':'object'}", a->name);
    else if (ok)
        ok = fxi_json_fmt(b, "%q:{'type':'object','required':[%b],'properties':{%b}}", a->name,
                          &required, &properties);
    fxi_buf_free(&required);
    fxi_buf_free(&properties);
    return ok;
}

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
    bool ok = fxi_json_fmt(b, "'type':[");
    const char *comma = "";
    for (size_t i = 0; ok && i < sizeof type_words / sizeof type_words[0]; i++) {
        if (!(f->types & type_words[i].bit)) continue;
        ok = fxi_json_fmt(b, "%s%q", comma, type_words[i].text);
        comma = ",";
    }
    return ok && fxi_json_fmt(b, f->types & FXI_T_REQUIRED ? "]" : ",'null']");
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
    bool ok = fxi_json_fmt(b, "'anyOf':[{'enum':[null");
    for (const char *w = f->words + 1; ok && *w; w += strcspn(w, " ") + 1)
        ok = fxi_json_fmt(b, ",%t", (fxi_str){w, strcspn(w, " ")});
    ok = ok && fxi_buf_str(b, "]}");
    for (size_t i = 0; ok && i < sizeof type_words / sizeof type_words[0]; i++)
        if (type_words[i].bit != FXI_T_STR && f->types & type_words[i].bit)
            ok = fxi_json_fmt(b, ",{'type':%q}", type_words[i].text);
    return ok && fxi_buf_str(b, "]");
}

// What is accepted of a field that is not supported.
static const struct neutral {
    fxi_setter *set;
    unsigned types; // of the field: one of these
    const char *schema;
} neutrals[] = {
    {fxi_only_absent, ~0u, "'type':'null'"},
    {fxi_only_neutral, FXI_T_BOOL, "'enum':[false,null]"},
    {fxi_only_neutral, FXI_T_INT | FXI_T_NUM, "'enum':[0,null]"},
    {fxi_only_neutral, FXI_T_ARR,
     "'anyOf':[{'type':'string','maxLength':0},{'type':'array','maxItems':0},"
     "{'type':'object','maxProperties':0},{'type':'null'}]"},
    {fxi_set_suffix, ~0u, "'type':['string','null'],'maxLength':0"},
    {fxi_only_free_choice, ~0u, "'enum':['none','auto',null]"},
};

static bool add_shape(fxi_buf *b, const fxi_field *f, const fxi_limits *lim)
{
    if (f->set == fxi_set_model) {
        bool ok = fxi_json_fmt(b, "'enum':[null,%q", lim->model_id);
        for (size_t i = 0; ok && i < lim->n_alias; i++) ok = fxi_json_fmt(b, ",%q", lim->alias[i]);
        return ok && fxi_buf_str(b, "]");
    }
    const bool fills_in = f->set == fxi_set_suffix && lim->infill;
    for (size_t i = 0; !fills_in && i < sizeof neutrals / sizeof neutrals[0]; i++)
        if (neutrals[i].set == f->set && neutrals[i].types & f->types)
            return fxi_json_fmt(b, neutrals[i].schema);
    if (f->words) return add_words(b, f);
    if (!f->shape) return add_types(b, f) && add_bounds(b, f);
    return fxi_json_fmt(b, "'anyOf':[") && fxi_json_fmt(b, f->shape) &&
           fxi_json_fmt(b, f->types & FXI_T_REQUIRED ? "]" : ",{'type':'null'}]") &&
           add_bounds(b, f);
}

static bool add_field(fxi_buf *b, const fxi_field *f, const fxi_limits *lim)
{
    return fxi_json_fmt(b, "%q:{", f->name) && add_shape(b, f, lim) &&
           fxi_json_fmt(b, ",'description':%q", f->about) &&
           fxi_json_fmt(b, f->preset ? ",'default':%s}" : "}", f->preset);
}

// ---- bodies -------------------------------------------------------------------------------------

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
    [FXI_API_RERANK] = "RerankRequest",
    [FXI_API_SCORE] = "ScoreRequest",
    [FXI_API_BUDGET] = "BudgetRequest",
    [FXI_API_ABORT] = "AbortRequest",
};

static bool add_body(fxi_buf *b, fxi_api api, const fxi_limits *lim)
{
    size_t n;
    const fxi_field *rows = fxi_field_rows(&n);
    fxi_buf required = {0};
    const char *comma = "";
    bool ok = fxi_json_fmt(b, "%q:{'type':'object','properties':{", body_names[api]);
    for (const fxi_field *f = rows; ok && f < rows + n; f++) {
        if (!(f->apis & 1u << api)) continue;
        ok = fxi_buf_str(b, comma) && add_field(b, f, lim);
        comma = ",";
        if (ok && f->types & FXI_T_REQUIRED)
            ok = fxi_json_fmt(&required, "%s%q", required.n ? "," : "", f->name);
    }
    ok = ok && fxi_json_fmt(b, "},'required':[%b]}", &required);
    fxi_buf_free(&required);
    return ok;
}

static bool add_components(fxi_buf *b, const fxi_limits *lim)
{
    bool ok = fxi_json_fmt(b, "'components':{'securitySchemes':{'key':{'type':'http','scheme':"
                              "'bearer'}},'schemas':{");
    for (size_t i = 0; ok && i < sizeof answers / sizeof answers[0]; i++)
        ok = fxi_buf_str(b, i ? "," : "") && add_answer_schema(b, &answers[i]);
    for (int api = 0; ok && api < FXI_N_API; api++)
        ok = fxi_buf_str(b, ",") && add_body(b, (fxi_api)api, lim);
    return ok && fxi_buf_str(b, "}}");
}

// ---- paths --------------------------------------------------------------------------------------

static bool add_answer(fxi_buf *b, const fxi_operation *o)
{
    const bool streams = o->api == FXI_API_COMPLETIONS || o->api == FXI_API_RESPONSES ||
                         o->api == FXI_API_MESSAGES || !strcmp(o->answer, "ChatCompletion");
    if (strchr(o->answer, '/'))
        return fxi_json_fmt(b, "%q:{'schema':{'type':'string'}}", o->answer);
    return fxi_json_fmt(b, "'application/json':{'schema':{'$ref':'#/components/schemas/%s'}}",
                        o->answer) &&
           fxi_json_fmt(b, streams ? ",'text/event-stream':{'schema':{}}" : "");
}

static bool add_error(fxi_buf *b, const char *range, const char *about, const fxi_operation *o)
{
    const bool is_anthropic = o->api == FXI_API_MESSAGES || o->api == FXI_API_COUNT;
    return fxi_json_fmt(b,
                        ",%q:{'description':%q,'content':{'application/json':{'schema':{'$ref':"
                        "'#/components/schemas/%s'}}}}",
                        range, about, is_anthropic ? "AnthropicError" : "Error");
}

static bool add_operation(fxi_buf *b, const fxi_operation *o)
{
    bool ok =
        fxi_json_fmt(b, "%q:{'summary':%q", strcmp(o->method, "GET") ? "post" : "get", o->about);
    if (ok && o->takes_id)
        ok = fxi_json_fmt(b, ",'parameters':[{'name':'id','in':'path','required':true,"
                             "'schema':{'type':'string','minLength':1}}]");
    if (ok && o->api >= 0)
        ok = fxi_json_fmt(b,
                          ",'requestBody':{'required':true,'content':{'application/json':"
                          "{'schema':{'$ref':'#/components/schemas/%s'}}}}",
                          body_names[o->api]);
    return ok &&
           fxi_json_fmt(b, ",'security':[{},{'key':[]}],'responses':{'200':{'description':"
                           "'the answer','content':{") &&
           add_answer(b, o) && fxi_buf_str(b, "}}") &&
           add_error(b, "4XX", "the client's fault", o) &&
           add_error(b, "5XX", "the server's fault, or later", o) && fxi_buf_str(b, "}}");
}

// Operations of one path stand in one object, under their methods.
static bool add_path(fxi_buf *b, const fxi_operation *first, const fxi_operation *end)
{
    const char *comma = "";
    bool ok = fxi_json_fmt(b, "'%s%s':{", first->path, first->takes_id ? "{id}" : "");
    for (const fxi_operation *o = first; ok && o < end; o++) {
        if (strcmp(o->path, first->path) != 0) continue;
        ok = fxi_buf_str(b, comma) && add_operation(b, o);
        comma = ",";
    }
    return ok && fxi_buf_str(b, "}");
}

bool fxi_openapi_write(fxi_buf *b, const char *version, const fxi_limits *lim,
                       const fxi_operation *op, size_t n_op)
{
    bool ok = fxi_json_fmt(
        b, "{'openapi':'3.1.0','info':{'title':'flexinfer','version':%q},'paths':{", version);
    for (const fxi_operation *o = op; ok && o < op + n_op; o++) {
        const fxi_operation *first = op;
        while (strcmp(first->path, o->path) != 0) first++;
        if (first == o) ok = fxi_buf_str(b, o > op ? "," : "") && add_path(b, o, op + n_op);
    }
    return ok && fxi_buf_str(b, "},") && add_components(b, lim) && fxi_buf_str(b, "}");
}
