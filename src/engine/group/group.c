// group.c - one request as data: copied when it is submitted, ended, freed.
#include "engine/engine.h"
#include "engine/group/beam.h"

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

static int compare_ids(const void *a, const void *b)
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
    if (*n) qsort(id, *n, sizeof *id, compare_ids);
    for (size_t i = 0; i < *n; i++)
        if (!n_kept || id[i] != id[n_kept - 1]) id[n_kept++] = id[i];
    *n = n_kept;
    return true;
}

static bool copy_stops(fx_request *req)
{
    const char *const *from = req->stop;
    const char **copy = calloc(req->n_stop ? req->n_stop : 1, sizeof *copy);
    req->stop = copy;
    if (!copy) return false;
    for (size_t i = 0; i < req->n_stop; i++)
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

static bool copy_tenant(fx_request *req)
{
    req->tenant = strdup(req->tenant ? req->tenant : "");
    return req->tenant != NULL;
}

// Copies everything that the request points to. After a failure each pointer is a copy or NULL, so
// disown_request can free them all.
static bool own_request(fx_request *req)
{
    fx_sampling *s = &req->sampling;
    if (req->grammar) fx_grammar_retain(req->grammar);
    bool ok = copy_bytes((const void **)&req->prompt, req->n_prompt, sizeof *req->prompt);
    ok &= copy_set(&req->stop_token, &req->n_stop_token);
    ok &= copy_set(&req->show_token, &req->n_show_token);
    ok &= copy_bytes((const void **)&s->bias, s->n_bias, sizeof *s->bias);
    ok &= copy_set(&s->allow, &s->n_allow);
    ok &= copy_set(&s->ban, &s->n_ban);
    ok &= copy_runs(s);
    ok &= copy_tenant(req);
    return copy_stops(req) && ok;
}

static void disown_request(fx_request *req)
{
    for (size_t i = 0; req->stop && i < req->n_stop; i++) free((char *)req->stop[i]);
    free((void *)req->stop);
    free((void *)req->prompt);
    free((void *)req->stop_token);
    free((void *)req->show_token);
    free((void *)req->sampling.bias);
    free((void *)req->sampling.allow);
    free((void *)req->sampling.ban);
    for (size_t i = 0; req->sampling.ban_run && i < req->sampling.n_ban_run; i++)
        free((void *)req->sampling.ban_run[i].id);
    free((void *)req->sampling.ban_run);
    free((void *)req->tenant);
    fx_grammar_release(req->grammar);
}

// ---- making ------------------------------------------------------------------------------------

static bool only_control(const fx_engine *eng, const fx_request *req)
{
    for (size_t i = 0; i < req->n_prompt; i++)
        if (!fxi_vocab_control(eng->vocab, req->prompt[i])) return false;
    return true;
}

static void init_seqs(const fx_engine *eng, fxi_group *g)
{
    g->begins = fxi_decoder_begin(eng->vocab, only_control(eng, &g->req));
    for (int i = 0; i < g->n_seq; i++) {
        g->seq[i].group = g;
        g->seq[i].choice = i;
        fxi_seq_clear(&g->seq[i]);
    }
}

static bool make_client(const fx_engine *eng, fxi_group *g)
{
    g->client = fxi_clients_make(g->req.client, eng->secret);
    return g->client != NULL;
}

static bool make_first(fxi_group *g)
{
    fxi_seq *s = &g->seq[0];
    if (!fxi_seq_reserve(s, (int)g->req.n_prompt + 1)) return false;
    memcpy(s->tok, g->req.prompt, g->req.n_prompt * sizeof *s->tok);
    s->n_tok = (int)g->req.n_prompt;
    s->state = FXI_SEQ_LIVE;
    return true;
}

// Where both directions are read, keys and values belong to this text alone.
static bool make_embedding(const fx_engine *eng, fxi_group *g)
{
    const fxi_model_shape *s = fxi_model_get_shape(eng->model);
    if (!fxi_group_embeds(g)) return true;
    g->is_whole = !s->is_causal;
    g->req.no_cache |= g->is_whole;
    g->seq[0].pools_all = s->pooling != FXI_POOL_LAST;
    g->seq[0].embd = calloc((size_t)s->dim, sizeof *g->seq[0].embd);
    return g->seq[0].embd != NULL;
}

static bool make_end(const fx_engine *eng, fxi_group *g)
{
    const int n_eot = eng->n_end_tok, n_stop = (int)g->req.n_stop_token;
    g->end = malloc((size_t)(n_eot + n_stop + 1) * sizeof *g->end);
    if (!g->end) return false;
    if (n_eot) memcpy(g->end, eng->end_tok, (size_t)n_eot * sizeof *g->end);
    if (n_stop) memcpy(g->end + n_eot, g->req.stop_token, (size_t)n_stop * sizeof *g->end);
    g->n_end = n_eot + n_stop;
    return true;
}

static bool fill_group(const fx_engine *eng, fxi_group *g, uint64_t now_ms)
{
    g->max_tok = fxi_request_max_tok(eng, &g->req);
    g->n_left = g->req.n_choice;
    g->is_hidden = g->req.beam_width || g->n_seq > g->req.n_choice;
    g->submit_us = fxi_now_us(eng);
    g->order_ms = (int64_t)now_ms - (int64_t)g->req.priority * PRIORITY_MS;
    init_seqs(eng, g);
    bool ok = own_request(&g->req) && make_client(eng, g) && make_first(g) && make_end(eng, g) &&
              make_embedding(eng, g) && fxi_stops_make(&g->stops, g->req.stop, g->req.n_stop);
    return ok && (!g->req.beam_width || fxi_beam_make(g));
}

fx_status fxi_group_make(const fx_engine *eng, const fx_request *req, uint64_t now_ms,
                         fxi_group **out, fx_error *err)
{
    *out = NULL;
    const int n_seq = fxi_request_n_seq(req);
    fxi_group *g = calloc(1, sizeof *g + (size_t)n_seq * sizeof g->seq[0]);
    if (!g) return fxi_fail(err, FX_ENOMEM, "no memory for a request");
    g->req = *req;
    g->req.no_cache |= !fxi_kv_can(eng->kv, FXI_KV_PREFIX);
    g->n_seq = n_seq;
    if (!fill_group(eng, g, now_ms)) {
        fxi_group_free(g);
        return fxi_fail(err, FX_ENOMEM, "no memory for a request");
    }
    *out = g;
    return FX_OK;
}

void fxi_group_free(fxi_group *g)
{
    fxi_stops_free(&g->stops);
    disown_request(&g->req);
    for (int i = 0; i < g->n_seq; i++) fxi_seq_clear(&g->seq[i]);
    fxi_beam_free(g->beam);
    free(g->client); // where it was never posted
    free(g->end);
    free(g);
}

// ---- ending ------------------------------------------------------------------------------------

void fxi_group_finish(fxi_group *g, fx_finish why)
{
    for (int i = 0; i < g->n_seq; i++) {
        fxi_seq *s = &g->seq[i];
        s->n_step = 0;
        if (s->state != FXI_SEQ_DONE && s->finish == FX_FINISH_NONE) s->finish = why;
    }
}

void fxi_group_finish_cancelled(fxi_group *g)
{
    if (atomic_load(&g->cancelled)) fxi_group_finish(g, FX_FINISH_CANCEL);
}

void fxi_group_refuse(fxi_group *g, fx_status status, const char *error)
{
    for (int i = 0; i < g->n_seq; i++) {
        if (g->seq[i].finish != FX_FINISH_NONE) continue;
        g->seq[i].error = error;
        g->seq[i].error_status = status;
    }
    fxi_group_finish(g, FX_FINISH_ERROR);
}

void fxi_group_fail(fxi_group *g, const char *error)
{
    fxi_group_refuse(g, FX_EINTERNAL, error);
}

int fxi_group_n_live(const fxi_group *g)
{
    int n = 0;
    for (int i = 0; i < g->n_seq; i++) n += g->seq[i].state == FXI_SEQ_LIVE;
    return n;
}

bool fxi_group_is_done(const fxi_group *g)
{
    for (int i = 0; i < g->n_seq; i++)
        if (g->seq[i].state != FXI_SEQ_DONE) return false;
    return true;
}
