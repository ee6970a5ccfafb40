// body_panel.h - loads and stores the 16 results of a panel; the last panel of a layer may have
// fewer.
// Needs: a vec*.h.
#ifndef FXI_KERNELS_BODY_PANEL_H
#define FXI_KERNELS_BODY_PANEL_H

#include "kernels/kernels.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

ALWAYS_INLINE int min_int(int a, int b)
{
    return a < b ? a : b;
}

ALWAYS_INLINE int max_int(int a, int b)
{
    return a > b ? a : b;
}

// n: results from y on, at least 1.
ALWAYS_INLINE v16 panel_load(const float *y, int n)
{
    return n >= FXI_PANEL ? v16_load(y) : v16_load_n(y, n);
}

ALWAYS_INLINE void panel_store(float *y, v16 v, int n)
{
    if (n >= FXI_PANEL)
        v16_store(y, v);
    else
        v16_store_n(y, v, n);
}

#endif
