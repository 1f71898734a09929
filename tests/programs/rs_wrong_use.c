// Every call of rsockets with what no program should give it: descriptors that are none, or somebody else's, or closed;
// NULL; the wrong moment. rs_exhausted.c has those that find nothing left.
#include <netinet/tcp.h>
#include <stdint.h>

#include "rs_pair.h"

// Calls with a descriptor that is no rsocket.
static void calls_with(int fd)
{
	struct sockaddr_in to = address(SELF, 7471);
	struct sockaddr *addr = (struct sockaddr *)&to;
	socklen_t len = sizeof to;
	char byte[8] = {0};
	struct iovec iov = {byte, sizeof byte};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	int value = 1;

	FAILS(EBADF, rbind(fd, addr, len));
	FAILS(EBADF, rlisten(fd, 1));
	FAILS(EBADF, raccept(fd, addr, &len));
	FAILS(EBADF, rconnect(fd, addr, len));
	FAILS(EBADF, rshutdown(fd, SHUT_RDWR));
	FAILS(EBADF, rclose(fd));
	FAILS(EBADF, rrecv(fd, byte, sizeof byte, 0));
	FAILS(EBADF, rrecvfrom(fd, byte, sizeof byte, 0, addr, &len));
	FAILS(EBADF, rrecvmsg(fd, &msg, 0));
	FAILS(EBADF, rsend(fd, byte, sizeof byte, 0));
	FAILS(EBADF, rsendto(fd, byte, sizeof byte, 0, addr, len));
	FAILS(EBADF, rsendmsg(fd, &msg, 0));
	FAILS(EBADF, rread(fd, byte, sizeof byte));
	FAILS(EBADF, rreadv(fd, &iov, 1));
	FAILS(EBADF, rwrite(fd, byte, sizeof byte));
	FAILS(EBADF, rwritev(fd, &iov, 1));
	FAILS(EBADF, rgetpeername(fd, addr, &len));
	FAILS(EBADF, rgetsockname(fd, addr, &len));
	FAILS(EBADF, rsetsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &value, sizeof value));
	FAILS(EBADF, rgetsockopt(fd, SOL_SOCKET, SO_ERROR, &value, &len));
	FAILS(EBADF, rfcntl(fd, F_GETFL));
	FAILS(EBADF, riomap(fd, byte, sizeof byte, PROT_WRITE, 0, -1));
	FAILS(EBADF, riounmap(fd, byte, sizeof byte));
	FAILS(EBADF, riowrite(fd, byte, sizeof byte, 0, 0));
}

// Lists take every descriptor that is open.
static void lists_with(int fd)
{
	struct pollfd none = {.fd = fd, .events = POLLIN};
	struct timeval no_time = {0, 0};
	fd_set set;

	GIVES(1, rpoll(&none, 1, 0));
	expect("rpoll", none.revents, POLLNVAL, 0);
	FD_ZERO(&set);
	FD_SET(fd, &set);
	FAILS(EBADF, rselect(fd + 1, &set, NULL, NULL, &no_time));
}

// Sockets that cannot be.
static void kinds(void)
{
	FAILS(EOPNOTSUPP, rsocket(AF_UNIX, SOCK_STREAM, 0));
	FAILS(EOPNOTSUPP, rsocket(-1, SOCK_STREAM, 0));
	FAILS(EOPNOTSUPP, rsocket(AF_INET, SOCK_RAW, 0));
	FAILS(EOPNOTSUPP, rsocket(AF_INET, SOCK_SEQPACKET, 0));
	FAILS(EOPNOTSUPP, rsocket(AF_INET, SOCK_STREAM, IPPROTO_UDP));
	FAILS(EOPNOTSUPP, rsocket(AF_INET, SOCK_DGRAM, IPPROTO_TCP));
	FAILS(EOPNOTSUPP, rsocket(AF_UNIX, SOCK_DGRAM, 0));
}

// Data calls on a socket that has no connection.
static void not_connected(int fd)
{
	struct sockaddr_in name;
	socklen_t len = sizeof name;
	char byte[8] = {0};

	FAILS(ENOTCONN, rrecv(fd, byte, sizeof byte, 0));
	FAILS(ENOTCONN, rrecv(fd, byte, sizeof byte, MSG_DONTWAIT));
	FAILS(ENOTCONN, rsend(fd, byte, sizeof byte, 0));
	FAILS(ENOTCONN, rshutdown(fd, SHUT_RDWR));
	FAILS(EINVAL, rshutdown(fd, 77));
	FAILS(ENOTCONN, rgetpeername(fd, (struct sockaddr *)&name, &len));
	FAILS(EINVAL, riomap(fd, byte, sizeof byte, PROT_WRITE, 0, -1));
	FAILS(EINVAL, riounmap(fd, byte, sizeof byte));
	FAILS(ENOTCONN, riowrite(fd, byte, sizeof byte, 0, 0));
}

static void addresses(int fd)
{
	struct sockaddr_in to = address(SELF, 7471);
	struct sockaddr_in none = address("10.0.0.77", 7471);
	struct sockaddr_in6 other = {.sin6_family = AF_INET6};
	struct sockaddr *addr = (struct sockaddr *)&to;
	socklen_t len = 0;

	FAILS(EINVAL, rbind(fd, NULL, sizeof to));
	FAILS(EINVAL, rbind(fd, addr, 0));
	FAILS(EINVAL, rbind(fd, addr, 4));
	FAILS(EAFNOSUPPORT, rbind(fd, (struct sockaddr *)&other, sizeof other));
	FAILS(EADDRNOTAVAIL, rbind(fd, (struct sockaddr *)&none, sizeof none));
	FAILS(EINVAL, rconnect(fd, NULL, sizeof to));
	FAILS(EINVAL, rconnect(fd, addr, 4));
	FAILS(EAFNOSUPPORT, rconnect(fd, (struct sockaddr *)&other, sizeof other));
	FAILS(EFAULT, rgetsockname(fd, NULL, &len));
	FAILS(EFAULT, rgetsockname(fd, addr, NULL));
	FAILS(EINVAL, raccept(fd, NULL, NULL));
	not_connected(fd);
	WORKS(rbind(fd, addr, sizeof to));
	FAILS(EINVAL, rbind(fd, addr, sizeof to));
	not_connected(fd);
}

static void options(int fd)
{
	int value = 1, back = 0;
	socklen_t len = sizeof back, small = 2;
	struct linger linger = {1, 5};

	FAILS(EFAULT, rsetsockopt(fd, SOL_SOCKET, SO_REUSEADDR, NULL, sizeof value));
	FAILS(EINVAL, rsetsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &value, 1));
	FAILS(EINVAL, rsetsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, 4));
	FAILS(ENOPROTOOPT, rsetsockopt(fd, SOL_SOCKET, 4711, &value, sizeof value));
	FAILS(ENOPROTOOPT, rsetsockopt(fd, 4711, 1, &value, sizeof value));
	FAILS(ENOPROTOOPT, rsetsockopt(fd, SOL_RDMA, 4711, &value, sizeof value));
	FAILS(EINVAL, rsetsockopt(fd, SOL_RDMA, RDMA_ROUTE, &value, sizeof value));
	value = -1;
	FAILS(EINVAL, rsetsockopt(fd, SOL_RDMA, RDMA_SQSIZE, &value, sizeof value));
	FAILS(EINVAL, rsetsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &value, sizeof value));
	FAILS(EFAULT, rgetsockopt(fd, SOL_SOCKET, SO_ERROR, NULL, &len));
	FAILS(EFAULT, rgetsockopt(fd, SOL_SOCKET, SO_ERROR, &back, NULL));
	FAILS(ENOPROTOOPT, rgetsockopt(fd, SOL_SOCKET, 4711, &back, &len));
	FAILS(EINVAL, rgetsockopt(fd, SOL_RDMA, RDMA_ROUTE, &back, &len));
	WORKS(rgetsockopt(fd, SOL_SOCKET, SO_ERROR, &back, &small));
	expect("a short answer", small, 2, 0);
	FAILS(EOPNOTSUPP, rfcntl(fd, F_SETOWN, 1));
}

static void lists(int fd)
{
	struct pollfd polls[2] = {{.fd = fd, .events = POLLIN}, {.fd = 4711, .events = POLLIN}};
	struct timeval no_time = {0, 0}, wrong_time = {-1, 0};
	fd_set set;

	FAILS(EFAULT, rpoll(NULL, 1, 0));
	WORKS(rpoll(NULL, 0, 0));
	GIVES(2, rpoll(polls, 2, 0));
	expect("a descriptor that is none", polls[1].revents, POLLNVAL, 0);
	polls[1].fd = -1;
	GIVES(1, rpoll(polls, 2, 0));
	expect("no descriptor", polls[1].revents, 0, 0);
	FD_ZERO(&set);
	FAILS(EINVAL, rselect(-1, &set, NULL, NULL, &no_time));
	FAILS(EINVAL, rselect(1, &set, NULL, NULL, &wrong_time));
	WORKS(rselect(0, NULL, NULL, NULL, &no_time));
	FD_SET(1000, &set);
	FAILS(EBADF, rselect(1001, &set, NULL, NULL, &no_time));
}

static void moments(void)
{
	struct sockaddr_in to = address(SELF, 7472), none = address(SELF, 7999), beyond = address("203.0.113.1", 7);
	int fd = rsocket(AF_INET, SOCK_STREAM, 0), other, error = 0;
	socklen_t len = sizeof error;
	char byte = 0;

	WORKS(rbind(fd, (struct sockaddr *)&to, sizeof to));
	WORKS(rlisten(fd, 1));
	WORKS(rlisten(fd, 1));
	not_connected(fd);
	FAILS(EINVAL, rconnect(fd, (struct sockaddr *)&to, sizeof to));
	WORKS(rfcntl(fd, F_SETFL, O_NONBLOCK));
	FAILS(EAGAIN, raccept(fd, NULL, NULL));

	other = rsocket(AF_INET, SOCK_STREAM, 0);
	FAILS(EADDRINUSE, rbind(other, (struct sockaddr *)&to, sizeof to));
	FAILS(ECONNREFUSED, rconnect(other, (struct sockaddr *)&none, sizeof none));
	FAILS(EINVAL, rconnect(other, (struct sockaddr *)&none, sizeof none));
	WORKS(rgetsockopt(other, SOL_SOCKET, SO_ERROR, &error, &len));
	FAILS(ENOTCONN, rsend(other, &byte, 1, 0));
	WORKS(rclose(other));
	FAILS(EBADF, rsend(other, &byte, 1, 0));
	WORKS(rclose(fd));

	other = rsocket(AF_INET, SOCK_STREAM, 0);
	FAILS(EHOSTUNREACH, rconnect(other, (struct sockaddr *)&beyond, sizeof beyond));
	WORKS(rclose(other));
}

static void datagrams(void)
{
	struct sockaddr_in own = address(SELF, 7473), none = address(SELF, 7999), beyond = address("203.0.113.1", 7);
	struct sockaddr *to_none = (struct sockaddr *)&none;
	int fd = rsocket(AF_INET, SOCK_DGRAM, 0), other = rsocket(AF_INET, SOCK_DGRAM, IPPROTO_UDP);
	char byte = 0;
	static char much[5000];

	WORKS(rbind(fd, (struct sockaddr *)&own, sizeof own));
	FAILS(EINVAL, rbind(fd, (struct sockaddr *)&own, sizeof own));
	FAILS(EADDRINUSE, rbind(other, (struct sockaddr *)&own, sizeof own));
	FAILS(EOPNOTSUPP, rlisten(fd, 1));
	FAILS(EOPNOTSUPP, raccept(fd, NULL, NULL));
	FAILS(ENOTCONN, rshutdown(fd, SHUT_RDWR));
	FAILS(EDESTADDRREQ, rsend(fd, &byte, 1, 0));
	FAILS(EAGAIN, rrecv(fd, &byte, 1, MSG_DONTWAIT));
	FAILS(ECONNREFUSED, rsendto(fd, &byte, 1, 0, to_none, sizeof none));
	FAILS(ECONNREFUSED, rconnect(fd, to_none, sizeof none));
	FAILS(EHOSTUNREACH, rsendto(fd, &byte, 1, 0, (struct sockaddr *)&beyond, sizeof beyond));
	FAILS(EINVAL, rsendto(fd, &byte, 1, 0, to_none, 3));
	FAILS(EFAULT, rsendto(fd, NULL, 1, 0, to_none, sizeof none));
	FAILS(EFAULT, rrecvfrom(fd, NULL, 1, 0, NULL, NULL));
	FAILS(EMSGSIZE, rsendto(fd, much, sizeof much, 0, (struct sockaddr *)&own, sizeof own));
	FAILS(EINVAL, riomap(fd, &byte, 1, PROT_WRITE, 0, -1));
	FAILS(EINVAL, riounmap(fd, &byte, 1));
	FAILS(ENOTCONN, riowrite(fd, &byte, 1, 0, 0));
	WORKS(rclose(fd));
	WORKS(rclose(other));
}

// Where there must be something, NULL.
static void nulls(void)
{
	struct sockaddr_in self = address(SELF, 7474);
	struct sockaddr *addr = (struct sockaddr *)&self;
	struct iovec iov = {NULL, 8};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1}, nowhere = {.msg_iovlen = 1};
	struct timeval no_time = {0, 0};
	int pair[2], fd = stream();
	socklen_t len = sizeof self;
	int value = 0;

	connected(pair, 0);
	kind = "null";
	FAILS(EINVAL, rbind(fd, NULL, sizeof self));
	FAILS(EINVAL, rconnect(fd, NULL, sizeof self));
	FAILS(EFAULT, rgetsockname(pair[0], NULL, &len));
	FAILS(EFAULT, rgetsockname(pair[0], addr, NULL));
	FAILS(EFAULT, rgetpeername(pair[0], NULL, &len));
	FAILS(EFAULT, rgetpeername(pair[0], addr, NULL));
	FAILS(EFAULT, rsetsockopt(fd, SOL_SOCKET, SO_REUSEADDR, NULL, sizeof value));
	FAILS(EFAULT, rsetsockopt(fd, SOL_RDMA, RDMA_ROUTE, NULL, 72));
	FAILS(EFAULT, rgetsockopt(fd, SOL_SOCKET, SO_ERROR, NULL, &len));
	FAILS(EFAULT, rgetsockopt(fd, SOL_SOCKET, SO_ERROR, &value, NULL));
	FAILS(EFAULT, rsend(pair[0], NULL, 8, 0));
	FAILS(EFAULT, rsendto(pair[0], NULL, 8, 0, NULL, 0));
	FAILS(EFAULT, rsendmsg(pair[0], &msg, 0));
	FAILS(EFAULT, rsendmsg(pair[0], &nowhere, 0));
	FAILS(EFAULT, rsendmsg(pair[0], NULL, 0));
	FAILS(EFAULT, rwrite(pair[0], NULL, 8));
	FAILS(EFAULT, rwritev(pair[0], &iov, 1));
	FAILS(EFAULT, rwritev(pair[0], NULL, 1));
	FAILS(EFAULT, riowrite(pair[0], NULL, 8, 0, 0));
	FAILS(EFAULT, riomap(pair[0], NULL, 8, PROT_WRITE, 0, 0));
	FAILS(EINVAL, riounmap(pair[0], NULL, 8));
	FAILS(EFAULT, rrecv(pair[1], NULL, 8, 0));
	FAILS(EFAULT, rrecvfrom(pair[1], NULL, 8, 0, NULL, NULL));
	FAILS(EFAULT, rrecvmsg(pair[1], &msg, 0));
	FAILS(EFAULT, rrecvmsg(pair[1], &nowhere, 0));
	FAILS(EFAULT, rrecvmsg(pair[1], NULL, 0));
	FAILS(EFAULT, rread(pair[1], NULL, 8));
	FAILS(EFAULT, rreadv(pair[1], &iov, 1));
	FAILS(EFAULT, rreadv(pair[1], NULL, 1));
	FAILS(EFAULT, rpoll(NULL, 1, 0));
	// Three sets that are none.
	WORKS(rselect(8, NULL, NULL, NULL, &no_time));
	kind = "moment";
	WORKS(rclose(pair[0]));
	WORKS(rclose(pair[1]));
	WORKS(rclose(fd));
}

int main(void)
{
	int plain = socket(AF_INET, SOCK_STREAM, 0), fd, closed;

	kinds();
	kind = "foreign";
	calls_with(-1);
	calls_with(4711);
	calls_with(1 << 20);
	calls_with(plain);
	lists_with(1000);
	kind = "moment";
	fd = rsocket(AF_INET, SOCK_STREAM, 0);
	closed = rsocket(AF_INET6, SOCK_STREAM, IPPROTO_TCP);
	WORKS(rclose(closed));
	kind = "closed";
	calls_with(closed);
	lists_with(closed);
	kind = "moment";
	addresses(fd);
	options(fd);
	lists(fd);
	WORKS(rclose(fd));
	FAILS(EBADF, rclose(fd));
	moments();
	datagrams();
	nulls();
	// What is not ours is as it was.
	WORKS(fcntl(plain, F_GETFD));
	printf("%d calls, %d wrong answers\n", asked, wrong);
	return wrong != 0;
}
