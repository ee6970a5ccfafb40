// emu_async.cpp - cp.async: copies are remembered, and done by the wait that asks for them. So a
// kernel that does not wait reads what was there before. They may also be done at once: what they
// overwrite must not be read any more.
#include "emu_run.h"

static emu_fiber *copier(void)
{
    return (emu_fiber *)emu_now;
}

void emu_async_copy(void *dst, const void *src, int n_byte, int n_read, const char *file, int line)
{
    emu_fiber *f = copier();
    if ((uintptr_t)dst % (unsigned)n_byte != 0 || (uintptr_t)src % (unsigned)n_byte != 0)
        emu_fail_at(file, line, "cp.async of %d bytes from %p to %p, which is not aligned", n_byte,
                    src, dst);
    if (n_read < 0 || n_read > n_byte)
        emu_fail_at(file, line, "cp.async reads %d of %d bytes", n_read, n_byte);
    else
        f->copies.push_back({(unsigned char *)dst, (const unsigned char *)src, n_byte, n_read,
                             f->n_group, file, line});
    emu_look_access(dst, (unsigned)n_byte, EMU_WRITE | EMU_AHEAD, file, line);
}

void emu_async_commit(void)
{
    copier()->n_group++;
}

static void copy_now(const emu_copy *c)
{
    if (c->n_read > 0) emu_look_access(c->src, (unsigned)c->n_read, EMU_READ, c->file, c->line);
    emu_look_access(c->dst, (unsigned)c->n_byte, EMU_WRITE, c->file, c->line);
    memcpy(c->dst, c->src, (size_t)c->n_read);
    memset(c->dst + c->n_read, 0, (size_t)(c->n_byte - c->n_read));
}

void emu_async_wait(int n_left)
{
    emu_fiber *f = copier();
    size_t n = 0;
    while (n < f->copies.size() && f->copies[n].group < f->n_group - n_left)
        copy_now(&f->copies[n++]);
    f->copies.erase(f->copies.begin(), f->copies.begin() + (long)n);
}

void emu_async_end(emu_fiber *f)
{
    if (!f->copies.empty())
        emu_fail_at(f->copies[0].file, f->copies[0].line,
                    "the thread ended before this cp.async was waited for");
}
