// page_store.c - pages, blocks and slots: who has what, and which idle page goes first. A page that
// nobody holds any more has its block and slot for as long as a job reads or writes them.
#include "kv/paged/paged.h"

#include <stdlib.h>
#include <string.h>

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
    fxi_page_count(k, &k->page[page]);
    return page;
}

void fxi_page_set_block(fxi_paged *k, fxi_page *p, uint32_t block)
{
    fxi_page_uncount(k, p);
    p->block = block;
    fxi_page_count(k, p);
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
    fxi_page_uncount(k, p);
    if (!p->n_ref++) remove_idle(k, page);
    fxi_page_count(k, p);
    fxi_page_keep(k, page);
}

void fxi_page_let_go(fxi_paged *k, uint32_t page)
{
    fxi_page *p = &k->page[page];
    fxi_page_uncount(k, p);
    p->n_ref--;
    fxi_page_count(k, p);
    if (p->n_ref) return;
    if (p->way == FXI_PAGE_STAYS || fxi_page_job_withdraw(k, p->slot)) {
        p->way = FXI_PAGE_STAYS;
        fxi_page_end(k, page);
        return;
    }
    k->n_ending++;
    if (p->serial) fxi_page_unrecord(k, page); // nobody may find it
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
