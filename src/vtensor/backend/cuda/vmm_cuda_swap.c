// vmm_cuda_swap.c - the swap of the backend on a GPU: pinned host memory, in pieces.
//
//   offset 0                    piece_bytes                 2 x piece_bytes       size_bytes
//          | piece 0: granules  | piece 1                   | ...                 |
//          | # # . . # . . .    | (no memory)               |                     |
//
// Pinned memory is taken from the whole machine, and taking it is slow: a piece is allocated when
// something is written into it first and freed when its last granule in use is dropped.
//
// Invariants, between calls: a piece has memory if and only if a granule of it is in use; but where
// the driver fails to free it, the memory stays and is used again.
#include "vmm_cuda.h"

#include <stdlib.h>

enum {
    PIECE_BYTES = 8 << 20,
    MAX_GRANULES = 64 // of a piece: the bits of `used`
};

// The part of a range of the swap that lies in one piece.
typedef struct swap_part {
    uint64_t i; // piece
    size_t at;  // byte of the piece
    size_t size_bytes;
} swap_part;

static swap_part part_at(const vti_cuda_swap *w, uint64_t offset, uint64_t end)
{
    swap_part p = {.i = offset / w->piece_bytes, .at = (size_t)(offset % w->piece_bytes)};
    uint64_t left = end - offset;
    p.size_bytes = w->piece_bytes - p.at;
    if (p.size_bytes > left) p.size_bytes = (size_t)left;
    return p;
}

// A range begins with a granule and may end within one, which is its own to the end all the same.
static uint64_t granule_bits(const vti_cuda *c, const swap_part *p)
{
    size_t n = (p->size_bytes - 1) / c->granularity + 1;
    uint64_t bits = n == MAX_GRANULES ? UINT64_MAX : ((uint64_t)1 << n) - 1;
    return bits << (p->at / c->granularity);
}

static void assert_in_range(const vti_cuda *c, uint64_t offset, size_t size_bytes)
{
    assert(c->swap.piece && size_bytes > 0);
    assert(offset % c->granularity == 0);
    assert(offset < c->swap.size_bytes && size_bytes <= c->swap.size_bytes - offset);
    (void)c, (void)offset, (void)size_bytes;
}

vt_status vti_cuda_swap_open(vt_vmm *vmm, const char *dir, uint64_t size_bytes)
{
    vti_cuda *c = vti_cuda_of(vmm);
    vti_cuda_swap *w = &c->swap;
    (void)dir;
    assert(!w->piece && size_bytes > 0 && size_bytes % c->granularity == 0);
    size_t granules = PIECE_BYTES / c->granularity;
    if (granules == 0) granules = 1;
    if (granules > MAX_GRANULES) granules = MAX_GRANULES;
    size_t piece_bytes = granules * c->granularity;
    uint64_t n_piece = (size_bytes - 1) / piece_bytes + 1;
    vti_cuda_piece *piece = calloc(n_piece, sizeof *piece);
    if (!piece) return VT_ENOMEM;
    *w = (vti_cuda_swap){size_bytes, piece_bytes, n_piece, piece};
    return VT_OK;
}

static vt_status piece_open(vti_cuda *c, uint64_t i)
{
    vti_cuda_swap *w = &c->swap;
    if (w->piece[i].bytes) return VT_OK;
    uint64_t left = w->size_bytes - i * w->piece_bytes;
    size_t size_bytes = left < w->piece_bytes ? (size_t)left : w->piece_bytes;
    void *bytes = NULL;
    VT_TRY(vti_cuda_status(c->cu.mem_host_alloc(&bytes, size_bytes, 0)));
    w->piece[i].bytes = bytes;
    return VT_OK;
}

static vt_status pieces_open(vti_cuda *c, uint64_t offset, size_t size_bytes)
{
    uint64_t last = (offset + size_bytes - 1) / c->swap.piece_bytes;
    for (uint64_t i = offset / c->swap.piece_bytes; i <= last; i++) VT_TRY(piece_open(c, i));
    return VT_OK;
}

static void piece_free_unused(vti_cuda *c, vti_cuda_piece *piece)
{
    if (!piece->bytes || piece->used != 0) return;
    if (c->cu.mem_free_host(piece->bytes) == VTI_CU_SUCCESS) piece->bytes = NULL;
}

static void pieces_free_unused(vti_cuda *c, uint64_t offset, size_t size_bytes)
{
    uint64_t last = (offset + size_bytes - 1) / c->swap.piece_bytes;
    for (uint64_t i = offset / c->swap.piece_bytes; i <= last; i++)
        piece_free_unused(c, &c->swap.piece[i]);
}

// The kernels that write what is swapped out may still be in front of us.
static vt_status copy_to_swap(vti_cuda *c, uint64_t offset, vti_cu_ptr src, size_t size_bytes)
{
    VT_TRY(vti_cuda_status(c->cu.stream_synchronize(c->user_stream)));
    vt_status st = VT_OK;
    for (uint64_t at = offset, end = offset + size_bytes; at < end && st == VT_OK;) {
        swap_part p = part_at(&c->swap, at, end);
        st = vti_cuda_status(c->cu.memcpy_dtoh_async(
            c->swap.piece[p.i].bytes + p.at, src + (at - offset), p.size_bytes, c->own_stream));
        at += p.size_bytes;
    }
    return vti_cuda_finish(c, st);
}

static void mark_used(vti_cuda *c, uint64_t offset, size_t size_bytes)
{
    for (uint64_t at = offset, end = offset + size_bytes; at < end;) {
        swap_part p = part_at(&c->swap, at, end);
        c->swap.piece[p.i].used |= granule_bits(c, &p);
        at += p.size_bytes;
    }
}

static uint64_t swap_sum(const vti_cuda *c, uint64_t offset, size_t size_bytes)
{
    uint64_t sum = 0;
    for (uint64_t at = offset, end = offset + size_bytes; at < end;) {
        swap_part p = part_at(&c->swap, at, end);
        sum = vt_vmm_checksum(sum, c->swap.piece[p.i].bytes + p.at, p.size_bytes);
        at += p.size_bytes;
    }
    return sum;
}

static vt_status swap_write_now(vti_cuda *c, uint64_t offset, vti_cu_ptr src, size_t size_bytes,
                                uint64_t *sum)
{
    vt_status st = pieces_open(c, offset, size_bytes);
    if (st == VT_OK) st = copy_to_swap(c, offset, src, size_bytes);
    if (st != VT_OK) {
        pieces_free_unused(c, offset, size_bytes);
        return st;
    }
    mark_used(c, offset, size_bytes);
    *sum = swap_sum(c, offset, size_bytes);
    return VT_OK;
}

vt_status vti_cuda_swap_write(vt_vmm *vmm, uint64_t offset, uintptr_t src, size_t size_bytes,
                              uint64_t *sum)
{
    vti_cuda *c = vti_cuda_of(vmm);
    assert_in_range(c, offset, size_bytes);
    bool pushed;
    VT_TRY(vti_cuda_enter(c, &pushed));
    return vti_cuda_leave(c, pushed, swap_write_now(c, offset, src, size_bytes, sum));
}

// What was never written, or was dropped, has no bytes to read.
static bool all_granules_used(const vti_cuda *c, uint64_t offset, size_t size_bytes)
{
    for (uint64_t at = offset, end = offset + size_bytes; at < end;) {
        swap_part p = part_at(&c->swap, at, end);
        uint64_t bits = granule_bits(c, &p);
        if ((c->swap.piece[p.i].used & bits) != bits) return false;
        at += p.size_bytes;
    }
    return true;
}

static vt_status swap_read_now(vti_cuda *c, vti_cu_ptr dst, uint64_t offset, size_t size_bytes)
{
    vt_status st = VT_OK;
    for (uint64_t at = offset, end = offset + size_bytes; at < end && st == VT_OK;) {
        swap_part p = part_at(&c->swap, at, end);
        st = vti_cuda_status(c->cu.memcpy_htod_async(
            dst + (at - offset), c->swap.piece[p.i].bytes + p.at, p.size_bytes, c->own_stream));
        at += p.size_bytes;
    }
    return vti_cuda_hard(vti_cuda_finish(c, st));
}

// The sum is taken before the bytes go to the device: it is of what was found.
vt_status vti_cuda_swap_read(vt_vmm *vmm, uintptr_t dst, uint64_t offset, size_t size_bytes,
                             uint64_t *sum)
{
    vti_cuda *c = vti_cuda_of(vmm);
    assert_in_range(c, offset, size_bytes);
    if (!all_granules_used(c, offset, size_bytes)) return VT_EDEVICE;
    *sum = swap_sum(c, offset, size_bytes);
    bool pushed;
    VT_TRY(vti_cuda_enter(c, &pushed));
    return vti_cuda_leave(c, pushed, swap_read_now(c, dst, offset, size_bytes));
}

void vti_cuda_swap_drop(vt_vmm *vmm, uint64_t offset, size_t size_bytes)
{
    vti_cuda *c = vti_cuda_of(vmm);
    assert_in_range(c, offset, size_bytes);
    for (uint64_t at = offset, end = offset + size_bytes; at < end;) {
        swap_part p = part_at(&c->swap, at, end);
        c->swap.piece[p.i].used &= ~granule_bits(c, &p);
        at += p.size_bytes;
    }
    bool pushed;
    if (vti_cuda_enter(c, &pushed) != VT_OK) return;
    pieces_free_unused(c, offset, size_bytes);
    (void)vti_cuda_leave(c, pushed, VT_OK);
}

void vti_cuda_swap_close(vti_cuda *c)
{
    for (uint64_t i = 0; i < c->swap.n_piece; i++) {
        c->swap.piece[i].used = 0;
        piece_free_unused(c, &c->swap.piece[i]);
    }
    free(c->swap.piece);
    c->swap = (vti_cuda_swap){0};
}
