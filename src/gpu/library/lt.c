// lt.c - products by cuBLASLt, and the algorithms chosen for them; see lt.h.
#include "gpu/library/lt.h"

#include <stdlib.h>
#include <string.h>

typedef struct lt_choice {
    fxi_lt_algo algo;
    bool is_made;
} lt_choice;

typedef struct fxi_lt_shape {
    fxi_dtype type;
    int n_in, n_out;
    fxi_lt_layout w, a, y; // a and y: of n_row columns
    int n_row;             // 0: no layouts yet
    lt_choice *choice;     // [max_row], of so many rows less one
} fxi_lt_shape;

static fx_status check_status(const fxi_lt *lt, fxi_lt_status r, const char *what, fx_error *err)
{
    if (r == FXI_LT_SUCCESS) return FX_OK;
    const char *name = lt->api.get_status_name(r);
    return fxi_fail(err, r == FXI_LT_ALLOC_FAILED ? FX_ENOMEM : FX_EINTERNAL, "%s: %s: %s",
                    lt->cu->label, what, name ? name : "an unknown error");
}

// ---- open and close ----------------------------------------------------------------------------

static fx_status make_handle(fxi_lt *lt, fx_error *err)
{
    const fxi_lt_api *api = &lt->api;
    const int32_t transposed = FXI_LT_OP_T;
    const uint64_t room_bytes = FXI_LT_WORKSPACE_BYTES;
    FX_TRY(check_status(lt, api->create(&lt->handle), "cublasLtCreate", err));
    FX_TRY(check_status(lt, api->product_create(&lt->product, FXI_LT_COMPUTE_32F, FXI_LT_32F),
                        "cublasLtMatmulDescCreate", err));
    FX_TRY(check_status(
        lt, api->product_set(lt->product, FXI_LT_PRODUCT_TRANSA, &transposed, sizeof transposed),
        "cublasLtMatmulDescSetAttribute", err));
    FX_TRY(check_status(lt, api->preference_create(&lt->preference),
                        "cublasLtMatmulPreferenceCreate", err));
    return check_status(
        lt,
        api->preference_set(lt->preference, FXI_LT_WISH_WORKSPACE, &room_bytes, sizeof room_bytes),
        "cublasLtMatmulPreferenceSetAttribute", err);
}

fx_status fxi_lt_open(fxi_lt *lt, fxi_cu *cu, fx_error *err)
{
    *lt = (fxi_lt){.cu = cu};
    fx_status st = fxi_dl_load(&fxi_lt_source, &lt->api, err);
    if (st != FX_OK) return err ? fxi_fail_in(err, "%s: GPU arithmetic 'fast'", cu->label) : st;
    st = make_handle(lt, err);
    if (st != FX_OK) fxi_lt_close(lt);
    return st;
}

static void free_shape(const fxi_lt *lt, fxi_lt_shape *s)
{
    const fxi_lt_layout all[] = {s->w, s->a, s->y};
    for (int i = 0; i < 3; i++)
        if (all[i]) (void)lt->api.layout_destroy(all[i]);
    free(s->choice);
}

void fxi_lt_close(fxi_lt *lt)
{
    for (int i = 0; i < lt->n_shape; i++) free_shape(lt, &lt->shape[i]);
    free(lt->shape);
    if (lt->preference) (void)lt->api.preference_destroy(lt->preference);
    if (lt->product) (void)lt->api.product_destroy(lt->product);
    if (lt->handle) (void)lt->api.destroy(lt->handle);
    fxi_dl_unload(&lt->api);
    *lt = (fxi_lt){0};
}

bool fxi_lt_is_open(const fxi_lt *lt)
{
    return lt->handle != NULL;
}

bool fxi_lt_has_type(fxi_dtype type)
{
    return type == FXI_F16 || type == FXI_BF16;
}

// ---- shapes ------------------------------------------------------------------------------------

static fxi_lt_shape *find_shape(const fxi_lt *lt, fxi_dtype type, int n_in, int n_out)
{
    for (int i = 0; i < lt->n_shape; i++) {
        fxi_lt_shape *s = &lt->shape[i];
        if (s->type == type && s->n_in == n_in && s->n_out == n_out) return s;
    }
    return NULL;
}

fx_status fxi_lt_announce(fxi_lt *lt, fxi_dtype type, int n_in, int n_out, fx_error *err)
{
    if (find_shape(lt, type, n_in, n_out)) return FX_OK;
    fxi_lt_shape *all = realloc(lt->shape, ((size_t)lt->n_shape + 1) * sizeof *all);
    if (!all) return fxi_fail(err, FX_ENOMEM, "%s: no host memory", lt->cu->label);
    lt->shape = all;
    all[lt->n_shape++] = (fxi_lt_shape){.type = type, .n_in = n_in, .n_out = n_out};
    return FX_OK;
}

static fx_status make_layouts(fxi_lt *lt, fxi_lt_shape *s, fx_error *err)
{
    const fxi_lt_number type = s->type == FXI_F16 ? FXI_LT_16F : FXI_LT_16BF;
    const struct {
        fxi_lt_layout *to;
        fxi_lt_number type;
        int n_row, n_col; // the library's
    } list[] = {{&s->w, type, s->n_in, s->n_out},
                {&s->a, type, s->n_in, 1},
                {&s->y, FXI_LT_32F, s->n_out, 1}};
    for (int i = 0; i < 3; i++)
        FX_TRY(check_status(lt,
                            lt->api.layout_create(list[i].to, list[i].type, (uint64_t)list[i].n_row,
                                                  (uint64_t)list[i].n_col, list[i].n_row),
                            "cublasLtMatrixLayoutCreate", err));
    s->n_row = 1;
    return FX_OK;
}

static fx_status set_rows(fxi_lt *lt, fxi_lt_shape *s, int n_row, fx_error *err)
{
    const uint64_t n = (uint64_t)n_row;
    const fxi_lt_layout all[] = {s->a, s->y};
    if (s->n_row == n_row) return FX_OK;
    s->n_row = -1; // until both are set
    for (int i = 0; i < 2; i++)
        FX_TRY(check_status(lt, lt->api.layout_set(all[i], FXI_LT_LAYOUT_COLS, &n, sizeof n),
                            "cublasLtMatrixLayoutSetAttribute", err));
    s->n_row = n_row;
    return FX_OK;
}

// ---- algorithms --------------------------------------------------------------------------------

// Pre: the layouts have so many rows.
static fx_status choose_algo(fxi_lt *lt, fxi_lt_shape *s, fx_error *err)
{
    lt_choice *c = &s->choice[s->n_row - 1];
    fxi_lt_candidate best;
    int n = 0;
    if (c->is_made) return FX_OK;
    const fxi_lt_status r =
        lt->api.find(lt->handle, lt->product, s->w, s->a, s->y, s->y, lt->preference, 1, &best, &n);
    if (r == FXI_LT_SUCCESS && (n < 1 || best.state != FXI_LT_SUCCESS))
        return fxi_fail(err, FX_EINVAL,
                        "%s: cuBLASLt cannot multiply %d rows by %d x %d %s weights", lt->cu->label,
                        s->n_row, s->n_out, s->n_in, fxi_dtype_find(s->type)->name);
    FX_TRY(check_status(lt, r, "cublasLtMatmulAlgoGetHeuristic", err));
    *c = (lt_choice){.algo = best.algo, .is_made = true};
    return FX_OK;
}

static fx_status prepare_shape(fxi_lt *lt, fxi_lt_shape *s, fx_error *err)
{
    s->choice = calloc((size_t)lt->max_row, sizeof *s->choice);
    if (!s->choice) return fxi_fail(err, FX_ENOMEM, "%s: no host memory", lt->cu->label);
    FX_TRY(make_layouts(lt, s, err));
    FX_TRY(choose_algo(lt, s, err));
    FX_TRY(set_rows(lt, s, lt->max_row, err));
    return choose_algo(lt, s, err);
}

fx_status fxi_lt_prepare(fxi_lt *lt, int max_row, fx_error *err)
{
    lt->max_row = max_row;
    for (int i = 0; i < lt->n_shape; i++) FX_TRY(prepare_shape(lt, &lt->shape[i], err));
    return FX_OK;
}

// ---- products ----------------------------------------------------------------------------------

fx_status fxi_lt_run(fxi_lt *lt, const fxi_lt_job *job, fx_error *err)
{
    const float one = 1, zero = 0;
    fxi_lt_shape *s = find_shape(lt, job->type, job->n_in, job->n_out);
    FX_TRY(set_rows(lt, s, job->n_row, err));
    FX_TRY(choose_algo(lt, s, err));
    return check_status(lt,
                        lt->api.multiply(lt->handle, lt->product, &one, job->w, s->w, job->a, s->a,
                                         &zero, job->y, s->y, job->y, s->y,
                                         &s->choice[job->n_row - 1].algo, job->workspace,
                                         FXI_LT_WORKSPACE_BYTES, lt->cu->compute),
                        "cublasLtMatmul", err);
}
