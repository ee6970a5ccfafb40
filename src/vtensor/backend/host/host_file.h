// host_file.h - file access for the host backend and its swap: whole transfers, retried after
// signals.
#ifndef VTI_HOST_FILE_H
#define VTI_HOST_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// Whether a file may be this long. Beyond RLIMIT_FSIZE a call would not only fail: SIGXFSZ ends the
// process.
bool vti_file_may_reach(uint64_t end_bytes);

// Transfer all bytes, however often the system interrupts or transfers less. False: errno says why,
// 0 at the end of the file.
bool vti_file_read(int fd, void *dst, size_t size_bytes, off_t offset);
bool vti_file_write(int fd, const void *src, size_t size_bytes, off_t offset);

// fallocate, retried when a signal interrupts it. False: errno says why; nothing was done.
bool vti_file_allocate(int fd, int mode, off_t offset, size_t size_bytes);

#endif
