// rope.c - see rope.h.
#include "model/rope.h"

#include <math.h>
#include <stdlib.h>

fx_status fxi_rope_make(int n_pos, int n_rot, double base, double scale, const float *factor,
                        fxi_rope *out, fx_error *err)
{
    int n_pair = n_rot / 2;
    size_t n = (size_t)n_pos * (size_t)n_pair;
    *out = (fxi_rope){
        .n_pair = n_pair, .cos = malloc(n * sizeof(float)), .sin = malloc(n * sizeof(float))};
    if (!out->cos || !out->sin) {
        fxi_rope_free(out);
        return fxi_fail(err, FX_ENOMEM, "no memory for the angles of %d positions", n_pos);
    }
    for (int i = 0; i < n_pair; i++) {
        double freq = pow(base, -2.0 * i / n_rot) / (factor ? (double)factor[i] : 1.0);
        for (int pos = 0; pos < n_pos; pos++) {
            double angle = pos * scale * freq;
            out->cos[(size_t)pos * (size_t)n_pair + (size_t)i] = (float)cos(angle);
            out->sin[(size_t)pos * (size_t)n_pair + (size_t)i] = (float)sin(angle);
        }
    }
    return FX_OK;
}

void fxi_rope_free(fxi_rope *r)
{
    free(r->cos);
    free(r->sin);
    *r = (fxi_rope){0};
}
