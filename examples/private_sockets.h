/* Where host and machine meet without addresses in the launch file: sockets in a folder that nobody else may enter. */

#ifndef PRIVATE_SOCKETS_H
#define PRIVATE_SOCKETS_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static void quit(const char *text, const char *about)
{
    fprintf(stderr, "%s: %s\n", about, text);
    exit(1);
}

/* Make a folder that nobody else may enter, unless it is there. */
static void private_folder(const char *folder)
{
    struct stat found;
    if (mkdir(folder, 0700) && errno != EEXIST)
        quit(strerror(errno), folder);
    if (lstat(folder, &found) || !S_ISDIR(found.st_mode) || found.st_uid != getuid() || found.st_mode & 077)
        quit("belongs to or is open to others; remove it", folder);
}

/* BASE of the page: where servonode looks without addresses in the launch file. */
static void base_folder(char *base, size_t size)
{
    const char *ours = getenv("SERVONODE_RUNTIME_DIR"), *runtime = getenv("XDG_RUNTIME_DIR"), *other = getenv("TMPDIR");
    struct stat found;
    if (ours && *ours && *ours != '/')
        quit("SERVONODE_RUNTIME_DIR is no absolute path; give one", ours);
    if (ours && *ours)
        snprintf(base, size, "%s", ours);
    else if (runtime && *runtime == '/' && !stat(runtime, &found) && S_ISDIR(found.st_mode) && found.st_uid == getuid())
        snprintf(base, size, "%s/servonode", runtime);
    else
        snprintf(base, size, "%s/servonode-%u", other && *other ? other : "/tmp", (unsigned)getuid());
}

/* End where another program answers at this path: ZeroMQ would silently take the path away from it. */
static void check_free(const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    const int probe = socket(AF_UNIX, SOCK_STREAM, 0);
    if (strlen(path) >= sizeof to.sun_path)
        quit("a socket's path has at most 107 bytes; give a shorter one", path);
    memcpy(to.sun_path, path, strlen(path));
    if (connect(probe, (struct sockaddr *)&to, sizeof to) == 0)
        quit("another program of this machine is running; end it first", path);
    close(probe);
}

/* Our end: the socket, which ZeroMQ leaves, and the folders, unless somebody else needs them. */
static void clear(const char *address)
{
    char path[300], *slash;
    const char *given = getenv("SERVONODE_RUNTIME_DIR");
    if (strncmp(address, "ipc://", 6) != 0 || snprintf(path, sizeof path, "%s", address + 6) >= (int)sizeof path)
        return;
    unlink(path);
    if (!(slash = strrchr(path, '/')))
        return;
    *slash = 0;
    if (!(slash = strrchr(path, '/')) || strcmp(slash, "/devices") != 0 || rmdir(path))
        return;
    *slash = 0;
    if (!given || !*given)
        rmdir(path);
}

#endif
