/* A full disk for one process: while the file named by DRILL_FULL exists, writes to files of SQLite
 * fail with ENOSPC, as a full file system does. Preloaded into a worker of the drill.
 *
 * cc -shared -fPIC -o full.so full.c -ldl
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int full(int fd) {
    static const char *flag;
    char link[64], path[4096];
    ssize_t n;
    if (flag == NULL && (flag = getenv("DRILL_FULL")) == NULL) return 0;
    if (access(flag, F_OK) != 0) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if ((n = readlink(link, path, sizeof path - 1)) < 0) return 0;
    path[n] = 0;
    if (strstr(path, ".sqlite") == NULL) return 0;
    errno = ENOSPC;
    return 1;
}

ssize_t write(int fd, const void *b, size_t n) {
    static ssize_t (*next)(int, const void *, size_t);
    if (next == NULL) next = dlsym(RTLD_NEXT, "write");
    return full(fd) ? -1 : next(fd, b, n);
}

ssize_t pwrite(int fd, const void *b, size_t n, off_t at) {
    static ssize_t (*next)(int, const void *, size_t, off_t);
    if (next == NULL) next = dlsym(RTLD_NEXT, "pwrite");
    return full(fd) ? -1 : next(fd, b, n, at);
}

ssize_t pwrite64(int fd, const void *b, size_t n, off64_t at) {
    static ssize_t (*next)(int, const void *, size_t, off64_t);
    if (next == NULL) next = dlsym(RTLD_NEXT, "pwrite64");
    return full(fd) ? -1 : next(fd, b, n, at);
}
