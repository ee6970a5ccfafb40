// seq_record.c - record, retain, and domains. Recording makes the tree another holder of the
// sequence's chunks; nothing is copied before the sequence grows.
#include "sequence.h"

#include "vtensor/common/try.h"

static vt_status retain_node(vt_manager *m, vti_node *node, const vt_retention *keep)
{
    return vti_rtree_retain(m->rtree, node, keep, m->budget_chunks / 2, m->now_ms);
}

static vt_status seq_record(vt_seq *s, vt_domain *d, const uint32_t *tok, uint32_t n_tok,
                            const vt_retention *keep)
{
    vt_manager *m = s->m;
    vti_node *node;
    if (n_tok > s->len_tok || s->swapped || vti_domain_owner(d) != m) return VT_EINVAL;
    if (keep && keep->priority > VT_MAX_PRIORITY) return VT_EINVAL;
    if (n_tok == 0) return VT_OK;
    VT_TRY(vti_span_repair(m, s->span));
    bool is_new = vt_match(d, tok, n_tok) < n_tok;
    VT_TRY(vti_rtree_push(m->rtree, d, tok, n_tok, s->span->at, &node));
    vt_status st = keep ? retain_node(m, node, keep) : VT_OK;
    if (st == VT_OK)
        vti_seq_set_node(s, node);
    else if (is_new)
        vti_rtree_drop(m->rtree, node);
    (void)vti_strays_free(m); // tails that this prefix supersedes
    return st;
}

vt_status vt_seq_record(vt_seq *s, vt_domain *d, const uint32_t *tok, uint32_t n_tok,
                        const vt_retention *keep)
{
    return vti_tally_answer(s->m, seq_record(s, d, tok, n_tok, keep));
}

// The edge in which the path ends is split there; the part beyond keeps its retention.
static vt_status retain_path(vt_manager *m, vt_domain *d, const uint32_t *tok, uint32_t n_tok,
                             const vt_retention *keep)
{
    vti_node *node;
    if (keep->priority > VT_MAX_PRIORITY) return VT_EINVAL;
    VT_TRY(vti_rtree_push(m->rtree, d, tok, n_tok, NULL, &node));
    return retain_node(m, node, keep);
}

vt_status vt_retain(vt_domain *d, const uint32_t *tok, uint32_t n_tok, const vt_retention *keep,
                    uint32_t *n_hit)
{
    vt_manager *m = vti_domain_owner(d);
    uint32_t n_known = vt_match(d, tok, n_tok);
    if (n_hit) *n_hit = n_known;
    return n_known == 0 ? VT_OK : vti_tally_answer(m, retain_path(m, d, tok, n_known, keep));
}

// ---- Domains

vt_status vt_domain_open(vt_manager *m, const void *key, size_t key_bytes, vt_domain **out)
{
    enum { MAX_KEY_BYTES = 4096 };
    *out = NULL;
    if (key_bytes > MAX_KEY_BYTES) return VT_EINVAL;
    return vti_rtree_open(m->rtree, key, key_bytes, out);
}

void vt_domain_close(vt_domain *d)
{
    if (d) vti_rtree_close(d);
}

vt_status vt_domain_forget(vt_domain *d)
{
    vt_manager *m = vti_domain_owner(d);
    vti_rtree_forget(d);
    return vti_strays_free(m);
}
