// sample.h - the argument of the kernels of sample.cu; plain C, too.
#ifndef EMU_SAMPLE_H
#define EMU_SAMPLE_H

typedef struct sample_args {
    const void *a, *b; // what is read
    void *out, *more;  // what is written
    float by;
    int n;
} sample_args;

#endif
