# Kernels for GPUs: nvcc's fat binaries of src/kernels/cuda/*.cu, which gpu_image.c puts into the program. Without
# FX_CUDA there are none, and a GPU is refused when it is asked for.

option(FX_CUDA "Build the kernels for NVIDIA GPUs; needs nvcc" OFF)
set(FX_CUDA_ARCHITECTURES 80 90 100 120 CACHE STRING "Compute capabilities of the GPUs to build kernels for")

# -fmad=false: fused multiply-adds are written explicitly, so that a GPU rounds as a CPU does (kernels.h).
set(FX_NVCC_FLAGS -std=c++17 -O3 -fmad=false -lineinfo -Werror all-warnings -Xfatbin=-compress-all)

# fx_cuda_image(TARGET SOURCES file...): the object gpu_image.c of TARGET embeds the kernels of these files.
function(fx_cuda_image target)
  cmake_parse_arguments(C "" "" "SOURCES" ${ARGN})
  if(NOT FX_CUDA)
    return()
  endif()
  find_program(FX_NVCC nvcc PATHS /usr/local/cuda/bin DOC "NVIDIA's compiler")
  if(NOT FX_NVCC)
    message(FATAL_ERROR " FX_CUDA needs nvcc, NVIDIA's compiler, which is not found; -DFX_NVCC=PATH names it")
  endif()
  foreach(cc ${FX_CUDA_ARCHITECTURES})
    list(APPEND code -gencode arch=compute_${cc},code=sm_${cc})
    set(newest ${cc})
  endforeach()
  list(APPEND code -gencode arch=compute_${newest},code=compute_${newest}) # GPUs to come compile this
  set(dir ${CMAKE_CURRENT_BINARY_DIR}/cuda)
  file(MAKE_DIRECTORY ${dir})
  foreach(source ${C_SOURCES})
    get_filename_component(name ${source} NAME_WE)
    set(fatbin ${dir}/${name}.fatbin)
    add_custom_command(OUTPUT ${fatbin}
      COMMAND ${FX_NVCC} ${FX_NVCC_FLAGS} ${code} -I${PROJECT_SOURCE_DIR}/src -I${PROJECT_SOURCE_DIR}/include
        -MD -MF ${fatbin}.d -fatbin ${source} -o ${fatbin}
      DEPENDS ${source} DEPFILE ${fatbin}.d COMMENT "nvcc ${name}.cu" VERBATIM)
    list(APPEND fatbins ${fatbin})
    string(APPEND rows "FXI_GPU_IMAGE(${name}, \"${fatbin}\")\n")
  endforeach()
  target_compile_definitions(${target} PRIVATE FXI_HAS_CUDA)
  file(CONFIGURE OUTPUT ${dir}/gpu_image_list.h CONTENT "${rows}" @ONLY)
  set_property(SOURCE gpu_image.c APPEND PROPERTY OBJECT_DEPENDS "${fatbins};${dir}/gpu_image_list.h")
  set_property(SOURCE gpu_image.c APPEND PROPERTY
    COMPILE_DEFINITIONS FXI_GPU_IMAGE_LIST="${dir}/gpu_image_list.h")
endfunction()
