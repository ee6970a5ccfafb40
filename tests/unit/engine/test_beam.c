// test_beam.c - beam search and the ranking of choices against a simple reference of both, token
// for token.
//
// The reference keeps hypotheses as arrays and forks nothing: each step computes the logits of each
// hypothesis from its first token on. There are many stop tokens, so that hypotheses end at every
// length.
#include "unit/cmocka_all.h"

#include "base/number/rng.h"
#include "engine/iteration.h"
#include "engine/memory/kv_memory.h"
#include "unit/engine/support/company.h"
#include "unit/engine/support/unthreaded.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TOK = 64, MAX_WIDTH = 8, MAX_DONE = 4096, N_STOP = 48 };

// ---- the reference -----------------------------------------------------------------------------

typedef struct hyp {
    int32_t tok[MAX_TOK];
    int n; // prompt included
    double sum, score;
} hyp;

typedef struct search {
    fx_engine *eng;
    const fx_request *req;
    hyp live[MAX_WIDTH];
    int n_live;
    hyp done[MAX_DONE]; // in the order of ending
    int n_done;
} search;

static void logits_of(fx_engine *eng, const int32_t *tok, int n, float *out)
{
    fxi_kv_seq *s;
    assert_int_equal(fxi_kv_create(eng->kv, &(fxi_kv_expect){.begin_tok = n}, &s), FX_OK);
    assert_int_equal(fxi_kv_extend(eng->kv, s, n), FX_OK);
    fxi_batch_seq run = {.views = fxi_kv_get_views(eng->kv, s), .n_tok = n, .n_logit = 1};
    assert_int_equal(
        fxi_model_forward(
            eng->model, &(fxi_batch){.token = tok, .n_tok = n, .seq = &run, .n_seq = 1}, out, NULL),
        FX_OK);
    fxi_kv_release(eng->kv, s);
}

static bool is_in(const int32_t *list, size_t n, int32_t id)
{
    for (size_t i = 0; i < n; i++)
        if (list[i] == id) return true;
    return false;
}

static bool ends(const search *b, int32_t id)
{
    return is_in(b->req->stop_token, b->req->n_stop_token, id) ||
           (!b->req->ignore_eos && fxi_vocab_ends(b->eng->vocab, id));
}

static void apply_rules(const search *b, const hyp *h, float *logits, int n_vocab)
{
    const fx_sampling *s = &b->req->sampling;
    const int n_prompt = (int)b->req->n_prompt;
    for (int id = 0; id < n_vocab; id++) {
        bool early =
            h->n - n_prompt < s->min_tok && (ends(b, id) || fxi_vocab_ends(b->eng->vocab, id));
        if (is_in(s->ban, s->n_ban, id) || early) logits[id] = -INFINITY;
        if (s->repetition_penalty > 0 && is_in(h->tok, (size_t)h->n, id))
            logits[id] = logits[id] > 0 ? logits[id] / s->repetition_penalty
                                        : logits[id] * s->repetition_penalty;
    }
}

static void log_softmax(const float *logits, int n, double *out)
{
    double max = -INFINITY, sum = 0;
    for (int i = 0; i < n; i++) max = fmax(max, (double)logits[i]);
    for (int i = 0; i < n; i++) sum += exp((double)logits[i] - max);
    for (int i = 0; i < n; i++) out[i] = (double)logits[i] - max - log(sum);
}

typedef struct option {
    int parent;
    int32_t tok;
    double sum;
} option;

static int better(const void *a, const void *b)
{
    const option *x = a, *y = b;
    if (x->sum != y->sum) return x->sum > y->sum ? -1 : 1;
    return x->parent != y->parent ? x->parent - y->parent : x->tok - y->tok;
}

static int all_options(search *b, option *opt)
{
    const int n_vocab = b->eng->info.n_vocab;
    float *logits = malloc((size_t)n_vocab * sizeof *logits);
    double *lp = malloc((size_t)n_vocab * sizeof *lp);
    int n = 0;
    for (int i = 0; i < b->n_live; i++) {
        logits_of(b->eng, b->live[i].tok, b->live[i].n, logits);
        apply_rules(b, &b->live[i], logits, n_vocab);
        log_softmax(logits, n_vocab, lp);
        for (int32_t id = 0; id < n_vocab; id++)
            if (isfinite(lp[id])) opt[n++] = (option){i, id, b->live[i].sum + lp[id]};
    }
    free(logits);
    free(lp);
    qsort(opt, (size_t)n, sizeof *opt, better);
    return n;
}

static double score(const search *b, double sum, int n_generated)
{
    return sum / pow(n_generated, (double)b->req->length_penalty);
}

static void take(search *b, const option *o, hyp *next, int *n_next, int max_tok)
{
    hyp h = b->live[o->parent];
    h.tok[h.n++] = o->tok;
    h.sum = o->sum;
    const int n_gen = h.n - (int)b->req->n_prompt;
    h.score = score(b, h.sum, n_gen);
    bool may_end = n_gen >= b->req->sampling.min_tok;
    if ((may_end && ends(b, o->tok)) || n_gen == max_tok)
        b->done[b->n_done++] = h;
    else
        next[(*n_next)++] = h;
}

static int by_score(const void *a, const void *b)
{
    const hyp *x = a, *y = b;
    return x->score == y->score ? 0 : x->score > y->score ? -1 : 1;
}

static bool over(search *b, int max_tok)
{
    const int width = b->req->beam_width;
    if (!b->n_live) return true;
    if (b->n_done < width) return false;
    if (b->req->early_stop == FX_STOP_EARLY) return true;
    hyp sorted[MAX_DONE / 16];
    assert_true(b->n_done <= MAX_DONE / 16);
    memcpy(sorted, b->done, (size_t)b->n_done * sizeof sorted[0]);
    qsort(sorted, (size_t)b->n_done, sizeof sorted[0], by_score);
    int n_gen = b->live[0].n - (int)b->req->n_prompt;
    if (b->req->early_stop == FX_STOP_NEVER && b->req->length_penalty > 0) n_gen = max_tok;
    return score(b, b->live[0].sum, n_gen) <= sorted[width - 1].score;
}

static void search_plainly(search *b, int max_tok)
{
    const int width = b->req->beam_width;
    option *opt = malloc((size_t)(MAX_WIDTH * b->eng->info.n_vocab) * sizeof *opt);
    memcpy(b->live[0].tok, b->req->prompt, b->req->n_prompt * sizeof(int32_t));
    b->live[0].n = (int)b->req->n_prompt;
    b->n_live = 1;
    while (!over(b, max_tok)) {
        hyp next[MAX_WIDTH];
        int n = all_options(b, opt), n_next = 0;
        for (int i = 0; i < n && i < 2 * width && n_next < width; i++)
            take(b, &opt[i], next, &n_next, max_tok);
        memcpy(b->live, next, (size_t)n_next * sizeof next[0]);
        b->n_live = n_next;
    }
    free(opt);
    qsort(b->done, (size_t)b->n_done, sizeof b->done[0], by_score);
}

// ---- the comparison ----------------------------------------------------------------------------

static void compare(fx_engine *eng, client *c)
{
    static search b;
    memset(&b, 0, sizeof b);
    b.eng = eng;
    b.req = &c->req;
    search_plainly(&b, c->req.max_tok);
    assert_int_equal(client_submit(c, NULL), FX_OK);
    client_run(c);
    for (int k = 0; k < c->req.n_choice; k++) {
        const client_choice *ch = &c->choice[k];
        const int n_prompt = (int)c->req.n_prompt;
        assert_true(ch->finish == FX_FINISH_STOP || ch->finish == FX_FINISH_LENGTH);
        assert_int_equal(ch->n_tok, b.done[k].n - n_prompt);
        assert_memory_equal(ch->tok, b.done[k].tok + n_prompt, (size_t)ch->n_tok * sizeof(int32_t));
        assert_true(fabs(ch->score - b.done[k].score) < 1e-4);
    }
    client_free(c);
}

static void set_stops(client *c, int32_t *stop, uint64_t seed)
{
    for (int i = 0; i < N_STOP; i++)
        stop[i] = 3 + (int32_t)(fxi_rng_u64(seed, 1, (uint64_t)i) % 300);
    c->req.stop_token = stop;
    c->req.n_stop_token = N_STOP;
}

FX_TEST(test_beams_against_reference)
{
    static const float penalty[] = {1, 0, 2, -1};
    static const int width[] = {1, 2, 4, 8};
    fx_engine *eng = unthreaded_open(MODEL, (fx_options){.n_thread = 2});
    static client c;
    for (int i = 0; i < 48; i++) {
        int32_t stop[N_STOP];
        prompt p = make_prompt(i % N_REQUEST);
        if (p.n > 20) p.n = 20;
        client_init(&c, eng, p.tok, p.n, 10);
        c.req.beam_width = width[i % 4];
        c.req.n_choice = 1 + i % c.req.beam_width;
        c.req.length_penalty = penalty[i / 4 % 4];
        c.req.early_stop = (fx_early_stop)(i / 16);
        set_stops(&c, stop, (uint64_t)i);
        if (i % 3 == 1) c.req.sampling.min_tok = 4;
        if (i % 5 == 2) c.req.sampling.repetition_penalty = 1.3f;
        if (i % 7 == 3) c.req.sampling.ban = c.req.prompt, c.req.sampling.n_ban = p.n;
        compare(eng, &c);
    }
    unthreaded_close(eng);
}

// A stop string ends a hypothesis as a stop token does, and is not emitted.
FX_TEST(test_stop_string_in_a_beam)
{
    fx_engine *eng = unthreaded_open(MODEL, (fx_options){.n_thread = 1});
    static client plain, cut;
    prompt p = make_prompt(4);
    client_init(&plain, eng, p.tok, p.n, 12);
    plain.req.beam_width = 3;
    assert_int_equal(client_submit(&plain, NULL), FX_OK);
    client_run(&plain);
    size_t n_bytes = 0;
    const char *bytes = "";
    for (int i = 0; i < plain.choice[0].n_tok && !n_bytes; i++)
        bytes = fx_token_bytes(eng, plain.choice[0].tok[i], &n_bytes);
    char stop[64] = {0};
    memcpy(stop, bytes, n_bytes < 63 ? n_bytes : 63);
    client_init(&cut, eng, p.tok, p.n, 12);
    cut.req.beam_width = cut.req.n_choice = 3;
    cut.req.stop = (const char *const[]){stop};
    cut.req.n_stop = 1;
    assert_int_equal(client_submit(&cut, NULL), FX_OK);
    client_run(&cut);
    for (int k = 0; k < 3; k++) {
        const client_choice *ch = &cut.choice[k];
        assert_true(!ch->text.p || !strstr(ch->text.p, stop));
        assert_int_equal(ch->stop_string, ch->finish == FX_FINISH_STOP ? 0 : -1);
    }
    client_free(&plain);
    client_free(&cut);
    unthreaded_close(eng);
}

// ---- n_best ------------------------------------------------------------------------------------

static double mean(const client_choice *ch)
{
    double sum = 0;
    for (int i = 0; i < ch->n_tok; i++) sum += (double)ch->prob[i].logprob;
    return sum / ch->n_tok;
}

// All choices emitted one by one, then only the best of them.
FX_TEST(test_best_are_told)
{
    enum { N_ALL = 8, N_TOLD = 3 };
    fx_engine *eng = unthreaded_open(MODEL, (fx_options){.n_thread = 2});
    static client all, best;
    prompt p = make_prompt(5);
    client *both[] = {&all, &best};
    for (int i = 0; i < 2; i++) {
        client_init(both[i], eng, p.tok, p.n, 16);
        both[i]->req.sampling = (fx_sampling){.temperature = 1, .top_p = 1, .seed = 3};
        both[i]->req.logprobs = true;
        both[i]->req.n_top = 2;
    }
    all.req.n_choice = N_ALL;
    best.req.n_choice = N_TOLD;
    best.req.n_best = N_ALL;
    for (int i = 0; i < 2; i++) assert_int_equal(client_submit(both[i], NULL), FX_OK);
    for (int i = 0; i < 2; i++) client_run(both[i]);
    bool is_taken[N_ALL] = {false};
    for (int k = 0; k < N_TOLD; k++) {
        int top = -1;
        for (int i = 0; i < N_ALL; i++)
            if (!is_taken[i] && (top < 0 || mean(&all.choice[i]) > mean(&all.choice[top]))) top = i;
        is_taken[top] = true;
        const client_choice *want = &all.choice[top], *got = &best.choice[k];
        assert_int_equal(got->n_tok, want->n_tok);
        assert_memory_equal(got->tok, want->tok, (size_t)want->n_tok * sizeof(int32_t));
        assert_string_equal(got->text.p, want->text.p);
        assert_true(fabs(got->score - mean(want)) < 1e-9);
        for (int i = 0; i < want->n_tok; i++) {
            assert_true(got->prob[i].logprob == want->prob[i].logprob);
            assert_true(got->top[i].token == want->top[i].token);
        }
    }
    for (int i = 0; i < 2; i++) client_free(both[i]);
    unthreaded_close(eng);
}

FX_RUN(test_beam)
