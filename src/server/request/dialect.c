// dialect.c - see dialect.h: a chat while it is written.
#include <stdio.h>
#include <string.h>

#include "base/text/utf8.h" // defines: FXI_UTF8_HEAD
#include "server/request/dialect.h"

// ok: what was written.
static bool draft_written(fxi_chat_draft *d, bool ok)
{
    return ok || fxi_no_memory(d->p);
}

// ---- text ---------------------------------------------------------------------------------------

static bool add_line(fxi_chat_draft *d, fxi_buf *out, const char *text, size_t n)
{
    return draft_written(d, (!out->n || fxi_buf_str(out, "\n")) && fxi_buf_add(out, text, n));
}

static bool add_text_of_part(fxi_chat_draft *d, const fxi_place *at, const fxi_json *v,
                             const char *types, fxi_buf *out)
{
    char word[40];
    const char *type = fxi_json_text(fxi_json_get(v, "type"));
    const fxi_json *text = fxi_json_get(v, "text");
    if (!type) return fxi_bad_type(d->p, at->text, "a string or parts that have a 'type'");
    snprintf(word, sizeof word, " %.36s ", type);
    if (strchr(type, ' ') || !strstr(types, word))
        return fxi_part_not_supported(d->p, at->text, type);
    if (!strcmp(type, "refusal")) text = fxi_json_get(v, "refusal");
    if (!fxi_json_is_string(text)) return fxi_bad_type(d->p, at->text, "parts with a text");
    return add_line(d, out, fxi_json_text(text), fxi_json_string(text).n);
}

bool fxi_chat_draft_text(fxi_chat_draft *d, const fxi_place *at, const fxi_json *v,
                         const char *types, fxi_buf *out)
{
    if (fxi_json_is_string(v)) return add_line(d, out, fxi_json_text(v), fxi_json_string(v).n);
    if (!fxi_json_is_array(v)) return fxi_bad_type(d->p, at->text, "a string or an array of parts");
    for (size_t i = 0; i < fxi_json_array_size(v); i++)
        if (!add_text_of_part(d, at, fxi_json_at(v, i), types, out)) return false;
    return true;
}

// ---- messages -----------------------------------------------------------------------------------

static const char *comma_before(const fxi_buf *list)
{
    return list->n ? "," : "";
}

bool fxi_chat_draft_message(fxi_chat_draft *d, const char *role, const char *id,
                            const fxi_buf *text)
{
    fxi_buf *b = &d->messages;
    return fxi_chat_draft_close(d) &&
           draft_written(d, fxi_json_fmt(b, "%s{'role':%q,'content':%t", comma_before(b), role,
                                         (fxi_str){text->p, text->n}) &&
                                fxi_json_fmt(b, id ? ",'tool_call_id':%q}" : "}", id));
}

bool fxi_chat_draft_add(fxi_chat_draft *d, const char *role, const char *id, const fxi_place *at,
                        const fxi_json *v, const char *types)
{
    fxi_buf text = {0};
    const bool ok =
        fxi_chat_draft_text(d, at, v, types, &text) && fxi_chat_draft_message(d, role, id, &text);
    fxi_buf_free(&text);
    return ok;
}

bool fxi_chat_draft_system(fxi_chat_draft *d, const char *name, const fxi_json *v,
                           const char *types)
{
    fxi_buf text = {0};
    const fxi_place at = fxi_place_at("%s", name);
    const bool ok = !v || fxi_json_is_null(v) ||
                    (fxi_chat_draft_text(d, &at, v, types, &text) &&
                     (!text.n || fxi_chat_draft_message(d, "system", NULL, &text)));
    fxi_buf_free(&text);
    return ok;
}

bool fxi_chat_draft_say(fxi_chat_draft *d, fxi_buf *to, const fxi_place *at, const fxi_json *v,
                        const char *types)
{
    fxi_buf text = {0};
    const bool ok =
        fxi_chat_draft_text(d, at, v, types, &text) && (!text.n || add_line(d, to, text.p, text.n));
    fxi_buf_free(&text);
    d->open = true;
    return ok;
}

bool fxi_chat_draft_call(fxi_chat_draft *d, const fxi_json *id, const fxi_json *name,
                         const fxi_json *args)
{
    d->open = true;
    return draft_written(
        d, fxi_json_fmt(&d->calls,
                        "%s{'id':%v,'type':'function','function':{'name':%v,'arguments':%v}}",
                        comma_before(&d->calls), id, name, args));
}

static bool add_assistant(fxi_chat_draft *d)
{
    fxi_buf *b = &d->messages;
    const bool has_content = d->text.n || !d->calls.n;
    return fxi_json_fmt(b, "%s{'role':'assistant','content':", comma_before(b)) &&
           fxi_json_fmt(b, has_content ? "%t" : "null", (fxi_str){d->text.p, d->text.n}) &&
           (!d->reasoning.n || fxi_json_fmt(b, ",'reasoning_content':%t",
                                            (fxi_str){d->reasoning.p, d->reasoning.n})) &&
           (!d->calls.n || fxi_json_fmt(b, ",'tool_calls':[%b]", &d->calls)) && fxi_buf_str(b, "}");
}

bool fxi_chat_draft_close(fxi_chat_draft *d)
{
    const bool ok = !d->open || add_assistant(d);
    d->open = false;
    fxi_buf_clear(&d->text);
    fxi_buf_clear(&d->reasoning);
    fxi_buf_clear(&d->calls);
    return draft_written(d, ok);
}

// ---- tools and the whole ------------------------------------------------------------------------

bool fxi_chat_draft_tool(fxi_chat_draft *d, size_t i, const fxi_json *tool, const char *type,
                         const char *schema)
{
    fxi_buf *b = &d->tools;
    const bool is_function = !strcmp(type, "function");
    const fxi_json *kind = fxi_json_get(tool, "type"), *name = fxi_json_get(tool, "name"),
                   *about = fxi_json_get(tool, "description"),
                   *parameters = fxi_json_get(tool, schema);
    const char *word = fxi_json_is_string(kind) ? fxi_json_text(kind) : "?";
    const bool has_kind = is_function || (kind && !fxi_json_is_null(kind));
    if (is_function && !fxi_json_is_string(kind))
        return fxi_bad_type(d->p, fxi_place_at("tools[%zu].type", i).text, "a string");
    if (has_kind && strcmp(word, type) != 0)
        return fxi_bad_value(d->p, fxi_place_at("tools[%zu].type", i).text,
                             "tools of type '%.*s' are not supported", FXI_UTF8_HEAD(word, 40));
    if (!fxi_json_is_string(name))
        return fxi_bad_type(d->p, fxi_place_at("tools[%zu].name", i).text, "a string");
    if (!is_function && !fxi_json_is_object(parameters))
        return fxi_bad_type(d->p, fxi_place_at("tools[%zu].%s", i, schema).text, "an object");
    const bool is_strict = fxi_json_is_true(fxi_json_get(tool, "strict"));
    return draft_written(
        d,
        fxi_json_fmt(b, "%s{'type':'function','function':{'name':%v", comma_before(b), name) &&
            (!fxi_json_is_string(about) || fxi_json_fmt(b, ",'description':%v", about)) &&
            (!fxi_json_is_object(parameters) || fxi_json_fmt(b, ",'parameters':%v", parameters)) &&
            fxi_json_fmt(b, is_strict ? ",'strict':true}}" : "}}"));
}

// ---- the whole ----------------------------------------------------------------------------------

bool fxi_chat_draft_end(fxi_chat_draft *d, const char *input)
{
    fxi_params *par = d->p->par;
    fxi_buf all = {0};
    if (!fxi_chat_draft_close(d)) return false;
    if (!d->messages.n) return fxi_bad_value(d->p, input, "'%s' is empty", input);
    const bool ok = draft_written(d, fxi_json_fmt(&all, "{'messages':[%b],'tools':[%b]}",
                                                  &d->messages, &d->tools)) &&
                    fxi_charge_list(d->p, 2 * all.cap) &&
                    fxi_json_body(&par->made, par->charge, all.p, all.n, d->p->err);
    fxi_buf_free(&all);
    if (!ok) return false;
    par->messages = fxi_json_get(par->made.root, "messages");
    par->tools = fxi_json_get(par->made.root, "tools");
    if (!fxi_json_array_size(par->tools)) par->tools = NULL;
    par->input = input;
    par->n_prompt = 1;
    return true;
}

void fxi_chat_draft_free(fxi_chat_draft *d)
{
    fxi_buf_free(&d->messages);
    fxi_buf_free(&d->tools);
    fxi_buf_free(&d->text);
    fxi_buf_free(&d->reasoning);
    fxi_buf_free(&d->calls);
}

// ---- fields that stand for variables of the chat template ---------------------------------------

// How much the model should reason. Each family reads a name of its own; templates ignore what
// they do not know.

// Where a budget stands within an object; absent is no budget.
static bool set_thinking_budget(fxi_parse *p, const char *param, const fxi_json *v)
{
    if (!v || fxi_json_is_null(v)) return true;
    if (!fxi_json_is_int(v)) return fxi_bad_type(p, param, "an integer");
    p->par->thinking_tok = fxi_json_int(v);
    return (fxi_json_int(v) >= 0 && fxi_json_int(v) <= INT32_MAX) ||
           fxi_bad_value(p, param, "'%s' must be at least 0 and at most %d", param, INT32_MAX);
}

// {"effort": "low" .., "max_tokens": 1024}; "none": the model should not reason.
bool fxi_set_reasoning(fxi_parse *p, const fxi_field *f, const fxi_json *v)
{
    static const char *const words[] = {"none", "minimal", "low", "medium", "high", "xhigh"};
    static const char param[] = "reasoning.effort";
    const fxi_json *effort = fxi_json_get(v, "effort");
    (void)f;
    if (!set_thinking_budget(p, "reasoning.max_tokens", fxi_json_get(v, "max_tokens")))
        return false;
    if (!effort || fxi_json_is_null(effort)) return true;
    if (!fxi_json_is_string(effort)) return fxi_bad_type(p, param, "a string");
    p->par->effort = fxi_json_text(effort);
    return fxi_str_is_any(fxi_json_string(effort), words, sizeof words / sizeof words[0]) ||
           fxi_bad_value(p, param, "'%s' must be one of: none minimal low medium high xhigh",
                         param);
}

// {"type": "enabled" | "adaptive" | "disabled", "budget_tokens": 1024}.
bool fxi_set_thinking(fxi_parse *p, const fxi_field *f, const fxi_json *v)
{
    static const char *const words[] = {"disabled", "enabled", "adaptive"};
    const fxi_str type = fxi_json_string(fxi_json_get(v, "type"));
    p->par->thinking = fxi_str_is(type, "disabled") ? -1 : 1;
    if (!fxi_str_is_any(type, words, sizeof words / sizeof words[0]))
        return fxi_bad_value(p, f->name,
                             "the type of '%s' must be one of: enabled adaptive disabled", f->name);
    return set_thinking_budget(p, "thinking.budget_tokens", fxi_json_get(v, "budget_tokens"));
}

bool fxi_variables_convert(fxi_parse *p)
{
    fxi_params *par = p->par;
    fxi_buf b = {0};
    if (par->effort && !strcmp(par->effort, "none") && !par->thinking) par->thinking = -1;
    if (!par->effort && !par->thinking) return true;
    const char *thinks = par->thinking > 0 ? "true" : "false";
    bool ok = fxi_buf_str(&b, "{");
    if (par->effort) ok = ok && fxi_json_fmt(&b, "'reasoning_effort':%q,", par->effort);
    if (par->thinking)
        ok = ok && fxi_json_fmt(&b, "'enable_thinking':%s,'thinking':%s,", thinks, thinks);
    // The client's own come last: of equal names they count.
    for (fxi_json_iter it = fxi_json_members(par->kwargs); ok && fxi_json_next(&it);)
        ok = fxi_json_fmt(&b, "%t:%v,", (fxi_str){it.key, it.key_bytes}, it.value);
    if (ok) b.p[b.n - 1] = '}';
    ok =
        (ok || fxi_no_memory(p)) && fxi_json_body(&par->made_kwargs, par->charge, b.p, b.n, p->err);
    if (ok) par->kwargs = par->made_kwargs.root;
    fxi_buf_free(&b);
    return ok;
}
