// What a program does with sockets, both ends in one process: usage: sockets ADDRESS. The same answers on any address,
// whoever carries the bytes. Prints a line for each answer that is not the one expected; ends with 0 if there was none.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static int wrong, asked;
static const char *host;
extern char **environ;

static void expect(const char *what, int line, long result, long wanted)
{
	asked++;
	if (result == wanted)
		return;
	wrong++;
	printf("WRONG %d: %s: %ld (%s), expected %ld\n", line, what, result, strerror(errno), wanted);
}

#define IS(wanted, call)   expect(#call, __LINE__, (long)(call), wanted)
#define FAILS(error, call) (errno = 0, IS(-1, call), expect("errno of " #call, __LINE__, errno, error))

struct pair {
	int near, far;
};

static struct sockaddr_in listening(int *at, const char *address)
{
	struct sockaddr_in addr = {.sin_family = AF_INET};
	socklen_t len = sizeof addr;
	int on = 1;

	*at = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	IS(0, setsockopt(*at, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
	inet_pton(AF_INET, address, &addr.sin_addr);
	IS(0, bind(*at, (struct sockaddr *)&addr, len));
	IS(0, listen(*at, 5));
	IS(0, getsockname(*at, (struct sockaddr *)&addr, &len));
	IS(1, addr.sin_port != 0);
	inet_pton(AF_INET, host, &addr.sin_addr);
	return addr;
}

static struct pair connected(const char *address)
{
	int at, error = -1;
	struct sockaddr_in addr = listening(&at, address), peer;
	socklen_t len = sizeof error;
	struct pair pair = {.near = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)};
	struct pollfd poll_for = {.fd = at, .events = POLLIN};

	if (connect(pair.near, (struct sockaddr *)&addr, sizeof addr) != 0)
		IS(EINPROGRESS, errno);
	IS(1, poll(&poll_for, 1, -1));
	pair.far = accept4(at, NULL, NULL, SOCK_CLOEXEC);
	IS(FD_CLOEXEC, fcntl(pair.far, F_GETFD));
	IS(0, fcntl(pair.far, F_GETFL) & O_NONBLOCK);
	poll_for = (struct pollfd){.fd = pair.near, .events = POLLOUT};
	IS(1, poll(&poll_for, 1, -1));
	IS(0, getsockopt(pair.near, SOL_SOCKET, SO_ERROR, &error, &len));
	IS(0, error);
	IS(0, fcntl(pair.near, F_SETFL, 0));
	len = sizeof peer;
	IS(0, getpeername(pair.near, (struct sockaddr *)&peer, &len));
	IS(0, memcmp(&peer, &addr, sizeof peer));
	IS(0, close(at));
	return pair;
}

static void end(struct pair pair)
{
	IS(0, close(pair.near));
	IS(0, close(pair.far));
}

static void forms(void)
{
	struct pair pair = connected(host);
	char got[16];
	struct iovec out[2] = {{"ab", 2}, {"cdef", 4}}, in[2] = {{got, 1}, {got + 1, 5}};
	struct stat status;
	int on = 1;

	IS(6, writev(pair.near, out, 2));
	IS(2, recv(pair.far, got, 2, MSG_PEEK));
	IS(6, readv(pair.far, in, 2));
	IS(0, memcmp(got, "abcdef", 6));
	IS(3, send(pair.far, "xyz", 3, MSG_NOSIGNAL));
	IS(3, recv(pair.near, got, 3, MSG_WAITALL));
	IS(0, ioctl(pair.near, FIONBIO, &on));
	FAILS(EAGAIN, read(pair.near, got, 1));
	on = 0;
	IS(0, ioctl(pair.near, FIONBIO, &on));
	FAILS(EAGAIN, recv(pair.near, got, 1, MSG_DONTWAIT));
	IS(0, setsockopt(pair.near, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)));
	IS(0, fstat(pair.near, &status));
	IS(S_IFSOCK, status.st_mode & S_IFMT);
	IS(0, shutdown(pair.near, SHUT_WR));
	IS(0, read(pair.far, got, 1));
	IS(1, write(pair.far, "!", 1));
	IS(1, read(pair.near, got, 1));
	end(pair);
	FAILS(EBADF, read(pair.near, got, 1));
	FAILS(EBADF, close(pair.near));
}

// The last of all copies closes.
static void copies(void)
{
	struct pair pair = connected(host);
	int other = dup(pair.near), third = fcntl(pair.near, F_DUPFD_CLOEXEC, 100), fourth = dup2(pair.near, 200);
	char got;

	IS(200, fourth);
	IS(1, third >= 100);
	IS(0, close(pair.near));
	IS(0, close(third));
	IS(1, write(other, "a", 1));
	IS(1, read(pair.far, &got, 1));
	IS(200, dup2(fileno(stdout), 200));
	IS(1, write(other, "b", 1));
	IS(1, read(pair.far, &got, 1));
	IS(0, close(other));
	IS(0, read(pair.far, &got, 1));
	IS(0, close(pair.far));
	IS(0, close(200));
}

static void files(void)
{
	struct pair pair = connected(host);
	char name[] = "/tmp/sockets-XXXXXX", got[6];
	int file = mkstemp(name);
	off_t at = 2;

	unlink(name);
	IS(10, write(file, "0123456789", 10));
	IS(3, sendfile(pair.near, file, &at, 3));
	IS(5, at);
	IS(0, lseek(file, 0, SEEK_SET));
	IS(2, sendfile(pair.near, file, NULL, 2));
	IS(2, lseek(file, 0, SEEK_CUR));
	IS(5, recv(pair.far, got, 5, MSG_WAITALL));
	IS(0, memcmp(got, "23401", 5));
	IS(0, close(file));
	end(pair);
}

static void add(int set, int fd, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.fd = fd};

	IS(0, epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
}

static void by_epoll(void)
{
	struct pair pair = connected(host);
	int set = epoll_create1(0), pipes[2];
	struct epoll_event events[4], event = {.events = EPOLLIN | EPOLLONESHOT, .data.fd = pair.far};
	char got[8];

	IS(0, pipe(pipes));
	add(set, pair.far, EPOLLIN);
	add(set, pipes[0], EPOLLIN);
	FAILS(EEXIST, epoll_ctl(set, EPOLL_CTL_ADD, pair.far, &event));
	IS(0, epoll_wait(set, events, 4, 0));
	IS(0, epoll_wait(set, events, 4, 1));
	IS(3, write(pair.near, "abc", 3));
	IS(1, epoll_wait(set, events, 4, -1));
	IS(pair.far, events[0].data.fd);
	IS(EPOLLIN, events[0].events);
	// Levels are told again, also beside others.
	IS(1, write(pipes[1], "x", 1));
	IS(2, epoll_wait(set, events, 4, -1));
	IS(1, read(pipes[0], got, 1));
	IS(3, read(pair.far, got, 8));
	IS(0, epoll_wait(set, events, 4, 0));
	// Once, and again when asked.
	IS(0, epoll_ctl(set, EPOLL_CTL_MOD, pair.far, &event));
	IS(1, write(pair.near, "d", 1));
	IS(1, epoll_wait(set, events, 4, -1));
	IS(0, epoll_wait(set, events, 4, 0));
	IS(0, epoll_ctl(set, EPOLL_CTL_MOD, pair.far, &event));
	IS(1, epoll_wait(set, events, 4, -1));
	IS(1, read(pair.far, got, 8));
	IS(0, epoll_ctl(set, EPOLL_CTL_DEL, pair.far, NULL));
	FAILS(ENOENT, epoll_ctl(set, EPOLL_CTL_DEL, pair.far, NULL));
	// Edges.
	add(set, pair.far, EPOLLIN | EPOLLET);
	IS(1, write(pair.near, "e", 1));
	IS(1, epoll_wait(set, events, 4, -1));
	IS(0, epoll_wait(set, events, 4, 0));
	IS(1, read(pair.far, got, 8));
	FAILS(EAGAIN, recv(pair.far, got, 8, MSG_DONTWAIT));
	IS(1, write(pair.near, "f", 1));
	IS(1, epoll_wait(set, events, 4, -1));
	IS(0, close(pair.near));
	IS(1, read(pair.far, got, 8));
	IS(1, epoll_wait(set, events, 4, -1));
	IS(0, read(pair.far, got, 8));
	IS(0, close(pair.far));
	IS(0, epoll_wait(set, events, 4, 0));
	close(set);
	close(pipes[0]);
	close(pipes[1]);
}

// A socket that is watched before it goes anywhere.
static void watched_early(void)
{
	int at, set = epoll_create1(0), near = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), far;
	struct sockaddr_in addr = listening(&at, host);
	struct epoll_event events[4];

	add(set, at, EPOLLIN);
	add(set, near, EPOLLOUT | EPOLLET);
	if (connect(near, (struct sockaddr *)&addr, sizeof addr) != 0)
		IS(EINPROGRESS, errno);
	int seen = 0;
	for (int i = 0; i < 20 && seen != 3; i++) {
		int count = epoll_wait(set, events, 4, -1);
		for (int n = 0; n < count; n++) {
			seen |= events[n].data.fd == near && events[n].events == EPOLLOUT ? 1 : 0;
			if (events[n].data.fd == at) {
				seen |= 2;
				far = accept(at, NULL, NULL);
				IS(1, far > 0);
			}
		}
	}
	IS(3, seen);
	IS(1, write(near, "a", 1));
	char got;
	IS(1, read(far, &got, 1));
	close(near);
	close(far);
	close(at);
	close(set);
}

static void by_select(void)
{
	struct pair pair = connected("0.0.0.0");
	fd_set in, out;
	struct timeval soon = {0, 1000};
	char got;
	int all = (pair.near > pair.far ? pair.near : pair.far) + 1;

	FD_ZERO(&in);
	FD_SET(pair.far, &in);
	IS(0, select(all, &in, NULL, NULL, &soon));
	IS(0, FD_ISSET(pair.far, &in));
	IS(1, write(pair.near, "a", 1));
	FD_ZERO(&out);
	FD_SET(pair.far, &in);
	FD_SET(pair.near, &out);
	IS(1, select(all, &in, NULL, NULL, NULL));
	IS(2, select(all, &in, &out, NULL, NULL));
	IS(1, FD_ISSET(pair.far, &in) && FD_ISSET(pair.near, &out));
	IS(1, read(pair.far, &got, 1));
	end(pair);
}

// Programs that are started, and children that end, leave their parent's connections alone.
static void children(void)
{
	struct pair pair = connected(host);
	char got, *const words[] = {"true", NULL};
	pid_t child;
	int status = -1;

	IS(0, posix_spawnp(&child, "true", NULL, NULL, words, environ));
	IS(child, waitpid(child, &status, 0));
	IS(0, status);
	child = vfork();
	if (child == 0) {
		close(pair.near);
		close(pair.far);
		execvp("true", words);
		_exit(1);
	}
	IS(child, waitpid(child, &status, 0));
	IS(0, status);
	child = fork();
	if (child == 0) {
		close(pair.near);
		close(pair.far);
		_exit(0);
	}
	IS(child, waitpid(child, &status, 0));
	IS(0, status);
	IS(1, write(pair.near, "a", 1));
	IS(1, read(pair.far, &got, 1));
	IS('a', got);
	end(pair);
}

int main(int argc, char **argv)
{
	host = argv[1];
	forms();
	copies();
	files();
	by_epoll();
	watched_early();
	by_select();
	children();
	printf("%d calls, %d wrong answers\n", asked, wrong);
	return wrong != 0;
}
