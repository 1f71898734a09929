// Calls with what no program should give them. Prints a line for each answer that is not the one expected, and for each
// call what it was wrong about ("asked null rdma_listen"), so that a test sees which call is missing.
#pragma once

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define SELF "10.0.0.1"

static int wrong, asked;
// What the calls that follow are wrong about: null, closed, foreign, exhausted, moment.
static const char *kind = "moment";

static void expect(const char *what, long result, long wanted, int wanted_errno)
{
	int found = errno;

	asked++;
	printf("asked %s %.*s\n", kind, (int)strcspn(what, "("), what);
	if (result == wanted && (wanted != -1 || found == wanted_errno))
		return;
	wrong++;
	printf("WRONG %s: %ld, errno %s; expected %ld", what, result, strerror(found), wanted);
	printf(", errno %s\n", wanted == -1 ? strerror(wanted_errno) : "any");
}

#define FAILS(error, call) (errno = 0, expect(#call, (long)(call), -1, error))
#define WORKS(call)        (errno = 0, expect(#call, (long)(call), 0, 0))
#define GIVES(value, call) (errno = 0, expect(#call, (long)(call), value, 0))
// A pointer, or NULL and errno.
#define NONE(error, call)  (errno = 0, expect(#call, (call) ? 1 : -1, -1, error))
// Returns nothing, and must do no harm.
#define QUIET(call)        ((call), expect(#call, 0, 0, 0))

static inline struct sockaddr_in address(const char *text, int port)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons(port)};

	inet_pton(AF_INET, text, &sin.sin_addr);
	return sin;
}

// No descriptor more can be had, or as many as before.
static inline void descriptors(int more)
{
	static struct rlimit before;
	struct rlimit none;
	int next;

	if (more) {
		setrlimit(RLIMIT_NOFILE, &before);
		return;
	}
	getrlimit(RLIMIT_NOFILE, &before);
	none = before;
	next = dup(0);
	close(next);
	none.rlim_cur = next;
	setrlimit(RLIMIT_NOFILE, &none);
}

// Runs a call while no descriptor can be had.
#define WITHOUT_DESCRIPTORS(check) (descriptors(0), (check), descriptors(1))
