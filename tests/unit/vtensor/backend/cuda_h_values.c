// cuda_h_values.c - the values and layouts of cuda_driver.h against the toolkit's cuda.h. Nothing
// runs: all comparisons are made by the compiler.
#include <cuda.h>

#include "vtensor/backend/cuda/cuda_driver.h"

#define SAME_VALUE(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs)
#define SAME_FIELD(our_type, our_field, their_type, their_field)                                 \
    _Static_assert(offsetof(our_type, our_field) == offsetof(their_type, their_field),           \
                   #their_field);                                                                \
    _Static_assert(sizeof(((our_type *)0)->our_field) == sizeof(((their_type *)0)->their_field), \
                   #their_field)

SAME_VALUE(VTI_CU_SUCCESS, CUDA_SUCCESS);
SAME_VALUE(VTI_CU_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
SAME_VALUE(VTI_CU_NOT_READY, CUDA_ERROR_NOT_READY);
SAME_VALUE(VTI_CU_ATTRIBUTE_VMM, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
SAME_VALUE(VTI_CU_LOCATION_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE);
SAME_VALUE(VTI_CU_ALLOCATION_PINNED, CU_MEM_ALLOCATION_TYPE_PINNED);
SAME_VALUE(VTI_CU_ACCESS_READWRITE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
SAME_VALUE(VTI_CU_GRANULARITY_MINIMUM, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
SAME_VALUE(VTI_CU_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME_VALUE(VTI_CU_EVENT_BLOCKING_SYNC, CU_EVENT_BLOCKING_SYNC);
SAME_VALUE(VTI_CU_EVENT_DISABLE_TIMING, CU_EVENT_DISABLE_TIMING);
SAME_VALUE(VTI_CU_CAPTURE_NONE, CU_STREAM_CAPTURE_STATUS_NONE);
SAME_VALUE(VTI_CU_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_GLOBAL);
SAME_VALUE(VTI_CU_CAPTURE_MODE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED);

_Static_assert(sizeof(vti_cu_result) == sizeof(CUresult), "CUresult");
_Static_assert(sizeof(vti_cu_attribute) == sizeof(CUdevice_attribute), "CUdevice_attribute");
_Static_assert(sizeof(vti_cu_capture_status) == sizeof(CUstreamCaptureStatus), "status");
_Static_assert(sizeof(vti_cu_capture_mode) == sizeof(CUstreamCaptureMode), "mode");
_Static_assert(sizeof(vti_cu_device) == sizeof(CUdevice), "CUdevice");
_Static_assert(sizeof(vti_cu_ptr) == sizeof(CUdeviceptr), "CUdeviceptr");
_Static_assert(sizeof(vti_cu_handle) == sizeof(CUmemGenericAllocationHandle), "handle");
_Static_assert(sizeof(vti_cu_prop) == sizeof(CUmemAllocationProp), "CUmemAllocationProp");
_Static_assert(sizeof(vti_cu_access) == sizeof(CUmemAccessDesc), "CUmemAccessDesc");

SAME_FIELD(vti_cu_location, type, CUmemLocation, type);
SAME_FIELD(vti_cu_location, id, CUmemLocation, id);
SAME_FIELD(vti_cu_access, location, CUmemAccessDesc, location);
SAME_FIELD(vti_cu_access, flags, CUmemAccessDesc, flags);
SAME_FIELD(vti_cu_prop, type, CUmemAllocationProp, type);
SAME_FIELD(vti_cu_prop, export_types, CUmemAllocationProp, requestedHandleTypes);
SAME_FIELD(vti_cu_prop, location, CUmemAllocationProp, location);
SAME_FIELD(vti_cu_prop, win32, CUmemAllocationProp, win32HandleMetaData);
SAME_FIELD(vti_cu_prop, flags, CUmemAllocationProp, allocFlags);
