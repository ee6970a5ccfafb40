// host_file.c - see host_file.h.
#include "host_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

bool vti_file_may_reach(uint64_t end_bytes)
{
    struct rlimit lim;
    return getrlimit(RLIMIT_FSIZE, &lim) != 0 || end_bytes <= lim.rlim_cur;
}

bool vti_file_read(int fd, void *dst, size_t size_bytes, off_t offset)
{
    for (size_t done = 0; done < size_bytes;) {
        errno = 0;
        ssize_t n = pread(fd, (char *)dst + done, size_bytes - done, offset + (off_t)done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        done += (size_t)n;
    }
    return true;
}

bool vti_file_write(int fd, const void *src, size_t size_bytes, off_t offset)
{
    for (size_t done = 0; done < size_bytes;) {
        errno = 0;
        ssize_t n = pwrite(fd, (const char *)src + done, size_bytes - done, offset + (off_t)done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        done += (size_t)n;
    }
    return true;
}

bool vti_file_allocate(int fd, int mode, off_t offset, size_t size_bytes)
{
    int rc;
    do rc = fallocate(fd, mode, offset, (off_t)size_bytes);
    while (rc != 0 && errno == EINTR);
    return rc == 0;
}
