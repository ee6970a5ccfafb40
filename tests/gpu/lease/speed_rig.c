// speed_rig.c - see speed_rig.h.
#include "speed_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/system/clock.h"

void speed_must(fx_status st, const fx_error *err)
{
    if (st == FX_OK) return;
    fprintf(stderr, "%s\n", err->text);
    exit(1);
}

void *speed_take(const speed_rig *r, size_t size_bytes)
{
    void *at;
    fx_error err = {0};
    speed_must(r->d->ops->take(r->d, size_bytes, 0, &at, &err), &err);
    return at;
}

void speed_send(speed_rig *r, void *dst, const void *src, size_t size_bytes)
{
    fx_error err = {0};
    speed_must(r->d->ops->upload(r->d, dst, src, size_bytes, &err), &err);
    speed_must(fxi_cu_enter(&r->g->cu, &err), &err);
    speed_must(fxi_gpu_stage_drain(&r->g->cu, &r->g->stage, &err), &err);
    fxi_cu_leave(&r->g->cu);
}

void speed_fetch(speed_rig *r, void *dst, const void *src, size_t size_bytes)
{
    fx_error err = {0};
    speed_must(fxi_cu_enter(&r->g->cu, &err), &err);
    speed_must(fxi_gpu_stage_download(&r->g->cu, &r->g->stage, dst, src, size_bytes, &err), &err);
    fxi_cu_leave(&r->g->cu);
}

void speed_wait(const speed_rig *r)
{
    fx_error err = {0};
    speed_must(r->d->ops->wait(r->d, &err), &err);
}

int speed_random(speed_rig *r, int n)
{
    r->seed = r->seed * 1664525 + 1013904223;
    return (int)((r->seed >> 8) % (uint32_t)n);
}

// ---- open --------------------------------------------------------------------------------------

// Random numbers of -1 to 1.
static void send_numbers(speed_rig *r, float *to, size_t n)
{
    float *numbers = malloc(n * sizeof *numbers);
    if (!numbers) exit(1);
    for (size_t i = 0; i < n; i++)
        numbers[i] = (float)(speed_random(r, 1 << 16) - (1 << 15)) * 0x1p-15f;
    speed_send(r, to, numbers, n * sizeof *numbers);
    free(numbers);
}

// Which sequence and which position the rows of a piece belong to, for all of them.
static void send_places(speed_rig *r, int max_pos)
{
    const size_t n = (size_t)r->n_source * SPEED_MAX_BATCH;
    const size_t most = n > (size_t)max_pos ? n : (size_t)max_pos;
    int32_t *list = malloc(most * sizeof *list);
    if (!list) exit(1);
    for (size_t i = 0; i < n; i++) list[i] = (int32_t)(i / (size_t)r->n_source);
    r->row_seq = speed_take(r, n * sizeof *list);
    speed_send(r, r->row_seq, list, n * sizeof *list);
    for (int i = 0; i < max_pos; i++) list[i] = i;
    r->pos = speed_take(r, (size_t)max_pos * sizeof *list);
    speed_send(r, r->pos, list, (size_t)max_pos * sizeof *list);
    free(list);
}

static void take_arrays(speed_rig *r, const speed_limits *most)
{
    const size_t n_row = (size_t)r->max_row, row = SPEED_N_HEAD * SPEED_HEAD_DIM;
    const size_t n_part = n_row * SPEED_N_HEAD * (size_t)fxi_attn_n_segment(most->max_pos);
    r->max_part = n_part < 1 << 19 ? (int)n_part : 1 << 19;
    r->tile = calloc(n_row, sizeof *r->tile);
    if (!r->tile) exit(1);
    r->seq_at = speed_take(r, SPEED_N_KIND * SPEED_MAX_BATCH * sizeof *r->seq_at);
    r->tile_at = speed_take(r, n_row * sizeof *r->tile_at);
    r->q = speed_take(r, n_row * row * sizeof(float));
    r->out = speed_take(r, n_row * row * sizeof(float));
    r->part = speed_take(r, (size_t)r->max_part * (FXI_CUDA_PART_ACC + SPEED_HEAD_DIM) * 4);
    r->n_source = most->max_pos < 1024 ? most->max_pos : 1024;
    r->source = speed_take(r, 2 * (size_t)r->n_source * row * sizeof(float));
    send_numbers(r, r->q, n_row * row);
    send_numbers(r, r->source, 2 * (size_t)r->n_source * row);
    send_places(r, most->max_pos);
}

void speed_rig_open(speed_rig *r, const char *math, const speed_limits *most)
{
    fx_error err = {0};
    const fxi_gpu_options opt = {.name = "cuda:0", .math = math};
    *r = (speed_rig){
        .max_row = most->max_batch * most->max_tok, .max_layer = most->max_layer, .seed = 1};
    speed_must(fxi_gpu_open(&opt, &r->d, &err), &err);
    r->g = fxi_gpu_of(r->d);
    take_arrays(r, most);
}

void speed_rig_close(speed_rig *r)
{
    r->d->ops->close(r->d);
    free(r->tile);
}

// ---- bandwidth ---------------------------------------------------------------------------------

typedef struct speed_piece {
    char *at;
    size_t size_bytes;
} speed_piece;

static void fill_piece(const speed_rig *r, const speed_piece *p)
{
    fx_error err = {0};
    speed_must(fxi_cu_zero(&r->g->cu, r->g->cu.compute, p->at, p->size_bytes, &err), &err);
}

static void copy_piece(const speed_rig *r, const speed_piece *p)
{
    fx_error err = {0};
    const size_t half = p->size_bytes / 2;
    speed_must(fxi_cu_copy(&r->g->cu, r->g->cu.compute, p->at + half, p->at, half, &err), &err);
}

// Rows of 64 KiB, a block each; what is found goes over the results of attention.
static void search_piece(const speed_rig *r, const speed_piece *p)
{
    enum { ROW = 1 << 14 };
    fx_error err = {0};
    const int n_row = (int)(p->size_bytes / (ROW * sizeof(float)));
    const fxi_cuda_argmax_args args = {.y = (const float *)(const void *)p->at,
                                       .n_row = n_row,
                                       .n = ROW,
                                       .best = (int32_t *)(void *)r->out,
                                       .value = r->out + n_row};
    speed_must(fxi_gpu_launch(r->g, FXI_CUDA_ARGMAX, &args, &err), &err);
}

double speed_bandwidth(speed_rig *r, size_t size_bytes)
{
    static void (*const moves[])(const speed_rig *r,
                                 const speed_piece *p) = {fill_piece, copy_piece, search_piece};
    enum { N_ROUND = 8 };
    fx_error err = {0};
    void *at;
    double most = 0;
    speed_must(fxi_cu_enter(&r->g->cu, &err), &err);
    speed_must(fxi_cu_alloc(&r->g->cu, size_bytes, &at, &err), &err);
    const speed_piece p = {at, size_bytes};
    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++) {
        moves[i](r, &p);
        speed_must(fxi_cu_wait(&r->g->cu, r->g->cu.compute, &err), &err);
        const double t0 = fxi_now_s();
        for (int k = 0; k < N_ROUND; k++) moves[i](r, &p);
        speed_must(fxi_cu_wait(&r->g->cu, r->g->cu.compute, &err), &err);
        const double per_s = N_ROUND * (double)size_bytes / (fxi_now_s() - t0);
        if (per_s > most) most = per_s;
    }
    fxi_cu_free(&r->g->cu, at);
    fxi_cu_leave(&r->g->cu);
    return most;
}
