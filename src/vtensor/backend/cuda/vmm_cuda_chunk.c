// vmm_cuda_chunk.c - physical memory of the GPU: a handle for each slice of a chunk.
//
// There are far more indices than chunks, so the created ones are in a hash table with chaining. A
// record does not move, so it may be used without the lock while nobody destroys that chunk.
#include "vmm_cuda.h"

#include <stdlib.h>

enum { FIRST_BUCKETS = 64 };

// Indices are mostly neighbours: a multiplication spreads them, and its upper bits do so best.
static size_t bucket_for_index(uint64_t index, size_t n_bucket)
{
    return (size_t)((index * 0x9e3779b97f4a7c15ULL) >> 32) & (n_bucket - 1);
}

static void link_chunk(vti_cuda_chunks *t, vti_cuda_chunk *chunk)
{
    vti_cuda_chunk **at = &t->bucket[bucket_for_index(chunk->index, t->n_bucket)];
    chunk->next = *at;
    *at = chunk;
}

static void move_chunks(vti_cuda_chunks *to, const vti_cuda_chunks *from)
{
    for (size_t i = 0; i < from->n_bucket; i++)
        for (vti_cuda_chunk *chunk = from->bucket[i], *next; chunk; chunk = next) {
            next = chunk->next;
            link_chunk(to, chunk);
        }
}

// Without memory for more buckets the chains just become longer.
static void grow_table(vti_cuda_chunks *t)
{
    vti_cuda_chunks more = {.n_bucket = 2 * t->n_bucket, .n = t->n};
    more.bucket = calloc(more.n_bucket, sizeof(vti_cuda_chunk *));
    if (!more.bucket) return;
    move_chunks(&more, t);
    free(t->bucket);
    *t = more;
}

static vt_status chunks_open(vti_cuda_chunks *t)
{
    if (t->bucket) return VT_OK;
    t->bucket = calloc(FIRST_BUCKETS, sizeof(vti_cuda_chunk *));
    if (!t->bucket) return VT_ENOMEM;
    t->n_bucket = FIRST_BUCKETS;
    return VT_OK;
}

vti_cuda_chunk *vti_cuda_chunk_find(vti_cuda *c, uint64_t index)
{
    const vti_cuda_chunks *t = &c->chunks;
    vti_cuda_chunk *chunk = NULL;
    pthread_mutex_lock(&c->mu);
    if (t->bucket) chunk = t->bucket[bucket_for_index(index, t->n_bucket)];
    while (chunk && chunk->index != index) chunk = chunk->next;
    pthread_mutex_unlock(&c->mu);
    assert(chunk);
    return chunk;
}

// Takes over a list of records; NULL: makes sure that there is a table.
static vt_status chunks_add(vti_cuda *c, vti_cuda_chunk *list)
{
    pthread_mutex_lock(&c->mu);
    vt_status st = chunks_open(&c->chunks);
    for (vti_cuda_chunk *next; st == VT_OK && list; list = next) {
        next = list->next;
        link_chunk(&c->chunks, list);
        if (++c->chunks.n > c->chunks.n_bucket) grow_table(&c->chunks);
    }
    pthread_mutex_unlock(&c->mu);
    return st;
}

static vti_cuda_chunk *chunks_take(vti_cuda *c, uint64_t index)
{
    pthread_mutex_lock(&c->mu);
    vti_cuda_chunk **at = &c->chunks.bucket[bucket_for_index(index, c->chunks.n_bucket)];
    while (*at && (*at)->index != index) at = &(*at)->next;
    vti_cuda_chunk *chunk = *at;
    if (chunk) {
        *at = chunk->next;
        c->chunks.n--;
    }
    pthread_mutex_unlock(&c->mu);
    return chunk;
}

vti_cu_prop vti_cuda_prop(const vti_cuda *c)
{
    return (vti_cu_prop){
        .type = VTI_CU_ALLOCATION_PINNED,
        .location = {.type = VTI_CU_LOCATION_DEVICE, .id = c->device},
    };
}

const vt_vmm_class *vti_cuda_class(const vti_cuda *c, uint64_t index)
{
    uint32_t k = 0;
    while (index >= c->first_index[k + 1]) k++;
    return &c->cls[k];
}

void vti_cuda_assert_class(const vti_cuda *c, uint64_t index, uint64_t n)
{
    uint64_t end = c->first_index[c->n_class];
    assert(n > 0 && index < end && n <= end - index);
    assert(vti_cuda_class(c, index) == vti_cuda_class(c, index + n - 1));
    (void)c, (void)index, (void)n, (void)end;
}

// Gives each slice that has none a handle; those before a failing one keep theirs.
static vt_status fill_chunk(vti_cuda *c, vti_cuda_chunk *chunk)
{
    vti_cu_prop prop = vti_cuda_prop(c);
    for (uint32_t s = 0; s < chunk->cls->n_slice; s++) {
        vti_cuda_slice *slice = &chunk->slice[s];
        if (slice->exists) continue;
        vti_cu_result r = c->cu.mem_create(&slice->handle, chunk->cls->slice_bytes, &prop, 0);
        VT_TRY(vti_cuda_status(r));
        slice->exists = true;
        c->resident_bytes += chunk->cls->slice_bytes;
    }
    return VT_OK;
}

// Releases the chunk's handles, up to the first that cannot be released.
static vt_status empty_chunk(vti_cuda *c, vti_cuda_chunk *chunk)
{
    for (uint32_t s = 0; s < chunk->cls->n_slice; s++) {
        vti_cuda_slice *slice = &chunk->slice[s];
        if (!slice->exists) continue;
        if (c->cu.mem_release(slice->handle) != VTI_CU_SUCCESS) return VT_EDEVICE;
        slice->exists = false;
        c->resident_bytes -= chunk->cls->slice_bytes;
    }
    return VT_OK;
}

static void discard_chunks(vti_cuda *c, vti_cuda_chunk *list)
{
    for (vti_cuda_chunk *next; list; list = next) {
        next = list->next;
        (void)empty_chunk(c, list);
        free(list);
    }
}

// Puts a new chunk in front of *list, also if filling it fails.
static vt_status make_chunk(vti_cuda *c, uint64_t index, vti_cuda_chunk **list)
{
    const vt_vmm_class *cls = vti_cuda_class(c, index);
    vti_cuda_chunk *chunk = calloc(1, sizeof *chunk + cls->n_slice * sizeof(vti_cuda_slice));
    if (!chunk) return VT_ENOMEM;
    chunk->index = index;
    chunk->cls = cls;
    chunk->next = *list;
    *list = chunk;
    return fill_chunk(c, chunk);
}

vt_status vti_cuda_create(vti_cuda *c, uint64_t index, uint64_t n)
{
    vti_cuda_chunk *list = NULL;
    vt_status st = chunks_add(c, NULL);
    for (uint64_t i = 0; i < n && st == VT_OK; i++) st = make_chunk(c, index + i, &list);
    if (st == VT_OK) return chunks_add(c, list);
    discard_chunks(c, list);
    return st;
}

// If a handle cannot be released, those that are gone are created again, with any bytes.
vt_status vti_cuda_destroy(vti_cuda *c, uint64_t index, uint64_t n)
{
    uint64_t i = 0;
    while (i < n && empty_chunk(c, vti_cuda_chunk_find(c, index + i)) == VT_OK) i++;
    if (i < n) {
        for (uint64_t k = 0; k <= i; k++) (void)!fill_chunk(c, vti_cuda_chunk_find(c, index + k));
        return VT_EDEVICE;
    }
    for (i = 0; i < n; i++) free(chunks_take(c, index + i));
    return VT_OK;
}

void vti_cuda_chunks_close(vti_cuda *c)
{
    for (size_t i = 0; i < c->chunks.n_bucket; i++) discard_chunks(c, c->chunks.bucket[i]);
    free(c->chunks.bucket);
    c->chunks = (vti_cuda_chunks){0};
}
