// scores_out.c - the bodies of /v1/rerank and /v1/score, once all texts are computed.
//
// A cross-encoder has computed the scores; of an embedding model a score is the cosine of the two
// texts' vectors, which have the length 1.
#include <stdlib.h>

#include "server/reply/api_reply.h"

typedef struct scored_text {
    int index;
    float score;
} scored_text;

static const float *vector_of(const fxi_reply *r, int k, size_t *n)
{
    *n = r->choice[k].text.n / sizeof(float);
    return (const float *)r->choice[k].text.p;
}

static float score_at(const fxi_reply *r, int i)
{
    const int n_query = r->spec.n_query;
    size_t n;
    const float *a = vector_of(r, r->spec.is_pairs || n_query > 1 ? i : 0, &n);
    if (r->spec.is_pairs) return a[0];
    const float *b = vector_of(r, n_query + i, &n);
    double sum = 0;
    for (size_t k = 0; k < n; k++) sum += (double)a[k] * (double)b[k];
    return (float)sum;
}

static int count_scores(const fxi_reply *r)
{
    return r->spec.n_prompt - (r->spec.is_pairs ? 0 : r->spec.n_query);
}

static bool add_prompt_usage(fxi_buf *b, const fxi_reply *r)
{
    const int n_tok = fxi_usage_of(r).n_prompt;
    return fxi_json_fmt(b, "'usage':{'prompt_tokens':%d,'total_tokens':%d}", n_tok, n_tok);
}

// ---- /v1/rerank --------------------------------------------------------------------------------

// The best first, of equals in the client's order.
static int compare_scored(const void *x, const void *y)
{
    const scored_text *a = x, *b = y;
    if (a->score != b->score) return a->score < b->score ? 1 : -1;
    return a->index - b->index;
}

static bool add_result(fxi_buf *b, const fxi_reply *r, const scored_text *t)
{
    const fxi_json *doc = fxi_json_at(r->spec.documents, (size_t)t->index);
    if (fxi_json_is_object(doc)) doc = fxi_json_get(doc, "text");
    return fxi_json_fmt(b, "{'index':%d,", t->index) &&
           (!doc || fxi_json_fmt(b, "'document':{'text':%v},", doc)) &&
           fxi_json_fmt(b, "'relevance_score':%f}", (double)t->score);
}

bool fxi_rerank_whole(fxi_buf *b, const fxi_reply *r)
{
    const int n = count_scores(r), top_n = r->spec.top_n ? r->spec.top_n : n;
    scored_text *t = calloc((size_t)n, sizeof *t);
    bool ok =
        t && fxi_json_fmt(b, "{'id':%q,'object':'list','model':%q,'results':[", r->id, r->model);
    for (int i = 0; t && i < n; i++) t[i] = (scored_text){i, score_at(r, i)};
    if (t) qsort(t, (size_t)n, sizeof *t, compare_scored);
    for (int i = 0; ok && i < n && i < top_n; i++)
        ok = fxi_buf_str(b, i ? "," : "") && add_result(b, r, &t[i]);
    free(t);
    return ok && fxi_buf_str(b, "],") && add_prompt_usage(b, r) && fxi_buf_str(b, "}");
}

// ---- /v1/score ---------------------------------------------------------------------------------

bool fxi_scores_whole(fxi_buf *b, const fxi_reply *r)
{
    bool ok = fxi_json_fmt(b, "{'id':%q,'object':'list','created':%l,'model':%q,'data':[", r->id,
                           (long long)r->created, r->model);
    for (int i = 0; ok && i < count_scores(r); i++)
        ok = fxi_json_fmt(b, "%s{'index':%d,'object':'score','score':%f}", i ? "," : "", i,
                          (double)score_at(r, i));
    return ok && fxi_buf_str(b, "],") && add_prompt_usage(b, r) && fxi_buf_str(b, "}");
}
