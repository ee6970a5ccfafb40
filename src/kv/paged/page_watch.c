// page_watch.c - which recorded pages have changed since somebody looked: those that are new, or
// held by more or fewer sequences, each once, and the serial numbers of those recorded no more.
// While nobody watches, a change costs one branch.
//
// Whoever watches is shown all recorded pages at first; and again if there was no memory to note a
// change, or more pages are gone than there can be. page_paint.c shows them.
#include "kv/paged/paged.h"

static uint32_t *noted_pages(const fxi_page_watch *w)
{
    return (uint32_t *)(void *)w->page.p;
}

void fxi_page_forget_news(fxi_paged *k)
{
    fxi_page_watch *w = &k->watch;
    const size_t n = w->page.n / sizeof(uint32_t);
    for (size_t i = 0; i < n; i++) k->page[noted_pages(w)[i]].at_watch = 0;
    fxi_buf_clear(&w->page);
    fxi_buf_clear(&w->gone);
}

static void show_all_next(fxi_paged *k)
{
    fxi_page_forget_news(k);
    k->watch.is_anew = true;
}

void fxi_page_note_change(fxi_paged *k, uint32_t page)
{
    fxi_page_watch *w = &k->watch;
    fxi_page *p = &k->page[page];
    if (w->is_anew || p->at_watch) return;
    if (fxi_buf_add(&w->page, &page, sizeof page))
        p->at_watch = (uint32_t)(w->page.n / sizeof page);
    else
        show_all_next(k);
}

// The last one of the list takes its place.
static void unlist_page(fxi_paged *k, fxi_page *p)
{
    fxi_page_watch *w = &k->watch;
    w->page.n -= sizeof(uint32_t);
    const uint32_t last = noted_pages(w)[w->page.n / sizeof last];
    noted_pages(w)[p->at_watch - 1] = last;
    w->page.p[w->page.n] = 0;
    k->page[last].at_watch = p->at_watch;
    p->at_watch = 0;
}

void fxi_page_note_gone(fxi_paged *k, uint32_t page)
{
    fxi_page_watch *w = &k->watch;
    fxi_page *p = &k->page[page];
    if (w->is_anew) return;
    if (p->at_watch) unlist_page(k, p);
    const bool is_many = w->gone.n / sizeof p->serial >= k->n_all_page;
    if (is_many || !fxi_buf_add(&w->gone, &p->serial, sizeof p->serial)) show_all_next(k);
}

void fxi_page_watch_nodes(fxi_kv *kv, bool is_on)
{
    fxi_paged *k = fxi_paged_of(kv);
    fxi_page_forget_news(k);
    fxi_page_watch_close(k);
    k->watch.is_on = k->watch.is_anew = is_on;
}

void fxi_page_watch_close(fxi_paged *k)
{
    fxi_buf_free(&k->watch.page);
    fxi_buf_free(&k->watch.gone);
}
