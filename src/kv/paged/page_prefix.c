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

// Records page i of the sequence behind `parent`. It may be recorded already behind a page that has
// been evicted since. False: it is recorded in another domain.
static bool record_page(fxi_paged *k, fxi_paged_seq *s, int i, uint64_t parent, fxi_page_domain *d,
                        const int32_t *tok)
{
    const uint32_t page = s->page[i], known = fxi_page_find(k, parent, tok);
    if (known == page) return true;
    if (known != FXI_PAGE_NONE) {
        adopt_page(k, s, i, known);
        return true;
    }
    if (k->page[page].serial && k->page[page].domain != d) return false;
    if (k->page[page].serial) fxi_page_unrecord(k, page);
    fxi_page_put(k, page, parent, d, tok);
    return true;
}

fx_status fxi_page_record(fxi_kv *kv, fxi_kv_seq *seq, fxi_kv_domain *domain, const int32_t *tok,
                          int n_tok, const fxi_kv_keep *keep)
{
    fxi_paged *k = fxi_paged_of(kv);
    fxi_paged_seq *s = fxi_paged_seq_of(seq);
    fxi_page_domain *d = (fxi_page_domain *)domain;
    uint64_t parent = d->serial;
    if (s->is_out || n_tok > s->len_tok) return FX_EINVAL;
    for (int i = 0; i < n_tok >> k->block_shift; i++) {
        if (!record_page(k, s, i, parent, d, tok + ((size_t)i << k->block_shift))) return FX_EINVAL;
        keep_page(&k->page[s->page[i]], keep);
        parent = k->page[s->page[i]].serial;
    }
    return FX_OK;
}
