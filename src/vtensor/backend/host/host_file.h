// host_file.h - files as the host backend and its swap use them: whole transfers, and signals borne.
#ifndef VTI_HOST_FILE_H
#define VTI_HOST_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// Whether a file of ours may be so long. Beyond RLIMIT_FSIZE a call would not only fail: SIGXFSZ
// ends the process.
bool vti_file_may_reach(uint64_t end_bytes);

// All bytes, however often the system interrupts or stops short. False: errno says why; 0 where the
// file has ended.
bool vti_file_read(int fd, void *dst, size_t size_bytes, off_t offset);
bool vti_file_write(int fd, const void *src, size_t size_bytes, off_t offset);

// fallocate that is tried again when a signal interrupts it: then it has done nothing. False: errno.
bool vti_file_allocate(int fd, int mode, off_t offset, size_t size_bytes);

#endif
