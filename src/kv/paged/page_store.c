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

fx_status fxi_page_domain_open(fxi_kv *kv, const char *key, size_t key_bytes, fxi_kv_domain **out)
{
    fxi_paged *k = fxi_paged_of(kv);
    fxi_page_domain *d = k->domain;
    while (d && (d->key_bytes != key_bytes || memcmp(d->key, key, key_bytes) != 0)) d = d->next;
    *out = NULL;
    if (!d) {
        d = malloc(sizeof *d + key_bytes);
        if (!d) return FX_ENOMEM;
        *d = (fxi_page_domain){.next = k->domain, .serial = ++k->n_serial, .key_bytes = key_bytes};
        if (key_bytes) memcpy(d->key, key, key_bytes);
        k->domain = d;
    }
    d->n_open++;
    *out = (fxi_kv_domain *)d;
    return FX_OK;
}

void fxi_page_domain_close(fxi_kv *kv, fxi_kv_domain *domain)
{
    fxi_page_domain *d = (fxi_page_domain *)domain;
    d->n_open--;
    free_domain_unless_used(fxi_paged_of(kv), d);
}

// ---- life --------------------------------------------------------------------------------------

static void fill_stack(uint32_t *stack, uint32_t *n, uint32_t n_all)
{
    for (*n = 0; *n < n_all; ++*n) stack[*n] = n_all - 1 - *n; // the lowest is taken first
}

bool fxi_page_store_open(fxi_paged *k)
{
    k->n_all_page = k->n_block + k->n_slot;
    k->n_bucket = 1;
    while (k->n_bucket < k->n_block && k->n_bucket < UINT32_C(1) << 31) k->n_bucket *= 2;
    k->secret = fxi_secret_make();
    k->page = calloc(k->n_all_page, sizeof *k->page);
    k->tok = malloc(((size_t)k->n_all_page << k->block_shift) * sizeof *k->tok);
    k->free_page = malloc(k->n_all_page * sizeof *k->free_page);
    k->free_block = malloc(k->n_block * sizeof *k->free_block);
    k->free_slot = malloc((k->n_slot + 1) * sizeof *k->free_slot);
    k->bucket = malloc(k->n_bucket * sizeof *k->bucket);
    k->state = malloc(k->n_block);
    k->sum = calloc((size_t)k->n_slot * (size_t)k->pool.n_rank + 1, sizeof *k->sum);
    if (!k->page || !k->tok || !k->free_page || !k->free_block || !k->free_slot || !k->bucket ||
        !k->state || !k->sum)
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
    free(k->sum);
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

static void give_block(fxi_paged *k, uint32_t block)
{
    k->free_block[k->n_free_block++] = block;
    k->state[block] = FX_CHUNK_spare;
}

static void evict_least(fxi_paged *k)
{
    int i = 0;
    while (k->idle[i].oldest == FXI_PAGE_NONE) i++;
    const uint32_t page = k->idle[i].oldest, block = k->page[page].block;
    remove_idle(k, page);
    fxi_page_unrecord(k, page);
    k->free_page[k->n_free_page++] = page;
    give_block(k, block);
    k->n_evicted++;
}

void fxi_page_evict_all(fxi_paged *k)
{
    while (k->n_idle) evict_least(k);
}

// ---- holders -----------------------------------------------------------------------------------

uint32_t fxi_page_n_room(const fxi_paged *k)
{
    return k->n_free_block + k->n_idle;
}

static uint32_t take_block(fxi_paged *k)
{
    if (!k->n_free_block) evict_least(k);
    return k->free_block[--k->n_free_block];
}

uint32_t fxi_page_take(fxi_paged *k)
{
    const uint32_t block = take_block(k), page = k->free_page[--k->n_free_page];
    k->page[page] = (fxi_page){.n_ref = 1, .block = block, .slot = FXI_PAGE_NONE};
    count_page(k, &k->page[page]);
    return page;
}

void fxi_page_hold(fxi_paged *k, uint32_t page)
{
    fxi_page *p = &k->page[page];
    uncount_page(k, p);
    if (!p->n_ref++) remove_idle(k, page);
    count_page(k, p);
}

void fxi_page_let_go(fxi_paged *k, uint32_t page)
{
    fxi_page *p = &k->page[page];
    uncount_page(k, p);
    p->n_ref--;
    count_page(k, p);
    if (p->n_ref) return;
    if (p->serial) {
        add_idle(k, page, priority_now(k, p));
        return;
    }
    if (p->slot != FXI_PAGE_NONE) fxi_page_leave_slot(k, page);
    if (p->block != FXI_PAGE_NONE) give_block(k, p->block);
    k->free_page[k->n_free_page++] = page;
}

// ---- to the swap and back ----------------------------------------------------------------------

static uint64_t *sums_of(const fxi_paged *k, uint32_t slot)
{
    return k->sum + (size_t)slot * (size_t)k->pool.n_rank;
}

static void set_page_block(fxi_paged *k, fxi_page *p, uint32_t block)
{
    uncount_page(k, p);
    p->block = block;
    count_page(k, p);
}

// Between a block and scratch memory, where the pieces of its planes follow each other.
static fx_status copy_block(fxi_paged *k, uint32_t block, bool out)
{
    size_t at = k->pool.size_bytes;
    for (int g = 0; g < k->pool.layout.n_group; g++) {
        const size_t n = k->pool.layout.group[g].row_bytes << k->block_shift;
        for (int p = 0; p < k->pool.layout.group[g].n_plane; p++, at += n) {
            const size_t piece = fxi_kv_pool_byte(&k->pool, g, p, fxi_paged_row(k, block));
            fxi_kv_pool_list(&k->pool, out ? at : piece, out ? piece : at, n);
        }
    }
    return fxi_kv_pool_copy(&k->pool, VT_VMM_NOW);
}

static void count_moved(fxi_paged *k, uint64_t start_ns)
{
    k->moved.bytes += k->block_bytes;
    k->moved.ns += fxi_now_ns() - start_ns;
}

fx_status fxi_page_write(fxi_paged *k, uint32_t page)
{
    fxi_page *p = &k->page[page];
    const uint64_t start_ns = fxi_now_ns();
    const uint32_t slot = k->free_slot[k->n_free_slot - 1];
    FX_TRY(copy_block(k, p->block, true));
    FX_TRY(fxi_kv_pool_swap(&k->pool, true, slot * k->slot_bytes, k->part_bytes, sums_of(k, slot)));
    k->n_free_slot--;
    p->slot = slot;
    count_moved(k, start_ns);
    return FX_OK;
}

fx_status fxi_page_read(fxi_paged *k, uint32_t page)
{
    fxi_page *p = &k->page[page];
    const uint64_t start_ns = fxi_now_ns();
    uint64_t sum[FXI_MAX_RANK];
    FX_TRY(fxi_kv_pool_swap(&k->pool, false, p->slot * k->slot_bytes, k->part_bytes, sum));
    if (memcmp(sum, sums_of(k, p->slot), (size_t)k->pool.n_rank * sizeof *sum) != 0) return FX_EIO;
    const uint32_t block = take_block(k);
    const fx_status st = copy_block(k, block, false);
    if (st != FX_OK) {
        give_block(k, block);
        return st;
    }
    set_page_block(k, p, block);
    count_moved(k, start_ns);
    return FX_OK;
}

// It is found no more.
void fxi_page_leave_block(fxi_paged *k, uint32_t page)
{
    fxi_page *p = &k->page[page];
    if (p->serial) fxi_page_unrecord(k, page);
    give_block(k, p->block);
    set_page_block(k, p, FXI_PAGE_NONE);
}

void fxi_page_leave_slot(fxi_paged *k, uint32_t page)
{
    fxi_page *p = &k->page[page];
    fxi_kv_pool_swap_drop(&k->pool, p->slot * k->slot_bytes, k->slot_bytes);
    k->free_slot[k->n_free_slot++] = p->slot;
    p->slot = FXI_PAGE_NONE;
}

// ---- recording the full pages of a sequence ----------------------------------------------------

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

// A page may be recorded already after one that has been evicted since. Where another page holds
// the same tokens, the sequence takes that and gives up its own.
fx_status fxi_page_record(fxi_kv *kv, fxi_kv_seq *seq, fxi_kv_domain *domain, const int32_t *tok,
                          int n_tok, const fxi_kv_keep *keep)
{
    fxi_paged *k = fxi_paged_of(kv);
    fxi_paged_seq *s = fxi_paged_seq_of(seq);
    fxi_page_domain *d = (fxi_page_domain *)domain;
    uint64_t parent = d->serial;
    const int n_page = n_tok >> k->block_shift;
    if (s->is_out || n_tok > s->len_tok || !can_record(k, s, n_page, d, tok)) return FX_EINVAL;
    for (int i = 0; i < n_page; i++, tok += fxi_paged_block_tok(k)) {
        const uint32_t own = s->page[i], known = fxi_page_find(k, parent, tok);
        if (known == FXI_PAGE_NONE) {
            if (k->page[own].serial) fxi_page_unrecord(k, own);
            fxi_page_put(k, own, parent, d, tok);
        } else if (known != own) {
            fxi_page_hold(k, known);
            fxi_page_let_go(k, own);
            s->page[i] = known;
            s->table[i] = (int32_t)k->page[known].block;
        }
        fxi_page *p = &k->page[s->page[i]];
        if (keep->priority) {
            p->priority = (uint8_t)keep->priority;
            p->until_ms = keep->until_ms;
        }
        parent = p->serial;
    }
    return FX_OK;
}
