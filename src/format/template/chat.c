// chat.c - chats: the compiled templates of a model, and a conversation through one of them.
#include "format/chat.h"
#include "base/json/json.h"
#include "base/text/str.h"
#include "base/text/utf8.h"
#include "format/jinja/jinja.h"
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
    fxi_json_doc ends; // {"bos_token": .., "eos_token": ..}; "" if the vocabulary has none
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
    if (!fxi_buf_add(&t->text, text, n)) return fxi_fail_memory(err);
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

static fx_status use_file(fxi_chat *c, const char *path, fx_error *err)
{
    fxi_buf text = {0};
    FILE *f = fopen(path, "rb");
    if (!f)
        return fxi_fail(err, fxi_errno_status(errno),
                        "no chat template '%s': not a file (%s), nor one of %s", path,
                        strerror(errno), fxi_chat_builtin_names());
    fx_status st = FX_OK;
    size_t n = 1;
    while (st == FX_OK && n) {
        if (!fxi_buf_reserve(&text, 4096)) {
            st = fxi_fail_memory(err);
            break;
        }
        n = fread(text.p + text.n, 1, 4096, f);
        text.n += n;
        if (text.n > FXI_JINJA_MAX_BYTES)
            st = fxi_fail(err, FX_EINVAL, "%s: a chat template has at most %d bytes", path,
                          FXI_JINJA_MAX_BYTES);
    }
    if (st == FX_OK && ferror(f)) st = fxi_fail(err, FX_EIO, "%s: %s", path, strerror(errno));
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
    for (int i = 0; i < N_BUILTIN; i++)
        if (!strcmp(builtins[i].name, s->wanted)) return use_builtin(c, &builtins[i], err);
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

static fxi_str piece_text(const fxi_vocab *v, int32_t id)
{
    size_t n = 0;
    const char *p = id < 0 ? "" : fxi_vocab_piece(v, id, &n);
    return fxi_utf8_check(p, n) == n ? (fxi_str){p, n} : fxi_str_of("");
}

static fx_status read_ends(fxi_chat *c, const fxi_vocab *v, fx_error *err)
{
    static const fxi_json_rules rules = {.nul_texts = true};
    const fxi_str bos = piece_text(v, fxi_vocab_bos(v)), eos = piece_text(v, fxi_vocab_eos(v));
    fxi_buf b = {0};
    const bool ok = fxi_buf_str(&b, "{\"bos_token\":") && fxi_json_str(&b, bos.p, bos.n) &&
                    fxi_buf_str(&b, ",\"eos_token\":") && fxi_json_str(&b, eos.p, eos.n) &&
                    fxi_buf_str(&b, "}") &&
                    fxi_json_parse(&c->ends, (fxi_str){b.p, b.n}, &rules, NULL) == FX_OK;
    fxi_buf_free(&b);
    return ok ? FX_OK : fxi_fail_memory(err);
}

fx_status fxi_chat_open(const fxi_chat_source *s, const fxi_vocab *v, fxi_chat **out, fx_error *err)
{
    fxi_chat *c = calloc(1, sizeof *c);
    *out = NULL;
    if (!c) return fxi_fail_memory(err);
    c->adds_bos = fxi_vocab_adds_bos(v);
    fx_status st = read_ends(c, v, err);
    if (st == FX_OK) st = s->wanted ? use_wanted(c, s, err) : use_models(c, s, v, err);
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
    fxi_json_doc_free(&c->ends);
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
// Other members pass unchanged. The messages are written anew, fitted, and parsed.
//
// A last message that the model continues is cut where its text ends. Templates write a message's
// text as it is, or trimmed, between marks of their own: the end is that of the last run of the
// caller's bytes that ends with it, apart from blanks.

typedef struct chat_fit {
    const fxi_chat *c;
    const fxi_chat_template *t;
    fxi_buf text;      // the fitted messages
    bool short_memory; // the text is not whole
    size_t n_value;    // of arguments that were parsed
    fx_error *err;
} chat_fit;

static void put_text(chat_fit *f, const char *text)
{
    f->short_memory |= !fxi_buf_str(&f->text, text);
}

static void put_value(chat_fit *f, const fxi_json *v)
{
    f->short_memory |= !fxi_json_value(&f->text, v);
}

static void put_key(chat_fit *f, const fxi_json_iter *it)
{
    if (it->i) put_text(f, ",");
    f->short_memory |= !fxi_json_str(&f->text, it->key, it->key_bytes);
    put_text(f, ":");
}

// ---- role and content ---------------------------------------------------------------------------

static fx_status put_role(chat_fit *f, const char *role, size_t i)
{
    static const char *const usual[] = {"system", "user", "assistant"};
    if (!strcmp(role, "developer") && !f->t->knows_developer) role = "system";
    f->short_memory |= !fxi_json_cstr(&f->text, role);
    if (!f->c->builtin || fxi_str_is_any(fxi_str_of(role), usual, sizeof usual / sizeof *usual))
        return FX_OK;
    return fxi_fail(f->err, FX_EINVAL, "messages[%zu]: unknown role '%s'", i,
                    fxi_show_text(fxi_str_of(role)).s);
}

static fx_status put_parts(chat_fit *f, const fxi_json *parts, size_t i)
{
    fxi_buf text = {0};
    bool ok = true;
    for (fxi_json_iter it = fxi_json_items(parts); fxi_json_next(&it);) {
        const fxi_json *part = fxi_json_get(it.value, "text");
        if (!fxi_json_is_string(part)) {
            fxi_buf_free(&text);
            return fxi_fail(f->err, FX_EINVAL,
                            "messages[%zu].content[%zu]: is not text, and the "
                            "chat template takes nothing else",
                            i, it.i);
        }
        const fxi_str s = fxi_json_string(part);
        ok = ok && (!it.i || fxi_buf_str(&text, "\n")) && fxi_buf_add(&text, s.p, s.n);
    }
    f->short_memory |= !ok || !fxi_json_str(&f->text, text.p, text.n);
    fxi_buf_free(&text);
    return FX_OK;
}

// content: NULL: the message has none.
static fx_status put_content(chat_fit *f, const fxi_json *content, bool has_calls, size_t i)
{
    const bool missing = has_calls && (!content || fxi_json_is_null(content));
    if (fxi_json_is_array(content) && !fxi_jinja_reads_parts(f->t->jinja))
        return put_parts(f, content, i);
    if (!missing && f->c->builtin && !fxi_json_is_string(content))
        return fxi_fail(f->err, FX_EINVAL, "messages[%zu]: has no text", i);
    if (missing)
        put_text(f, "\"\"");
    else
        put_value(f, content);
    return FX_OK;
}

// ---- tool calls ---------------------------------------------------------------------------------

// Arguments as the object that they spell; as they are if they spell another value, are not JSON,
// or are too large, or too many together, to parse.
static void put_arguments(chat_fit *f, const fxi_json *arguments)
{
    const fxi_json_rules rules = {.max_depth = FXI_JSON_MAX_DEPTH,
                                  .max_value = FXI_JSON_MAX_VALUE - f->n_value};
    fxi_json_doc doc = {0};
    if (fxi_json_is_string(arguments) && rules.max_value)
        f->short_memory |=
            fxi_json_parse(&doc, fxi_json_string(arguments), &rules, NULL) == FX_ENOMEM;
    const bool spelled = fxi_json_is_object(doc.root);
    if (spelled) f->n_value += doc.n_value;
    put_value(f, spelled ? doc.root : arguments);
    fxi_json_doc_free(&doc);
}

static void put_function(chat_fit *f, const fxi_json *function)
{
    put_text(f, "{");
    for (fxi_json_iter it = fxi_json_members(function); fxi_json_next(&it);) {
        put_key(f, &it);
        if (strcmp(it.key, "arguments"))
            put_value(f, it.value);
        else
            put_arguments(f, it.value);
    }
    put_text(f, "}");
}

static void put_fitted_call(chat_fit *f, const fxi_json *call)
{
    const fxi_json *function = fxi_json_get(call, "function");
    if (!fxi_json_is_string(fxi_json_get(function, "arguments"))) return put_value(f, call);
    put_text(f, "{");
    for (fxi_json_iter it = fxi_json_members(call); fxi_json_next(&it);) {
        put_key(f, &it);
        if (it.value == function)
            put_function(f, function);
        else
            put_value(f, it.value);
    }
    put_text(f, "}");
}

static void put_calls(chat_fit *f, const fxi_json *calls)
{
    if (!fxi_json_is_array(calls)) return put_value(f, calls);
    put_text(f, "[");
    for (fxi_json_iter it = fxi_json_items(calls); fxi_json_next(&it);) {
        if (it.i) put_text(f, ",");
        put_fitted_call(f, it.value);
    }
    put_text(f, "]");
}

// ---- messages -----------------------------------------------------------------------------------

static fx_status put_message(chat_fit *f, const fxi_json *m, size_t i)
{
    const fxi_json *role = fxi_json_get(m, "role"), *content = fxi_json_get(m, "content"),
                   *calls = fxi_json_get(m, "tool_calls");
    const bool has_calls = fxi_json_array_size(calls) > 0;
    if (!fxi_json_is_object(m))
        return fxi_fail(f->err, FX_EINVAL, "messages[%zu]: is not an object", i);
    if (!fxi_json_is_string(role))
        return fxi_fail(f->err, FX_EINVAL, "messages[%zu]: has no role", i);
    put_text(f, i ? ",{" : "{");
    for (fxi_json_iter it = fxi_json_members(m); fxi_json_next(&it);) {
        put_key(f, &it);
        if (it.value == role)
            FX_TRY(put_role(f, fxi_json_text(role), i));
        else if (it.value == content)
            FX_TRY(put_content(f, content, has_calls, i));
        else if (it.value == calls)
            put_calls(f, calls);
        else
            put_value(f, it.value);
    }
    if (!content && (has_calls || f->c->builtin)) {
        put_text(f, ",\"content\":");
        FX_TRY(put_content(f, NULL, has_calls, i));
    }
    put_text(f, "}");
    return FX_OK;
}

// Messages of plain text as a JSON array.
static fx_status write_plain(const fxi_chat_msg *m, size_t n, fxi_buf *out, fx_error *err)
{
    bool ok = fxi_buf_str(out, "[");
    for (size_t i = 0; ok && i < n; i++) {
        const char *role = m[i].role ? m[i].role : "", *text = m[i].text.p ? m[i].text.p : "";
        const size_t n_text = m[i].text.n, bad = fxi_utf8_check(text, n_text);
        if (bad < n_text)
            return fxi_fail(err, FX_EINVAL, "messages[%zu]: bad UTF-8 at byte %zu", i, bad);
        if (memchr(text, 0, n_text))
            return fxi_fail(err, FX_EINVAL, "messages[%zu]: contains a NUL character", i);
        if (fxi_utf8_check(role, strlen(role)) < strlen(role))
            return fxi_fail(err, FX_EINVAL, "messages[%zu]: bad UTF-8 in the role", i);
        ok = fxi_buf_str(out, i ? ",{\"role\":" : "{\"role\":") && fxi_json_cstr(out, role) &&
             fxi_buf_str(out, ",\"content\":") && fxi_json_str(out, text, n_text) &&
             fxi_buf_str(out, "}");
    }
    return ok && fxi_buf_str(out, "]") ? FX_OK : fxi_fail_memory(err);
}

// ---- the caller's JSON --------------------------------------------------------------------------

typedef struct chat_docs { // what a conversation is made of
    fxi_json_doc messages, fitted, tools, kwargs;
} chat_docs;

// The text of the field `name`, if there is one, which must be an array, or an object.
static fx_status read_chat_field(fxi_json_doc *d, fxi_str text, const char *name, bool is_object,
                                 fx_error *err)
{
    static const fxi_json_rules rules = {.nul_texts = true};
    fx_error e;
    if (!text.p) return FX_OK;
    const fx_status st = fxi_json_parse(d, text, &rules, &e);
    if (st == FX_ENOMEM) return fxi_fail_memory(err);
    if (st != FX_OK)
        return fxi_fail(err, FX_EINVAL, "%s: %s%s", name, st == FX_EFORMAT ? "not JSON: " : "",
                        e.text);
    if (is_object ? fxi_json_is_object(d->root) : fxi_json_is_array(d->root)) return FX_OK;
    return fxi_fail(err, FX_EINVAL, "%s: not an %s", name, is_object ? "object" : "array");
}

static fx_status read_messages(const fxi_conversation *q, fxi_json_doc *d, fx_error *err)
{
    fxi_buf plain = {0};
    fxi_str text = q->messages;
    fx_status st = FX_OK;
    if (!text.p) {
        st = write_plain(q->plain, q->n_plain, &plain, err);
        text = (fxi_str){plain.p, plain.n};
    }
    if (st == FX_OK) st = read_chat_field(d, text, "messages", false, err);
    fxi_buf_free(&plain);
    if (st != FX_OK || fxi_json_array_size(d->root)) return st;
    return fxi_fail(err, FX_EINVAL, "messages: at least one is needed");
}

// All but the tools. Errors: FX_EINVAL (a text that is not what it must be, or a message that the
// template cannot take: which one and why), FX_ENOMEM.
static fx_status read_docs(const fxi_chat *c, const fxi_chat_template *t, const fxi_conversation *q,
                           chat_docs *d, fx_error *err)
{
    chat_fit f = {.c = c, .t = t, .err = err};
    FX_TRY(read_messages(q, &d->messages, err));
    FX_TRY(read_chat_field(&d->kwargs, q->kwargs, "chat_template_kwargs", true, err));
    fx_status st = FX_OK;
    put_text(&f, "[");
    for (fxi_json_iter it = fxi_json_items(d->messages.root); st == FX_OK && fxi_json_next(&it);)
        st = put_message(&f, it.value, it.i);
    put_text(&f, "]");
    if (st == FX_OK && f.short_memory) st = fxi_fail_memory(err);
    if (st == FX_OK)
        st = read_chat_field(&d->fitted, (fxi_str){f.text.p, f.text.n}, "messages", false, err);
    fxi_buf_free(&f.text);
    return st;
}

static bool is_white(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

// What the last message says, without blanks around it; the last part of several.
static fxi_str final_text(const fxi_json *messages)
{
    const fxi_json *last = fxi_json_at(messages, fxi_json_array_size(messages) - 1);
    const fxi_json *said = fxi_json_get(last, "content");
    if (fxi_json_is_array(said))
        said = fxi_json_get(fxi_json_at(said, fxi_json_array_size(said) - 1), "text");
    fxi_str s = fxi_json_string(said);
    while (s.n && is_white(s.p[s.n - 1])) s.n--;
    while (s.n && is_white(*s.p)) s.p++, s.n--;
    return s;
}

// The end of the run of the caller's bytes that has it; `from` if there is none.
static size_t find_end(const fxi_marked *m, size_t from, fxi_str said)
{
    for (size_t end = m->text.n; end > from;) {
        while (end > from && m->own.p[end - 1]) end--;
        size_t begin = end;
        while (begin > from && !m->own.p[begin - 1]) begin--;
        size_t last = end; // of what it says, without blanks
        while (last > begin && is_white(m->text.p[last - 1])) last--;
        if (end > begin && last - begin >= said.n &&
            !memcmp(m->text.p + last - said.n, said.p, said.n))
            return end;
        end = begin;
    }
    return from;
}

// Cuts *m, to which these messages were appended at `from`, after the text of the last one.
// FX_EINVAL: that has none, or it is not there.
static fx_status cut_after_final(const fxi_json *messages, size_t from, fxi_marked *m,
                                 fx_error *err)
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
static fx_status add_kwargs(const fxi_json *kwargs, fxi_jinja_var *var, size_t *n, fx_error *err)
{
    if (fxi_json_object_size(kwargs) > MAX_KWARGS)
        return fxi_fail(err, FX_EINVAL, "chat_template_kwargs: more than %d", MAX_KWARGS);
    for (fxi_json_iter it = fxi_json_members(kwargs); fxi_json_next(&it);) {
        if (!strcmp(it.key, "messages") || !strcmp(it.key, "tools"))
            return fxi_fail(err, FX_EINVAL, "chat_template_kwargs: '%s' has its own field", it.key);
        var[(*n)++] = (fxi_jinja_var){it.key, it.value, FXI_JINJA_CALLER};
    }
    return FX_OK;
}

static fx_status render_docs(const fxi_chat *c, const fxi_chat_template *t,
                             const fxi_conversation *q, const chat_docs *d, fxi_marked *out,
                             fx_error *err)
{
    const fxi_json *tools = d->tools.root;
    fxi_jinja_var var[N_USUAL + MAX_KWARGS] = {
        {"messages", d->fitted.root, FXI_JINJA_MESSAGES},
        {"tools", fxi_json_array_size(tools) ? tools : fxi_json_null(), FXI_JINJA_CALLER},
        {"documents", fxi_json_null(), FXI_JINJA_CALLER},
        {"add_generation_prompt", fxi_json_bool(q->add_generation_prompt), FXI_JINJA_CALLER},
        {"bos_token", fxi_json_get(c->ends.root, "bos_token"), FXI_JINJA_TEMPLATE},
        {"eos_token", fxi_json_get(c->ends.root, "eos_token"), FXI_JINJA_TEMPLATE},
    };
    fxi_jinja_context context = {.var = var, .n_var = 6, .now = q->now};
    if (c->builtin)
        var[context.n_var++] =
            (fxi_jinja_var){"add_bos", fxi_json_bool(c->adds_bos), FXI_JINJA_CALLER};
    FX_TRY(add_kwargs(d->kwargs.root, var, &context.n_var, err));
    return fxi_jinja_render(t->jinja, &context, out, err);
}

fx_status fxi_chat_render(const fxi_chat *c, const fxi_conversation *q, fxi_marked *out,
                          fx_error *err)
{
    const size_t from = out->text.n;
    chat_docs d = {0};
    fx_status st = read_chat_field(&d.tools, q->tools, "tools", false, err);
    const bool with_tools = c->has_tools && fxi_json_array_size(d.tools.root);
    const fxi_chat_template *t = with_tools ? &c->tools : &c->usual;
    if (st == FX_OK && !t->jinja) {
        if (err) *err = t->broken;
        st = t->broken.status;
    }
    if (st == FX_OK) st = read_docs(c, t, q, &d, err);
    if (st == FX_OK) st = render_docs(c, t, q, &d, out, err);
    if (st == FX_OK && q->continue_final) st = cut_after_final(d.fitted.root, from, out, err);
    if (st != FX_OK) out->text.n = out->own.n = from;
    fxi_json_doc_free(&d.messages);
    fxi_json_doc_free(&d.fitted);
    fxi_json_doc_free(&d.tools);
    fxi_json_doc_free(&d.kwargs);
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
