// speed_rig.h - attention measured on a GPU (gpu_attention_speed.c): the device, what a launch is
// given, and the caches that it reads.
//
// Whatever fails ends the program with one line.
#ifndef TESTS_GPU_SPEED_RIG_H
#define TESTS_GPU_SPEED_RIG_H

#include "gpu/gpu_impl.h"
#include "kv/kv.h"

enum { SPEED_N_HEAD = 32, SPEED_HEAD_DIM = 128, SPEED_MAX_BATCH = 64, SPEED_MAX_LAYER = 32 };

typedef struct speed_case {
    int batch, n_pos, n_kv_head;
    int n_tok; // new ones of each sequence
} speed_case;

// What is planted to see that the comparison of results notices it.
typedef enum speed_plant {
    SPEED_PLANT_NONE,
    SPEED_PLANT_STRIDE, // vTensor's cache is read with a row too many between tokens
    SPEED_PLANT_CHUNK,  // it lost what was in one chunk
    SPEED_PLANT_HOLE,   // its last chunk is not mapped
    SPEED_N_PLANT
} speed_plant;

// ---- caches -------------------------------------------------------------------------------------

// Caches by memory and layout. Those of managers are laid out as an engine's are, by the same code.
typedef enum speed_kind {
    SPEED_VTENSOR,  // libvtensor's, chunks mapped in the order in which sequences grew
    SPEED_PLAIN,    // cuMemAlloc's, laid out the same
    SPEED_DENSE,    // cuMemAlloc's, one layer, the rows of a plane side by side
    SPEED_PAGED16,  // pages of 16 tokens that tables list
    SPEED_PAGED256, // .. of 256
    SPEED_N_KIND
} speed_kind;

typedef struct speed_cache {
    fxi_kv *kv; // NULL: plain memory
    fxi_kv_seq *seq[SPEED_MAX_BATCH];
    char *plain;
    int n_layer;                       // it has; launches go through them in turn
    fxi_kv_view view[SPEED_MAX_BATCH]; // as the device sees them
    int32_t *table;                    // of the device
    double scattered; // of the chunks made for vTensor's: the part made after another sequence's
} speed_cache;

struct speed_rig;

extern const char *const speed_memory_names[SPEED_N_KIND];
extern const char *const speed_layout_names[SPEED_N_KIND];

// Bytes of one layer of a case's keys and values.
size_t speed_case_bytes(const speed_case *c);

// Opens n_kind caches and writes the same numbers to all, by the kernel that does it in a pass. The
// number of layers is as many of SPEED_MAX_LAYER as there is memory for. False: not even one.
bool speed_caches_open(struct speed_rig *r, const speed_case *c, speed_cache *cache, int n_kind);
void speed_caches_close(struct speed_rig *r, speed_cache *cache, int n_kind);
// Spoils vTensor's.
void speed_cache_plant(struct speed_rig *r, const speed_case *c, speed_cache *cache,
                       speed_plant plant);

// ---- the device ---------------------------------------------------------------------------------

typedef struct speed_rig {
    fxi_device *d;
    fxi_gpu *g;
    fxi_cuda_seq *seq_at; // [SPEED_N_KIND][SPEED_MAX_BATCH]
    fxi_cuda_tile *tile, *tile_at;
    float *q, *part;        // [max_row][n_head][head_dim], [max_part]
    float *out;             // [max_row][n_head][head_dim]
    float *source;          // [2][n_source][n_head][head_dim] what caches are filled with
    int32_t *row_seq, *pos; // [SPEED_MAX_BATCH][n_source] the sequence; [max_pos] 0, 1, ..
    int max_row, max_part, n_source, max_layer;
    uint32_t seed;
} speed_rig;

typedef struct speed_limits {
    int max_batch, max_pos, max_tok, max_layer;
} speed_limits;

void speed_must(fx_status st, const fx_error *err);
void speed_rig_open(speed_rig *r, const char *math, const speed_limits *most);
void speed_rig_close(speed_rig *r);

// Memory of the device, freed with it; bytes to it, and from it.
void *speed_take(const speed_rig *r, size_t size_bytes);
void speed_send(speed_rig *r, void *dst, const void *src, size_t size_bytes);
void speed_fetch(speed_rig *r, void *dst, const void *src, size_t size_bytes);
void speed_wait(const speed_rig *r);
int speed_random(speed_rig *r, int n); // 0 .. n-1
// The most bytes per second that a fill, a copy (read and written) and a search for the largest
// numbers move.
double speed_bandwidth(speed_rig *r, size_t size_bytes);

// ---- launches -----------------------------------------------------------------------------------

// Attention of a case over a cache, prepared.
typedef struct speed_job {
    speed_rig *r;
    const speed_cache *cache;
    fxi_cuda_attn_args few, wide; // tiles of each kernel
    int layer;                    // of the next launch
} speed_job;

// kind: the cache's.
void speed_job_open(speed_job *j, speed_rig *r, const speed_case *c, const speed_cache *cache,
                    speed_kind kind);
void speed_job_launch(speed_job *j); // of the next layer, into r->out

#endif
