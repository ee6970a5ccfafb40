// gpu_image.h - the kernels for GPUs that are part of this program.
//
// With `cmake --preset cuda` they are nvcc's fat binaries of kernels/cuda: each has machine code
// for several generations of GPUs, of which the driver takes one. Built without nvcc there are
// none. A test supplies its own object with this symbol, for a driver that is not NVIDIA's.
#ifndef FXI_GPU_IMAGE_H
#define FXI_GPU_IMAGE_H

typedef struct fxi_gpu_image {
    const char *name; // "cuda_attention"
    const unsigned char *bytes;
} fxi_gpu_image;

extern const fxi_gpu_image fxi_gpu_images[]; // ends with a row without a name

#endif
