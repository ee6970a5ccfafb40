// page_jobs.c - see paged.h: the queues, what a job does, and the thread.
#include "kv/paged/paged.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

// ---- queues: under the lock --------------------------------------------------------------------

static const fxi_page_queue no_job = {FXI_PAGE_NONE, FXI_PAGE_NONE};

static void enqueue_slot(fxi_page_jobs *js, fxi_page_queue *q, uint32_t slot)
{
    js->job[slot].prev = q->last;
    js->job[slot].next = FXI_PAGE_NONE;
    *(q->last == FXI_PAGE_NONE ? &q->first : &js->job[q->last].next) = slot;
    q->last = slot;
}

static void unqueue_slot(fxi_page_jobs *js, fxi_page_queue *q, uint32_t slot)
{
    const fxi_page_job *j = &js->job[slot];
    *(j->prev == FXI_PAGE_NONE ? &q->first : &js->job[j->prev].next) = j->next;
    *(j->next == FXI_PAGE_NONE ? &q->last : &js->job[j->next].prev) = j->prev;
}

static fxi_page_queue *slot_queue(fxi_page_jobs *js, uint32_t slot)
{
    return js->job[slot].way == FXI_PAGE_DROP ? &js->drops : &js->moves;
}

// FXI_PAGE_NONE: nothing waits.
static uint32_t next_page_job(const fxi_page_jobs *js)
{
    return js->moves.first != FXI_PAGE_NONE ? js->moves.first : js->drops.first;
}

// ---- what a job does ---------------------------------------------------------------------------

static uint64_t *of_slot(const fxi_paged *k, uint64_t *numbers, uint32_t slot)
{
    return numbers + (size_t)slot * (size_t)k->pool.n_rank;
}

// A block consists of one piece for each plane; in scratch memory they follow each other.
static fx_status copy_pieces_of(fxi_paged *k, uint32_t block, bool out)
{
    size_t at = fxi_kv_pool_scratch(&k->pool, 0);
    for (int g = 0; g < k->layout.n_group; g++) {
        const size_t n = k->layout.group[g].row_bytes << k->block_shift;
        for (int p = 0; p < k->layout.group[g].n_plane; p++, at += n) {
            const size_t piece = fxi_paged_byte(k, g, p, block);
            fxi_kv_copies_list(&k->jobs.copies, out ? at : piece, out ? piece : at, n);
        }
    }
    return fxi_kv_pool_copy(&k->pool, &k->jobs.copies, VT_VMM_NOW);
}

static fx_status write_page(fxi_paged *k, uint32_t block, uint32_t slot)
{
    FX_TRY(copy_pieces_of(k, block, true));
    return fxi_kv_pool_swap_out(&k->pool, slot * k->slot_bytes, k->part_bytes,
                                of_slot(k, k->jobs.sum, slot));
}

static fx_status read_page(fxi_paged *k, uint32_t block, uint32_t slot)
{
    uint64_t sum[FXI_MAX_RANK];
    const uint64_t *want = of_slot(k, k->jobs.sum, slot);
    FX_TRY(fxi_kv_pool_swap_in(&k->pool, slot * k->slot_bytes, k->part_bytes, sum));
    const bool is_whole = !memcmp(sum, want, (size_t)k->pool.n_rank * sizeof *sum);
    return is_whole ? copy_pieces_of(k, block, false) : FX_EIO;
}

static fx_status run_page_job(fxi_paged *k, uint32_t slot, uint64_t *ns)
{
    const fxi_page_job *j = &k->jobs.job[slot];
    if (j->way == FXI_PAGE_DROP) {
        fxi_kv_pool_swap_drop(&k->pool, slot * k->slot_bytes, k->slot_bytes);
        return FX_OK;
    }
    FX_TRY(fxi_kv_pool_await(&k->pool, of_slot(k, k->jobs.ticket, slot)));
    const uint64_t start_ns = fxi_now_ns();
    const fx_status st = (j->way == FXI_PAGE_OUT ? write_page : read_page)(k, j->block, slot);
    *ns = fxi_now_ns() - start_ns;
    return st;
}

// Pre: the lock is held, and a job waits.
static void do_page_job(fxi_paged *k)
{
    fxi_page_jobs *js = &k->jobs;
    const uint32_t slot = next_page_job(js);
    fxi_page_job *j = &js->job[slot];
    uint64_t ns = 0;
    unqueue_slot(js, slot_queue(js, slot), slot);
    j->state = FXI_PAGE_JOB_RUNS;
    pthread_mutex_unlock(&js->mu);
    const fx_status st = run_page_job(k, slot, &ns);
    pthread_mutex_lock(&js->mu);
    j->st = st;
    j->ns = ns;
    j->state = j->way == FXI_PAGE_DROP ? FXI_PAGE_JOB_FREE : FXI_PAGE_JOB_DONE;
    if (j->way != FXI_PAGE_DROP) enqueue_slot(js, &js->done, slot);
    pthread_cond_signal(&js->ended);
}

// ---- the thread --------------------------------------------------------------------------------

static void *swapper_main(void *arg)
{
    fxi_paged *k = arg;
    fxi_page_jobs *js = &k->jobs;
    const struct sched_param none = {0};
    (void)pthread_setschedparam(pthread_self(), SCHED_BATCH, &none); // passes go first
    pthread_mutex_lock(&js->mu);
    while (!js->stops)
        if (next_page_job(js) == FXI_PAGE_NONE)
            pthread_cond_wait(&js->posted, &js->mu);
        else
            do_page_job(k);
    pthread_mutex_unlock(&js->mu);
    return NULL;
}

bool fxi_page_jobs_open(fxi_paged *k, bool single_thread)
{
    fxi_page_jobs *js = &k->jobs;
    const size_t n = k->n_slot, n_number = n * (size_t)k->pool.n_rank;
    pthread_mutex_init(&js->mu, NULL);
    pthread_cond_init(&js->posted, NULL);
    pthread_cond_init(&js->ended, NULL);
    js->moves = js->drops = js->done = no_job;
    js->job = calloc(n + 1, sizeof *js->job);
    js->ticket = calloc(n_number + 1, sizeof *js->ticket);
    js->sum = calloc(n_number + 1, sizeof *js->sum);
    if (!fxi_kv_copies_open(&js->copies, k->pool.copies.most) || !js->job || !js->ticket ||
        !js->sum)
        return false;
    if (!n || single_thread) return true;
    js->has_thread = !pthread_create(&js->thread, NULL, swapper_main, k);
    return js->has_thread;
}

void fxi_page_jobs_close(fxi_paged *k)
{
    fxi_page_jobs *js = &k->jobs;
    pthread_mutex_lock(&js->mu);
    js->stops = true;
    pthread_cond_signal(&js->posted);
    pthread_mutex_unlock(&js->mu);
    if (js->has_thread) pthread_join(js->thread, NULL);
    fxi_kv_copies_close(&js->copies);
    free(js->job);
    free(js->ticket);
    free(js->sum);
    pthread_cond_destroy(&js->ended);
    pthread_cond_destroy(&js->posted);
    pthread_mutex_destroy(&js->mu);
}

void fxi_page_jobs_work(fxi_paged *k, int most)
{
    fxi_page_jobs *js = &k->jobs;
    pthread_mutex_lock(&js->mu);
    while (most-- > 0 && next_page_job(js) != FXI_PAGE_NONE) do_page_job(k);
    pthread_mutex_unlock(&js->mu);
}

// ---- the owner ---------------------------------------------------------------------------------

fx_status fxi_page_jobs_mark(fxi_paged *k)
{
    return fxi_kv_pool_mark(&k->pool, k->jobs.now);
}

void fxi_page_job_post(fxi_paged *k, uint32_t slot, fxi_page_way way, uint32_t page)
{
    fxi_page_jobs *js = &k->jobs;
    fxi_page_job *j = &js->job[slot];
    memcpy(of_slot(k, js->ticket, slot), js->now, (size_t)k->pool.n_rank * sizeof *js->now);
    j->way = (uint8_t)way;
    j->page = page;
    j->block = page == FXI_PAGE_NONE ? FXI_PAGE_NONE : k->page[page].block;
    pthread_mutex_lock(&js->mu);
    j->state = FXI_PAGE_JOB_WAITS;
    enqueue_slot(js, slot_queue(js, slot), slot);
    pthread_cond_signal(&js->posted);
    pthread_mutex_unlock(&js->mu);
}

bool fxi_page_job_withdraw(fxi_paged *k, uint32_t slot)
{
    fxi_page_jobs *js = &k->jobs;
    pthread_mutex_lock(&js->mu);
    const bool waits = js->job[slot].state == FXI_PAGE_JOB_WAITS;
    if (waits) {
        unqueue_slot(js, slot_queue(js, slot), slot);
        js->job[slot].state = FXI_PAGE_JOB_FREE;
    }
    pthread_mutex_unlock(&js->mu);
    return waits;
}

void fxi_page_job_end_drop(fxi_paged *k, uint32_t slot)
{
    fxi_page_jobs *js = &k->jobs;
    if (fxi_page_job_withdraw(k, slot)) return;
    pthread_mutex_lock(&js->mu);
    while (js->job[slot].state == FXI_PAGE_JOB_RUNS) pthread_cond_wait(&js->ended, &js->mu);
    pthread_mutex_unlock(&js->mu);
}

const fxi_page_job *fxi_page_job_take_done(fxi_paged *k)
{
    fxi_page_jobs *js = &k->jobs;
    fxi_page_job *j = NULL;
    pthread_mutex_lock(&js->mu);
    if (js->done.first != FXI_PAGE_NONE) {
        j = &js->job[js->done.first];
        unqueue_slot(js, &js->done, js->done.first);
        j->state = FXI_PAGE_JOB_FREE;
    }
    pthread_mutex_unlock(&js->mu);
    return j;
}
