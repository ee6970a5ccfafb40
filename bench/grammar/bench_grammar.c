// bench_grammar - what a mask costs: schemas over a vocabulary, along the tokens of valid answers.
//
//   bench_grammar [--pre NAME] [--ahead] [--skip] VOCABULARY FORMS
//
// FORMS: JSON, an array of {"name", "schema", "texts"}: forms.json, and schemas.json with what
// programs ask for every day (test_gram_mask compares the masks of both). CSV on stdout:
// form,answers,tokens,
// compile_us,ahead_us,first_p50_us,first_p99_us,first_max_us,held,whole_p50_us,whole_p99_us,
// whole_max_us,again_p50_us,again_p99_us,again_max_us,masks,kib. Times are the thread's CPU
// time. `first`: of the engine's thread for a token, with a grammar that has just been compiled:
// what it may spend on finding out what comes next, and the mask with its copy; `whole`: with
// what the worker spends on it; `again`: with the same grammar and the same answers. held: of
// the first tokens, those that were left to the worker. With --ahead the worker has first found
// out what is likely to be asked for, for ahead_us. The row "all" has all tokens of all forms.
// With --skip a form that is refused and a text that is masked are named on stderr and left out;
// without, they end the program. A line on stderr tells the vocabulary's tokens and the time of
// its tries.
#include "base/json/json.h"
#include "base/system/regions.h" // defines: fxi_mapping_open
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "figures.h"
#include "format/vocab.h"
#include "grammar/matcher/gram_matcher.h"
#include "grammar/schema/schema.h"

enum { SPEND = 4000, N_AGAIN = 20 };

typedef struct form_times {
    samples first, whole, again; // us
    size_t n_held;
    int n_text;
} form_times;

typedef struct bench_world {
    fxi_vocab *vocab;
    fxi_gram_tokens tokens;
    uint64_t *mask;
    bool looks_ahead, may_skip;
} bench_world;

static void skip_or_die(const bench_world *w, const char *what, const char *why)
{
    if (!w->may_skip) die("%s: %s", what, why);
    fprintf(stderr, "left out: %s: %s\n", what, why);
}

// The sample at this share of the way from the least to the most; 0: there is none.
static double share_of(samples *s, double share)
{
    return s->n ? samples_at(s, share * (double)(s->n - 1) / (double)s->n + 1e-12) : 0;
}

static void open_vocab(bench_world *w, const char *path, const char *pre)
{
    fx_error err;
    if (fxi_vocab_open(path, pre, NULL, &w->vocab, &err) != FX_OK) die("%s: %s", path, err.text);
    const int n = fxi_vocab_size(w->vocab);
    fxi_str *token = calloc((size_t)n, sizeof *token);
    for (int32_t i = 0; i < n; i++) token[i].p = fxi_vocab_bytes(w->vocab, i, &token[i].n);
    const double start = thread_cpu_ns();
    if (fxi_gram_tokens_make(&w->tokens, token, (size_t)n, &err)) die("%s: %s", path, err.text);
    fprintf(stderr, "%d tokens, their tries in %.1f ms\n", n, (thread_cpu_ns() - start) / 1e6);
    w->mask = calloc(fxi_matcher_n_word((size_t)n), sizeof *w->mask);
    free(token);
}

// NULL: it is refused.
static fxi_gram_matcher *make_form_guide(bench_world *w, const fxi_json *form)
{
    fxi_gram g = {0};
    fxi_gram_json json;
    fxi_gram_matcher *guide = NULL;
    fx_error err;
    uint32_t node;
    const fxi_matcher_limits limits = {.max_set = 1 << 16, .max_mask = 256, .max_bytes = 16 << 20};
    if (fxi_gram_json_add(&g, &json, &err) ||
        fxi_schema_add(&g, &json, &(fxi_schema_ask){.schema = fxi_json_get(form, "schema")}, &node,
                       &err) ||
        fxi_gram_finish(&g, node, &err) ||
        fxi_gram_matcher_make(&g, &w->tokens, (fxi_matcher_speller){0}, limits, &guide, &err)) {
        fxi_gram_free(&g);
        skip_or_die(w, fxi_json_text(fxi_json_get(form, "name")), err.text);
    }
    return guide;
}

// What the worker does for a token that was left to it, in microseconds.
static double wait_for_worker(fxi_gram_matcher *guide, const fxi_ids *ids, size_t n,
                              fxi_match_state *at)
{
    const double start = thread_cpu_ns();
    for (bool is_ready = false; !is_ready && fxi_gram_matcher_work(guide);) {
        size_t left = 0;
        if (fxi_gram_matcher_prepare(guide, ids->id, n, at, false, &left, &is_ready, NULL)) break;
    }
    return (thread_cpu_ns() - start) / 1e3;
}

// The mask of one token, and its time: of the engine's thread, and as a whole.
static fx_status find_mask(bench_world *w, fxi_gram_matcher *guide, const fxi_ids *ids, size_t n,
                           fxi_match_state *at, form_times *t, fx_error *err)
{
    bool is_ready;
    size_t left = SPEND;
    double start = thread_cpu_ns(), worker_us = 0;
    FX_TRY(fxi_gram_matcher_prepare(guide, ids->id, n, at, false, &left, &is_ready, err));
    double us = (thread_cpu_ns() - start) / 1e3;
    t->n_held += !is_ready;
    if (!is_ready) worker_us = wait_for_worker(guide, ids, n, at);
    start = thread_cpu_ns();
    FX_TRY(fxi_gram_matcher_mask(guide, ids->id, n, at, w->mask, err));
    us += (thread_cpu_ns() - start) / 1e3;
    samples_add(&t->first, us);
    samples_add(&t->whole, us + worker_us);
    return FX_OK;
}

// The time of the mask before each token, which must allow it.
static fx_status follow_text(bench_world *w, fxi_gram_matcher *guide, const fxi_json *text,
                             form_times *t, fx_error *err)
{
    fxi_buf s = {0};
    fxi_ids ids = {0};
    fxi_match_state at = {0};
    fx_status st = FX_OK;
    if (!fxi_json_value(&s, text)) die("no memory");
    if (fxi_vocab_encode(w->vocab, s.p, s.n, 0, &ids, err)) die("%s: %s", s.p, err->text);
    fxi_buf_free(&s);
    for (size_t i = 0; !st && i < ids.n; i++) {
        st = find_mask(w, guide, &ids, i, &at, t, err);
        const uint32_t id = (uint32_t)ids.id[i];
        if (!st && !(w->mask[id / 64] >> (id % 64) & 1))
            st = fxi_fail(err, FX_EINVAL, "token %zu of an answer is masked", i);
    }
    fxi_ids_free(&ids);
    return st;
}

static void follow_texts(bench_world *w, fxi_gram_matcher *guide, const fxi_json *form,
                         form_times *t)
{
    const fxi_json *texts = fxi_json_get(form, "texts");
    for (size_t i = 0; i < fxi_json_array_size(texts); i++) {
        fx_error err;
        if (!follow_text(w, guide, fxi_json_at(texts, i), t, &err))
            t->n_text++;
        else
            skip_or_die(w, fxi_json_text(fxi_json_get(form, "name")), err.text);
    }
}

typedef struct form_row {
    const char *name;
    double compile_us, ahead_us;
    fxi_matcher_stats stats;
} form_row;

static void print_times(samples *t)
{
    printf("%.2f,%.2f,%.2f,", share_of(t, 0.5), share_of(t, 0.99), share_of(t, 1));
}

static void print_row(const form_row *r, form_times *t)
{
    printf("%s,%d,%zu,%.0f,%.0f,", r->name, t->n_text, t->first.n, r->compile_us, r->ahead_us);
    print_times(&t->first);
    printf("%zu,", t->n_held);
    print_times(&t->whole);
    print_times(&t->again);
    printf("%zu,%zu\n", r->stats.n_mask_made, r->stats.n_bytes >> 10);
}

static void free_times(form_times *t)
{
    samples_free(&t->first), samples_free(&t->whole), samples_free(&t->again);
}

static void run_form(bench_world *w, const fxi_json *form, form_times *all)
{
    form_times t = {0}, again = {0};
    double start = thread_cpu_ns();
    fxi_gram_matcher *guide = make_form_guide(w, form);
    form_row r = {.name = fxi_json_text(fxi_json_get(form, "name")),
                  .compile_us = (thread_cpu_ns() - start) / 1e3};
    if (!guide) return;
    start = thread_cpu_ns();
    while (w->looks_ahead && fxi_gram_matcher_work(guide)) continue;
    r.ahead_us = (thread_cpu_ns() - start) / 1e3;
    follow_texts(w, guide, form, &t);
    for (int i = 0; i < N_AGAIN; i++) follow_texts(w, guide, form, &again);
    t.again = again.first;
    r.stats = fxi_gram_matcher_read(guide);
    print_row(&r, &t);
    samples_join(&all->first, &t.first);
    samples_join(&all->whole, &t.whole);
    samples_join(&all->again, &t.again);
    all->n_text += t.n_text;
    all->n_held += t.n_held;
    samples_free(&again.whole);
    free_times(&t);
    fxi_gram_matcher_free(guide);
}

static const char *take_options(bench_world *w, int argc, char **argv, int *at)
{
    const char *pre = NULL;
    for (*at = 1; *at < argc && argv[*at][0] == '-'; ++*at)
        if (!strcmp(argv[*at], "--ahead"))
            w->looks_ahead = true;
        else if (!strcmp(argv[*at], "--skip"))
            w->may_skip = true;
        else if (!strcmp(argv[*at], "--pre") && *at + 1 < argc)
            pre = argv[++*at];
    if (argc != *at + 2) die("usage: [--pre NAME] [--ahead] [--skip] VOCABULARY FORMS");
    return pre;
}

int main(int argc, char **argv)
{
    bench_world w = {0};
    form_times all = {0};
    fxi_mapping file = {0};
    fxi_json_doc doc = {0};
    fx_error e;
    int at;
    const char *pre = take_options(&w, argc, argv, &at);
    open_vocab(&w, argv[at], pre);
    if (fxi_mapping_open(argv[at + 1], &file, &e) ||
        fxi_json_parse(&doc, (fxi_str){(const char *)file.data, file.size_bytes},
                       &(fxi_json_rules){0}, &e))
        die("%s: %s", argv[at + 1], e.text);
    const fxi_json *forms = doc.root;
    printf("form,answers,tokens,compile_us,ahead_us,first_p50_us,first_p99_us,first_max_us,held,"
           "whole_p50_us,whole_p99_us,whole_max_us,again_p50_us,again_p99_us,again_max_us,masks,"
           "kib\n");
    for (size_t i = 0; i < fxi_json_array_size(forms); i++)
        run_form(&w, fxi_json_at(forms, i), &all);
    print_row(&(form_row){.name = "all"}, &all);
    free_times(&all);
    fxi_json_doc_free(&doc);
    fxi_mapping_close(&file);
    fxi_gram_tokens_free(&w.tokens);
    fxi_vocab_free(w.vocab);
    free(w.mask);
    return 0;
}
