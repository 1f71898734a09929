// Calls of libibumad with NULL, with what was closed or given back, with what is another port's or no such thing, and
// where no descriptor is left: a negative errno or NULL, and no harm.
#include <stdlib.h>
#include <infiniband/umad.h>
#include <infiniband/umad_types.h>

#include "wrong_use.h"

#define CARD  "hca0"
#define CLASS 0x81 // of no agent that the card has
#define ROOM  256

static struct {
	struct ib_user_mad head;
	char data[ROOM];
} mad;
static void *const umad = &mad;
static long methods[2];

static void null_pointers(int port)
{
	struct umad_reg_attr attr = {.mgmt_class = CLASS, .mgmt_class_version = 1};
	uint32_t agent;
	int length = ROOM;

	kind = "null";
	GIVES(-EINVAL, umad_get_cas_names(NULL, 1));
	GIVES(-EINVAL, umad_get_ca(CARD, NULL));
	GIVES(-EINVAL, umad_release_ca(NULL));
	GIVES(-EINVAL, umad_get_port(CARD, 1, NULL));
	GIVES(-EINVAL, umad_release_port(NULL));
	GIVES(-EINVAL, umad_get_issm_path(CARD, 1, NULL, ROOM));
	// How many there are; and no name is the first card.
	GIVES(2, umad_get_ca_portguids(NULL, NULL, 0));
	NONE(0, umad_get_mad(NULL));
	NONE(0, umad_get_mad_addr(NULL));
	GIVES(-EINVAL, umad_status(NULL));
	GIVES(-EINVAL, umad_set_grh(NULL, NULL));
	WORKS(umad_set_grh(umad, NULL));
	GIVES(-EINVAL, umad_set_addr(NULL, 1, 1, 0, 0));
	GIVES(-EINVAL, umad_set_addr_net(NULL, 1, 1, 0, 0));
	GIVES(-EINVAL, umad_set_pkey(NULL, 0));
	GIVES(-EINVAL, umad_get_pkey(NULL));
	GIVES(-EINVAL, umad_send(port, 0, NULL, ROOM, 0, 0));
	GIVES(-EINVAL, umad_recv(port, NULL, &length, 0));
	GIVES(-EINVAL, umad_recv(port, umad, NULL, 0));
	GIVES(EINVAL, umad_register2(port, NULL, &agent));
	GIVES(EINVAL, umad_register2(port, &attr, NULL));
	QUIET(umad_addr_dump(NULL));
	QUIET(umad_dump(NULL));
	QUIET(umad_free_ca_device_list(NULL));
	GIVES(EINVAL, umad_sort_ca_device_list(NULL, 0));
}

// Numbers that were a port's and an agent's, and those that never were.
static void no_port(int port, int agent)
{
	struct umad_reg_attr attr = {.mgmt_class = CLASS, .mgmt_class_version = 1};
	uint32_t got;
	int length = ROOM;

	GIVES(-EINVAL, umad_close_port(port));
	GIVES(-EINVAL, umad_get_fd(port));
	GIVES(-EINVAL, umad_poll(port, 0));
	GIVES(-EINVAL, umad_recv(port, umad, &length, 0));
	GIVES(-EINVAL, umad_recv(port, umad, &length, 10));
	GIVES(-EINVAL, umad_send(port, agent, umad, ROOM, 0, 0));
	GIVES(-EINVAL, umad_register(port, CLASS, 1, 0, NULL));
	GIVES(-EINVAL, umad_register_oui(port, 0x30, 0, NULL, NULL));
	GIVES(EINVAL, umad_register2(port, &attr, &got));
	GIVES(-EINVAL, umad_unregister(port, agent));
}

static void closed(int port)
{
	struct umad_device_node *list;
	umad_port_t its_port;
	umad_ca_t ca;
	int agent = umad_register(port, CLASS, 1, 0, NULL);

	kind = "closed";
	WORKS(umad_unregister(port, agent));
	GIVES(-EINVAL, umad_unregister(port, agent));
	GIVES(-EINVAL, umad_send(port, agent, umad, ROOM, 0, 0));
	WORKS(umad_get_ca(CARD, &ca));
	WORKS(umad_release_ca(&ca));
	WORKS(umad_release_ca(&ca));
	WORKS(umad_get_port(CARD, 1, &its_port));
	WORKS(umad_release_port(&its_port));
	WORKS(umad_release_port(&its_port));
	list = umad_get_ca_device_list();
	QUIET(umad_free_ca_device_list(list));
	QUIET(umad_free_ca_device_list(list));
	GIVES(EINVAL, umad_sort_ca_device_list(&list, 0));
	WORKS(umad_close_port(port));
	no_port(port, agent);
}

static void foreign(int port)
{
	struct umad_device_node own = {.ca_name = CARD}, *list = &own;
	int pipes[2], other = umad_open_port(CARD, 1), agent = umad_register(other, CLASS, 1, 0, NULL);
	umad_port_t its_port;
	umad_ca_t ca;
	char path[ROOM];
	__be64 guid;

	kind = "foreign";
	if (pipe(pipes))
		exit(2);
	no_port(pipes[0], 0);
	no_port(-1, 0);
	GIVES(-EINVAL, umad_send(port, agent, umad, ROOM, 0, 0));
	GIVES(-EINVAL, umad_unregister(port, agent));
	GIVES(-ENODEV, umad_open_port("mlx5_0", 1));
	GIVES(-EINVAL, umad_open_port(CARD, 9));
	GIVES(-EINVAL, umad_open_port(CARD, -1));
	GIVES(-ENODEV, umad_get_ca("mlx5_0", &ca));
	GIVES(-ENODEV, umad_get_port("mlx5_0", 1, &its_port));
	GIVES(-EINVAL, umad_get_port(CARD, 9, &its_port));
	GIVES(-ENODEV, umad_get_ca_portguids("mlx5_0", &guid, 1));
	GIVES(-ENODEV, umad_get_issm_path("mlx5_0", 1, path, ROOM));
	GIVES(-EINVAL, umad_get_issm_path(CARD, 9, path, ROOM));
	GIVES(-EINVAL, umad_register(port, 256, 1, 0, methods));
	GIVES(-EINVAL, umad_register_oui(port, CLASS, 0, NULL, methods));
	QUIET(umad_free_ca_device_list(list));
	GIVES(EINVAL, umad_sort_ca_device_list(&list, 0));
	WORKS(umad_close_port(other));
	close(pipes[0]);
	close(pipes[1]);
}

static void exhausted(int port)
{
	char path[ROOM];
	__be64 guid;
	int other;

	kind = "exhausted";
	WITHOUT_DESCRIPTORS(GIVES(-EMFILE, umad_open_port(CARD, 1)));
	other = umad_open_port(CARD, 1);
	expect("umad_open_port", other >= 0, 1, 0);
	WORKS(umad_close_port(other));
	GIVES(-ENOMEM, umad_get_ca_portguids(CARD, &guid, 1));
	GIVES(-EINVAL, umad_get_issm_path(CARD, 1, path, 1));
	GIVES(0, umad_get_cas_names((void *)path, 0));
	GIVES(-EINVAL, umad_send(port, 0, umad, 1 << 25, 0, 0));
	WITHOUT_DESCRIPTORS(GIVES(-EWOULDBLOCK, umad_recv(port, umad, (int[]){ROOM}, 0)));
	WITHOUT_DESCRIPTORS(GIVES(-ETIMEDOUT, umad_poll(port, 1)));
}

int main(void)
{
	int port = umad_open_port(CARD, 1);

	if (port < 0) {
		fprintf(stderr, "umad_open_port: %s\n", strerror(-port));
		return 2;
	}
	null_pointers(port);
	foreign(port);
	exhausted(port);
	closed(port);
	printf("%d calls, %d wrong answers\n", asked, wrong);
	return wrong != 0;
}
