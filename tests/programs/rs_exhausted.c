// Calls of rsockets that find nothing left: no descriptor, no room, nothing to read. Each says so, and works as soon as
// there is something again.
#include <sys/select.h>
#include <sys/uio.h>

#include "rs_pair.h"

static char bytes[1 << 16], target[MAPPINGS + 1];

static void descriptors_of_sockets(void)
{
	struct sockaddr_in self = address(SELF, PORT), own = address(SELF, 0);
	int fd, datagrams = rsocket(AF_INET, SOCK_DGRAM, 0);

	WITHOUT_DESCRIPTORS(FAILS(EMFILE, stream()));
	WITHOUT_DESCRIPTORS(FAILS(EMFILE, rsocket(AF_INET6, SOCK_STREAM, 0)));
	WITHOUT_DESCRIPTORS(FAILS(EMFILE, rsocket(AF_INET, SOCK_DGRAM, 0)));
	fd = stream();
	WITHOUT_DESCRIPTORS(FAILS(EMFILE, rbind(fd, (struct sockaddr *)&self, sizeof self)));
	WITHOUT_DESCRIPTORS(FAILS(EMFILE, rbind(datagrams, (struct sockaddr *)&own, sizeof own)));
	WITHOUT_DESCRIPTORS(FAILS(EMFILE, rlisten(fd, 1)));
	WORKS(rbind(fd, (struct sockaddr *)&self, sizeof self));
	WITHOUT_DESCRIPTORS(FAILS(EMFILE, rlisten(fd, 1)));
	WORKS(rlisten(fd, 1));
	WORKS(rclose(fd));
	fd = stream();
	WITHOUT_DESCRIPTORS(FAILS(EMFILE, rconnect(fd, (struct sockaddr *)&self, sizeof self)));
	WORKS(rclose(fd));
	// A socket of datagrams gets its number by the first one that it sends or waits for.
	WITHOUT_DESCRIPTORS(FAILS(EMFILE, rconnect(datagrams, (struct sockaddr *)&self, sizeof self)));
	WITHOUT_DESCRIPTORS(FAILS(EMFILE, rsendto(datagrams, bytes, 1, 0, (struct sockaddr *)&self, sizeof self)));
	WORKS(rbind(datagrams, (struct sockaddr *)&own, sizeof own));
	FAILS(EAGAIN, rrecvfrom(datagrams, bytes, 1, MSG_DONTWAIT, NULL, NULL));
	WORKS(rclose(datagrams));
}

// Nothing has come.
static void nothing_to_read(int fd)
{
	struct iovec iov = {bytes, 8};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	struct pollfd polled = {.fd = fd, .events = POLLIN};
	struct timeval soon = {0, 20000};
	fd_set set;

	FAILS(EAGAIN, rrecv(fd, bytes, 8, 0));
	FAILS(EAGAIN, rrecv(fd, bytes, 8, MSG_PEEK));
	FAILS(EAGAIN, rrecvfrom(fd, bytes, 8, 0, NULL, NULL));
	FAILS(EAGAIN, rrecvmsg(fd, &msg, 0));
	FAILS(EAGAIN, rread(fd, bytes, 8));
	FAILS(EAGAIN, rreadv(fd, &iov, 1));
	WORKS(rpoll(&polled, 1, 0));
	WORKS(rpoll(&polled, 1, 20));
	// Who waits is woken through a descriptor.
	WITHOUT_DESCRIPTORS(FAILS(EMFILE, rpoll(&polled, 1, 20)));
	FD_ZERO(&set);
	FD_SET(fd, &set);
	WITHOUT_DESCRIPTORS(FAILS(EMFILE, rselect(fd + 1, &set, NULL, NULL, &soon)));
}

// The other side reads nothing.
static void no_room(int fd)
{
	struct iovec iov = {bytes, 8};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	WORKS(riomap(fd, target, 1, PROT_WRITE, 0, 0));
	expect("riomap", riomap(fd, target + 1, 1, PROT_WRITE, 0, 1), 1, 0);
	FAILS(ENOMEM, riomap(fd, target + 2, 1, PROT_WRITE, 0, 2));
	while (rsend(fd, bytes, sizeof bytes, 0) > 0)
		;
	FAILS(EAGAIN, rsend(fd, bytes, 8, 0));
	FAILS(EAGAIN, rsendto(fd, bytes, 8, 0, NULL, 0));
	FAILS(EAGAIN, rsendmsg(fd, &msg, 0));
	FAILS(EAGAIN, rwrite(fd, bytes, 8));
	FAILS(EAGAIN, rwritev(fd, &iov, 1));
	FAILS(EAGAIN, riowrite(fd, bytes, 8, 0, 0));
}

int main(void)
{
	int pair[2];

	kind = "exhausted";
	descriptors_of_sockets();
	connected(pair, 1);
	nothing_to_read(pair[1]);
	no_room(pair[0]);
	// As it is read there is room again.
	struct pollfd ends[2] = {{.fd = pair[0], .events = POLLOUT}, {.fd = pair[1], .events = POLLIN}};
	while (rpoll(ends, 2, -1) > 0 && !ends[0].revents)
		rrecv(pair[1], bytes, sizeof bytes, 0);
	expect("rpoll", ends[0].revents, POLLOUT, 0);
	GIVES(8, rsend(pair[0], bytes, 8, 0));
	WORKS(rclose(pair[0]));
	WORKS(rclose(pair[1]));
	printf("%d calls, %d wrong answers\n", asked, wrong);
	return wrong != 0;
}
