// progress.c - a progress bar.
#include "cli/terminal/terminal.h"

#include <stdio.h>
#include <unistd.h>

#define BAR_FROM_BYTES (64ull << 20) // less is done before anyone could read a bar
#define BAR_WIDTH      40

fxi_progress fxi_progress_begin(const char *what)
{
    return (fxi_progress){what, -1, isatty(STDERR_FILENO)};
}

void fxi_progress_draw(fxi_progress *p, uint64_t done, uint64_t total)
{
    if (!p->visible || total < BAR_FROM_BYTES) return;
    const int now = (int)((double)done / (double)total * 100.0);
    if (now == p->shown) return;
    p->shown = now;
    char bar[BAR_WIDTH + 1];
    for (int i = 0; i < BAR_WIDTH; i++) bar[i] = i * 100 < now * BAR_WIDTH ? '#' : '.';
    bar[BAR_WIDTH] = 0;
    fprintf(stderr, "\r%s [%s] %3d %%", p->what, bar, now);
}

void fxi_progress_end(fxi_progress *p)
{
    if (p->shown >= 0) fprintf(stderr, "\r\033[K");
    p->shown = -1;
}
