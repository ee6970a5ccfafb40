// bench_grammar - what a mask costs: schemas over a vocabulary, along the tokens of valid answers.
//
//   bench_grammar [--pre NAME] [--ahead] VOCABULARY FORMS
//
// FORMS: JSON, an array of {"name", "schema", "texts"}. CSV on stdout: form,answers,tokens,
// compile_us,ahead_us,first_p50_us,first_p99_us,first_max_us,held,again_p50_us,again_p99_us,
// again_max_us,masks,kib. Times are the thread's CPU time. `first`: of the engine's thread for a
// token, with a grammar that has just been compiled: what it may spend on finding out what comes
// next, and the mask with its copy; `again`: with the same grammar and the same answers. held: of
// the first tokens, those that were left to the worker. With --ahead the worker has first found out
// what is likely to be asked for, for ahead_us. The row "all" has all tokens of all forms. A line
// on stderr tells the vocabulary's tokens and the time of its tries.
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/fail.h"
#include "figures.h"
#include "format/vocab.h"
#include "grammar/guide/gram_guide.h"
#include "grammar/schema/schema.h"

enum { MAX_TIME = 100000, SPEND = 4000 };

typedef struct time_list {
    double us[MAX_TIME];
    int n, n_held;
} time_list;

typedef struct bench_world {
    fxi_vocab *vocab;
    fxi_gram_tokens tokens;
    uint64_t *mask;
    bool looks_ahead;
} bench_world;

static void die_with(const char *what, const char *why)
{
    fprintf(stderr, "bench_grammar: %s: %s\n", what, why);
    exit(1);
}

// Other processes do not count.
static double cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static int compare_times(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double share_of(time_list *t, double share)
{
    qsort(t->us, (size_t)t->n, sizeof *t->us, compare_times);
    return t->n ? t->us[(int)(share * (t->n - 1))] : 0;
}

static void open_vocab(bench_world *w, const char *path, const char *pre)
{
    fx_error err;
    if (fxi_vocab_open(path, pre, NULL, &w->vocab, &err) != FX_OK) die_with(path, err.text);
    const int n = fxi_vocab_size(w->vocab);
    fxi_str *token = calloc((size_t)n, sizeof *token);
    for (int32_t i = 0; i < n; i++) token[i].p = fxi_vocab_bytes(w->vocab, i, &token[i].n);
    const double start = cpu_ns();
    if (fxi_gram_tokens_make(&w->tokens, token, (size_t)n, &err)) die_with(path, err.text);
    fprintf(stderr, "%d tokens, their tries in %.1f ms\n", n, (cpu_ns() - start) / 1e6);
    w->mask = calloc(fxi_guide_n_word((size_t)n), sizeof *w->mask);
    free(token);
}

static fxi_guide *make_form_guide(bench_world *w, const json_t *form)
{
    fxi_gram g = {0};
    fxi_gram_json json;
    fxi_guide *guide;
    fx_error err;
    uint32_t node;
    const fxi_guide_limits limits = {.max_set = 1 << 14, .max_mask = 256};
    if (fxi_gram_json_add(&g, &json, &err) ||
        fxi_schema_add(&g, &json, json_object_get(form, "schema"), &node, &err) ||
        fxi_gram_finish(&g, node, &err) ||
        fxi_guide_make(&g, &w->tokens, (fxi_guide_speller){0}, limits, &guide, &err))
        die_with(json_string_value(json_object_get(form, "name")), err.text);
    return guide;
}

static fxi_ids tokens_of_text(bench_world *w, const json_t *text)
{
    fxi_ids ids = {0};
    fx_error err;
    char *s = json_dumps(text, JSON_REAL_PRECISION(15));
    if (fxi_vocab_encode(w->vocab, s, strlen(s), 0, &ids, &err)) die_with(s, err.text);
    free(s);
    return ids;
}

static void fail_form(fx_error *err)
{
    die_with("mask", err->text);
}

// What the engine's thread does for a token; false: it was left to the worker, which does it.
static bool find_mask(bench_world *w, fxi_guide *guide, const fxi_ids *ids, size_t n,
                      fxi_guide_place *at, double *us)
{
    fx_error err;
    bool is_ready;
    size_t left = SPEND;
    double start = cpu_ns();
    if (fxi_guide_prepare(guide, ids->id, n, at, false, &left, &is_ready, &err)) fail_form(&err);
    *us = (cpu_ns() - start) / 1e3;
    const bool is_ready_at_once = is_ready;
    while (!is_ready && fxi_guide_work(guide)) {
        left = 0;
        if (fxi_guide_prepare(guide, ids->id, n, at, false, &left, &is_ready, &err))
            fail_form(&err);
        if (is_ready) break;
    }
    start = cpu_ns();
    if (fxi_guide_mask(guide, ids->id, n, at, w->mask, &err)) fail_form(&err);
    *us += (cpu_ns() - start) / 1e3;
    return is_ready_at_once;
}

// The time of the mask before each token, which must allow it.
static void follow_text(bench_world *w, fxi_guide *guide, const json_t *text, time_list *out)
{
    fxi_ids ids = tokens_of_text(w, text);
    fxi_guide_place at = {0};
    for (size_t i = 0; i < ids.n && out->n < MAX_TIME; i++) {
        out->n_held += !find_mask(w, guide, &ids, i, &at, &out->us[out->n]);
        out->n++;
        const uint32_t id = (uint32_t)ids.id[i];
        if (!(w->mask[id / 64] >> (id % 64) & 1)) die_with("a valid answer", "is masked");
    }
    fxi_ids_free(&ids);
}

static void follow_texts(bench_world *w, fxi_guide *guide, const json_t *texts, time_list *out)
{
    for (size_t i = 0; i < json_array_size(texts); i++)
        follow_text(w, guide, json_array_get(texts, i), out);
}

static void add_times(time_list *to, const time_list *from)
{
    to->n_held += from->n_held;
    for (int i = 0; i < from->n && to->n < MAX_TIME; i++) to->us[to->n++] = from->us[i];
}

typedef struct form_row {
    const char *name;
    size_t n_text;
    double compile_us, ahead_us;
    fxi_guide_stats stats;
} form_row;

static void print_row(const form_row *r, time_list *first, time_list *again)
{
    printf("%s,%zu,%d,%.0f,%.0f,%.2f,%.2f,%.2f,%d,%.2f,%.2f,%.2f,%zu,%zu\n", r->name, r->n_text,
           first->n, r->compile_us, r->ahead_us, share_of(first, 0.5), share_of(first, 0.99),
           share_of(first, 1), first->n_held, share_of(again, 0.5), share_of(again, 0.99),
           share_of(again, 1), r->stats.n_mask_made, r->stats.n_bytes >> 10);
}

static double us_since(double start_ns)
{
    return (cpu_ns() - start_ns) / 1e3;
}

static void run_form(bench_world *w, const json_t *form, time_list *all_first, time_list *all_again)
{
    static time_list first, again;
    const json_t *texts = json_object_get(form, "texts");
    double start = cpu_ns();
    fxi_guide *guide = make_form_guide(w, form);
    form_row r = {.name = json_string_value(json_object_get(form, "name")),
                  .n_text = json_array_size(texts),
                  .compile_us = us_since(start)};
    start = cpu_ns();
    while (w->looks_ahead && fxi_guide_work(guide)) continue;
    r.ahead_us = us_since(start);
    first.n = again.n = first.n_held = 0;
    follow_texts(w, guide, texts, &first);
    for (int i = 0; i < 20; i++) follow_texts(w, guide, texts, &again);
    add_times(all_first, &first);
    add_times(all_again, &again);
    r.stats = fxi_guide_read(guide);
    print_row(&r, &first, &again);
    fxi_guide_free(guide);
}

static const char *take_options(bench_world *w, int argc, char **argv, int *at)
{
    const char *pre = NULL;
    for (*at = 1; *at < argc && argv[*at][0] == '-'; ++*at)
        if (!strcmp(argv[*at], "--ahead"))
            w->looks_ahead = true;
        else if (!strcmp(argv[*at], "--pre") && *at + 1 < argc)
            pre = argv[++*at];
    if (argc != *at + 2) die_with("usage", "[--pre NAME] [--ahead] VOCABULARY FORMS");
    return pre;
}

int main(int argc, char **argv)
{
    static time_list first, again;
    bench_world w = {0};
    json_error_t e;
    int at;
    const char *pre = take_options(&w, argc, argv, &at);
    open_vocab(&w, argv[at], pre);
    json_t *forms = json_load_file(argv[at + 1], 0, &e);
    if (!forms) die_with(argv[at + 1], e.text);
    printf("form,answers,tokens,compile_us,ahead_us,first_p50_us,first_p99_us,first_max_us,held,"
           "again_p50_us,again_p99_us,again_max_us,masks,kib\n");
    for (size_t i = 0; i < json_array_size(forms); i++)
        run_form(&w, json_array_get(forms, i), &first, &again);
    print_row(&(form_row){.name = "all"}, &first, &again);
    json_decref(forms);
    fxi_gram_tokens_free(&w.tokens);
    fxi_vocab_free(w.vocab);
    free(w.mask);
    return 0;
}
