// chat_open.c - which template a model is served with, compiled: the model's own, one that the user
// names, or a built-in one for models that bring none.
//
// The built-in ones are Jinja texts like any other. They are what models of each family were
// trained with, for the roles system, user and assistant. Where a family has no turn for the
// system, its text is part of the user's turn that follows.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h"
#include "format/template/chat_impl.h"

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
