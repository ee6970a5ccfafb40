// api_tokens.c - a request's texts to token ids: its prompts, and the words that its answer must
// not have.
//
// In a raw prompt, control tokens that are spelled out become those tokens, unless parse_special is
// false: its writer is the program that asks. In the messages of a chat they never do.
#include <stdlib.h>
#include <string.h>

#include "base/fail.h" // defines: fxi_fail, FX_TRY
#include "server/request/api_fields.h"

// ---- prompts ------------------------------------------------------------------------------------

static unsigned flags_of(const fxi_params *par)
{
    const unsigned around = par->api == FXI_API_EMBEDDINGS ? FX_TOKENIZE_EMBED : FX_TOKENIZE_PROMPT;
    const bool control = par->parse_special && par->api != FXI_API_EMBEDDINGS;
    return (par->add_special ? around : 0) | (control ? FX_TOKENIZE_CONTROL : 0);
}

static bool copy_ids(const fxi_id_list *ids, fx_tokens *out)
{
    out->id = malloc(ids->n * sizeof *out->id);
    if (!out->id) return false;
    memcpy(out->id, ids->id, ids->n * sizeof *out->id);
    out->n = out->cap = ids->n;
    return true;
}

size_t fxi_params_max_prompt(const fxi_params *par, const fx_engine *eng)
{
    const fx_model_info *m = fx_engine_info(eng);
    if (par->truncate || par->api == FXI_API_TOKENIZE) return 0;
    return (size_t)(par->api == FXI_API_EMBEDDINGS && m->embeds ? m->embd_tok : m->ctx_tok);
}

// BOS, prompt, suffix, each behind its mark, and the mark of what is to come.
static fx_status encode_around(const fxi_params *par, const fx_engine *eng, const fxi_prompt *p,
                               size_t max_tok, fx_tokens *out, fx_error *err)
{
    enum { MARK = FX_TOKENIZE_CONTROL | FX_TOKENIZE_INNER };
    const unsigned flags = flags_of(par), text = flags & FX_TOKENIZE_CONTROL;
    const char *suffix = json_string_value(par->suffix);
    const size_t n_suffix = json_string_length(par->suffix);
    const struct {
        const char *text;
        size_t n_bytes;
        unsigned flags;
    } pieces[] = {
        {par->infill->before, strlen(par->infill->before), MARK | (flags & FX_TOKENIZE_BOS)},
        {p->text, p->n_bytes, text},
        {par->infill->after, strlen(par->infill->after), MARK},
        {suffix, n_suffix, text | FX_TOKENIZE_INNER},
        {par->infill->between, strlen(par->infill->between), MARK},
    };
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++)
        FX_TRY(fx_tokenize_max(eng, pieces[i].text, pieces[i].n_bytes, pieces[i].flags, max_tok,
                               out, err));
    if (out->n <= max_tok) return FX_OK;
    return fxi_fail(err, FX_ECONTEXT, "prompt and suffix have %zu tokens", out->n);
}

static fx_status encode_input(const fxi_params *par, const fx_engine *eng, size_t i, fx_tokens *out,
                              fx_error *err)
{
    const size_t max_tok = fxi_params_max_prompt(par, eng);
    if (par->messages) {
        fx_chat_request q = fxi_params_chat(par);
        q.max_tok = max_tok;
        return fx_chat_request_tokenize(eng, &q, out, err);
    }
    const fxi_prompt *p = &par->prompt[i];
    if (par->suffix) return encode_around(par, eng, p, max_tok, out, err);
    if (p->text) return fx_tokenize_max(eng, p->text, p->n_bytes, flags_of(par), max_tok, out, err);
    if (copy_ids(&p->ids, out)) return FX_OK;
    *err = (fx_error){FX_ENOMEM, "out of memory"};
    return FX_ENOMEM;
}

// Drops tokens at the front.
static void truncate_tokens(const fxi_params *par, const fx_engine *eng, fx_tokens *t)
{
    const size_t room = (size_t)fx_engine_info(eng)->ctx_tok - 1; // one for the answer
    const size_t keep = par->truncate < 0 ? room : (size_t)par->truncate;
    if (!par->truncate || t->n <= keep) return;
    memmove(t->id, t->id + (t->n - keep), keep * sizeof *t->id);
    t->n = keep;
}

// A length that was asked for and does not fit, where the operator will not have it clamped.
static bool check_excess(const fxi_params *par, const fx_engine *eng, size_t n_tok,
                         fxi_http_error *err)
{
    const bool newer = par->max_completion_tok >= 0;
    const int64_t asked = newer ? par->max_completion_tok : par->max_tok;
    const int ctx_tok = fx_engine_info(eng)->ctx_tok;
    if (!par->refuse_excess || asked < 0 || asked <= ctx_tok - (int64_t)n_tok) return true;
    return fxi_http_fail(err, 400, "context_length_exceeded",
                         newer ? "max_completion_tokens" : "max_tokens",
                         "This model's maximum context length is %d tokens. However, you requested "
                         "%llu tokens (%zu in the prompt, %lld in the completion).",
                         ctx_tok, (unsigned long long)asked + n_tok, n_tok, (long long)asked);
}

// Clients know a prompt that is too long by OpenAI's words.
static bool fail_input(const fxi_params *par, const fx_engine *eng, const fx_error *e,
                       fxi_http_error *err)
{
    if (e->status != FX_ECONTEXT) return fxi_http_fail_fx(err, e, par->input);
    return fxi_http_fail(err, 400, "context_length_exceeded", par->input,
                         "This model's maximum context length is %zu tokens. However, '%s' has "
                         "more.",
                         fxi_params_max_prompt(par, eng), par->input);
}

bool fxi_params_encode(const fxi_params *par, const fx_engine *eng, size_t i, fx_tokens *out,
                       fxi_http_error *err)
{
    fx_error e = {0};
    if (encode_input(par, eng, i, out, &e) != FX_OK) return fail_input(par, eng, &e, err);
    truncate_tokens(par, eng, out);
    if (out->n || par->api == FXI_API_TOKENIZE) return check_excess(par, eng, out->n, err);
    return fxi_http_fail(err, 400, "invalid_value", par->input, "the prompt has no tokens");
}

#define TOKENS_BYTES 64 // of the shortest list

// ---- words that are banned ----------------------------------------------------------------------

static bool is_same_run(const fx_id_run *a, const fx_tokens *b)
{
    return a->n == b->n && !memcmp(a->id, b->id, b->n * sizeof *b->id);
}

// Takes the ids over, unless they are the run that was added last.
static void take_run(fxi_params *par, fx_tokens *t)
{
    if (!t->n || (par->n_ban && is_same_run(&par->ban[par->n_ban - 1], t))) {
        fx_tokens_free(t);
        return;
    }
    par->ban[par->n_ban++] = (fx_id_run){t->id, t->n};
}

// As a word within a text: after a space, and after something else.
static bool ban_word(fxi_params *par, const fx_engine *eng, const char *word, fxi_http_error *err)
{
    fxi_buf spaced = {0};
    fx_error e = {FX_ENOMEM, "out of memory"};
    fx_tokens plain = {0}, after_space = {0};
    const size_t n = strlen(word);
    bool ok = fxi_buf_str(&spaced, " ") && fxi_buf_add(&spaced, word, n) &&
              fx_tokenize(eng, word, n, FX_TOKENIZE_INNER, &plain, &e) == FX_OK &&
              fx_tokenize(eng, spaced.p, n + 1, FX_TOKENIZE_INNER, &after_space, &e) == FX_OK;
    fxi_buf_free(&spaced);
    if (ok) {
        take_run(par, &plain);
        take_run(par, &after_space);
        return true;
    }
    fx_tokens_free(&plain);
    fx_tokens_free(&after_space);
    return fxi_http_fail_fx(err, &e, "bad_words");
}

// What banned words become: each two lists of ids, none longer than its text.
static bool charge_words(fxi_params *par, fxi_http_error *err)
{
    size_t n_bytes = 0;
    for (size_t i = 0; i < json_array_size(par->bad_words); i++)
        n_bytes += 2 * sizeof *par->ban +
                   2 * (TOKENS_BYTES +
                        sizeof(int32_t) * json_string_length(json_array_get(par->bad_words, i)));
    if (!par->charge) return true;
    if (!fxi_bytes_granted(err, fxi_charge_reserve(par->charge, FXI_BYTES_TREE, n_bytes)))
        return false;
    par->list_bytes += n_bytes;
    return true;
}

bool fxi_params_resolve(fxi_params *par, const fx_engine *eng, fxi_http_error *err)
{
    const size_t n = json_array_size(par->bad_words);
    if (!fxi_params_compile(par, eng, err)) return false;
    if (!n) return true;
    if (!charge_words(par, err)) return false;
    par->ban = calloc(2 * n, sizeof *par->ban);
    if (!par->ban) return fxi_http_fail_memory(err);
    for (size_t i = 0; i < n; i++)
        if (!ban_word(par, eng, json_string_value(json_array_get(par->bad_words, i)), err))
            return false;
    return true;
}
