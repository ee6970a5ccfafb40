// page_swap.c - sequences on their way to the swap and back. A page whose sequences all want it out
// goes to a slot of the swap; it comes back when one of them wants it in.
//
//   IN  --swap_out-->  LEAVING  --no page of it moves-->  OUT
//   OUT --swap_in-->   COMING   --all pages are there-->  IN
//   LEAVING <--swap_in, swap_out--> COMING
//
// The bytes are moved by jobs (paged.h). Nothing waits: a job that runs is let run, and what it
// has done counts if the page is still to go that way when it is collected. A page that leaves has
// its block until all of it is written. One that comes keeps its slot until its sequence is IN, so
// it can turn round without a write.
//
// A failure, while the caller does not want it otherwise:
//   of a write    the sequence goes back, LEAVING to COMING; without room for that it ends OUT
//   of a read     COMING to LEAVING, without a write: pages that have no slot any more stay
// The status is told once, when it has arrived.
#include "kv/paged/paged.h"

// ---- pages -------------------------------------------------------------------------------------

static bool is_to_leave(const fxi_page *p)
{
    return p->n_ref && p->n_out == p->n_ref;
}

static void leave_block(fxi_paged *k, fxi_page *p)
{
    fxi_page_give_block(k, p->block);
    fxi_page_set_block(k, p, FXI_PAGE_NONE);
}

static void move_page(fxi_paged *k, uint32_t page, fxi_page_way way)
{
    k->page[page].way = (uint8_t)way;
    fxi_page_job_post(k, k->page[page].slot, way, page);
}

// Pre: all want it out, the devices are marked, and there is a slot if it has none.
static void send_page(fxi_paged *k, uint32_t page)
{
    fxi_page *p = &k->page[page];
    if (p->block == FXI_PAGE_NONE || p->way == FXI_PAGE_OUT) return;
    if (p->slot == FXI_PAGE_NONE) {
        p->slot = fxi_page_take_slot(k);
        move_page(k, page, FXI_PAGE_OUT);
    } else if (p->way == FXI_PAGE_STAYS || fxi_page_job_withdraw(k, p->slot)) {
        p->way = FXI_PAGE_STAYS;
        leave_block(k, p);
    }
}

// Pre: the devices are marked, and there is room if it has no block.
static void want_page(fxi_paged *k, uint32_t page)
{
    fxi_page *p = &k->page[page];
    if (p->block != FXI_PAGE_NONE) {
        fxi_page_keep(k, page);
        return;
    }
    fxi_page_set_block(k, p, fxi_page_take_block(k));
    move_page(k, page, FXI_PAGE_IN);
}

// ---- sequences ---------------------------------------------------------------------------------

static bool is_under_way(const fxi_paged_seq *s)
{
    return s->way == FXI_SEQ_LEAVING || s->way == FXI_SEQ_COMING;
}

static uint32_t n_absent(const fxi_paged *k, const fxi_paged_seq *s)
{
    uint32_t n = 0;
    for (int i = 0; i < s->n_page; i++) n += k->page[s->page[i]].block == FXI_PAGE_NONE;
    return n;
}

static void want_out(fxi_paged *k, fxi_paged_seq *s)
{
    for (int i = 0; i < s->n_page && !fxi_paged_wants_out(s); i++) k->page[s->page[i]].n_out++;
    if (s->way == FXI_SEQ_IN) k->live_tok -= (uint64_t)s->len_tok;
    s->way = FXI_SEQ_LEAVING;
}

// Pre: there is room, and the devices are marked.
static void come_in(fxi_paged *k, fxi_paged_seq *s)
{
    s->way = FXI_SEQ_COMING;
    for (int i = 0; i < s->n_page; i++) {
        k->page[s->page[i]].n_out--;
        want_page(k, s->page[i]);
    }
}

static void arrive_in(fxi_paged *k, fxi_paged_seq *s)
{
    s->way = FXI_SEQ_IN;
    for (int i = 0; i < s->n_page; i++) {
        fxi_page *p = &k->page[s->page[i]];
        s->table[i] = (int32_t)p->block;
        if (p->slot != FXI_PAGE_NONE && p->way == FXI_PAGE_STAYS) fxi_page_leave_slot(k, p);
    }
    k->live_tok += (uint64_t)s->len_tok;
    if (k->live_tok > k->peak_live_tok) k->peak_live_tok = k->live_tok;
}

// Whether a page of it is still to move.
static bool waits_for(const fxi_paged_seq *s, const fxi_page *p)
{
    if (s->way == FXI_SEQ_COMING) return p->way == FXI_PAGE_IN;
    return p->way != FXI_PAGE_STAYS && is_to_leave(p);
}

static void arrive_seq(fxi_paged *k, fxi_paged_seq *s)
{
    for (int i = 0; i < s->n_page; i++)
        if (waits_for(s, &k->page[s->page[i]])) return;
    if (s->way == FXI_SEQ_COMING)
        arrive_in(k, s);
    else
        s->way = FXI_SEQ_OUT;
}

// ---- what has ended ----------------------------------------------------------------------------

static void bring_back(fxi_paged *k, fxi_paged_seq *s)
{
    if (n_absent(k, s) <= fxi_page_n_room(k) && fxi_page_jobs_mark(k) == FX_OK) come_in(k, s);
}

static void send_back(fxi_paged *k, fxi_paged_seq *s)
{
    want_out(k, s);
    for (int i = 0; i < s->n_page; i++) {
        const fxi_page *p = &k->page[s->page[i]];
        if (is_to_leave(p) && p->slot != FXI_PAGE_NONE) send_page(k, s->page[i]);
    }
}

static bool has_page(const fxi_paged_seq *s, uint32_t page)
{
    for (int i = 0; i < s->n_page; i++)
        if (s->page[i] == page) return true;
    return false;
}

static void page_failed(fxi_paged *k, uint32_t page, fxi_paged_seq_way way, fx_status st)
{
    for (fxi_paged_seq *s = k->first; s; s = s->next) {
        if (s->way != way || !has_page(s, page)) continue;
        if (s->st == FX_OK) s->st = st;
        (way == FXI_SEQ_LEAVING ? bring_back : send_back)(k, s);
    }
}

// What was written is the page, even if it was wanted in meanwhile: nothing writes to a page that a
// job reads (own_tail).
static void out_ended(fxi_paged *k, uint32_t page, fx_status st)
{
    fxi_page *p = &k->page[page];
    p->way = FXI_PAGE_STAYS;
    if (st == FX_OK && is_to_leave(p)) {
        if (p->serial) fxi_page_unrecord(k, page);
        leave_block(k, p);
        return;
    }
    fxi_page_leave_slot(k, p);
    if (is_to_leave(p)) page_failed(k, page, FXI_SEQ_LEAVING, st);
}

static void in_ended(fxi_paged *k, uint32_t page, fx_status st)
{
    fxi_page *p = &k->page[page];
    p->way = FXI_PAGE_STAYS;
    if (st != FX_OK || is_to_leave(p)) leave_block(k, p);
    if (st != FX_OK) page_failed(k, page, FXI_SEQ_COMING, st);
}

static void job_ended(fxi_paged *k, const fxi_page_job *done)
{
    const fxi_page_job j = *done; // its slot may get another
    if (j.st == FX_OK) {
        k->moved.bytes += k->block_bytes;
        k->moved.ns += j.ns;
    }
    (j.way == FXI_PAGE_OUT ? out_ended : in_ended)(k, j.page, j.st);
    if (k->page[j.page].n_ref) return;
    k->n_ending--;
    fxi_page_end(k, j.page);
}

void fxi_page_collect(fxi_paged *k)
{
    for (const fxi_page_job *j; (j = fxi_page_job_take_done(k));) job_ended(k, j);
}

// ---- what the caller asks ----------------------------------------------------------------------

// Whether the page leaves memory when s is out: no other sequence needs it there.
static bool will_leave(const fxi_paged_seq *s, const fxi_page *p)
{
    return p->block != FXI_PAGE_NONE && p->n_ref == p->n_out + !fxi_paged_wants_out(s);
}

static uint32_t n_leaving(const fxi_paged *k, const fxi_paged_seq *s, bool without_slot)
{
    uint32_t n = 0;
    for (int i = 0; i < s->n_page; i++) {
        const fxi_page *p = &k->page[s->page[i]];
        n += will_leave(s, p) && (!without_slot || p->slot == FXI_PAGE_NONE);
    }
    return n;
}

// Recorded pages leave, too.
uint64_t fxi_page_swap_gain(const fxi_kv *kv, const fxi_kv_seq *seq, int n_recorded)
{
    const fxi_paged *k = fxi_paged_of(kv);
    (void)n_recorded;
    return n_leaving(k, fxi_paged_seq_of(seq), false) * (uint64_t)k->block_bytes;
}

static fx_status order_out(fxi_paged *k, fxi_paged_seq *s)
{
    if (s->way == FXI_SEQ_OUT && !n_leaving(k, s, false)) return FX_OK;
    if (n_leaving(k, s, true) > k->n_free_slot) return FX_ENOSPACE;
    FX_TRY(fxi_page_jobs_mark(k));
    want_out(k, s);
    for (int i = 0; i < s->n_page; i++)
        if (is_to_leave(&k->page[s->page[i]])) send_page(k, s->page[i]);
    return FX_OK;
}

static fx_status order_in(fxi_paged *k, fxi_paged_seq *s)
{
    if (n_absent(k, s) > fxi_page_n_room(k)) return FX_ENOSPACE;
    FX_TRY(fxi_page_jobs_mark(k));
    come_in(k, s);
    return FX_OK;
}

// What others do may end its way, too: it has arrived when it is asked.
static fx_status tell_arrival(fxi_paged *k, fxi_paged_seq *s, bool *is_moving)
{
    const fx_status st = s->st;
    if (is_under_way(s)) arrive_seq(k, s);
    *is_moving = is_under_way(s);
    if (*is_moving) return FX_OK;
    s->st = FX_OK;
    return st;
}

// A failure on a way that the caller does not want any more is none.
static void ask_seq(fxi_paged *k, fxi_paged_seq *s, bool out)
{
    fxi_page_collect(k);
    if (s->wants_out != out) s->st = FX_OK;
    s->wants_out = out;
}

fx_status fxi_page_swap_out(fxi_kv *kv, fxi_kv_seq *seq, bool *is_moving)
{
    fxi_paged *k = fxi_paged_of(kv);
    fxi_paged_seq *s = fxi_paged_seq_of(seq);
    *is_moving = false;
    ask_seq(k, s, true);
    if (s->st == FX_OK && s->way != FXI_SEQ_LEAVING) FX_TRY(order_out(k, s));
    return tell_arrival(k, s, is_moving);
}

fx_status fxi_page_swap_in(fxi_kv *kv, fxi_kv_seq *seq, bool *is_moving)
{
    fxi_paged *k = fxi_paged_of(kv);
    fxi_paged_seq *s = fxi_paged_seq_of(seq);
    *is_moving = false;
    ask_seq(k, s, false);
    if (s->st == FX_OK && fxi_paged_wants_out(s)) FX_TRY(order_in(k, s));
    return tell_arrival(k, s, is_moving);
}
