// answers.c - what answers look like, as a table of members. Their writers are in reply/ and
// endpoint/.
#include "server/schema/answers.h"

#include <string.h>

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

bool fxi_openapi_answers(fxi_buf *b)
{
    bool ok = true;
    for (const struct answer_member *m = members, *next; ok && m < members_end; m = next) {
        for (next = m; is_of_same(next, m);) next++;
        ok = (m == members || fxi_buf_str(b, ",")) && add_component(b, m);
    }
    return ok;
}
