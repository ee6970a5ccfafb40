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
#include <stdio.h>
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
    static const char *const roles[] = {"assistant", "user", "system", "developer"};
    const fxi_place at = member_of(i, "content");
    const fxi_json *content = fxi_json_get(item, "content");
    if (!check_string(d, i, item, "role")) return false;
    const char *role = fxi_json_text(fxi_json_get(item, "role"));
    if (!fxi_str_is_any(fxi_str_of(role), roles, sizeof roles / sizeof roles[0]))
        return fxi_bad_value(d->p, member_of(i, "role").text, "unknown role '%.*s'",
                             FXI_UTF8_HEAD(role, 40));
    return !strcmp(role, "assistant") ? fxi_chat_draft_say(d, &d->text, &at, content, text_types)
                                      : fxi_chat_draft_add(d, role, NULL, &at, content, text_types);
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
    return check_string(d, i, item, "call_id") &&
           fxi_chat_draft_add(d, "tool", fxi_json_text(fxi_json_get(item, "call_id")), &at,
                              fxi_json_get(item, "output"), text_types);
}

// Its content, or its summary where there is none.
static bool add_reasoning(fxi_chat_draft *d, size_t i, const fxi_json *item)
{
    static const char types[] = " reasoning_text summary_text text ";
    const bool whole = fxi_json_array_size(fxi_json_get(item, "content")) > 0;
    const char *member = whole ? "content" : "summary";
    const fxi_place at = member_of(i, member);
    const fxi_json *v = fxi_json_get(item, member);
    d->open = true;
    return !v || fxi_json_is_null(v) || fxi_chat_draft_say(d, &d->reasoning, &at, v, types);
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
    const fxi_place at = fxi_place_at("input");
    bool ok = true;
    if (fxi_json_is_string(input)) return fxi_chat_draft_add(d, "user", NULL, &at, input, "");
    for (fxi_json_iter it = fxi_json_items(input); ok && fxi_json_next(&it);)
        ok = add_input_item(d, it.i, it.value);
    return ok;
}

// ---- what the answer repeats --------------------------------------------------------------------

// Members as the client sent them.
static bool add_mirror(fxi_parse *p)
{
    char preset[2][32]; // what is in force
    snprintf(preset[0], sizeof preset[0], "%.6g", (double)p->par->request.sampling.temperature);
    snprintf(preset[1], sizeof preset[1], "%.6g", (double)p->par->request.sampling.top_p);
    const char *const members[][2] = {{"instructions", "null"},
                                      {"max_output_tokens", "null"},
                                      {"metadata", "{}"},
                                      {"parallel_tool_calls", "true"},
                                      {"reasoning", "{'effort':null,'summary':null}"},
                                      {"temperature", preset[0]},
                                      {"text", "{'format':{'type':'text'}}"},
                                      {"tool_choice", "'auto'"},
                                      {"tools", "[]"},
                                      {"top_p", preset[1]}};
    fxi_buf *b = &p->par->mirror;
    bool ok = true;
    for (size_t i = 0; ok && i < sizeof members / sizeof members[0]; i++) {
        const fxi_json *v = fxi_json_get(p->par->root, members[i][0]);
        ok = fxi_json_fmt(b, ",%q:", members[i][0]) &&
             fxi_json_fmt(b, v && !fxi_json_is_null(v) ? "%v" : members[i][1], v);
    }
    return (ok || fxi_no_memory(p)) && fxi_charge_list(p, 2 * b->cap);
}

bool fxi_responses_convert(fxi_parse *p)
{
    const fxi_json *root = p->par->root;
    fxi_chat_draft d = {.p = p};
    bool ok = fxi_chat_draft_system(&d, "instructions", fxi_json_get(root, "instructions"), "") &&
              add_input(&d, fxi_json_get(root, "input"));
    for (fxi_json_iter it = fxi_json_items(fxi_json_get(root, "tools")); ok && fxi_json_next(&it);)
        ok = fxi_chat_draft_tool(&d, it.i, it.value, "function", "parameters");
    ok = ok && fxi_chat_draft_end(&d, "input") && add_mirror(p);
    fxi_chat_draft_free(&d);
    return ok;
}
