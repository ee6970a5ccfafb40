// responses_in.c - a body of /v1/responses as a chat.
//
//   instructions                    a system message
//   input: a text                   a user's message
//   input: items                    messages; reasoning, output messages and function calls in a
//                                   row are one message of the assistant; a call's output is a
//                                   message of role tool
//   tools                           functions
//
// Nothing is stored between requests, so items that refer to stored ones are refused.
#include <string.h>

#include "server/request/dialect.h"

#include "base/text/utf8.h"

static const char text_types[] = " input_text output_text text refusal ";

static fxi_place member_of(size_t i, const char *member)
{
    return fxi_place_at("input[%zu].%s", i, member);
}

static bool check_string(fxi_chat_draft *d, size_t i, const fxi_json *item, const char *member)
{
    if (fxi_json_is_string(fxi_json_get(item, member))) return true;
    return fxi_bad_type(d->p, member_of(i, member).text, "a string");
}

// ---- items --------------------------------------------------------------------------------------

static bool add_message_item(fxi_chat_draft *d, size_t i, const fxi_json *item)
{
    static const char *const roles[] = {"user", "system", "developer"};
    const fxi_place at = member_of(i, "content");
    fxi_buf text = {0};
    if (!check_string(d, i, item, "role")) return false;
    const char *role = fxi_json_text(fxi_json_get(item, "role"));
    bool known = !strcmp(role, "assistant"), ok = true;
    for (size_t k = 0; k < 3; k++) known |= !strcmp(role, roles[k]);
    if (!known)
        return fxi_bad_value(d->p, member_of(i, "role").text, "unknown role '%.*s'",
                             FXI_UTF8_HEAD(role, 40));
    ok = fxi_chat_draft_text(d, &at, fxi_json_get(item, "content"), text_types, &text);
    if (ok && !strcmp(role, "assistant"))
        ok = fxi_chat_draft_say(d, &d->text, &text);
    else
        ok = ok && fxi_chat_draft_message(d, role, NULL, &text);
    fxi_buf_free(&text);
    return ok;
}

static bool add_call_item(fxi_chat_draft *d, size_t i, const fxi_json *item)
{
    return check_string(d, i, item, "call_id") && check_string(d, i, item, "name") &&
           check_string(d, i, item, "arguments") &&
           fxi_chat_draft_call(d, fxi_json_get(item, "call_id"), fxi_json_get(item, "name"),
                               fxi_json_get(item, "arguments"));
}

static bool add_output(fxi_chat_draft *d, size_t i, const fxi_json *item)
{
    const fxi_place at = member_of(i, "output");
    fxi_buf text = {0};
    if (!check_string(d, i, item, "call_id")) return false;
    bool ok =
        fxi_chat_draft_text(d, &at, fxi_json_get(item, "output"), text_types, &text) &&
        fxi_chat_draft_message(d, "tool", fxi_json_text(fxi_json_get(item, "call_id")), &text);
    fxi_buf_free(&text);
    return ok;
}

// Its content, or its summary where there is none.
static bool add_reasoning(fxi_chat_draft *d, size_t i, const fxi_json *item)
{
    const fxi_json *content = fxi_json_get(item, "content");
    const bool whole = fxi_json_array_size(content) > 0;
    const fxi_place at = member_of(i, whole ? "content" : "summary");
    fxi_buf text = {0};
    const fxi_json *v = whole ? content : fxi_json_get(item, "summary");
    bool ok = !v || fxi_json_is_null(v) ||
              fxi_chat_draft_text(d, &at, v, " reasoning_text summary_text text ", &text);
    ok = ok && fxi_chat_draft_say(d, &d->reasoning, &text);
    fxi_buf_free(&text);
    return ok;
}

static bool add_input_item(fxi_chat_draft *d, size_t i, const fxi_json *item)
{
    static const struct item_kind {
        const char *type;
        bool (*add)(fxi_chat_draft *d, size_t i, const fxi_json *item);
    } kinds[] = {{"message", add_message_item},
                 {"function_call", add_call_item},
                 {"function_call_output", add_output},
                 {"reasoning", add_reasoning}};
    const fxi_json *type = fxi_json_get(item, "type");
    if (!fxi_json_is_object(item))
        return fxi_bad_type(d->p, "input", "a text or an array of items");
    if (!type) return add_message_item(d, i, item);
    for (size_t k = 0; fxi_json_is_string(type) && k < sizeof kinds / sizeof kinds[0]; k++)
        if (!strcmp(kinds[k].type, fxi_json_text(type))) return kinds[k].add(d, i, item);
    return fxi_bad_value(d->p, member_of(i, "type").text, "items of type '%.*s' are not supported",
                         FXI_UTF8_HEAD(fxi_json_is_string(type) ? fxi_json_text(type) : "?", 40));
}

static bool add_input(fxi_chat_draft *d, const fxi_json *input)
{
    fxi_buf text = {0};
    const fxi_place at = fxi_place_at("input");
    bool ok = true;
    if (fxi_json_is_string(input)) {
        ok = fxi_chat_draft_text(d, &at, input, "", &text) &&
             fxi_chat_draft_message(d, "user", NULL, &text);
        fxi_buf_free(&text);
        return ok;
    }
    for (size_t i = 0; ok && i < fxi_json_array_size(input); i++)
        ok = add_input_item(d, i, fxi_json_at(input, i));
    return ok;
}

// ---- the rest -----------------------------------------------------------------------------------

static bool add_instructions(fxi_chat_draft *d, const fxi_json *v)
{
    fxi_buf text = {0};
    const fxi_place at = fxi_place_at("instructions");
    if (!v || fxi_json_is_null(v)) return true;
    bool ok = fxi_chat_draft_text(d, &at, v, "", &text) &&
              (!text.n || fxi_chat_draft_message(d, "system", NULL, &text));
    fxi_buf_free(&text);
    return ok;
}

static bool add_response_tool(fxi_chat_draft *d, size_t i, const fxi_json *tool)
{
    const fxi_json *type = fxi_json_get(tool, "type"), *name = fxi_json_get(tool, "name");
    if (!fxi_json_is_string(type))
        return fxi_bad_type(d->p, fxi_place_at("tools[%zu].type", i).text, "a string");
    if (strcmp(fxi_json_text(type), "function") != 0)
        return fxi_bad_value(d->p, fxi_place_at("tools[%zu].type", i).text,
                             "tools of type '%.*s' are not supported",
                             FXI_UTF8_HEAD(fxi_json_text(type), 40));
    if (!fxi_json_is_string(name))
        return fxi_bad_type(d->p, fxi_place_at("tools[%zu].name", i).text, "a string");
    return fxi_chat_draft_tool(d, name, fxi_json_get(tool, "description"),
                               fxi_json_get(tool, "parameters"),
                               fxi_json_is_true(fxi_json_get(tool, "strict")));
}

static bool add_tools(fxi_chat_draft *d, const fxi_json *tools)
{
    bool ok = true;
    for (size_t i = 0; ok && i < fxi_json_array_size(tools); i++)
        ok = add_response_tool(d, i, fxi_json_at(tools, i));
    return ok;
}

// ---- what the answer repeats --------------------------------------------------------------------

// A member as the client sent it.
static bool mirror_member(fxi_buf *b, const fxi_json *root, const char *name, const char *preset)
{
    const fxi_json *v = fxi_json_get(root, name);
    return fxi_buf_fmt(b, ",\"%s\":", name) &&
           (v && !fxi_json_is_null(v) ? fxi_json_value(b, v) : fxi_buf_str(b, preset));
}

static bool add_mirror(fxi_parse *p)
{
    static const char *const members[][2] = {{"instructions", "null"},
                                             {"max_output_tokens", "null"},
                                             {"metadata", "{}"},
                                             {"parallel_tool_calls", "true"},
                                             {"reasoning", "{\"effort\":null,\"summary\":null}"},
                                             {"temperature", "1.0"},
                                             {"text", "{\"format\":{\"type\":\"text\"}}"},
                                             {"tool_choice", "\"auto\""},
                                             {"tools", "[]"},
                                             {"top_p", "1.0"}};
    fxi_params *par = p->par;
    bool ok = true;
    for (size_t i = 0; ok && i < sizeof members / sizeof members[0]; i++)
        ok = mirror_member(&par->mirror, par->root, members[i][0], members[i][1]);
    return (ok || fxi_no_memory(p)) && fxi_charge_list(p, 2 * par->mirror.cap);
}

bool fxi_responses_convert(fxi_parse *p)
{
    const fxi_json *root = p->par->root;
    fxi_chat_draft d = {.p = p};
    bool ok = add_instructions(&d, fxi_json_get(root, "instructions")) &&
              add_input(&d, fxi_json_get(root, "input")) &&
              add_tools(&d, fxi_json_get(root, "tools")) && fxi_chat_draft_end(&d, "input") &&
              add_mirror(p);
    fxi_chat_draft_free(&d);
    return ok;
}
