// A program that speaks with another of its kind on QP1, by libibumad, in any partition of its port (KEY-21).
//   gsi_partitions serve N          answers N datagrams and says which P_Key of its port each had
//   gsi_partitions ask LID INDEX    asks by the P_Key of this index; ends with 3 if nobody answers
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <infiniband/umad.h>

#define CLASS 0x0a // of a vendor, without RMPP
#define GET 0x01
#define GET_RESP 0x81
#define MAD_BYTES 256
#define QKEY_GSI 0x80010000
#define TIMEOUT_MS 500

static void check(int ok, const char *what)
{
	if (!ok) {
		perror(what);
		exit(2);
	}
}

static int serve(int port, int count)
{
	long methods[2] = {1 << GET, 0};
	int agent = umad_register(port, CLASS, 1, 0, methods);
	struct ib_user_mad *umad = umad_alloc(1, umad_size() + MAD_BYTES);

	check(agent >= 0 && umad, "umad_register");
	puts("serves");
	fflush(stdout);
	for (; count; count--) {
		int length = MAD_BYTES;
		uint8_t *mad = umad_get_mad(umad);

		check(umad_recv(port, umad, &length, -1) == agent, "umad_recv");
		printf("asked by P_Key %d\n", umad_get_pkey(umad));
		fflush(stdout);
		mad[3] = GET_RESP;
		// The address is the one that it has come from, and with it the partition.
		check(!umad_send(port, agent, umad, MAD_BYTES, 0, 0), "umad_send");
	}
	return 0;
}

static int ask(int port, int lid, int index)
{
	int agent = umad_register(port, CLASS, 1, 0, NULL), length = MAD_BYTES;
	struct ib_user_mad *umad = umad_alloc(1, umad_size() + MAD_BYTES);
	uint8_t *mad;

	check(agent >= 0 && umad, "umad_register");
	mad = umad_get_mad(umad);
	mad[0] = 1;
	mad[1] = CLASS;
	mad[2] = 1;
	mad[3] = GET;
	umad_set_addr(umad, lid, 1, 0, QKEY_GSI);
	check(!umad_set_pkey(umad, index), "umad_set_pkey");
	check(!umad_send(port, agent, umad, MAD_BYTES, TIMEOUT_MS, 2), "umad_send");
	check(umad_recv(port, umad, &length, -1) == agent, "umad_recv");
	if (umad_status(umad) == ETIMEDOUT)
		return 3;
	printf("answered by P_Key %d\n", umad_get_pkey(umad));
	return umad_status(umad);
}

int main(int argc, char **argv)
{
	int port;

	check(!umad_init(), "umad_init");
	port = umad_open_port(NULL, 1);
	check(port >= 0, "umad_open_port");
	if (argc == 3 && !strcmp(argv[1], "serve"))
		return serve(port, atoi(argv[2]));
	check(argc == 4, "what shall be done?");
	return ask(port, atoi(argv[2]), atoi(argv[3]));
}
