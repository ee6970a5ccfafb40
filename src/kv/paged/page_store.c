// page_store.c - see paged.h: pages, blocks and slots, eviction; recorded pages by what they
// contain.
#include "kv/paged/paged.h"

#include <stdlib.h>
#include <string.h>

// Called before and after every change of a page's holders, its record or its place.
static void uncount_page(fxi_paged *k, const fxi_page *p)
{
    k->n_shared -= fxi_page_is_shared(p);
}

static void count_page(fxi_paged *k, const fxi_page *p)
{
    k->n_shared += fxi_page_is_shared(p);
    if (p->block != FXI_PAGE_NONE) k->state[p->block] = (uint8_t)fxi_page_state(p);
}

// ---- recorded pages ----------------------------------------------------------------------------
//
// A hash table from what comes before a page and its tokens to the page, keyed so that clients
// cannot choose prompts whose pages collide, and the domains.

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
    uncount_page(k, p);
    p->serial = ++k->n_serial;
    count_page(k, p);
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
    uncount_page(k, p);
    p->serial = 0;
    count_page(k, p);
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

// ---- pages, blocks and slots -------------------------------------------------------------------
//
// What each of them has, and which idle page goes first. A page without holders has its block and
// slot for as long as a job reads or writes them.

// ---- life --------------------------------------------------------------------------------------

static void fill_stack(uint32_t *stack, uint32_t *n, uint32_t n_all)
{
    for (*n = 0; *n < n_all; ++*n) stack[*n] = n_all - 1 - *n; // the lowest is taken first
}

static uint32_t power_above(uint32_t n)
{
    uint32_t p = 1;
    while (p < n && p < UINT32_C(1) << 31) p *= 2;
    return p;
}

bool fxi_page_store_open(fxi_paged *k)
{
    k->n_all_page = k->n_block + k->n_slot;
    k->n_bucket = power_above(k->n_block);
    k->secret = fxi_secret_make();
    k->page = calloc(k->n_all_page, sizeof *k->page);
    k->tok = malloc(((size_t)k->n_all_page << k->block_shift) * sizeof *k->tok);
    k->free_page = malloc(k->n_all_page * sizeof *k->free_page);
    k->free_block = malloc(k->n_block * sizeof *k->free_block);
    k->free_slot = malloc((k->n_slot + 1) * sizeof *k->free_slot);
    k->bucket = malloc(k->n_bucket * sizeof *k->bucket);
    k->state = malloc(k->n_block);
    if (!k->page || !k->tok || !k->free_page || !k->free_block || !k->free_slot || !k->bucket ||
        !k->state)
        return false;
    memset(k->state, FX_CHUNK_spare, k->n_block);
    fill_stack(k->free_page, &k->n_free_page, k->n_all_page);
    fill_stack(k->free_block, &k->n_free_block, k->n_block);
    fill_stack(k->free_slot, &k->n_free_slot, k->n_slot);
    for (uint32_t i = 0; i < k->n_bucket; i++) k->bucket[i] = FXI_PAGE_NONE;
    for (int i = 0; i < FXI_PAGE_N_PRIORITY; i++)
        k->idle[i] = (fxi_page_list){FXI_PAGE_NONE, FXI_PAGE_NONE};
    return true;
}

void fxi_page_store_close(fxi_paged *k)
{
    free(k->page);
    free(k->tok);
    free(k->free_page);
    free(k->free_block);
    free(k->free_slot);
    free(k->bucket);
    free(k->state);
}

// ---- idle pages --------------------------------------------------------------------------------

static void add_idle(fxi_paged *k, uint32_t page, uint8_t list)
{
    fxi_page *p = &k->page[page];
    fxi_page_list *l = &k->idle[list];
    p->list = list;
    p->older = l->newest;
    p->newer = FXI_PAGE_NONE;
    *(l->newest == FXI_PAGE_NONE ? &l->oldest : &k->page[l->newest].newer) = page;
    l->newest = page;
    k->n_idle++;
}

static void remove_idle(fxi_paged *k, uint32_t page)
{
    const fxi_page *p = &k->page[page];
    fxi_page_list *l = &k->idle[p->list];
    *(p->older == FXI_PAGE_NONE ? &l->oldest : &k->page[p->older].newer) = p->newer;
    *(p->newer == FXI_PAGE_NONE ? &l->newest : &k->page[p->newer].older) = p->older;
    k->n_idle--;
}

static uint8_t priority_now(const fxi_paged *k, const fxi_page *p)
{
    return p->until_ms && p->until_ms <= k->now_ms ? 0 : p->priority;
}

void fxi_page_age(fxi_paged *k)
{
    for (int i = 1; i < FXI_PAGE_N_PRIORITY; i++)
        for (uint32_t page = k->idle[i].oldest, next; page != FXI_PAGE_NONE; page = next) {
            next = k->page[page].newer;
            if (priority_now(k, &k->page[page])) continue;
            remove_idle(k, page);
            add_idle(k, page, 0);
        }
}

static void free_page_of(fxi_paged *k, uint32_t page)
{
    k->free_page[k->n_free_page++] = page;
}

static void evict_page(fxi_paged *k, uint32_t page)
{
    const uint32_t block = k->page[page].block;
    remove_idle(k, page);
    fxi_page_unrecord(k, page);
    free_page_of(k, page);
    fxi_page_give_block(k, block);
    k->n_evicted++;
}

static void evict_least(fxi_paged *k)
{
    int i = 0;
    while (k->idle[i].oldest == FXI_PAGE_NONE) i++;
    evict_page(k, k->idle[i].oldest);
}

void fxi_page_evict_all(fxi_paged *k)
{
    while (k->n_idle) evict_least(k);
}

// ---- blocks and slots --------------------------------------------------------------------------

uint32_t fxi_page_n_room(const fxi_paged *k)
{
    return k->n_free_block + k->n_idle;
}

uint32_t fxi_page_take_block(fxi_paged *k)
{
    if (!k->n_free_block) evict_least(k);
    return k->free_block[--k->n_free_block];
}

void fxi_page_give_block(fxi_paged *k, uint32_t block)
{
    k->free_block[k->n_free_block++] = block;
    k->state[block] = FX_CHUNK_spare;
}

// The slot that was left last is taken first: mostly it has not been dropped yet.
uint32_t fxi_page_take_slot(fxi_paged *k)
{
    const uint32_t slot = k->free_slot[--k->n_free_slot];
    fxi_page_job_end_drop(k, slot);
    return slot;
}

void fxi_page_leave_slot(fxi_paged *k, fxi_page *p)
{
    fxi_page_job_post(k, p->slot, FXI_PAGE_DROP, FXI_PAGE_NONE);
    k->free_slot[k->n_free_slot++] = p->slot;
    p->slot = FXI_PAGE_NONE;
}

// ---- holders -----------------------------------------------------------------------------------

uint32_t fxi_page_take(fxi_paged *k)
{
    const uint32_t block = fxi_page_take_block(k), page = k->free_page[--k->n_free_page];
    k->page[page] = (fxi_page){.n_ref = 1, .block = block, .slot = FXI_PAGE_NONE};
    count_page(k, &k->page[page]);
    return page;
}

void fxi_page_set_block(fxi_paged *k, fxi_page *p, uint32_t block)
{
    uncount_page(k, p);
    p->block = block;
    count_page(k, p);
}

void fxi_page_keep(fxi_paged *k, uint32_t page)
{
    fxi_page *p = &k->page[page];
    if (p->way != FXI_PAGE_OUT || !fxi_page_job_withdraw(k, p->slot)) return;
    p->way = FXI_PAGE_STAYS;
    fxi_page_leave_slot(k, p);
}

void fxi_page_hold(fxi_paged *k, uint32_t page)
{
    fxi_page *p = &k->page[page];
    uncount_page(k, p);
    if (!p->n_ref++) remove_idle(k, page);
    count_page(k, p);
    fxi_page_keep(k, page);
}

void fxi_page_let_go(fxi_paged *k, uint32_t page)
{
    fxi_page *p = &k->page[page];
    uncount_page(k, p);
    p->n_ref--;
    count_page(k, p);
    if (p->n_ref) return;
    if (p->way == FXI_PAGE_STAYS || fxi_page_job_withdraw(k, p->slot)) {
        p->way = FXI_PAGE_STAYS;
        fxi_page_end(k, page);
        return;
    }
    k->n_ending++;
    if (p->serial) fxi_page_unrecord(k, page); // it must not be found
}

void fxi_page_end(fxi_paged *k, uint32_t page)
{
    fxi_page *p = &k->page[page];
    if (p->slot != FXI_PAGE_NONE) fxi_page_leave_slot(k, p);
    if (p->serial) {
        add_idle(k, page, priority_now(k, p));
        return;
    }
    if (p->block != FXI_PAGE_NONE) fxi_page_give_block(k, p->block);
    free_page_of(k, page);
}

// ---- recording the full pages of a sequence ----------------------------------------------------

// The sequence takes the page that holds the same tokens already, and gives up its own.
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

// Records page i of the sequence after `parent`. It may be recorded already after a page that has
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
