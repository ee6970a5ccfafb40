// gpu_test_image.c - an image of kernels that the stand-in for the driver takes: it has the kernels
// themselves, compiled for the CPU.
#include "gpu/gpu_image.h"

#include <stddef.h>

static const unsigned char standin_image[64] = "flexinfer stand-in kernel image";

const fxi_gpu_image fxi_gpu_images[] = {{"standin", standin_image}, {NULL, NULL}};
