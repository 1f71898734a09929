// Two rsockets of one program that are connected with each other, and do not wait.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <rdma/rsocket.h>

#include "wrong_use.h"

#define PORT 7481
#define MAPPINGS 2

static inline int stream(void)
{
	return rsocket(AF_INET, SOCK_STREAM, 0);
}

// Two ends in one thread: who connects does not wait.
static inline void connected(int pair[2], int without_descriptors)
{
	struct sockaddr_in self = address(SELF, PORT);
	int listener = stream(), count = MAPPINGS;

	WORKS(rsetsockopt(listener, SOL_RDMA, RDMA_IOMAPSIZE, &count, sizeof count));
	WORKS(rbind(listener, (struct sockaddr *)&self, sizeof self));
	WORKS(rlisten(listener, 1));
	pair[0] = stream();
	WORKS(rsetsockopt(pair[0], SOL_RDMA, RDMA_IOMAPSIZE, &count, sizeof count));
	WORKS(rfcntl(pair[0], F_SETFL, O_NONBLOCK));
	FAILS(EINPROGRESS, rconnect(pair[0], (struct sockaddr *)&self, sizeof self));
	struct pollfd asked_for = {.fd = listener, .events = POLLIN};
	GIVES(1, rpoll(&asked_for, 1, -1));
	// The request waits until there is a descriptor for it.
	if (without_descriptors)
		WITHOUT_DESCRIPTORS(FAILS(EMFILE, raccept(listener, NULL, NULL)));
	pair[1] = raccept(listener, NULL, NULL);
	expect("raccept", pair[1] >= 0, 1, 0);
	WORKS(rfcntl(pair[1], F_SETFL, O_NONBLOCK));
	for (int i = 0; i < 2; i++) {
		struct pollfd open = {.fd = pair[i], .events = POLLOUT};
		GIVES(1, rpoll(&open, 1, -1));
	}
	WORKS(rclose(listener));
}
