// gpu_attention_speed.c - how fast attention is over batch x positions x KV heads, as CSV: of one
// decoded token per sequence or, with `prefill`, of the last 512 positions of each, after a prefix
// that is in the cache.
//
//     gpu_attention_speed [small] [prefill] [cpu-exact|batch-invariant]
//                         [plant-stride|plant-chunk|plant-hole]
//
// A case is run over several caches with the same keys and values (speed_rig.h): libvtensor's, as
// an engine has it, its chunks mapped in scattered order; plain memory laid out the same, and
// plain memory whose rows lie side by side; pages of 16 and 256 tokens.
//
// Before a case is timed its results are compared: libvtensor's memory must give the bits that all
// other caches give, in the first layer and, where they have it, the last; otherwise a line says
// so, and the program fails in the end. `plant-..` spoils libvtensor's cache to show that.
//
// All caches are there at once, and samples of one and another take turns, back and forth. `us` is
// the median over samples of the mean of launches given one after the other; `to_plain` the median
// of the samples' ratios to plain memory laid out the same. GB/s counts keys and values once;
// Tflop/s a multiplication and an addition for each number of a key and of a value that a query
// attends to.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/system/clock.h"
#include "speed_rig.h"

enum { N_SAMPLE = 9, MAX_LAUNCH = 32 };

#define SAMPLE_S 2e-3 // the least that a sample lasts, where that takes few launches

typedef struct speed_run {
    speed_rig rig;
    const char *math;
    bool small;
    speed_plant plant;
    int n_different; // comparisons that failed
    int n_case;      // on libvtensor's memory: their ratios to plain memory
    double ratio[256];
} speed_run;

// Jobs over the caches that there are.
typedef struct speed_field {
    int n_kind;
    speed_job job[SPEED_N_KIND];
    double us[SPEED_N_KIND][N_SAMPLE];
} speed_field;

// ---- results -----------------------------------------------------------------------------------

static size_t result_bytes(const speed_case *c)
{
    return (size_t)c->batch * (size_t)c->n_tok * SPEED_N_HEAD * SPEED_HEAD_DIM * sizeof(float);
}

static bool is_zero(const char *bytes, size_t n)
{
    size_t i = 0;
    while (i < n && !bytes[i]) i++;
    return i == n;
}

// What attention gives over a cache, in a layer.
static char *compute_result(speed_rig *r, const speed_case *c, speed_job *j, int layer)
{
    const size_t size_bytes = result_bytes(c);
    char *result = malloc(size_bytes);
    if (!result) exit(1);
    j->layer = layer;
    memset(result, 0, size_bytes);
    speed_send(r, r->out, result, size_bytes);
    speed_job_launch(j);
    speed_wait(r);
    speed_fetch(r, result, r->out, size_bytes);
    j->layer = 0;
    const fx_error err = {.text = "attention has computed nothing"};
    speed_must(is_zero(result, size_bytes) ? FX_EINTERNAL : FX_OK, &err);
    return result;
}

static void compare_layer(speed_run *run, const speed_case *c, speed_field *f, int layer)
{
    char *const want = compute_result(&run->rig, c, &f->job[SPEED_VTENSOR], layer);
    for (int kind = SPEED_VTENSOR + 1; kind < f->n_kind; kind++) {
        if (layer >= f->job[kind].cache->n_layer) continue;
        char *const got = compute_result(&run->rig, c, &f->job[kind], layer);
        if (memcmp(got, want, result_bytes(c)) != 0) {
            printf("# DIFFERENT: %s, layer %d: vTensor's memory against %s, %s\n", run->math, layer,
                   speed_memory_names[kind], speed_layout_names[kind]);
            run->n_different++;
        }
        free(got);
    }
    free(want);
}

// ---- times -------------------------------------------------------------------------------------

static double seconds_of(speed_job *j, int n)
{
    const double t0 = fxi_now_s();
    for (int i = 0; i < n; i++) speed_job_launch(j);
    speed_wait(j->r);
    return fxi_now_s() - t0;
}

static int launches_of_sample(speed_job *j)
{
    const double s = seconds_of(j, 1);
    const int n = s > 0 ? (int)(SAMPLE_S / s) : MAX_LAUNCH;
    return n < 1 ? 1 : n > MAX_LAUNCH ? MAX_LAUNCH : n;
}

static void time_field(speed_field *f, int n_sample)
{
    const int n = launches_of_sample(&f->job[SPEED_VTENSOR]);
    for (int i = 0; i < n_sample; i++)
        for (int k = 0; k < f->n_kind; k++) {
            const int kind = i % 2 ? f->n_kind - 1 - k : k;
            f->us[kind][i] = seconds_of(&f->job[kind], n) * 1e6 / n;
        }
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_value(const double *list, int n)
{
    double sorted[256];
    memcpy(sorted, list, (size_t)n * sizeof *list);
    qsort(sorted, (size_t)n, sizeof *sorted, by_value);
    return sorted[n / 2];
}

// ---- rows --------------------------------------------------------------------------------------

static double case_flop(const speed_case *c)
{
    const double attended = (double)c->n_tok * (c->n_pos - (c->n_tok - 1) / 2.0);
    return attended * c->batch * SPEED_N_HEAD * SPEED_HEAD_DIM * 4;
}

// The median of the ratios of samples taken next to each other.
static double ratio_to_plain(const speed_field *f, int n_sample)
{
    double ratio[N_SAMPLE];
    for (int i = 0; i < n_sample; i++) ratio[i] = f->us[SPEED_VTENSOR][i] / f->us[SPEED_PLAIN][i];
    return median_value(ratio, n_sample);
}

static void print_rows(speed_run *run, const speed_case *c, const speed_field *f, int n_sample)
{
    for (int kind = 0; kind < f->n_kind; kind++) {
        const double us = median_value(f->us[kind], n_sample);
        printf("%s,%s,%s,%d,%d,%d,%d,%d,%.1f,%.1f,%.2f,", run->math, speed_layout_names[kind],
               speed_memory_names[kind], f->job[kind].cache->n_layer, c->batch, c->n_pos, c->n_tok,
               c->n_kv_head, us, (double)speed_case_bytes(c) / us * 1e-3, case_flop(c) / us * 1e-6);
        if (kind == SPEED_VTENSOR) {
            const double ratio = ratio_to_plain(f, n_sample);
            printf("%.4f", ratio);
            run->ratio[run->n_case++] = ratio;
        }
        printf("\n");
    }
    fflush(stdout);
}

static void measure_field(speed_run *run, const speed_case *c, speed_field *f)
{
    const int n_sample = run->small ? 1 : N_SAMPLE;
    const int last = f->job[SPEED_VTENSOR].cache->n_layer - 1;
    compare_layer(run, c, f, 0);
    if (last) compare_layer(run, c, f, last);
    time_field(f, n_sample);
    print_rows(run, c, f, n_sample);
}

// ---- all cases ---------------------------------------------------------------------------------

static void measure_caches(speed_run *run, const speed_case *c, speed_cache *cache, int n_kind)
{
    speed_field f = {.n_kind = n_kind};
    speed_rig *r = &run->rig;
    speed_cache_plant(r, c, &cache[SPEED_VTENSOR], run->plant);
    for (int kind = 0; kind < n_kind; kind++)
        speed_job_open(&f.job[kind], r, c, &cache[kind], (speed_kind)kind);
    printf("# batch %d, %d positions, %d KV heads: %.0f %% of vTensor's chunks came after another "
           "sequence's\n",
           c->batch, c->n_pos, c->n_kv_head, cache[SPEED_VTENSOR].scattered * 100);
    measure_field(run, c, &f);
}

// With fewer caches where there is not memory for all.
static void measure_case(speed_run *run, const speed_case *c)
{
    speed_cache cache[SPEED_N_KIND];
    int n_kind = SPEED_N_KIND;
    if (c->n_tok > c->n_pos) return;
    while (n_kind > SPEED_PLAIN && !speed_caches_open(&run->rig, c, cache, n_kind)) n_kind--;
    if (n_kind <= SPEED_PLAIN) {
        printf("# batch %d, %d positions, %d KV heads: no memory for two caches\n", c->batch,
               c->n_pos, c->n_kv_head);
        return;
    }
    measure_caches(run, c, cache, n_kind);
    speed_caches_close(&run->rig, cache, n_kind);
}

static void measure_all(speed_run *run, bool prefill)
{
    static const int batch[] = {1, 4, 16, 64}, n_pos[] = {1024, 4096, 8192, 32768},
                     n_kv[] = {1, 4, 8, 32};
    const int n_batch = prefill ? 3 : 4;
    for (int i = 0; i < n_batch * 16; i++)
        measure_case(run, &(speed_case){.batch = batch[i / 16],
                                        .n_pos = n_pos[i / 4 % 4],
                                        .n_kv_head = n_kv[i % 4],
                                        .n_tok = prefill ? 512 : 1});
}

static void print_summary(const speed_run *run, bool prefill)
{
    if (!run->n_case) return;
    double most = 0;
    for (int i = 0; i < run->n_case; i++)
        if (run->ratio[i] > most) most = run->ratio[i];
    printf("# %s by %s on vTensor's memory: %.4f of the time on plain memory (median of %d "
           "cases), %.4f at most\n",
           prefill ? "prefill" : "decoding", run->math, median_value(run->ratio, run->n_case),
           run->n_case, most);
}

// ---- main --------------------------------------------------------------------------------------

static bool take_word(int *argc, char ***argv, const char *word)
{
    if (*argc < 2 || strcmp((*argv)[1], word) != 0) return false;
    ++*argv;
    --*argc;
    return true;
}

int main(int argc, char **argv)
{
    static const char *const plants[SPEED_N_PLANT] = {"", "plant-stride", "plant-chunk",
                                                      "plant-hole"};
    static speed_run run;
    run.small = take_word(&argc, &argv, "small");
    const bool prefill = take_word(&argc, &argv, "prefill");
    run.math = take_word(&argc, &argv, "cpu-exact") ? "cpu-exact" : "batch-invariant";
    (void)take_word(&argc, &argv, "batch-invariant");
    for (int i = 1; i < SPEED_N_PLANT; i++)
        if (take_word(&argc, &argv, plants[i])) run.plant = (speed_plant)i;
    if (argc > 1) return 2;
    const speed_limits small = {2, 48, prefill ? 8 : 1, 2},
                       real = {SPEED_MAX_BATCH / (prefill ? 4 : 1), 32768, prefill ? 512 : 1,
                               SPEED_MAX_LAYER};
    speed_rig_open(&run.rig, run.math, run.small ? &small : &real);
    printf("math,cache,memory,layers,batch,positions,new_tokens,kv_heads,us,gb_per_s,tflop_per_s,"
           "to_plain\n");
    const double per_s = speed_bandwidth(&run.rig, run.small ? 1 << 20 : (size_t)1 << 31);
    printf("bandwidth,,plain,,,,,,,%.1f,,\n", per_s * 1e-9);
    if (run.small)
        measure_case(&run, &(speed_case){2, 48, 8, prefill ? 8 : 1});
    else
        measure_all(&run, prefill);
    print_summary(&run, prefill);
    speed_rig_close(&run.rig);
    return run.n_different ? 1 : 0;
}
