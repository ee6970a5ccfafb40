// cmd_bench.c - prompt and decode speed through the engine, beside what the machine can do at most.
//
// One run submits `batch` requests of random prompts at once and times two phases:
//
//     submit ............ last sequence's first token ............ its token number 1 + gen
//            prompt phase                               decode phase
//
// Sequences that start earlier go on decoding until the end, so that the decode phase has the full
// batch throughout: in it every sequence makes `gen` tokens. Every prompt is new, so that no cache
// of earlier ones can help. Decoding is greedy and goes on after an end-of-text token.
#include "cli/cli.h"

#include <jansson.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/rng.h"

// ---- one run ------------------------------------------------------------------------------------

// Written by the engine's thread until `n_ended` == n_seq; the main thread sleeps meanwhile.
typedef struct run {
    int n_seq, n_gen;
    int n_started, last_started; // sequences that have a token; the one that got its first one last
    double submit_s, started_s, end_s; // end_s 0: the decode phase has not ended
    bool broken;                       // a sequence ended before the decode phase did
    char error[FX_ERROR_TEXT_BYTES];
    atomic_bool measured; // nothing more is to be learned: cancel
    atomic_int n_ended;
} run;

typedef struct slot { // what a request's callback gets
    run *r;
    int seq, n_tok;
    uint64_t id;
    bool submitted;
} slot;

static void note_token(run *r, slot *s)
{
    s->n_tok++;
    if (s->n_tok == 1 && ++r->n_started == r->n_seq) {
        r->last_started = s->seq;
        r->started_s = fxi_now_s();
    }
    if (r->n_started < r->n_seq || s->seq != r->last_started || s->n_tok != r->n_gen + 1) return;
    r->end_s = fxi_now_s();
    atomic_store(&r->measured, true);
    fxi_signals_wake();
}

static void note_end(run *r, const fx_event *ev)
{
    if (r->end_s == 0) {
        r->broken = true;
        if (ev->error) snprintf(r->error, sizeof r->error, "%s", ev->error);
        atomic_store(&r->measured, true);
    }
    atomic_fetch_add(&r->n_ended, 1);
    fxi_signals_wake();
}

static void on_event(void *ud, const fx_event *ev)
{
    slot *s = ud;
    if (ev->token >= 0) note_token(s->r, s);
    if (ev->last) note_end(s->r, ev);
}

typedef struct bench_state {
    fx_engine *eng;
    const fxi_cli_options *o;
    uint64_t n_prompt_made; // so that no two prompts are alike
    fx_machine machine;
} bench_state;

static fx_status submit_one(bench_state *b, slot *s, fx_error *err)
{
    int n_vocab = fx_engine_info(b->eng)->n_vocab, n = b->o->n_prompt;
    int32_t *id = malloc((size_t)n * sizeof *id);
    if (!id) return fxi_fail(err, FX_ENOMEM, "no memory for the prompt");
    for (int i = 0; i < n; i++)
        id[i] = (int32_t)(fxi_rng_u64(1, b->n_prompt_made, (uint64_t)i) % (uint64_t)n_vocab);
    b->n_prompt_made++;
    fx_request req = fx_request_default();
    req.prompt = id;
    req.n_prompt = (size_t)n;
    req.sampling.temperature = 0;
    req.ignore_eos = true;
    req.on_event = on_event;
    req.ud = s;
    fx_status st = fx_submit(b->eng, &req, &s->id, err);
    s->submitted = st == FX_OK;
    free(id);
    return st;
}

static void cancel_all(bench_state *b, const slot *s, int n_seq)
{
    for (int i = 0; i < n_seq; i++)
        if (s[i].submitted) fx_cancel(b->eng, s[i].id);
}

static fx_status submit_and_wait(bench_state *b, run *r, slot *s, fx_error *err)
{
    fx_status st = FX_OK;
    int n_submitted = 0;
    r->submit_s = fxi_now_s();
    for (; n_submitted < r->n_seq && st == FX_OK; n_submitted += st == FX_OK) {
        s[n_submitted] = (slot){.r = r, .seq = n_submitted};
        st = submit_one(b, &s[n_submitted], err);
    }
    bool cancelled = false;
    while (atomic_load(&r->n_ended) < n_submitted) {
        if (!cancelled && (st != FX_OK || atomic_load(&r->measured) || fxi_signals_stop())) {
            cancel_all(b, s, n_submitted);
            cancelled = true;
            continue;
        }
        fxi_signals_wait();
    }
    return st;
}

static fx_status one_run(bench_state *b, int n_seq, run *r, fx_error *err)
{
    slot *s = calloc((size_t)n_seq, sizeof *s);
    if (!s) return fxi_fail(err, FX_ENOMEM, "no memory for %d sequences", n_seq);
    *r = (run){.n_seq = n_seq, .n_gen = b->o->n_gen, .last_started = -1};
    fx_status st = submit_and_wait(b, r, s, err);
    free(s);
    FX_TRY(st);
    if (fxi_signals_stop()) return fxi_fail(err, FX_ECLOSED, "interrupted");
    if (r->error[0]) return fxi_fail(err, FX_EINTERNAL, "%s", r->error);
    if (r->broken)
        return fxi_fail(err, FX_ENOSPACE,
                        "batch %d: a sequence ended before all were measured: more --ctx or "
                        "--kv-memory, or less --gen "
                        "is needed",
                        n_seq);
    return FX_OK;
}

// ---- a line of the table: medians over the repeats ----------------------------------------------

typedef struct result {
    int batch;
    double prompt_tok_s, decode_tok_s; // all sequences together
    double first_token_s;              // from submit until every sequence has one
} result;

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, compare_doubles);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static fx_status repeat_runs(bench_state *b, int batch, double *prompt_s, double *decode_s,
                             fx_error *err)
{
    for (int i = 0; i < b->o->n_repeat; i++) {
        run r;
        FX_TRY(one_run(b, batch, &r, err));
        prompt_s[i] = r.started_s - r.submit_s;
        decode_s[i] = r.end_s - r.started_s;
    }
    return FX_OK;
}

static fx_status measure(bench_state *b, int batch, result *out, fx_error *err)
{
    int n = b->o->n_repeat;
    double *s = malloc(2 * (size_t)n * sizeof *s);
    if (!s) return fxi_fail(err, FX_ENOMEM, "no memory for %d repeats", n);
    fx_status st = repeat_runs(b, batch, s, s + n, err);
    if (st == FX_OK) {
        double prompt_s = median(s, n), decode_s = median(s + n, n);
        *out = (result){.batch = batch,
                        .first_token_s = prompt_s,
                        .prompt_tok_s = (double)batch * b->o->n_prompt / prompt_s,
                        .decode_tok_s = (double)batch * b->o->n_gen / decode_s};
    }
    free(s);
    return st;
}

// ---- what the figures mean for this machine -----------------------------------------------------

// The peak is the one of the arithmetic that the type runs in.
static double peak_gop_s(const bench_state *b)
{
    bool int8 = strcmp(fx_engine_info(b->eng)->type, "Q8_0") == 0 && b->machine.int8_gop_s > 0;
    return int8 ? b->machine.int8_gop_s : b->machine.fma_gflop_s;
}

// Linear layers only, two operations per multiply-add; a prompt needs one row of logits.
static double prompt_gop_s(const bench_state *b, const result *r)
{
    const fx_model_info *m = fx_engine_info(b->eng);
    double mul = (double)m->mul_per_prompt_tok + (double)m->mul_per_logit_row / b->o->n_prompt;
    return 2e-9 * mul * r->prompt_tok_s;
}

// Every step reads every weight once, whatever the batch.
static double decode_gb_s(const bench_state *b, const result *r)
{
    double bytes = (double)fx_engine_info(b->eng)->weight_bytes_per_pass;
    return 1e-9 * bytes * r->decode_tok_s / r->batch;
}

static double share(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

// ---- output -------------------------------------------------------------------------------------

static void print_table(const bench_state *b, const result *r, int n)
{
    const fx_model_info *m = fx_engine_info(b->eng);
    char params[FXI_SIZE_TEXT_BYTES], size[FXI_SIZE_TEXT_BYTES];
    printf("model    %s, %s, %s parameters, %s\n", m->name, m->type,
           fxi_cli_count(m->n_param, params), fxi_cli_size(m->file_bytes, size));
    printf("machine  %d threads, %s: reads %.1f GB/s, f32 FMA %.0f GFLOP/s, int8 %.0f GOP/s\n",
           m->n_thread, m->kernel_path, b->machine.read_gb_s, b->machine.fma_gflop_s,
           b->machine.int8_gop_s);
    printf("run      prompts of %d tokens, %d generated after each, median of %d\n\n",
           b->o->n_prompt, b->o->n_gen, b->o->n_repeat);
    printf("%5s %15s %10s %6s %15s %12s %6s\n", "batch", "prompt tokens/s", "GOP/s", "peak",
           "decode tokens/s", "weights GB/s", "peak");
    for (int i = 0; i < n; i++)
        printf("%5d %15.1f %10.1f %4.0f %% %15.1f %12.2f %4.0f %%\n", r[i].batch, r[i].prompt_tok_s,
               prompt_gop_s(b, &r[i]), 100 * share(prompt_gop_s(b, &r[i]), peak_gop_s(b)),
               r[i].decode_tok_s, decode_gb_s(b, &r[i]),
               100 * share(decode_gb_s(b, &r[i]), b->machine.read_gb_s));
}

static json_t *result_json(const bench_state *b, const result *r)
{
    return json_pack("{s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "batch", r->batch, "first_token_s",
                     r->first_token_s, "prompt_tok_s", r->prompt_tok_s, "prompt_gop_s",
                     prompt_gop_s(b, r), "prompt_share_of_peak",
                     share(prompt_gop_s(b, r), peak_gop_s(b)), "decode_tok_s", r->decode_tok_s,
                     "decode_weights_gb_s", decode_gb_s(b, r), "decode_share_of_bandwidth",
                     share(decode_gb_s(b, r), b->machine.read_gb_s));
}

static json_t *model_json(const fx_model_info *m)
{
    return json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:i}", "name", m->name, "arch", m->arch,
                     "type", m->type, "file_bytes", (json_int_t)m->file_bytes, "n_param",
                     (json_int_t)m->n_param, "kv_bytes_per_tok", (json_int_t)m->kv_bytes_per_tok,
                     "ctx_tok", m->ctx_tok);
}

static int print_json(const bench_state *b, const result *r, int n)
{
    const fx_model_info *m = fx_engine_info(b->eng);
    json_t *results = json_array();
    for (int i = 0; i < n; i++) json_array_append_new(results, result_json(b, &r[i]));
    json_t *all = json_pack("{s:s, s:o, s:{s:i, s:s, s:f, s:f, s:f}, s:i, s:i, s:i, s:o}",
                            "version", fx_version(), "model", model_json(m), "machine", "threads",
                            m->n_thread, "kernel_path", m->kernel_path, "read_gb_s",
                            b->machine.read_gb_s, "fma_gflop_s", b->machine.fma_gflop_s,
                            "int8_gop_s", b->machine.int8_gop_s, "prompt_tok", b->o->n_prompt,
                            "gen_tok", b->o->n_gen, "repeat", b->o->n_repeat, "results", results);
    if (!all) return fxi_cli_fail("no memory for the JSON text");
    json_dumpf(all, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    printf("\n");
    json_decref(all);
    return 0;
}

// ---- the command --------------------------------------------------------------------------------

static fx_status measure_all(bench_state *b, result *results, fx_error *err)
{
    const fx_model_info *m = fx_engine_info(b->eng);
    if ((int64_t)b->o->n_prompt + b->o->n_gen + 1 > m->ctx_tok)
        return fxi_fail(err, FX_EINVAL,
                        "--prompt %d and --gen %d do not fit the context of %d tokens",
                        b->o->n_prompt, b->o->n_gen, m->ctx_tok);
    for (int i = 0; i < b->o->batch.n; i++) FX_TRY(measure(b, b->o->batch.v[i], &results[i], err));
    return FX_OK;
}

static fxi_cli_options with_room(const fxi_cli_options *o)
{
    fxi_cli_options with = *o;
    for (int i = 0; i < o->batch.n; i++)
        if (o->batch.v[i] > with.max_seq) with.max_seq = o->batch.v[i];
    with.max_queue_tok = (uint64_t)with.max_seq * (uint64_t)o->n_prompt + 1;
    return with;
}

static int bench(bench_state *b)
{
    fx_error err;
    result results[FXI_OPT_MAX_INTS];
    if (!fxi_signals_catch()) return fxi_cli_fail("out of file descriptors");
    if (measure_all(b, results, &err) != FX_OK)
        return fxi_signals_stop() ? FXI_EXIT_SIGNAL + fxi_signals_stop()
                                  : fxi_cli_fail("%s", err.text);
    if (b->o->json) return print_json(b, results, b->o->batch.n);
    print_table(b, results, b->o->batch.n);
    return 0;
}

int fxi_cmd_bench(const fxi_cli_options *o, const fxi_opt_rest *rest)
{
    (void)rest;
    fx_error err;
    bench_state b = {.o = o};
    fxi_cli_options with = with_room(o);
    if (fx_measure_machine(o->n_thread, &b.machine, &err) != FX_OK)
        return fxi_cli_fail("%s", err.text);
    if (fxi_cli_open(&with, &b.eng, &err) != FX_OK) return fxi_cli_fail("%s", err.text);
    int rc = bench(&b);
    fx_engine_close(b.eng);
    return rc;
}
