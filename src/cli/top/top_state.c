// top_state.c - the JSON of a snapshot becomes the state that is shown.
#include "cli/top/top.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h" // defines: fxi_fail, FX_TRY

#define MAX_NUMBER (UINT64_C(1) << 53)
#define RATE_US    UINT64_C(1000000) // rates are of so long at least,
#define SMOOTH     0.5               // and follow by half
#define SAMPLE_US  UINT64_C(500000)  // between samples of memory

// ---- values ------------------------------------------------------------------------------------

// A whole number from 0 to MAX_NUMBER. Numbers are read as doubles, because a figure may be
// 2^64 - 1. False: it is something else.
static bool take_natural(const fxi_json *v, uint64_t *out)
{
    const double d = fxi_json_number(v);
    if (!fxi_json_is_real(v) || !(d >= 0) || d > (double)MAX_NUMBER || d != floor(d)) return false;
    *out = (uint64_t)d;
    return true;
}

const fxi_json *fxi_top_get(const fxi_top_state *s, const char *key)
{
    return fxi_json_get(s->doc.root, key);
}

uint64_t fxi_top_number(const fxi_json *o, const char *key)
{
    uint64_t v;
    return take_natural(fxi_json_get(o, key), &v) ? v : 0;
}

bool fxi_top_row(const fxi_json *list, uint64_t *v, size_t n)
{
    if (fxi_json_array_size(list) != n) return false;
    for (size_t i = 0; i < n; i++)
        if (!take_natural(fxi_json_at(list, i), &v[i])) return false;
    return true;
}

// ---- lists, as docs/user/watch.md has them ------------------------------------------------------

// [first, n, state, group], by first; a missing list is empty.
static bool check_chunk_list(const fxi_json *list)
{
    uint64_t v[4], end = 0;
    for (size_t i = 0; i < fxi_json_array_size(list); i++) {
        if (!fxi_top_row(fxi_json_at(list, i), v, 4) || v[0] < end || v[1] > FXI_TOP_MAX_CHUNK ||
            v[2] >= FX_N_CHUNK_STATE)
            return false;
        end = v[0] + v[1];
    }
    return true;
}

// [group, position, chunk, n]
static bool check_segment_list(const fxi_json *list)
{
    uint64_t v[4], n_position = 0;
    for (size_t i = 0; i < fxi_json_array_size(list); i++) {
        if (!fxi_top_row(fxi_json_at(list, i), v, 4) || v[1] > FXI_TOP_MAX_CHUNK ||
            v[3] > FXI_TOP_MAX_CHUNK - v[1])
            return false;
        n_position += v[3];
        if (n_position > FXI_TOP_MAX_CHUNK) return false;
    }
    return true;
}

// By request, then choice.
static bool check_span_list(const fxi_json *list)
{
    uint64_t request, last_request = 0, last_choice = 0;
    for (size_t i = 0; i < fxi_json_array_size(list); i++) {
        const fxi_json *span = fxi_json_at(list, i);
        const uint64_t choice = fxi_top_number(span, "choice");
        if (!take_natural(fxi_json_get(span, "request"), &request) ||
            !check_segment_list(fxi_json_get(span, "segments")) ||
            (i && (request < last_request || (request == last_request && choice <= last_choice))))
            return false;
        last_request = request;
        last_choice = choice;
    }
    return true;
}

// By id.
static bool check_request_list(const fxi_json *list)
{
    uint64_t id, last = 0;
    for (size_t i = 0; i < fxi_json_array_size(list); i++, last = id)
        if (!take_natural(fxi_json_get(fxi_json_at(list, i), "id"), &id) || (i && id <= last))
            return false;
    return true;
}

unsigned fxi_top_chunk_state(const fxi_top_state *s, uint64_t name, uint64_t *n)
{
    const fxi_json *list = fxi_top_get(s, "chunks");
    size_t low = 0, high = fxi_json_array_size(list);
    *n = 1;
    while (low < high) {
        const size_t mid = (low + high) / 2;
        uint64_t v[4] = {0}; // first, n, state, group
        (void)fxi_top_row(fxi_json_at(list, mid), v, 4);
        if (name >= v[0] && name - v[0] < v[1]) {
            *n = v[0] + v[1] - name;
            return (unsigned)v[2];
        }
        if (v[0] <= name)
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

// now[n], as `list` has them, from was[n_was]; both are sorted by id.
static void measure_requests(fxi_top_request *now, size_t n, const fxi_json *list,
                             const fxi_top_request *was, size_t n_was, uint64_t at_us)
{
    const fxi_top_request *end = was + n_was;
    for (size_t i = 0; i < n; i++) {
        fxi_top_request *r = &now[i];
        const fxi_json *item = fxi_json_at(list, i);
        const uint64_t n_tok = fxi_top_number(item, "generated");
        *r = (fxi_top_request){fxi_top_number(item, "id"), 0, at_us, n_tok};
        while (was < end && was->id < r->id) was++;
        if (was == end || was->id != r->id || at_us < was->rated_us) continue;
        const uint64_t us = at_us - was->rated_us;
        if (us < RATE_US) {
            *r = *was;
            continue;
        }
        const double rate = rate_of(was->rated_tok, n_tok, us);
        r->tok_s = was->tok_s > 0 ? SMOOTH * rate + (1 - SMOOTH) * was->tok_s : rate;
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

// Takes *doc over if it is a snapshot.
static fx_status take_root(fxi_top_state *s, fxi_json_doc *doc, fx_error *err)
{
    static const struct {
        const char *name;
        bool (*is_valid)(const fxi_json *list);
    } lists[] = {
        {"chunks", check_chunk_list}, {"spans", check_span_list}, {"requests", check_request_list}};
    const fxi_json *stats = fxi_json_get(doc->root, "stats");
    const fxi_json *requests = fxi_json_get(doc->root, "requests");
    const fxi_json *chunks = fxi_json_get(fxi_json_get(doc->root, "counts"), "chunks");
    const uint64_t number = fxi_top_number(doc->root, "number");
    const uint64_t at_us = fxi_top_number(doc->root, "at_us");
    const size_t n_request = fxi_json_array_size(requests);
    uint64_t n_chunk[FX_N_CHUNK_STATE];
    if (!number || !fxi_top_row(chunks, n_chunk, FX_N_CHUNK_STATE))
        return fxi_fail(err, FX_EFORMAT, "the server's answer is not a snapshot");
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (!lists[i].is_valid(fxi_json_get(doc->root, lists[i].name)))
            return fxi_fail(err, FX_EFORMAT, "the server's snapshot: '%s' is not valid",
                            lists[i].name);
    fxi_top_request *request = calloc(n_request + 1, sizeof *request);
    if (!request) return fxi_fail(err, FX_ENOMEM, "out of memory");
    if (number < s->number || at_us < s->at_us) { // another process
        s->rated_us = 0;
        s->rate = (fxi_top_rates){0};
        s->n_request = 0;
    }
    s->number = number;
    s->at_us = at_us;
    s->stats = (fx_stats){0};
#define READ_STAT(name, help) /* a figure beyond 2^53 is without a limit */                      \
    if (fxi_json_get(stats, #name) && !take_natural(fxi_json_get(stats, #name), &s->stats.name)) \
        s->stats.name = UINT64_MAX;
    FX_STATS(READ_STAT)
#undef READ_STAT
    memcpy(s->n_chunk, n_chunk, sizeof s->n_chunk);
    measure_requests(request, n_request, requests, s->request, s->n_request, at_us);
    free(s->request);
    s->request = request;
    s->n_request = n_request;
    fxi_json_doc_free(&s->doc);
    s->doc = *doc;
    *doc = (fxi_json_doc){0};
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
        st = take_root(s, &doc, err);
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
    fxi_json_doc_free(&s->doc);
    free(s->request);
    *s = (fxi_top_state){0};
}
