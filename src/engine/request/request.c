// request.c - a request as data: copied when it is submitted, ended, freed.
#include "engine/request/request.h"

#include <stdlib.h>
#include <string.h>

#include "model/pooling.h"

#define PRIORITY_MS 10000 // waiting time that one unit of priority is worth

// ---- copies of what a request points to --------------------------------------------------------

// They lie after the request, in the same piece of memory, and are laid out twice: first for the
// sum of their sizes.
typedef struct copy_area {
    char *at; // NULL: only the size is wanted
    size_t n_bytes;
} copy_area;

// A copy of a list; NULL if it is empty.
static void *copy_list(copy_area *a, const void *list, size_t n, size_t elem_bytes)
{
    void *copy = a->at && n ? a->at + a->n_bytes : NULL;
    if (copy) memcpy(copy, list, n * elem_bytes);
    a->n_bytes += (n * elem_bytes + 15) / 16 * 16;
    return copy;
}

static const char *copy_text(copy_area *a, const char *text)
{
    return copy_list(a, text, text ? strlen(text) + 1 : 0, 1);
}

static const char *const *copy_texts(copy_area *a, const char *const *text, size_t n)
{
    const char **copy = copy_list(a, text, n, sizeof *text);
    for (size_t i = 0; i < n; i++) {
        const char *one = copy_text(a, text[i]);
        if (copy) copy[i] = one;
    }
    return copy;
}

int fxi_ids_compare(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

// A sorted copy of a set of ids, without repetitions: what is done for each of them takes no longer
// than for each of the vocabulary.
static const int32_t *copy_set(copy_area *a, const int32_t *set, size_t *n)
{
    int32_t *id = copy_list(a, set, *n, sizeof *set);
    size_t n_kept = 0;
    if (!id) return NULL;
    qsort(id, *n, sizeof *id, fxi_ids_compare);
    for (size_t i = 0; i < *n; i++)
        if (!n_kept || id[i] != id[n_kept - 1]) id[n_kept++] = id[i];
    *n = n_kept;
    return id;
}

// All but the prompt, which the first sequence has.
static void copy_request(copy_area *a, const fx_request *from, fx_request *to)
{
    const fx_sampling *s = &from->sampling;
    *to = *from;
    to->prompt = NULL;
    to->tenant = copy_text(a, from->tenant ? from->tenant : "");
    to->stop_token = copy_set(a, from->stop_token, &to->n_stop_token);
    to->show_token = copy_set(a, from->show_token, &to->n_show_token);
    to->sampling.bias = copy_list(a, s->bias, s->n_bias, sizeof *s->bias);
    to->sampling.allow = copy_set(a, s->allow, &to->sampling.n_allow);
    to->sampling.ban = copy_set(a, s->ban, &to->sampling.n_ban);
    fx_id_run *run = copy_list(a, s->ban_run, s->n_ban_run, sizeof *run);
    for (size_t i = 0; i < s->n_ban_run; i++) {
        const int32_t *id = copy_list(a, s->ban_run[i].id, s->ban_run[i].n, sizeof *id);
        if (run) run[i].id = id;
    }
    to->sampling.ban_run = run;
    to->sampling.dry_breaker = copy_texts(a, s->dry_breaker, s->n_dry_breaker);
    to->stop = copy_texts(a, from->stop, from->n_stop);
    fx_thought *thought = copy_list(a, from->thought, from->thought != NULL, sizeof *thought);
    to->thought = thought;
    if (!from->thought) return;
    const int32_t *tok =
        copy_list(a, from->thought->close_tok, from->thought->n_close, sizeof *tok);
    for (int i = 0; i < 2; i++) {
        const char *open = copy_text(a, from->thought->open[i]),
                   *close = copy_text(a, from->thought->close[i]);
        if (!thought) continue;
        thought->open[i] = open;
        thought->close[i] = close;
    }
    if (thought) thought->close_tok = tok;
}

// ---- making ------------------------------------------------------------------------------------

static bool only_control(const fxi_vocab *v, const int32_t *tok, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!fxi_vocab_control(v, tok[i])) return false;
    return true;
}

// Where both directions are read, keys and values belong to this text alone.
static bool make_embedding(const fxi_model_shape *shape, fxi_live_request *r)
{
    if (!fxi_request_embeds(r)) return true;
    r->is_whole = !shape->is_causal;
    r->spec.no_cache |= r->is_whole;
    r->seq[0].pools_all = shape->pooling != FXI_POOL_LAST;
    r->seq[0].embd = calloc(fxi_pooling_room(shape), sizeof *r->seq[0].embd);
    return r->seq[0].embd != NULL;
}

static bool make_end(const fxi_service *sv, fxi_live_request *r)
{
    const int n_stop = (int)r->spec.n_stop_token;
    r->n_eot = sv->n_end_tok;
    r->n_end = r->n_eot + n_stop;
    r->end = malloc((size_t)(r->n_end + 1) * sizeof *r->end);
    if (!r->end) return false;
    if (r->n_eot) memcpy(r->end, sv->end_tok, (size_t)r->n_eot * sizeof *r->end);
    if (n_stop) memcpy(r->end + r->n_eot, r->spec.stop_token, (size_t)n_stop * sizeof *r->end);
    return true;
}

// The requested length, clamped to the context; if none was requested, the longest that the budget
// holds for all its sequences.
static int longest_answer(const fxi_service *sv, const fx_request *spec)
{
    int low = 1, high = sv->info->ctx_tok - (int)spec->n_prompt;
    if (spec->max_tok >= 0) return spec->max_tok < high ? spec->max_tok : high;
    while (low < high) {
        const int mid = low + (high - low + 1) / 2;
        if (fxi_request_bytes(sv, spec, mid) <= sv->budget_bytes)
            low = mid;
        else
            high = mid - 1;
    }
    return low;
}

static bool init_request(const fxi_service *sv, fxi_live_request *r, const int32_t *prompt,
                         uint64_t now_us)
{
    fx_request *spec = &r->spec;
    fxi_seq *first = &r->seq[0];
    if (spec->grammar) fx_grammar_retain(spec->grammar);
    spec->no_cache |= !fxi_kv_can(sv->kv, FXI_KV_PREFIX);
    r->vocab = sv->vocab;
    r->max_tok = longest_answer(sv, spec);
    r->n_left = spec->n_choice;
    r->defers_output = spec->beam_width || r->n_seq > spec->n_choice;
    r->submit_us = now_us;
    r->order_ms = (int64_t)(now_us / 1000) - (int64_t)spec->priority * PRIORITY_MS;
    r->begins = fxi_decoder_begin(sv->vocab, only_control(sv->vocab, prompt, spec->n_prompt));
    for (int i = 0; i < r->n_seq; i++) {
        r->seq[i].request = r;
        r->seq[i].choice = i;
        fxi_seq_clear(&r->seq[i]);
    }
    if (!fxi_seq_reserve(first, (int)spec->n_prompt + 1)) return false;
    memcpy(first->tok, prompt, spec->n_prompt * sizeof *first->tok);
    first->n_tok = (int)spec->n_prompt;
    first->state = FXI_SEQ_LIVE;
    return make_end(sv, r) && make_embedding(sv->shape, r) &&
           fxi_stops_make(&r->stops, spec->stop, spec->n_stop) && fxi_thought_make(r, sv->vocab) &&
           (!spec->beam_width || fxi_beam_make(r));
}

fx_status fxi_request_make(const fxi_service *sv, const fx_request *spec, uint64_t now_us,
                           fxi_live_request **out, fx_error *err)
{
    const int n_seq = fxi_request_n_seq(spec);
    fxi_live_request *r;
    const size_t own_bytes = (sizeof *r + (size_t)n_seq * sizeof r->seq[0] + 15) / 16 * 16;
    copy_area copies = {0};
    fx_request measured;
    *out = NULL;
    copy_request(&copies, spec, &measured);
    r = calloc(1, own_bytes + copies.n_bytes);
    if (!r) return fxi_fail(err, FX_ENOMEM, "no memory for a request");
    copies = (copy_area){.at = (char *)r + own_bytes};
    copy_request(&copies, spec, &r->spec);
    r->n_seq = n_seq;
    if (!init_request(sv, r, spec->prompt, now_us)) {
        fxi_request_free(r);
        return fxi_fail(err, FX_ENOMEM, "no memory for a request");
    }
    *out = r;
    return FX_OK;
}

void fxi_request_free(fxi_live_request *r)
{
    fxi_stops_free(&r->stops);
    fxi_stops_free(&r->thought_marks);
    fx_grammar_release(r->spec.grammar);
    for (int i = 0; i < r->n_seq; i++) fxi_seq_clear(&r->seq[i]);
    fxi_beam_free(r->beam);
    free(r->end);
    free(r);
}

// ---- ending ------------------------------------------------------------------------------------

void fxi_request_finish(fxi_live_request *r, fx_finish why)
{
    for (int i = 0; i < r->n_seq; i++) {
        fxi_seq *s = &r->seq[i];
        s->n_planned = 0;
        if (s->state != FXI_SEQ_DONE && s->finish == FX_FINISH_NONE) s->finish = why;
    }
}

void fxi_request_finish_cancelled(fxi_live_request *r)
{
    if (atomic_load(&r->cancelled)) fxi_request_finish(r, FX_FINISH_CANCEL);
}

void fxi_request_fail(fxi_live_request *r, fx_status status, const char *error)
{
    for (int i = 0; i < r->n_seq; i++) {
        if (r->seq[i].finish != FX_FINISH_NONE) continue;
        r->seq[i].error = error;
        r->seq[i].error_status = status;
    }
    fxi_request_finish(r, FX_FINISH_ERROR);
}

int fxi_request_n_live(const fxi_live_request *r)
{
    int n = 0;
    for (int i = 0; i < r->n_seq; i++) n += r->seq[i].state == FXI_SEQ_LIVE;
    return n;
}

bool fxi_request_is_done(const fxi_live_request *r)
{
    for (int i = 0; i < r->n_seq; i++)
        if (r->seq[i].state != FXI_SEQ_DONE) return false;
    return true;
}

bool fxi_request_is_decided(const fxi_live_request *r)
{
    for (int i = 0; i < r->n_seq; i++)
        if (r->seq[i].state != FXI_SEQ_DONE && r->seq[i].finish != FX_FINISH_NONE) return true;
    return false;
}
