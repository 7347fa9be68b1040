/* Preloaded into a process, this records in $POWER_RECORD what its calls of fsync and fdatasync
 * bring to the disk: the content of files, and the names in folders. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;

/* Writes what a descriptor has into a new file, and gives that its name. */
static void record(const char *folder, int fd, const struct stat *file) {
    char own[64], temporary[4096], name[4096], path[4096];
    snprintf(own, sizeof own, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(own, path, sizeof path - 1);
    if (length < 0) return;
    path[length] = 0;
    snprintf(temporary, sizeof temporary, "%s/new-%d", folder, getpid());
    const char *kind = S_ISDIR(file->st_mode) ? "folder" : "file";
    snprintf(name, sizeof name, "%s/%s-%llu", folder, kind, (unsigned long long)file->st_ino);
    FILE *out = fopen(temporary, "w");
    if (!out) return;
    if (S_ISDIR(file->st_mode)) {
        fprintf(out, "%s\n", path);
        DIR *all = opendir(own);
        for (struct dirent *it = all ? readdir(all) : NULL; it; it = readdir(all))
            if (it->d_type == DT_REG)
                fprintf(out, "%llu %s\n", (unsigned long long)it->d_ino, it->d_name);
        if (all) closedir(all);
    } else {
        char buffer[65536];
        int in = open(own, O_RDONLY | O_CLOEXEC);
        while (in >= 0 && (length = read(in, buffer, sizeof buffer)) > 0)
            fwrite(buffer, 1, length, out);
        if (in >= 0) close(in);
    }
    fclose(out);
    rename(temporary, name);
}

/* Before the call: what is written while it runs may not be on the disk. */
static void before(int fd) {
    const char *folder = getenv("POWER_RECORD");
    struct stat file;
    if (!folder || fstat(fd, &file) || !(S_ISREG(file.st_mode) || S_ISDIR(file.st_mode))) return;
    pthread_mutex_lock(&one);
    record(folder, fd, &file);
    pthread_mutex_unlock(&one);
}

int fsync(int fd) {
    before(fd);
    return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(fd);
}

int fdatasync(int fd) {
    before(fd);
    return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(fd);
}
