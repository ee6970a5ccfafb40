// page_table.c - recorded pages: a hash table from what comes before a page and its tokens to the
// page, keyed so that nobody can choose prompts whose pages collide, and the domains.
#include "kv/paged/paged.h"

#include <stdlib.h>
#include <string.h>

// ---- the table ---------------------------------------------------------------------------------

static size_t tokens_bytes(const fxi_paged *k)
{
    return sizeof(int32_t) << k->block_shift;
}

static int32_t *tokens_of(const fxi_paged *k, uint32_t page)
{
    return k->tok + ((size_t)page << k->block_shift);
}

static uint32_t *page_bucket(const fxi_paged *k, uint64_t parent, const int32_t *tok)
{
    const fxi_secret here = {{k->secret.key[0] ^ parent, k->secret.key[1]}};
    const uint64_t h = fxi_secret_hash(here, tok, tokens_bytes(k));
    return &k->bucket[h & (k->n_bucket - 1)];
}

uint32_t fxi_page_find(const fxi_paged *k, uint64_t parent, const int32_t *tok)
{
    uint32_t page = *page_bucket(k, parent, tok);
    while (page != FXI_PAGE_NONE && (k->page[page].parent != parent ||
                                     memcmp(tokens_of(k, page), tok, tokens_bytes(k)) != 0))
        page = k->page[page].chain;
    return page;
}

void fxi_page_put(fxi_paged *k, uint32_t page, uint64_t parent, fxi_page_domain *d,
                  const int32_t *tok)
{
    fxi_page *p = &k->page[page];
    uint32_t *bucket = page_bucket(k, parent, tok);
    memcpy(tokens_of(k, page), tok, tokens_bytes(k));
    fxi_page_uncount(k, p);
    p->serial = ++k->n_serial;
    fxi_page_count(k, p);
    p->parent = parent;
    p->domain = d;
    p->chain = *bucket;
    *bucket = page;
    d->n_page++;
}

static void free_domain_unless_used(fxi_paged *k, fxi_page_domain *d)
{
    if (d->n_open || d->n_page) return;
    fxi_page_domain **at = &k->domain;
    while (*at != d) at = &(*at)->next;
    *at = d->next;
    free(d);
}

void fxi_page_unrecord(fxi_paged *k, uint32_t page)
{
    fxi_page *p = &k->page[page];
    uint32_t *at = page_bucket(k, p->parent, tokens_of(k, page));
    while (*at != page) at = &k->page[*at].chain;
    *at = p->chain;
    fxi_page_uncount(k, p);
    p->serial = 0;
    fxi_page_count(k, p);
    p->priority = 0;
    p->domain->n_page--;
    free_domain_unless_used(k, p->domain);
}

// ---- domains -----------------------------------------------------------------------------------

static fxi_page_domain *find_domain(const fxi_paged *k, const char *key, size_t key_bytes)
{
    fxi_page_domain *d = k->domain;
    while (d && (d->key_bytes != key_bytes || memcmp(d->key, key, key_bytes) != 0)) d = d->next;
    return d;
}

static fxi_page_domain *make_domain(fxi_paged *k, const char *key, size_t key_bytes)
{
    fxi_page_domain *d = malloc(sizeof *d + key_bytes);
    if (!d) return NULL;
    *d = (fxi_page_domain){.next = k->domain, .serial = ++k->n_serial, .key_bytes = key_bytes};
    if (key_bytes) memcpy(d->key, key, key_bytes);
    k->domain = d;
    return d;
}

fx_status fxi_page_domain_open(fxi_kv *kv, const char *key, size_t key_bytes, fxi_kv_domain **out)
{
    fxi_paged *k = fxi_paged_of(kv);
    fxi_page_domain *d = find_domain(k, key, key_bytes);
    if (!d) d = make_domain(k, key, key_bytes);
    if (d) d->n_open++;
    *out = (fxi_kv_domain *)d;
    return d ? FX_OK : FX_ENOMEM;
}

void fxi_page_domain_close(fxi_kv *kv, fxi_kv_domain *domain)
{
    fxi_page_domain *d = (fxi_page_domain *)domain;
    d->n_open--;
    free_domain_unless_used(fxi_paged_of(kv), d);
}
