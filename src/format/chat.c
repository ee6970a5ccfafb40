// chat.c - the families of chat templates and the one renderer for all of them.
//
// A family says what stands before and after a message of each role. The whole becomes one text in
// which each byte is the template's or a message's. Where bytes of the template spell a control
// token of the vocabulary, they become that token; what a message says never does. All other text
// is tokenized as one, as the models have seen it:
//
//     <|im_start|>user\n | hi <|im_end|> there | <|im_end|>\n<|im_start|>assistant\n
//     template             message: plain text   template
#include "format/chat.h"

#include <string.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "format/show.h"

// In the texts of a family: the vocabulary's own tokens, whatever they are spelled like.
#define BOS "\x01"
#define EOS "\x02"

typedef enum chat_role { SYSTEM, USER, ASSISTANT, N_ROLE } chat_role;

struct fxi_chat_family {
    const char *name;
    const char *mark; // in the Jinja templates of this family, and of none that stands further down
    struct {
        const char *before, *after;
    } by_role[N_ROLE];
    const char *answer;  // opens the assistant's answer
    bool system_in_user; // a system message stands inside the user's turn that follows
    bool trims;          // messages are stripped of white space around them
};

// Looked through from the top; the last one is for all other files. Phi-3's tokenizer drops the
// line ends that its template writes behind marks.
static const fxi_chat_family families[] = {
    {.name = "chatml",
     .mark = "<|im_start|>",
     .by_role = {[SYSTEM] = {"<|im_start|>system\n", "<|im_end|>\n"},
                 [USER] = {"<|im_start|>user\n", "<|im_end|>\n"},
                 [ASSISTANT] = {"<|im_start|>assistant\n", "<|im_end|>\n"}},
     .answer = "<|im_start|>assistant\n"},
    {.name = "llama3",
     .mark = "<|start_header_id|>",
     .by_role = {[SYSTEM] = {"<|start_header_id|>system<|end_header_id|>\n\n", "<|eot_id|>"},
                 [USER] = {"<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|>"},
                 [ASSISTANT] = {"<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>"}},
     .answer = "<|start_header_id|>assistant<|end_header_id|>\n\n",
     .trims = true},
    {.name = "gemma",
     .mark = "<start_of_turn>",
     .by_role = {[SYSTEM] = {"", "\n\n"},
                 [USER] = {"<start_of_turn>user\n", "<end_of_turn>\n"},
                 [ASSISTANT] = {"<start_of_turn>model\n", "<end_of_turn>\n"}},
     .answer = "<start_of_turn>model\n",
     .system_in_user = true,
     .trims = true},
    {.name = "phi3",
     .mark = "<|end|>",
     .by_role = {[SYSTEM] = {"<|system|>", "<|end|>"},
                 [USER] = {"<|user|>", "<|end|>"},
                 [ASSISTANT] = {"<|assistant|>", "<|end|>"}},
     .answer = "<|assistant|>",
     .trims = true},
    {.name = "zephyr",
     .mark = "<|user|>",
     .by_role = {[SYSTEM] = {"<|system|>\n", EOS "\n"},
                 [USER] = {"<|user|>\n", EOS "\n"},
                 [ASSISTANT] = {"<|assistant|>\n", EOS "\n"}},
     .answer = "<|assistant|>\n"},
    {.name = "llama2",
     .mark = "<<SYS>>",
     .by_role = {[SYSTEM] = {"<<SYS>>\n", "\n<</SYS>>\n\n"},
                 [USER] = {"[INST] ", " [/INST]"},
                 [ASSISTANT] = {" ", " " EOS BOS}},
     .answer = "",
     .system_in_user = true,
     .trims = true},
    {.name = "mistral",
     .mark = " [/INST]",
     .by_role =
         {[SYSTEM] = {"", "\n\n"}, [USER] = {"[INST] ", " [/INST]"}, [ASSISTANT] = {" ", EOS}},
     .answer = "",
     .system_in_user = true},
    {.name = "mistral-v3",
     .mark = "[/INST]",
     .by_role =
         {[SYSTEM] = {"", "\n\n"}, [USER] = {"[INST] ", "[/INST]"}, [ASSISTANT] = {" ", EOS}},
     .answer = "",
     .system_in_user = true},
    {.name = "plain",
     .by_role = {[SYSTEM] = {"System: ", "\n"},
                 [USER] = {"User: ", "\n"},
                 [ASSISTANT] = {"Assistant: ", "\n"}},
     .answer = "Assistant:"},
};

enum { N_FAMILY = sizeof families / sizeof *families };

const fxi_chat_family *fxi_chat_family_for(const fxi_gguf *g)
{
    fxi_str jinja = {0};
    const fxi_chat_family *f = families;
    if (fxi_gguf_str(g, "tokenizer.chat_template", false, &jinja, NULL) != FX_OK || !jinja.n)
        return &families[N_FAMILY - 1];
    while (f->mark && !memmem(jinja.p, jinja.n, f->mark, strlen(f->mark))) f++;
    return f;
}

const char *fxi_chat_family_name(const fxi_chat_family *f)
{
    return f->name;
}

//
// The renderer
//

typedef struct renderer {
    const fxi_chat_family *f;
    const fxi_vocab *v;
    fxi_ids *out;
    fx_error *err;
    fxi_buf text;      // what is not encoded yet
    fxi_buf own;       // of each byte of it: 1 where it is the template's
    bool in_user_turn; // a system message has opened a user's turn
} renderer;

static fx_status fail_memory(const renderer *r)
{
    return fxi_fail(r->err, FX_ENOMEM, "no memory to render the conversation");
}

static fx_status put(renderer *r, fxi_str text, char own)
{
    if (!text.n) return FX_OK;
    if (!fxi_buf_add(&r->text, text.p, text.n) || !fxi_buf_reserve(&r->own, text.n))
        return fail_memory(r);
    memset(r->own.p + r->own.n, own, text.n);
    r->own.n += text.n;
    return FX_OK;
}

// Encodes the text that waits.
static fx_status flush(renderer *r)
{
    FX_TRY(fxi_vocab_encode_marked(r->v, r->text.p, r->own.p, r->text.n, FXI_ENCODE_SPACE, r->out,
                                   r->err));
    fxi_buf_clear(&r->text);
    fxi_buf_clear(&r->own);
    return FX_OK;
}

// The vocabulary's token for BOS or EOS; a vocabulary without one leaves it out. Behind it, a new
// text starts.
static fx_status put_own_token(renderer *r, char which)
{
    FX_TRY(flush(r));
    int32_t id = which == *BOS ? fxi_vocab_bos(r->v) : fxi_vocab_eos(r->v);
    return id < 0 || fxi_ids_add(r->out, id) ? FX_OK : fail_memory(r);
}

static fx_status put_own(renderer *r, const char *text)
{
    while (*text) {
        size_t run = strcspn(text, BOS EOS);
        FX_TRY(put(r, (fxi_str){text, run}, 1));
        text += run;
        if (*text) FX_TRY(put_own_token(r, *text++));
    }
    return FX_OK;
}

static fxi_str trim(fxi_str s)
{
    static const char space[] = " \t\r\n\v\f";
    while (s.n && memchr(space, *s.p, sizeof space - 1)) s.p++, s.n--;
    while (s.n && memchr(space, s.p[s.n - 1], sizeof space - 1)) s.n--;
    return s;
}

// A user's turn is open from the system message that stands inside it to the user's message.
static fx_status put_message(renderer *r, chat_role role, fxi_str text)
{
    const fxi_chat_family *f = r->f;
    bool inside = role == SYSTEM && f->system_in_user;
    bool turn_goes_on = r->in_user_turn && (inside || role == USER);
    if (r->in_user_turn && !turn_goes_on) FX_TRY(put_own(r, f->by_role[USER].after));
    if (inside && !turn_goes_on) FX_TRY(put_own(r, f->by_role[USER].before));
    if (inside || !turn_goes_on) FX_TRY(put_own(r, f->by_role[role].before));
    r->in_user_turn = inside;
    FX_TRY(put(r, r->f->trims ? trim(text) : text, 0));
    return put_own(r, f->by_role[role].after);
}

static fx_status find_role(const char *name, chat_role *out)
{
    static const struct {
        const char *name;
        chat_role role;
    } roles[] = {
        {"system", SYSTEM}, {"developer", SYSTEM}, {"user", USER}, {"assistant", ASSISTANT}};
    for (size_t i = 0; name && i < sizeof roles / sizeof *roles; i++) {
        if (strcmp(roles[i].name, name)) continue;
        *out = roles[i].role;
        return FX_OK;
    }
    return FX_EINVAL;
}

static fx_status check_message(const fxi_chat_msg *m, size_t i, chat_role *role, fx_error *err)
{
    if (find_role(m->role, role) != FX_OK)
        return fxi_fail(err, FX_EINVAL, "messages[%zu]: unknown role '%s'", i,
                        m->role ? fxi_show(m->role, strlen(m->role)).s : "");
    size_t bad = fxi_utf8_check(m->text.p, m->text.n);
    if (bad < m->text.n)
        return fxi_fail(err, FX_EINVAL, "messages[%zu]: bad UTF-8 at byte %zu", i, bad);
    return FX_OK;
}

static fx_status render(renderer *r, const fxi_chat_msg *msg, size_t n_msg)
{
    if (fxi_vocab_adds_bos(r->v)) FX_TRY(put_own(r, BOS));
    for (size_t i = 0; i < n_msg; i++) {
        chat_role role;
        FX_TRY(check_message(&msg[i], i, &role, r->err));
        FX_TRY(put_message(r, role, msg[i].text));
    }
    if (r->in_user_turn) FX_TRY(put_own(r, r->f->by_role[USER].after));
    FX_TRY(put_own(r, r->f->answer));
    return flush(r);
}

fx_status fxi_chat_encode(const fxi_chat_family *f, const fxi_vocab *v, const fxi_chat_msg *msg,
                          size_t n_msg, fxi_ids *out, fx_error *err)
{
    if (!n_msg) return fxi_fail(err, FX_EINVAL, "messages: at least one is needed");
    const size_t n_before = out->n;
    renderer r = {.f = f, .v = v, .out = out, .err = err};
    fx_status st = render(&r, msg, n_msg);
    if (st != FX_OK) out->n = n_before;
    fxi_buf_free(&r.text);
    fxi_buf_free(&r.own);
    return st;
}
