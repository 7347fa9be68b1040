/* Preloaded into a process, this has its writes or syncs of files fail, as $DISK_FAULTS/rule says:
 *
 *     write|sync FILE fail|tear|short|delay [MILLISECONDS]
 *
 * FILE is a part of the path. Each fault adds a byte to $DISK_FAULTS/hits. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NEXT(type, name) ((type)dlsym(RTLD_NEXT, name))

typedef ssize_t (*write_call)(int, const void *, size_t);
typedef ssize_t (*pwrite_call)(int, const void *, size_t, off64_t);
typedef int (*sync_call)(int);

enum fault { NONE, FAIL, TEAR, SHORT };

static enum fault read_rule(const char *folder, const char *call, int fd) {
    char name[4096], own[64], path[4096], rule[512], kind[16], file[256], action[16];
    int delay = 0;
    snprintf(name, sizeof name, "%s/rule", folder);
    int in = open(name, O_RDONLY | O_CLOEXEC);
    if (in < 0) return NONE;
    ssize_t length = read(in, rule, sizeof rule - 1);
    close(in);
    rule[length > 0 ? length : 0] = 0;
    snprintf(own, sizeof own, "/proc/self/fd/%d", fd);
    length = readlink(own, path, sizeof path - 1);
    path[length > 0 ? length : 0] = 0;
    if (sscanf(rule, "%15s %255s %15s %d", kind, file, action, &delay) < 3) return NONE;
    if (strcmp(kind, call) || !strstr(path, file)) return NONE;
    snprintf(name, sizeof name, "%s/hits", folder);
    int hits = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (hits >= 0) {
        NEXT(write_call, "write")(hits, "x", 1);
        close(hits);
    }
    usleep(delay * 1000);
    if (!strcmp(action, "fail")) return FAIL;
    if (!strcmp(action, "tear")) return TEAR;
    return strcmp(action, "short") ? NONE : SHORT;
}

static enum fault fault_of(const char *call, int fd) {
    const char *folder = getenv("DISK_FAULTS");
    int before = errno;
    enum fault fault = folder ? read_rule(folder, call, fd) : NONE;
    errno = before;
    return fault;
}

static int failed(void) {
    errno = EIO;
    return -1;
}

ssize_t write(int fd, const void *bytes, size_t count) {
    write_call next = NEXT(write_call, "write");
    enum fault fault = fault_of("write", fd);
    if (fault == FAIL) return failed();
    if (fault == NONE || count < 2) return next(fd, bytes, count);
    ssize_t written = next(fd, bytes, count / 2);
    return fault == TEAR ? failed() : written;
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t at) {
    pwrite_call next = NEXT(pwrite_call, "pwrite64");
    enum fault fault = fault_of("write", fd);
    if (fault == FAIL) return failed();
    if (fault == NONE || count < 2) return next(fd, bytes, count, at);
    ssize_t written = next(fd, bytes, count / 2, at);
    return fault == TEAR ? failed() : written;
}

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t at) {
    return pwrite64(fd, bytes, count, at);
}

int fsync(int fd) {
    return fault_of("sync", fd) == FAIL ? failed() : NEXT(sync_call, "fsync")(fd);
}

int fdatasync(int fd) {
    return fault_of("sync", fd) == FAIL ? failed() : NEXT(sync_call, "fdatasync")(fd);
}
