// top_state.c - the JSON of a snapshot becomes the state that is shown.
#include "cli/top/top_state.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h" // defines: fxi_fail, FX_TRY
#include "base/json/json.h"

#define MAX_NUMBER (UINT64_C(1) << 53)
#define RATE_US    UINT64_C(1000000) // rates are of so long at least,
#define SMOOTH     0.5               // and follow by half
#define SAMPLE_US  UINT64_C(500000)  // between samples of memory

// ---- values ------------------------------------------------------------------------------------

// A whole number from 0 to max <= MAX_NUMBER. Numbers are read as doubles, because a figure may be
// 2^64 - 1. False: it is something else.
static bool take_natural(const fxi_json *v, uint64_t max, uint64_t *out)
{
    const double d = fxi_json_number(v);
    if (!fxi_json_is_real(v) || !(d >= 0) || d > (double)MAX_NUMBER || d != floor(d)) return false;
    *out = (uint64_t)d;
    return *out <= max;
}

// A list of n numbers.
static bool take_row(const fxi_json *list, uint64_t *out, size_t n)
{
    if (fxi_json_array_size(list) != n) return false;
    for (size_t i = 0; i < n; i++)
        if (!take_natural(fxi_json_at(list, i), MAX_NUMBER, &out[i])) return false;
    return true;
}

// 0 where there is none.
static uint64_t number_in(const fxi_json *o, const char *key)
{
    uint64_t v;
    return take_natural(fxi_json_get(o, key), MAX_NUMBER, &v) ? v : 0;
}

static uint32_t small_in(const fxi_json *o, const char *key)
{
    uint64_t v;
    return take_natural(fxi_json_get(o, key), UINT32_MAX, &v) ? (uint32_t)v : 0;
}

// ---- lists -------------------------------------------------------------------------------------

static fx_status fail_list(fx_error *err, const char *name)
{
    return fxi_fail(err, FX_EFORMAT, "the server's snapshot: '%s' is not valid", name);
}

// Room for a row of each element of the list; a missing list is empty.
static fx_status make_rows(const fxi_json *list, const char *name, size_t row_bytes, void *out,
                           size_t *n, fx_error *err)
{
    *n = fxi_json_array_size(list);
    if (*n > FXI_TOP_MAX_LIST) return fail_list(err, name);
    void *rows = calloc(*n + 1, row_bytes);
    memcpy(out, &rows, sizeof rows);
    return rows ? FX_OK : fxi_fail(err, FX_ENOMEM, "out of memory");
}

// [first, n, state, group]
static fx_status read_chunks(fxi_top_lists *to, const fxi_json *list, fx_error *err)
{
    uint64_t v[4], end = 0;
    FX_TRY(make_rows(list, "chunks", sizeof *to->chunk, &to->chunk, &to->n_chunk, err));
    for (size_t i = 0; i < to->n_chunk; i++) {
        if (!take_row(fxi_json_at(list, i), v, 4) || v[0] < end || v[1] > FXI_TOP_MAX_CHUNK ||
            v[2] >= FX_N_CHUNK_STATE || v[3] > UINT16_MAX)
            return fail_list(err, "chunks");
        to->chunk[i] = (fx_chunk_run){v[0], (uint32_t)v[1], (uint16_t)v[3], (uint16_t)v[2]};
        end = v[0] + v[1];
    }
    return FX_OK;
}

// [group, at, chunk, n] of each segment.
static fx_status read_segments(fxi_top_lists *to, fx_span *span, const fxi_json *list,
                               fx_error *err)
{
    const size_t n = fxi_json_array_size(list);
    uint64_t v[4], n_position = 0;
    if (n > FXI_TOP_MAX_LIST - to->n_segment) return fail_list(err, "segments");
    span->first_run = to->n_segment;
    span->n_run = (uint32_t)n;
    for (size_t i = 0; i < n; i++) {
        if (!take_row(fxi_json_at(list, i), v, 4) || v[0] > UINT32_MAX || v[1] > UINT32_MAX ||
            v[3] > FXI_TOP_MAX_CHUNK || v[1] + v[3] > FXI_TOP_MAX_CHUNK)
            return fail_list(err, "segments");
        to->segment[to->n_segment++] = (fx_segment_run){v[2], (uint32_t)v[1], (uint32_t)v[3], v[0]};
        n_position += v[3];
        if (n_position > FXI_TOP_MAX_CHUNK) return fail_list(err, "segments");
    }
    return FX_OK;
}

static fx_status read_spans(fxi_top_lists *to, const fxi_json *list, fx_error *err)
{
    size_t n_segment = 0;
    for (fxi_json_iter it = fxi_json_items(list); fxi_json_next(&it);)
        n_segment += fxi_json_array_size(fxi_json_get(it.value, "segments"));
    FX_TRY(make_rows(list, "spans", sizeof *to->span, &to->span, &to->n_span, err));
    to->segment = n_segment <= FXI_TOP_MAX_LIST ? calloc(n_segment + 1, sizeof *to->segment) : NULL;
    if (!to->segment) return fxi_fail(err, FX_ENOMEM, "out of memory");
    for (fxi_json_iter it = fxi_json_items(list); fxi_json_next(&it);) {
        fx_span *span = &to->span[it.i];
        if (!take_natural(fxi_json_get(it.value, "request"), MAX_NUMBER, &span->request))
            return fail_list(err, "spans");
        span->choice = small_in(it.value, "choice");
        span->n_tok = small_in(it.value, "tokens");
        span->n_generating = small_in(it.value, "generating") != 0;
        const fx_span *last = it.i ? span - 1 : NULL;
        if (last && (span->request < last->request ||
                     (span->request == last->request && span->choice <= last->choice)))
            return fail_list(err, "spans");
        FX_TRY(read_segments(to, span, fxi_json_get(it.value, "segments"), err));
    }
    return FX_OK;
}

static fx_status read_requests(fxi_top_lists *to, const fxi_json *list, fx_error *err)
{
    FX_TRY(make_rows(list, "requests", sizeof *to->request, &to->request, &to->n_request, err));
    for (size_t i = 0; i < to->n_request; i++) {
        const fxi_json *item = fxi_json_at(list, i);
        const char *state = fxi_json_text(fxi_json_get(item, "state"));
        const double priority = fxi_json_number(fxi_json_get(item, "priority"));
        fx_request_view *r = &to->request[i].view;
        if (!take_natural(fxi_json_get(item, "id"), MAX_NUMBER, &r->id) ||
            (i && r->id <= to->request[i - 1].view.id))
            return fail_list(err, "requests");
        while (r->state < FX_N_REQUEST_STATE &&
               (!state || strcmp(state, fx_request_state_name(r->state)) != 0))
            r->state++;
        r->submit_us = number_in(item, "submit_us");
        r->place = small_in(item, "place");
        r->n_prompt = small_in(item, "prompt");
        r->n_cached = small_in(item, "cached");
        r->n_generated = small_in(item, "generated");
        r->max_tok = small_in(item, "max");
        r->n_seq = small_in(item, "sequences");
        r->priority = priority > -1000 && priority < 1000 ? (int32_t)priority : 0;
    }
    return FX_OK;
}

static void free_lists(fxi_top_lists *l)
{
    free(l->chunk);
    free(l->span);
    free(l->segment);
    free(l->request);
    *l = (fxi_top_lists){0};
}

unsigned fxi_top_chunk_state(const fxi_top_state *s, uint64_t name)
{
    size_t low = 0, high = s->list.n_chunk;
    while (low < high) {
        const size_t mid = (low + high) / 2;
        const fx_chunk_run *r = &s->list.chunk[mid];
        if (name >= r->first && name - r->first < r->n) return r->state;
        if (r->first <= name)
            low = mid + 1;
        else
            high = mid;
    }
    return FX_CHUNK_absent;
}

// ---- rates -------------------------------------------------------------------------------------

static double rate_of(uint64_t before, uint64_t now, uint64_t us)
{
    return now > before ? (double)(now - before) * 1e6 / (double)us : 0;
}

// Both lists are sorted by id.
static void measure_requests(fxi_top_lists *now, const fxi_top_lists *before, uint64_t at_us)
{
    size_t k = 0;
    for (size_t i = 0; i < now->n_request; i++) {
        fxi_top_request *r = &now->request[i];
        while (k < before->n_request && before->request[k].view.id < r->view.id) k++;
        const fxi_top_request *was = k < before->n_request ? &before->request[k] : NULL;
        if (!was || was->view.id != r->view.id || at_us < was->rated_us) {
            r->rated_us = at_us;
            r->rated_tok = r->view.n_generated;
            continue;
        }
        const uint64_t us = at_us - was->rated_us;
        const bool is_due = us >= RATE_US;
        const double rate = is_due ? rate_of(was->rated_tok, r->view.n_generated, us) : 0;
        r->tok_s = !is_due ? was->tok_s
                           : (was->tok_s > 0 ? SMOOTH * rate + (1 - SMOOTH) * was->tok_s : rate);
        r->rated_us = is_due ? at_us : was->rated_us;
        r->rated_tok = is_due ? r->view.n_generated : was->rated_tok;
    }
}

// ---- a snapshot --------------------------------------------------------------------------------

// Rates, and a sample of memory, when it is time.
static void measure_server(fxi_top_state *s)
{
    const uint64_t us = s->at_us - s->rated_us;
    const bool goes_on = s->rated_us && s->at_us > s->rated_us;
    if (goes_on && us >= RATE_US)
        s->rate = (fxi_top_rates){rate_of(s->rated.n_generated_tok, s->stats.n_generated_tok, us),
                                  rate_of(s->rated.n_prompt_tok, s->stats.n_prompt_tok, us),
                                  rate_of(s->rated.n_step, s->stats.n_step, us)};
    if (!goes_on || us >= RATE_US) {
        s->n_rate += s->rated_us != 0;
        s->rated = s->stats;
        s->rated_us = s->at_us;
    }
    const fxi_top_sample *last =
        s->n_sample ? &s->history[(s->n_sample - 1) % FXI_TOP_HISTORY] : NULL;
    if (last && s->at_us >= last->at_us && s->at_us - last->at_us < SAMPLE_US) return;
    s->history[s->n_sample++ % FXI_TOP_HISTORY] = (fxi_top_sample){
        s->at_us, s->stats.kv_mapped_bytes, s->stats.kv_live_bytes, s->stats.kv_shared_bytes};
}

static fx_status take_root(fxi_top_state *s, const fxi_json *root, fx_error *err)
{
    fxi_top_lists list = {0};
    const fxi_json *counts = fxi_json_get(root, "counts"), *stats = fxi_json_get(root, "stats");
    const char *version = fxi_json_text(fxi_json_get(root, "version"));
    const char *manager = fxi_json_text(fxi_json_get(root, "manager"));
    const uint64_t number = number_in(root, "number"), at_us = number_in(root, "at_us");
    uint64_t n_chunk[FX_N_CHUNK_STATE];
    if (!number || !take_row(fxi_json_get(counts, "chunks"), n_chunk, FX_N_CHUNK_STATE))
        return fxi_fail(err, FX_EFORMAT, "the server's answer is not a snapshot");
    fx_status st = read_chunks(&list, fxi_json_get(root, "chunks"), err);
    if (st == FX_OK) st = read_spans(&list, fxi_json_get(root, "spans"), err);
    if (st == FX_OK) st = read_requests(&list, fxi_json_get(root, "requests"), err);
    if (st != FX_OK) {
        free_lists(&list);
        return st;
    }
    if (number < s->number || at_us < s->at_us) { // another process
        s->rated_us = 0;
        s->rate = (fxi_top_rates){0};
        free_lists(&s->list);
    }
    snprintf(s->version, sizeof s->version, "%s", version ? version : "");
    snprintf(s->manager, sizeof s->manager, "%s", manager ? manager : "");
    s->number = number;
    s->at_us = at_us;
    s->stats = (fx_stats){0};
#define READ_STAT(name, help) /* a figure beyond 2^53 is without a limit */    \
    if (fxi_json_get(stats, #name) &&                                          \
        !take_natural(fxi_json_get(stats, #name), MAX_NUMBER, &s->stats.name)) \
        s->stats.name = UINT64_MAX;
    FX_STATS(READ_STAT)
#undef READ_STAT
    memcpy(s->n_chunk, n_chunk, sizeof s->n_chunk);
    s->n_all_request = number_in(counts, "requests");
    measure_requests(&list, &s->list, at_us);
    free_lists(&s->list);
    s->list = list;
    measure_server(s);
    return FX_OK;
}

fx_status fxi_top_take_snapshot(fxi_top_state *s, const char *text, size_t n, fx_error *err)
{
    static const fxi_json_rules rules = {.reals = true};
    fxi_json_doc doc = {0};
    fx_error e;
    fx_status st = fxi_json_parse(&doc, (fxi_str){text, n}, &rules, &e);
    if (st == FX_OK)
        st = take_root(s, doc.root, err);
    else if (st == FX_ENOMEM)
        st = fxi_fail(err, FX_ENOMEM, "out of memory");
    else
        st = fxi_fail(err, FX_EFORMAT, "the server's snapshot: %s", e.text);
    fxi_json_doc_free(&doc);
    return st;
}

// ---- /metrics ----------------------------------------------------------------------------------

// The value of a sample without labels.
static double sample_value(const char *text, size_t n, const char *name)
{
    const size_t n_name = strlen(name);
    for (const char *p = text, *end = text + n; p < end;) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        const size_t n_line = nl ? (size_t)(nl - p) : (size_t)(end - p);
        if (n_line > n_name + 1 && n_line < 256 && !memcmp(p, name, n_name) && p[n_name] == ' ') {
            char line[256];
            memcpy(line, p, n_line);
            line[n_line] = 0;
            const double v = strtod(line + n_name, NULL);
            return v > 0 && v < 1e300 ? v : 0;
        }
        p += n_line + 1;
    }
    return 0;
}

void fxi_top_take_metrics(fxi_top_state *s, const char *text, size_t n)
{
    fxi_top_page *page = &s->page[s->n_page++ % FXI_TOP_PAGES];
#define READ_TIME(name, metric)                                                      \
    page->sum_s[FXI_TOP_##name] = sample_value(text, n, "flexinfer_" metric "_sum"); \
    page->count[FXI_TOP_##name] = sample_value(text, n, "flexinfer_" metric "_count");
    FXI_TOP_TIMES(READ_TIME)
#undef READ_TIME
}

bool fxi_top_time(const fxi_top_state *s, int time, double *mean_s)
{
    if (!s->n_page) return false;
    const uint64_t oldest = s->n_page > FXI_TOP_PAGES ? s->n_page - FXI_TOP_PAGES : 0;
    const fxi_top_page *a = &s->page[oldest % FXI_TOP_PAGES];
    const fxi_top_page *b = &s->page[(s->n_page - 1) % FXI_TOP_PAGES];
    double sum_s = b->sum_s[time], count = b->count[time];
    // A count that went down is of another process.
    if (count > a->count[time] && sum_s >= a->sum_s[time]) {
        sum_s -= a->sum_s[time];
        count -= a->count[time];
    }
    *mean_s = count > 0 ? sum_s / count : 0;
    return count > 0;
}

void fxi_top_free(fxi_top_state *s)
{
    free_lists(&s->list);
    *s = (fxi_top_state){0};
}
