// request_check.c - checks a request: whatever would make it fail later through its own fault is
// refused here, with one line that says what and where. Also computes what a request needs.
//
// Numbers with plain bounds are in one table; token lists, counts that depend on each other, and
// the KV budget follow. Runs on the submitting thread.
#include "engine/request/request.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define MAX_STOP_BYTES ((size_t)2 << 30) // lengths of stop strings fit in 32 bits

// ---- numbers -----------------------------------------------------------------------------------

typedef enum number_kind { FLOAT, INT } number_kind;

typedef struct number_rule {
    const char *name;
    number_kind kind;
    size_t at; // in fx_request
    double min, max;
    bool above; // min itself is out of range
    bool or_zero;
} number_rule;

#define AT(field)   offsetof(fx_request, field)
#define RULE(field) offsetof(fx_request, sampling.field)

static const number_rule number_rules[] = {
    {"temperature", FLOAT, RULE(temperature), 0, 1e30F, false, false},
    {"top_p", FLOAT, RULE(top_p), 0, 1, true, false},
    {"min_p", FLOAT, RULE(min_p), 0, 1, false, false},
    {"typical_p", FLOAT, RULE(typical_p), 0, 1, true, true},
    {"repetition_penalty", FLOAT, RULE(repetition_penalty), 0, 1e30F, true, true},
    {"presence_penalty", FLOAT, RULE(presence_penalty), -2, 2, false, false},
    {"frequency_penalty", FLOAT, RULE(frequency_penalty), -2, 2, false, false},
    {"dry_multiplier", FLOAT, RULE(dry_multiplier), 0, 1e30F, false, false},
    {"dry_base", FLOAT, RULE(dry_base), 0, 1e30F, false, false},
    {"dry_allowed_length", INT, RULE(dry_allowed_length), 0, INT32_MAX, false, false},
    {"dry_last_tok", INT, RULE(dry_last_tok), -1, INT32_MAX, false, false},
    {"xtc_probability", FLOAT, RULE(xtc_probability), 0, 1, false, false},
    {"xtc_threshold", FLOAT, RULE(xtc_threshold), 0, 1, false, false},
    {"length_penalty", FLOAT, AT(length_penalty), -100, 100, false, false},
    {"top_k", INT, RULE(top_k), 0, INT32_MAX, false, false},
    {"expect_tok", INT, AT(expect_tok), 0, INT32_MAX / 2, false, false},
    {"min_tok", INT, RULE(min_tok), 0, INT32_MAX, false, false},
    {"n", INT, AT(n_choice), 1, FX_MAX_CHOICE, false, false},
    {"n_best", INT, AT(n_best), 0, FX_MAX_CHOICE, false, false},
    {"beam_width", INT, AT(beam_width), 0, FX_MAX_BEAM, false, false},
    {"the number of top logprobs", INT, AT(n_top), 0, FX_MAX_TOP, false, false},
    {"the number of prompt logprobs", INT, AT(n_prompt_top), 0, FX_MAX_TOP, false, false},
    {"priority", INT, AT(priority), -FX_MAX_PRIORITY, FX_MAX_PRIORITY, false, false},
    {"keep_priority", INT, AT(keep_priority), 0, 7, false, false},
};

static fx_status check_numbers(const fx_request *spec, fx_error *err)
{
    for (size_t i = 0; i < sizeof number_rules / sizeof *number_rules; i++) {
        const number_rule *r = &number_rules[i];
        const char *p = (const char *)spec + r->at;
        const double v = r->kind == FLOAT ? (double)*(const float *)p : (double)*(const int *)p;
        const bool is_within = v <= r->max && (r->above ? v > r->min : v >= r->min); // not NaN
        if (!is_within && !(r->or_zero && v == 0))
            return fxi_fail(err, FX_EINVAL, "%s: %g is not %s %g and at most %g", r->name, v,
                            r->above ? "above" : "at least", r->min, r->max);
    }
    return FX_OK;
}

// ---- tokens ------------------------------------------------------------------------------------

static fx_status check_ids(const fxi_service *sv, const char *what, const int32_t *id, size_t n,
                           fx_error *err)
{
    for (size_t i = 0; i < n; i++)
        if (id[i] < 0 || id[i] >= sv->info->n_vocab)
            return fxi_fail(err, FX_EINVAL, "%s token %zu: id %d is outside the vocabulary of %d",
                            what, i, id[i], sv->info->n_vocab);
    return FX_OK;
}

// Marks of tokens, so that long lists are not searched for each other's ids.
enum { BANNED = 1, ENDS = 2 };

static void mark_ids(const fxi_service *sv, uint8_t *mark, int bit, const int32_t *id, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (id[i] >= 0 && id[i] < sv->info->n_vocab) mark[id[i]] |= (uint8_t)bit;
}

// At least one allowed token must not be banned, and with min_tok one must not end the answer.
static fx_status check_something_left(const fxi_service *sv, const fx_request *spec, fx_error *err)
{
    const fx_sampling *s = &spec->sampling;
    if (!s->n_allow) return FX_OK;
    uint8_t *mark = calloc((size_t)sv->info->n_vocab, 1);
    if (!mark) return fxi_fail(err, FX_ENOMEM, "no memory to check the tokens that are allowed");
    for (size_t i = 0; i < s->n_ban_run; i++)
        if (s->ban_run[i].n == 1) mark_ids(sv, mark, BANNED, s->ban_run[i].id, 1);
    mark_ids(sv, mark, BANNED, s->ban, s->n_ban);
    mark_ids(sv, mark, ENDS, sv->end_tok, (size_t)sv->n_end_tok);
    mark_ids(sv, mark, ENDS, spec->stop_token, spec->n_stop_token);
    bool some = false, goes_on = !s->min_tok;
    for (size_t i = 0; i < s->n_allow; i++) {
        const uint8_t is = mark[s->allow[i]];
        some |= !(is & BANNED);
        goes_on |= !is;
    }
    free(mark);
    if (!some) return fxi_fail(err, FX_EINVAL, "allow: every token that is allowed is banned too");
    if (!goes_on)
        return fxi_fail(err, FX_EINVAL,
                        "min_tok: every allowed token ends the answer, which must have at least %d",
                        s->min_tok);
    return FX_OK;
}

static fx_status check_rule_ids(const fxi_service *sv, const fx_sampling *s, fx_error *err)
{
    FX_TRY(check_ids(sv, "allowed", s->allow, s->n_allow, err));
    FX_TRY(check_ids(sv, "banned", s->ban, s->n_ban, err));
    for (size_t i = 0; i < s->n_ban_run; i++) {
        if (!s->ban_run[i].n) return fxi_fail(err, FX_EINVAL, "a banned run of tokens is empty");
        FX_TRY(check_ids(sv, "banned", s->ban_run[i].id, s->ban_run[i].n, err));
    }
    for (size_t i = 0; i < s->n_dry_breaker; i++)
        if (!s->dry_breaker[i][0]) return fxi_fail(err, FX_EINVAL, "a sequence breaker is empty");
    for (size_t i = 0; i < s->n_bias; i++) {
        FX_TRY(check_ids(sv, "bias", &s->bias[i].token, 1, err));
        if (!isfinite(s->bias[i].bias))
            return fxi_fail(err, FX_EINVAL, "the bias of token %d is not a number",
                            s->bias[i].token);
    }
    return FX_OK;
}

static fx_status check_thought(const fxi_service *sv, const fx_thought *t, fx_error *err)
{
    if (!t) return FX_OK;
    bool has_marks = t->open[0] && t->close[0];
    for (int i = 0; has_marks && i < 2; i++)
        has_marks = (!t->open[i] || t->open[i][0]) && (!t->close[i] || t->close[i][0]);
    if (t->max_tok < 0 || !t->n_close || !has_marks)
        return fxi_fail(err, FX_EINVAL, "a thought needs its marks, and at least 0 tokens");
    return check_ids(sv, "closing", t->close_tok, t->n_close, err);
}

static fx_status check_token_lists(const fxi_service *sv, const fx_request *spec, fx_error *err)
{
    FX_TRY(check_rule_ids(sv, &spec->sampling, err));
    FX_TRY(check_ids(sv, "stop", spec->stop_token, spec->n_stop_token, err));
    FX_TRY(check_ids(sv, "shown", spec->show_token, spec->n_show_token, err));
    FX_TRY(check_something_left(sv, spec, err));
    for (size_t i = 0; i < spec->n_stop; i++) {
        if (!spec->stop[i][0]) return fxi_fail(err, FX_EINVAL, "a stop string is empty");
        if (strnlen(spec->stop[i], MAX_STOP_BYTES) == MAX_STOP_BYTES)
            return fxi_fail(err, FX_EINVAL, "a stop string has 2 GiB or more");
    }
    if (!spec->n_prompt) return fxi_fail(err, FX_EINVAL, "the prompt has no tokens");
    if (spec->task == FX_TASK_GENERATE && spec->n_prompt >= (size_t)sv->info->ctx_tok)
        return fxi_fail(err, FX_ECONTEXT,
                        "This model's maximum context length is %d tokens, one of them at least "
                        "for the answer. However, the prompt has %zu tokens.",
                        sv->info->ctx_tok, spec->n_prompt);
    return check_ids(sv, "prompt", spec->prompt, spec->n_prompt, err);
}

// ---- tasks -------------------------------------------------------------------------------------

static fx_status check_embedding(const fxi_service *sv, const fx_request *spec, fx_error *err)
{
    const fx_model_info *info = sv->info;
    const bool is_score = spec->task == FX_TASK_SCORE;
    if (is_score && !info->scores)
        return fxi_fail(err, FX_EINVAL,
                        "this model does not score pairs of texts: it has no head for that");
    if (!is_score && info->scores)
        return fxi_fail(err, FX_EINVAL, "this model scores pairs of texts, it does not embed any");
    if (!is_score && !info->embeds)
        return fxi_fail(err, FX_EINVAL,
                        "this model is not made to embed texts: its file does not say how their "
                        "tokens' rows are pooled, and no pooling was chosen when it was opened");
    if (spec->n_first < 0 || (size_t)spec->n_first > spec->n_prompt)
        return fxi_fail(err, FX_EINVAL, "n_first: %d is not from 0 to %zu", spec->n_first,
                        spec->n_prompt);
    if (spec->n_dim < 0 || spec->n_dim > info->n_embd)
        return fxi_fail(err, FX_EINVAL, "dimensions: %d is not from 1 to %d", spec->n_dim,
                        info->n_embd);
    if (spec->norm < FX_NORM_MODEL || spec->norm > FX_NORM_NONE)
        return fxi_fail(err, FX_EINVAL, "norm: %d is not from 0 to 2", (int)spec->norm);
    if (spec->n_prompt > (size_t)info->embd_tok)
        return fxi_fail(err, FX_ECONTEXT, "the text has %zu tokens, at most %d are %s",
                        spec->n_prompt, info->embd_tok, is_score ? "scored" : "embedded");
    return FX_OK;
}

static fx_status check_task(const fxi_service *sv, const fx_request *spec, fx_error *err)
{
    if (spec->task == FX_TASK_EMBED || spec->task == FX_TASK_SCORE)
        return check_embedding(sv, spec, err);
    if (spec->task != FX_TASK_GENERATE)
        return fxi_fail(err, FX_EINVAL, "task: %d is not from 0 to 2", (int)spec->task);
    if (!sv->info->generates)
        return fxi_fail(err, FX_EINVAL, "this model (%s) %s texts, it does not generate any",
                        sv->info->arch, sv->info->scores ? "scores pairs of" : "embeds");
    return FX_OK;
}

fx_request fx_request_default(void)
{
    static const char *const breakers[] = {"\n", ":", "\"", "*"}; // those of llama.cpp
    return (fx_request){.max_tok = -1,
                        .n_choice = 1,
                        .length_penalty = 1,
                        .sampling = {.temperature = 1,
                                     .top_p = 1,
                                     .dry_base = 1.75f,
                                     .dry_allowed_length = 2,
                                     .dry_last_tok = -1,
                                     .dry_breaker = breakers,
                                     .n_dry_breaker = sizeof breakers / sizeof *breakers,
                                     .xtc_threshold = 0.1f}};
}

// Embeddings and scores read these fields; the others become those of fx_request_default.
fx_request fxi_request_clean(const fx_request *spec)
{
    if (spec->task == FX_TASK_GENERATE) return *spec;
    fx_request r = fx_request_default();
    r.task = spec->task;
    if (spec->task == FX_TASK_EMBED) r.n_dim = spec->n_dim, r.norm = spec->norm;
    if (spec->task == FX_TASK_SCORE) r.n_first = spec->n_first;
    r.prompt = spec->prompt;
    r.n_prompt = spec->n_prompt;
    r.max_tok = 0;
    r.priority = spec->priority;
    r.tenant = spec->tenant;
    r.client = spec->client;
    r.no_cache = spec->no_cache;
    r.keep_priority = spec->keep_priority;
    r.keep_s = spec->keep_s;
    r.on_event = spec->on_event;
    r.ud = spec->ud;
    return r;
}

// ---- counts and memory -------------------------------------------------------------------------

int fxi_request_n_seq(const fx_request *spec)
{
    if (spec->beam_width) return spec->beam_width;
    return spec->n_best ? spec->n_best : spec->n_choice;
}

static fx_status check_n_seq(const fxi_service *sv, const fx_request *spec, fx_error *err)
{
    const int n_seq = fxi_request_n_seq(spec);
    if (spec->beam_width && spec->n_best)
        return fxi_fail(err, FX_EINVAL, "beam_width and n_best exclude each other");
    if (n_seq < spec->n_choice)
        return fxi_fail(err, FX_EINVAL, "%s: %d is less than n, %d",
                        spec->beam_width ? "beam_width" : "n_best", n_seq, spec->n_choice);
    if (n_seq > sv->max_seq)
        return fxi_fail(err, FX_EINVAL, "%d sequences are asked for, at most %d run together",
                        n_seq, sv->max_seq);
    return FX_OK;
}

// With no_cache, nothing is shared any longer once the request has been preempted and computed
// again.
static uint64_t bytes_of_some(const fxi_service *sv, const fx_request *spec, int n_seq, int max_tok)
{
    const int n_prompt = (int)spec->n_prompt, end_tok = n_prompt + max_tok;
    const fxi_kv_need need = {
        .n_seq = n_seq,
        .each = {n_prompt, spec->expect_tok < max_tok ? spec->expect_tok : max_tok, end_tok},
        .end_tok = end_tok,
        .is_apart = spec->no_cache,
    };
    return fxi_kv_cost(sv->kv, &need);
}

// Beams are computed together.
static bool may_take_turns(const fxi_service *sv, const fx_request *spec)
{
    return !fxi_kv_can(sv->kv, FXI_KV_FORK) && !spec->beam_width;
}

int fxi_request_at_once(const fxi_service *sv, const fx_request *spec, int max_tok)
{
    int low = 1, high = fxi_request_n_seq(spec);
    if (!may_take_turns(sv, spec)) return high;
    while (low < high) {
        const int mid = low + (high - low + 1) / 2;
        if (bytes_of_some(sv, spec, mid, max_tok) <= sv->budget_bytes)
            low = mid;
        else
            high = mid - 1;
    }
    return low;
}

uint64_t fxi_request_bytes(const fxi_service *sv, const fx_request *spec, int max_tok)
{
    const int n_seq = may_take_turns(sv, spec) ? 1 : fxi_request_n_seq(spec);
    return bytes_of_some(sv, spec, n_seq, max_tok);
}

uint64_t fxi_request_alone_bytes(const fxi_service *sv, int n_tok)
{
    const fxi_kv_expect e = {.begin_tok = n_tok, .most_tok = n_tok};
    return fxi_kv_cost(sv->kv, &(fxi_kv_need){.n_seq = 1, .each = e, .end_tok = n_tok});
}

int fxi_request_longest_tok(const fxi_service *sv, uint64_t budget_bytes)
{
    int low = 0, high = sv->info->ctx_tok;
    while (low < high) {
        const int mid = low + (high - low + 1) / 2;
        if (fxi_request_alone_bytes(sv, mid) <= budget_bytes)
            low = mid;
        else
            high = mid - 1;
    }
    return low;
}

static fx_status check_memory(const fxi_service *sv, const fx_request *spec, fx_error *err)
{
    const int answer = spec->task == FX_TASK_GENERATE; // at least one token
    const uint64_t alone = fxi_request_alone_bytes(sv, (int)spec->n_prompt + answer);
    if (alone > sv->budget_bytes)
        return fxi_fail(err, FX_ECONTEXT,
                        "This model's maximum context length is %d tokens with %llu bytes of KV "
                        "memory. However, the prompt has %zu tokens.",
                        fxi_request_longest_tok(sv, sv->budget_bytes),
                        (unsigned long long)sv->budget_bytes, spec->n_prompt);
    const int room = sv->info->ctx_tok - (int)spec->n_prompt;
    int max_tok = spec->max_tok < 0 ? 1 : spec->max_tok < room ? spec->max_tok : room;
    uint64_t need = fxi_request_bytes(sv, spec, max_tok);
    if (need > sv->budget_bytes)
        return fxi_fail(err, FX_ENOSPACE,
                        "%d sequences of %zu prompt tokens and up to %d more need %llu bytes of KV "
                        "memory, the budget is %llu",
                        fxi_request_n_seq(spec), spec->n_prompt, max_tok, (unsigned long long)need,
                        (unsigned long long)sv->budget_bytes);
    return FX_OK;
}

// Where others run, it may have to wait for them.
static fx_status check_mappings(const fxi_service *sv, const fx_request *spec, fx_error *err)
{
    const uint64_t each = fxi_kv_mappings(sv->kv, NULL), most = sv->kv->max_mapping;
    const int n_seq = fxi_request_n_seq(spec);
    if (!most || (uint64_t)n_seq * each <= most) return FX_OK;
    return fxi_fail(err, FX_ENOSPACE,
                    "%d sequences need %llu mappings of memory, %llu each; the limit "
                    "vm.max_map_count leaves %llu of them",
                    n_seq, (unsigned long long)n_seq * each, (unsigned long long)each,
                    (unsigned long long)most);
}

fx_status fxi_request_check(const fxi_service *sv, const fx_request *spec, fx_error *err)
{
    if (!spec->on_event) return fxi_fail(err, FX_EINVAL, "a request needs an on_event");
    FX_TRY(check_task(sv, spec, err));
    FX_TRY(check_numbers(spec, err));
    FX_TRY(check_n_seq(sv, spec, err));
    FX_TRY(check_token_lists(sv, spec, err));
    FX_TRY(check_thought(sv, spec->thought, err));
    if (spec->grammar && spec->grammar->home != sv->grammars)
        return fxi_fail(err, FX_EINVAL, "the grammar was compiled for another engine");
    FX_TRY(check_mappings(sv, spec, err));
    return check_memory(sv, spec, err);
}
