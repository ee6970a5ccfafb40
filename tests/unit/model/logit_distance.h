// logit_distance.h - how far two rows of logits are apart.
#ifndef TESTS_MODEL_LOGIT_DISTANCE_H
#define TESTS_MODEL_LOGIT_DISTANCE_H

#include <math.h>

// The largest difference of a from b, [n] each, relative to the largest of b. NaN: one has a NaN.
static inline double logit_distance(const float *a, const float *b, int n)
{
    double diff = 0, most = 0;
    for (int i = 0; i < n; i++) {
        const double d = fabs((double)a[i] - (double)b[i]);
        if (isnan(d)) return d;
        diff = fmax(diff, d);
        most = fmax(most, fabs((double)b[i]));
    }
    return diff / most;
}

#endif
