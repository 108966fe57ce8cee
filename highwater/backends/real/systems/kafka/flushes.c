/* Loaded into a JVM (LD_PRELOAD): records which bytes of its log segments were flushed, for a simulated power loss.

   HIGHWATER_FLUSHES names the record, a file of lines; HIGHWATER_FLUSHES_BELOW the folder whose segments (*.log) count.
     B                            a process has begun
     S LENGTH PATH                a flush returned: the first LENGTH bytes are durable
     T LENGTH SIZE AT PATH        the file is about to be cut to LENGTH; the SIZE bytes behind that are in RECORD.cut from AT
     N PATH                       a file or folder was renamed or removed: nothing of this name is durable
   Each line is one write to a file opened for appending, so threads and a kill cannot mix or halve lines. Index files are mapped
   into memory and not recorded: Kafka rebuilds them after an unclean end. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE 65536

static int record = -1, kept = -1;
static const char *below;
static pthread_mutex_t keeping = PTHREAD_MUTEX_INITIALIZER;

static void note(const char *format, ...) {
    char line[PATH_MAX + 128];
    va_list given;
    va_start(given, format);
    int length = vsnprintf(line, sizeof line, format, given);
    va_end(given);
    if (length > 0 && (size_t)length < sizeof line && write(record, line, length) != length) abort();
}

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("HIGHWATER_FLUSHES");
    char beside[PATH_MAX];
    below = getenv("HIGHWATER_FLUSHES_BELOW");
    if (path == NULL || below == NULL) return;
    snprintf(beside, sizeof beside, "%s.cut", path);
    kept = open(beside, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    record = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (kept < 0 || record < 0) abort(); /* a broker without a record would lose everything */
    note("B\n");
}

static int is_below(const char *path) {
    return record >= 0 && strncmp(path, below, strlen(below)) == 0;
}

static int is_segment(int fd, char *path, struct stat64 *found) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = record < 0 ? -1 : readlink(link, path, PATH_MAX - 1);
    if (length < 4) return 0;
    path[length] = 0;
    return is_below(path) && strcmp(path + length - 4, ".log") == 0 && fstat64(fd, found) == 0;
}

static int flushed(int fd, const char *name) {
    int (*really)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    char path[PATH_MAX];
    struct stat64 before;
    int counts = is_segment(fd, path, &before); /* bytes written during the flush may not be durable */
    int result = really(fd);
    if (result == 0 && counts) note("S %lld %s\n", (long long)before.st_size, path);
    return result;
}

int fsync(int fd) { return flushed(fd, "fsync"); }

int fdatasync(int fd) { return flushed(fd, "fdatasync"); }

static void keep(int fd, const char *path, off64_t from, off64_t size) {
    char piece[PIECE];
    pthread_mutex_lock(&keeping);
    off64_t at = lseek64(kept, 0, SEEK_END), done = 0;
    while (done < size) {
        ssize_t read = pread64(fd, piece, size - done < PIECE ? size - done : PIECE, from + done);
        if (read <= 0 || write(kept, piece, read) != read) abort();
        done += read;
    }
    note("T %lld %lld %lld %s\n", (long long)from, (long long)size, (long long)at, path);
    pthread_mutex_unlock(&keeping);
}

static int truncated(int fd, off64_t length, const char *name) {
    int (*really)(int, off64_t) = (int (*)(int, off64_t))dlsym(RTLD_NEXT, name);
    char path[PATH_MAX];
    struct stat64 before;
    if (is_segment(fd, path, &before) && length < before.st_size) keep(fd, path, length, before.st_size - length);
    return really(fd, length);
}

int ftruncate(int fd, off_t length) { return truncated(fd, length, "ftruncate"); }

int ftruncate64(int fd, off64_t length) { return truncated(fd, length, "ftruncate64"); }

int rename(const char *before, const char *after) {
    int (*really)(const char *, const char *) = (int (*)(const char *, const char *))dlsym(RTLD_NEXT, "rename");
    int result = really(before, after);
    if (result == 0 && is_below(before)) note("N %s\n", before);
    return result;
}

int unlink(const char *path) {
    int (*really)(const char *) = (int (*)(const char *))dlsym(RTLD_NEXT, "unlink");
    int result = really(path);
    if (result == 0 && is_below(path)) note("N %s\n", path);
    return result;
}
