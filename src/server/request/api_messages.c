// api_messages.c - a conversation: messages, tools and the template's further variables, checked.
//
// These are the rules for what OpenAI's clients may send. The engine fits the messages to the
// template. Unknown members pass unchecked.
#include "server/request/api_fields.h"

#include <stdio.h>
#include <string.h>

#include "base/text/utf8.h"

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
