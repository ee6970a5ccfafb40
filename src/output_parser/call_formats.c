// call_formats.c - the table of formats. If a template contains the marks of several formats, the
// first row wins: rows with longer or rarer marks come first.
#include "output_parser/output_parser.h"

#include <string.h>

#define DS(word)       "<\xef\xbd\x9ctool\xe2\x96\x81" word "\xef\xbd\x9c>" // of DeepSeek
#define DS_CALLS(word) DS("calls\xe2\x96\x81" word)
#define DS_CALL(word)  DS("call\xe2\x96\x81" word)

// Fields that often come together: how an object spells a call, the tags of its arguments, and the
// marks of reasoning, written as they are read.
#define JSON_CALL(args) "{\"name\": \"", "\", \"" args "\": ", "}"
#define TAGS(open_, key_end_, value_end_, end_) \
    .key_open = open_, .key_end = key_end_, .value_end = value_end_, .call_end = end_
#define BETWEEN(open_, close_) \
    .open = {open_}, .close = {close_}, .spelled_open = open_, .spelled_close = close_

static const fxi_call_format call_rows[] = {
    {.name = "harmony", // gpt-oss
     .hint = {"<|channel|>", "to=functions."},
     .body = FXI_BODY_CHANNELS,
     .skip = {"<|call|>", "<|end|>"},
     .spelling = {"", "<|channel|>commentary to=functions.", " <|constrain|>json<|message|>",
                  "<|call|>", "<|start|>assistant", ""}},
    {.name = "deepseek_v3", // DeepSeek-V3, R1
     .hint = {DS("sep"), "```json"},
     .body = FXI_BODY_HEAD,
     .open = {DS_CALLS("begin")},
     .again = {DS_CALL("begin") "function" DS("sep")},
     .skip = {"```", DS_CALL("end")},
     .close = {DS_CALLS("end")},
     .name_end = {"\n```json\n"},
     .spelling = {DS_CALLS("begin"), DS_CALL("begin") "function" DS("sep"), "\n```json\n",
                  "\n```" DS_CALL("end"), "\n", DS_CALLS("end")}},
    {.name = "deepseek_v31", // DeepSeek-V3.1
     .hint = {DS("sep")},
     .body = FXI_BODY_HEAD,
     .open = {DS_CALLS("begin")},
     .again = {DS_CALL("begin")},
     .skip = {DS_CALL("end")},
     .close = {DS_CALLS("end")},
     .name_end = {DS("sep")},
     .spelling = {DS_CALLS("begin"), DS_CALL("begin"), DS("sep"), DS_CALL("end"), "",
                  DS_CALLS("end")}},
    {.name = "kimi_k2", // Kimi-K2
     .body = FXI_BODY_HEAD,
     .open = {"<|tool_calls_section_begin|>"},
     .again = {"<|tool_call_begin|>"},
     .skip = {"<|tool_call_end|>"},
     .close = {"<|tool_calls_section_end|>"},
     .head_is_id = true,
     .name_end = {"<|tool_call_argument_begin|>"},
     .spelling = {"<|tool_calls_section_begin|>", "<|tool_call_begin|>functions.",
                  "<|tool_call_argument_begin|>", "<|tool_call_end|>", "",
                  "<|tool_calls_section_end|>"}},
    {.name = "mistral_v11", // Mistral since version 11 of its tokenizers
     .hint = {"[TOOL_CALLS]", "[ARGS]"},
     .body = FXI_BODY_HEAD,
     .open = {"[TOOL_CALLS]"},
     .object_too = true,
     .short_ids = true,
     .name_end = {"[ARGS]", "{"},
     .spelling = {"", "[TOOL_CALLS]", "[ARGS]", "", "", ""}},
    {.name = "mistral", // Mistral before that
     .body = FXI_BODY_HEAD,
     .open = {"[TOOL_CALLS]"},
     .object_too = true,
     .short_ids = true,
     .name_end = {"[ARGS]", "{"},
     .spelling = {"[TOOL_CALLS][", JSON_CALL("arguments"), ", ", "]"}},
    {.name = "seed_oss", // Seed-OSS
     .body = FXI_BODY_TAGS,
     .open = {"<seed:tool_call>"},
     .again = {"<function="},
     .close = {"</seed:tool_call>"},
     .name_end = {">"},
     TAGS("<parameter=", ">", "</parameter>", "</function>"),
     .spelling = {"", "<seed:tool_call>\n<function=", ">\n", "</function>\n</seed:tool_call>", "\n",
                  "", "<parameter=", ">", "</parameter>\n"}},
    {.name = "minimax_m2", // MiniMax-M2
     .body = FXI_BODY_TAGS,
     .open = {"<minimax:tool_call>"},
     .again = {"<invoke name=\""},
     .close = {"</minimax:tool_call>"},
     .name_end = {"\">"},
     TAGS("<parameter name=\"", "\">", "</parameter>", "</invoke>"),
     .spelling = {"<minimax:tool_call>\n", "<invoke name=\"", "\">\n", "</invoke>\n", "",
                  "</minimax:tool_call>", "<parameter name=\"", "\">", "</parameter>\n"}},
    {.name = "qwen3_coder", // Qwen3-Coder, Nemotron 3
     .hint = {"<tool_call>", "<function=", "<parameter="},
     .body = FXI_BODY_TAGS,
     .open = {"<tool_call>"},
     .again = {"<function="},
     .close = {"</tool_call>"},
     .name_end = {">"},
     TAGS("<parameter=", ">", "</parameter>", "</function>"),
     .spelling = {"", "<tool_call>\n<function=", ">\n", "</function>\n</tool_call>", "\n", "",
                  "<parameter=", ">\n", "\n</parameter>\n"}},
    {.name = "glm45", // GLM-4.5 to 4.7
     .hint = {"<tool_call>", "<arg_key>"},
     .body = FXI_BODY_TAGS,
     .open = {"<tool_call>"},
     .name_end = {"\n", "<arg_key>", "</tool_call>"},
     .key_open = "<arg_key>",
     .key_end = "</arg_key>",
     .value_open = "<arg_value>",
     .value_end = "</arg_value>",
     .call_end = "</tool_call>",
     .spelling = {"", "<tool_call>", "\n", "</tool_call>", "\n", "", "<arg_key>",
                  "</arg_key>\n<arg_value>", "</arg_value>\n"}},
    {.name = "phi4_mini", // Phi-4-mini
     .hint = {"<|tool|>", "<|/tool|>"},
     .body = FXI_BODY_OBJECT,
     .open = {"functools", "<|tool_call|>"},
     .close = {"<|/tool_call|>"},
     .spelling = {"functools[", JSON_CALL("arguments"), ", ", "]"}},
    {.name = "granite", // Granite 3
     .body = FXI_BODY_OBJECT,
     .open = {"<|tool_call|>"},
     .spelling = {"<|tool_call|>[", JSON_CALL("arguments"), ", ", "]"}},
    {.name = "lfm2", // LFM2
     .body = FXI_BODY_PYTHON,
     .open = {"<|tool_call_start|>"},
     .close = {"<|tool_call_end|>"},
     .spelling = {"<|tool_call_start|>[", "", "(", ")", ", ", "]<|tool_call_end|>"}},
    {.name = "nemotron", // Nemotron Nano 2
     .body = FXI_BODY_OBJECT,
     .open = {"<TOOLCALL>"},
     .close = {"</TOOLCALL>"},
     .spelling = {"<TOOLCALL>[", JSON_CALL("arguments"), ", ", "]</TOOLCALL>"}},
    {.name = "hermes", // Hermes 2 Pro and 3, Qwen 2.5 and 3, Granite 4, SmolLM3 and many others
     .body = FXI_BODY_OBJECT,
     .open = {"<tool_call>"},
     .close = {"</tool_call>"},
     .spelling = {"", "<tool_call>\n{\"name\": \"", "\", \"arguments\": ", "}\n</tool_call>", "\n",
                  ""}},
    {.name = "llama4_pythonic", // Llama 4
     .body = FXI_BODY_PYTHON,
     .bare = '[',
     .open = {"<|python_start|>"},
     .close = {"<|python_end|>"},
     .spelling = {"[", "", "(", ")", ", ", "]"}},
    {.name = "llama3_json", // Llama 3.1 to 3.3
     .hint = {"<|start_header_id|>", "\"parameters\""},
     .body = FXI_BODY_OBJECT,
     .bare = '{',
     .open = {"<|python_tag|>"},
     .skip = {";"},
     .spelling = {"", JSON_CALL("parameters"), "; ", ""}},
    {.name = "pythonic", // Llama 3.2 with a system prompt that says so, ToolACE, xLAM
     .hint = {"[func_name1(params_name1="},
     .body = FXI_BODY_PYTHON,
     .bare = '[',
     .open = {"<|python_tag|>"},
     .spelling = {"[", "", "(", ")", ", ", "]"}},
};

static const fxi_call_format plain_row = {.name = "json",
                                          .body = FXI_BODY_OBJECT,
                                          .bare = '[',
                                          .spelling = {"[", JSON_CALL("parameters"), ", ", "]"}};

static const fxi_reason_format reason_rows[] = {
    {.name = "harmony", // gpt-oss
     .hint = {"<|channel|>", "analysis"},
     .channels = true,
     .spelled_open = "<|channel|>analysis<|message|>",
     .spelled_close = "<|end|><|start|>assistant",
     .spelled_text = "<|channel|>final<|message|>"},
    {.name = "mistral", // Magistral
     BETWEEN("[THINK]", "[/THINK]")},
    {.name = "seed_oss", // Seed-OSS
     BETWEEN("<seed:think>", "</seed:think>")},
    {.name = "gemma4", // Gemma 4
     .hint = {"<|channel>", "<channel|>"},
     .open = {"<|channel>thought"},
     .close = {"<channel|>"},
     .spelled_open = "<|channel>thought\n",
     .spelled_close = "<channel|>"},
    {.name = "cohere", // Command A Reasoning
     BETWEEN("<|START_THINKING|>", "<|END_THINKING|>"),
     .text_open = {"<|START_RESPONSE|>"},
     .text_close = {"<|END_RESPONSE|>"}},
    {.name = "apriel", // Apriel Thinker
     .hint = {"[BEGIN FINAL RESPONSE]"},
     .open = {"Here are my reasoning steps:"},
     .close = {"[BEGIN FINAL RESPONSE]"},
     .text_close = {"[END FINAL RESPONSE]"},
     .spelled_open = "Here are my reasoning steps:\n",
     .spelled_close = "[BEGIN FINAL RESPONSE]"},
    {.name = "exaone_deep", // EXAONE Deep
     BETWEEN("<thought>", "</thought>")},
    {.name = "granite33", // Granite 3.3, ERNIE 4.5 Thinking
     .hint = {"<response>", "<think>"},
     BETWEEN("<think>", "</think>"),
     .text_open = {"<response>"},
     .text_close = {"</response>"}},
    {.name = "hunyuan", // Hunyuan-A13B
     .hint = {"<answer>", "<think>"},
     BETWEEN("<think>", "</think>"),
     .text_open = {"<answer>"},
     .text_close = {"</answer>"}},
    {.name = "granite", // Granite 3.2
     .hint = {"Here is my thought process"},
     .open = {"Here is my thought process:", "Here's my thought process:"},
     .close = {"Here is my response:", "Here's my response:"},
     .spelled_open = "Here is my thought process:",
     .spelled_close = "Here is my response:"},
    {.name = "kimi_vl", // Kimi-VL
     BETWEEN("\xe2\x97\x81think\xe2\x96\xb7", "\xe2\x97\x81/think\xe2\x96\xb7")},
    {.name =
         "think", // DeepSeek-R1 and V3.1, Qwen3, QwQ, GLM-4.5, MiniMax-M2, SmolLM3 and many others
     .hint = {"</think>"},
     BETWEEN("<think>", "</think>")},
};

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

const fxi_call_format *fxi_call_format_at(size_t i)
{
    return i < COUNT(call_rows) ? &call_rows[i] : NULL;
}

const fxi_reason_format *fxi_reason_format_at(size_t i)
{
    return i < COUNT(reason_rows) ? &reason_rows[i] : NULL;
}

const fxi_call_format *fxi_call_format_plain(void)
{
    return &plain_row;
}

const fxi_call_format *fxi_call_format_named(const char *name)
{
    for (size_t i = 0; i < COUNT(call_rows); i++)
        if (!strcmp(call_rows[i].name, name)) return &call_rows[i];
    return NULL;
}

const fxi_reason_format *fxi_reason_format_named(const char *name)
{
    for (size_t i = 0; i < COUNT(reason_rows); i++)
        if (!strcmp(reason_rows[i].name, name)) return &reason_rows[i];
    return NULL;
}

// Whether the text has all hints; without any, the opening mark.
static bool has_hints(const char *const *hint, const char *open, const char *text, size_t n)
{
    if (!*hint) return memmem(text, n, open, strlen(open));
    while (*hint && memmem(text, n, *hint, strlen(*hint))) hint++;
    return !*hint;
}

const fxi_call_format *fxi_call_format_of(const char *jinja, size_t n_bytes)
{
    for (size_t i = 0; i < COUNT(call_rows); i++)
        if (has_hints(call_rows[i].hint, call_rows[i].open[0], jinja, n_bytes))
            return &call_rows[i];
    return NULL;
}

const fxi_reason_format *fxi_reason_format_of(const char *jinja, size_t n_bytes)
{
    for (size_t i = 0; i < COUNT(reason_rows); i++)
        if (has_hints(reason_rows[i].hint, reason_rows[i].open[0], jinja, n_bytes))
            return &reason_rows[i];
    return NULL;
}

typedef struct mark_list {
    const char **mark;
    size_t n, max;
} mark_list;

static void add_marks(mark_list *l, const char *const *mark)
{
    for (; *mark && l->n < l->max; mark++) l->mark[l->n++] = *mark;
}

size_t fxi_format_marks(const fxi_call_format *calls, const fxi_reason_format *reasoning,
                        const char **mark, size_t max)
{
    static const char *const inner[] = {"[CALL_ID]", DS("sep"), DS_CALL("begin"), NULL};
    static const char *const channels[] = {"<|channel|>", "<|message|>", "<|start|>",     "<|end|>",
                                           "<|call|>",    "<|return|>",  "<|constrain|>", NULL};
    static const char *const thought[] = {"<|channel>", NULL}; // part of a mark
    mark_list l = {mark, 0, max};
    if (calls) {
        // Only some formats with tags have one that opens a value.
        const char *const tags[] = {calls->key_open, calls->key_end,    calls->value_end,
                                    calls->call_end, calls->value_open, NULL};
        const char *const *const lists[] = {
            calls->open, calls->again, calls->skip, calls->close, calls->name_end, tags, inner};
        for (size_t i = 0; i < COUNT(lists); i++) add_marks(&l, lists[i]);
    }
    if (reasoning) {
        const char *const *const lists[] = {thought, reasoning->open, reasoning->close,
                                            reasoning->text_open, reasoning->text_close};
        for (size_t i = 0; i < COUNT(lists); i++) add_marks(&l, lists[i]);
    }
    if ((calls && calls->body == FXI_BODY_CHANNELS) || (reasoning && reasoning->channels))
        add_marks(&l, channels);
    return l.n;
}
