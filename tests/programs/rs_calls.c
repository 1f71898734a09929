// What each call of rsockets does when it is used well: one process, both ends of a connection. Prints a line for each
// answer that is not the one expected; ends with 0 if there was none.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <rdma/rsocket.h>

#define SELF  "10.0.0.1"
#define BULK  (300 * 1000)
#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static int wrong, asked;

static void expect(const char *what, int line, long result, long wanted)
{
	asked++;
	if (result == wanted)
		return;
	wrong++;
	printf("WRONG %d: %s: %ld (%s), expected %ld\n", line, what, result, strerror(errno), wanted);
}

#define IS(wanted, call)    expect(#call, __LINE__, (long)(call), wanted)
#define FAILS(error, call)  (errno = 0, IS(-1, call), expect("errno of " #call, __LINE__, errno, error))

static int port = 7500;

static struct sockaddr_in here(int number)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons(number)};

	inet_pton(AF_INET, SELF, &sin.sin_addr);
	return sin;
}

static int listener(void)
{
	struct sockaddr_in addr = here(++port);
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);

	IS(0, rbind(fd, (struct sockaddr *)&addr, sizeof addr));
	IS(0, rlisten(fd, 5));
	return fd;
}

struct pair {
	int near, far;
};

static void set(int fd, int level, int name, int value)
{
	IS(0, rsetsockopt(fd, level, name, &value, sizeof value));
}

static int get(int fd, int level, int name)
{
	int value = -1;
	socklen_t len = sizeof value;

	IS(0, rgetsockopt(fd, level, name, &value, &len));
	return value;
}

// A connection; both ends take direct writes.
static struct pair connected(void)
{
	int at = listener();
	struct sockaddr_in addr = here(port);
	struct pair pair = {.near = rsocket(AF_INET, SOCK_STREAM, 0)};

	set(at, SOL_RDMA, RDMA_IOMAPSIZE, 4);
	set(pair.near, SOL_RDMA, RDMA_IOMAPSIZE, 4);
	IS(0, rfcntl(pair.near, F_SETFL, O_NONBLOCK));
	FAILS(EINPROGRESS, rconnect(pair.near, (struct sockaddr *)&addr, sizeof addr));
	pair.far = raccept(at, NULL, NULL);
	struct pollfd poll = {.fd = pair.near, .events = POLLOUT};
	IS(1, rpoll(&poll, 1, -1));
	IS(POLLOUT, poll.revents);
	IS(0, get(pair.near, SOL_SOCKET, SO_ERROR));
	FAILS(EISCONN, rconnect(pair.near, (struct sockaddr *)&addr, sizeof addr));
	IS(O_RDWR | O_NONBLOCK, rfcntl(pair.near, F_GETFL));
	IS(0, rfcntl(pair.near, F_SETFL, 0));
	IS(0, rclose(at));
	return pair;
}

static void end(struct pair pair)
{
	IS(0, rclose(pair.near));
	IS(0, rclose(pair.far));
}

static void names(void)
{
	struct pair pair = connected();
	struct sockaddr_in own, peer;
	socklen_t len = sizeof own;

	IS(0, rgetsockname(pair.near, (struct sockaddr *)&own, &len));
	IS(sizeof own, len);
	IS(0, rgetpeername(pair.far, (struct sockaddr *)&peer, &len));
	IS(0, memcmp(&own, &peer, sizeof own));
	IS(0, rgetpeername(pair.near, (struct sockaddr *)&peer, &len));
	IS(port, ntohs(peer.sin_port));
	// As much as there is room for, and how much there would be.
	len = 4;
	IS(0, rgetpeername(pair.near, (struct sockaddr *)&own, &len));
	IS(sizeof own, len);
	IS(0, memcmp(&own, &peer, 4));
	end(pair);
}

static void forms(void)
{
	struct pair pair = connected();
	char got[16] = {0};
	struct sockaddr_in from;
	socklen_t len = sizeof from;
	struct iovec out[3] = {{"ab", 2}, {NULL, 0}, {"cdef", 4}}, in[3] = {{got, 1}, {got + 1, 0}, {got + 1, 5}};
	struct msghdr message = {.msg_iov = out, .msg_iovlen = 3};

	FAILS(EAGAIN, rrecv(pair.far, got, 1, MSG_DONTWAIT));
	IS(6, rwritev(pair.near, out, 3));
	IS(2, rrecv(pair.far, got, 2, MSG_PEEK));
	IS(6, rreadv(pair.far, in, 3));
	IS(0, memcmp(got, "abcdef", 6));
	IS(6, rsendmsg(pair.far, &message, 0));
	message = (struct msghdr){.msg_iov = in, .msg_iovlen = 3, .msg_name = &from, .msg_namelen = sizeof from};
	IS(6, rrecvmsg(pair.near, &message, 0));
	IS(port, ntohs(from.sin_port));
	IS(3, rsendto(pair.near, "xyz", 3, MSG_NOSIGNAL, NULL, 0));
	IS(2, rrecvfrom(pair.far, got, 2, 0, (struct sockaddr *)&from, &len));
	IS(1, rread(pair.far, got, sizeof got));
	FAILS(EISCONN, rsendto(pair.near, "x", 1, 0, (struct sockaddr *)&from, sizeof from));
	FAILS(EFAULT, rsend(pair.near, NULL, 1, 0));
	FAILS(EFAULT, rrecv(pair.near, NULL, 1, 0));
	FAILS(EOPNOTSUPP, rsend(pair.near, "x", 1, MSG_OOB));
	FAILS(EINVAL, rreadv(pair.near, in, -1));
	IS(0, rsend(pair.near, NULL, 0, 0));
	IS(0, rrecv(pair.near, got, 0, 0));
	message = (struct msghdr){.msg_control = got, .msg_controllen = sizeof got};
	FAILS(EOPNOTSUPP, rsendmsg(pair.near, &message, 0));
	end(pair);
}

static void halves(void)
{
	struct pair pair = connected();
	struct pollfd poll = {.fd = pair.far, .events = POLLIN | POLLRDHUP};
	char got[4];

	IS(3, rsend(pair.near, "bye", 3, 0));
	IS(0, rshutdown(pair.near, SHUT_WR));
	FAILS(EPIPE, rsend(pair.near, "x", 1, 0));
	IS(3, rrecv(pair.far, got, 3, MSG_WAITALL));
	IS(0, rrecv(pair.far, got, 1, 0));
	IS(1, rpoll(&poll, 1, -1));
	IS(POLLIN | POLLRDHUP, poll.revents);
	// The other direction is as it was.
	IS(2, rsend(pair.far, "ok", 2, 0));
	IS(2, rrecv(pair.near, got, 2, MSG_WAITALL));
	IS(0, rshutdown(pair.far, SHUT_RDWR));
	IS(0, rrecv(pair.near, got, 1, 0));
	poll.fd = pair.near;
	IS(1, rpoll(&poll, 1, -1));
	IS(POLLIN | POLLRDHUP | POLLHUP, poll.revents);
	end(pair);

	// What was sent before the end is there after it, and then nothing.
	pair = connected();
	IS(4, rsend(pair.near, "last", 4, 0));
	IS(0, rclose(pair.near));
	IS(4, rrecv(pair.far, got, 4, MSG_WAITALL));
	IS(0, rrecv(pair.far, got, 1, 0));
	FAILS(ECONNRESET, rsend(pair.far, "x", 1, 0));
	IS(0, rclose(pair.far));
}

static void options(void)
{
	static const int flags[][2] = {
		{SOL_SOCKET, SO_REUSEADDR}, {SOL_SOCKET, SO_KEEPALIVE}, {SOL_SOCKET, SO_OOBINLINE},
		{IPPROTO_TCP, TCP_NODELAY}, {IPPROTO_TCP, TCP_KEEPIDLE}, {IPPROTO_IPV6, IPV6_V6ONLY}};
	static const int sizes[][3] = {
		{RDMA_SQSIZE, 100, 100}, {RDMA_SQSIZE, 1, 16}, {RDMA_RQSIZE, 1 << 20, 0xfffe}, {RDMA_RQSIZE, 50, 50},
		{RDMA_INLINE, 128, 128}, {RDMA_IOMAPSIZE, 100, 100}, {RDMA_IOMAPSIZE, 300, 256}};
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);
	struct linger linger = {1, 7}, back = {0};
	socklen_t len = sizeof back;
	char path[200];

	for (size_t i = 0; i < COUNT(flags); i++) {
		IS(0, get(fd, flags[i][0], flags[i][1]));
		set(fd, flags[i][0], flags[i][1], 1);
		IS(1, get(fd, flags[i][0], flags[i][1]));
	}
	for (size_t i = 0; i < COUNT(sizes); i++) {
		set(fd, SOL_RDMA, sizes[i][0], sizes[i][1]);
		IS(sizes[i][2], get(fd, SOL_RDMA, sizes[i][0]));
	}
	set(fd, SOL_SOCKET, SO_RCVBUF, 50048);
	IS(100096, get(fd, SOL_SOCKET, SO_RCVBUF));
	set(fd, SOL_SOCKET, SO_SNDBUF, 1);
	IS(4096, get(fd, SOL_SOCKET, SO_SNDBUF));
	set(fd, IPPROTO_TCP, TCP_MAXSEG, 1000);
	IS(SOCK_STREAM, get(fd, SOL_SOCKET, SO_TYPE));
	IS(AF_INET, get(fd, SOL_SOCKET, SO_DOMAIN));
	IS(0, rsetsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger));
	IS(0, rgetsockopt(fd, SOL_SOCKET, SO_LINGER, &back, &len));
	IS(0, memcmp(&linger, &back, sizeof back));
	IS(0, rclose(fd));

	struct pair pair = connected();
	int value = 5;
	FAILS(EINVAL, rsetsockopt(pair.near, SOL_RDMA, RDMA_SQSIZE, &value, sizeof value));
	IS(4096, get(pair.near, IPPROTO_TCP, TCP_MAXSEG));
	len = sizeof path;
	IS(0, rgetsockopt(pair.near, SOL_RDMA, RDMA_ROUTE, path, &len));
	IS(sizeof(struct ibv_path_data), len);
	end(pair);
}

static void lists(void)
{
	struct pair pair = connected();
	int pipes[2];
	struct timeval soon = {0, 1000};
	fd_set in, out;
	char got[4];

	IS(0, pipe(pipes));
	struct pollfd polls[3] = {
		{.fd = pair.far, .events = POLLIN}, {.fd = pipes[0], .events = POLLIN}, {.fd = pair.near, .events = POLLIN}};
	IS(0, rpoll(polls, 3, 0));
	IS(0, rpoll(polls, 3, 1));
	IS(1, write(pipes[1], "x", 1));
	IS(1, rpoll(polls, 3, -1));
	IS(POLLIN, polls[1].revents);
	IS(1, rsend(pair.near, "y", 1, 0));
	polls[1].fd = -1;
	IS(1, rpoll(polls, 3, -1));
	IS(POLLIN, polls[0].revents);
	FD_ZERO(&in);
	FD_ZERO(&out);
	FD_SET(pair.far, &in);
	FD_SET(pair.near, &in);
	FD_SET(pipes[0], &in);
	FD_SET(pair.near, &out);
	IS(3, rselect(pair.far + pair.near + pipes[0] + 1, &in, &out, NULL, NULL));
	IS(1, FD_ISSET(pair.far, &in) && FD_ISSET(pipes[0], &in) && FD_ISSET(pair.near, &out));
	IS(0, FD_ISSET(pair.near, &in));
	IS(1, rread(pair.far, got, 4));
	FD_ZERO(&in);
	FD_SET(pair.far, &in);
	IS(0, rselect(pair.far + 1, &in, NULL, NULL, &soon));
	IS(0, FD_ISSET(pair.far, &in));
	close(pipes[0]);
	close(pipes[1]);
	end(pair);
}

static void direct(void)
{
	struct pair pair = connected();
	static char target[8192], local[64];
	char got[1];

	memset(target, '-', sizeof target);
	FAILS(EFAULT, riowrite(pair.near, "abc", 3, 0, 0));
	FAILS(EINVAL, riomap(pair.far, target, sizeof target, PROT_READ, 0, 0));
	FAILS(EINVAL, riomap(pair.far, target, 0, PROT_WRITE, 0, 0));
	IS(1000, riomap(pair.far, target, sizeof target, PROT_WRITE, 0, 1000));
	IS((long)local, riomap(pair.far, local, sizeof local, PROT_NONE, 0, -1));
	IS(1, rsend(pair.far, "m", 1, 0));
	IS(1, rrecv(pair.near, got, 1, 0));
	// Silent, in order before the next message, and not beyond the end.
	IS(3, riowrite(pair.near, "abc", 3, 1005, 0));
	IS(5000, riowrite(pair.near, target, 5000, 1100, 0));
	FAILS(EFAULT, riowrite(pair.near, "abc", 3, 999, 0));
	IS(2, riowrite(pair.near, "xyz", 3, 1000 + sizeof target - 2, 0));
	IS(1, rsend(pair.near, "n", 1, 0));
	IS(1, rrecv(pair.far, got, 1, 0));
	IS('n', got[0]);
	IS(0, memcmp(target + 5, "abc--", 5));
	IS(0, memcmp(target + sizeof target - 3, "-xy", 3));
	FAILS(EAGAIN, rrecv(pair.far, got, 1, MSG_DONTWAIT));
	// As many as was said, and again when one is free.
	for (int i = 1; i < 4; i++)
		IS(i * 10000, riomap(pair.far, target + i, 100, PROT_WRITE, 0, i * 10000));
	FAILS(ENOMEM, riomap(pair.far, target + 9, 100, PROT_WRITE, 0, 0));
	IS(0, riounmap(pair.far, target + 2, 100));
	FAILS(EINVAL, riounmap(pair.far, target + 2, 100));
	IS(50000, riomap(pair.far, target + 9, 100, PROT_WRITE, 0, 50000));
	IS(1, rsend(pair.far, "m", 1, 0));
	IS(1, rrecv(pair.near, got, 1, 0));
	IS(1, riowrite(pair.near, "!", 1, 50010, 0));
	IS(1, rsend(pair.near, "n", 1, 0));
	IS(1, rrecv(pair.far, got, 1, 0));
	IS('!', target[19]);
	// Telling of a mapping takes a credit, and gives it back: more of them than there are.
	for (int i = 0; i < 400; i++) {
		IS(0, riounmap(pair.far, target + 9, 100));
		IS(50000, riomap(pair.far, target + 9, 100, PROT_WRITE, 0, 50000));
		IS(1, rsend(pair.far, "m", 1, 0));
		IS(1, rrecv(pair.near, got, 1, 0));
	}
	end(pair);
}

struct task {
	int fd, is_sender;
	long done;
};

static char byte_at(long n)
{
	return n * 7 % 251;
}

static void *carry(void *of)
{
	struct task *task = of;
	char *buffer = malloc(BULK);

	for (long at = 0; at < BULK; at++)
		buffer[at] = task->is_sender ? byte_at(at) : 0;
	while (task->done < BULK) {
		long len = task->is_sender ? rsend(task->fd, buffer + task->done, BULK - task->done, 0)
					   : rrecv(task->fd, buffer + task->done, BULK - task->done, 0);
		if (len <= 0)
			break;
		task->done += len;
	}
	for (long at = 0; at < task->done; at++)
		if (buffer[at] != byte_at(at))
			task->done = -at;
	free(buffer);
	return NULL;
}

// Four threads, two of them on each end, both directions at once.
static void at_once(void)
{
	struct pair pair = connected();
	struct task tasks[4] = {{pair.near, 1, 0}, {pair.near, 0, 0}, {pair.far, 1, 0}, {pair.far, 0, 0}};
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, carry, &tasks[i]);
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], NULL);
		IS(BULK, tasks[i].done);
	}
	end(pair);
}

// Threads that use a connection at once, before its last word has come: one of them hears it, all go on.
static void *answers(void *of)
{
	char byte = 'a';

	return (void *)rsend(*(int *)of, &byte, 1, 0);
}

static void *waits(void *of)
{
	char byte;

	return (void *)rrecv(*(int *)of, &byte, 1, 0);
}

static void *polls(void *of)
{
	struct pollfd poll = {.fd = *(int *)of, .events = POLLIN};

	return (void *)(long)(rpoll(&poll, 1, -1) == 1 ? poll.revents : -1);
}

static void early(void)
{
	for (int i = 0; i < 20; i++) {
		int at = listener(), near = rsocket(AF_INET, SOCK_STREAM, 0), far;
		struct sockaddr_in addr = here(port);
		pthread_t threads[3];
		void *answer;
		char got;

		IS(0, rfcntl(near, F_SETFL, O_NONBLOCK));
		FAILS(EINPROGRESS, rconnect(near, (struct sockaddr *)&addr, sizeof addr));
		far = raccept(at, NULL, NULL);
		IS(0, rfcntl(near, F_SETFL, 0));
		pthread_create(&threads[0], NULL, waits, &far);
		pthread_create(&threads[1], NULL, answers, &far);
		pthread_create(&threads[2], NULL, answers, &near);
		IS(1, rrecv(near, &got, 1, 0));
		for (int n = 0; n < 3; n++) {
			pthread_join(threads[n], &answer);
			IS(1, (long)answer);
		}
		end((struct pair){near, far});
		IS(0, rclose(at));
	}
}

// Threads that wait for a socket hear of its end, whichever way they wait.
static void woken(void)
{
	struct pair pair = connected();
	pthread_t first, second;
	void *answer;

	pthread_create(&first, NULL, waits, &pair.far);
	pthread_create(&second, NULL, polls, &pair.far);
	IS(0, rshutdown(pair.near, SHUT_WR));
	pthread_join(first, &answer);
	IS(0, (long)answer);
	pthread_join(second, &answer);
	IS(POLLIN, (long)answer);
	end(pair);
}

// A sender that may not wait stops when the other side does not read, and goes on when it does.
static void full(void)
{
	struct pair pair = connected();
	static char buffer[100000];
	struct pollfd poll = {.fd = pair.near, .events = POLLOUT};
	long sent = 0, got = 0, len;

	while ((len = rsend(pair.near, buffer, sizeof buffer, MSG_DONTWAIT)) > 0)
		sent += len;
	IS(EAGAIN, errno);
	IS(1, sent >= 65536);
	while (got < sent && (len = rrecv(pair.far, buffer, sizeof buffer, 0)) > 0)
		got += len;
	IS(sent, got);
	IS(1, rpoll(&poll, 1, -1));
	IS(1, rsend(pair.near, buffer, 1, MSG_DONTWAIT));
	IS(1, rrecv(pair.far, buffer, 1, 0));
	end(pair);
}

// Who does not linger does not wait for what was sent.
static void abrupt(void)
{
	struct pair pair = connected();
	struct linger none = {1, 0};
	char byte;

	IS(0, rsetsockopt(pair.near, SOL_SOCKET, SO_LINGER, &none, sizeof none));
	IS(0, rclose(pair.near));
	IS(1, rrecv(pair.far, &byte, 1, 0) <= 0);
	IS(0, rclose(pair.far));
}

static int datagram_socket(struct sockaddr_in *name)
{
	int fd = rsocket(AF_INET, SOCK_DGRAM, 0);
	socklen_t len = sizeof *name;

	*name = here(++port);
	IS(0, rbind(fd, (struct sockaddr *)name, sizeof *name));
	IS(0, rgetsockname(fd, (struct sockaddr *)name, &len));
	return fd;
}

static void datagrams(void)
{
	struct sockaddr_in names[3], from;
	int first = datagram_socket(&names[0]), second = datagram_socket(&names[1]), third = datagram_socket(&names[2]);
	struct sockaddr *to_second = (struct sockaddr *)&names[1];
	socklen_t len = sizeof from, size = sizeof names[0];
	struct pollfd poll = {.fd = second, .events = POLLIN | POLLOUT};
	char got[5000];
	static char most[4096 - 8];
	struct iovec in = {got, 3};
	struct msghdr message = {.msg_iov = &in, .msg_iovlen = 1, .msg_name = &from, .msg_namelen = sizeof from};

	IS(SOCK_DGRAM, get(first, SOL_SOCKET, SO_TYPE));
	IS(1, rpoll(&poll, 1, 0));
	IS(POLLOUT, poll.revents);
	IS(5, rsendto(first, "hello", 5, 0, to_second, size));
	poll.events = POLLIN;
	IS(1, rpoll(&poll, 1, -1));
	// Datagrams have bounds; what there is no room for is gone.
	IS(5, rrecvfrom(second, got, sizeof got, MSG_PEEK, (struct sockaddr *)&from, &len));
	IS(0, memcmp(&from, &names[0], size));
	IS(3, rrecvmsg(second, &message, 0));
	IS(MSG_TRUNC, message.msg_flags);
	FAILS(EAGAIN, rrecv(second, got, 1, MSG_DONTWAIT));
	IS(0, rsendto(first, NULL, 0, 0, to_second, size));
	IS(0, rrecvfrom(second, got, sizeof got, 0, (struct sockaddr *)&from, &len));
	IS(sizeof most, rsendto(first, most, sizeof most, 0, to_second, size));
	IS(sizeof most, rrecv(second, got, sizeof got, 0));
	FAILS(EMSGSIZE, rsendto(first, got, sizeof most + 1, 0, to_second, size));
	// Who has a peer sends to it, and hears of nobody else.
	FAILS(ENOTCONN, rgetpeername(second, (struct sockaddr *)&from, &len));
	IS(0, rconnect(second, (struct sockaddr *)&names[0], size));
	IS(0, rgetpeername(second, (struct sockaddr *)&from, &len));
	IS(0, memcmp(&from, &names[0], size));
	IS(1, rsendto(third, "x", 1, 0, to_second, size));
	IS(1, rsendto(first, "y", 1, 0, to_second, size));
	IS(1, rrecv(second, got, 1, 0));
	IS('y', got[0]);
	IS(1, rwrite(second, "z", 1));
	IS(1, rread(first, got, 1));
	// As many as fit; the rest is lost, and nothing is wrong after that.
	for (int i = 0; i < 1000; i++)
		IS(1, rsendto(first, "a", 1, 0, to_second, size));
	int count = 0;
	while (rrecv(second, got, 1, MSG_DONTWAIT) == 1)
		count++;
	IS(1, count > 100 && count <= 1000);
	long last = 0;
	for (int i = 0; i < 100000 && last != 2; i++) {
		IS(2, rsendto(first, "ok", 2, 0, to_second, size));
		while ((last = rrecv(second, got, 5, MSG_DONTWAIT)) == 1)
			;
	}
	IS(2, last);
	IS(0, rclose(first));
	IS(0, rclose(second));
	IS(0, rclose(third));
}

int main(void)
{
	names();
	forms();
	halves();
	options();
	lists();
	direct();
	at_once();
	early();
	woken();
	full();
	abrupt();
	datagrams();
	printf("%d calls, %d wrong answers\n", asked, wrong);
	return wrong != 0;
}
