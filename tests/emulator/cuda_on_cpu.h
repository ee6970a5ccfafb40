// cuda_on_cpu.h - the header by which g++ and clang++ compile ordinary .cu files: it is included
// before their first line (-include). What is where:
//
//   emu_thread.h   keywords, types, threadIdx .., barriers, cp.async, and how threads meet
//   emu_device.h   shuffles and intrinsics
//   emu_tensor.h   twins of mma and ldmatrix; kernels/cuda/ptx.h gives them their names
//   emu_kernel.h   kernels by name
//
// docs/design/emulator.md says what is and what is not emulated, and what the checked build finds.
#pragma once
#include "emu_device.h"
#include "emu_kernel.h"
#include "emu_tensor.h"
#include "emu_thread.h"

// The host's library rounds these otherwise than the device's, so a kernel that used them would
// give other bits there. Kernels have their own (kernels/cuda).
#pragma GCC poison expf exp2f exp10f logf log2f log10f powf sinf cosf tanf tanhf erff erfcf rsqrtf
