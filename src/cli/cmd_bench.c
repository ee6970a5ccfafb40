// cmd_bench.c - `flexinfer bench`: prompt and decode speed through the engine.
#include "base/number/dtype.h"
#include "base/number/rng.h"
#include "base/system/clock.h"
#include "cli/cli.h" // defines: fxi_cli_options, fxi_opt_ints
#include "cli/terminal/terminal.h"

#include "base/json/json.h"
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// One phase at one batch and length. Medians over the repeats; rates are of all sequences together.
typedef struct bench_row {
    int batch;
    int n_tok;       // prompt: tokens of each; decode: generated after each
    int context;     // decode: tokens in each cache at the start, at least; prompt: 0
    double mean_ctx; // decode: mean tokens in a sequence's cache over the phase
    double tok_s;
    double limit_tok_s;     // the most that the machine could do
    const char *limited_by; // what sets that limit: "memory" or "arithmetic"
    double share;           // of the limit,
    double scaled_share;    // and of that with int8_scaled_gop_s as the peak of block types
} bench_row;

#define MAX_ROWS (FXI_OPT_MAX_INTS * FXI_OPT_MAX_INTS)

enum { PROMPT, DECODE, N_PHASE };
static const char *const phase_name[N_PHASE] = {"prompt", "decode"};

typedef struct bench {
    const fxi_cli_options *o;
    fx_engine *eng;
    uint64_t n_prompt_made;       // makes each prompt different
    fxi_opt_ints batch;           // defaults filled in, no repeats,
    fxi_opt_ints length[N_PHASE]; // as these: tokens of each prompt; in each cache
    fx_model_info model;
    fx_machine machine;
    bool is_table, shows_progress;
    int n_row[N_PHASE]; // for each batch, each length
    bench_row row[N_PHASE][MAX_ROWS];
} bench;

// ---- the runs -----------------------------------------------------------------------------------

// One run submits `batch` requests of random prompts of one length at once and times two phases:
//
//     submit ............ last sequence's first token ............ its token number 1 + gen
//            prompt phase                               decode phase
//
// Sequences that start earlier decode until the end. So the decode phase has the full batch
// throughout, and every sequence makes `gen` tokens in it. How far the first is ahead of the last
// depends on the scheduler alone, not on how fast the requests were submitted: no sequence gets its
// second token before all requests are in. Otherwise, on a loaded machine, the first could reach
// the end of its context while others were still to come. Every prompt is new, so no cached prefix
// helps. Decoding is greedy and continues after an end-of-text token.

// The engine's thread writes it until `n_ended` == n_seq; the main thread sleeps meanwhile.
typedef struct timed_run {
    int n_seq, n_gen;
    pthread_mutex_t submitting;  // held by the main thread until all requests are submitted
    int n_started, last_started; // sequences that have a token; the one that got its first one last
    int64_t n_emitted, n_ahead;  // tokens of all sequences: so far; before the decode phase began
    double submit_s, started_s, end_s; // end_s 0: the decode phase has not ended
    bool broken;                       // a sequence ended before the decode phase did
    char error[FX_ERROR_TEXT_BYTES];
    atomic_bool measured; // done or failed: cancel the rest
    atomic_int n_ended;
} timed_run;

typedef struct timed_seq { // what a request's callback gets
    timed_run *r;
    int seq, n_tok;
    uint64_t id;
} timed_seq;

// The first token of a run holds the engine until all requests are submitted. A callback must not
// block other requests, but all requests of this engine are ours.
static void note_event(void *ud, const fx_event *ev)
{
    timed_seq *s = ud;
    timed_run *r = s->r;
    if (ev->token >= 0) {
        if (r->n_emitted == 0) {
            pthread_mutex_lock(&r->submitting);
            pthread_mutex_unlock(&r->submitting);
        }
        s->n_tok++;
        r->n_emitted++;
        if (s->n_tok == 1 && ++r->n_started == r->n_seq) {
            r->last_started = s->seq;
            r->n_ahead = r->n_emitted - r->n_seq;
            r->started_s = fxi_now_s();
        }
        if (r->n_started == r->n_seq && s->seq == r->last_started && s->n_tok == r->n_gen + 1) {
            r->end_s = fxi_now_s();
            atomic_store(&r->measured, true);
            fxi_signals_wake();
        }
    }
    if (!ev->last) return;
    if (r->end_s == 0) {
        r->broken = true;
        if (ev->error) snprintf(r->error, sizeof r->error, "%s", ev->error);
        atomic_store(&r->measured, true);
    }
    atomic_fetch_add(&r->n_ended, 1);
    fxi_signals_wake();
}

static fx_status submit_one(bench *b, timed_seq *s, int n_prompt, fx_error *err)
{
    int32_t *id = malloc((size_t)n_prompt * sizeof *id);
    if (!id) return fxi_fail(err, FX_ENOMEM, "out of memory for the prompt");
    for (int i = 0; i < n_prompt; i++)
        id[i] =
            (int32_t)(fxi_rng_u64(1, b->n_prompt_made, (uint64_t)i) % (uint64_t)b->model.n_vocab);
    b->n_prompt_made++;
    fx_request req = fx_request_default();
    req.prompt = id;
    req.n_prompt = (size_t)n_prompt;
    req.sampling.temperature = 0;
    req.ignore_eos = true;
    req.on_event = note_event;
    req.ud = s;
    fx_status st = fx_submit(b->eng, &req, &s->id, err);
    free(id);
    return st;
}

static fx_status submit_and_wait(bench *b, timed_run *r, timed_seq *s, int n_prompt, fx_error *err)
{
    fx_status st = FX_OK;
    int n = 0; // submitted
    bool is_cancelled = false;
    pthread_mutex_lock(&r->submitting);
    r->submit_s = fxi_now_s();
    for (; n < r->n_seq && st == FX_OK; n += st == FX_OK) {
        s[n] = (timed_seq){.r = r, .seq = n};
        st = submit_one(b, &s[n], n_prompt, err);
    }
    pthread_mutex_unlock(&r->submitting);
    while (atomic_load(&r->n_ended) < n) {
        if (is_cancelled || (st == FX_OK && !atomic_load(&r->measured) && !fxi_signals_stop())) {
            fxi_signals_wait();
            continue;
        }
        for (int i = 0; i < n; i++) fx_cancel(b->eng, s[i].id);
        is_cancelled = true;
    }
    return st;
}

static fx_status time_run(bench *b, int n_seq, int n_prompt, timed_run *r, fx_error *err)
{
    timed_seq *s = calloc((size_t)n_seq, sizeof *s);
    if (!s) return fxi_fail(err, FX_ENOMEM, "out of memory for %d sequences", n_seq);
    *r = (timed_run){.n_seq = n_seq,
                     .n_gen = b->o->n_gen,
                     .submitting = PTHREAD_MUTEX_INITIALIZER,
                     .last_started = -1};
    fx_status st = submit_and_wait(b, r, s, n_prompt, err);
    pthread_mutex_destroy(&r->submitting);
    free(s);
    FX_TRY(st);
    if (fxi_signals_stop()) return fxi_fail(err, FX_ECLOSED, "interrupted");
    if (r->error[0]) return fxi_fail(err, FX_EINTERNAL, "%s", r->error);
    if (r->broken)
        return fxi_fail(err, FX_ENOSPACE,
                        "batch %d of %d tokens: a sequence ended before all were measured: more "
                        "--ctx or --kv-memory, or less --gen is needed",
                        n_seq, n_prompt);
    return FX_OK;
}

// ---- limits ------------------------------------------------------------------------------------

// The machine is measured before and after the runs, and the larger of the two figures counts:
// other load can make a machine look slower than it is, not faster.
//
// The least time that this machine needs for the work of a row.
//
//     operations   two for each multiply-add of the linear layers (a prompt needs one row of
//                  logits), at the arithmetic peak of the type that most weights are computed in
//     bytes        the weights once per step, and when decoding the contents of the caches, at the
//                  bandwidth of memory
//
// The longer of the two is the limit, as if it fully hid the other. Work between the
// linear layers counts as free. A second limit counts what the scales of blocks cost the ports that
// multiply: int8_scaled_gop_s is the peak there.

// n_tok tokens need n_mul multiply-adds and n_bytes of reading in all. Quantised blocks are
// computed in int8 if the kernels have the instruction, all else in f32.
static void set_limit(const bench *b, bench_row *r, double n_tok, double n_mul, double n_bytes)
{
    const fx_machine *m = &b->machine;
    const fxi_dtype_info *type = fxi_dtype_by_name(b->model.type);
    const bool is_block = type && type->block_elems > 1;
    const bool int8 = is_block && strstr(b->model.kernel_path, "vnni") && m->int8_gop_s > 0;
    const double op_s = 2e-9 * n_mul / (int8 ? m->int8_gop_s : m->fma_gflop_s);
    const double scaled_s = 2e-9 * n_mul / (int8 ? m->int8_scaled_gop_s : m->fma_gflop_s);
    const double byte_s = 1e-9 * n_bytes / m->read_gb_s;
    r->limited_by = byte_s > op_s ? "memory" : "arithmetic";
    r->limit_tok_s = n_tok / fmax(byte_s, op_s);
    r->share = r->tok_s / r->limit_tok_s;
    r->scaled_share = r->tok_s / (n_tok / fmax(byte_s, scaled_s));
}

// Of a prompt, and of one step of decoding.
static void set_row_limit(const bench *b, int phase, bench_row *r)
{
    const fx_model_info *m = &b->model;
    const double weight_bytes = (double)m->weight_bytes_per_pass;
    const double n_tok = (double)r->batch * r->n_tok;
    if (phase == PROMPT)
        set_limit(b, r, n_tok,
                  n_tok * (double)m->mul_per_prompt_tok + r->batch * (double)m->mul_per_logit_row,
                  weight_bytes);
    else
        set_limit(b, r, r->batch, r->batch * (double)(m->mul_per_prompt_tok + m->mul_per_logit_row),
                  weight_bytes + r->batch * r->mean_ctx * (double)m->kv_bytes_per_tok);
}

// Sets the limits of all rows anew. Returns the largest factor by which one grew; 1: none had any.
static double set_all_limits(bench *b)
{
    double most = 1;
    for (int phase = 0; phase < N_PHASE; phase++)
        for (bench_row *r = b->row[phase]; r < b->row[phase] + b->n_row[phase]; r++) {
            const double before = r->limit_tok_s;
            set_row_limit(b, phase, r);
            if (before > 0) most = fmax(most, r->limit_tok_s / before);
        }
    return most;
}

// ---- the table: its head at once, rows as they are measured ------------------------------------

static void print_table_head(const bench *b)
{
    const fx_model_info *m = &b->model;
    char params[FXI_SIZE_TEXT_BYTES], size[FXI_SIZE_TEXT_BYTES];
    printf("model    %s, %s, %s parameters, %s\n", m->name, m->type,
           fxi_cli_count(m->n_param, params), fxi_cli_size(m->file_bytes, size));
    printf("run      %d tokens generated after each prompt, median of %d, flexinfer %s\n",
           b->o->n_gen, b->o->n_repeat, fx_version());
    fflush(stdout);
}

static void print_machine_line(const bench *b, const char *when)
{
    printf("machine  %d threads, %s: reads %.1f GB/s, f32 FMA %.0f GFLOP/s, int8 %.0f GOP/s, "
           "%.0f scaled%s\n",
           b->model.n_thread, b->model.kernel_path, b->machine.read_gb_s, b->machine.fma_gflop_s,
           b->machine.int8_gop_s, b->machine.int8_scaled_gop_s, when);
    fflush(stdout);
}

// The length is that of the prompts, or of the caches when decoding starts.
static void print_table_columns(void)
{
    printf("\n%-6s %7s %8s %11s %11s %8s %8s  %s\n", "phase", "batch", "length", "tokens/s",
           "limit", "share", "scaled", "limited by");
    fflush(stdout);
}

static void print_table_row(const bench *b, int phase, bench_row *r)
{
    set_row_limit(b, phase, r);
    printf("%-6s %7d %8d %11.1f %11.1f %6.0f %% %6.0f %%  %s\n", phase_name[phase], r->batch,
           r->context ? r->context : r->n_tok, r->tok_s, r->limit_tok_s, 100 * r->share,
           100 * r->scaled_share, r->limited_by);
    fflush(stdout);
}

// The rows were printed with the machine's figures of before the runs.
static void print_table_end(bench *b)
{
    const double grown = set_all_limits(b);
    if (grown < 1.02) return;
    printf("\n");
    print_machine_line(b, " (after the runs)");
    printf("         so the limits are up to %.0f %% higher, and the shares lower\n",
           100 * (grown - 1));
}

// What runs, on a terminal; without a row it is removed.
static void show_run(const bench *b, int batch, int n_tok, int i_run)
{
    if (!b->shows_progress) return;
    fprintf(stderr, "\r\033[K");
    if (batch)
        fprintf(stderr, "batch %d, prompts of %d tokens: run %d of %d", batch, n_tok, i_run + 1,
                b->o->n_repeat);
}

// ---- rows: medians over the repeats -------------------------------------------------------------

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, compare_doubles);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static int index_of(const fxi_opt_ints *list, int v)
{
    for (int i = 0; i < list->n; i++)
        if (list->v[i] == v) return i;
    return -1;
}

static void keep_row(bench *b, int phase, int i, bench_row row)
{
    b->row[phase][i] = row;
    if (b->is_table) print_table_row(b, phase, &b->row[phase][i]);
}

// Measures a batch with prompts of this length, and fills the rows of the phases that have it: rows
// are in the order of the lists, whatever the order of the runs.
static fx_status measure_batch(bench *b, int i_batch, int n_tok, fx_error *err)
{
    const int batch = b->batch.v[i_batch], n_gen = b->o->n_gen, n = b->o->n_repeat;
    double *prompt_s = malloc(2 * (size_t)n * sizeof *prompt_s), n_ahead = 0;
    if (!prompt_s) return fxi_fail(err, FX_ENOMEM, "out of memory for %d repeats", n);
    double *decode_s = prompt_s + n;
    fx_status st = FX_OK;
    for (int i = 0; st == FX_OK && i < n; i++) {
        timed_run r;
        show_run(b, batch, n_tok, i);
        st = time_run(b, batch, n_tok, &r, err);
        if (st != FX_OK) break;
        prompt_s[i] = r.started_s - r.submit_s;
        decode_s[i] = r.end_s - r.started_s;
        n_ahead += (double)r.n_ahead / n;
    }
    show_run(b, 0, 0, 0);
    const fxi_opt_ints *prompt = &b->length[PROMPT], *context = &b->length[DECODE];
    const int p = index_of(prompt, n_tok), c = index_of(context, n_tok);
    if (st == FX_OK && p >= 0)
        keep_row(b, PROMPT, i_batch * prompt->n + p,
                 (bench_row){.batch = batch,
                             .n_tok = n_tok,
                             .tok_s = (double)batch * n_tok / median_of(prompt_s, n)});
    if (st == FX_OK && c >= 0)
        keep_row(b, DECODE, i_batch * context->n + c,
                 (bench_row){.batch = batch,
                             .n_tok = n_gen,
                             .context = n_tok,
                             .mean_ctx = n_tok + 0.5 * n_gen + n_ahead / batch,
                             .tok_s = (double)batch * n_gen / median_of(decode_s, n)});
    free(prompt_s);
    return st;
}

// Runs each batch with each length of either list; a length in both lists runs once.
// Fills all rows except their limits. Errors: those of fx_submit, FX_ECLOSED (a signal came),
// FX_ENOSPACE (the KV cache cannot hold a batch), FX_EINTERNAL.
static fx_status run_bench(bench *b, fx_error *err)
{
    for (int i = 0; i < b->batch.n; i++)
        for (int phase = 0; phase < N_PHASE; phase++) {
            const fxi_opt_ints *length = &b->length[phase];
            b->n_row[phase] = b->batch.n * length->n;
            for (int k = 0; k < length->n; k++)
                if (phase == PROMPT || index_of(&b->length[PROMPT], length->v[k]) < 0)
                    FX_TRY(measure_batch(b, i, length->v[k], err));
        }
    return FX_OK;
}

// ---- CSV and JSON, when all is measured --------------------------------------------------------

static void print_quoted(const char *text)
{
    putchar('"');
    for (; *text; text++) {
        if (*text == '"') putchar('"');
        putchar((unsigned char)*text < ' ' ? ' ' : *text);
    }
    putchar('"');
}

static int print_bench_csv(const bench *b)
{
    printf("phase,batch,tokens,context,tokens_per_s,limit_tokens_per_s,share_of_limit,"
           "share_of_scaled_limit,limited_by,read_gbps,fp32_gflops,int8_gops,int8_scaled_gops,"
           "threads,kernel_path,model,type,version\n");
    for (int phase = 0; phase < N_PHASE; phase++)
        for (const bench_row *r = b->row[phase]; r < b->row[phase] + b->n_row[phase]; r++) {
            printf("%s,%d,%d,%d,%.6g,%.6g,%.6g,%.6g,%s,", phase_name[phase], r->batch, r->n_tok,
                   r->context, r->tok_s, r->limit_tok_s, r->share, r->scaled_share, r->limited_by);
            printf("%.6g,%.6g,%.6g,%.6g,%d,%s,", b->machine.read_gb_s, b->machine.fma_gflop_s,
                   b->machine.int8_gop_s, b->machine.int8_scaled_gop_s, b->model.n_thread,
                   b->model.kernel_path);
            print_quoted(b->model.name);
            printf(",%s,%s\n", b->model.type, fx_version());
        }
    return 0;
}

static int print_bench_json(const bench *b)
{
    const fx_machine *p = &b->machine;
    const fx_model_info *m = &b->model;
    fxi_buf names = {0};
    if (!fxi_json_fmt(&names, "'name': %q, 'arch': %q, 'type': %q", m->name, m->arch, m->type)) {
        fxi_buf_free(&names);
        return fxi_cli_fail("out of memory for the JSON text");
    }
    printf("{\n  \"version\": \"%s\",\n  \"model\": {%s, \"file_bytes\": %lld, \"n_param\": %lld, "
           "\"kv_bytes_per_tok\": %lld, \"ctx_tok\": %d, \"n_layer\": %d, \"dim\": %d, "
           "\"n_head\": %d, \"n_kv_head\": %d, \"head_dim\": %d}",
           fx_version(), names.p, (long long)m->file_bytes, (long long)m->n_param,
           (long long)m->kv_bytes_per_tok, m->ctx_tok, m->n_layer, m->dim, m->n_head, m->n_kv_head,
           m->head_dim);
    printf(
        ",\n  \"machine\": {\"read_gbps\": %.6g, \"fp32_gflops\": %.6g, \"int8_gops\": %.6g, "
        "\"int8_scaled_gops\": %.6g, \"threads\": %d, \"kernel_path\": \"%s\"},\n  \"repeat\": %d",
        p->read_gb_s, p->fma_gflop_s, p->int8_gop_s, p->int8_scaled_gop_s, m->n_thread,
        m->kernel_path, b->o->n_repeat);
    for (int phase = 0; phase < N_PHASE; phase++) {
        printf(",\n  \"%s\": [", phase_name[phase]);
        for (const bench_row *r = b->row[phase]; r < b->row[phase] + b->n_row[phase]; r++) {
            printf("%s\n    {\"batch\": %d, \"tokens\": %d, \"tokens_per_s\": %.6g, "
                   "\"share_of_limit\": %.6g, \"share_of_scaled_limit\": %.6g, "
                   "\"limit_tokens_per_s\": %.6g, \"limited_by\": \"%s\"",
                   r > b->row[phase] ? "," : "", r->batch, r->n_tok, r->tok_s, r->share,
                   r->scaled_share, r->limit_tok_s, r->limited_by);
            if (r->context)
                printf(", \"context\": %d, \"mean_context\": %.6g", r->context, r->mean_ctx);
            printf("}");
        }
        printf("]");
    }
    printf("\n}\n");
    fxi_buf_free(&names);
    return 0;
}

// ---- the command -------------------------------------------------------------------------------

#define DEFAULT_PROMPT 512 // or half of the context if that is less

static int largest_of(const fxi_opt_ints *list, int least)
{
    for (int i = 0; i < list->n; i++)
        if (list->v[i] > least) least = list->v[i];
    return least;
}

static fxi_opt_ints without_repeats(const fxi_opt_ints *list)
{
    fxi_opt_ints out = {.n = 0};
    for (int i = 0; i < list->n; i++)
        if (index_of(&out, list->v[i]) < 0) out.v[out.n++] = list->v[i];
    return out;
}

static fx_status check_fits(const bench *b, const char *option, int n_tok, fx_error *err)
{
    if ((int64_t)n_tok + b->o->n_gen + 1 <= b->model.ctx_tok) return FX_OK;
    return fxi_fail(err, FX_EINVAL, "%s %d and --gen %d do not fit the context of %d tokens",
                    option, n_tok, b->o->n_gen, b->model.ctx_tok);
}

static fx_status measure_machine(bench *b, fx_error *err)
{
    fx_machine now, *most = &b->machine;
    FX_TRY(fx_measure_machine(b->o->engine.n_thread, &now, err));
    most->n_thread = now.n_thread;
    most->read_gb_s = fmax(most->read_gb_s, now.read_gb_s);
    most->fma_gflop_s = fmax(most->fma_gflop_s, now.fma_gflop_s);
    most->int8_gop_s = fmax(most->int8_gop_s, now.int8_gop_s);
    most->int8_scaled_gop_s = fmax(most->int8_scaled_gop_s, now.int8_scaled_gop_s);
    return FX_OK;
}

static fx_status measure_engine(bench *b, fx_error *err)
{
    const fxi_cli_options *o = b->o;
    b->model = *fx_engine_info(b->eng);
    const int half = b->model.ctx_tok / 2;
    const fxi_opt_ints preset = {{half < DEFAULT_PROMPT ? half : DEFAULT_PROMPT}, 1};
    fxi_opt_ints *prompt = &b->length[PROMPT], *context = &b->length[DECODE];
    b->batch = without_repeats(&o->batch);
    *prompt = without_repeats(o->prompts.n ? &o->prompts : &preset);
    *context = without_repeats(o->contexts.n ? &o->contexts : prompt);
    FX_TRY(check_fits(b, "--prompt", largest_of(prompt, 0), err));
    FX_TRY(check_fits(b, "--context", largest_of(context, 0), err));
    if (b->is_table) print_table_head(b);
    FX_TRY(measure_machine(b, err));
    if (b->is_table) print_machine_line(b, "");
    if (b->is_table) print_table_columns();
    if (!fxi_signals_catch()) return fxi_fail(err, FX_EINTERNAL, "out of file descriptors");
    return run_bench(b, err);
}

// With room for the largest batch, and with no time cap on prompt work while others decode; with a
// trace of whatever was run, even where a run failed.
static fx_status measure_all(bench *b, fx_error *err)
{
    FILE *trace;
    fxi_cli_options with = *b->o;
    const int longest = largest_of(&with.contexts, largest_of(&with.prompts, DEFAULT_PROMPT));
    with.engine.max_seq = largest_of(&with.batch, with.engine.max_seq);
    with.engine.max_queue_tok = (int64_t)with.engine.max_seq * longest + 1;
    if (!with.engine.step_ms) with.engine.step_ms = 1 << 20;
    FX_TRY(fxi_cli_trace_open(b->o->trace, &trace, err));
    fx_status st = fxi_cli_open_generator(&with, &b->eng, err);
    if (st == FX_OK) st = measure_engine(b, err);
    const fx_status written =
        fxi_cli_trace_write(b->o->trace, trace, b->eng, st == FX_OK ? err : NULL);
    fx_engine_close(b->eng);
    FX_TRY(st == FX_OK ? written : st);
    FX_TRY(measure_machine(b, err));
    if (b->is_table)
        print_table_end(b);
    else
        set_all_limits(b);
    return FX_OK;
}

int fxi_cmd_bench(const fxi_cli_options *o, const fxi_opt_rest *rest)
{
    (void)rest;
    fx_error err;
    if (o->json && o->csv) {
        fxi_cli_fail("--json and --csv: one of them (see 'flexinfer help bench')");
        return FXI_EXIT_USAGE;
    }
    bench *b = calloc(1, sizeof *b);
    if (!b) return fxi_cli_fail("out of memory for the results");
    b->o = o;
    b->is_table = !o->json && !o->csv;
    b->shows_progress = isatty(STDERR_FILENO);
    int rc = 0;
    if (measure_all(b, &err) == FX_OK)
        rc = o->json ? print_bench_json(b) : o->csv ? print_bench_csv(b) : 0;
    else
        rc = fxi_signals_stop() ? FXI_EXIT_SIGNAL + fxi_signals_stop()
                                : fxi_cli_fail("%s", err.text);
    free(b);
    return rc;
}
