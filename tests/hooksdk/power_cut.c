/* Writes down what a program does to hooksdk.db and its log: preloaded with LD_PRELOAD, into the file of $OPERATIONS. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int kinds[4096], operations = -1;
static long count;
static pthread_mutex_t alone = PTHREAD_MUTEX_INITIALIZER;
static ssize_t (*real_write)(int, const void *, size_t), (*real_pwrite)(int, const void *, size_t, off_t);
static int (*real_fsync)(int), (*real_fdatasync)(int), (*real_ftruncate)(int, off_t), (*real_close)(int);
static int (*real_open)(const char *, int, ...), (*real_openat)(int, const char *, int, ...), (*real_unlink)(const char *);

static void begin(void) {
  if (real_write) return;
  real_pwrite = dlsym(RTLD_NEXT, "pwrite64"), real_fsync = dlsym(RTLD_NEXT, "fsync");
  real_fdatasync = dlsym(RTLD_NEXT, "fdatasync"), real_ftruncate = dlsym(RTLD_NEXT, "ftruncate64");
  real_close = dlsym(RTLD_NEXT, "close"), real_open = dlsym(RTLD_NEXT, "open64");
  real_openat = dlsym(RTLD_NEXT, "openat64"), real_unlink = dlsym(RTLD_NEXT, "unlink");
  real_write = dlsym(RTLD_NEXT, "write");
  if (getenv("OPERATIONS")) operations = real_open(getenv("OPERATIONS"), O_WRONLY | O_CREAT | O_APPEND, 0600);
}

static int kind_of(const char *path) {
  size_t length = strlen(path);
  if (length >= 10 && !strcmp(path + length - 10, "hooksdk.db")) return 1;
  return length >= 14 && !strcmp(path + length - 14, "hooksdk.db-wal") ? 2 : 0;
}

static void note(char what, int kind, int64_t offset, const void *data, uint32_t size) {
  char head[14] = {what, (char)kind};
  if (operations < 0) return;
  pthread_mutex_lock(&alone);
  memcpy(head + 2, &offset, 8), memcpy(head + 10, &size, 4);
  real_write(operations, head, 14);
  if (size) real_write(operations, data, size);
  count++;
  pthread_mutex_unlock(&alone);
}

long operations_so_far(void) { return count; }

static int kind_at(int file) { return file >= 0 && file < 4096 ? kinds[file] : 0; }

static int opened(int file, const char *path) {
  if (file >= 0 && file < 4096) kinds[file] = kind_of(path);
  return file;
}

#define MODE va_list rest; va_start(rest, flags); int mode = va_arg(rest, int); va_end(rest)
int open(const char *path, int flags, ...) { begin(); MODE; return opened(real_open(path, flags, mode), path); }
int open64(const char *path, int flags, ...) { begin(); MODE; return opened(real_open(path, flags, mode), path); }
int openat(int at, const char *path, int flags, ...) { begin(); MODE; return opened(real_openat(at, path, flags, mode), path); }
int close(int file) { begin(); if (file >= 0 && file < 4096) kinds[file] = 0; return real_close(file); }

ssize_t write(int file, const void *data, size_t size) {
  begin();
  off_t at = kind_at(file) ? lseek(file, 0, SEEK_CUR) : 0;
  ssize_t done = real_write(file, data, size);
  if (done > 0 && kind_at(file)) note('w', kind_at(file), at, data, done);
  return done;
}
ssize_t pwrite(int file, const void *data, size_t size, off_t at) {
  begin();
  ssize_t done = real_pwrite(file, data, size, at);
  if (done > 0 && kind_at(file)) note('w', kind_at(file), at, data, done);
  return done;
}
ssize_t pwrite64(int file, const void *data, size_t size, off_t at) { return pwrite(file, data, size, at); }
int fsync(int file) { begin(); int done = real_fsync(file); if (kind_at(file)) note('s', kind_at(file), 0, 0, 0); return done; }
int fdatasync(int file) { begin(); int done = real_fdatasync(file); if (kind_at(file)) note('s', kind_at(file), 0, 0, 0); return done; }
int ftruncate(int file, off_t size) { begin(); int done = real_ftruncate(file, size); if (kind_at(file)) note('t', kind_at(file), size, 0, 0); return done; }
int ftruncate64(int file, off_t size) { return ftruncate(file, size); }
int unlink(const char *path) { begin(); int done = real_unlink(path); if (!done && kind_of(path)) note('u', kind_of(path), 0, 0, 0); return done; }
