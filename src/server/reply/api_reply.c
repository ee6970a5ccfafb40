// api_reply.c - one reply from its first event to its end.
//
//   init -> event ... event -> ended      whole: keeps the text of each choice for api_body.c
//       \-> ... fail        -> ended      stream: api_body.c turns each event into SSE text in
//                                         `out`, which the I/O thread takes
#include "server/reply/api_reply.h"

#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h" // defines: fxi_utf8_count

#define KEPT_BYTES (64u << 10) // of memory for text that a stream keeps when all has been taken

// The error for each way in which a choice can end badly.
static const struct bad_end {
    int status;
    const char *code, *message;
} bad_ends[FX_N_FINISH] = {
    [FX_FINISH_CANCEL] = {500, "cancelled", "the request was cancelled"},
    [FX_FINISH_ABORT] = {503, "draining", "the engine is shutting down"},
    [FX_FINISH_ERROR] = {500, NULL, "the request failed"},
};

// Streams that are no answers of the engine have no spec: they are as completions'.
static const fxi_writer *writer_of(const fxi_reply *r)
{
    const fxi_api api = r->spec.api;
    return api == FXI_API_RESPONSES  ? &fxi_responses_writer
           : api == FXI_API_MESSAGES ? &fxi_messages_writer
                                     : &fxi_stream_writer;
}

// Copies the JSON values of the spec.
static bool keep_values(fxi_reply *r)
{
    static const fxi_json_rules any = {.nul_texts = true};
    const fxi_json **const values[] = {&r->spec.tools, &r->spec.stop, &r->spec.stop_token_id,
                                       &r->spec.documents};
    const size_t n = sizeof values / sizeof *values;
    fxi_buf b = {0};
    bool ok = fxi_buf_str(&b, "[") && fxi_tools_write(&b, r->spec.tools, r->spec.only_tools);
    for (size_t i = 1; ok && i < n; i++)
        ok = fxi_buf_str(&b, ",") && fxi_json_value(&b, *values[i]);
    ok = ok && fxi_buf_str(&b, "]") &&
         fxi_json_parse(&r->kept, (fxi_str){b.p, b.n}, &any, NULL) == FX_OK;
    for (size_t i = 0; i < n; i++) *values[i] = fxi_json_at(r->kept.root, i);
    r->spec.only_tools = NULL;
    fxi_buf_free(&b);
    return ok;
}

bool fxi_reply_init(fxi_reply *r, const fxi_reply_spec *spec, size_t max_out_bytes)
{
    r->spec = *spec;
    r->writer = writer_of(r);
    r->n_left = spec->n_prompt * spec->n_per_prompt;
    r->max_out_bytes = max_out_bytes;
    r->use = calloc((size_t)spec->n_prompt, sizeof *r->use);
    r->prompt = calloc((size_t)spec->n_prompt, sizeof *r->prompt);
    r->choice = calloc((size_t)r->n_left, sizeof *r->choice);
    bool ok = keep_values(r) && r->use && r->prompt && r->choice &&
              (!spec->mirror || fxi_buf_str(&r->mirror, spec->mirror));
    r->spec.mirror = NULL;
    for (int k = 0; ok && k < r->n_left; k++) ok = fxi_content_init(r, &r->choice[k]);
    return ok && (!spec->stream || !r->writer->head || r->writer->head(r));
}

void fxi_reply_free(fxi_reply *r)
{
    for (int i = 0; r->prompt && i < r->spec.n_prompt; i++) {
        fxi_prompt_part *p = &r->prompt[i];
        fxi_buf_free(&p->echo);
        fxi_buf_free(&p->logprobs);
        fxi_buf_free(&p->ids);
        fxi_probs_free(&p->probs);
        free(p->at);
    }
    for (int k = 0; r->choice && k < r->spec.n_prompt * r->spec.n_per_prompt; k++) {
        fxi_choice *c = &r->choice[k];
        fxi_content_free(c);
        fxi_buf_free(&c->text);
        fxi_buf_free(&c->ids);
        fxi_probs_free(&c->probs);
    }
    free(r->prompt);
    free(r->choice);
    free(r->use);
    fxi_json_doc_free(&r->kept);
    fxi_buf_free(&r->mirror);
    fxi_buf_free(&r->head);
    fxi_buf_free(&r->out);
    *r = (fxi_reply){0};
}

// ---- prompts ------------------------------------------------------------------------------------

// Whether the reply tells logprobs of its prompts in lists like those of the answer.
static bool echoes_probs(const fxi_reply *r)
{
    return r->spec.echo && r->spec.logprobs;
}

// Moves the offsets in a decoded text to those in the client's own, with which it ends unless the
// vocabulary changed it: in front may be BOS and a space.
static void move_offsets(fxi_prompt_part *p, const fxi_buf *decoded)
{
    const size_t n_char = fxi_utf8_count(p->echo.p, p->echo.n);
    const size_t n_decoded = fxi_utf8_count(decoded->p, decoded->n);
    const size_t n_front = n_decoded > n_char ? n_decoded - n_char : 0;
    for (size_t i = 0; i < p->n_tok; i++) {
        p->at[i] = p->at[i] > n_front ? p->at[i] - n_front : 0;
        if (p->at[i] > n_char) p->at[i] = n_char;
    }
    p->n_char = (int)n_char;
}

// The text as the client sent it; for ids, what they stand for.
static bool set_echo(fxi_reply *r, fxi_prompt_part *p, const fx_tokens *tok, const char *text,
                     size_t n_bytes)
{
    const bool show = text || r->spec.show_control;
    fxi_buf decoded = {0};
    p->at = calloc(tok->n, sizeof *p->at);
    p->n_tok = tok->n;
    if (!p->at ||
        fx_detokenize(r->eng, tok->id, tok->n, show, p->at, &decoded.p, &decoded.n, NULL) != FX_OK)
        return false;
    bool ok = fxi_buf_add(&p->echo, text ? text : decoded.p, text ? n_bytes : decoded.n);
    if (ok) move_offsets(p, &decoded);
    fxi_buf_free(&decoded);
    return ok;
}

static bool check_prompt_probs(fxi_reply *r, size_t n_tok, fxi_http_error *err)
{
    const bool listed = r->spec.prompt_logprobs, echoed = echoes_probs(r);
    const size_t each =
        (listed ? (size_t)r->spec.n_prompt_top + 1 : 0) + (echoed ? (size_t)r->spec.n_top + 1 : 0);
    r->n_prompt_prob += n_tok * each;
    if (r->n_prompt_prob <= FXI_MAX_PROMPT_PROB) return true;
    return fxi_http_fail(err, 400, "invalid_value", listed ? "prompt_logprobs" : "logprobs",
                         "the prompts would have more than %u logprobs: ask for fewer of each "
                         "token, or send shorter prompts",
                         FXI_MAX_PROMPT_PROB);
}

bool fxi_reply_set_prompt(fxi_reply *r, int prompt, const fx_tokens *tok, const char *text,
                          size_t n_bytes, fxi_http_error *err)
{
    fxi_prompt_part *p = &r->prompt[prompt];
    if (!check_prompt_probs(r, tok->n, err)) return false;
    bool ok = !r->spec.echo || set_echo(r, p, tok, text, n_bytes);
    // The first token has no logprob.
    if (r->spec.prompt_logprobs) ok = ok && fxi_prompt_probs_add(r, &p->logprobs, tok->id[0], NULL);
    if (echoes_probs(r)) ok = ok && fxi_probs_add(r, &p->probs, tok->id[0], NULL, 0);
    for (size_t i = 0; ok && r->spec.return_ids && i < tok->n; i++)
        ok = fxi_list_add_int(&p->ids, tok->id[i]);
    return (ok && fxi_content_prompt(r, prompt, tok)) || fxi_http_fail_memory(err);
}

static bool is_of_prompt(const fx_event *ev)
{
    return ev->token >= 0 && ev->position < ev->n_prompt;
}

static bool add_prompt_token(fxi_reply *r, int prompt, const fx_event *ev)
{
    fxi_prompt_part *p = &r->prompt[prompt];
    if (!ev->prob) return true;
    return (!r->spec.prompt_logprobs ||
            fxi_prompt_probs_add(r, &p->logprobs, ev->token, ev->prob)) &&
           (!echoes_probs(r) || (size_t)ev->position >= p->n_tok ||
            fxi_probs_add(r, &p->probs, ev->token, ev->prob, p->at[ev->position]));
}

// ---- ends ---------------------------------------------------------------------------------------

// The engine's text is one line; the id lets an operator find the request in the log.
static void fail_with_finish(fxi_reply *r, const fx_event *ev)
{
    static const struct bad_end refused[] = {
        [FX_EINVAL] = {400, "invalid_value", "the request cannot be answered"},
        [FX_ENOSPACE] = {400, "kv_budget_exceeded", "the request cannot be answered"},
    };
    const bool is_error = ev->finish == FX_FINISH_ERROR;
    const bool is_refused =
        is_error && (ev->error_status == FX_EINVAL || ev->error_status == FX_ENOSPACE);
    const struct bad_end *bad = is_refused ? &refused[ev->error_status] : &bad_ends[ev->finish];
    fxi_http_error e;
    fxi_http_fail(&e, bad->status, bad->code, NULL, "%s%s%s (%s)", bad->message,
                  ev->error ? ": " : "", ev->error ? ev->error : "", r->id);
    fxi_reply_fail(r, &e);
}

// The client's own stop string or token id that ended the choice; NULL for the model's end-of-text
// token.
static const fxi_json *stop_reason_of(const fxi_reply *r, const fx_event *ev)
{
    const fxi_json *stop = r->spec.stop;
    if (ev->finish != FX_FINISH_STOP || (ev->stop_string < 0 && ev->stop_token < 0)) return NULL;
    if (ev->stop_string < 0) {
        for (fxi_json_iter it = fxi_json_items(r->spec.stop_token_id); fxi_json_next(&it);)
            if (fxi_json_int(it.value) == ev->stop_token) return it.value;
        return NULL;
    }
    return fxi_json_is_string(stop) ? stop : fxi_json_at(stop, (size_t)ev->stop_string);
}

// ---- events -------------------------------------------------------------------------------------

// Its logprob and its id; its text is in the event too, or in a later one.
static bool add_token(fxi_reply *r, int k, const fx_event *ev)
{
    fxi_choice *c = &r->choice[k];
    const fxi_prompt_part *p = &r->prompt[k / r->spec.n_per_prompt];
    if (ev->token < 0) return true;
    if (r->spec.return_ids && !fxi_list_add_int(&c->ids, ev->token)) return false;
    return !r->spec.logprobs || !ev->prob ||
           fxi_probs_add(r, &c->probs, ev->token, ev->prob, (size_t)(p->n_char + ev->text_at));
}

static bool add_event(fxi_reply *r, int k, const fx_event *ev)
{
    fxi_choice *c = &r->choice[k];
    c->stop_reason = stop_reason_of(r, ev);
    if (!add_token(r, k, ev)) return false;
    if (ev->embedding &&
        !fxi_buf_add(&c->text, ev->embedding, (size_t)ev->n_embd * sizeof *ev->embedding))
        return false;
    if (r->spec.stream && !r->writer->begin(r, k)) return false;
    const fxi_output_event text = {.kind = FXI_OUTPUT_TEXT, .p = ev->text, .n = ev->text_bytes};
    if (!(c->answer        ? fxi_content_event(r, k, ev)
          : r->spec.stream ? r->writer->content(r, k, &text)
                           : fxi_buf_add(&c->text, ev->text, ev->text_bytes)))
        return false;
    if (ev->finish == FX_FINISH_NONE) return true;
    if (r->spec.stream && !r->writer->finish(r, k, ev->finish)) return false;
    c->finish = ev->finish;
    if (--r->n_left) return true;
    if (r->spec.stream && r->writer->end && !r->writer->end(r)) return false;
    r->ended = true;
    return true;
}

static size_t choice_bytes(const fxi_choice *c)
{
    return c->text.cap + c->ids.cap + fxi_probs_bytes(&c->probs) + fxi_content_bytes(c);
}

void fxi_reply_event(fxi_reply *r, int prompt, const fx_event *ev)
{
    int k = prompt * r->spec.n_per_prompt + ev->choice;
    fxi_http_error e;
    size_t before = r->out.n;
    const size_t kept = fxi_reply_prompt_bytes(r, prompt) + choice_bytes(&r->choice[k]);
    if (r->ended || r->choice[k].finish != FX_FINISH_NONE) return;
    r->use[prompt] = (fxi_prompt_use){ev->n_prompt, ev->n_cached, ev->n_discarded, ev->prefill_us,
                                      ev->decode_us};
    r->choice[k].n_generated = ev->n_generated;
    if (bad_ends[ev->finish].status) {
        fail_with_finish(r, ev);
    } else if (!(is_of_prompt(ev) ? add_prompt_token(r, prompt, ev) : add_event(r, k, ev))) {
        r->out.n = before; // drop a partial chunk
        (void)fxi_http_fail_memory(&e);
        fxi_reply_fail(r, &e);
    }
    r->kept_bytes += fxi_reply_prompt_bytes(r, prompt) + choice_bytes(&r->choice[k]) - kept;
    if (r->ended || r->out.n - r->n_sent <= r->max_out_bytes) return;
    fxi_http_fail(&e, 500, "slow_client", NULL, "the answer was not read fast enough");
    fxi_reply_fail(r, &e);
}

bool fxi_reply_is_full(const fxi_reply *r, int prompt, const fx_event *ev)
{
    const bool goes_on = !r->ended && ev->finish == FX_FINISH_NONE && !is_of_prompt(ev);
    return goes_on && fxi_content_is_full(r, prompt * r->spec.n_per_prompt + ev->choice);
}

void fxi_reply_fail(fxi_reply *r, const fxi_http_error *e)
{
    if (r->ended) return;
    size_t before = r->out.n;
    r->err = *e;
    if (r->begun && !writer_of(r)->error(r, e)) {
        r->out.n = before;
        r->cut = true;
    }
    r->ended = true;
}

// Taken bytes stay at the front until they fill half of the buffer, so each byte moves at most
// once.
size_t fxi_reply_take(fxi_reply *r, char *dst, size_t max)
{
    size_t n = r->out.n - r->n_sent;
    if (n > max) n = max;
    if (n && dst) memcpy(dst, r->out.p + r->n_sent, n);
    r->n_sent += n;
    if (r->n_sent * 2 >= r->out.n) {
        fxi_buf_drop_front(&r->out, r->n_sent);
        r->n_sent = 0;
    }
    if (!r->out.n && r->out.cap > KEPT_BYTES) fxi_buf_free(&r->out);
    return n;
}

void fxi_reply_ping(fxi_reply *r)
{
    if (r->ended || r->out.n > r->n_sent) return;
    r->begun =
        fxi_buf_str(&r->out, r->begun ? writer_of(r)->ping : fxi_stream_writer.ping) || r->begun;
}

bool fxi_reply_has_news(const fxi_reply *r)
{
    return r->ended || r->out.n > r->n_sent;
}

size_t fxi_reply_base_bytes(const fxi_reply *r)
{
    const size_t n = (size_t)r->spec.n_prompt, n_choice = n * (size_t)r->spec.n_per_prompt;
    return r->head.cap + r->mirror.cap + n * (sizeof *r->use + sizeof *r->prompt) +
           n_choice * sizeof *r->choice;
}

size_t fxi_reply_prompt_bytes(const fxi_reply *r, int prompt)
{
    const fxi_prompt_part *p = &r->prompt[prompt];
    return p->echo.cap + p->logprobs.cap + p->ids.cap + p->n_tok * sizeof *p->at +
           fxi_probs_bytes(&p->probs);
}
