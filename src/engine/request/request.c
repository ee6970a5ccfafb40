// request.c - a request as data: copied when it is submitted, ended, freed.
#include "engine/request/request.h"

#include <stdlib.h>
#include <string.h>

#define PRIORITY_MS 10000 // waiting time that one unit of priority is worth

// ---- copies of what a request points to --------------------------------------------------------

// Replaces a list by a copy, an empty one by NULL. False: no memory.
static bool copy_bytes(const void **list, size_t n, size_t elem_bytes)
{
    const void *from = *list;
    *list = NULL;
    if (!n) return true;
    void *copy = malloc(n * elem_bytes);
    if (copy) memcpy(copy, from, n * elem_bytes);
    *list = copy;
    return copy != NULL;
}

int fxi_ids_compare(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

// Replaces a set of ids by a sorted copy without repetitions: what is done for each of them takes
// no longer than for each of the vocabulary.
static bool copy_set(const int32_t **set, size_t *n)
{
    if (!copy_bytes((const void **)set, *n, sizeof **set)) return false;
    int32_t *id = (int32_t *)*set;
    size_t n_kept = 0;
    if (*n) qsort(id, *n, sizeof *id, fxi_ids_compare);
    for (size_t i = 0; i < *n; i++)
        if (!n_kept || id[i] != id[n_kept - 1]) id[n_kept++] = id[i];
    *n = n_kept;
    return true;
}

static bool copy_stops(fx_request *spec)
{
    const char *const *from = spec->stop;
    const char **copy = calloc(spec->n_stop ? spec->n_stop : 1, sizeof *copy);
    spec->stop = copy;
    if (!copy) return false;
    for (size_t i = 0; i < spec->n_stop; i++)
        if (!(copy[i] = strdup(from[i]))) return false;
    return true;
}

// Each list is a copy or NULL after a failure.
static bool copy_runs(fx_sampling *s)
{
    const fx_id_run *from = s->ban_run;
    fx_id_run *copy = calloc(s->n_ban_run ? s->n_ban_run : 1, sizeof *copy);
    bool ok = copy != NULL;
    s->ban_run = copy;
    for (size_t i = 0; ok && i < s->n_ban_run; i++) {
        copy[i] = from[i];
        ok = copy_bytes((const void **)&copy[i].id, copy[i].n, sizeof *copy[i].id);
    }
    return ok;
}

// Copies everything that the request points to. After a failure each pointer is a copy or NULL, so
// disown_request can free them all.
static bool own_request(fx_request *spec)
{
    fx_sampling *s = &spec->sampling;
    if (spec->grammar) fx_grammar_retain(spec->grammar);
    bool ok = copy_bytes((const void **)&spec->prompt, spec->n_prompt, sizeof *spec->prompt);
    ok &= copy_set(&spec->stop_token, &spec->n_stop_token);
    ok &= copy_set(&spec->show_token, &spec->n_show_token);
    ok &= copy_bytes((const void **)&s->bias, s->n_bias, sizeof *s->bias);
    ok &= copy_set(&s->allow, &s->n_allow);
    ok &= copy_set(&s->ban, &s->n_ban);
    ok &= copy_runs(s);
    spec->tenant = strdup(spec->tenant ? spec->tenant : "");
    return copy_stops(spec) && ok && spec->tenant;
}

static void disown_request(fx_request *spec)
{
    for (size_t i = 0; spec->stop && i < spec->n_stop; i++) free((char *)spec->stop[i]);
    free((void *)spec->stop);
    free((void *)spec->prompt);
    free((void *)spec->stop_token);
    free((void *)spec->show_token);
    free((void *)spec->sampling.bias);
    free((void *)spec->sampling.allow);
    free((void *)spec->sampling.ban);
    for (size_t i = 0; spec->sampling.ban_run && i < spec->sampling.n_ban_run; i++)
        free((void *)spec->sampling.ban_run[i].id);
    free((void *)spec->sampling.ban_run);
    free((void *)spec->tenant);
    fx_grammar_release(spec->grammar);
}

// ---- making ------------------------------------------------------------------------------------

static bool only_control(const fxi_vocab *v, const fx_request *spec)
{
    for (size_t i = 0; i < spec->n_prompt; i++)
        if (!fxi_vocab_control(v, spec->prompt[i])) return false;
    return true;
}

// Where both directions are read, keys and values belong to this text alone.
static bool make_embedding(const fxi_model_shape *shape, fxi_live_request *r)
{
    if (!fxi_request_embeds(r)) return true;
    r->is_whole = !shape->is_causal;
    r->spec.no_cache |= r->is_whole;
    r->seq[0].pools_all = shape->pooling != FXI_POOL_LAST;
    r->seq[0].embd = calloc((size_t)shape->dim, sizeof *r->seq[0].embd);
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

static bool init_request(const fxi_service *sv, fxi_live_request *r, uint64_t now_us)
{
    const fx_request *spec = &r->spec;
    r->spec.no_cache |= !fxi_kv_can(sv->kv, FXI_KV_PREFIX);
    r->max_tok = longest_answer(sv, spec);
    r->n_left = spec->n_choice;
    r->defers_output = spec->beam_width || r->n_seq > spec->n_choice;
    r->submit_us = now_us;
    r->order_ms = (int64_t)(now_us / 1000) - (int64_t)spec->priority * PRIORITY_MS;
    r->begins = fxi_decoder_begin(sv->vocab, only_control(sv->vocab, &r->spec));
    for (int i = 0; i < r->n_seq; i++) {
        r->seq[i].request = r;
        r->seq[i].choice = i;
        fxi_seq_clear(&r->seq[i]);
    }
    fxi_seq *first = &r->seq[0];
    if (!own_request(&r->spec) || !fxi_seq_reserve(first, (int)spec->n_prompt + 1)) return false;
    memcpy(first->tok, spec->prompt, spec->n_prompt * sizeof *first->tok);
    first->n_tok = (int)spec->n_prompt;
    first->state = FXI_SEQ_LIVE;
    return make_end(sv, r) && make_embedding(sv->shape, r) &&
           fxi_stops_make(&r->stops, spec->stop, spec->n_stop) &&
           (!spec->beam_width || fxi_beam_make(r));
}

fx_status fxi_request_make(const fxi_service *sv, const fx_request *spec, uint64_t now_us,
                           fxi_live_request **out, fx_error *err)
{
    const int n_seq = fxi_request_n_seq(spec);
    fxi_live_request *r = calloc(1, sizeof *r + (size_t)n_seq * sizeof r->seq[0]);
    *out = NULL;
    if (!r) return fxi_fail(err, FX_ENOMEM, "no memory for a request");
    r->spec = *spec;
    r->n_seq = n_seq;
    if (!init_request(sv, r, now_us)) {
        fxi_request_free(r);
        return fxi_fail(err, FX_ENOMEM, "no memory for a request");
    }
    *out = r;
    return FX_OK;
}

void fxi_request_free(fxi_live_request *r)
{
    fxi_stops_free(&r->stops);
    disown_request(&r->spec);
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
