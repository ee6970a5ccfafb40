// lease_whole.c - a whole model on a GPU, with weights made on the device, as CSV:
//
//     lease_whole MODEL [small]
//
//   decode   tokens per second of sequences that decode together, by batch and manager (vTensor's
//            figure 9), and the memory that they take (its figure 2); pass_mib of weights are read
//            for each token of all
//   shared   the same requests after one prompt, with the prefix cache and without (figure 10)
//   load     memory as requests come and go, turn by turn (figure 11)
//   growth   steps that follow new mappings against those that do not: the median of each
//   idle     how long the turn takes that gives idle memory back
//
// MODEL is what `make_model --holes` writes: its weights are 0, and are overwritten on the device
// by random numbers of 16 bits up to 0.02; norms, of 32 bits, become such numbers, too. What the
// model says is of no use; how fast it says it does not depend on that.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/system/clock.h"
#include "engine/iteration.h"
#include "gpu/gpu_impl.h"

enum { MAX_REQUEST = 64, MAX_PROMPT = 4096, PATTERN_BYTES = 8 << 20, MAX_TURN = 4096, IDLE_S = 30 };

typedef struct whole_sizes {
    int batch[4], n_batch;
    int n_prompt, n_gen, n_shared, ctx_tok;
    uint64_t kv_bytes; // 0: what is left
} whole_sizes;

static const whole_sizes real_sizes = {{1, 8, 32, 64}, 4, 512, 128, 2048, 4096, 0};
static const whole_sizes small_sizes = {{1, 3}, 2, 24, 6, 32, 128, 8 << 20};

typedef struct whole_request {
    int32_t prompt[MAX_PROMPT];
    int n_tok; // of the answer so far
    bool ended;
} whole_request;

static whole_request requests[MAX_REQUEST];
static uint64_t clock_now_us;

static void must_be_ok(fx_status st, const fx_error *err)
{
    if (st == FX_OK) return;
    fprintf(stderr, "%s\n", err->text);
    exit(1);
}

// ---- the engine and its weights ----------------------------------------------------------------

// bf16 numbers of -0.02 to 0.02.
static void fill_pattern(uint16_t *to, size_t n)
{
    uint32_t seed = 1;
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525 + 1013904223;
        to[i] = fxi_f32_to_bf16(((float)(seed >> 8) / (float)(1 << 24) - 0.5f) * 0.04f);
    }
}

static void make_weights(fx_engine *eng)
{
    fxi_gpu *g = fxi_gpu_of(eng->device);
    fx_error err = {0};
    void *pattern = NULL;
    must_be_ok(fxi_cu_enter(&g->cu, &err), &err);
    must_be_ok(fxi_cu_pin(&g->cu, PATTERN_BYTES, &pattern, &err), &err);
    fill_pattern(pattern, PATTERN_BYTES / sizeof(uint16_t));
    for (const fxi_gpu_slab *s = g->weights.newest; s; s = s->next)
        for (size_t at = 0; at < s->size_bytes; at += PATTERN_BYTES) {
            const size_t left = s->size_bytes - at, n = left < PATTERN_BYTES ? left : PATTERN_BYTES;
            must_be_ok(fxi_cu_upload(&g->cu, g->cu.compute, s->at + at, pattern, n, &err), &err);
        }
    must_be_ok(fxi_cu_wait(&g->cu, g->cu.compute, &err), &err);
    fxi_cu_unpin(&g->cu, pattern);
    fxi_cu_leave(&g->cu, FX_OK);
}

static uint64_t read_test_clock(void *ud)
{
    (void)ud;
    return clock_now_us;
}

static fx_engine *open_whole(const char *path, const char *manager, const whole_sizes *z)
{
    fx_error err = {0};
    const fx_options opt = {.model_path = path,
                            .device = "cuda:0",
                            .gpu_math = "batch-invariant",
                            .kv_manager = manager,
                            .ctx_tok = z->ctx_tok,
                            .kv_memory_bytes = z->kv_bytes,
                            .max_seq = MAX_REQUEST};
    fx_engine *eng = calloc(1, sizeof *eng);
    if (!eng) exit(1);
    must_be_ok(fxi_engine_init(eng, &err), &err);
    must_be_ok(fxi_engine_load(eng, &opt, &err), &err);
    make_weights(eng);
    return eng;
}

static void close_whole(fx_engine *eng)
{
    fxi_iteration_end_all(eng, FX_FINISH_ABORT);
    fxi_engine_unload(eng);
}

// ---- requests ----------------------------------------------------------------------------------

static void count_event(void *ud, const fx_event *ev)
{
    whole_request *r = ud;
    if (ev->error) {
        fprintf(stderr, "%s\n", ev->error);
        exit(1);
    }
    if (ev->token >= 0 && ev->position >= ev->n_prompt) r->n_tok++;
    r->ended |= ev->last;
}

// Prompts differ from their token n_same on, and from those of earlier calls from the first.
static void submit_whole(fx_engine *eng, int i, int n_same, int n_own, int n_gen, bool no_cache)
{
    static int32_t n_call;
    whole_request *r = &requests[i];
    fx_error err = {0};
    uint64_t id;
    *r = (whole_request){.n_tok = 0};
    n_call++;
    for (int t = 0; t < n_same + n_own; t++)
        r->prompt[t] = 3 + (t < n_same ? t * 7 : t * 13 + n_call * 31) % 500;
    fx_request req = fx_request_default();
    req.prompt = r->prompt;
    req.n_prompt = (size_t)(n_same + n_own);
    req.max_tok = n_gen;
    req.sampling.temperature = 0;
    req.ignore_eos = true;
    req.no_cache = no_cache;
    req.on_event = count_event;
    req.ud = r;
    must_be_ok(fx_submit(eng, &req, &id, &err), &err);
}

static int tokens_of(int n)
{
    int sum = 0;
    for (int i = 0; i < n; i++) sum += requests[i].n_tok;
    return sum;
}

static bool all_began(int n)
{
    for (int i = 0; i < n; i++)
        if (requests[i].n_tok < 2 && !requests[i].ended) return false;
    return true;
}

static bool all_ended(int n)
{
    for (int i = 0; i < n; i++)
        if (!requests[i].ended) return false;
    return true;
}

static double mib_of(uint64_t bytes)
{
    return (double)bytes / (1 << 20);
}

// ---- decode ------------------------------------------------------------------------------------

static void run_decode(fx_engine *eng, const char *manager, const whole_sizes *z, int batch)
{
    fxi_kv_stats s;
    for (int i = 0; i < batch; i++) submit_whole(eng, i, 0, z->n_prompt, z->n_gen, true);
    const double t0 = fxi_now_s();
    while (!all_began(batch)) (void)fxi_iteration_run(eng);
    const double t1 = fxi_now_s();
    const int from = tokens_of(batch);
    for (int i = 0; i < z->n_gen / 2; i++) (void)fxi_iteration_run(eng);
    const double t2 = fxi_now_s();
    fxi_kv_get_stats(eng->kv, &s);
    printf("decode,%s,%d,%d,%.1f,%.1f,%.1f,%.1f,%.1f\n", manager, batch, z->n_prompt,
           (tokens_of(batch) - from) / (t2 - t1), batch * z->n_prompt / (t1 - t0),
           mib_of(s.mapped_bytes), mib_of(s.live_bytes), mib_of(eng->model->shape.pass_bytes));
    fflush(stdout);
    while (!all_ended(batch)) (void)fxi_iteration_run(eng);
}

// ---- shared prompts ----------------------------------------------------------------------------

static void run_shared(fx_engine *eng, const char *manager, const whole_sizes *z, bool no_cache)
{
    const int n = z->batch[z->n_batch - 1], n_own = z->n_prompt / 8;
    submit_whole(eng, 0, z->n_shared, n_own, 1, no_cache);
    while (!all_ended(1)) (void)fxi_iteration_run(eng);
    for (int i = 0; i < n; i++) submit_whole(eng, i, z->n_shared, n_own, z->n_gen, no_cache);
    const double t0 = fxi_now_s();
    while (!all_ended(n)) (void)fxi_iteration_run(eng);
    printf("shared,%s%s,%d,%d,%.1f,,,,\n", manager, no_cache ? " without the cache" : "", n,
           z->n_shared, tokens_of(n) / (fxi_now_s() - t0));
    fflush(stdout);
}

// ---- load, growth, idle memory -----------------------------------------------------------------

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(double *list, int n)
{
    qsort(list, (size_t)n, sizeof *list, by_value);
    return n ? list[n / 2] : 0;
}

// Requests come one per turn and end one by one; the time of each turn in which all decode goes to
// one of two lists, by whether memory was mapped since the turn before.
static void run_load(fx_engine *eng, const char *manager, const whole_sizes *z)
{
    static double with[MAX_TURN], without[MAX_TURN];
    const int n = z->batch[z->n_batch - 1];
    int n_with = 0, n_without = 0, n_turn = 0;
    uint64_t before = 0;
    for (int i = 0; i < n; i++) submit_whole(eng, i, 0, z->n_prompt, z->n_gen + i, true);
    for (; !all_ended(n) && n_turn < MAX_TURN; n_turn++) {
        fxi_kv_stats s;
        const bool steady = all_began(n) && !requests[0].ended;
        const double t0 = fxi_now_s();
        (void)fxi_iteration_run(eng);
        const double us = (fxi_now_s() - t0) * 1e6;
        fxi_kv_get_stats(eng->kv, &s);
        if (steady && s.mapped_bytes > before)
            with[n_with++] = us;
        else if (steady)
            without[n_without++] = us;
        before = s.mapped_bytes;
        if (n_turn % 8 == 0)
            printf("load,%s,%d,%d,,,%.1f,%.1f,\n", manager, n, n_turn, mib_of(s.mapped_bytes),
                   mib_of(s.live_bytes));
    }
    const double a = median_of(with, n_with), b = median_of(without, n_without);
    if (n_with && n_without) printf("growth,%s,%d,%d,%.3f,,,,\n", manager, n, n_with, a / b);
}

// The longest of the turns in which memory goes back, until no more does.
static void run_idle(fx_engine *eng, const char *manager)
{
    fxi_kv_stats s, after;
    double longest_s = 0;
    fxi_kv_get_stats(eng->kv, &s);
    clock_now_us = (uint64_t)(fxi_now_s() * 1e6);
    eng->journal.now_us = read_test_clock;
    (void)fxi_iteration_run(eng);
    clock_now_us += 600u * 1000000;
    const double end = fxi_now_s() + IDLE_S;
    do {
        const double t0 = fxi_now_s();
        (void)fxi_iteration_run(eng);
        const double took_s = fxi_now_s() - t0;
        if (took_s > longest_s) longest_s = took_s;
    } while (eng->memory.returning_bytes && fxi_now_s() < end);
    fxi_kv_get_stats(eng->kv, &after);
    printf("idle,%s,,,%.6f,,%.1f,%.1f,\n", manager, longest_s, mib_of(s.mapped_bytes),
           mib_of(after.mapped_bytes));
}

static void measure_manager(const char *path, const char *manager, const whole_sizes *z)
{
    fx_engine *eng = open_whole(path, manager, z);
    for (int b = 0; b < z->n_batch; b++) run_decode(eng, manager, z, z->batch[b]);
    run_shared(eng, manager, z, false);
    run_shared(eng, manager, z, true);
    run_load(eng, manager, z);
    run_idle(eng, manager);
    close_whole(eng);
}

int main(int argc, char **argv)
{
    const whole_sizes *z = argc > 2 && strcmp(argv[2], "small") == 0 ? &small_sizes : &real_sizes;
    if (argc < 2) return 2;
    printf(
        "figure,manager,batch,tokens,per_s_or_ratio,prompt_per_s,mapped_mib,live_mib,pass_mib\n");
    measure_manager(argv[1], "vtensor", z);
    measure_manager(argv[1], "paged", z);
    return 0;
}
