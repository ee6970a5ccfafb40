// trace.c - a trace from a file, CSV or JSONL: rows from columns, sorted by arrival; its rows as
// requests, and the figures of a run.
#include "lab/trace.h"
#include "base/number/rng.h"
#include "base/system/grow.h"
#include "base/system/regions.h"
#include "base/text/str.h"
#include "base/text/utf8.h" // defines: fxi_utf8_vprint

#include "base/json/json.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum trace_column {
    COLUMN_ARRIVAL,
    COLUMN_PROMPT,
    COLUMN_OUTPUT,
    COLUMN_HASHES,
    N_COLUMN // another column
} trace_column;

typedef struct trace_reader {
    fxi_trace *t;
    const char *name; // of the trace
    int line;         // being read, from 1
    unsigned seen;    // columns of the row, a bit each
    fxi_trace_row row;
    fx_error *err;
} trace_reader;

enum { MAX_ROW = 1 << 24, MAX_HASH = 1 << 28 };

static const struct column_name {
    const char *name;
    trace_column column;
} column_names[] = {
    {"arrival_ms", COLUMN_ARRIVAL},   {"timestamp", COLUMN_ARRIVAL},
    {"prompt_tokens", COLUMN_PROMPT}, {"input_length", COLUMN_PROMPT},
    {"output_tokens", COLUMN_OUTPUT}, {"output_length", COLUMN_OUTPUT},
    {"hash_ids", COLUMN_HASHES},
};

static trace_column column_named(fxi_str name)
{
    for (size_t i = 0; i < sizeof column_names / sizeof *column_names; i++)
        if (fxi_str_is(name, column_names[i].name)) return column_names[i].column;
    return N_COLUMN;
}

// Fails with FX_EFORMAT: "NAME:LINE: ..".
__attribute__((format(printf, 2, 3))) static fx_status fail_row(const trace_reader *r,
                                                                const char *fmt, ...)
{
    char what[200];
    va_list ap;
    va_start(ap, fmt);
    fxi_utf8_vprint(what, sizeof what, fmt, ap);
    va_end(ap);
    return fxi_fail(r->err, FX_EFORMAT, "%s:%d: %s", r->name, r->line, what);
}

// ---- rows --------------------------------------------------------------------------------------

static fx_status no_memory(const trace_reader *r)
{
    return fxi_fail(r->err, FX_ENOMEM, "%s: out of memory for the trace", r->name);
}

static void start_row(trace_reader *r)
{
    r->seen = 0;
    r->row = (fxi_trace_row){.hash = r->t->n_hash};
}

static fx_status set_count(const trace_reader *r, const char *what, int least, double v, int *out)
{
    if (!(v >= least && v <= FXI_TRACE_MAX_TOK) || v != floor(v))
        return fail_row(r, "%s: %g is not a number of tokens from %d to %d", what, v, least,
                        FXI_TRACE_MAX_TOK);
    *out = (int)v;
    return FX_OK;
}

static fx_status set_number(trace_reader *r, trace_column c, double v)
{
    if (c < N_COLUMN) r->seen |= 1u << c;
    if (c == COLUMN_PROMPT) return set_count(r, "prompt", 1, v, &r->row.n_prompt);
    if (c == COLUMN_OUTPUT) return set_count(r, "output", 0, v, &r->row.n_output);
    if (c != COLUMN_ARRIVAL) return FX_OK;
    if (!(v >= 0 && v <= 1e15)) return fail_row(r, "arrival: %g is not a time in ms", v);
    r->row.arrival_ms = v;
    return FX_OK;
}

static fx_status take_hash(trace_reader *r, uint64_t id)
{
    fxi_trace *t = r->t;
    if (t->n_hash == MAX_HASH) return fail_row(r, "more than %d hash ids", MAX_HASH);
    if (!fxi_grow(&t->hash, sizeof *t->hash, t->n_hash, &t->cap_hash)) return no_memory(r);
    t->hash[t->n_hash++] = id;
    return FX_OK;
}

static fx_status check_row(trace_reader *r)
{
    const fxi_trace *t = r->t;
    const bool arrives = r->seen & 1u << COLUMN_ARRIVAL;
    if (!(r->seen & 1u << COLUMN_PROMPT)) return fail_row(r, "no prompt_tokens");
    if (!(r->seen & 1u << COLUMN_OUTPUT)) return fail_row(r, "no output_tokens");
    if (t->n_row > 0 && arrives != t->has_arrivals)
        return fail_row(r, "%s arrival, unlike the rows before", arrives ? "an" : "no");
    const size_t want = ((size_t)r->row.n_prompt + FXI_TRACE_BLOCK_TOK - 1) / FXI_TRACE_BLOCK_TOK;
    r->row.n_hash = t->n_hash - r->row.hash;
    if (r->row.n_hash > 0 && r->row.n_hash != want)
        return fail_row(r, "%zu hash ids for %d prompt tokens, expected %zu", r->row.n_hash,
                        r->row.n_prompt, want);
    return FX_OK;
}

static fx_status end_row(trace_reader *r)
{
    fxi_trace *t = r->t;
    FX_TRY(check_row(r));
    if (t->n_row == MAX_ROW) return fail_row(r, "more than %d rows", MAX_ROW);
    if (!fxi_grow(&t->row, sizeof *t->row, t->n_row, &t->cap_row)) return no_memory(r);
    t->has_arrivals = r->seen & 1u << COLUMN_ARRIVAL;
    t->row[t->n_row++] = r->row;
    return FX_OK;
}

// ---- CSV: a line of column names, then a line for each request. Fields may stand in double quotes
// no field holds a quote or a line break.

enum { MAX_FIELD = 64, NUMBER_BYTES = 40 };

// The next field of line[*at .. n); false: there are no more.
static bool next_field(fxi_str line, size_t *at, fxi_str *field)
{
    if (*at > line.n) return false;
    const char *p = line.p + *at, *end = memchr(p, ',', line.n - *at);
    *field = (fxi_str){p, end ? (size_t)(end - p) : line.n - *at};
    *at += field->n + 1;
    while (field->n > 0 && field->p[0] == ' ') field->p++, field->n--;
    while (field->n > 0 && field->p[field->n - 1] == ' ') field->n--;
    if (field->n >= 2 && field->p[0] == '"' && field->p[field->n - 1] == '"')
        *field = (fxi_str){field->p + 1, field->n - 2};
    return true;
}

static fx_status parse_double(const trace_reader *r, fxi_str s, double *v)
{
    char text[NUMBER_BYTES], *end;
    if (s.n == 0 || s.n >= sizeof text || !strchr("0123456789.", s.p[0]))
        return fail_row(r, "a number is expected");
    memcpy(text, s.p, s.n);
    text[s.n] = 0;
    *v = strtod(text, &end);
    return end == text + s.n ? FX_OK : fail_row(r, "'%s' is not a number", text);
}

static fx_status read_hashes(trace_reader *r, fxi_str field)
{
    for (size_t i = 0, n; i < field.n; i += n + 1) {
        uint64_t id = 0;
        for (n = 0; i + n < field.n && field.p[i + n] != ' '; n++) {
            const unsigned digit = (unsigned char)field.p[i + n] - (unsigned)'0';
            if (digit > 9 || __builtin_mul_overflow(id, 10, &id) ||
                __builtin_add_overflow(id, digit, &id))
                return fail_row(r, "a hash id is not a number below 2^64");
        }
        if (n > 0) FX_TRY(take_hash(r, id));
    }
    return FX_OK;
}

static fx_status read_field(trace_reader *r, trace_column c, fxi_str field)
{
    double v = 0;
    if (c == N_COLUMN) return FX_OK;
    if (c == COLUMN_HASHES) return read_hashes(r, field);
    FX_TRY(parse_double(r, field, &v));
    return set_number(r, c, v);
}

static fx_status read_names(trace_reader *r, fxi_str line, trace_column column[MAX_FIELD], int *n)
{
    fxi_str field;
    unsigned seen = 0;
    size_t at = 0;
    for (*n = 0; next_field(line, &at, &field); (*n)++) {
        if (*n == MAX_FIELD) return fail_row(r, "more than %d columns", MAX_FIELD);
        const trace_column c = column[*n] = column_named(field);
        if (c < N_COLUMN && seen & 1u << c) return fail_row(r, "a column comes twice");
        if (c < N_COLUMN) seen |= 1u << c;
    }
    return FX_OK;
}

static fx_status read_csv_rows(trace_reader *r, const char *text, size_t n_bytes)
{
    trace_column column[MAX_FIELD];
    int n_column = 0;
    fxi_str line;
    for (fxi_str rest = {text, n_bytes}; fxi_str_next_line(&rest, &line);) {
        r->line++;
        if (r->line == 1) {
            FX_TRY(read_names(r, line, column, &n_column));
        } else if (line.n > 0) {
            fxi_str field;
            size_t at = 0;
            int n = 0;
            start_row(r);
            while (next_field(line, &at, &field)) {
                if (n == n_column) return fail_row(r, "more than %d fields", n_column);
                FX_TRY(read_field(r, column[n++], field));
            }
            FX_TRY(end_row(r));
        }
    }
    return FX_OK;
}

// ---- JSONL: an object for each request, one a line

static fx_status read_hash_ids(trace_reader *r, const fxi_json *ids)
{
    if (!fxi_json_is_array(ids)) return fail_row(r, "hash_ids is not an array");
    for (fxi_json_iter it = fxi_json_items(ids); fxi_json_next(&it);) {
        if (!fxi_json_is_int(it.value) || fxi_json_int(it.value) < 0)
            return fail_row(r, "hash id %zu is not a number", it.i);
        FX_TRY(take_hash(r, (uint64_t)fxi_json_int(it.value)));
    }
    return FX_OK;
}

static fx_status read_member(trace_reader *r, const char *name, const fxi_json *v)
{
    const trace_column c = column_named(fxi_str_of(name));
    if (c == N_COLUMN) return FX_OK;
    if (c == COLUMN_HASHES) return read_hash_ids(r, v);
    if (!fxi_json_is_number(v)) return fail_row(r, "%s is not a number", name);
    return set_number(r, c, fxi_json_number(v));
}

static fx_status read_object(trace_reader *r, const fxi_json *object)
{
    start_row(r);
    for (fxi_json_iter it = fxi_json_members(object); fxi_json_next(&it);)
        FX_TRY(read_member(r, it.key, it.value));
    return end_row(r);
}

static fx_status read_json_rows(trace_reader *r, const char *text, size_t n_bytes)
{
    static const fxi_json_rules rules = {.unique = true};
    fxi_str line;
    for (fxi_str rest = {text, n_bytes}; fxi_str_next_line(&rest, &line);) {
        fxi_json_doc doc = {0};
        r->line++;
        if (line.n == 0) continue;
        (void)fxi_json_parse(&doc, line, &rules, NULL);
        fx_status st = fxi_json_is_object(doc.root) ? read_object(r, doc.root)
                                                    : fail_row(r, "not a JSON object");
        fxi_json_doc_free(&doc);
        FX_TRY(st);
    }
    return FX_OK;
}

// ---- either -------------------------------------------------------------------------------------

// Rows that arrive together stay in the order of the file.
static int by_arrival(const void *a, const void *b)
{
    const fxi_trace_row *x = a, *y = b;
    if (x->arrival_ms != y->arrival_ms) return x->arrival_ms < y->arrival_ms ? -1 : 1;
    return x->hash != y->hash ? (x->hash < y->hash ? -1 : 1) : 0;
}

static bool is_sorted(const fxi_trace *t)
{
    for (size_t i = 1; i < t->n_row; i++)
        if (t->row[i].arrival_ms < t->row[i - 1].arrival_ms) return false;
    return true;
}

fx_status fxi_trace_read(const char *text, size_t n_bytes, const char *name, fxi_trace *out,
                         fx_error *err)
{
    *out = (fxi_trace){0};
    trace_reader r = {.t = out, .name = name, .err = err};
    const bool is_json = n_bytes > 0 && text[0] == '{';
    FX_TRY((is_json ? read_json_rows : read_csv_rows)(&r, text, n_bytes));
    if (out->n_row == 0) return fxi_fail(err, FX_EFORMAT, "%s: no requests", name);
    if (!is_sorted(out)) qsort(out->row, out->n_row, sizeof *out->row, by_arrival);
    return FX_OK;
}

fx_status fxi_trace_open(const char *path, fxi_trace *out, fx_error *err)
{
    fxi_mapping m = {0};
    *out = (fxi_trace){0};
    FX_TRY(fxi_mapping_open(path, &m, err));
    fx_status st = fxi_trace_read((const char *)m.data, m.size_bytes, path, out, err);
    fxi_mapping_close(&m);
    return st;
}

void fxi_trace_free(fxi_trace *t)
{
    free(t->row);
    free(t->hash);
    *t = (fxi_trace){0};
}

// ---- from rows to requests ---------------------------------------------------------------------
//
// The times and the tokens of requests follow from the trace and the seed alone.

#define PREFIX (UINT64_MAX / 2) // what the tokens that all prompts begin with follow from

fxi_load fxi_load_start(void)
{
    return (fxi_load){.speed = 1, .shrink = 1, .n_choice = 1};
}

fx_status fxi_load_check(const fxi_load *l, fx_error *err)
{
    if (l->rate_per_s >= 0 && l->speed > 0 && l->shrink >= 1 && l->n_choice >= 1 &&
        l->beam_width >= 0 && l->prefix_tok >= 0)
        return FX_OK;
    return fxi_fail(err, FX_EINVAL, "a rate, a speed or a number of answers is out of range");
}

// ---- times -------------------------------------------------------------------------------------

double fxi_arrival_us(const fxi_load *l, const fxi_trace *t, size_t i, double before_us)
{
    if (i == 0) return 0;
    if (l->rate_per_s > 0) // a Poisson process
        return before_us - log(1 - fxi_rng_unit(l->seed, 0, i)) * 1e6 / (double)l->rate_per_s;
    return (t->row[i].arrival_ms - t->row[0].arrival_ms) * 1e3 / (double)l->speed;
}

// ---- prompts -----------------------------------------------------------------------------------

static int32_t random_token(uint64_t of, uint64_t k, uint32_t n_vocab)
{
    return (int32_t)(fxi_rng_u64(of, 1, k) % n_vocab);
}

// Token k of a row's prompt: what its block's id and the place in it say, or the row alone. A
// shrunk prompt has shrunk blocks.
static int32_t prompt_token(const fxi_trace *t, size_t i, int k, int block_tok, uint32_t n)
{
    const fxi_trace_row *row = &t->row[i];
    if (row->n_hash == 0) return random_token(UINT64_MAX - i, (uint64_t)k, n);
    const size_t block = (size_t)(k / block_tok);
    const uint64_t id = t->hash[row->hash + (block < row->n_hash ? block : row->n_hash - 1)];
    return random_token(id, (uint64_t)(k % block_tok), n);
}

static int shrunk_tok(const fxi_load *l, int n_tok)
{
    const int n = (int)(n_tok / (double)l->shrink + 0.5);
    return n > 1 ? n : 1;
}

static fx_status make_request(fxi_trace_run *r, size_t i, fx_request *out, fx_error *err)
{
    const fxi_load *l = &r->opt->load;
    const uint32_t n_vocab = (uint32_t)fx_engine_info(r->eng)->n_vocab;
    const int n_own = shrunk_tok(l, r->t->row[i].n_prompt),
              block_tok = shrunk_tok(l, FXI_TRACE_BLOCK_TOK);
    const size_t n_tok = (size_t)l->prefix_tok + (size_t)n_own;
    if (n_tok > r->cap_prompt) {
        int32_t *more = realloc(r->prompt, n_tok * sizeof *more);
        if (!more)
            return fxi_fail(err, FX_ENOMEM, "out of memory for a prompt of %zu tokens", n_tok);
        r->prompt = more;
        r->cap_prompt = n_tok;
    }
    int32_t *to = r->prompt;
    for (int k = 0; k < l->prefix_tok; k++) *to++ = random_token(PREFIX, (uint64_t)k, n_vocab);
    for (int k = 0; k < n_own; k++) *to++ = prompt_token(r->t, i, k, block_tok, n_vocab);
    *out = fx_request_default();
    out->prompt = r->prompt;
    out->n_prompt = n_tok;
    out->max_tok = out->expect_tok = shrunk_tok(l, r->t->row[i].n_output);
    out->n_choice = l->n_choice;
    out->beam_width = l->beam_width;
    out->no_cache = l->no_cache;
    out->sampling.temperature = 0;
    out->ignore_eos = true;
    return FX_OK;
}

// ---- requests on their way ---------------------------------------------------------------------

typedef struct run_client { // freed with its last event
    fxi_trace_run *r;
    double arrival_us;
    int n_output;   // tokens of its first answer so far
    uint64_t n_all; // of all its answers
} run_client;

static void add_number(fxi_trace_run *r, fxi_series *s, double v)
{
    if (fxi_grow(&s->v, sizeof v, s->n, &s->cap))
        s->v[s->n++] = v;
    else
        r->no_memory = true;
}

static void note_done(run_client *c, const fx_event *ev, double us)
{
    fxi_trace_run *r = c->r;
    const bool ended_well = ev->finish == FX_FINISH_LENGTH || ev->finish == FX_FINISH_STOP;
    r->n_open--;
    if (!ended_well || c->n_output == 0) {
        r->n_failed++;
        return;
    }
    r->out->n_done++;
    r->out->n_prompt_tok += (uint64_t)ev->n_prompt;
    r->out->n_cached_tok += (uint64_t)ev->n_cached;
    r->out->n_output_tok += c->n_all;
    add_number(r, &r->per_tok, us / 1e6 / c->n_output);
}

static void on_run_event(void *client, const fx_event *ev)
{
    run_client *c = client;
    fxi_trace_run *r = c->r;
    const double us = r->now_us(r->clock) - c->arrival_us;
    pthread_mutex_lock(&r->mu);
    c->n_all += ev->token >= 0;
    if (ev->token >= 0 && ev->choice == 0 && c->n_output++ == 0) add_number(r, &r->first, us / 1e6);
    if (ev->last) note_done(c, ev, us);
    pthread_mutex_unlock(&r->mu);
    if (ev->last) free(c);
}

fx_status fxi_run_submit(fxi_trace_run *r, size_t i, double arrival_us, uint64_t *id, fx_error *err)
{
    fx_request q;
    *id = 0;
    FX_TRY(make_request(r, i, &q, err));
    run_client *c = calloc(1, sizeof *c);
    if (!c) return fxi_fail(err, FX_ENOMEM, "out of memory for a request");
    *c = (run_client){.r = r, .arrival_us = arrival_us};
    q.on_event = on_run_event;
    q.ud = c;
    pthread_mutex_lock(&r->mu);
    r->n_open++;
    pthread_mutex_unlock(&r->mu);
    const fx_status st = fx_submit(r->eng, &q, id, err);
    if (st == FX_OK) return FX_OK;
    const bool is_refusal = st == FX_ECONTEXT || st == FX_ENOSPACE || st == FX_EQUEUE;
    pthread_mutex_lock(&r->mu);
    r->n_open--;
    r->out->n_refused += is_refusal;
    pthread_mutex_unlock(&r->mu);
    free(c);
    return is_refusal ? FX_OK : st;
}

// ---- the state ---------------------------------------------------------------------------------
//
// Numbers are kept as they come; figures are made of them at the end.

// The kinds of bytes as numbers side by side.
enum { N_KIND = sizeof(fxi_memory_kinds) / sizeof(double) };

static void add_bytes(fxi_memory_kinds *sum, const fxi_memory_kinds *v, double weight)
{
    double *to = (double *)sum;
    const double *from = (const double *)v;
    for (int i = 0; i < N_KIND; i++) to[i] += weight * from[i];
}

static void add_load_sample(fxi_trace_run *r, double now_us)
{
    fxi_replay_figures *f = r->out;
    if (!fxi_grow(&f->sample, sizeof *f->sample, f->n_sample, &f->cap_sample)) {
        r->no_memory = true;
        return;
    }
    f->sample[f->n_sample++] = (fxi_replay_sample){(now_us - r->start_us) / 1e6, r->last};
    r->next_sample_us = now_us + r->opt->sample_s * 1e6;
}

void fxi_run_begin(fxi_trace_run *r, fxi_replay_figures *out)
{
    pthread_mutex_init(&r->mu, NULL);
    r->out = out;
    r->start_us = r->noted_us = r->next_sample_us = r->now_us(r->clock);
}

void fxi_run_idle(fxi_trace_run *r)
{
    r->noted_us = r->now_us(r->clock);
}

bool fxi_run_note(fxi_trace_run *r, const fxi_load_state *state, size_t *n_done)
{
    pthread_mutex_lock(&r->mu);
    const double now_us = r->now_us(r->clock), us = r->has_last ? now_us - r->noted_us : 0;
    fxi_replay_figures *f = r->out;
    add_bytes(&f->mean, &r->last.kv, us);
    r->busy_us += us;
    r->noted_us = now_us;
    r->has_last = r->n_open > 0;
    if (r->has_last) {
        r->last = *state;
        if (state->kv.mapped > f->peak_mapped_bytes) f->peak_mapped_bytes = state->kv.mapped;
        if (r->opt->sample_s > 0 && now_us >= r->next_sample_us) add_load_sample(r, now_us);
    }
    *n_done = f->n_done + f->n_refused + r->n_failed;
    const bool is_busy = r->has_last;
    pthread_mutex_unlock(&r->mu);
    return is_busy;
}

// ---- figures -----------------------------------------------------------------------------------

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static fxi_quantiles take_quantiles(fxi_series *s)
{
    fxi_quantiles q = {0};
    if (s->n > 0) {
        qsort(s->v, s->n, sizeof *s->v, by_value);
        for (size_t i = 0; i < s->n; i++) q.mean += s->v[i] / (double)s->n;
        q.p50 = s->v[(s->n - 1) / 2];
        q.p99 = s->v[(s->n - 1) * 99 / 100];
    }
    free(s->v);
    *s = (fxi_series){0};
    return q;
}

fx_status fxi_run_end(fxi_trace_run *r, fx_error *err)
{
    fxi_replay_figures *f = r->out;
    const fxi_memory_kinds sum = f->mean;
    f->mean = (fxi_memory_kinds){0};
    if (r->busy_us > 0) add_bytes(&f->mean, &sum, 1 / r->busy_us);
    f->end_s = (r->noted_us - r->start_us) / 1e6;
    f->first_s = take_quantiles(&r->first);
    f->per_tok_s = take_quantiles(&r->per_tok);
    free(r->prompt);
    pthread_mutex_destroy(&r->mu);
    return r->no_memory ? fxi_fail(err, FX_ENOMEM, "out of memory for the figures") : FX_OK;
}

void fxi_replay_figures_free(fxi_replay_figures *f)
{
    free(f->sample);
    *f = (fxi_replay_figures){0};
}
