// chat.c - chats: the compiled templates of a model, and a conversation through one of them.
#include "format/chat.h"
#include "base/json/json_shape.h"
#include "base/text/str.h"
#include "base/text/utf8.h"
#include "format/jinja/jinja.h"
#include "format/json_text.h"
#include "format/show.h"
#include "format/vocab.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct fxi_builtin {
    const char *name;
    const char *token; // a vocabulary with this token uses it; NULL: none does
    const char *jinja; // has the variable add_bos besides the usual ones
} fxi_builtin;

typedef struct fxi_chat_template {
    fxi_jinja *jinja;     // NULL: could not be compiled
    fx_error broken;      // why
    bool knows_developer; // it mentions that role
    fxi_buf text;
} fxi_chat_template;

struct fxi_chat {
    const fxi_builtin *builtin;     // NULL: not a built-in one
    fxi_chat_template usual, tools; // tools: for requests with tools, if the model brings one
    bool has_tools;
    json_t *bos, *eos; // strings; "" if the vocabulary has none
    bool adds_bos;
};

// ---- which template -----------------------------------------------------------------------------

// Which template a model is served with, compiled: the model's own, one that the user names, or a
// built-in one for models that bring none.
//
// The built-in ones are Jinja texts like any other. They are what models of each family were
// trained with, for the roles system, user and assistant. Where a family has no turn for the
// system, its text is part of the user's turn that follows.

// ---- built-in templates -------------------------------------------------------------------------

#define BOS "{%- if add_bos %}{{ bos_token }}{% endif %}\n"

// A turn for every role: "name" and "text" are expressions.
#define TURNS(before, text, after, answer)           \
    BOS "{%- for message in messages %}\n"           \
        "{{- " before " + " text " + " after " }}\n" \
        "{%- endfor %}\n"                            \
        "{%- if add_generation_prompt %}{{- " answer " }}{% endif %}"

// The system's text inside the user's turn. `open`: such a turn has begun and waits for the user's
// message.
#define SYSTEM_IN_USER(text, user, end_user, system, end_system, model, end_model, answer) \
    BOS "{%- set ns = namespace(open=false) %}\n"                                          \
        "{%- for message in messages %}\n"                                                 \
        "{%- if message.role == 'assistant' %}\n"                                          \
        "{%- if ns.open %}{{- " end_user " }}{%- set ns.open = false %}{% endif %}\n"      \
        "{{- " model " + " text " + " end_model " }}\n"                                    \
        "{%- else %}\n"                                                                    \
        "{%- if not ns.open %}{{- " user " }}{% endif %}\n"                                \
        "{%- set ns.open = message.role == 'system' %}\n"                                  \
        "{%- if ns.open %}{{- " system " + " text " + " end_system " }}\n"                 \
        "{%- else %}{{- " text " + " end_user " }}{% endif %}\n"                           \
        "{%- endif %}\n"                                                                   \
        "{%- endfor %}\n"                                                                  \
        "{%- if ns.open %}{{- " end_user " }}{% endif %}\n"                                \
        "{%- if add_generation_prompt %}{{- " answer " }}{% endif %}"

#define TEXT    "message.content"
#define TRIMMED "message.content | trim"

// Phi-3's tokenizer drops the newlines that its template writes after control tokens. Of two that
// share a token the more specific one comes first.
static const fxi_builtin builtins[] = {
    {"chatml", "<|im_start|>",
     TURNS("'<|im_start|>' + message.role + '\\n'", TEXT, "'<|im_end|>\\n'",
           "'<|im_start|>assistant\\n'")},
    {"llama3", "<|start_header_id|>",
     TURNS("'<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n'", TRIMMED,
           "'<|eot_id|>'", "'<|start_header_id|>assistant<|end_header_id|>\\n\\n'")},
    {"gemma", "<start_of_turn>",
     SYSTEM_IN_USER(TRIMMED, "'<start_of_turn>user\\n'", "'<end_of_turn>\\n'", "''", "'\\n\\n'",
                    "'<start_of_turn>model\\n'", "'<end_of_turn>\\n'",
                    "'<start_of_turn>model\\n'")},
    {"phi3", "<|end|>",
     TURNS("'<|' + message.role + '|>'", TRIMMED, "'<|end|>'", "'<|assistant|>'")},
    {"zephyr", "<|user|>",
     TURNS("'<|' + message.role + '|>\\n'", TEXT, "eos_token + '\\n'", "'<|assistant|>\\n'")},
    {"llama2", NULL,
     SYSTEM_IN_USER(TRIMMED, "'[INST] '", "' [/INST]'", "'<<SYS>>\\n'", "'\\n<</SYS>>\\n\\n'",
                    "' '", "' ' + eos_token + bos_token", "''")},
    {"mistral", NULL,
     SYSTEM_IN_USER(TEXT, "'[INST] '", "' [/INST]'", "''", "'\\n\\n'", "' '", "eos_token", "''")},
    {"mistral-v3", "[INST]",
     SYSTEM_IN_USER(TEXT, "'[INST] '", "'[/INST]'", "''", "'\\n\\n'", "' '", "eos_token", "''")},
    {"plain", NULL, TURNS("message.role | capitalize + ': '", TEXT, "'\\n'", "'Assistant:'")},
};

enum { N_BUILTIN = sizeof builtins / sizeof *builtins };

const char *fxi_chat_builtin_names(void)
{
    return "chatml llama3 gemma phi3 zephyr llama2 mistral mistral-v3 plain";
}

static const fxi_builtin *find_builtin(const char *name)
{
    for (int i = 0; i < N_BUILTIN; i++)
        if (!strcmp(builtins[i].name, name)) return &builtins[i];
    return NULL;
}

// The first one whose token the vocabulary has as a control token; "plain" if there is none.
static const fxi_builtin *builtin_for(const fxi_vocab *v)
{
    for (int i = 0; i < N_BUILTIN; i++) {
        const char *token = builtins[i].token;
        int32_t id = token ? fxi_vocab_find(v, token, strlen(token)) : -1;
        if (id >= 0 && fxi_vocab_control(v, id)) return &builtins[i];
    }
    return &builtins[N_BUILTIN - 1];
}

// ---- compiling ----------------------------------------------------------------------------------

static fx_status compile_template(fxi_chat_template *t, const char *text, size_t n, fx_error *err)
{
    t->knows_developer = memmem(text, n, "developer", 9) != NULL;
    if (!fxi_buf_add(&t->text, text, n))
        return fxi_fail(err, FX_ENOMEM, "no memory for the chat template");
    return fxi_jinja_compile(text, n, &t->jinja, err);
}

// The same for a template that came with the model: a broken one is no error yet.
static fx_status compile_own(fxi_chat_template *t, fxi_str text, fx_error *err)
{
    fx_status st = compile_template(t, text.p, text.n, &t->broken);
    if (st == FX_ENOMEM && err) *err = t->broken;
    return st == FX_ENOMEM ? st : FX_OK;
}

static fx_status use_builtin(fxi_chat *c, const fxi_builtin *b, fx_error *err)
{
    c->builtin = b;
    return compile_template(&c->usual, b->jinja, strlen(b->jinja), err);
}

// ---- sources ------------------------------------------------------------------------------------

static fx_status read_template(FILE *f, const char *path, fxi_buf *text, fx_error *err)
{
    size_t n;
    do {
        if (!fxi_buf_reserve(text, 4096)) return fxi_fail(err, FX_ENOMEM, "no memory for %s", path);
        n = fread(text->p + text->n, 1, 4096, f);
        text->n += n;
        if (text->n > FXI_JINJA_MAX_BYTES)
            return fxi_fail(err, FX_EINVAL, "%s: a chat template has at most %d bytes", path,
                            FXI_JINJA_MAX_BYTES);
    } while (n);
    return ferror(f) ? fxi_fail(err, FX_EIO, "%s: %s", path, strerror(errno)) : FX_OK;
}

static fx_status use_file(fxi_chat *c, const char *path, fx_error *err)
{
    fxi_buf text = {0};
    FILE *f = fopen(path, "rb");
    if (!f)
        return fxi_fail(err, fxi_errno_status(errno),
                        "no chat template '%s': not a file (%s), nor one of %s", path,
                        strerror(errno), fxi_chat_builtin_names());
    fx_status st = read_template(f, path, &text, err);
    fclose(f);
    if (st == FX_OK) {
        st = compile_template(&c->usual, text.p, text.n, err);
        if (st == FX_EFORMAT) fxi_fail_in(err, "%s", path);
    }
    fxi_buf_free(&text);
    return st;
}

// tokenizer.chat_template, or tokenizer.chat_template.NAME; n 0 if the file has none.
static fxi_str models_template(const fxi_gguf *g, const char *name)
{
    char key[128];
    fxi_str text = {0};
    const char *const head = "tokenizer.chat_template";
    int n = snprintf(key, sizeof key, name ? "%s.%s" : "%s", head, name ? name : "");
    if (!g || n < 0 || (size_t)n >= sizeof key) return text;
    if (fxi_gguf_str(g, key, false, &text, NULL) != FX_OK) text.n = 0;
    return text;
}

static fx_status use_wanted(fxi_chat *c, const fxi_chat_source *s, fx_error *err)
{
    const fxi_builtin *b = find_builtin(s->wanted);
    if (b) return use_builtin(c, b, err);
    fxi_str named = models_template(s->gguf, s->wanted);
    if (named.n) return compile_template(&c->usual, named.p, named.n, err);
    return use_file(c, s->wanted, err);
}

// Models may bring a second one for requests with tools.
static fx_status use_models(fxi_chat *c, const fxi_chat_source *s, const fxi_vocab *v,
                            fx_error *err)
{
    if (s->tokenizer.n) return compile_own(&c->usual, s->tokenizer, err);
    fxi_str usual = models_template(s->gguf, NULL), tools = models_template(s->gguf, "tool_use");
    if (!usual.n) usual = models_template(s->gguf, "default");
    if (!usual.n) return use_builtin(c, builtin_for(v), err);
    c->has_tools = tools.n > 0;
    if (c->has_tools) FX_TRY(compile_own(&c->tools, tools, err));
    return compile_own(&c->usual, usual, err);
}

// ---- opening ------------------------------------------------------------------------------------

static json_t *piece_json(const fxi_vocab *v, int32_t id)
{
    size_t n = 0;
    const char *p = id < 0 ? "" : fxi_vocab_piece(v, id, &n);
    return json_stringn(fxi_utf8_check(p, n) == n ? p : "", fxi_utf8_check(p, n) == n ? n : 0);
}

fx_status fxi_chat_open(const fxi_chat_source *s, const fxi_vocab *v, fxi_chat **out, fx_error *err)
{
    fxi_chat *c = calloc(1, sizeof *c);
    *out = NULL;
    if (!c) return fxi_fail(err, FX_ENOMEM, "no memory for the chat template");
    c->bos = piece_json(v, fxi_vocab_bos(v));
    c->eos = piece_json(v, fxi_vocab_eos(v));
    c->adds_bos = fxi_vocab_adds_bos(v);
    fx_status st = c->bos && c->eos ? s->wanted ? use_wanted(c, s, err) : use_models(c, s, v, err)
                                    : fxi_fail(err, FX_ENOMEM, "no memory for the chat template");
    if (st == FX_OK)
        *out = c;
    else
        fxi_chat_free(c);
    return st;
}

void fxi_chat_free(fxi_chat *c)
{
    if (!c) return;
    fxi_jinja_free(c->usual.jinja);
    fxi_jinja_free(c->tools.jinja);
    fxi_buf_free(&c->usual.text);
    fxi_buf_free(&c->tools.text);
    json_decref(c->bos);
    json_decref(c->eos);
    free(c);
}

const char *fxi_chat_broken(const fxi_chat *c)
{
    return c->usual.jinja ? NULL : c->usual.broken.text;
}

fxi_str fxi_chat_jinja(const fxi_chat *c, bool with_tools)
{
    const fxi_buf *text = with_tools && c->has_tools ? &c->tools.text : &c->usual.text;
    return (fxi_str){text->p, text->n};
}

const char *fxi_chat_builtin(const fxi_chat *c)
{
    return c->builtin ? c->builtin->name : NULL;
}

// ---- a conversation through its template --------------------------------------------------------

// A conversation through its template: to marked text, and to ids.
//
// Messages are first made what chat templates expect, whatever client they came from:
//
//     a list of text parts                      joined by newlines, where the template has no loop
//                                               over a list of parts
//     role "developer"                          "system", where the template does not mention it
//     content null or missing, with tool_calls  ""
//     arguments of a tool call, JSON text       the object that it spells
//
// Other members pass unchanged. The caller's values are not changed: what differs is a copy that
// shares the rest.
//
// A last message that the model continues is cut where its text ends. Templates write a message's
// text as it is, or trimmed, between marks of their own: the end is that of the last run of the
// caller's bytes that ends with it, apart from blanks.

typedef struct chat_fit {
    const fxi_chat *c;
    const fxi_chat_template *t;
    size_t n_value; // in JSON texts of arguments
    fx_error *err;
} chat_fit;

static fx_status fail_no_memory(chat_fit *f)
{
    return fxi_fail(f->err, FX_ENOMEM, "no memory to render the conversation");
}

// A shallow copy. If memory is short, jansson may return one with fewer members.
static fx_status copy_shallow(chat_fit *f, const json_t *from, json_t **out)
{
    *out = json_copy((json_t *)from);
    bool whole = json_is_array(from) ? json_array_size(*out) == json_array_size(from)
                                     : json_object_size(*out) == json_object_size(from);
    if (*out && whole) return FX_OK;
    json_decref(*out);
    *out = NULL;
    return fail_no_memory(f);
}

static fx_status set_member(chat_fit *f, json_t *object, const char *name, json_t *value)
{
    return json_object_set_new(object, name, value) ? fail_no_memory(f) : FX_OK;
}

// ---- role ---------------------------------------------------------------------------------------

static fx_status fit_role(chat_fit *f, json_t *message, size_t i)
{
    const char *role = json_string_value(json_object_get(message, "role"));
    if (!role) return fxi_fail(f->err, FX_EINVAL, "messages[%zu]: has no role", i);
    if (!strcmp(role, "developer") && !f->t->knows_developer) {
        role = "system";
        FX_TRY(set_member(f, message, "role", json_string(role)));
    }
    if (!f->c->builtin || !strcmp(role, "system") || !strcmp(role, "user") ||
        !strcmp(role, "assistant"))
        return FX_OK;
    return fxi_fail(f->err, FX_EINVAL, "messages[%zu]: unknown role '%s'", i,
                    fxi_show_text(role, strlen(role)).s);
}

// ---- content ------------------------------------------------------------------------------------

static fx_status join_parts(chat_fit *f, const json_t *parts, size_t i, json_t **out)
{
    fxi_buf text = {0};
    bool ok = true;
    for (size_t k = 0; ok && k < json_array_size(parts); k++) {
        const json_t *part = json_object_get(json_array_get(parts, k), "text");
        if (!json_is_string(part)) {
            fxi_buf_free(&text);
            return fxi_fail(f->err, FX_EINVAL,
                            "messages[%zu].content[%zu]: is not text, and the "
                            "chat template takes nothing else",
                            i, k);
        }
        ok = (!k || fxi_buf_str(&text, "\n")) &&
             fxi_buf_add(&text, json_string_value(part), json_string_length(part));
    }
    *out = ok ? json_stringn(text.p ? text.p : "", text.n) : NULL;
    fxi_buf_free(&text);
    return *out ? FX_OK : fail_no_memory(f);
}

static fx_status fit_content(chat_fit *f, json_t *message, size_t i)
{
    const json_t *content = json_object_get(message, "content");
    json_t *joined;
    if (json_array_size(json_object_get(message, "tool_calls")) &&
        (!content || json_is_null(content)))
        return set_member(f, message, "content", json_string(""));
    if (json_is_array(content) && !fxi_jinja_reads_parts(f->t->jinja)) {
        FX_TRY(join_parts(f, content, i, &joined));
        return set_member(f, message, "content", joined);
    }
    if (f->c->builtin && !json_is_string(content))
        return fxi_fail(f->err, FX_EINVAL, "messages[%zu]: has no text", i);
    return FX_OK;
}

// ---- tool calls ---------------------------------------------------------------------------------

// The object that a text spells; NULL if it is another value, not JSON, or too large to parse.
static fx_status spelled_object(chat_fit *f, const json_t *text, json_t **out)
{
    const char *p = json_string_value(text);
    const size_t n = json_string_length(text);
    const fxi_json_shape shape = fxi_json_measure(p, n);
    bool no_memory;
    json_error_t e;
    *out = NULL;
    f->n_value += shape.n_value + 1;
    if (shape.max_depth > FXI_JSON_MAX_DEPTH || f->n_value > FXI_JSON_MAX_VALUE) return FX_OK;
    json_t *value = fxi_json_text(p, n, 0, &no_memory, &e);
    if (no_memory) return fail_no_memory(f);
    if (json_is_object(value))
        *out = value;
    else
        json_decref(value);
    return FX_OK;
}

// Gives call i of `calls`, an array of ours, these arguments and takes ownership of them.
static fx_status replace_arguments(chat_fit *f, json_t *calls, size_t i, json_t *arguments)
{
    const json_t *from = json_array_get(calls, i);
    json_t *call = NULL, *function = NULL;
    fx_status st = copy_shallow(f, from, &call);
    if (st == FX_OK) st = copy_shallow(f, json_object_get(from, "function"), &function);
    if (st == FX_OK)
        st = set_member(f, function, "arguments", arguments);
    else
        json_decref(arguments);
    if (st == FX_OK) st = set_member(f, call, "function", json_incref(function));
    if (st == FX_OK && json_array_set(calls, i, call)) st = fail_no_memory(f);
    json_decref(function);
    json_decref(call);
    return st;
}

// Replaces the message's list of calls by a copy of ours.
static fx_status copy_calls(chat_fit *f, json_t *message, json_t **calls)
{
    json_t *copy;
    FX_TRY(copy_shallow(f, *calls, &copy));
    FX_TRY(set_member(f, message, "tool_calls", copy));
    *calls = copy;
    return FX_OK;
}

static fx_status fit_calls(chat_fit *f, json_t *message)
{
    json_t *calls = json_object_get(message, "tool_calls"), *spelled;
    bool copied = false;
    for (size_t i = 0; i < json_array_size(calls); i++) {
        const json_t *function = json_object_get(json_array_get(calls, i), "function");
        const json_t *arguments = json_object_get(function, "arguments");
        if (!json_is_string(arguments)) continue;
        FX_TRY(spelled_object(f, arguments, &spelled));
        if (!spelled) continue;
        fx_status st = copied ? FX_OK : copy_calls(f, message, &calls);
        copied = true;
        if (st != FX_OK) json_decref(spelled);
        FX_TRY(st);
        FX_TRY(replace_arguments(f, calls, i, spelled));
    }
    return FX_OK;
}

// ---- messages -----------------------------------------------------------------------------------

// Appends the message to `list`, which owns it, and fits it there.
static fx_status add_fitted(chat_fit *f, json_t *message, size_t i, json_t *list)
{
    if (json_array_append_new(list, message)) return fail_no_memory(f);
    FX_TRY(fit_role(f, message, i));
    FX_TRY(fit_calls(f, message));
    return fit_content(f, message, i);
}

static fx_status add_json(chat_fit *f, const json_t *from, size_t i, json_t *list)
{
    json_t *copy;
    if (!json_is_object(from))
        return fxi_fail(f->err, FX_EINVAL, "messages[%zu]: is not an object", i);
    FX_TRY(copy_shallow(f, from, &copy));
    return add_fitted(f, copy, i, list);
}

static fx_status add_plain(chat_fit *f, const fxi_chat_msg *m, size_t i, json_t *list)
{
    const char *role = m->role ? m->role : "", *text = m->text.p ? m->text.p : "";
    size_t bad = fxi_utf8_check(text, m->text.n);
    if (bad < m->text.n)
        return fxi_fail(f->err, FX_EINVAL, "messages[%zu]: bad UTF-8 at byte %zu", i, bad);
    if (memchr(text, 0, m->text.n))
        return fxi_fail(f->err, FX_EINVAL, "messages[%zu]: contains a NUL character", i);
    if (fxi_utf8_check(role, strlen(role)) < strlen(role))
        return fxi_fail(f->err, FX_EINVAL, "messages[%zu]: bad UTF-8 in the role", i);
    json_t *one = json_pack("{s:s, s:s%}", "role", role, "content", text, m->text.n);
    return one ? add_fitted(f, one, i, list) : fail_no_memory(f);
}

// The messages as a list that the caller frees with json_decref. Errors: FX_EINVAL (no messages, or
// one that the template cannot take: which one and why), FX_ENOMEM.
static fx_status fit_messages(const fxi_chat *c, const fxi_chat_template *t,
                              const fxi_conversation *q, json_t **out, fx_error *err)
{
    chat_fit f = {.c = c, .t = t, .err = err};
    const size_t n = q->messages ? json_array_size(q->messages) : q->n_plain;
    fx_status st = FX_OK;
    *out = NULL;
    if (!n) return fxi_fail(err, FX_EINVAL, "messages: at least one is needed");
    json_t *list = json_array();
    if (!list) return fail_no_memory(&f);
    for (size_t i = 0; st == FX_OK && i < n; i++)
        st = q->messages ? add_json(&f, json_array_get(q->messages, i), i, list)
                         : add_plain(&f, &q->plain[i], i, list);
    if (st == FX_OK)
        *out = list;
    else
        json_decref(list);
    return st;
}

static bool is_white(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static fxi_str trim_blanks(fxi_str s)
{
    while (s.n && is_white(s.p[s.n - 1])) s.n--;
    while (s.n && is_white(*s.p)) s.p++, s.n--;
    return s;
}

// What the last message says; the last part of several.
static fxi_str final_text(const json_t *messages)
{
    const json_t *last = json_array_get(messages, json_array_size(messages) - 1);
    const json_t *said = json_object_get(last, "content");
    if (json_is_array(said))
        said = json_object_get(json_array_get(said, json_array_size(said) - 1), "text");
    if (!json_is_string(said)) return (fxi_str){"", 0};
    return trim_blanks((fxi_str){json_string_value(said), json_string_length(said)});
}

// Whether text[begin..end), without blanks at its end, ends with `said`.
static bool ends_with(const char *text, size_t begin, size_t end, fxi_str said)
{
    while (end > begin && is_white(text[end - 1])) end--;
    return end - begin >= said.n && !memcmp(text + end - said.n, said.p, said.n);
}

// The end of the run of the caller's bytes that has it; `from` if there is none.
static size_t find_end(const fxi_marked *m, size_t from, fxi_str said)
{
    for (size_t end = m->text.n; end > from;) {
        while (end > from && m->own.p[end - 1]) end--;
        size_t begin = end;
        while (begin > from && !m->own.p[begin - 1]) begin--;
        if (end > begin && ends_with(m->text.p, begin, end, said)) return end;
        end = begin;
    }
    return from;
}

// Cuts *m, to which these messages were appended at `from`, after the text of the last one.
// FX_EINVAL: that has none, or it is not there.
static fx_status cut_after_final(const json_t *messages, size_t from, fxi_marked *m, fx_error *err)
{
    const fxi_str said = final_text(messages);
    if (!said.n)
        return fxi_fail(err, FX_EINVAL, "messages: the last message has no text to continue");
    const size_t end = find_end(m, from, said);
    if (end == from)
        return fxi_fail(err, FX_EINVAL,
                        "messages: the chat template changes the last message, so it cannot be "
                        "continued");
    m->text.n = m->own.n = end;
    return FX_OK;
}

// ---- variables ----------------------------------------------------------------------------------

enum { N_USUAL = 8, MAX_KWARGS = 64 };

// A caller's variable replaces a usual one, as in transformers' apply_chat_template.
static fx_status add_kwargs(const json_t *kwargs, fxi_jinja_var *var, size_t *n, fx_error *err)
{
    const char *name;
    json_t *value;
    if (json_object_size(kwargs) > MAX_KWARGS)
        return fxi_fail(err, FX_EINVAL, "chat_template_kwargs: more than %d", MAX_KWARGS);
    json_object_foreach((json_t *)kwargs, name, value)
    {
        if (!strcmp(name, "messages") || !strcmp(name, "tools"))
            return fxi_fail(err, FX_EINVAL, "chat_template_kwargs: '%s' has its own field", name);
        var[(*n)++] = (fxi_jinja_var){name, value, FXI_JINJA_CALLER};
    }
    return FX_OK;
}

static fx_status render_fitted(const fxi_chat *c, const fxi_chat_template *t,
                               const fxi_conversation *q, const json_t *messages, fxi_marked *out,
                               fx_error *err)
{
    const json_t *tools = json_array_size(q->tools) ? q->tools : json_null();
    fxi_jinja_var var[N_USUAL + MAX_KWARGS] = {
        {"messages", messages, FXI_JINJA_MESSAGES},
        {"tools", tools, FXI_JINJA_CALLER},
        {"documents", json_null(), FXI_JINJA_CALLER},
        {"add_generation_prompt", json_boolean(q->add_generation_prompt), FXI_JINJA_CALLER},
        {"bos_token", c->bos, FXI_JINJA_TEMPLATE},
        {"eos_token", c->eos, FXI_JINJA_TEMPLATE},
    };
    fxi_jinja_context context = {.var = var, .n_var = 6, .now = q->now};
    if (c->builtin)
        var[context.n_var++] =
            (fxi_jinja_var){"add_bos", json_boolean(c->adds_bos), FXI_JINJA_CALLER};
    FX_TRY(add_kwargs(q->kwargs, var, &context.n_var, err));
    return fxi_jinja_render(t->jinja, &context, out, err);
}

fx_status fxi_chat_render(const fxi_chat *c, const fxi_conversation *q, fxi_marked *out,
                          fx_error *err)
{
    const bool with_tools = c->has_tools && json_array_size(q->tools);
    const fxi_chat_template *t = with_tools ? &c->tools : &c->usual;
    const size_t from = out->text.n;
    json_t *messages;
    if (q->messages && !json_is_array(q->messages))
        return fxi_fail(err, FX_EINVAL, "messages: not an array");
    if (q->tools && !json_is_array(q->tools))
        return fxi_fail(err, FX_EINVAL, "tools: not an array");
    if (q->kwargs && !json_is_object(q->kwargs))
        return fxi_fail(err, FX_EINVAL, "chat_template_kwargs: not an object");
    if (!t->jinja) {
        if (err) *err = t->broken;
        return t->broken.status;
    }
    FX_TRY(fit_messages(c, t, q, &messages, err));
    fx_status st = render_fitted(c, t, q, messages, out, err);
    if (st == FX_OK && q->continue_final) st = cut_after_final(messages, from, out, err);
    if (st != FX_OK) out->text.n = out->own.n = from;
    json_decref(messages);
    return st;
}

// ---- ids ----------------------------------------------------------------------------------------

fx_status fxi_chat_encode(const fxi_chat *c, const fxi_vocab *v, const fxi_conversation *q,
                          fxi_ids *out, fx_error *err)
{
    fxi_marked m = {0};
    fx_status st = fxi_chat_render(c, q, &m, err);
    if (st == FX_OK && m.text.n)
        st = fxi_vocab_encode_marked(v, m.text.p, m.own.p, m.text.n, FXI_ENCODE_SPACE, out, err);
    fxi_marked_free(&m);
    return st;
}
