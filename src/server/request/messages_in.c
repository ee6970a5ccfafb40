// messages_in.c - a body of /v1/messages as a chat.
//
//   system              a system message
//   blocks of a user    text: the user's message; tool_result: messages of role tool before it
//   of the assistant    text, thinking (reasoning), tool_use (calls)
//   tools               functions, their input_schema the parameters
#include <string.h>

#include "server/request/dialect.h"

#include "base/text/utf8.h"

static fxi_place content_of(size_t i)
{
    return fxi_place_at("messages[%zu].content", i);
}

static bool check_member(fxi_chat_draft *d, size_t i, const fxi_json *block, const char *member)
{
    if (fxi_json_is_string(fxi_json_get(block, member))) return true;
    return fxi_bad_type(d->p, fxi_place_at("messages[%zu].content.%s", i, member).text, "a string");
}

// ---- blocks -------------------------------------------------------------------------------------

typedef struct block_draft {
    fxi_chat_draft *d;
    size_t i; // of the message
    bool is_user;
    fxi_buf text; // of the user's message
} block_draft;

// Adds the text v to the message that is being read, the user's or the assistant's.
static bool add_said(block_draft *b, const fxi_json *v)
{
    const fxi_place at = content_of(b->i);
    return b->is_user ? fxi_chat_draft_text(b->d, &at, v, "", &b->text)
                      : fxi_chat_draft_say(b->d, &b->d->text, &at, v, "");
}

static bool add_text_block(block_draft *b, const fxi_json *block)
{
    return check_member(b->d, b->i, block, "text") && add_said(b, fxi_json_get(block, "text"));
}

static bool add_thinking(block_draft *b, const fxi_json *block)
{
    const fxi_place at = content_of(b->i);
    return check_member(b->d, b->i, block, "thinking") &&
           fxi_chat_draft_say(b->d, &b->d->reasoning, &at, fxi_json_get(block, "thinking"), "");
}

static bool add_use(block_draft *b, const fxi_json *block)
{
    const fxi_json *input = fxi_json_get(block, "input");
    if (!check_member(b->d, b->i, block, "id") || !check_member(b->d, b->i, block, "name"))
        return false;
    if (!fxi_json_is_object(input))
        return fxi_bad_type(b->d->p, fxi_place_at("messages[%zu].content.input", b->i).text,
                            "an object");
    return fxi_chat_draft_call(b->d, fxi_json_get(block, "id"), fxi_json_get(block, "name"), input);
}

static bool add_result(block_draft *b, const fxi_json *block)
{
    const fxi_place at = content_of(b->i);
    const fxi_buf none = {0};
    const char *id = fxi_json_text(fxi_json_get(block, "tool_use_id"));
    const fxi_json *content = fxi_json_get(block, "content");
    if (!check_member(b->d, b->i, block, "tool_use_id")) return false;
    if (!content || fxi_json_is_null(content))
        return fxi_chat_draft_message(b->d, "tool", id, &none);
    return fxi_chat_draft_add(b->d, "tool", id, &at, content, " text ");
}

static bool add_content_block(block_draft *b, const fxi_json *block)
{
    static const struct block_kind {
        const char *type;
        bool of_user, of_assistant;
        bool (*add)(block_draft *b, const fxi_json *block); // NULL: it is dropped
    } kinds[] = {{"text", true, true, add_text_block},
                 {"tool_result", true, false, add_result},
                 {"thinking", false, true, add_thinking},
                 {"redacted_thinking", false, true, NULL},
                 {"tool_use", false, true, add_use}};
    const char *type = fxi_json_text(fxi_json_get(block, "type"));
    if (!type)
        return fxi_bad_type(b->d->p, content_of(b->i).text,
                            "a string or an array of blocks that have a 'type'");
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
        if (!strcmp(kinds[k].type, type) && (b->is_user ? kinds[k].of_user : kinds[k].of_assistant))
            return !kinds[k].add || kinds[k].add(b, block);
    return fxi_bad_value(b->d->p, content_of(b->i).text,
                         "blocks of type '%.*s' are not supported here", FXI_UTF8_HEAD(type, 40));
}

// ---- messages -----------------------------------------------------------------------------------

// *has_text: the message says something itself; one of a user that holds results alone does not.
static bool add_blocks(block_draft *b, const fxi_json *content, bool *has_text)
{
    *has_text = true;
    if (fxi_json_is_string(content)) return add_said(b, content);
    if (!fxi_json_is_array(content))
        return fxi_bad_type(b->d->p, content_of(b->i).text, "a string or an array of blocks");
    *has_text = !fxi_json_array_size(content);
    for (fxi_json_iter it = fxi_json_items(content); fxi_json_next(&it);) {
        if (!add_content_block(b, it.value)) return false;
        *has_text |= !strcmp(fxi_json_text(fxi_json_get(it.value, "type")), "text");
    }
    return true;
}

static bool add_turn(fxi_chat_draft *d, size_t i, const fxi_json *m)
{
    const char *role = fxi_json_text(fxi_json_get(m, "role"));
    const bool of_assistant = role && !strcmp(role, "assistant");
    block_draft b = {.d = d, .i = i, .is_user = !of_assistant};
    bool has_text;
    if (!role || (!of_assistant && strcmp(role, "user") != 0 && strcmp(role, "system") != 0))
        return fxi_bad_value(d->p, fxi_place_at("messages[%zu].role", i).text,
                             "a role must be 'user' or 'assistant'");
    bool ok = (b.is_user || fxi_chat_draft_close(d)) &&
              add_blocks(&b, fxi_json_get(m, "content"), &has_text);
    if (ok && b.is_user && has_text) ok = fxi_chat_draft_message(d, role, NULL, &b.text);
    if (ok && of_assistant) d->open = true;
    fxi_buf_free(&b.text);
    return ok;
}

// ---- tools --------------------------------------------------------------------------------------

// {"type": "auto" | "any" | "tool" | "none", "name", "disable_parallel_tool_use"}.
bool fxi_set_messages_choice(fxi_parse *p, const fxi_field *f, const fxi_json *v)
{
    fxi_params *par = p->par;
    const char *type = fxi_json_text(fxi_json_get(v, "type"));
    const fxi_json *name = fxi_json_get(v, "name");
    if (!type) return fxi_bad_value(p, f->name, "'%s' needs a 'type'", f->name);
    par->hide_tools = !strcmp(type, "none");
    par->must_call = !strcmp(type, "any") || !strcmp(type, "tool");
    par->parallel_calls = !fxi_json_is_true(fxi_json_get(v, "disable_parallel_tool_use"));
    if (!strcmp(type, "tool")) {
        if (!fxi_json_is_string(name)) return fxi_bad_type(p, "tool_choice.name", "a string");
        par->only_tool = fxi_json_text(name);
    }
    return par->hide_tools || par->must_call || !strcmp(type, "auto") ||
           fxi_bad_value(p, f->name, "the type of '%s' must be one of: auto any tool none",
                         f->name);
}

bool fxi_messages_convert(fxi_parse *p)
{
    const fxi_json *root = p->par->root, *messages = fxi_json_get(root, "messages"),
                   *tools = fxi_json_get(root, "tools");
    fxi_chat_draft d = {.p = p};
    bool ok = fxi_chat_draft_system(&d, "system", fxi_json_get(root, "system"), " text ");
    for (fxi_json_iter it = fxi_json_items(messages); ok && fxi_json_next(&it);)
        ok = add_turn(&d, it.i, it.value);
    if (ok && d.calls.n) ok = fxi_bad_value(p, "messages", "results must follow the last calls");
    p->par->continue_final = d.open; // the answer is begun
    for (fxi_json_iter it = fxi_json_items(tools); ok && fxi_json_next(&it);)
        ok = fxi_chat_draft_tool(&d, it.i, it.value, "custom", "input_schema");
    ok = ok && fxi_chat_draft_end(&d, "messages");
    fxi_chat_draft_free(&d);
    return ok;
}
