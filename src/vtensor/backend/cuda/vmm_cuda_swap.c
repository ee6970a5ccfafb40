// vmm_cuda_swap.c - the swap of the GPU backend: ordinary host memory, reached through a ring of
// pinned buffers.
//
//   out    device --(copy)--> stage 0 --(sum, memcpy)--> swap
//                  --(copy)--> stage 1 --(sum, memcpy)--> swap     one is filled while the other
//   in     swap --(memcpy, sum)--> stage 0 --(copy)--> device      is emptied
//
// The copies run in a stream of our own, beside the user's work: the manager has seen the ticket
// pass behind which nothing writes these bytes (or, on the way back, uses them). The thread that
// swaps waits for its own copies only. Buffers are small, so that the two halves overlap within a
// slice.
//
// Pinned memory is withdrawn from the whole machine, and pinning is slow: only the buffers are
// pinned, once, when the swap is opened. The swap itself is one private mapping: pages come with
// the first write, and drop returns them.
#include "vmm_cuda.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { STAGE_BYTES = 512 << 10, HUGE_PAGE_BYTES = 2 << 20 };

static void assert_in_range(const vti_cuda *c, uint64_t offset, size_t size_bytes)
{
    assert(c->swap.bytes && size_bytes > 0);
    assert(offset % c->granularity == 0);
    assert(offset < c->swap.size_bytes && size_bytes <= c->swap.size_bytes - offset);
    (void)c, (void)offset, (void)size_bytes;
}

static vt_status open_stage(vti_cuda *c, vti_cuda_stage *stage)
{
    enum { FLAGS = VTI_CU_EVENT_BLOCKING_SYNC | VTI_CU_EVENT_DISABLE_TIMING };
    void *bytes = NULL;
    VT_TRY(vti_cuda_status(c->cu.mem_host_alloc(&bytes, c->swap.stage_bytes, 0)));
    stage->bytes = bytes;
    vti_cu_result r = c->cu.event_create(&stage->event, FLAGS);
    if (r != VTI_CU_SUCCESS) stage->event = NULL;
    return vti_cuda_status(r);
}

static vt_status open_swap(vti_cuda *c, uint64_t size_bytes)
{
    vti_cuda_swap *w = &c->swap;
    w->size_bytes = size_bytes;
    w->stage_bytes = size_bytes < STAGE_BYTES ? (size_t)size_bytes : STAGE_BYTES;
    void *bytes =
        mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (bytes == MAP_FAILED) return VT_NOSPACE;
    w->bytes = bytes;
    bool drops_whole = c->granularity % HUGE_PAGE_BYTES == 0; // huge pages, and not parts of them
    (void)madvise(bytes, size_bytes, drops_whole ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    for (int i = 0; i < VTI_CUDA_N_STAGE; i++) VT_TRY(open_stage(c, &w->stage[i]));
    return VT_OK;
}

vt_status vti_cuda_swap_open(vt_vmm *vmm, const char *dir, uint64_t size_bytes)
{
    vti_cuda *c = vti_cuda_of(vmm);
    (void)dir;
    assert(!c->swap.bytes && size_bytes > 0 && size_bytes % c->granularity == 0);
    vti_cuda_scope scope;
    VT_TRY(vti_cuda_enter(c, &scope));
    vt_status st = open_swap(c, size_bytes);
    if (st != VT_OK) vti_cuda_swap_close(c);
    return vti_cuda_leave(c, &scope, st);
}

static void drop_pages(vti_cuda *c, uint64_t offset, size_t size_bytes)
{
    size_t whole = (size_bytes - 1) / c->granularity * c->granularity + c->granularity;
    (void)madvise(c->swap.bytes + offset, whole, MADV_DONTNEED);
}

// One move of a range; piece i goes through stage i % N_STAGE.
typedef struct swap_move {
    vti_cu_stream stream;
    vti_cu_ptr device;
    unsigned char *host;
    size_t size_bytes;
    uint64_t sum;
} swap_move;

static size_t count_pieces(const vti_cuda *c, const swap_move *m)
{
    return (m->size_bytes - 1) / c->swap.stage_bytes + 1;
}

static size_t piece_bytes(const vti_cuda *c, const swap_move *m, size_t i)
{
    size_t left = m->size_bytes - i * c->swap.stage_bytes;
    return left < c->swap.stage_bytes ? left : c->swap.stage_bytes;
}

static vti_cuda_stage *stage_of(vti_cuda *c, size_t i)
{
    return &c->swap.stage[i % VTI_CUDA_N_STAGE];
}

static vt_status await_stage(vti_cuda *c, size_t i)
{
    return vti_cuda_status(c->cu.event_synchronize(stage_of(c, i)->event));
}

static vt_status start_piece_out(vti_cuda *c, const swap_move *m, size_t i)
{
    vti_cuda_stage *stage = stage_of(c, i);
    vti_cu_ptr src = m->device + i * c->swap.stage_bytes;
    size_t n = piece_bytes(c, m, i);
    VT_TRY(vti_cuda_status(c->cu.memcpy_dtoh_async(stage->bytes, src, n, m->stream)));
    return vti_cuda_status(c->cu.event_record(stage->event, m->stream));
}

static vt_status finish_piece_out(vti_cuda *c, swap_move *m, size_t i)
{
    VT_TRY(await_stage(c, i));
    const unsigned char *bytes = stage_of(c, i)->bytes;
    m->sum = vt_vmm_checksum(m->sum, bytes, piece_bytes(c, m, i));
    memcpy(m->host + i * c->swap.stage_bytes, bytes, piece_bytes(c, m, i));
    return VT_OK;
}

static vt_status move_out(vti_cuda *c, swap_move *m)
{
    size_t n = count_pieces(c, m);
    vt_status st = VT_OK;
    for (size_t i = 0; i <= n && st == VT_OK; i++) {
        if (i < n) st = start_piece_out(c, m, i);
        if (st == VT_OK && i > 0) st = finish_piece_out(c, m, i - 1);
    }
    return st;
}

// The stage was last used for the piece N_STAGE before.
static vt_status move_piece_in(vti_cuda *c, swap_move *m, size_t i)
{
    if (i >= VTI_CUDA_N_STAGE) VT_TRY(await_stage(c, i));
    vti_cuda_stage *stage = stage_of(c, i);
    size_t n = piece_bytes(c, m, i);
    memcpy(stage->bytes, m->host + i * c->swap.stage_bytes, n);
    m->sum = vt_vmm_checksum(m->sum, stage->bytes, n);
    vti_cu_ptr dst = m->device + i * c->swap.stage_bytes;
    VT_TRY(vti_cuda_status(c->cu.memcpy_htod_async(dst, stage->bytes, n, m->stream)));
    return vti_cuda_status(c->cu.event_record(stage->event, m->stream));
}

static vt_status move_in(vti_cuda *c, swap_move *m)
{
    size_t n = count_pieces(c, m);
    for (size_t i = 0; i < n; i++) VT_TRY(move_piece_in(c, m, i));
    return VT_OK;
}

// Nothing moves any longer when it returns.
static vt_status run_move(vti_cuda *c, vt_status (*move)(vti_cuda *, swap_move *), swap_move *m)
{
    m->stream = vti_cuda_own_take(c);
    return vti_cuda_own_finish(c, m->stream, move(c, m));
}

static vt_status write_swap(vti_cuda *c, uint64_t offset, swap_move *m)
{
    vt_status st = run_move(c, move_out, m);
    if (st != VT_OK) drop_pages(c, offset, m->size_bytes);
    return st;
}

vt_status vti_cuda_swap_write(vt_vmm *vmm, uint64_t offset, uintptr_t src, size_t size_bytes,
                              uint64_t *sum)
{
    vti_cuda *c = vti_cuda_of(vmm);
    assert_in_range(c, offset, size_bytes);
    swap_move m = {.device = src, .host = c->swap.bytes + offset, .size_bytes = size_bytes};
    vti_cuda_scope scope;
    VT_TRY(vti_cuda_enter(c, &scope));
    vt_status st = write_swap(c, offset, &m);
    if (st == VT_OK) *sum = m.sum;
    return vti_cuda_leave(c, &scope, vti_cuda_hard(st));
}

// The sum is of the bytes that go to the device.
vt_status vti_cuda_swap_read(vt_vmm *vmm, uintptr_t dst, uint64_t offset, size_t size_bytes,
                             uint64_t *sum)
{
    vti_cuda *c = vti_cuda_of(vmm);
    assert_in_range(c, offset, size_bytes);
    swap_move m = {.device = dst, .host = c->swap.bytes + offset, .size_bytes = size_bytes};
    vti_cuda_scope scope;
    VT_TRY(vti_cuda_enter(c, &scope));
    vt_status st = run_move(c, move_in, &m);
    if (st == VT_OK) *sum = m.sum;
    return vti_cuda_leave(c, &scope, vti_cuda_hard(st));
}

void vti_cuda_swap_drop(vt_vmm *vmm, uint64_t offset, size_t size_bytes)
{
    vti_cuda *c = vti_cuda_of(vmm);
    assert_in_range(c, offset, size_bytes);
    drop_pages(c, offset, size_bytes);
}

void vti_cuda_swap_close(vti_cuda *c)
{
    for (int i = 0; i < VTI_CUDA_N_STAGE; i++) {
        vti_cuda_stage *stage = &c->swap.stage[i];
        if (stage->event) (void)c->cu.event_destroy(stage->event);
        if (stage->bytes) (void)c->cu.mem_free_host(stage->bytes);
    }
    if (c->swap.bytes) munmap(c->swap.bytes, c->swap.size_bytes);
    c->swap = (vti_cuda_swap){0};
}
