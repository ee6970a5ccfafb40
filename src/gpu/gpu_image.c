// gpu_image.c - puts the files that nvcc made into the program; see gpu_image.h.
//
// FXI_GPU_IMAGE_LIST is a header made by CMake with a line FXI_GPU_IMAGE(name, "path") for each.
#include "gpu/gpu_image.h"

#include <stddef.h>

#if defined FXI_HAS_CUDA && !defined FXI_GPU_IMAGE_LIST
#    error "the build makes kernels, and this file does not get them: cmake/cuda_kernels.cmake"
#endif

#ifdef FXI_GPU_IMAGE_LIST

#    define FXI_GPU_IMAGE(name, path)                                    \
        __asm__(".pushsection .rodata\n.balign 64\n"                     \
                "fxi_fatbin_" #name ":\n.incbin \"" path "\"\n.byte 0\n" \
                ".popsection\n");                                        \
        extern const unsigned char fxi_fatbin_##name[];
#    include FXI_GPU_IMAGE_LIST
#    undef FXI_GPU_IMAGE

#    define FXI_GPU_IMAGE(name, path) {#    name, fxi_fatbin_##name},
#endif

const fxi_gpu_image fxi_gpu_images[] = {
#ifdef FXI_GPU_IMAGE_LIST
#    include FXI_GPU_IMAGE_LIST
#endif
    {NULL, NULL},
};
