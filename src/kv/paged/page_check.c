// page_check.c - proves that every block and slot has one owner, that pages are counted as they are
// held, and that recorded pages are found.
#include "kv/paged/paged.h"

#include <stdlib.h>

typedef struct owners {
    uint8_t *block, *slot, *page; // [n] how often each is free or owned
    uint32_t n_shared;            // pages in use
    uint32_t n_moving;            // of them, that have a job
} owners;

static void count_free(const fxi_paged *k, owners *o)
{
    for (uint32_t i = 0; i < k->n_free_block; i++) o->block[k->free_block[i]]++;
    for (uint32_t i = 0; i < k->n_free_slot; i++) o->slot[k->free_slot[i]]++;
    for (uint32_t i = 0; i < k->n_free_page; i++) o->page[k->free_page[i]]++;
}

static const char *check_page(const fxi_paged *k, uint32_t page, owners *o)
{
    const fxi_page *p = &k->page[page];
    if (o->page[page]++) return "a page is free and in use";
    if (p->block == FXI_PAGE_NONE && p->slot == FXI_PAGE_NONE) return "a page is nowhere";
    if (p->way != FXI_PAGE_STAYS) {
        if (p->block == FXI_PAGE_NONE || p->slot == FXI_PAGE_NONE)
            return "a page moves from nowhere, or to nowhere";
        const fxi_page_job *j = &k->jobs.job[p->slot];
        if (j->page != page || j->way != p->way || j->block != p->block)
            return "a page has another one's job";
        o->n_moving++;
    }
    o->n_shared += fxi_page_is_shared(p);
    if (p->block != FXI_PAGE_NONE && k->state[p->block] != fxi_page_state(p))
        return "a block's state is wrong";
    if (p->block != FXI_PAGE_NONE) o->block[p->block]++;
    if (p->slot != FXI_PAGE_NONE) o->slot[p->slot]++;
    if (p->block == FXI_PAGE_NONE && (p->serial || p->n_out != p->n_ref))
        return "a page is in the swap, but needed in memory";
    const int32_t *tok = k->tok + ((size_t)page << k->block_shift);
    if (p->serial && fxi_page_find(k, p->parent, tok) != page) return "a recorded page is lost";
    return NULL;
}

static const char *check_paged_seq(const fxi_paged *k, const fxi_paged_seq *s)
{
    if ((uint32_t)s->n_page != fxi_paged_n_page(k, s->len_tok))
        return "a sequence has a wrong number of pages";
    for (int i = 0; i < s->n_page; i++) {
        fxi_page *p = &k->page[s->page[i]];
        p->n_seen++;
        p->fill_tok += fxi_paged_wants_out(s);
        if (s->way == FXI_SEQ_IN && s->table[i] != (int32_t)p->block) return "a table is wrong";
    }
    return NULL;
}

// Each page in use once: those that sequences hold, and those that are idle.
static const char *check_held(const fxi_paged *k, owners *o)
{
    for (const fxi_paged_seq *s = k->first; s; s = s->next)
        for (int i = 0; i < s->n_page; i++) {
            fxi_page *p = &k->page[s->page[i]];
            if (!p->n_seen) continue;
            if (p->n_seen != p->n_ref || (uint32_t)p->fill_tok != p->n_out)
                return "a page's sequences are counted wrong";
            p->n_seen = 0;
            const char *what = check_page(k, s->page[i], o);
            if (what) return what;
        }
    return NULL;
}

static const char *check_idle_pages(const fxi_paged *k, owners *o)
{
    uint32_t n = 0;
    for (int i = 0; i < FXI_PAGE_N_PRIORITY; i++) {
        uint32_t older = FXI_PAGE_NONE;
        for (uint32_t page = k->idle[i].oldest; page != FXI_PAGE_NONE; page = k->page[page].newer) {
            const fxi_page *p = &k->page[page];
            if (p->n_ref || !p->serial || p->list != i || p->older != older)
                return "an idle page is wrong";
            const char *what = check_page(k, page, o);
            if (what) return what;
            older = page;
            n++;
        }
    }
    return n == k->n_idle ? NULL : "idle pages are counted wrong";
}

// Each page that nobody holds, but a job that runs, once; and no job is lost.
static const char *check_jobs(fxi_paged *k, owners *o)
{
    uint32_t n_job = 0, n_ending = 0;
    const char *what = NULL;
    pthread_mutex_lock(&k->jobs.mu);
    for (uint32_t i = 0; i < k->n_slot && !what; i++) {
        const fxi_page_job *j = &k->jobs.job[i];
        if (j->state == FXI_PAGE_JOB_FREE || j->way == FXI_PAGE_DROP) continue;
        n_job++;
        if (k->page[j->page].n_ref) continue;
        n_ending++;
        what = check_page(k, j->page, o);
    }
    pthread_mutex_unlock(&k->jobs.mu);
    if (!what && n_job != o->n_moving) what = "a job is lost";
    if (!what && n_ending != k->n_ending) what = "pages that end are counted wrong";
    return what;
}

static bool all_once(const uint8_t *n_owner, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (n_owner[i] != 1) return false;
    return true;
}

static const char *check_domains(const fxi_paged *k)
{
    uint64_t n_page = 0, n_recorded = 0;
    for (const fxi_page_domain *d = k->domain; d; d = d->next) n_page += d->n_page;
    for (uint32_t i = 0; i < k->n_bucket; i++)
        for (uint32_t page = k->bucket[i]; page != FXI_PAGE_NONE; page = k->page[page].chain)
            n_recorded++;
    return n_page == n_recorded ? NULL : "the pages of a domain are counted wrong";
}

static bool free_are_spare(const fxi_paged *k)
{
    for (uint32_t i = 0; i < k->n_free_block; i++)
        if (k->state[k->free_block[i]] != FX_CHUNK_spare) return false;
    return true;
}

static const char *check_all_pages(fxi_paged *k, owners *o)
{
    const char *what = NULL;
    count_free(k, o);
    for (const fxi_paged_seq *s = k->first; s; s = s->next)
        for (int i = 0; i < s->n_page; i++)
            k->page[s->page[i]].n_seen = 0, k->page[s->page[i]].fill_tok = 0;
    for (const fxi_paged_seq *s = k->first; s && !what; s = s->next) what = check_paged_seq(k, s);
    if (!what) what = check_held(k, o);
    if (!what) what = check_idle_pages(k, o);
    if (!what) what = check_jobs(k, o);
    if (!what) what = check_domains(k);
    if (what) return what;
    if (o->n_shared != k->n_shared) return "shared pages are counted wrong";
    if (!free_are_spare(k)) return "a free block is not spare";
    if (!all_once(o->block, k->n_block)) return "a block is lost, or has two owners";
    if (!all_once(o->slot, k->n_slot)) return "a slot is lost, or has two owners";
    return all_once(o->page, k->n_all_page) ? NULL : "a page is lost";
}

fx_status fxi_page_check(fxi_kv *kv, const char **what)
{
    fxi_paged *k = fxi_paged_of(kv);
    uint8_t *count = calloc(2 * (size_t)k->n_all_page, 1);
    if (!count) return FX_ENOMEM;
    owners o = {count, count + k->n_block, count + k->n_all_page, 0, 0};
    *what = check_all_pages(k, &o);
    free(count);
    if (!*what && !fxi_kv_pool_is_resident(&k->pool)) *what = "the system holds another amount";
    return *what ? FX_EINVAL : FX_OK;
}
