// page_prefix.c - records the full pages of a sequence.
#include "kv/paged/paged.h"

// The sequence goes on with the page that holds the same tokens already: its own is given up.
static void adopt_page(fxi_paged *k, fxi_paged_seq *s, int i, uint32_t page)
{
    fxi_page_hold(k, page);
    fxi_page_let_go(k, s->page[i]);
    s->page[i] = page;
    s->table[i] = (int32_t)k->page[page].block;
}

static void keep_page(fxi_page *p, const fxi_kv_keep *keep)
{
    if (!keep->priority) return;
    p->priority = (uint8_t)keep->priority;
    p->until_ms = keep->until_ms;
}

// Whether all n pages can be recorded: those that are not known there already are recorded in no
// other domain.
static bool can_record(const fxi_paged *k, const fxi_paged_seq *s, int n, const fxi_page_domain *d,
                       const int32_t *tok)
{
    uint64_t parent = d->serial;
    bool all_known = true;
    for (int i = 0; i < n; i++, tok += fxi_paged_block_tok(k)) {
        const uint32_t known = all_known ? fxi_page_find(k, parent, tok) : FXI_PAGE_NONE;
        const fxi_page *own = &k->page[s->page[i]];
        all_known = known != FXI_PAGE_NONE;
        if (all_known)
            parent = k->page[known].serial;
        else if (own->serial && own->domain != d)
            return false;
    }
    return true;
}

// Records page i of the sequence behind `parent`. It may be recorded already behind a page that has
// been evicted since.
static void record_page(fxi_paged *k, fxi_paged_seq *s, int i, uint64_t parent, fxi_page_domain *d,
                        const int32_t *tok)
{
    const uint32_t page = s->page[i], known = fxi_page_find(k, parent, tok);
    if (known == page) return;
    if (known != FXI_PAGE_NONE) {
        adopt_page(k, s, i, known);
        return;
    }
    if (k->page[page].serial) fxi_page_unrecord(k, page);
    fxi_page_put(k, page, parent, d, tok);
}

fx_status fxi_page_record(fxi_kv *kv, fxi_kv_seq *seq, fxi_kv_domain *domain, const int32_t *tok,
                          int n_tok, const fxi_kv_keep *keep)
{
    fxi_paged *k = fxi_paged_of(kv);
    fxi_paged_seq *s = fxi_paged_seq_of(seq);
    fxi_page_domain *d = (fxi_page_domain *)domain;
    uint64_t parent = d->serial;
    const int n_page = n_tok >> k->block_shift;
    if (s->way != FXI_SEQ_IN || n_tok > s->len_tok || !can_record(k, s, n_page, d, tok))
        return FX_EINVAL;
    for (int i = 0; i < n_page; i++) {
        record_page(k, s, i, parent, d, tok + ((size_t)i << k->block_shift));
        keep_page(&k->page[s->page[i]], keep);
        parent = k->page[s->page[i]].serial;
    }
    return FX_OK;
}
