// ref.c - the plain C statement of every operation: see ref.h.
#include <math.h>
#include <stdbool.h>

#include "kernels/attn_range.h"
#include "kernels/linear.h"
#include "kernels/ref/mathf.h"
#include "kernels/ref/ref.h"

static float ref_sum16(const float *a, int n)
{
    float lane[16] = {0};
    for (int i = 0; i < n; i++) lane[i % 16] += a[i];
    return fxi_ref_fold16(lane);
}

// ---- activations --------------------------------------------------------------------------------

static float act_silu(float x)
{
    return x / (1 + fxi_expf(-x));
}

static float act_gelu(float x)
{
    return x / (1 + fxi_expf(FXI_GELU_A * x * fmaf(FXI_GELU_B * x, x, 1)));
}

static float act_gelu_erf(float x)
{
    return 0.5f * x * (1 + fxi_erff(x * FXI_SQRT_HALF));
}

static float act_relu(float x)
{
    return x > 0 ? x : 0;
}

static float act_sigmoid(float x)
{
    return 1 / (1 + fxi_expf(-x));
}

static float act_softplus(float x)
{
    return fxi_softplusf(x);
}

static float act_relu2(float x)
{
    return act_relu(x) * act_relu(x);
}

static float gate_clamped(float gate, float up)
{
    const float most = FXI_SWIGLU_LIMIT;
    float g = gate < most ? gate : most, u = up < most ? up : most;
    u = u > -most ? u : -most;
    return g / (1 + fxi_expf(-(FXI_SWIGLU_ALPHA * g))) * (u + 1);
}

#define REF_ACT(name)                                                                \
    static void ref_act_##name(const float *x, int n, float *y)                      \
    {                                                                                \
        for (int i = 0; i < n; i++) y[i] = act_##name(x[i]);                         \
    }                                                                                \
    static void ref_gate_##name(const float *gate, const float *up, int n, float *y) \
    {                                                                                \
        for (int i = 0; i < n; i++) y[i] = act_##name(gate[i]) * up[i];              \
    }

REF_ACT(silu)
REF_ACT(gelu)
REF_ACT(gelu_erf)
REF_ACT(relu)
REF_ACT(sigmoid)
REF_ACT(softplus)
REF_ACT(relu2)

static void ref_gate_clamped(const float *gate, const float *up, int n, float *y)
{
    for (int i = 0; i < n; i++) y[i] = gate_clamped(gate[i], up[i]);
}

// ---- linear layers, output by output ------------------------------------------------------------

// Number i from the first of a panel on, as f32.
static float widen_number(fxi_dtype type, const void *panel, size_t i)
{
    if (type == FXI_F32) return ((const float *)panel)[i];
    const uint16_t h = ((const uint16_t *)panel)[i];
    return type == FXI_F16 ? fxi_f16_to_f32(h) : fxi_bf16_to_f32(h);
}

static int panel_end(const fxi_linear *w, int panel1)
{
    int end = panel1 * FXI_PANEL;
    return end < w->n_out ? end : w->n_out;
}

static void ref_linear_float(const fxi_linear *w, const fxi_act *a, int n_tok, int panel0,
                             int panel1, float *y, size_t ldy)
{
    const size_t ldk = fxi_linear_ldk(w);
    for (int t = 0; t < n_tok; t++)
        for (int o = panel0 * FXI_PANEL; o < panel_end(w, panel1); o++) {
            const float *x = a->x + (size_t)t * (size_t)w->n_in;
            const void *panel = fxi_linear_panel(w, o / FXI_PANEL);
            const size_t lane = (size_t)o % FXI_PANEL;
            float acc = 0;
            for (int k = 0; k < w->n_in; k++)
                acc = fmaf(widen_number(w->type, panel, (size_t)k * ldk + lane), x[k], acc);
            y[(size_t)t * ldy + (size_t)o] = acc;
        }
}

// One output: each run of numbers that share a scale is unpacked once for all tokens. y: of the
// first token
static void output_quant(const fxi_qpanel *q, const fxi_linear *w, const fxi_act *a, int n_tok,
                         int o, float *y, size_t ldy)
{
    const void *panel = fxi_linear_panel(w, o / FXI_PANEL);
    const int sub = q->f->sub;
    for (int t = 0; t < n_tok; t++) y[(size_t)t * ldy] = 0;
    for (int k = 0; k < w->n_in; k += sub) {
        fxi_qnumber n[FXI_Q_BLOCK];
        for (int i = 0; i < sub; i++)
            n[i] = fxi_qpanel_number(q, w->n_in, panel, o % FXI_PANEL, k + i);
        for (int t = 0; t < n_tok; t++) {
            const size_t at = (size_t)t * (size_t)w->n_in + (size_t)k;
            const float dx = a->d[at / FXI_Q_BLOCK];
            float *acc = y + (size_t)t * ldy;
            int s = 0, sum = 0;
            for (int i = 0; i < sub; i++) {
                s += n[i].value * a->q[at + (size_t)i];
                sum += a->q[at + (size_t)i];
            }
            *acc = fmaf(n[0].scale * (float)s + 0.0f, dx, *acc);
            if (q->f->has_min) *acc = fmaf(n[0].min, dx * (float)sum, *acc);
        }
    }
}

static void ref_linear_quant(const fxi_linear *w, const fxi_act *a, int n_tok, int panel0,
                             int panel1, float *y, size_t ldy)
{
    const fxi_qpanel q = fxi_qpanel_of(w->type);
    for (int o = panel0 * FXI_PANEL; o < panel_end(w, panel1); o++)
        output_quant(&q, w, a, n_tok, o, y + o, ldy);
}

// ---- norms, rotation and the rest ---------------------------------------------------------------

// The clamp is for inf and NaN; finite numbers never leave [-127, 127].
static void ref_quant_q8(const float *x, int n, int8_t *q, float *d, int32_t *sum)
{
    for (int b = 0; b < n / 32; b++, x += 32, q += 32, sum += 2) {
        float amax = 0;
        for (int i = 0; i < 32; i++) amax = fmaxf(amax, fabsf(x[i]));
        const float inv = 1 / (amax / 127);
        d[b] = isinf(inv) ? 0 : amax / 127;
        sum[0] = sum[1] = 0;
        for (int i = 0; i < 32; i++) {
            const float r = isinf(inv) ? 0 : rintf(x[i] * inv);
            q[i] = (int8_t)fminf(fmaxf(r, -127), 127);
            sum[i / 16] += q[i];
        }
    }
}

static void ref_rms_norm(const float *x, const float *w, int n, float eps, float *y)
{
    float mean = fxi_ref_sum_products(x, x, n) / (float)n;
    float scale = 1 / sqrtf(mean + eps);
    for (int i = 0; i < n; i++) y[i] = x[i] * scale * w[i];
}

static void ref_layer_norm(const float *x, const float *w, const float *b, int n, float eps,
                           float *y)
{
    float mean = ref_sum16(x, n) / (float)n, lane[16] = {0};
    for (int i = 0; i < n; i++) lane[i % 16] = fmaf(x[i] - mean, x[i] - mean, lane[i % 16]);
    float scale = 1 / sqrtf(fxi_ref_fold16(lane) / (float)n + eps);
    for (int i = 0; i < n; i++) {
        float v = (x[i] - mean) * scale;
        y[i] = b ? fmaf(v, w[i], b[i]) : v * w[i];
    }
}

static void ref_add(float *y, const float *x, int n)
{
    for (int i = 0; i < n; i++) y[i] += x[i];
}

static void ref_add_scaled(float *y, const float *x, float f, int n)
{
    for (int i = 0; i < n; i++) y[i] = fmaf(x[i], f, y[i]);
}

static void ref_multiply(float *y, const float *x, int n)
{
    for (int i = 0; i < n; i++) y[i] *= x[i];
}

static void ref_conv(const fxi_conv *c)
{
    for (int i = 0; i < c->n_channel; i++) {
        float y = c->b ? c->b[i] : 0;
        for (int j = 0; j < c->n_tap; j++)
            if (c->x[j])
                y = fmaf(c->x[j][i], c->w[(size_t)j * (size_t)c->n_channel + (size_t)i], y);
        c->y[i] = y;
    }
}

static void ref_scale(float *x, float f, int n)
{
    for (int i = 0; i < n; i++) x[i] *= f;
}

static float ref_cap_score(float x, float cap)
{
    return cap * fxi_tanhf(x * (1 / cap));
}

static void ref_softcap(float *x, float cap, int n)
{
    for (int i = 0; i < n; i++) x[i] = ref_cap_score(x[i], cap);
}

static void ref_rope(float *x, int n_head, int head_dim, int n_pair, const float *cos,
                     const float *sin)
{
    for (int h = 0; h < n_head; h++)
        for (int i = 0; i < n_pair; i++) {
            float *pair = x + h * head_dim + 2 * i;
            float x0 = pair[0], x1 = pair[1];
            pair[0] = fmaf(x0, cos[i], -(x1 * sin[i]));
            pair[1] = fmaf(x1, cos[i], x0 * sin[i]);
        }
}

#define REF_STORE(name, type)                                        \
    static void ref_store_##name(const float *src, int n, void *dst) \
    {                                                                \
        fxi_row_from_f32(type, src, (size_t)n, dst);                 \
    }

REF_STORE(f32, FXI_F32)
REF_STORE(f16, FXI_F16)
REF_STORE(bf16, FXI_BF16)

static void ref_store_q8_0(const float *src, int n, void *dst)
{
    fxi_block_q8_0 *block = dst;
    for (; n > 0; n -= FXI_Q8_0_ELEMS, src += FXI_Q8_0_ELEMS, block++) {
        float d;
        int32_t sum[2];
        ref_quant_q8(src, FXI_Q8_0_ELEMS, block->q, &d, sum);
        block->d = fxi_f32_to_f16(d);
    }
}

// ---- attention, query row by query row ----------------------------------------------------------

// A partial result is a softmax-weighted sum of values, with the largest score m subtracted in
// every exponent: m, l, acc[head_dim] as in kernels.h.
enum { M, L, ACC = FXI_ATTN_PART_ACC };

// The key or value of one position and this KV head, of n numbers, as f32.
static const float *kv_row(const fxi_attn *a, int plane, int pos, int n)
{
    const char *row = fxi_kv_row(&a->view, plane, pos);
    float *wide = a->scratch;
    fxi_row_to_f32(a->kv_type, row + fxi_kv_bytes(a->kv_type, fxi_attn_head_at(a, a->kv_head)),
                   (size_t)n, wide);
    return wide;
}

// The score of one position.
static float key_score(const fxi_attn *a, const float *q, int pos)
{
    const float *k = kv_row(a, fxi_attn_key_plane(a), pos, a->head_dim);
    float s = 0;
    for (int d = 0; d < a->head_dim; d++) s = fmaf(q[d], k[d], s);
    return a->softcap ? ref_cap_score(s, a->softcap) : s;
}

// The partial result of positions pos + from to pos + end - 1 of the segment that begins at pos.
static void part_segment(const fxi_attn *a, const float *q, int pos, int from, int end, float *o)
{
    const int n = fxi_attn_value_dim(a);
    float p[FXI_ATTN_SEGMENT] = {0};
    o[M] = -INFINITY;
    for (int j = from; j < end; j++) {
        p[j] = key_score(a, q, pos + j);
        o[M] = p[j] > o[M] ? p[j] : o[M];
    }
    for (int j = from; j < end; j++) p[j] = fxi_expf(p[j] - o[M]);
    o[L] = ref_sum16(p, end);
    for (int d = 0; d < n; d++) o[ACC + d] = 0;
    for (int j = from; j < end; j++) {
        const float *v = kv_row(a, fxi_attn_value_plane(a), pos + j, n);
        for (int d = 0; d < n; d++) o[ACC + d] = fmaf(p[j], v[d], o[ACC + d]);
    }
}

static void part_merge(float *o, const float *seg, int n)
{
    float m = seg[M] > o[M] ? seg[M] : o[M];
    float e = fxi_expf(o[M] - m), es = fxi_expf(seg[M] - m);
    o[M] = m;
    o[L] = fmaf(seg[L], es, o[L] * e);
    for (int d = ACC; d < ACC + n; d++) o[d] = fmaf(seg[d] + 0, es, o[d] * e);
}

// Query rows are numbered [n_tok][group]. The query head of one, and its place among those of all
// tokens:
static int row_head(const fxi_attn *a, int row)
{
    return a->kv_head * a->group + row % a->group;
}

static size_t row_at(const fxi_attn *a, int row)
{
    return (size_t)(row / a->group * a->n_head + row_head(a, row));
}

// The segments that it attends to some of: from this one on ..
static int row_first_segment(const fxi_attn *a, int row)
{
    return fxi_attn_first(a->pos + row / a->group, a->window) / FXI_ATTN_SEGMENT;
}

// .. up to, not including, this one.
static int row_end_segment(const fxi_attn *a, int row)
{
    return fxi_attn_n_segment(fxi_attn_end(a->pos + row / a->group, a->n_pos, a->window));
}

// The partial result of a segment for a query row that attends to some of it.
static void row_segment(const fxi_attn *a, int row, int segment, float *part)
{
    const int pos = segment * FXI_ATTN_SEGMENT, at = a->pos + row / a->group;
    const int from = fxi_attn_first(at, a->window) - pos;
    const int end = fxi_attn_end(at, a->n_pos, a->window) - pos;
    float *q = a->scratch + a->head_dim;
    const float *own = a->q + row_at(a, row) * (size_t)a->head_dim;
    for (int d = 0; d < a->head_dim; d++) q[d] = own[d] * a->scale;
    part_segment(a, q, pos, from > 0 ? from : 0, end < FXI_ATTN_SEGMENT ? end : FXI_ATTN_SEGMENT,
                 part);
}

static float *part_of(const fxi_attn *a, const float *part, int segment, int row)
{
    size_t i = (size_t)segment * (size_t)(a->n_tok * a->group) + (size_t)row;
    return (float *)part + i * fxi_attn_part_floats(fxi_attn_value_dim(a));
}

// One KV head of a call, and its partial results.
static fxi_attn head_of(const fxi_attn *a, int h)
{
    fxi_attn one = *a;
    one.kv_head = a->kv_head + h;
    one.n_kv_head = 1;
    return one;
}

static float *head_parts(const fxi_attn *a, const float *part, int h)
{
    if (!part) return NULL;
    return part_of(a, part, h * fxi_attn_n_segment(fxi_attn_call_end(a)), 0);
}

static void ref_attention_part(const fxi_attn *a, int segment0, int segment1, float *part)
{
    for (int h = 0; h < a->n_kv_head; h++) {
        const fxi_attn one = head_of(a, h);
        float *own = head_parts(a, part, h);
        for (int s = segment0; s < segment1; s++)
            for (int r = 0; r < a->n_tok * a->group; r++)
                if (s >= row_first_segment(&one, r) && s < row_end_segment(&one, r))
                    row_segment(&one, r, s, part_of(&one, own, s, r));
    }
}

// One query row from its partial results or, if part is NULL, from the cache.
static void attend_row(const fxi_attn *a, int row, const float *part)
{
    const int n = fxi_attn_value_dim(a);
    float *seg = a->scratch + 2 * a->head_dim, *all = seg + fxi_attn_part_floats(n);
    float *out = a->out + row_at(a, row) * (size_t)n;
    all[M] = a->sink ? a->sink[row_head(a, row)] : -INFINITY;
    all[L] = a->sink ? 1 : 0;
    for (int d = 0; d < n; d++) all[ACC + d] = 0;
    for (int s = row_first_segment(a, row); s < row_end_segment(a, row); s++) {
        if (!part) row_segment(a, row, s, seg);
        part_merge(all, part ? part_of(a, part, s, row) : seg, n);
    }
    float inv = 1 / all[L];
    for (int d = 0; d < n; d++) out[d] = all[ACC + d] * inv;
}

static void ref_attention_merge(const fxi_attn *a, const float *part)
{
    for (int h = 0; h < a->n_kv_head; h++) {
        const fxi_attn one = head_of(a, h);
        for (int r = 0; r < a->n_tok * a->group; r++) attend_row(&one, r, head_parts(a, part, h));
    }
}

static void ref_attention(const fxi_attn *a)
{
    ref_attention_merge(a, NULL);
}

// ---- routers of experts -------------------------------------------------------------------------

// A row's logits on their way to a choice.
typedef struct route_row {
    const fxi_router *r;
    const float *logits, *bias;
    float max; // of the logits
    float sum; // of all scores, where keys need it
} route_row;

static float expert_score(const route_row *row, int e)
{
    const float x = row->logits[e];
    return row->r->score == FXI_ROUTE_SIGMOID ? fxi_sigmoid(x) : fxi_expf(x - row->max);
}

// sum16 of the scores of n experts, number i of them being index ? index[i] : i.
static float sum_scores(const route_row *row, const int *index, int n)
{
    float lane[16] = {0};
    for (int i = 0; i < n; i++) lane[i % 16] += expert_score(row, index ? index[i] : i);
    return fxi_ref_fold16(lane);
}

static float expert_key(const route_row *row, int e)
{
    const bool is_sigmoid = row->r->score == FXI_ROUTE_SIGMOID;
    if (!row->bias) return is_sigmoid ? expert_score(row, e) : row->logits[e];
    const float p = expert_score(row, e);
    return (is_sigmoid ? p : p / row->sum) + row->bias[e];
}

static float group_key(const route_row *row, int group, int n)
{
    float best = -INFINITY, second = -INFINITY;
    for (int e = group * n; e < (group + 1) * n; e++) {
        const float key = expert_key(row, e);
        second = fmaxf(second, fminf(best, key));
        best = fmaxf(best, key);
    }
    return row->r->score == FXI_ROUTE_SIGMOID && n > 1 ? best + second : best;
}

// Bit g: the experts of group g may be chosen.
static uint64_t open_groups(const route_row *row)
{
    const int n_group = row->r->n_group;
    float key[FXI_MAX_EXPERT_GROUP];
    uint64_t open = 0;
    for (int g = 0; g < n_group; g++) key[g] = group_key(row, g, row->r->n_expert / n_group);
    for (int g = 0; g < n_group; g++) {
        int n_before = 0;
        for (int o = 0; o < n_group; o++)
            n_before += key[o] > key[g] || (key[o] == key[g] && o < g);
        if (n_before < row->r->n_group_used) open |= (uint64_t)1 << g;
    }
    return open;
}

// Insertion into the sorted choice so far, whose keys lie in `weight`.
static void insert_experts(const route_row *row, int *expert, float *weight)
{
    const fxi_router *r = row->r;
    const int n_group = r->n_group ? r->n_group : 1, n_of_group = r->n_expert / n_group;
    const uint64_t open = r->n_group ? open_groups(row) : 1;
    int n = 0;
    for (int e = 0; e < r->n_expert; e++) {
        if (!(open >> e / n_of_group & 1)) continue;
        const float key = expert_key(row, e);
        int i = n < r->n_used ? n++ : r->n_used;
        for (; i > 0 && key > weight[i - 1]; i--)
            if (i < r->n_used) expert[i] = expert[i - 1], weight[i] = weight[i - 1];
        if (i < r->n_used) expert[i] = e, weight[i] = key;
    }
}

void fxi_route_experts(const fxi_router *r, const float *logits, const float *bias, int *expert,
                       float *weight)
{
    route_row row = {.r = r, .logits = logits, .bias = bias, .max = logits[0]};
    const bool is_softmax = r->score == FXI_ROUTE_SOFTMAX, sums_all = r->norm == FXI_ROUTE_ALL;
    for (int e = 1; e < r->n_expert; e++)
        if (logits[e] > row.max) row.max = logits[e];
    if (is_softmax && (bias || sums_all)) row.sum = sum_scores(&row, NULL, r->n_expert);
    insert_experts(&row, expert, weight);
    const float sum = !sums_all    ? sum_scores(&row, expert, r->n_used) + FXI_ROUTE_TINY
                      : is_softmax ? row.sum
                                   : 1;
    for (int i = 0; i < r->n_used; i++) weight[i] = expert_score(&row, expert[i]) / sum * r->scale;
}

float fxi_sigmoid(float x)
{
    return act_sigmoid(x);
}

// ---- probes, which the compiler may vectorise ---------------------------------------------------

enum { N_LANE = 16 };

static float sum_lanes(const float *lane)
{
    float s = 0;
    for (int j = 0; j < N_LANE; j++) s += lane[j];
    return s;
}

static float probe_read(const float *p, size_t n)
{
    float lane[N_LANE] = {0};
    for (size_t i = 0; i + N_LANE <= n; i += N_LANE)
        for (int j = 0; j < N_LANE; j++) lane[j] += p[i + (size_t)j];
    return sum_lanes(lane);
}

static float probe_fma(float seed, int n_round)
{
    float lane[N_LANE] = {0}, half = seed / 2;
    for (int r = 0; r < n_round; r++)
        for (int j = 0; j < N_LANE; j++) lane[j] = lane[j] * half + half;
    return sum_lanes(lane);
}

const fxi_probe_loops fxi_probe_loops_ref = {probe_read, probe_fma, 2.0 * N_LANE, NULL};

// ---- the table ----------------------------------------------------------------------------------

const fxi_kernels fxi_kernels_ref = {
    .name = "ref",
    .linear = {[FXI_F32] = ref_linear_float,
               [FXI_F16] = ref_linear_float,
               [FXI_BF16] = ref_linear_float,
               FXI_QUANT_TYPES(ref_linear_quant)},
    .linear_group = 1,
    .quant_q8 = ref_quant_q8,
    .rms_norm = ref_rms_norm,
    .layer_norm = ref_layer_norm,
    .add = ref_add,
    .add_scaled = ref_add_scaled,
    .scale = ref_scale,
    .multiply = ref_multiply,
    .conv = ref_conv,
    .softcap = ref_softcap,
    .act = {[FXI_ACT_SILU] = ref_act_silu,
            [FXI_ACT_GELU] = ref_act_gelu,
            [FXI_ACT_GELU_ERF] = ref_act_gelu_erf,
            [FXI_ACT_RELU] = ref_act_relu,
            [FXI_ACT_SIGMOID] = ref_act_sigmoid,
            [FXI_ACT_SOFTPLUS] = ref_act_softplus,
            [FXI_ACT_RELU2] = ref_act_relu2},
    .gate = {[FXI_ACT_SILU] = ref_gate_silu,
             [FXI_ACT_GELU] = ref_gate_gelu,
             [FXI_ACT_GELU_ERF] = ref_gate_gelu_erf,
             [FXI_ACT_RELU] = ref_gate_relu,
             [FXI_ACT_SIGMOID] = ref_gate_sigmoid,
             [FXI_ACT_SOFTPLUS] = ref_gate_softplus,
             [FXI_ACT_RELU2] = ref_gate_relu2,
             [FXI_ACT_CLAMPED] = ref_gate_clamped},
    .rope = ref_rope,
    .recur_update = fxi_ref_recur_update,
    .recur_read = fxi_ref_recur_read,
    .recur_state = fxi_ref_recur_state,
    .store_kv = {[FXI_F32] = ref_store_f32,
                 [FXI_F16] = ref_store_f16,
                 [FXI_BF16] = ref_store_bf16,
                 [FXI_Q8_0] = ref_store_q8_0},
    .attention = ref_attention,
    .attention_part = ref_attention_part,
    .attention_merge = ref_attention_merge,
};
